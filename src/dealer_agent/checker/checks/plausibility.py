"""Checks that no response has what cannot be: times in the future, a price of 0, blank texts, hours that end early."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.exchange import Exchange, at, date_of, dicts
from dealer_agent.checker.outcome import Judgement, conclude, expect, skip_unless
from dealer_agent.checker.reply import data_of, is_answered
from dealer_agent.checker.searches import key_of
from dealer_agent.checker.target import Listing, Target

CLOCKS_DIFFER = timedelta(minutes=10)
SECOND, LONGEST_IMPORT = timedelta(seconds=1), 3
PLACEHOLDERS = ("null", "none", "undefined", "nan", "[object object]", "n/a", "#n/a", "tbd", "todo")
MARKUP = re.compile(r"</?[a-z][^<>]*>|&(?:amp|nbsp|quot|lt|gt|#\d+);", re.IGNORECASE)
TEXTS = ("make", "model", "trim", "body", "exterior_color", "interior_color", "rooftop", "engine")
"""Members that are shown as they are."""


def _now(exchange: Exchange | None) -> datetime:
    """The later time of this machine and of the target."""
    now = datetime.now(UTC)
    said = None if exchange is None else date_of(exchange)
    return max(now, said or now)


def _moments(listing: Listing) -> Iterator[tuple[str, datetime]]:
    for name in ("updated_at", "changed_at"):
        if forms.moment(listing.get(name)):
            yield name, datetime.fromisoformat(str(listing[name]).upper().replace("Z", "+00:00"))


@check("listing.times-past")
async def _(target: Target) -> None:
    listings = await target.some_listings()
    latest = _now(target.latest) + CLOCKS_DIFFER
    for each in listings:
        for name, moment in _moments(each):
            expect(moment <= latest, f"{key_of(each)}: `{name}` is {each[name]}, which is in the future.")


@check("listing.updated-at-kept", last=True)
async def _(target: Target) -> None:
    """Fails if all vehicles of each page have the time of the response, for longer than the import of a feed lasts.

    Servers write the header Date once in a second or two.
    """
    await target.some_listings()
    times: list[float] = []
    for exchange in target.posted:
        if at(target.asked(exchange), "type") == "inventory.search.request" and is_answered(exchange):
            listings = dicts(data_of(exchange).get("vehicles"))
            moments = [moment for each in listings for name, moment in _moments(each) if name == "updated_at"]
            now = skip_unless(date_of(exchange), "A response has no header Date.")
            if not all(-SECOND <= moment - now <= 2 * SECOND for moment in moments):
                return
            times += [now.timestamp()] if moments else []
    lasted = max(times, default=0) - min(times, default=0)
    expect(lasted <= LONGEST_IMPORT, "`updated_at` of each listing is the time of its response.")


def _named(node: Any, part: str) -> Iterator[tuple[str, Any]]:
    """The members of all depths whose names contain a word."""
    for name, value in node.items() if isinstance(node, dict) else ():
        if part in name.casefold():
            yield name, value
        yield from _named(value, part)
    for each in node if isinstance(node, list) else ():
        yield from _named(each, part)


@check("listing.currency", last=True)
async def _(target: Target) -> None:
    """A currency may be at any depth of any response."""
    await target.some_listings()
    for exchange in (each for each in target.posted if b"urrency" in each.body):
        for name, value in _named(exchange.json, "currency"):
            good = str(value).upper() in ("USD", "US$", "$")
            expect(good, f"`{name}` is {value!r}, and prices are in US dollars.", exchange)


def _is_not_zero(*names: str) -> Judgement:
    def judge(listing: Listing) -> bool | str:
        zero = [name for name in names if listing.get(name) == 0]
        return not zero or f"`{zero[0]}` is 0."

    return judge


def _texts(listing: Listing) -> bool | str:
    for name, value in listing.items():
        if isinstance(value, str) and (not value.strip() or value.strip().casefold() in PLACEHOLDERS):
            return f"`{name}` is {value!r}."
    return True


def _plain(listing: Listing) -> bool | str:
    marked = [name for name in TEXTS if isinstance(listing.get(name), str) and MARKUP.search(listing[name])]
    return not marked or f"`{marked[0]}` is {listing[marked[0]]!r}, with markup of HTML."


@check_each(
    {
        "listing.price-zero": _is_not_zero("price"),
        "listing.amount-zero": _is_not_zero("list_price", "msrp"),
        "listing.no-blank": _texts,
        "listing.plain-text": _plain,
    }
)
async def _(target: Target, judgement: Judgement) -> None:
    for each in await target.some_listings():
        judged = judgement(each)
        expect(judged is True, f"{key_of(each)[:100]}: {judged}")


@check("listing.one-stock")
async def _(target: Target) -> None:
    counts = Counter((str(each.get("rooftop")), str(each["stock"])) for each in await target.having("stock"))
    twice = next((key for key, count in counts.items() if count > 1), None)
    expect(twice is None, f"Two listings of one rooftop have the stock number {twice and twice[1]}.")


# dealer.information


async def _information(target: Target) -> Listing:
    return await target.ask("dealer.information")


@check("information.hours-order")
async def _(target: Target) -> None:
    """Hours that end when they begin could mean a closed day, or the whole day."""
    rooftops = dicts((await _information(target)).get("rooftops"))
    weeks = [week.get("value") for each in rooftops for week in dicts(each.get("schedules"))]
    days = [(day, hours) for week in weeks if isinstance(week, dict) for day, hours in week.items()]
    known = [(day, each) for day, each in days if isinstance(each, dict) and forms.clock(each.get("open"))]
    for day, hours in skip_unless(known, "No rooftop has hours."):
        same = hours.get("close") == hours["open"]
        expect(not same, f"The hours of {day} begin and end at {hours['open']}.")


@check("information.same-twice")
async def _(target: Target) -> None:
    first = await _information(target)
    for _ in range(3):
        exchange = await target.send(target.payload("dealer.information"), fresh=True)
        same = {**data_of(exchange), "welcome_message": ""} == {**first, "welcome_message": ""}
        conclude(same or "The same request gets another answer.", exchange)
