"""Filters of inventory.search: each one recomputed from the listings, and filters together."""

from collections.abc import Sequence
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, check_each, expect_refused
from dealer_agent.checker.differences import clearly_different, typical_value
from dealer_agent.checker.fields import RANGE_FILTERS, TRUE_FILTERS, WORD_FILTERS, by_id, may_be_unknown
from dealer_agent.checker.outcome import Failed, Skipped, expect, skip_if_failed
from dealer_agent.checker.searches import (
    expect_matching,
    filtered,
    identified,
    key_of,
    number_of,
    numbers,
    search,
    shown,
)
from dealer_agent.checker.target import PAGE, Listing, Target


def word_matches(member: str, wanted: Sequence[str], listing: Listing) -> bool | None:
    """Whether a listing must, must not or may match a list of words."""
    value = listing.get(member)
    if value is None and member in ("vehicle_type", "rooftop"):
        # `filter.vehicle-type-absent` and `listing.has-rooftop` judge these.
        return None
    if value is None:
        return False
    if value in wanted:
        return True
    return False if all(clearly_different(member, value, each) for each in wanted) else None


def range_matches(name: str, end: float, listing: Listing) -> bool | None:
    """Whether a listing must, must not or may match a minimum or maximum. `range.absent` judges absent values."""
    value = number_of(listing, RANGE_FILTERS[name])
    if value is None:
        return None
    return value >= end if name.endswith("_min") else value <= end


async def word_of(target: Target, name: str, most: int = PAGE) -> str:
    """A word to filter by. Skips the check if the stock has none."""
    member = WORD_FILTERS[name]
    if (word := typical_value(member, await target.some_listings(), most)) is None:
        raise Skipped(f"No two listings have clearly different values of {member}.")
    return word


