"""Checks the response of inventory.search: totals, pages, what it repeats of the request, and sorts."""

import json
from collections import Counter
from itertools import pairwise, product
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import Probe, check, check_each, judge_each
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.fields import ORDERS, SORTS, id_of, may_be_unknown
from dealer_agent.checker.forms import whole
from dealer_agent.checker.oracle import is_in_order, value_of
from dealer_agent.checker.outcome import Judgement, Skipped, expect, has, skip_unless
from dealer_agent.checker.reply import data_of, is_answered
from dealer_agent.checker.searches import ReadPage, key_of, numbers, search, shown
from dealer_agent.checker.target import PAGE, Target

_FIRST = {"pagination": {"skip": 0, "limit": PAGE}}
_FORM = {"pagination": {"skip": 0, "limit": 9}}
_ECHO = {"pagination": {"skip": 3, "limit": 5}}
_BEYOND = {"pagination": {"skip": 10_000_000, "limit": 10}}
_ORDER = {"field": "year", "order": "desc"}
_PAGES = 4
"""How many small pages are compared with a large one."""


def _page(**members: Any) -> Probe:
    return lambda target: search(target, **members)


def _data(judgement: Judgement) -> Judgement:
    return lambda page: judgement(page.data)


def _has_all(*names: str) -> Judgement:
    return lambda page: all(whole(page.data.get(name)) for name in names) or f"There is no {' or '.join(names)}."


def _echoes_skip(page: ReadPage) -> bool | str:
    skip_unless("skip" in page.data, "The response has no skip.")
    return has("skip", forms.one_of(3), "not 3")(page.data)


def _limit_of(page: ReadPage) -> int:
    limit = page.data.get("limit")
    skip_unless(whole(limit), "The response has no limit.")
    return int(limit or 0)


def _echoes_limit(page: ReadPage) -> bool | str:
    return 1 <= _limit_of(page) <= 5 or f"limit is 5 in the request and {_limit_of(page)} in the response."


def _is_full(page: ReadPage) -> bool | str:
    limit = page.data.get("limit", 4)
    if page.total is None or not whole(limit):
        raise Skipped("The response has no total, or its limit is not a whole number.")
    most = max(0, min(limit, page.total - 1))
    return len(page.vehicles) >= most or f"A page of {most} vehicles has {len(page.vehicles)}."


def _has_at_most(most: int) -> Judgement:
    return lambda page: len(page.vehicles) <= most or f"The page has {len(page.vehicles)} of {most} vehicles."


judge_each(
    {
        "search.total": (_page(**_FORM), _data(has("total", whole))),
        "search.vehicles": (_page(**_FORM), _data(has("vehicles", forms.array_of(forms.an_object)))),
        "search.echo": (_page(**_FORM), _has_all("skip", "limit")),
        "search.skip-echo": (_page(**_ECHO), _echoes_skip),
        "search.limit-echo": (_page(**_ECHO), _echoes_limit),
        "search.largest-limit-echo": (
            _page(pagination={"limit": 999}),
            lambda page: _has_at_most(_limit_of(page))(page),
        ),
        "search.page-size": (_page(pagination={"skip": 0, "limit": 2}), _has_at_most(2)),
        "search.page-full": (_page(pagination={"skip": 1, "limit": 4}), _is_full),
        "search.default-limit": (_page(), _has_at_most(50)),
        "search.skip-past-end": (_page(**_BEYOND), _has_at_most(0)),
    }
)


@check_each(
    {
        "search.skip-past-end-total": (_BEYOND, _FIRST),
        "search.total-of-pages": ({"pagination": {"skip": 2, "limit": 3}}, _FIRST),
        "privacy.same-answer": (
            {"privacy": {"anonymous": True}, "pagination": {"limit": 5}},
            {"privacy": {"anonymous": False}, "pagination": {"limit": 5}},
        ),
    }
)
async def _(target: Target, one: dict[str, Any], other: dict[str, Any]) -> None:
    total, other_total = (await search(target, **one)).total, (await search(target, **other)).total
    expect(total == other_total, f"{shown(one)} finds {total} vehicles, and {shown(other)} {other_total}.")


