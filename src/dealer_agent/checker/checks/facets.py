"""inventory.facets, recomputed from the listings."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from dealer_agent.checker.check import check, check_each
from dealer_agent.checker.checks.filters import end_of, range_matches, word_matches, word_of
from dealer_agent.checker.exchange import dicts
from dealer_agent.checker.fields import (
    COUNTED,
    EXACT_FILTERS,
    MEMBERS,
    RANGE_FILTERS,
    RANGES,
    TRUE_FILTERS,
    WORD_FILTERS,
    by_id,
)
from dealer_agent.checker.forms import whole_number
from dealer_agent.checker.outcome import Skipped, expect, skip_if_failed
from dealer_agent.checker.searches import Matches, expect_number, identified, number_of, numbers, shown
from dealer_agent.checker.target import Target
from dealer_agent.protocol.vehicle import FIELDS


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
        count = whole_number(each.get("count"))
        if count is None:
            return None
        found[_text(each.get("value"))] += count
    return dict(found)


async def _facet(target: Target, name: str) -> Any:
    """A facet of the whole stock. Skips the check if the response does not have it."""
    facet = (await _facets(target)).get(name)
    if facet is None:
        raise Skipped(f"The response has no {name}.")
    return facet


@check_each(by_id("facet", COUNTED))
async def _(target: Target, name: str) -> None:
    member = COUNTED[name]
    listings = await _whole_stock(target, member)
    counts = counts_of(await _facet(target, name))
    if counts is None:
        raise Skipped(f"{name} is malformed.")
    default = FIELDS[member].field.absent_means
    values = [each.get(member, default) for each in listings]
    expected = Counter(_text(value) for value in values if value is not None)
    for value in sorted(expected.keys() | counts.keys()):
        count = counts.get(value, 0)
        expect(
            count == expected[value],
            f"{name} counts {count} of {value}, and the listings have {expected[value]}.",
        )


@check_each(by_id("facet", RANGES))
async def _(target: Target, name: str) -> None:
    listings = await _whole_stock(target, RANGES[name])
    facet = await _facet(target, name)
    if not isinstance(facet, dict):
        raise Skipped(f"{name} is malformed.")
    values = numbers(listings, RANGES[name])
    expect(values, f"{name} is there although no listing has {RANGES[name]}.")
    for end, value in {"min": min(values), "max": max(values)}.items():
        expect(facet.get(end) == value, f"{name} has {end} {facet.get(end)!r}, and the listings have {value}.")


@check_each(by_id("facets-filter", (*WORD_FILTERS, *RANGE_FILTERS, *TRUE_FILTERS, *EXACT_FILTERS, "query")))
async def _(target: Target, name: str) -> None:
    filters, matches = await _filter(target, name)
    facet = await _facet_of_all(target)
    counts = counts_of((await target.ask("inventory.facets", filters=filters)).get(facet, []))
    if counts is None:
        raise Skipped(f"{facet} is malformed.")
    await expect_number(target, sum(counts.values()), filters, matches)


async def _filter(target: Target, name: str) -> tuple[dict[str, Any], Matches]:
    """A filter that at least one listing matches, and a function that judges a listing.

    It returns True if the listing must match, False if it must not, and None if it may.
    """
    if name in WORD_FILTERS:
        word = await word_of(target, name)
        return {name: [word]}, lambda each: word_matches(WORD_FILTERS[name], [word], each)
    if name in RANGE_FILTERS:
        end = await end_of(target, name)
        return {name: end}, lambda each: range_matches(name, end, each)
    if name in TRUE_FILTERS:
        if not any(each.get(name) is True for each in await target.some_listings()):
            raise Skipped(f"No listing has {name}.")
        return {name: True}, lambda each: each.get(name) is True
    if name == "query":
        make = await word_of(target, "make")
        return {name: make}, lambda each: True if each.get("make") == make else None
    value = str((await identified(target, name))[0][name])
    return {name: value}, lambda each: True if each.get(name) == value else (None if name == "stock" else False)


async def _facets(target: Target) -> dict[str, Any]:
    """The facets of the whole stock. `facets.type-only` fails if they are refused."""
    with skip_if_failed("There are no facets: "):
        return await target.ask("inventory.facets")


async def _whole_stock(target: Target, member: str) -> list[dict[str, Any]]:
    """All listings, to count their values of a member. Skips the check if these cannot be counted."""
    listings = await target.some_listings()
    if not target.stock.complete:
        raise Skipped("The stock is too large to count all listings.")
    form, _ = MEMBERS[member]
    required = member in ("status", "rooftop")
    for each in listings:
        if not form(each[member]) if each.get(member) is not None else required:
            raise Skipped(f"{member} of a listing is absent or malformed. Another check fails for it.")
    return listings


async def _facet_of_all(target: Target) -> str:
    """A facet whose member every listing has, so that its counts add up to the number of vehicles."""
    listings = await target.some_listings()
    facets = await _facets(target)
    for name in ("statuses", "rooftops", "conditions", "makes", "years"):
        if all(each.get(COUNTED[name]) is not None for each in listings) and counts_of(facets.get(name)):
            return name
    raise Skipped("No facet counts all vehicles.")


@check("facets.some")
async def _(target: Target) -> None:
    await target.some_listings()
    expect((await _facets(target)).keys() & (COUNTED.keys() | RANGES.keys()), "The response has no facet.")


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() >= {"value", "count"}
        and isinstance(entry["value"], (str, int, float))
        and isinstance(entry["count"], (int, float))
    )


def _has_values_once(facet: Any) -> bool:
    values = [_text(each.get("value")) for each in dicts(facet)]
    return len(set(values)) == len(values)


def _begins_with_highest(facet: Any) -> bool:
    counts = numbers(dicts(facet), "count")
    return counts == sorted(counts, reverse=True)


@check_each(
    {
        "facets.entries": (
            COUNTED,
            lambda facet: isinstance(facet, list) and all(map(_is_entry, facet)),
            "is no array of {value, count}",
        ),
        "facets.entry-members": (
            COUNTED,
            lambda facet: all(each.keys() <= {"value", "count"} for each in dicts(facet)),
            "has an entry with an unknown member",
        ),
        "facets.range-form": (
            RANGES,
            lambda facet: isinstance(facet, dict) and all(number_of(facet, end) is not None for end in ("min", "max")),
            "is not {min, max}",
        ),
        "facets.range-members": (
            RANGES,
            lambda facet: not isinstance(facet, dict) or facet.keys() <= {"min", "max"},
            "has an unknown member",
        ),
        "facets.values-once": (COUNTED, _has_values_once, "has a value twice"),
        "facets.highest-first": (COUNTED, _begins_with_highest, "does not begin with the highest count"),
    }
)
async def _(target: Target, names: Iterable[str], judge: Callable[[Any], object], fault: str) -> None:
    facets = await _facets(target)
    found = [name for name in names if facets.get(name) is not None]
    if not found:
        raise Skipped("The response has none of these facets.")
    for name in found:
        expect(judge(facets[name]), f"{name} {fault}.")


@check("facets.years")
async def _(target: Target) -> None:
    facet = await _facet(target, "years")
    if not facet or not isinstance(facet, list):
        raise Skipped("The response has no years.")
    good = all(isinstance(each, dict) and number_of(each, "value") is not None for each in facet)
    expect(good, "A value of years is no integer.")


@check("facets.empty")
async def _(target: Target) -> None:
    facets = await target.ask("inventory.facets", filters={"make": ["Qzxvwk"]})
    for name in COUNTED:
        expect(not any((counts_of(facets.get(name)) or {}).values()), f"{name} counts vehicles that do not match.")
    for name in RANGES:
        expect(facets.get(name) is None, f"{name} is there although no vehicle matches.")


@check("facets.filtered-range")
async def _(target: Target) -> None:
    await _whole_stock(target, "price")
    end = await end_of(target, "price_max")
    found = (await target.ask("inventory.facets", filters={"price_max": end})).get("price_range")
    if not isinstance(found, dict):
        raise Skipped("The response has no price_range.")
    expect(found.get("max") == end, f"With {shown({'price_max': end})}, price_range ends at {found.get('max')}.")


@check("facets.known-members")
async def _(target: Target) -> None:
    more = (await _facets(target)).keys() - COUNTED.keys() - RANGES.keys()
    expect(not more, f"The response has the unknown facet {min(more, default='')}.")


@check("facets.empty-filters")
async def _(target: Target) -> None:
    facet = await _facet_of_all(target)
    counts = counts_of((await target.ask("inventory.facets", filters={})).get(facet))
    whole = counts_of((await _facets(target)).get(facet))
    expect(counts == whole, f"With empty filters, {facet} has other counts than without filters.")


@check("facets.by-revision")
async def _(target: Target) -> None:
    names = {name for name, member in (COUNTED | RANGES).items() if member in target.revision.unsearchable}
    more = (await _facets(target)).keys() & names
    expect(not more, f"{target.revision.name} does not know the facet {min(more, default='')}.")
