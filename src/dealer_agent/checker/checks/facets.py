"""inventory.facets, recomputed from the listings."""

from collections import Counter
from typing import Any

from dealer_agent.checker.check import CheckFunction, Failed, Skipped, check, expect
from dealer_agent.checker.checks.filters import (
    RANGE_FILTERS,
    WORD_FILTERS,
    end_of,
    name_of,
    range_matches,
    word_matches,
    word_of,
)
from dealer_agent.checker.checks.listings import MEMBERS
from dealer_agent.checker.searches import Matches, expect_number, identified, number_of, shown
from dealer_agent.checker.target import Target

COUNTED = {
    "makes": "make",
    "models": "model",
    "trims": "trim",
    "years": "year",
    "conditions": "condition",
    "vehicle_types": "vehicle_type",
    "transmissions": "transmission",
    "fuels": "fuel",
    "dc_fast_charge": "dc_fast_charge",
    "charge_ports": "charge_port",
    "drivelines": "driveline",
    "bodies": "body",
    "exterior_colors": "exterior_color",
    "interior_colors": "interior_color",
    "rooftops": "rooftop",
    "statuses": "status",
}
"""The facets that count values, with the member of a listing that each is about."""

RANGES = {
    "price_range": "price",
    "mileage_range": "mileage",
    "year_range": "year",
    "displacement_cc_range": "displacement_cc",
    "electric_range_mi_range": "electric_range_mi",
}
"""The facets that are ranges."""