@check("sort.keeps-all")
async def _(target: Target) -> None:
    total = (await search(target, **_FIRST)).total
    for field, order in product(SORTS, ORDERS):
        sorted_total = (await sorted_page(target, field, order)).total
        expect(sorted_total == total, f"Sorted by {field} {order}, there are {sorted_total} of {total} vehicles.")


@check("search.same-found")
async def _(target: Target) -> None:
    """The order does not matter here. Two vehicles may have one key: another check fails for that."""
    first = await search(target, **_FIRST)
    for _ in range(2):
        exchange = await target.send(target.payload("inventory.search", **_FIRST), fresh=True)
        total, keys = data_of(exchange).get("total"), {*map(key_of, dicts(data_of(exchange).get("vehicles")))}
        same = total == first.total and (len(first.vehicles) != total or keys == {*first.keys})
        expect(same, f"The same search finds {first.total} vehicles, and then {total}, or other ones.", exchange)


@check("search.limit-echo-of-pages")
async def _(target: Target) -> None:
    """The second page is beyond the end of any stock."""
    limits = [_limit_of(await search(target, pagination={"skip": skip, "limit": 3})) for skip in (0, 10_000_000)]
    expect(
        limits[0] == limits[1],
        f"For the limit 3, the response says {limits[0]} on a full page and {limits[1]} on an empty one.",
    )


@check("search.type-only")
async def _(target: Target) -> None:
    page = await search(target)
    listings = await target.listings()
    expect(page.vehicles or not listings, "A search without filters finds nothing.")
    expect(page.total == target.stock.total, f"A search without filters has the total {page.total}.")


@check("search.default-skip")
async def _(target: Target) -> None:
    page = await search(target, pagination={"limit": 6})
    skip = page.data.get("skip", 0)
    same = page.keys == (await search(target, pagination={"skip": skip, "limit": 6})).keys
    expect(same, f"A search without `skip` says that its page begins at skip {skip}, and a search with it has another.")


@check("search.one-default", last=True)
async def _(target: Target) -> None:
    """Searches without `limit` are compared, after one of this check."""
    await search(target)
    limits: dict[Any, Exchange] = {}
    for exchange in target.posted:
        payload = target.asked(exchange)
        is_search = at(payload, "type") == "inventory.search.request" and at(payload, "pagination.limit") is None
        if is_search and is_answered(exchange) and (limit := data_of(exchange).get("limit")) is not None:
            limits.setdefault(str(limit), exchange)
    found, shows = " and ".join(limits), next(reversed(limits.values()), None)
    expect(len(limits) < 2, f"Searches without limit have the limits {found}.", shows)


@check("search.skip-alone")
async def _(target: Target) -> None:
    """The page is compared with one from the beginning, as far as both go."""
    expected = (await search(target, **_FORM)).keys[4:]
    found = (await search(target, pagination={"skip": 4})).keys
    same = all(first == second for first, second in zip(expected, found, strict=False)) and (found or not expected)
    expect(same, "With skip 4 and no limit, the page does not begin at the fifth vehicle.")


@check("search.last-vehicle")
async def _(target: Target) -> None:
    """The page may have ten vehicles, so only the position bounds it."""
    count = (await search(target, **_FIRST)).total or 0
    skip_unless(count, "The stock is empty.")
    number = len((await search(target, pagination={"skip": count - 1, "limit": 10})).vehicles)
    expect(number == 1, f"With skip {count - 1} and a total of {count}, the page has {number} vehicles, not 1.")


async def _small_pages(target: Target, size: int, **members: Any) -> list[str]:
    """The keys of the vehicles of some small pages."""
    skips = [size * number for number in range(_PAGES)]
    pages = [await search(target, pagination={"skip": skip, "limit": size}, **members) for skip in skips]
    return [key for each in pages for key in each.keys]


