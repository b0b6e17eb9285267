"""Checks inventory.facets: it recomputes the counts and ranges from the listings."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import at, dicts
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
from dealer_agent.checker.forms import array_of, whole_number
from dealer_agent.checker.oracle import matcher
from dealer_agent.checker.outcome import Judgement, Skipped, expect, skip_if_failed, skip_unless
from dealer_agent.checker.searches import (
    Case,
    end_of,
    expect_number,
    filter_of,
    number_of,
    numbers,
    shown,
    two_words_of,
    word_of,
)
from dealer_agent.checker.target import Listing, Target
from dealer_agent.protocol.vehicle import FIELDS

Facets = dict[str, Any]


def _text(value: Any) -> str:
    """A value as facets may write it: numbers and booleans as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def counts_of(facet: Any) -> dict[str, int] | None:
    """The counts of a facet by value. None if it is absent or malformed."""
    if not array_of(lambda each: isinstance(each, dict) and whole_number(each.get("count")) is not None)(facet):
        return None
    counts: Counter[str] = Counter()
    for each in facet:
        counts[_text(each.get("value"))] += int(each["count"])
    return dict(counts)


async def _facet(target: Target, name: str) -> Any:
    """A facet of the whole stock. Skips the check if the response does not have it."""
    facet = (await _facets(target)).get(name)
    skip_unless(facet is not None, f"The response has no {name}.")
    return facet


def wrong_facet(name: str, facet: Any, listings: Sequence[Listing]) -> str | None:
    """What is wrong with a facet of these listings; None if nothing is. A malformed one is judged elsewhere."""
    if name in RANGES:
        values = numbers(listings, RANGES[name])
        if not values:
            return f"{name} is there although no listing has {RANGES[name]}."
        wrong = (end for end, value in {"min": min(values), "max": max(values)}.items() if facet.get(end) != value)
        return next(
            (f"{name} has {each} {facet.get(each)!r}, not {min(values)} to {max(values)}." for each in wrong), None
        )
    if (counts := counts_of(facet)) is None:
        raise Skipped(f"{name} is malformed.")
    default = FIELDS[COUNTED[name]].field.absent_means
    words = [each.get(COUNTED[name], default) for each in listings]
    expected = Counter(_text(word) for word in words if word is not None)
    # A dealer may show the most frequent values only.
    least = min(counts.values(), default=0)
    left_out = {value for value in expected.keys() - counts.keys() if expected[value] <= least}
    for value in sorted((expected.keys() | counts.keys()) - left_out):
        if counts.get(value, 0) != expected[value]:
            return f"{name} counts {counts.get(value, 0)} of {value}, and the listings have {expected[value]}."
    return None


@check_each(by_id("facet", COUNTED | RANGES))
async def _(target: Target, name: str) -> None:
    """The facet is compared with the listings of the whole stock."""
    listings = await _whole_stock(target, (COUNTED | RANGES)[name])
    facet = await _facet(target, name)
    skip_unless(name in COUNTED or isinstance(facet, dict), f"{name} is malformed.")
    wrong = wrong_facet(name, facet, listings)
    expect(wrong is None, str(wrong))


@check_each(by_id("facets-filter", (*WORD_FILTERS, *RANGE_FILTERS, *TRUE_FILTERS, *EXACT_FILTERS, "query")))
async def _(target: Target, name: str) -> None:
    """The counts of a facet that counts all vehicles add up to the number of listings that match the filter.

    A list has one word, and then two.
    """
    cases = [await (_query(target) if name == "query" else filter_of(target, name))]
    if name in WORD_FILTERS:
        cases.append(await two_words_of(target, name))
    facet = await facet_of_all(target)
    for filters, matches in cases:
        counts = counts_of((await target.ask("inventory.facets", filters=filters)).get(facet, []))
        if counts is None:
            raise Skipped(f"{facet} is malformed.")
        # The conditions used and cpo are not the same, though a listing of one is both.
        exactly = matcher(filters) if name == "condition" else matches
        await expect_number(target, sum(counts.values()), filters, exactly)


async def _query(target: Target) -> Case:
    make = await word_of(target, "make")
    return {"query": make}, lambda each: True if each.get("make") == make else None


async def _facets(target: Target) -> dict[str, Any]:
    """The facets of the whole stock. `facets.type-only` fails if they are refused."""
    with skip_if_failed("There are no facets: "):
        return await target.ask("inventory.facets")


async def ask_filtered(target: Target, filters: Mapping[str, Any]) -> Facets:
    """Facets with these filters. Skips the check if they are refused: the specification names only `condition`."""
    with skip_if_failed("Facets are refused with a filter: "):
        return await target.ask("inventory.facets", filters=dict(filters))


async def _whole_stock(target: Target, member: str) -> list[dict[str, Any]]:
    """All listings, to count their values of a member. Skips the check if these cannot be counted."""
    listings = await target.some_listings()
    skip_unless(target.stock.is_complete, "The stock is too large to count all listings.")
    form, _ = MEMBERS[member]
    optional = member not in ("status", "rooftop")
    good = all(optional if each.get(member) is None else form(each[member]) for each in listings)
    skip_unless(good, f"{member} of a listing is absent or malformed. Another check reports that.")
    return listings


async def facet_of_all(target: Target) -> str:
    """A facet whose member every listing has, so that its counts add up to the number of vehicles."""
    listings = await target.some_listings()
    facets = await _facets(target)
    names = [
        name
        for name in ("statuses", "rooftops", "conditions", "makes", "years")
        if all(each.get(COUNTED[name]) is not None for each in listings) and counts_of(facets.get(name))
    ]
    return skip_unless(names, "No facet counts all vehicles.")[0]


