"""Checks the lines of `[pricing]` against each other and against the rooftops. Pure.

One place has at most one line of a kind, so no line is silently added to another, and none replaces another.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from dealer_agent.offers.pricing_settings import MOST_LINES, LineRule, PricingSettings
from dealer_agent.offers.us_places import PREFIX_LENGTH, PREFIXES, STATES, UsLocation, place_of_address, states_of
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Path, Problem

ONE_AT_A_PLACE = frozenset({"doc", "title", "registration", "tax"})
"""The kinds of which a place has one line. Lines of the other kinds need different labels."""

_LINES: Path = ("pricing", "lines")


def pricing_fits(file: dict[str, Any]) -> Iterator[Problem]:
    """The problems of the lines with each other and with the rooftops. Parts of the file may be of a wrong type."""
    match file:
        case {"pricing": {"lines": list(lines)}, "rooftops": list(tables)}:
            rules = _rules(lines)
            rooftops = _rooftops(tables)
            yield from _unknown_rooftops(rules, [name for name, _ in rooftops.values()])
            yield from _twice(rules)
            yield from _without_tax(rules, rooftops)


def _rules(lines: list[Any]) -> dict[int, LineRule]:
    """The lines that have the right types, by number. Others are reported by their type."""
    found = {}
    for number, line in enumerate(lines[:MOST_LINES]):
        try:
            found[number] = msgspec.convert(line, LineRule)
        except (msgspec.ValidationError, RecursionError):
            continue
    return found


def _rooftops(tables: list[Any]) -> dict[int, tuple[str, UsLocation]]:
    """The name and the place of each rooftop, by number."""
    found = {}
    for number, table in enumerate(tables):
        match table:
            case {"name": str(name), "address": {"state": str(state), "zip": str(code), **rest}}:
                found[number] = name, place_of_address(state, code, str(rest.get("country", "US")))
            case {"name": str(name)}:
                found[number] = name, UsLocation()
    return found


def _unknown_rooftops(rules: Mapping[int, LineRule], known: Sequence[str]) -> Iterator[Problem]:
    for number, rule in rules.items():
        for position, name in enumerate(rule.rooftops):
            if name not in known:
                message = f"'{name}' is not a rooftop; name one of {', '.join(known)}" + did_you_mean(name, known)
                yield Problem((*_LINES, number, "rooftops", position), message)


def _twice(rules: Mapping[int, LineRule]) -> Iterator[Problem]:
    """The lines that hold at a place where an earlier line of the same kind does."""
    groups: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    places = _place_bits(rules.values())
    rooftops = _bits([(name,) for name in {name for rule in rules.values() for name in rule.rooftops}])
    for number, rule in rules.items():
        at = _union(places, (*rule.states, *rule.zips))
        for_rooftops = _union(rooftops, rule.rooftops)
        group = groups[rule.kind, "" if rule.kind in ONE_AT_A_PLACE else rule.label.casefold()]
        other = next((other for other, met, sold in group if at & met and for_rooftops & sold), None)
        if other is not None:
            yield Problem((*_LINES, number), _twice_message(rule, other))
        group.append((number, at, for_rooftops))


def _twice_message(rule: LineRule, other: int) -> str:
    if rule.kind in ONE_AT_A_PLACE:
        return (
            f"is for a place that lines[{other}] is for too, and a place has one line of kind {rule.kind}; write "
            "their sum"
        )
    return f"is for a place that lines[{other}] is for too, with the same label; give each its own, or remove one"


def _place_bits(rules: Iterable[LineRule]) -> dict[str, int]:
    """For each state, prefix and ZIP code that a rule can name, a number with the bits of its places.

    The places of the bits are disjoint: the named ZIP codes, the rest of each prefix, and the rest of each state.
    """
    codes = {code for rule in rules for code in rule.zips if len(code) > PREFIX_LENGTH}
    return _bits([*_LARGE_PLACES, *((code, code[:PREFIX_LENGTH], *states_of(code)) for code in codes)])


_LARGE_PLACES = [
    *((state,) for state in STATES),
    *((prefix, state) for prefix in PREFIXES for state in states_of(prefix)),
]


def _bits(named: Iterable[Sequence[str]]) -> dict[str, int]:
    """For each name, a number with the bits of the places that have this name."""
    found: dict[str, int] = defaultdict(int)
    for position, names in enumerate(named):
        for name in names:
            found[name] |= 1 << position
    return found


def _union(bits: Mapping[str, int], names: Sequence[str]) -> int:
    """The bits of all names; every bit without a name, which means everything."""
    return reduce(or_, (bits[name] for name in names), 0) if names else -1


def _without_tax(rules: Mapping[int, LineRule], rooftops: Mapping[int, tuple[str, UsLocation]]) -> Iterator[Problem]:
    """The rooftops and the named states without a tax line, while other places have one."""
    taxes = PricingSettings(lines=tuple(rule for rule in rules.values() if rule.kind == "tax"))
    if not taxes.lines:
        return
    for number, (name, place) in rooftops.items():
        if not taxes.lines_at(name, place):
            where = f"({' '.join(part for part in place if part)})" if any(place) else "(without a US address)"
            yield Problem(
                ("rooftops", number), f"'{name}' {where} has no tax line in [pricing], but others have; {_WRITE}"
            )
    if any(tax.holds_everywhere for tax in taxes.lines):
        return
    taxed = {state for tax in taxes.lines for state in (*tax.states, *_states_of_zips(tax))}
    for number, rule in rules.items():
        for position, state in enumerate(rule.states):
            if state not in taxed:
                yield Problem(
                    (*_LINES, number, "states", position), f"{state} has no tax line, but others have; {_WRITE}"
                )


_WRITE = 'write one, with rate = "0" where there is no tax'


def _states_of_zips(rule: LineRule) -> Iterator[str]:
    return (state for code in rule.zips for state in states_of(code))
