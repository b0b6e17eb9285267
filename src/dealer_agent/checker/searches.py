"""Pages of searches, read leniently, and how a filtered answer is judged against the listings of the whole stock."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.differences import LONGEST_WORD
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.outcome import Skipped, expect
from dealer_agent.checker.target import PAGE, Listing, Target

Matches = Callable[[Listing], bool | None]
"""Whether a listing must be found (True), must not be found (False), or may be (None)."""


@dataclass(frozen=True)
class Page:
    """The response to a search. `total` is an integer or None. `vehicles` are the entries that are objects."""

    data: dict[str, Any]
    total: int | None
    vehicles: list[Listing]

    @property
    def keys(self) -> list[str]:
        """The key of each vehicle."""
        return [key_of(each) for each in self.vehicles]


async def search(target: Target, **members: Any) -> Page:
    """The page for a search. Raises Failed if it is refused."""
    data = await target.ask("inventory.search", **members)
    return Page(data, forms.whole_number(data.get("total")), dicts(data.get("vehicles")))


async def filtered(target: Target, filters: Mapping[str, Any], **members: Any) -> Page:
    """The first page of a search with filters."""
    return await search(target, filters=dict(filters), pagination={"skip": 0, "limit": PAGE}, **members)


async def identified(target: Target, member: str) -> list[Listing]:
    """The listings that can be asked for by an identifier: a VIN of the right form, a short stock number or id.

    Skips the check if there is none.
    """
    form = forms.vin if member == "vin" else lambda value: forms.name(value) and len(value) <= LONGEST_WORD
    found = [each for each in await target.having(member) if form(each[member])]
    if not found:
        raise Skipped(f"No listing has a {member} by which it can be asked for.")
    return found


def key_of(listing: Listing) -> str:
    """What identifies a listing within a stock: its id, or else its VIN, its stock number, or all of it."""
    for member in ("vehicle_id", "vin", "stock"):
        if isinstance(listing.get(member), str):
            return f"{member} {listing[member]}"
    return json.dumps(listing, sort_keys=True)


def number_of(listing: Listing, member: str) -> float | int | None:
    """A number of a listing. None if it is absent or no number."""
    value = listing.get(member)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def numbers(listings: Iterable[Listing], member: str) -> list[float | int]:
    """The numbers of a member that listings have."""
    return [value for each in listings if (value := number_of(each, member)) is not None]


def shown(filters: Mapping[str, Any]) -> str:
    """Filters as text for a sentence."""
    return json.dumps(dict(filters), ensure_ascii=False)[:200]


async def expect_matching(target: Target, filters: Mapping[str, Any], matches: Matches, **members: Any) -> Page:
    """The first page of a search, which has the listings that match and no other."""
    await target.some_listings()
    page = await filtered(target, filters, **members)
    wrong = next((each for each in page.vehicles if matches(each) is False), None)
    expect(
        wrong is None,
        f"The search with {shown(filters)} returns a vehicle that does not match: {wrong and key_of(wrong)}.",
    )
    if page.total is None:
        raise Skipped("The response has no total.")
    await expect_number(target, page.total, filters, matches)
    if page.total <= len(page.vehicles) and target.stock.complete:
        found = set(page.keys)
        for each in await target.listings():
            expect(
                matches(each) is not True or key_of(each) in found,
                f"The search with {shown(filters)} does not return {key_of(each)}, which matches.",
            )
    return page


async def expect_number(target: Target, number: int, filters: Mapping[str, Any], matches: Matches) -> None:
    """The number of vehicles that filters find is possible for the listings of the stock."""
    listings = await target.listings()
    least = sum(matches(each) is True for each in listings)
    most = sum(matches(each) is not False for each in listings)
    expect(
        number >= least,
        f"With {shown(filters)}, {number} vehicles match, and not the {least} listings that do.",
    )
    if target.stock.complete:
        expect(
            number <= most,
            f"With {shown(filters)}, {number} vehicles match, although only {most} listings can.",
        )
