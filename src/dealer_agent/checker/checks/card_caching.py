"""How caches may keep a card."""

import re

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.cards import CARD_HEADERS
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Target

NOT_MODIFIED = 304


async def _card_again(target: Target, *headers: tuple[str, str], fresh: bool = False) -> Exchange:
    sent = (*CARD_HEADERS, *headers)
    return await target.request("GET", target.card.url, headers=sent, fresh=fresh, without_token=True)


def _etag(target: Target) -> str:
    found = target.card.exchange.header("etag")
    if not found:
        raise Skipped("The card has no ETag.")
    return found


@check("cards.cache-control")
async def caches_may_keep_the_card(target: Target) -> None:
    """Looks at the headers of the card."""
    found = target.card.exchange.header("cache-control") or ""
    expect(re.search(r"max-age=\d", found), f"Cache-Control is {found or 'absent'}.", target.card.exchange)


@check("cards.etag")
async def the_card_has_an_etag(target: Target) -> None:
    """Looks at the headers of the card."""
    found = target.card.exchange.header("etag") or ""
    expect(re.fullmatch(r'(W/)?"[^"]*"', found), f"ETag is {found or 'absent'}.", target.card.exchange)


@check("cards.etag-stable")
async def the_etag_stays(target: Target) -> None:
    """Fetches the card again."""
    etag = _etag(target)
    exchange = await _card_again(target, fresh=True)
    if exchange.body != target.card.exchange.body:
        raise Skipped("The card has changed.")
    expect(exchange.header("etag") == etag, "The ETag of the same card has changed.", exchange)


@check("cards.not-modified")
async def an_unchanged_card_has_304(target: Target) -> None:
    """Asks whether the card has changed."""
    exchange = await _card_again(target, ("If-None-Match", _etag(target)))
    expect(exchange.status == NOT_MODIFIED, f"The status is {exchange.status}, not 304.", exchange)


@check("cards.not-modified-empty")
async def a_304_has_no_body(target: Target) -> None:
    """Asks whether the card has changed."""
    exchange = await _card_again(target, ("If-None-Match", _etag(target)))
    if exchange.status != NOT_MODIFIED:
        raise Skipped("The agent does not answer 304.")
    expect(not exchange.body, "The 304 has a body.", exchange)


@check("cards.other-etag")
async def a_changed_card_is_sent(target: Target) -> None:
    """Asks with another ETag."""
    exchange = await _card_again(target, ("If-None-Match", '"another-card"'))
    expect(exchange.status == 200, f"The status is {exchange.status}, not 200.", exchange)


@check("cards.last-modified")
async def the_card_has_a_date(target: Target) -> None:
    """Looks at the headers of the card."""
    expect(target.card.exchange.header("last-modified"), "The card has no Last-Modified.", target.card.exchange)


@check("cards.cross-origin")
async def pages_may_read_the_card(target: Target) -> None:
    """Fetches the card as a page of another origin does."""
    exchange = await _card_again(target, ("Origin", "https://shopping.example"))
    found = exchange.header("access-control-allow-origin")
    expect(found in ("*", "https://shopping.example"), "No other origin may read the card.", exchange)
