"""Filters of inventory.search: each one recomputed from the listings, and filters together."""

from collections.abc import Sequence
from typing import Any

from dealer_agent.checker import forms
from dealer_agent.checker.check import CheckFunction, Failed, Skipped, check, expect
from dealer_agent.checker.differences import clearly_different, typical_value
from dealer_agent.checker.searches import (
    PAGE,
    Listing,
    Page,
    expect_matching,
    filtered,
    identified,
    key_of,
    number_of,
    shown,
)
from dealer_agent.checker.target import Target

WORD_FILTERS = {
    "make": "make",
    "model": "model",
    "trim": "trim",
    "condition": "condition",
    "vehicle_type": "vehicle_type",
    "transmission": "transmission",
    "fuel": "fuel",
    "charge_port": "charge_port",
    "driveline": "driveline",
    "body": "body",
    "exterior_color": "exterior_color",
    "interior_color": "interior_color",
    "rooftops": "rooftop",
}
"""The filters that are lists of words, with the member of a listing that each is about."""

RANGE_FILTERS = {
    "year_min": "year",
    "year_max": "year",
    "price_min": "price",
    "price_max": "price",
    "mileage_max": "mileage",
    "electric_range_mi_min": "electric_range_mi",
    "electric_range_mi_max": "electric_range_mi",
    "displacement_cc_min": "displacement_cc",
    "displacement_cc_max": "displacement_cc",
}
"""The filters that are ends of ranges, with the member of a listing that each is about."""


def name_of(filter_name: str) -> str:
    """A filter's name as a part of an id."""
    return filter_name.replace("_", "-")


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
    """Whether a listing must, must not or may match an end of a range. `range.absent` judges absent values."""
    value = number_of(listing, RANGE_FILTERS[name])
    if value is None:
        return None
    return value >= end if name.endswith("_min") else value <= end


async def word_of(target: Target, name: str, most: int = PAGE) -> str:
    """A word to filter by. Skips the check if the stock has none."""
    member = WORD_FILTERS[name]
    if (word := typical_value(member, await target.material.some_listings(), most)) is None:
        raise Skipped(f"No two listings have clearly different values of {member}.")
    return word


