"""The sorts of inventory.search, recomputed from the listings."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, Skipped, check, expect
from dealer_agent.checker.differences import joined
from dealer_agent.checker.searches import PAGE, Listing, Page, key_of, number_of, search
from dealer_agent.checker.target import Target

SORTS = ("price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at")
ORDERS = ("asc", "desc")
_TEXTS = ("make", "model", "stock")

Reading = Callable[[Any], Any]
"""A way to compare two values: what is compared instead of them."""


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers inside a text are compared as numbers."""
    return [(0, int(each), "") if each.isdigit() else (1, 0, each) for each in re.findall(r"\d+|\D+", text.casefold())]


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def value_of(listing: Listing, field: str) -> Any:
    """The value by which a listing is sorted. None if it is absent, blank, or cannot be compared."""
    if field in _TEXTS:
        return listing.get(field) if forms.name(listing.get(field)) else None
    if field == "updated_at":
        try:
            return _moment(str(listing.get(field)))
        except ValueError:
            return None
    return number_of(listing, field)


def in_order(field: str, order: str, first: Any, second: Any) -> bool:
    """Whether `first` may come before `second`. Texts may be compared in any of the usual ways."""
    if order == "desc":
        first, second = second, first
    readings: Sequence[Reading] = (str.casefold, str, joined, _natural) if field in _TEXTS else (float,)
    return any(reading(first) <= reading(second) for reading in readings)


async def sorted_page(target: Target, field: str, order: str) -> Page:
    """The first page of the stock in an order."""
    return await search(target, sort={"field": field, "order": order}, pagination={"skip": 0, "limit": PAGE})


def _sort(field: str, order: str) -> CheckFunction:
    async def run(target: Target) -> None:
        listings = await target.material.some_listings()
        if len({value for each in listings if (value := value_of(each, field)) is not None}) < 2:
            raise Skipped(f"No two listings have different values of {field}.")
        page = await sorted_page(target, field, order)
        known = [each for each in page.vehicles if value_of(each, field) is not None]
        for first, second in pairwise(known):
            ok = in_order(field, order, value_of(first, field), value_of(second, field))
            expect(ok, _sentence(field, order, first, second), target)
        # Vehicles of later pages do not belong before the last one of this page.
        on_page = set(page.keys)
        for each in listings:
            if known and value_of(each, field) is not None and key_of(each) not in on_page:
                ok = in_order(field, order, value_of(known[-1], field), value_of(each, field))
                expect(ok, _sentence(field, order, known[-1], each), target)

    return run


def _sentence(field: str, order: str, first: Listing, second: Listing) -> str:
    return f"Sorted by {field} {order}, {first.get(field)!r} comes before {second.get(field)!r}."


def _absent_last(field: str, order: str) -> CheckFunction:
    async def run(target: Target) -> None:
        listings = await target.material.some_listings()
        absent = sum(each.get(field) is None for each in listings)
        if any(each.get(field) is not None and value_of(each, field) is None for each in listings):
            raise Skipped(f"A listing has a malformed {field}.")
        if not target.material.complete:
            raise Skipped("The stock is too large to know which listings have no value.")
        if absent in (0, len(listings)):
            raise Skipped(f"The stock does not have listings with and without {field}.")
        page = await sorted_page(target, field, order)
        known = len(listings) - absent
        early = next((each for each in page.vehicles[:known] if each.get(field) is None), None)
        expect(
            early is None,
            f"Sorted by {field} {order}, {early and key_of(early)} comes before others and has no {field}.",
            target,
        )

    return run


for _field in SORTS:
    for _order in ORDERS:
        check(f"sort.{_field.replace('_', '-')}-{_order}")(_sort(_field, _order))
        if _field in ("price", "list_price", "msrp", "mileage"):
            check(f"sort-absent.{_field.replace('_', '-')}-{_order}")(_absent_last(_field, _order))


@check("sort.keeps-all")
async def keeps_all(target: Target) -> None:
    """A sort leaves out no vehicle, not even one without a value."""
    plain = await search(target, pagination={"skip": 0, "limit": PAGE})
    page = await sorted_page(target, "price", "asc")
    expect(
        page.total == plain.total, f"Sorted by price, {page.total} vehicles are found, and else {plain.total}.", target
    )


@check("sort.with-filters")
async def with_filters(target: Target) -> None:
    """A sort applies to the vehicles that match."""
    listings = await target.material.having("year")
    year = max(int(each["year"]) for each in listings if number_of(each, "year") is not None)
    page = await search(
        target,
        filters={"year_max": year - 1},
        sort={"field": "year", "order": "desc"},
        pagination={"skip": 0, "limit": PAGE},
    )
    years = [number for each in page.vehicles if (number := number_of(each, "year")) is not None]
    if len(set(years)) < 2:
        raise Skipped("No two vehicles of older years have different years.")
    expect(years == sorted(years, reverse=True), "With a filter on years, the sort by year does not apply.", target)
    expect(years[0] < year, "With a sort by year, the filter on years does not apply.", target)
