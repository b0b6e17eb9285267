"""Checks how caches may keep a card: its ETag and Last-Modified, and the answers to HEAD and If-None-Match."""

from datetime import UTC, datetime, timedelta

from dealer_agent.checker.check import check, judge_each
from dealer_agent.checker.exchange import Exchange, date_of
from dealer_agent.checker.outcome import Skipped, expect, header, skip_unless, status
from dealer_agent.checker.target import Target

NOT_MODIFIED = 304
ORIGIN = "https://shopping.example"


async def _if_changed(target: Target, etag: str | None = None) -> Exchange:
    """The exchange of the question whether the card has changed. None: since it was fetched."""
    etag = skip_unless(etag or target.card.exchange.header("etag"), "The card has no ETag.")
    return await target.fetch(target.card.url, ("If-None-Match", etag))


@check("cards.etag-stable")
async def _(target: Target) -> None:
    """The card is fetched a second time. If its bytes have changed, the ETag may change too."""
    etag = target.card.exchange.header("etag")
    exchange = await target.fetch(target.card.url, fresh=True)
    if not etag or exchange.body != target.card.exchange.body:
        raise Skipped("The card has no ETag, or it has changed.")
    expect(exchange.header("etag") == etag, "The ETag of the same card has changed.", exchange)


def _is_empty(exchange: Exchange) -> bool | str:
    skip_unless(exchange.status == NOT_MODIFIED, "The agent does not answer 304.")
    return not exchange.body or "The 304 has a body."


async def _if_changed_since_two(target: Target) -> Exchange:
    """The same question with the ETag in a list, as a weak one. Skips the check if it is not compared at all."""
    skip_unless((await _if_changed(target)).status == NOT_MODIFIED, "The agent does not answer 304.")
    etag = (target.card.exchange.header("etag") or "").removeprefix("W/")
    return await _if_changed(target, f'"another-card", W/{etag}')


def _has_etag(exchange: Exchange) -> bool | str:
    skip_unless(exchange.status == NOT_MODIFIED, "The agent does not answer 304.")
    return bool(exchange.header("etag")) or "The 304 has no ETag."


async def _head(target: Target) -> Exchange:
    return await target.request("HEAD", target.card.url, headers=[("Accept", "application/json")], without_token=True)


def _is_past(exchange: Exchange) -> bool | str:
    text = skip_unless(exchange.header("last-modified"), "The card has no Last-Modified.")
    moment = date_of(exchange, "last-modified")
    latest = (date_of(exchange, "date") or datetime.now(UTC)) + timedelta(minutes=1)
    return (moment is not None and moment <= latest) or f"Last-Modified is {text!r}."


async def _fetched(target: Target) -> Exchange:
    return target.card.exchange


judge_each(
    {
        "cards.last-modified-past": (_fetched, _is_past),
        "cards.not-modified-etag": (_if_changed, _has_etag),
        "cards.head": (_head, status(200), lambda exchange: not exchange.body or "The answer to HEAD has a body."),
        "cards.not-modified": (_if_changed, status(NOT_MODIFIED)),
        "cards.not-modified-list": (_if_changed_since_two, status(NOT_MODIFIED)),
        "cards.not-modified-empty": (_if_changed, _is_empty),
        "cards.other-etag": (lambda target: _if_changed(target, '"another-card"'), status(200)),
        "cards.cross-origin": (
            lambda target: target.fetch(target.card.url, ("Origin", ORIGIN)),
            header("Access-Control-Allow-Origin", lambda value: value in ("*", ORIGIN)),
        ),
    }
)
