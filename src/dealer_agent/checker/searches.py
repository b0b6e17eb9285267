"""Pages of searches, filters chosen from the stock, and how a filtered answer is judged against its listings."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.differences import LONGEST_WORD, are_clearly_different, typical_value
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.fields import RANGE_FILTERS, TRUE_FILTERS, WORD_FILTERS, is_searchable
from dealer_agent.checker.outcome import Skipped, expect, skip_unless
from dealer_agent.checker.target import PAGE, Listing, Target

MAX = sys.float_info.max
"""The largest number that a check compares."""

Matches = Callable[[Listing], bool | None]
"""Whether a listing must be found (True), must not be found (False), or may be (None)."""

Case = tuple[dict[str, Any], Matches]
"""Filters, and which listings they must find."""


@dataclass(frozen=True)
class ReadPage:
    """The response to a search. `total` is an integer or None. `vehicles` are the entries that are objects."""

    data: dict[str, Any]
    total: int | None
    vehicles: list[Listing]

    @property
    def keys(self) -> list[str]:
        """The key of each vehicle."""
        return [key_of(each) for each in self.vehicles]


async def search(target: Target, **members: Any) -> ReadPage:
    """The page for a search. Raises Failed if it is refused."""
    data = await target.ask("inventory.search", **members)
    return ReadPage(data, forms.whole_number(data.get("total")), dicts(data.get("vehicles")))


async def filtered(target: Target, filters: Mapping[str, Any]) -> ReadPage:
    """The first page of a search with filters."""
    return await search(target, filters=dict(filters), pagination={"skip": 0, "limit": PAGE})


async def identified(target: Target, member: str) -> list[Listing]:
    """The listings that can be asked for by an identifier: a VIN of the right form, a short stock number or id.

    Skips the check if there is none.
    """
    form = forms.vin if member == "vin" else lambda value: forms.name(value) and len(value) <= LONGEST_WORD
    listings = [each for each in await target.having(member) if form(each[member])]
    return skip_unless(listings, f"No listing has a {member} by which it can be asked for.")


def spread(listings: Iterable[Listing], member: str, most: int) -> list[Listing]:
    """Some of the listings that have a text as a member.

    They are chosen by a hash, so that they share nothing: each tenth one could have a number that ends with one digit.
    """
    return sorted(listings, key=lambda each: sha256(str(each[member]).encode()).digest())[:most]


def key_of(listing: Listing) -> str:
    """What identifies a listing within a stock: its id, or else its VIN, its stock number, or all of it."""
    for member in ("vehicle_id", "vin", "stock"):
        if isinstance(listing.get(member), str):
            return f"{member} {listing[member]}"
    return json.dumps(listing, sort_keys=True)


def number_of(listing: Listing, member: str) -> float | int | None:
    """A number of a listing. None if it is absent, not a number, or larger than a double can hold."""
    value = listing.get(member)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX else None


def numbers(listings: Iterable[Listing], member: str) -> list[float | int]:
    """The numbers of a member that listings have."""
    return [value for each in listings if (value := number_of(each, member)) is not None]


def shown(filters: Mapping[str, Any]) -> str:
    """Filters as text for a sentence."""
    return json.dumps(dict(filters), ensure_ascii=False)[:200]


async def expect_matching(target: Target, filters: Mapping[str, Any], matches: Matches) -> None:
    """The first page of a search has the listings that match and no other."""
    listings = await target.some_listings()
    page = await filtered(target, filters)
    wrong = next((each for each in page.vehicles if matches(each) is False), None)
    expect(
        wrong is None,
        f"The search with {shown(filters)} returns a vehicle that does not match: {wrong and key_of(wrong)}.",
    )
    if page.total is None:
        raise Skipped("The response has no total.")
    await expect_number(target, page.total, filters, matches)
    if page.total <= len(page.vehicles) and target.stock.is_complete:
        missing = {key_of(each) for each in listings if matches(each) is True} - set(page.keys)
        sentence = f"The search with {shown(filters)} does not return {min(missing, default='')}, which matches."
        expect(not missing, sentence)


async def expect_number(target: Target, number: int, filters: Mapping[str, Any], matches: Matches) -> None:
    """The number of vehicles that filters find is possible for the listings of the stock."""
    listings = await target.listings()
    least = sum(matches(each) is True for each in listings)
    most = sum(matches(each) is not False for each in listings)
    expect(
        number >= least,
        f"With {shown(filters)}, {number} vehicles match, and not the {least} listings that do.",
    )
    if target.stock.is_complete:
        expect(
            number <= most,
            f"With {shown(filters)}, {number} vehicles match, although only {most} listings can.",
        )


def word_matches(member: str, wanted: Sequence[str], listing: Listing) -> bool | None:
    """Whether a listing must, must not or may match a list of words."""
    value = listing.get(member)
    if value is None:
        # `filter.vehicle-type-absent` and `listing.has-rooftop` judge these.
        return None if member in ("vehicle_type", "rooftop") else False
    if value in wanted:
        return True
    return False if all(are_clearly_different(member, value, each) for each in wanted) else None


def range_matches(name: str, end: float, listing: Listing) -> bool | None:
    """Whether a listing must, must not or may match a minimum or maximum. `range.absent` judges absent values."""
    value = number_of(listing, RANGE_FILTERS[name])
    if value is None:
        return None
    return value >= end if name.endswith("_min") else value <= end


async def word_of(target: Target, name: str, most: int = PAGE) -> str:
    """A word to filter by, if possible one that at most `most` listings have. Skips the check if the stock has none."""
    member = WORD_FILTERS[name]
    listings = [each for each in await target.some_listings() if is_searchable(member, each.get(member))]
    word = typical_value(member, listings, most)
    return skip_unless(word, f"No two listings have clearly different values of {member}.")


async def two_words_of(target: Target, name: str) -> Case:
    """A filter by two words: a usual one, and one that is clearly different. Skips the check if the stock has none."""
    member = WORD_FILTERS[name]
    first = await word_of(target, name, PAGE // 2)
    others = [
        each
        for each in await target.listings()
        if isinstance(each.get(member), str)
        and is_searchable(member, each[member])
        and are_clearly_different(member, each[member], first)
    ]
    second = typical_value(member, others, PAGE // 2) or str(others[0][member])
    words = [first, second]
    return {name: words}, lambda each: word_matches(member, words, each)


async def end_of(target: Target, name: str) -> int:
    """A minimum or maximum that some listings match and others do not: the value of a listing.

    Skips the check if the stock has none.
    """
    member = RANGE_FILTERS[name]
    values = sorted(set(numbers(await target.having(member), member)))
    whole = [int(value) for value in values if (forms.year if member == "year" else forms.whole)(value)]
    inner = [each for each in whole if (values[0] < each if name.endswith("_min") else each < values[-1])]
    return skip_unless(inner, f"No two listings have different values of {member}.")[len(inner) // 2]


async def filter_of(target: Target, name: str) -> Case:
    """A filter with a value of the stock, and which listings match it. Skips the check if the stock has none."""
    if name in WORD_FILTERS:
        word = await word_of(target, name)
        return {name: [word]}, lambda each: word_matches(WORD_FILTERS[name], [word], each)
    if name in RANGE_FILTERS:
        end = await end_of(target, name)
        return {name: end}, lambda each: range_matches(name, end, each)
    if name in TRUE_FILTERS:
        skip_unless(
            [each for each in await target.some_listings() if each.get(name) is True], f"No listing has {name}."
        )
        return {name: True}, lambda each: each.get(name) is True
    listings = await identified(target, name)
    return exact_filter(name, str(listings[len(listings) // 2][name]))


def exact_filter(name: str, wanted: str) -> Case:
    """A filter by a VIN or a stock number, and which listings match it."""

    def matches(each: Listing) -> bool | None:
        value = each.get(name) or ""
        return True if value == wanted else False if not value or are_clearly_different(name, value, wanted) else None

    return {name: wanted}, matches