@check("search.pages-differ")
async def _(target: Target) -> None:
    """Small pages are read one after the other without a sort. The listings were read in the same way."""
    keys = await _small_pages(target, 5)
    twice = next((key for key in keys if keys.count(key) > 1), None)
    expect(twice is None, f"Pages of 5 vehicles have {twice} twice.")
    # Two vehicles with one id are the subject of `listing.one-vehicle-id`.
    counts = Counter(json.dumps(each, sort_keys=True) for each in await target.listings())
    again = next((json.loads(text) for text, count in counts.items() if count > 1), None)
    expect(again is None, f"Pages of {PAGE} vehicles have {again and key_of(again)} twice.")


@check("search.pages-in-order")
async def _(target: Target) -> None:
    """Both orders are compared as far as both go."""
    await target.some_listings()
    large = (await search(target, sort=_ORDER, pagination={"skip": 0, "limit": 3 * _PAGES})).keys
    small = await _small_pages(target, 3, sort=_ORDER)
    # A dealer may have fewer vehicles, or a lower limit.
    same = all(first == second for first, second in zip(large, small, strict=False)) and bool(small) == bool(large)
    expect(same, "Pages of 3 vehicles do not have the vehicles of a larger page in its order.")


@check("search.same-twice")
async def _(target: Target) -> None:
    members = {"pagination": {"skip": 0, "limit": 7}}
    first = await search(target, **members)
    exchange = await target.send(target.payload("inventory.search", **members), fresh=True)
    again = [key_of(each) for each in dicts(data_of(exchange).get("vehicles"))]
    expect(again == first.keys, "The same search returns other vehicles the second time.")


# Sorts


async def sorted_page(target: Target, field: str, order: str) -> ReadPage:
    """The first page of the stock in an order."""
    return await search(target, sort={"field": field, "order": order}, pagination={"skip": 0, "limit": PAGE})


@check_each({f"sort.{id_of(field)}-{order}": (field, order) for field in SORTS for order in ORDERS})
async def _(target: Target, field: str, order: str) -> None:
    """Vehicles without a value are left out: their place has a check of its own."""
    listings = [each for each in await target.some_listings() if value_of(each, field) is not None]
    if len({value_of(each, field) for each in listings}) < 2:
        raise Skipped(f"No two listings have different values of {field}.")
    page = await sorted_page(target, field, order)
    known = [each for each in page.vehicles if value_of(each, field) is not None]
    # Vehicles of later pages do not belong before the last one of this page.
    later = [each for each in listings if key_of(each) not in set(page.keys)] if known else []
    for first, second in (*pairwise(known), *((known[-1], each) for each in later)):
        expect(
            is_in_order(order, value_of(first, field), value_of(second, field)),
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
    """The vehicles without a value must come last: the first `listings - absent` ones have one."""
    listings = await target.some_listings()
    absent = sum(each.get(field) is None for each in listings)
    if any(each.get(field) is not None and value_of(each, field) is None for each in listings):
        raise Skipped(f"A listing has a malformed {field}.")
    skip_unless(target.stock.is_complete, "The stock is too large to know which listings have no value.")
    if absent in (0, len(listings)):
        raise Skipped(f"The stock does not have listings with and without {field}.")
    page = await sorted_page(target, field, order)
    early = [key_of(each) for each in page.vehicles[: len(listings) - absent] if each.get(field) is None]
    expect(not early, f"Sorted by {field} {order}, {early and early[0]} comes before others and has no {field}.")


@check("sort.with-filters")
async def _(target: Target) -> None:
    """The filter excludes the newest year. So a response that ignores the filter, or the sort, is seen."""
    year = int(
        max(skip_unless(numbers(await target.having("year"), "year"), "No listing has a year that is a number."))
    )
    by_year = {"field": "year", "order": "desc"}
    page = await search(target, filters={"year_max": year - 1}, sort=by_year, pagination={"skip": 0, "limit": PAGE})
    years = numbers(page.vehicles, "year")
    if len(set(years)) < 2:
        raise Skipped("All vehicles of earlier years have the same year, so no sort is visible.")
    expect(years == sorted(years, reverse=True), "With a filter on years, the sort by year does not apply.")
    expect(years[0] < year, "With a sort by year, the filter on years does not apply.")
