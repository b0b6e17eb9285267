"""Checks all searches of a run by the rules of `oracle.py`, and searches with combinations that buyers use."""

from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import combinations, cycle, product
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.checks.filters import one_word
from dealer_agent.checker.differences import LONGEST_WORD
from dealer_agent.checker.exchange import at, dicts
from dealer_agent.checker.fields import CLOSED, ORDERS, RANGE_FILTERS, SORTS, WORD_FILTERS, by_id, id_of, is_searchable
from dealer_agent.checker.oracle import RULES, Answered, is_in_order, is_valid, matcher, sort_values, value_of
from dealer_agent.checker.outcome import Judgement, Skipped, conclude, expect, skip_if_failed, skip_unless
from dealer_agent.checker.reply import is_answered
from dealer_agent.checker.searches import ReadPage, numbers, search, shown
from dealer_agent.checker.target import PAGE, Listing, Target, elsewhere

Filters = dict[str, Any]

MOST_VALUES = 16
"""How many values of each filter are searched for."""
MOST_COMPARED = 300
"""How many listings decide which filters are combined."""
POPULAR = ("make", "condition", "price_max", "year_min")
"""Filters that are combined with each other one."""
_FIRST = {"skip": 0, "limit": PAGE}


async def _search_known_stock(target: Target, members: Mapping[str, Any]) -> Answered:
    """The answer to a search of which the stock is known."""
    await target.some_listings()
    return Answered(members, await search(target, **members), target.stock)


async def _expect(target: Target, members: Mapping[str, Any], *rules: str) -> Answered:
    """Raises Failed unless the answer to a search fulfils these rules."""
    answered = await _search_known_stock(target, members)
    for each in rules:
        conclude(RULES[each](answered))
    return answered


# Each value of a filter


def _words(listings: list[Listing], member: str) -> list[str]:
    """The values of a member that can be searched for, the most frequent first."""
    values = [each.get(member) for each in listings]
    words = [
        str(each)
        for each in values
        if forms.name(each) and len(str(each)) <= LONGEST_WORD and is_searchable(member, each)
    ]
    return sorted(set(words), key=lambda word: (-words.count(word), word))