def _text(value: Any) -> str:
    """A value as facets may write it: numbers and booleans as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


def counts_of(facet: Any) -> dict[str, int] | None:
    """The counts of a facet by value. None if it is absent or malformed."""
    if not isinstance(facet, list) or not all(isinstance(each, dict) for each in facet):
        return None
    found: Counter[str] = Counter()
    for each in facet:
        count = each.get("count")
        if isinstance(count, bool) or not isinstance(count, (int, float)) or count != int(count):
            return None
        found[_text(each.get("value"))] += int(count)
    return dict(found)


def _counts(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        member = COUNTED[name]
        listings = await _whole_stock(target, member)
        facet = (await _facets(target)).get(name)
        if facet is None:
            raise Skipped(f"The reply has no {name}.")
        counts = counts_of(facet)
        if counts is None:
            raise Skipped(f"{name} is malformed.")
        default = "car" if member == "vehicle_type" else None
        expected = Counter(
            _text(each.get(member, default)) for each in listings if each.get(member, default) is not None
        )
        for value in sorted(expected.keys() | counts.keys()):
            count = counts.get(value, 0)
            expect(
                count == expected[value],
                f"{name} counts {count} of {value}, and the listings have {expected[value]}.",
                target,
            )

    return run


def _range(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        listings = await _whole_stock(target, RANGES[name])
        facet = (await _facets(target)).get(name)
        if facet is None:
            raise Skipped(f"The reply has no {name}.")
        if not isinstance(facet, dict):
            raise Skipped(f"{name} is malformed.")
        values = [value for each in listings if (value := number_of(each, RANGES[name])) is not None]
        expect(values, f"{name} is there although no listing has {RANGES[name]}.", target)
        ends = {"min": min(values), "max": max(values)}
        for end, value in ends.items():
            expect(
                facet.get(end) == value, f"{name} has {end} {facet.get(end)!r}, and the listings have {value}.", target
            )

    return run


def _filtered(name: str) -> CheckFunction:
    async def run(target: Target) -> None:
        filters, matches = await _filter(target, name)
        facet = await _facet_of_all(target)
        counts = counts_of((await target.ask("inventory.facets", filters=filters)).get(facet, []))
        if counts is None:
            raise Skipped(f"{facet} is malformed.")
        await expect_number(target, sum(counts.values()), filters, matches)

    return run


async def _filter(target: Target, name: str) -> tuple[dict[str, Any], Matches]:
    """A filter that some listings match and others do not."""
    if name in WORD_FILTERS:
        word = await word_of(target, name)
        return {name: [word]}, lambda each: word_matches(WORD_FILTERS[name], [word], each)
    if name in RANGE_FILTERS:
        end = await end_of(target, name)
        return {name: end}, lambda each: range_matches(name, end, each)
    if name == "dc_fast_charge":
        if not any(each.get(name) is True for each in await target.material.some_listings()):
            raise Skipped("No listing has dc_fast_charge.")
        return {name: True}, lambda each: each.get(name) is True
    if name == "query":
        make = await word_of(target, "make")
        return {name: make}, lambda each: True if each.get("make") == make else None
    value = str((await identified(target, name))[0][name])
    return {name: value}, lambda each: True if each.get(name) == value else (None if name == "stock" else False)


async def _facets(target: Target) -> dict[str, Any]:
    """The facets of the whole stock. `facets.type-only` fails if they are refused."""
    try:
        return await target.ask("inventory.facets")
    except Failed as failure:
        raise Skipped(f"There are no facets: {failure}") from None


async def _whole_stock(target: Target, member: str) -> list[dict[str, Any]]:
    """All listings, to count their values of a member. Skips the check if these cannot be counted."""
    listings = await target.material.some_listings()
    if not target.material.complete:
        raise Skipped("The stock is too large to count all listings.")
    form, _ = MEMBERS[member]
    required = member in ("status", "rooftop")
    for each in listings:
        if not form(each[member]) if each.get(member) is not None else required:
            raise Skipped(f"{member} of a listing is absent or malformed. Another check fails for it.")
    return listings


async def _facet_of_all(target: Target) -> str:
    """A facet whose member every listing has, so that its counts add up to the number of vehicles."""
    listings = await target.material.some_listings()
    facets = await _facets(target)
    for name in ("statuses", "rooftops", "conditions", "makes", "years"):
        if all(each.get(COUNTED[name]) is not None for each in listings) and counts_of(facets.get(name)):
            return name
    raise Skipped("No facet counts all vehicles.")


for _name in COUNTED:
    check(f"facet.{name_of(_name)}")(_counts(_name))
for _name in RANGES:
    check(f"facet.{name_of(_name)}")(_range(_name))
for _name in (*WORD_FILTERS, *RANGE_FILTERS, "dc_fast_charge", "vin", "stock", "query"):
    check(f"facets-filter.{name_of(_name)}")(_filtered(_name))


@check("facets.type-only")
async def type_only(target: Target) -> None:
    """A request without filters is answered."""
    await target.ask("inventory.facets")


@check("facets.some")
async def some(target: Target) -> None:
    """The stock has facets."""
    await target.material.some_listings()
    facets = await _facets(target)
    expect(facets.keys() & (COUNTED.keys() | RANGES.keys()), "The reply has no facet.", target)


@check("facets.entries")
async def entries(target: Target) -> None:
    """An entry is a value and its count."""
    for name, facet in await _present(target, COUNTED):
        good = isinstance(facet, list) and all(
            isinstance(each, dict)
            and each.keys() >= {"value", "count"}
            and isinstance(each["value"], (str, int, float))
            and isinstance(each["count"], (int, float))
            for each in facet
        )
        expect(good, f"{name} is no array of {{value, count}}.", target)


@check("facets.entry-members")
async def entry_members(target: Target) -> None:
    """An entry has no other member."""
    for name, facet in await _present(target, COUNTED):
        more = {member for each in facet if isinstance(each, dict) for member in each} - {"value", "count"}
        expect(not more, f"An entry of {name} has the unknown member {min(more, default='')}.", target)


@check("facets.range-form")
async def range_form(target: Target) -> None:
    """A range is a minimum and a maximum."""
    for name, facet in await _present(target, RANGES):
        good = isinstance(facet, dict) and all(number_of(facet, end) is not None for end in ("min", "max"))
        expect(good, f"{name} is not {{min, max}}.", target)


@check("facets.range-members")
async def range_members(target: Target) -> None:
    """A range has no other member."""
    for name, facet in await _present(target, RANGES):
        more = (facet.keys() if isinstance(facet, dict) else set()) - {"min", "max"}
        expect(not more, f"{name} has the unknown member {min(more, default='')}.", target)


@check("facets.values-once")
async def values_once(target: Target) -> None:
    """A facet has each value once."""
    for name, facet in await _present(target, COUNTED):
        values = Counter(_text(each.get("value")) for each in facet if isinstance(each, dict))
        twice = next((value for value, count in values.items() if count > 1), None)
        expect(twice is None, f"{name} has the value {twice} twice.", target)


@check("facets.highest-first")
async def highest_first(target: Target) -> None:
    """The highest count comes first."""
    for name, facet in await _present(target, COUNTED):
        counts = [count for each in facet if isinstance(each, dict) and (count := number_of(each, "count")) is not None]
        expect(counts == sorted(counts, reverse=True), f"{name} does not begin with the highest count.", target)


@check("facets.years")
async def years(target: Target) -> None:
    """Years are integers."""
    facet = (await _facets(target)).get("years")
    if not facet or not isinstance(facet, list):
        raise Skipped("The reply has no years.")
    good = all(isinstance(each, dict) and number_of(each, "value") is not None for each in facet)
    expect(good, "A value of years is no integer.", target)


@check("facets.empty")
async def empty(target: Target) -> None:
    """Filters that nothing matches give no counts and no ranges."""
    facets = await target.ask("inventory.facets", filters={"make": ["Qzxvwk"]})
    for name in COUNTED:
        expect(
            not sum((counts_of(facets.get(name)) or {}).values()), f"{name} counts vehicles that do not match.", target
        )
    for name in RANGES:
        expect(facets.get(name) is None, f"{name} is there although no vehicle matches.", target)


@check("facets.filtered-range")
async def filtered_range(target: Target) -> None:
    """Ranges are those of the vehicles that match."""
    await _whole_stock(target, "price")
    end = await end_of(target, "price_max")
    found = (await target.ask("inventory.facets", filters={"price_max": end})).get("price_range")
    if not isinstance(found, dict):
        raise Skipped("The reply has no price_range.")
    expect(
        found.get("max") == end, f"With {shown({'price_max': end})}, price_range ends at {found.get('max')}.", target
    )


@check("facets.known-members")
async def known_members(target: Target) -> None:
    """The reply has no other facets than those of the protocol."""
    facets = await _facets(target)
    more = facets.keys() - COUNTED.keys() - RANGES.keys()
    expect(not more, f"The reply has the unknown facet {min(more, default='')}.", target)


@check("facets.empty-filters")
async def empty_filters(target: Target) -> None:
    """Empty filters are no constraint."""
    facet = await _facet_of_all(target)
    counts = counts_of((await target.ask("inventory.facets", filters={})).get(facet))
    whole = counts_of((await _facets(target)).get(facet))
    expect(counts == whole, f"With empty filters, {facet} has other counts than without filters.", target)


@check("facets.by-revision")
async def by_revision(target: Target) -> None:
    """Early versions do not know all facets."""
    facets = await _facets(target)
    names = {name for name, member in (COUNTED | RANGES).items() if member in target.revision.left_out}
    more = facets.keys() & names
    expect(not more, f"{target.revision.name} does not know the facet {min(more, default='')}.", target)


async def _present(target: Target, names: dict[str, str]) -> list[tuple[str, Any]]:
    """The facets of the whole stock that the reply has."""
    facets = await _facets(target)
    found = [(name, facets[name]) for name in names if facets.get(name) is not None]
    if not found:
        raise Skipped("The reply has none of these facets.")
    return found
