"""Checks the filters of inventory.search, alone and together: the expected vehicles are computed from the listings.

Also checks free text as far as the specification says: it leaves open how free text is matched.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, judge_each
from dealer_agent.checker.differences import LONGEST_WORD, are_clearly_different, tokens
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.fields import (
    CLOSED,
    EXACT_FILTERS,
    RANGE_FILTERS,
    TRUE_FILTERS,
    WORD_FILTERS,
    by_id,
    may_be_unknown,
)
from dealer_agent.checker.oracle import matcher
from dealer_agent.checker.outcome import Failed, Skipped, expect, skip_if_failed, skip_unless
from dealer_agent.checker.reply import answered, rejected
from dealer_agent.checker.searches import (
    Case,
    end_of,
    exact_filter,
    expect_matching,
    filter_of,
    filtered,
    identified,
    key_of,
    number_of,
    numbers,
    search,
    shown,
    spread,
    two_words_of,
    word_of,
)
from dealer_agent.checker.target import PAGE, Listing, Target, asking

Filters = dict[str, Any]

MOST_NAMED = 4
"""How many vehicles are searched for by VIN and by stock number."""

judge_each(
    {
        "query.longest": (asking("inventory.search", filters={"query": ("honda " * 40)[:200]}), answered),
        "query.longest-letters": (asking("inventory.search", filters={"query": ("école " * 40)[:200]}), answered),
        "strict.query-201": (asking("inventory.search", filters={"query": "a" * 201}), rejected),
        "strict.filter-null": (asking("inventory.search", filters={"model": None}), rejected),
    }
)


@check_each(
    by_id("filter", (*WORD_FILTERS, *TRUE_FILTERS)) | by_id("range", RANGE_FILTERS),
)
async def _(target: Target, name: str) -> None:
    await expect_matching(target, *await filter_of(target, name))


@check_each(by_id("filter", EXACT_FILTERS))
async def _(target: Target, name: str) -> None:
    """Several vehicles of the stock are searched for."""
    for each in spread(await identified(target, name), name, MOST_NAMED):
        await expect_matching(target, *exact_filter(name, str(each[name])))


@check_each(by_id("filter-list", WORD_FILTERS))
async def _(target: Target, name: str) -> None:
    """A list of two words finds the vehicles of both."""
    await expect_matching(target, *await two_words_of(target, name))


@check_each(by_id("range-absent", (name for name, member in RANGE_FILTERS.items() if may_be_unknown(member))))
async def _(target: Target, name: str) -> None:
    """The end of the range is one that listings match. A vehicle without the member must not match it."""
    member = RANGE_FILTERS[name]
    end = await end_of(target, name)
    skip_unless([each for each in await target.listings() if each.get(member) is None], f"Each listing has {member}.")
    with skip_if_failed():
        page = await filtered(target, {name: end})
    absent = next((each for each in page.vehicles if each.get(member) is None), None)
    expect(absent is None, f"{absent and key_of(absent)} has no {member}, and matches {shown({name: end})}.")


@check("filter.condition-exact")
async def _(target: Target) -> None:
    """Each of the two conditions is searched for, and must not find the other one."""
    conditions = {str(each.get("condition")) for each in await target.some_listings()}
    skip_unless({"used", "cpo"} <= conditions, "The stock does not have both used and certified vehicles.")
    for wanted, other in (("cpo", "used"), ("used", "cpo")):
        returned = {str(each.get("condition")) for each in (await filtered(target, {"condition": [wanted]})).vehicles}
        expect(other not in returned, f"The condition {wanted} finds {other} vehicles.")


@check_each({"filter.model-exact": "model", "filter.trim-exact": "trim"})
async def _(target: Target, name: str) -> None:
    """A value is searched for with which other values of the stock begin: these must not be found."""
    words = sorted({each[name] for each in await target.some_listings() if forms.name(each.get(name))})
    longer = {word: {each for each in words if each.startswith(f"{word} ")} for word in words}
    for word, others in skip_unless({word: each for word, each in longer.items() if each}, "None begins so.").items():
        found = next(
            (each[name] for each in (await filtered(target, {name: [word]})).vehicles if each.get(name) in others), None
        )
        expect(found is None, f"The {name} {word} finds {found}.")


@check("filter.vehicle-type-absent")
async def _(target: Target) -> None:
    """A vehicle without `vehicle_type` is a car. A page may be shorter than the result, so the total is compared."""
    types = [each.get("vehicle_type") for each in await target.some_listings()]
    skip_unless(None in types, "Each listing has vehicle_type.")
    with skip_if_failed():
        page = await filtered(target, {"vehicle_type": ["car"]})
    cars = types.count(None) + types.count("car")
    expect((page.total or 0) >= cars, f"vehicle_type car finds {page.total} vehicles, and not all {cars}.")


# Filters together, and free text: the filters, and which listings they must find


def _all_of(filters: Filters) -> Case:
    """Filters of which a listing must match all."""
    return filters, matcher(filters)


async def _one_year(target: Target) -> Case:
    year = await end_of(target, "year_min")
    return _all_of({"year_min": year, "year_max": year})


async def _from_zero(_: Target) -> Case:
    return {"price_min": 0}, lambda each: None if number_of(each, "price") is None else True


async def _below_fees(target: Target) -> Case:
    priced = [each for each in await target.listings() if number_of(each, "price") and dicts(each.get("fees"))]
    prices = skip_unless([int(each["price"]) for each in priced], "No listing with fees has a price.")
    # One dollar less than a price: a dealer that compares prices without fees returns this vehicle.
    return _all_of({"price_max": min(prices) - 1})


async def _make_and_condition(target: Target) -> Case:
    make = await word_of(target, "make")
    listings = [each for each in await target.listings() if each.get("make") == make]
    words = [each["condition"] for each in listings if each.get("condition") in CLOSED["condition"]]
    condition = min(
        skip_unless(words, "No listing has both make and condition."), key=lambda value: (words.count(value), value)
    )
    return _all_of({"make": [make], "condition": [condition]})


async def _two_lists(target: Target) -> Case:
    make = await word_of(target, "make")
    listings = [each for each in await target.listings() if each.get("make") == make]
    bodies = [each["body"] for each in listings if isinstance(each.get("body"), str)]
    body = min(
        skip_unless(bodies, "No listing has both make and body."), key=lambda value: (bodies.count(value), value)
    )
    return _all_of({"make": [make], "body": [body]})


async def _list_and_range(target: Target) -> Case:
    condition = await word_of(target, "condition", 10**9)
    listings = [each for each in await target.listings() if each.get("condition") == condition]
    prices = skip_unless(sorted(numbers(listings, "price")), "No listing with a condition has a price.")
    return _all_of({"condition": [condition], "price_max": int(prices[len(prices) // 2])})


async def _two_ranges(target: Target) -> Case:
    return _all_of({name: await end_of(target, name) for name in ("year_min", "price_max")})


async def _many(target: Target) -> Case:
    for each in await target.some_listings():
        year, price = number_of(each, "year"), number_of(each, "price")
        words = {name: [each.get(WORD_FILTERS[name])] for name in ("make", "model", "condition", "rooftops")}
        if year and price and all(isinstance(word, str) for [word] in words.values()):
            return _all_of({**words, "year_min": int(year), "year_max": int(year), "price_max": int(price)})
    raise Skipped("No listing has make, model, condition, rooftop, year and price.")


def _query(query: str, member: str, value: str, other: bool | None = None) -> Case:
    """A query that finds the vehicles with a value. `other`: whether it may find others."""
    return {"query": query}, lambda each: True if each.get(member) == value else other


async def _word_query(target: Target, *, member: str) -> Case:
    word = await one_word(target, member)
    return _query(word, member, word)


async def _name_query(target: Target, *, member: str, other: bool | None) -> Case:
    wanted = str((await identified(target, member))[0][member])
    return _query(wanted, member, wanted, other)


async def _prefix(target: Target) -> Case:
    word = await one_word(target, "make", 5)
    return _query(word[:-1].lower(), "make", word)


async def _two_words(target: Target) -> Case:
    names = ("make", "model")
    pairs = ([str(each.get(name, "")) for name in names] for each in await target.having("make"))
    pair = next((pair for pair in pairs if all(len(tokens(word)) == 1 for word in pair)), None)
    words = skip_unless(pair, "No listing has a make and a model of one word each.")
    return {"query": " ".join(words)}, lambda each: True if [each.get(name) for name in names] == words else None


async def _query_and_filter(target: Target) -> Case:
    word = await one_word(target, "make")
    years = set(numbers([each for each in await target.listings() if each.get("make") == word], "year"))
    skip_unless(len(years) >= 2, "No make has listings of two years.")
    last = int(max(years)) - 1

    def matches(each: Listing) -> bool | None:
        year = number_of(each, "year")
        if year is not None and year > last:
            return False
        return True if year is not None and each.get("make") == word else None

    return {"query": word, "year_max": last}, matches


@check_each(
    {
        "range.both-ends": _one_year,
        "range.zero": _from_zero,
        "range.price-with-fees": _below_fees,
        "filters.make-and-condition": _make_and_condition,
        "filters.two-lists": _two_lists,
        "filters.list-and-range": _list_and_range,
        "filters.two-ranges": _two_ranges,
        "filters.many": _many,
        "query.make": partial(_word_query, member="make"),
        "query.model": partial(_word_query, member="model"),
        "query.vin": partial(_name_query, member="vin", other=False),
        "query.stock": partial(_name_query, member="stock", other=None),
        "query.prefix": _prefix,
        "query.two-words": _two_words,
        "query.with-filter": _query_and_filter,
    }
)
async def _(target: Target, case: Callable[[Target], Awaitable[Case]]) -> None:
    await expect_matching(target, *await case(target))


# Filters that find nothing, that exclude nothing, or that find the same


async def _contradiction(target: Target, name: str) -> Filters:
    make = await word_of(target, "make")
    for each in await identified(target, name):
        if isinstance(each.get("make"), str) and are_clearly_different("make", each["make"], make):
            return {name: each[name], "make": [make]}
    raise Skipped(f"No listing with a {name} has a clearly different make.")


@check_each(
    {
        "filter.unknown-value": {"make": ["Qzxvwk"]},
        "query.nothing": {"query": "qzxvwkj"},
        "range.minimum-above-maximum": {"price_min": 20_001, "price_max": 20_000},
        "filters.contradiction": partial(_contradiction, name="vin"),
        "filters.stock-contradiction": partial(_contradiction, name="stock"),
    }
)
async def _(target: Target, filters: Filters | Callable[[Target], Awaitable[Filters]]) -> None:
    await target.some_listings()
    chosen = await filters(target) if callable(filters) else filters
    page = await filtered(target, chosen)
    expect(not page.vehicles and not page.total, f"{shown(chosen)} finds vehicles.")


@check_each(
    {
        "filter.dc-fast-charge-false": {"filters": {"dc_fast_charge": False}},
        "filter.empty-list": {"filters": {"make": []}},
        "query.empty": {"filters": {"query": ""}},
        "search.empty-filters": {"filters": {}},
        "search.empty-pagination": {"pagination": {}},
        "search.empty-privacy": {"privacy": {}},
    }
)
async def _(target: Target, members: dict[str, Any]) -> None:
    page = await search(target, **members)
    # Reads the stock: `total` is known only after that.
    await target.listings()
    whole = target.stock.total
    expect(page.total == whole, f"{shown(members)} finds {page.total} of {whole}, although it excludes nothing.")


SYNONYMS = {
    "make": [("Chevrolet", "Chevy"), ("Volkswagen", "VW"), ("Mercedes-Benz", "Mercedes")],
    "driveline": [("awd", "All-Wheel Drive"), ("fwd", "Front-Wheel Drive"), ("rwd", "Rear-Wheel Drive")],
    "fuel": [("bev", "Electric"), ("gas", "Gasoline"), ("diesel", "Diesel Fuel")],
    "transmission": [("manual", "6-Speed Manual"), ("automatic", "Automatic Transmission")],
    "body": [("suv", "Sport Utility"), ("truck", "Pickup"), ("sedan", "Saloon")],
}
"""Values of listings, with another name of each."""


async def _synonym(target: Target, *, name: str) -> tuple[Filters, Filters]:
    values = {str(each.get(name)) for each in await target.some_listings()}
    for value, synonym in SYNONYMS[name]:
        if value in values:
            return {name: [value]}, {name: [synonym]}
    raise Skipped(f"No listing has a {name} for which the check knows another name.")


async def _punctuation(target: Target) -> tuple[Filters, Filters]:
    for each in await target.having("model"):
        model = str(each["model"])
        without = model.replace("-", "").replace(" ", "")
        if without != model and without.isalnum():
            return {"model": [model]}, {"model": [without]}
    raise Skipped("No listing has a model with a space or a hyphen.")


async def _case(target: Target) -> tuple[Filters, Filters]:
    word = await word_of(target, "make")
    return {"make": [word]}, {"make": [word.swapcase()]}


async def _query_case(target: Target) -> tuple[Filters, Filters]:
    word = await one_word(target, "make")
    return {"query": word}, {"query": word.swapcase()}


# The second spelling may find more, if the last value is true.
@check_each(
    {
        "filter.case": (_case, False),
        "query.case": (_query_case, False),
        "filter.punctuation": (_punctuation, True),
        **{f"filter.synonym-{name}": (partial(_synonym, name=name), True) for name in SYNONYMS},
    }
)
async def _(target: Target, spellings: Callable[[Target], Awaitable[tuple[Filters, Filters]]], more: bool) -> None:
    """Two spellings of filters are compared. With `more`, the second one may find more vehicles."""
    filters, others = await spellings(target)
    page, other = await filtered(target, filters), await filtered(target, others)
    if page.total is None or other.total is None:
        raise Skipped("A response has no total.")
    if other.total != page.total and not (more and other.total > page.total):
        raise Failed(f"{shown(others)} finds {other.total} vehicles, and {shown(filters)} {page.total}.")


@check("query.every-word")
async def _(target: Target) -> None:
    """If the word is optional, the query with it finds as many vehicles as without it."""
    word = await one_word(target, "make")
    page, fewer = await filtered(target, {"query": word}), await filtered(target, {"query": f"{word} qzxvwkj"})
    expect(not fewer.total or (page.total or 0) > fewer.total, "A word that no listing has does not narrow a query.")


async def one_word(target: Target, member: str, letters: int = 2) -> str:
    """A value that is one word of letters, and that not all listings have. The most frequent of those that few have."""
    values = [str(each[member]) for each in await target.having(member)]
    few = {
        value
        for value in values
        if value.isalpha()
        and letters <= len(value) <= LONGEST_WORD
        and values.count(value) <= PAGE
        and any(are_clearly_different(member, value, each) for each in values)
    }
    skip_unless(few, f"The stock has no {member} that is one word of {letters} letters and rare.")
    return max(few, key=lambda word: (values.count(word), word))