def _ends(listings: list[Listing], name: str) -> list[int]:
    """The values of a range filter at which its result changes, or is everything or nothing."""
    member = RANGE_FILTERS[name]
    form = forms.year if member == "year" else forms.whole
    values = sorted({int(each) for each in numbers(listings, member) if form(each)})
    if not values:
        return []
    inner = values[len(values) // 2]
    near = {value + step for value in (values[0], inner, values[-1]) for step in (-1, 0, 1)}
    return sorted(each for each in near | {1900 if member == "year" else 0} if form(each))


def _candidates(listings: list[Listing], name: str, most: int) -> list[Filters]:
    """Filters of one name with different values of the stock."""
    if name in WORD_FILTERS:
        words = _words(listings, WORD_FILTERS[name])
        # The most frequent ones and the rarest.
        return [{name: [word]} for word in dict.fromkeys((*words[: most // 2], *words[-(most // 2) :]))]
    if name in RANGE_FILTERS:
        return [{name: end} for end in _ends(listings, name)[:most]]
    return [{name: True}] if any(each.get(name) is True for each in listings) else []


@check_each(by_id("filter-values", WORD_FILTERS) | by_id("range-values", RANGE_FILTERS))
async def _(target: Target, name: str) -> None:
    """A filter finds exactly the listings that have the value.

    It is sent with each value that listings have, at most MOST_VALUES, and each response is compared with the listings.
    """
    listings = await target.some_listings()
    cases = _candidates(listings, name, MOST_VALUES)
    if name in WORD_FILTERS and len(cases) > 2:
        # The last of several values counts, too.
        cases.append({name: [each[name][0] for each in cases[:3]]})
    # Of a closed list, also the values that the stock does not have.
    words = CLOSED.get(name, ()) if cases else ()
    cases += [{name: [word]} for word in words if {name: [word]} not in cases]
    for filters in skip_unless(cases, f"No listing has a value to search for with {name}."):
        await _expect(
            target, {"filters": filters, "pagination": _FIRST}, "filters.everywhere", "search.total-everywhere"
        )


# Filters with each other, and with all else that a search may have


def _names(target: Target) -> list[str]:
    named = {**WORD_FILTERS, **RANGE_FILTERS, "dc_fast_charge": "dc_fast_charge"}
    return [name for name, member in named.items() if member not in target.revision.unsearchable]


Case = tuple[Filters, set[int], set[int]]
"""A filter, and the positions of the listings that match it, and that certainly do not."""


def _together(cases_of: Mapping[str, list[Case]], names: tuple[str, ...]) -> Filters | None:
    """One filter of each name, of which each leaves out a listing that the others find. None if there are no such."""
    best: tuple[int, Filters] | None = None
    for cases in product(*(cases_of.get(name, ()) for name in names)):
        matching = [case[1] for case in cases]
        decisive = all(
            case[2].intersection(*(each for other, each in enumerate(matching) if other != index))
            for index, case in enumerate(cases)
        )
        if decisive and (best is None or len(set.intersection(*matching)) > best[0]):
            best = len(set.intersection(*matching)), {name: value for case in cases for name, value in case[0].items()}
    return best and best[1]


def _decisive(listings: list[Listing], names: list[str]) -> Iterator[Filters]:
    """Filters that are decisive together, three if possible. Each pair with a popular filter is among them."""
    cases_of: dict[str, list[Case]] = {}
    for name in names:
        for filters in _candidates(listings, name, 6):
            results = [matcher(filters)(each) for each in listings]
            # None: not certain.
            matching = {index for index, result in enumerate(results) if result is True}
            excluded = {index for index, result in enumerate(results) if result is False}
            cases_of.setdefault(name, []).append((filters, matching, excluded))

    def is_popular(pair: tuple[str, ...]) -> bool:
        # The second condition: the two ends of one range.
        return bool({*pair} & {*POPULAR}) or RANGE_FILTERS.get(pair[0], 1) == RANGE_FILTERS.get(pair[1], 2)

    left = dict.fromkeys(sorted(combinations(names, 2), key=lambda pair: not is_popular(pair)))
    while left:
        pair = next(iter(left))
        thirds = [
            each for each in reversed(names) if all(tuple(sorted((one, each), key=names.index)) in left for one in pair)
        ]
        threes = (_together(cases_of, (*pair, each)) for each in thirds)
        chosen = next(filter(None, threes), None) or _together(cases_of, pair)
        if chosen:
            yield chosen
        for each in combinations(sorted(chosen or pair, key=names.index), 2):
            left.pop(each, None)


def _most_selective_filter(listings: list[Listing], name: str) -> list[Filters]:
    """At most one filter of a name: if possible one that certainly excludes a listing."""
    words = _candidates(listings, name, 6)[::-1]
    words.sort(key=lambda filters: not any(matcher(filters)(each) is False for each in listings))
    return words[:1]


@check("filters.pairs")
async def _(target: Target) -> None:
    """Filters are used that are decisive: each excludes vehicles that the others find. Each search has another sort."""
    listings = (await target.some_listings())[:MOST_COMPARED]
    sorts = cycle([{"field": field, "order": order} for order in ORDERS for field in SORTS])
    for filters in skip_unless([*_decisive(listings, _names(target))], "No two filters are decisive together."):
        members = {"filters": filters, "pagination": _FIRST, "sort": next(sorts)}
        await _expect(target, members, "filters.everywhere", "search.total-everywhere")


@check("filters.with-all-else")
async def _(target: Target) -> None:
    """Each filter is sent with a sort, a second page and a user, then with a small page, then in another vocabulary."""
    vendors = [each for each in target.card.vendors if each != target.vendor]
    other = elsewhere(target, target.interface, vendors[0]) if vendors else target
    listings = (await target.some_listings())[:MOST_COMPARED]
    sorts = cycle([{"field": field, "order": order} for order in ORDERS for field in SORTS])
    for name in _names(target):
        for filters in _most_selective_filter(listings, name):
            for place, more in (
                (
                    target,
                    {"sort": next(sorts), "privacy": {"anonymous": False}, "pagination": {"skip": 1, "limit": PAGE}},
                ),
                (target, {"privacy": {"anonymous": True}, "pagination": {"skip": 0, "limit": 2}}),
                (other, {}),
            ):
                await _expect(place, {"filters": filters, **more}, "filters.everywhere", "search.total-everywhere")


@check("query.with-all-filters")
async def _(target: Target) -> None:
    """How a query finds is up to the dealer.

    It must find the vehicles of the make that match the filter, and no more than the query alone.
    """
    listings = (await target.some_listings())[:MOST_COMPARED]
    query = await one_word(target, "make")
    with skip_if_failed():
        alone = (await search(target, filters={"query": query}, pagination=_FIRST)).total or 0
    of_make = [each for each in listings if each.get("make") == query]
    for name in _names(target):
        for filters in _most_selective_filter(of_make, name) if name != "make" else []:
            members = {"filters": {"query": query, **filters}, "pagination": _FIRST}
            answered = await _expect(target, members, "filters.everywhere")
            least = sum(matcher(filters)(each) is True for each in of_make)
            total = answered.page.total or 0
            expect(least <= total <= alone, f"{shown(members['filters'])} finds {total}, not {least} to {alone}.")


# Later pages of each sort


@check_each({f"sort-pages.{id_of(field)}-{order}": (field, order) for field in SORTS for order in ORDERS})
async def _(target: Target, field: str, order: str) -> None:
    """Small pages of a sorted search have the values of the field that one large page has at the same positions.

    They are at the beginning and in the middle. A page at the end of the stock continues the order.
    """
    members = {"sort": {"field": field, "order": order}}
    with skip_if_failed():
        first = await search(target, **members, pagination=_FIRST)
    count = len(first.vehicles)
    if count < 4:
        raise Skipped("The stock is too small for a second page.")
    total, last = first.total or 0, value_of(first.vehicles[-1], field)
    if total > count + 3 and last is not None:
        page = await search(target, **members, pagination={"skip": total - 3, "limit": 3})
        late = [value for each in page.vehicles if (value := value_of(each, field)) is not None]
        good = all(is_in_order(order, last, value) for value in late)
        expect(good, f"Sorted by {field} {order}, the last page has {late}, and the first page ends with {last}.")
    pages = [(0, 1), (1, 3)] if order == "asc" else [(1, 3), (count // 2, 1)]
    for skip, limit in pages if total > count + 3 else [*pages, (count - 2, 3)]:
        page = await search(target, **members, pagination={"skip": skip, "limit": limit})
        values, expected = (sort_values(each, field) for each in (page.vehicles, first.vehicles[skip : skip + limit]))
        # A dealer may have a page of fewer vehicles.
        same = values == expected[: len(values)] if count > skip + limit else values[: len(expected)] == expected
        expect(
            same, f"Sorted by {field} {order}, the page at {skip} has {values}, and a large page has {expected} there."
        )


# All searches of the run


async def _answers(target: Target) -> AsyncIterator[Answered]:
    """The valid searches of the run, as they are answered.

    When a failure is confirmed, nothing is remembered, and each is sent again.
    """
    await target.some_listings()
    sent = {each.request_body: target.asked(each) for each in target.posted}
    for body, payload in sent.items():
        members = {name: value for name, value in (payload or {}).items() if name != "type"}
        if at(payload, "type") != "inventory.search.request" or not is_valid(members):
            continue
        exchange = await target.post(body)
        if is_answered(exchange):
            data = at(exchange.json, "result.message") or at(exchange.json, "message")
            page = next(each["data"]["data"] for each in dicts(data["parts"]) if isinstance(each.get("data"), dict))
            yield Answered(
                members,
                ReadPage(page, forms.whole_number(page.get("total")), dicts(page.get("vehicles"))),
                target.stock,
            )


@check_each(RULES, last=True)
async def _(target: Target, rule: Judgement) -> None:
    async for answered in _answers(target):
        conclude(rule(answered))