async def end_of(target: Target, name: str) -> int:
    """A minimum or maximum that some listings match and others do not: the value of a listing.

    Skips the check if the stock has none.
    """
    member = RANGE_FILTERS[name]
    values = sorted(set(numbers(await target.having(member), member)))
    whole = [int(value) for value in values if (forms.year if member == "year" else forms.whole)(value)]
    inner = [each for each in whole if (values[0] < each if name.endswith("_min") else each < values[-1])]
    if not inner:
        raise Skipped(f"No two listings have different values of {member}.")
    return inner[len(inner) // 2]


@check_each(by_id("filter", WORD_FILTERS))
async def _(target: Target, name: str) -> None:
    word = await word_of(target, name)
    await expect_matching(target, {name: [word]}, lambda each: word_matches(WORD_FILTERS[name], [word], each))


@check_each(by_id("filter-list", WORD_FILTERS))
async def _(target: Target, name: str) -> None:
    member = WORD_FILTERS[name]
    first = await word_of(target, name, PAGE // 2)
    others = [
        each
        for each in await target.listings()
        if isinstance(each.get(member), str) and clearly_different(member, each[member], first)
    ]
    second = typical_value(member, others, PAGE // 2) or str(others[0][member])
    words = [first, second]
    await expect_matching(target, {name: words}, lambda each: word_matches(member, words, each))


@check_each(by_id("range", RANGE_FILTERS))
async def _(target: Target, name: str) -> None:
    end = await end_of(target, name)
    await expect_matching(target, {name: end}, lambda each: range_matches(name, end, each))


@check_each(by_id("range-absent", (name for name, member in RANGE_FILTERS.items() if may_be_unknown(member))))
async def _(target: Target, name: str) -> None:
    member = RANGE_FILTERS[name]
    end = await end_of(target, name)
    if all(each.get(member) is not None for each in await target.listings()):
        raise Skipped(f"Each listing has {member}.")
    with skip_if_failed():
        page = await filtered(target, {name: end})
    absent = next((each for each in page.vehicles if each.get(member) is None), None)
    expect(absent is None, f"{absent and key_of(absent)} has no {member}, and matches {shown({name: end})}.")


@check("filter.condition-exact")
async def _(target: Target) -> None:
    listings = await target.some_listings()
    if not {"used", "cpo"} <= {str(each.get("condition")) for each in listings}:
        raise Skipped("The stock does not have both used and certified vehicles.")
    for wanted, other in (("cpo", "used"), ("used", "cpo")):
        found = {each.get("condition") for each in (await filtered(target, {"condition": [wanted]})).vehicles}
        expect(other not in found, f"The condition {wanted} finds {other} vehicles.")


@check("filter.vehicle-type-absent")
async def _(target: Target) -> None:
    listings = await target.some_listings()
    if all(each.get("vehicle_type") is not None for each in listings):
        raise Skipped("Each listing has vehicle_type.")
    with skip_if_failed():
        page = await filtered(target, {"vehicle_type": ["car"]})
    cars = sum(each.get("vehicle_type") in (None, "car") for each in listings)
    expect((page.total or 0) >= cars, f"vehicle_type car finds {page.total} vehicles, and not all {cars}.")


@check_each(by_id("filter", TRUE_FILTERS))
async def _(target: Target, name: str) -> None:
    if not any(each.get(name) is True for each in await target.some_listings()):
        raise Skipped(f"No listing has {name}.")
    await expect_matching(target, {name: True}, lambda each: each.get(name) is True)


async def middle_of(target: Target, member: str) -> str:
    """An identifier of the stock. Skips the check if there is none."""
    listings = await identified(target, member)
    return str(listings[len(listings) // 2][member])


@check("filter.vin")
async def _(target: Target) -> None:
    wanted = await middle_of(target, "vin")
    await expect_matching(target, {"vin": wanted}, lambda each: each.get("vin") == wanted)


@check("filter.stock")
async def _(target: Target) -> None:
    wanted = await middle_of(target, "stock")

    def matches(each: Listing) -> bool | None:
        if each.get("stock") == wanted:
            return True
        return False if clearly_different("stock", each.get("stock") or "", wanted) or not each.get("stock") else None

    await expect_matching(target, {"stock": wanted}, matches)


@check("filter.unknown-value")
async def _(target: Target) -> None:
    await target.some_listings()
    page = await filtered(target, {"make": ["Qzxvwk"]})
    expect(not page.vehicles and not page.total, "A make that no vehicle has finds vehicles.")


@check("filter.case")
async def _(target: Target) -> None:
    word = await word_of(target, "make")
    await _expect_same(target, {"make": [word]}, {"make": [word.swapcase()]})


@check("filter.punctuation")
async def _(target: Target) -> None:
    for each in await target.having("model"):
        model = str(each["model"])
        without = model.replace("-", "").replace(" ", "")
        if without != model and without.isalnum():
            await _expect_same(target, {"model": [model]}, {"model": [without]}, at_least=True)
            return
    raise Skipped("No listing has a model with a space or a hyphen.")


SYNONYMS = {
    "make": [("Chevrolet", "Chevy"), ("Volkswagen", "VW"), ("Mercedes-Benz", "Mercedes")],
    "driveline": [("awd", "All-Wheel Drive"), ("fwd", "Front-Wheel Drive"), ("rwd", "Rear-Wheel Drive")],
    "fuel": [("bev", "Electric"), ("gas", "Gasoline"), ("diesel", "Diesel Fuel")],
    "transmission": [("manual", "6-Speed Manual"), ("automatic", "Automatic Transmission")],
    "body": [("suv", "Sport Utility"), ("truck", "Pickup"), ("sedan", "Saloon")],
}
"""Values of listings, with another name of each."""


@check_each({f"filter.synonym-{each}": each for each in SYNONYMS})
async def _(target: Target, name: str) -> None:
    values = {str(each.get(name)) for each in await target.some_listings()}
    for value, synonym in SYNONYMS[name]:
        if value in values:
            await _expect_same(target, {name: [value]}, {name: [synonym]}, at_least=True)
            return
    raise Skipped(f"No listing has a {name} for which the check knows another name.")


@check("range.both-ends")
async def _(target: Target) -> None:
    year = await end_of(target, "year_min")

    def matches(each: Listing) -> bool | None:
        return None if number_of(each, "year") is None else number_of(each, "year") == year

    await expect_matching(target, {"year_min": year, "year_max": year}, matches)


@check("range.minimum-above-maximum")
async def _(target: Target) -> None:
    page = await filtered(target, {"price_min": 20_001, "price_max": 20_000})
    expect(page.total == 0 and not page.vehicles, "A minimum above the maximum finds vehicles.")


@check("range.zero")
async def _(target: Target) -> None:
    await expect_matching(target, {"price_min": 0}, lambda each: None if number_of(each, "price") is None else True)


@check("filters.two-lists")
async def _(target: Target) -> None:
    make = await word_of(target, "make")
    listings = [each for each in await target.listings() if each.get("make") == make]
    bodies = [each["body"] for each in listings if isinstance(each.get("body"), str)]
    if not bodies:
        raise Skipped("No listing has both make and body.")
    body = min(bodies, key=lambda value: (bodies.count(value), value))
    await _expect_all(target, {"make": [make], "body": [body]})


@check("filters.list-and-range")
async def _(target: Target) -> None:
    condition = await word_of(target, "condition", 10**9)
    listings = [each for each in await target.listings() if each.get("condition") == condition]
    prices = sorted(numbers(listings, "price"))
    if not prices:
        raise Skipped("No listing of a condition has a price.")
    await _expect_all(target, {"condition": [condition], "price_max": int(prices[len(prices) // 2])})


@check("filters.two-ranges")
async def _(target: Target) -> None:
    await _expect_all(target, {name: await end_of(target, name) for name in ("year_min", "price_max")})


@check("filters.many")
async def _(target: Target) -> None:
    for each in await target.some_listings():
        year, price = number_of(each, "year"), number_of(each, "price")
        words = {name: [each.get(WORD_FILTERS[name])] for name in ("make", "model", "condition", "rooftops")}
        if year and price and all(isinstance(word, str) for [word] in words.values()):
            await _expect_all(target, {**words, "year_min": int(year), "year_max": int(year), "price_max": int(price)})
            return
    raise Skipped("No listing has make, model, condition, rooftop, year and price.")


@check("filters.contradiction")
async def _(target: Target) -> None:
    make = await word_of(target, "make")
    for each in await identified(target, "vin"):
        if isinstance(each.get("make"), str) and clearly_different("make", each["make"], make):
            page = await filtered(target, {"vin": each["vin"], "make": [make]})
            expect(not page.vehicles and not page.total, "The VIN of a vehicle and another make find a vehicle.")
            return
    raise Skipped("No listing with a VIN has a clearly different make.")


async def _expect_all(target: Target, filters: dict[str, Any]) -> None:
    """All filters of a search apply: each vehicle that it returns matches each of them, and none is missing."""

    def matches(each: Listing) -> bool | None:
        results = [
            range_matches(name, value, each) if name in RANGE_FILTERS else word_matches(WORD_FILTERS[name], value, each)
            for name, value in filters.items()
        ]
        return False if False in results else None if None in results else True

    await expect_matching(target, filters, matches)


async def _expect_same(
    target: Target, filters: dict[str, Any], others: dict[str, Any], *, at_least: bool = False
) -> None:
    """Two spellings of filters find the same vehicles; with `at_least`, the second spelling may find more."""
    page, other = await filtered(target, filters), await filtered(target, others)
    if page.total is None or other.total is None:
        raise Skipped("A response has no total.")
    if other.total != page.total and not (at_least and other.total > page.total):
        raise Failed(f"{shown(others)} finds {other.total} vehicles, and {shown(filters)} {page.total}.")


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
    await target.listings()
    whole = target.stock.total
    expect(page.total == whole, f"{shown(members)} finds {page.total} of {whole}, although it is no constraint.")


@check("strict.filter-null")
async def _(target: Target) -> None:
    await expect_refused(target, filters={"model": None})
