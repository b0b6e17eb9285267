"""Checks that answers agree with each other: searches, details and facets, also beyond the first page."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.checks.facets import ask_filtered, counts_of, facet_of_all, wrong_facet
from dealer_agent.checker.checks.filters import one_word
from dealer_agent.checker.exchange import at, dicts
from dealer_agent.checker.fields import COUNTED, MEMBERS, RANGES, WORD_FILTERS
from dealer_agent.checker.forms import whole
from dealer_agent.checker.oracle import matcher
from dealer_agent.checker.outcome import Skipped, expect, skip_if_failed, skip_unless
from dealer_agent.checker.searches import ReadPage, end_of, key_of, number_of, numbers, search, shown, word_of
from dealer_agent.checker.target import PAGE, Listing, Target

_VOLATILE = ("updated_at", "changed_at")
_MOST_PAGES = 12
_VALUES = 3
"""How many values of each facet are searched for."""


async def _pages(target: Target, **members: Any) -> AsyncIterator[ReadPage]:
    """The pages of a search, of a sixth of the stock each. Most stocks end within them."""
    size = max(5, min(PAGE, len(await target.some_listings()) // 6 + 1))
    skip = 0
    for _ in range(_MOST_PAGES):
        page = await search(target, pagination={"skip": skip, "limit": size}, **members)
        yield page
        skip += len(page.vehicles)
        if not page.vehicles or page.total is None or skip >= page.total:
            return


@check("search.page-as-said")
async def _(target: Target) -> None:
    for pagination in ({}, {"limit": 1000}, {"limit": 37}, {"skip": 1, "limit": 3}):
        page = await search(target, **({"pagination": pagination} if pagination else {}))
        limit, skip = page.data.get("limit"), page.data.get("skip")
        if page.total is None or not whole(limit) or not whole(skip):
            raise Skipped("The response has no total, skip or limit.")
        expect(skip == pagination.get("skip", 0), f"`skip` is {skip} for the pagination {shown(pagination)}.")
        expected = max(0, min(int(limit or 0), page.total - pagination.get("skip", 0)))
        number = len(page.vehicles)
        expect(number == expected, f"The limit of the response is {limit}, and the page has {number} of {page.total}.")


@check("filters.later-pages")
async def _(target: Target) -> None:
    for filters, matches in (await _price_case(target), await _condition_case(target)):
        keys: list[str] = []
        total = None
        async for page in _pages(target, filters=filters):
            wrong = next((each for each in page.vehicles if not matches(each)), None)
            where = f"after {len(keys)} vehicles" if keys else "on the first page"
            expect(wrong is None, f"{shown(filters)} finds {wrong and key_of(wrong)} {where}.")
            keys, total = keys + page.keys, page.total
        twice = [key for key, count in Counter(keys).items() if count > 1]
        expect(not twice, f"The pages of {shown(filters)} have {twice and twice[0]} twice.")
        if total is not None and total <= len(await target.listings()):
            expect(len(keys) == total, f"The pages of {shown(filters)} have {len(keys)} of {total} vehicles.")


@check("query.later-pages")
async def _(target: Target) -> None:
    """Two pages of one query are compared, which are the halves of what it finds."""
    query = {"query": await one_word(target, "make")}
    with skip_if_failed():
        total = (await search(target, filters=query, pagination={"skip": 0, "limit": PAGE})).total
    half = skip_unless(total, "The query finds nothing.") // 2
    first, second = [
        await search(target, filters=query, pagination={"skip": skip, "limit": half or 1}) for skip in (0, half)
    ]
    good = first.total == second.total == total and (not half or set(first.keys).isdisjoint(second.keys))
    expect(good, f"{shown(query)} finds {total} vehicles, {second.total} on a later page, or some of them twice.")


async def _price_case(target: Target) -> tuple[Listing, Callable[[Listing], bool]]:
    end = int(max(skip_unless(numbers(await target.listings(), "price"), "No listing has a price.")))
    return {"price_max": end}, lambda each: (price := number_of(each, "price")) is not None and price <= end


async def _condition_case(target: Target) -> tuple[Listing, Callable[[Listing], bool]]:
    word = await word_of(target, "condition", 10**9)
    return {"condition": [word]}, lambda each: each.get("condition") in (word, "cpo" if word == "used" else word)


@check("sort.pages-complete")
async def _(target: Target) -> None:
    """The keys of all pages are those of the stock, each once.

    Only a stock that was read to its end can be compared.
    """
    stock = {key_of(each) for each in await target.some_listings()}
    skip_unless(target.stock.is_complete, "The stock is too large to read all pages.")
    keys = [key async for page in _pages(target, sort={"field": "year", "order": "asc"}) for key in page.keys]
    twice = [key for key, count in Counter(keys).items() if count > 1]
    expect(not twice, f"The pages of a sort by year have {twice and twice[0]} twice.")
    missing = stock - set(keys)
    expect(not missing, f"The pages of a sort by year do not have {min(missing, default='')}.")


@check("privacy.same-vehicles")
async def _(target: Target) -> None:
    """The first page is compared with and without a user.

    Times may change between the two requests, so they are left out.
    """
    pages = [
        await search(target, privacy={"anonymous": value}, pagination={"skip": 0, "limit": 9})
        for value in (True, False)
    ]
    anonymous, known = ([_without_times(each) for each in page.vehicles] for page in pages)
    expect(anonymous == known, "With `privacy.anonymous` true, a search returns other vehicles or values.")


def _without_times(listing: Listing) -> Listing:
    return {name: value for name, value in listing.items() if name not in _VOLATILE}


# Filters and queries that find the same

Filters = dict[str, Any]
Spelling = Callable[[Target], Awaitable[tuple[Filters, Filters]]]


async def _value_twice(target: Target) -> tuple[Filters, Filters]:
    word = await word_of(target, "make")
    return {"make": [word]}, {"make": [word, word]}


async def _values_reversed(target: Target) -> tuple[Filters, Filters]:
    counts = Counter(str(each["make"]) for each in await target.having("make"))
    words = sorted(counts, key=lambda word: (counts[word], word))[:3]
    return {"make": words}, {"make": words[::-1]}


async def _words_reversed(target: Target) -> tuple[Filters, Filters]:
    make = await one_word(target, "make")
    bodies = sorted({str(each["body"]) for each in await target.having("body") if each.get("make") == make})
    body = skip_unless(
        [each for each in bodies if each.isalpha()], "No listing has a make and a body of one word each."
    )[0]
    return {"query": f"{make} {body}"}, {"query": f"{body} {make}"}


async def _spaces(target: Target) -> tuple[Filters, Filters]:
    word = await one_word(target, "make")
    return {"query": word}, {"query": f"  {word} "}


@check_each(
    {
        "filter.repeated-value": _value_twice,
        "filters.order": _values_reversed,
        "query.word-order": _words_reversed,
        "query.spaces": _spaces,
    }
)
async def _(target: Target, spelling: Spelling) -> None:
    """Two spellings of the same filters find the same number of vehicles."""
    filters, others = await spelling(target)
    first, second = [(await search(target, filters=each, pagination={"limit": 1})).total for each in (filters, others)]
    expect(first == second, f"{shown(filters)} finds {first} vehicles, and {shown(others)} {second}.")


@check("query.sorted")
async def _(target: Target) -> None:
    """The vehicles of one make are sorted by price.

    Three different prices are in order by chance once in six times, so fewer show nothing.
    """
    by_price = {"field": "price", "order": "asc"}
    found: list[float | int] = []
    for make in dict.fromkeys(str(each["make"]) for each in await target.having("make")):
        page = await search(target, filters={"query": make}, sort=by_price, pagination={"skip": 0, "limit": PAGE})
        found = numbers(page.vehicles, "price")
        if len(set(found)) > 2:
            break
    skip_unless(len(set(found)) > 2, "No make has vehicles of three prices.")
    expect(found == sorted(found), "With a query, the sort by price does not apply.")


# Facets


async def _filters_of_facets(target: Target) -> list[Filters]:
    """Filters of which it is certain what they match: the conditions alone, with a price, and with a make."""
    listings = await target.listings()
    filters: list[Filters] = []
    for word in sorted({str(each.get("condition")) for each in listings} & {"new", "used", "cpo"}):
        having = [each for each in listings if each.get("condition") == word]
        filters.append({"condition": [word]})
        if prices := sorted(int(each) for each in numbers(having, "price")):
            filters.append({"condition": [word], "price_max": prices[len(prices) // 2]})
        if years := sorted(int(each) for each in numbers(having, "year") if 1900 <= each <= 2100):
            filters.append({"condition": [word], "year_min": years[len(years) // 2]})
    return skip_unless(filters, "No listing has a condition.")


def _is_countable(unfiltered: Any, having: list[Listing], member: str) -> bool:
    """Whether a facet of these listings has something to show, as it has without filters.

    A dealer may leave out values that few vehicles have, and a range or a choice of one value.
    """
    values = Counter(str(each[member]) for each in having if each.get(member) is not None)
    return len(values) > 1 and max(values.values()) >= min((counts_of(unfiltered) or {}).values(), default=0)


@check("facets.filtered-counts")
async def _(target: Target) -> None:
    """The facets of a filtered request are compared with the listings that match.

    A facet may be absent if no listing that matches could be counted. Values in a wrong form have a check of their own.
    """
    listings = await target.some_listings()
    skip_unless(target.stock.is_complete, "The stock is too large to count all listings.")
    unfiltered = await target.ask("inventory.facets")
    for filters in await _filters_of_facets(target):
        matches = matcher(filters)
        having = [each for each in listings if matches(each)]
        if (await search(target, filters=filters, pagination={"limit": 1})).total != len(having):
            raise Skipped("The filters find wrong vehicles. Another check reports that.")
        facets = await ask_filtered(target, filters)
        for name, member in (COUNTED | RANGES).items():
            form = MEMBERS[member][0]
            if not facets.get(name):
                lost = name in unfiltered and _is_countable(unfiltered[name], having, member)
                expect(not lost, f"With {shown(filters)}, there is no {name}.")
            elif not all(each.get(member) is None or form(each[member]) for each in listings):
                continue
            elif name in COUNTED or isinstance(facets[name], dict):
                wrong = wrong_facet(name, facets[name], having)
                expect(wrong is None, f"With {shown(filters)}: {wrong}")


@check("facets.found")
async def _(target: Target) -> None:
    """Each facet of words is compared with searches for its rarest values, whose totals are small."""
    with skip_if_failed("There are no facets: "):
        facets = await target.ask("inventory.facets")
    names = {member: name for name, member in WORD_FILTERS.items()}
    for facet, member in COUNTED.items():
        counts = counts_of(facets.get(facet)) or {}
        rare = sorted((each for each in counts if each), key=lambda each: (counts[each], each))[:_VALUES]
        for value in rare if member in names and member not in target.revision.unsearchable else ():
            filters = {names[member]: [value]}
            total = (await search(target, filters=filters, pagination={"limit": 1})).total or 0
            expect(total >= counts[value], f"{facet} counts {counts[value]} of {value}, and a search finds {total}.")


@check("facets.agree")
async def _(target: Target) -> None:
    """Facets and a search are compared with two sets of filters. Each set matches only a part of the stock."""
    facet = await facet_of_all(target)
    make = await one_word(target, "make")
    newest = int(
        max(numbers([each for each in await target.listings() if each.get("make") == make], "year"), default=2000)
    )
    cases: list[Mapping[str, Any]] = [
        {"condition": [await word_of(target, "condition", 10**9)], "price_max": await end_of(target, "price_max")},
        {"query": make, "year_max": newest - 1},
    ]
    for filters in cases:
        counts = counts_of((await ask_filtered(target, filters)).get(facet, [])) or {}
        total = (await search(target, filters=dict(filters), pagination={"limit": 1})).total
        number = sum(counts.values())
        expect(number == total, f"With {shown(filters)}, {facet} counts {number} vehicles, and a search finds {total}.")


@check("facets.no-zero")
async def _(target: Target) -> None:
    with skip_if_failed("There are no facets: "):
        facets = await target.ask("inventory.facets")
    for name in COUNTED:
        zero = next((each for each in dicts(facets.get(name)) if at(each, "count") == 0), None)
        expect(zero is None, f"{name} lists {zero and zero.get('value')!r}, which no vehicle has.")