# The form of facets


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


def _each_of(names: Iterable[str], form: Callable[[Any], object], defect: str) -> Judgement:
    """A judgement of the facets of a response: each facet with one of these names has a form."""

    def judge(facets: Facets) -> bool | str:
        named = skip_unless(
            {name for name in names if facets.get(name) is not None}, "The response has none of these facets."
        )
        wrong = sorted(name for name in named if not form(facets[name]))
        return not wrong or f"{wrong[0]} {defect}."

    return judge


def _has_integer_years(facets: Facets) -> bool | str:
    facet = skip_unless(dicts(facets.get("years")), "The response has no years.")
    return all(number_of(each, "value") is not None for each in facet) or "A value of years is not an integer."


def _counts_in_numbers(facets: Facets) -> bool | str:
    """Expects that counts, and the ends of ranges, are numbers. Returns the fault as a sentence, or True.

    It judges only entries in the form of the published versions: the specification does not show another one.
    """
    for name in COUNTED.keys() & facets.keys():
        for entry in dicts(facets[name]):
            if "value" in entry and "count" in entry and whole_number(entry["count"]) is None:
                return f"{name} has the count {entry['count']!r}."
    for name in RANGES.keys() & facets.keys():
        for end in ("min", "max"):
            value = at(facets[name], end)
            if value is not None and number_of(facets[name], end) is None:
                return f"{name} has {end} {value!r}."
    return True


def _has_no_others(facets: Facets) -> bool | str:
    more = facets.keys() - COUNTED.keys() - RANGES.keys()
    return not more or f"The response has the unknown facet {min(more)}."


each_of(
    _facets,
    {
        "facets.entries": _each_of(COUNTED, array_of(_is_entry), "is not an array of {value, count}"),
        "facets.entry-members": _each_of(
            COUNTED,
            lambda facet: all(each.keys() <= {"value", "count"} for each in dicts(facet)),
            "has an entry with an unknown member",
        ),
        "facets.range-form": _each_of(
            RANGES,
            lambda facet: isinstance(facet, dict) and all(number_of(facet, end) is not None for end in ("min", "max")),
            "is not {min, max}",
        ),
        "facets.range-members": _each_of(
            RANGES, lambda facet: not isinstance(facet, dict) or facet.keys() <= {"min", "max"}, "has an unknown member"
        ),
        "facets.values-once": _each_of(COUNTED, _has_values_once, "has a value twice"),
        "facets.highest-first": _each_of(COUNTED, _begins_with_highest, "does not begin with the highest count"),
        "facets.numbers": _counts_in_numbers,
        "facets.years": _has_integer_years,
        "facets.known-members": _has_no_others,
    },
)


@check("facets.some")
async def _(target: Target) -> None:
    await target.some_listings()
    expect((await _facets(target)).keys() & (COUNTED.keys() | RANGES.keys()), "The response has no facet.")


@check("facets.complete")
async def _(target: Target) -> None:
    facets = await _facets(target)
    for name, member in (COUNTED | RANGES).items():
        if member not in target.revision.unsearchable and name not in facets:
            number = sum(each.get(member) is not None for each in await target.some_listings())
            expect(not number, f"The response has no {name}, and {number} listings have {member}.")


@check("facets.empty")
async def _(target: Target) -> None:
    """The filter is a make that no vehicle has. A facet may be absent or empty, or count 0.

    Skips the check if facets do not know the filter: the specification names only `condition`.
    """
    facet, whole = await facet_of_all(target), await _facets(target)
    filters, _ = await filter_of(target, "make")
    narrowed = (await ask_filtered(target, filters)).get(facet)
    skip_unless(counts_of(narrowed) != counts_of(whole.get(facet)), "A make does not narrow the facets.")
    # A make that narrows the facets is known to them: another one is not refused.
    facets = await target.ask("inventory.facets", filters={"make": ["Qzxvwk"]})
    for name in COUNTED:
        expect(not any((counts_of(facets.get(name)) or {}).values()), f"{name} counts vehicles that do not match.")
    for name in RANGES:
        same = facets.get(name) and facets.get(name) == whole.get(name)
        expect(not same, f"{name} is that of the whole stock although no vehicle matches.")


@check("facets.filtered-range")
async def _(target: Target) -> None:
    await _whole_stock(target, "price")
    end = await end_of(target, "price_max")
    facet = (await target.ask("inventory.facets", filters={"price_max": end})).get("price_range")
    skip_unless(isinstance(facet, dict), "The response has no price_range.")
    expect(at(facet, "max") == end, f"With {shown({'price_max': end})}, price_range ends at {at(facet, 'max')}.")


@check("facets.empty-filters")
async def _(target: Target) -> None:
    """The counts with empty filters are compared with those without filters."""
    facet = await facet_of_all(target)
    counts = counts_of((await target.ask("inventory.facets", filters={})).get(facet))
    whole = counts_of((await _facets(target)).get(facet))
    expect(counts == whole, f"With empty filters, {facet} has other counts than without filters.")


@check("facets.by-revision")
async def _(target: Target) -> None:
    names = {name for name, member in (COUNTED | RANGES).items() if member in target.revision.unsearchable}
    more = (await _facets(target)).keys() & names
    expect(not more, f"{target.revision.name} does not know the facet {min(more, default='')}.")