async def end_of(target: Target, name: str) -> int:
    """An end of a range that some listings match and others do not: the value of a listing.

    Skips the check if the stock has none.
    """
    member = RANGE_FILTERS[name]
    values = sorted(
        {value for each in await target.material.having(member) if (value := number_of(each, member)) is not None}
    )
    whole = [int(value) for value in values if value == int(value) and value >= 0]
    if member == "year":
        whole = [value for value in whole if forms.year(value)]
    inner = [value for value in whole if values[0] < value] if name.endswith("_min") else whole
    inner = inner if name.endswith("_min") else [value for value in inner if value < values[-1]]
    if not inner:
        raise Skipped(f"No two listings have different values of {member}.")
    return inner[len(inner) // 2]


def _word_filter(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        word = await word_of(target, name)
        await expect_matching(target, {name: [word]}, lambda each: word_matches(WORD_FILTERS[name], [word], each))

    return run


def _two_words(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        member = WORD_FILTERS[name]
        first = await word_of(target, name, PAGE // 2)
        others = [
            each
            for each in await target.material.listings()
            if isinstance(each.get(member), str) and clearly_different(member, each[member], first)
        ]
        second = typical_value(member, others, PAGE // 2) or str(others[0][member])
        words = [first, second]
        await expect_matching(target, {name: words}, lambda each: word_matches(member, words, each))

    return run


def _range_filter(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        end = await end_of(target, name)
        await expect_matching(target, {name: end}, lambda each: range_matches(name, end, each))

    return run


def _absent_from_range(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        member = RANGE_FILTERS[name]
        end = await end_of(target, name)
        if all(each.get(member) is not None for each in await target.material.listings()):
            raise Skipped(f"Each listing has {member}.")
        page = await _unless_refused(target, {name: end})
        absent = next((each for each in page.vehicles if each.get(member) is None), None)
        expect(
            absent is None, f"{absent and key_of(absent)} has no {member}, and matches {shown({name: end})}.", target
        )

    return run


for _name in WORD_FILTERS:
    check(f"filter.{name_of(_name)}")(_word_filter(_name))
    check(f"filter-list.{name_of(_name)}")(_two_words(_name))
for _name in RANGE_FILTERS:
    check(f"range.{name_of(_name)}")(_range_filter(_name))
    if not _name.startswith("year"):
        check(f"range-absent.{name_of(_name)}")(_absent_from_range(_name))


@check("filter.condition-exact")
async def condition_exact(target: Target) -> None:
    """`used` and `cpo` are two conditions."""
    listings = await target.material.some_listings()
    if not {"used", "cpo"} <= {str(each.get("condition")) for each in listings}:
        raise Skipped("The stock does not have both used and certified vehicles.")
    page = await filtered(target, {"condition": ["cpo"]})
    expect(
        all(each.get("condition") != "used" for each in page.vehicles), "The condition cpo finds used vehicles.", target
    )
    page = await filtered(target, {"condition": ["used"]})
    expect(
        all(each.get("condition") != "cpo" for each in page.vehicles), "The condition used finds cpo vehicles.", target
    )


@check("filter.vehicle-type-absent")
async def vehicle_type_absent(target: Target) -> None:
    """A listing without a type is a car."""
    if all(each.get("vehicle_type") is not None for each in await target.material.some_listings()):
        raise Skipped("Each listing has vehicle_type.")
    page = await _unless_refused(target, {"vehicle_type": ["car"]})
    cars = sum(each.get("vehicle_type") in (None, "car") for each in await target.material.listings())
    expect((page.total or 0) >= cars, f"vehicle_type car finds {page.total} vehicles, and not all {cars}.", target)


@check("filter.dc-fast-charge")
async def dc_fast_charge(target: Target) -> None:
    """True finds only vehicles that charge with direct current."""
    if not any(each.get("dc_fast_charge") is True for each in await target.material.some_listings()):
        raise Skipped("No listing has dc_fast_charge.")
    await expect_matching(target, {"dc_fast_charge": True}, lambda each: each.get("dc_fast_charge") is True)


@check("filter.dc-fast-charge-false")
async def dc_fast_charge_false(target: Target) -> None:
    """False is no constraint."""
    page = await filtered(target, {"dc_fast_charge": False})
    await _expect_whole_stock(target, page.total, {"dc_fast_charge": False})


@check("filter.vin")
async def vin(target: Target) -> None:
    """A VIN finds the vehicle that has it."""
    listings = await identified(target, "vin")
    wanted = str(listings[len(listings) // 2]["vin"])
    await expect_matching(target, {"vin": wanted}, lambda each: each.get("vin") == wanted)


@check("filter.stock")
async def stock(target: Target) -> None:
    """A stock number finds the vehicle that has it."""
    listings = await identified(target, "stock")
    wanted = str(listings[len(listings) // 2]["stock"])

    def matches(each: Listing) -> bool | None:
        if each.get("stock") == wanted:
            return True
        return False if clearly_different("stock", each.get("stock") or "", wanted) or not each.get("stock") else None

    await expect_matching(target, {"stock": wanted}, matches)


@check("filter.unknown-value")
async def unknown_value(target: Target) -> None:
    """A make that nobody has finds nothing."""
    await target.material.some_listings()
    page = await filtered(target, {"make": ["Qzxvwk"]})
    expect(not page.vehicles and not page.total, "A make that no vehicle has finds vehicles.", target)


@check("filter.empty-list")
async def empty_list(target: Target) -> None:
    """An empty array is no constraint."""
    page = await filtered(target, {"make": []})
    await _expect_whole_stock(target, page.total, {"make": []})


@check("filter.case")
async def case(target: Target) -> None:
    """Upper and lower case find the same."""
    word = await word_of(target, "make")
    await _expect_same(target, {"make": [word]}, {"make": [word.swapcase()]})


@check("filter.punctuation")
async def punctuation(target: Target) -> None:
    """F150 finds F-150."""
    for each in await target.material.having("model"):
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


def _synonym(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        values = {str(each.get(name)) for each in await target.material.some_listings()}
        for value, synonym in SYNONYMS[name]:
            if value in values:
                await _expect_same(target, {name: [value]}, {name: [synonym]}, at_least=True)
                return
        raise Skipped(f"No listing has a {name} for which the check knows another name.")

    return run


for _name in SYNONYMS:
    check(f"filter.synonym-{_name}")(_synonym(_name))


@check("range.both-ends")
async def both_ends(target: Target) -> None:
    """A minimum and a maximum of the same value find exactly this value."""
    year = await end_of(target, "year_min")
    filters = {"year_min": year, "year_max": year}
    await expect_matching(target, filters, lambda each: _unless_absent(each, "year", number_of(each, "year") == year))


@check("range.minimum-above-maximum")
async def minimum_above_maximum(target: Target) -> None:
    """It is valid, and finds nothing."""
    page = await filtered(target, {"price_min": 20_001, "price_max": 20_000})
    expect(page.total == 0 and not page.vehicles, "A minimum above the maximum finds vehicles.", target)


@check("range.zero")
async def zero(target: Target) -> None:
    """A minimum of 0 is valid, and all vehicles with a price match."""
    await expect_matching(target, {"price_min": 0}, lambda each: _unless_absent(each, "price", True))


@check("filters.two-lists")
async def two_lists(target: Target) -> None:
    """Two lists apply together."""
    make = await word_of(target, "make")
    body = await _word_within(target, "body", "make", make)
    await _expect_all(target, {"make": [make], "body": [body]})


@check("filters.list-and-range")
async def list_and_range(target: Target) -> None:
    """A list and a range apply together."""
    condition = await word_of(target, "condition", 10**9)
    prices = sorted(
        price
        for each in await target.material.listings()
        if each.get("condition") == condition and (price := number_of(each, "price")) is not None
    )
    if not prices:
        raise Skipped("No listing of a condition has a price.")
    await _expect_all(target, {"condition": [condition], "price_max": int(prices[len(prices) // 2])})


@check("filters.two-ranges")
async def two_ranges(target: Target) -> None:
    """Ranges of two members apply together."""
    await _expect_all(
        target, {"year_min": await end_of(target, "year_min"), "price_max": await end_of(target, "price_max")}
    )


@check("filters.many")
async def many(target: Target) -> None:
    """Seven filters apply together."""
    for each in await target.material.some_listings():
        year, price = number_of(each, "year"), number_of(each, "price")
        words = {name: each.get(WORD_FILTERS[name]) for name in ("make", "model", "condition", "rooftops")}
        if year and price and all(isinstance(word, str) for word in words.values()):
            lists: dict[str, Any] = {name: [word] for name, word in words.items()}
            await _expect_all(target, {**lists, "year_min": int(year), "year_max": int(year), "price_max": int(price)})
            return
    raise Skipped("No listing has make, model, condition, rooftop, year and price.")


@check("filters.contradiction")
async def contradiction(target: Target) -> None:
    """The VIN of one vehicle and the make of another find nothing."""
    make = await word_of(target, "make")
    for each in await identified(target, "vin"):
        if isinstance(each.get("make"), str) and clearly_different("make", each["make"], make):
            page = await filtered(target, {"vin": each["vin"], "make": [make]})
            expect(
                not page.vehicles and not page.total, "The VIN of a vehicle and another make find a vehicle.", target
            )
            return
    raise Skipped("No listing with a VIN has a clearly different make.")


async def _unless_refused(target: Target, filters: dict[str, Any]) -> Page:
    """The first page of a search. Skips the check if the search is refused: the check of the filter fails for that."""
    try:
        return await filtered(target, filters)
    except Failed as failure:
        raise Skipped(str(failure)) from None


def _unless_absent(listing: Listing, member: str, result: bool) -> bool | None:
    return None if number_of(listing, member) is None else result


async def _word_within(target: Target, name: str, other: str, word: str) -> str:
    """A word of a filter that a listing with another word has, and that not all of them have."""
    values = [
        str(each[WORD_FILTERS[name]])
        for each in await target.material.listings()
        if each.get(other) == word and isinstance(each.get(WORD_FILTERS[name]), str)
    ]
    if not values:
        raise Skipped(f"No listing has both {other} and {name}.")
    return min(values, key=lambda value: (values.count(value), value))


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
        raise Skipped("A reply has no total.")
    if other.total == page.total or (at_least and other.total > page.total):
        return
    raise Failed(f"{shown(others)} finds {other.total} vehicles, and {shown(filters)} {page.total}.", target.latest)


async def _expect_whole_stock(target: Target, total: int | None, filters: dict[str, Any]) -> None:
    await target.material.listings()
    whole = target.material.total
    expect(total == whole, f"{shown(filters)} finds {total} of {whole} vehicles, although it is no constraint.", target)
