"""The sorts of inventory.search, recomputed from the listings."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.differences import joined
from dealer_agent.checker.fields import ORDERS, SORTS, id_of, may_be_unknown
from dealer_agent.checker.outcome import Skipped, expect
from dealer_agent.checker.searches import Page, key_of, number_of, numbers, search
from dealer_agent.checker.target import PAGE, Listing, Target
from dealer_agent.protocol.vehicle import FIELDS

Reading = Callable[[Any], Any]
"""A way to compare two values: what is compared instead of them."""


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Numbers inside a text are compared as numbers."""
    return [(0, int(each), "") if each.isdigit() else (1, 0, each) for each in re.findall(r"\d+|\D+", text.casefold())]


def value_of(listing: Listing, field: str) -> Any:
    """The value by which a listing is sorted. None if it is absent, blank, or cannot be compared."""
    value, kind = listing.get(field), FIELDS[field].value_type
    if kind is str:
        return value if forms.name(value) else None
    if kind is datetime:
        try:
            return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return number_of(listing, field)


def in_order(order: str, first: Any, second: Any) -> bool:
    """Whether `first` may come before `second`. Texts may be compared in any of the usual ways."""
    if order == "desc":
        first, second = second, first
    readings: Sequence[Reading] = (str.casefold, str, joined, _natural) if isinstance(first, str) else (float,)
    return any(reading(first) <= reading(second) for reading in readings)


async def sorted_page(target: Target, field: str, order: str) -> Page:
    """The first page of the stock in an order."""
    return await search(target, sort={"field": field, "order": order}, pagination={"skip": 0, "limit": PAGE})


@check_each({f"sort.{id_of(field)}-{order}": (field, order) for field in SORTS for order in ORDERS})
async def _(target: Target, field: str, order: str) -> None:
    listings = [each for each in await target.some_listings() if value_of(each, field) is not None]
    if len({value_of(each, field) for each in listings}) < 2:
        raise Skipped(f"No two listings have different values of {field}.")
    page = await sorted_page(target, field, order)
    known = [each for each in page.vehicles if value_of(each, field) is not None]
    # Vehicles of later pages do not belong before the last one of this page.
    later = [each for each in listings if key_of(each) not in set(page.keys)] if known else []
    for first, second in (*pairwise(known), *((known[-1], each) for each in later)):
        expect(
            in_order(order, value_of(first, field), value_of(second, field)),
            f"Sorted by {field} {order}, {first.get(field)!r} comes before {second.get(field)!r}.",
        )


@check_each(
    {
        f"sort-absent.{id_of(field)}-{order}": (field, order)
        for field in filter(may_be_unknown, SORTS)
        for order in ORDERS
    }
)
async def _(target: Target, field: str, order: str) -> None:
    listings = await target.some_listings()
    absent = sum(each.get(field) is None for each in listings)
    if any(each.get(field) is not None and value_of(each, field) is None for each in listings):
        raise Skipped(f"A listing has a malformed {field}.")
    if not target.stock.complete:
        raise Skipped("The stock is too large to know which listings have no value.")
    if absent in (0, len(listings)):
        raise Skipped(f"The stock does not have listings with and without {field}.")
    page = await sorted_page(target, field, order)
    early = [key_of(each) for each in page.vehicles[: len(listings) - absent] if each.get(field) is None]
    expect(not early, f"Sorted by {field} {order}, {early and early[0]} comes before others and has no {field}.")


@check("sort.with-filters")
async def _(target: Target) -> None:
    year = max(map(int, numbers(await target.having("year"), "year")))
    by_year = {"field": "year", "order": "desc"}
    page = await search(target, filters={"year_max": year - 1}, sort=by_year, pagination={"skip": 0, "limit": PAGE})
    years = numbers(page.vehicles, "year")
    if len(set(years)) < 2:
        raise Skipped("No two vehicles of older years have different years.")
    expect(years == sorted(years, reverse=True), "With a filter on years, the sort by year does not apply.")
    expect(years[0] < year, "With a sort by year, the filter on years does not apply.")
