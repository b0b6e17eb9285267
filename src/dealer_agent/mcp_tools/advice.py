"""What a model reads about wrong arguments: the right place, the nearest known name, or a right value. Pure.

The messages of the protocol are for programs. A model that reads "remove it" about a misplaced filter removes it, and
searches everything.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from dealer_agent.mcp_tools.tools import ALL_TOOLS, Tool
from dealer_agent.mcp_tools.words import MOST_QUERY_WORDS, SkillError
from dealer_agent.protocol.schemas import Schema
from dealer_agent.protocol.skill import INVENTORY_SEARCH

_UNKNOWN: Final = "is not known here"
"""The beginning of the protocol's message about an unknown member."""

_OTHER_WORDS: Final[Mapping[str, str]] = {
    "budget": "price_max",
    "color": "exterior_color",
    "date": "requested_windows",
    "dealer": "rooftops",
    "electric": "fuel",
    "features": "query",
    "keywords": "query",
    "location": "rooftops",
    "miles": "mileage_max",
    "odometer": "mileage_max",
    "offset": "skip",
    "order_by": "sort",
    "page": "skip",
    "preferred_times": "requested_windows",
    "search": "query",
    "size": "limit",
    "text": "query",
    "time": "requested_windows",
    "vehicle": "vehicle_of_interest",
}
"""Names that models use, with the known ones."""

_BOUNDS = frozenset({"min", "max"})
_NEAR = 0.7
"""The least likeness of a name and a known one."""
_LONGEST = 60
"""The most characters of a name that is compared."""
_WORD = re.compile(r"[a-z0-9]+")
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_EXAMPLES: Final[Mapping[str, str]] = {
    "/sort": '{"field": "price", "order": "asc"}',
    "/pagination": '{"skip": 20, "limit": 10}',
}


def advised(tool: Tool, error: SkillError) -> SkillError:
    """The error with a message for a model about each problem of the arguments."""
    problems = error.details.get("errors")
    if not isinstance(problems, list) or not all(isinstance(problem, dict) for problem in problems):
        return error
    return replace(error, details={**error.details, "errors": [_advise_on(tool, problem) for problem in problems]})


def _advise_on(tool: Tool, problem: Mapping[str, Any]) -> Mapping[str, Any]:
    """A problem whose message says where the argument belongs, or shows a right value.

    A text that is too long for `query` is probably a person's sentence.
    """
    pointer, message = str(problem.get("instancePath", "")), str(problem.get("message", ""))
    if message.startswith(_UNKNOWN):
        message = _where_it_belongs(tool, pointer)
        if "/query" in message and len(str(problem.get("received", "")).split()) > MOST_QUERY_WORDS:
            message += ", with one to three words; prices, years and other limits have their own filters"
    elif "received" in problem and (example := _example(tool, pointer, problem["received"])):
        message += f", such as {example}"
    return {**problem, "message": message}


def _where_it_belongs(tool: Tool, pointer: str) -> str:
    """Where an unknown member belongs."""
    parent, _, name = pointer.rpartition("/")
    known = _pointers(tool)
    if name in known:
        return f"is in the wrong place: move it to {_either(known[name])}"
    bounds = _words(name) & _BOUNDS
    beside = {each: at for each, pointers in known.items() for at in pointers if at == f"{parent}/{each}"}
    for names in (beside, known):
        if near := _nearest(name, tuple(names)):
            places = _either([at for each in near for at in known[each] if names is known or at == beside[each]])
            # Such as `mileage_min`, if there is only `mileage_max`: the model did not misspell it.
            if bounds and not any(_words(each) & bounds for each in near):
                return f"is not known here; there is only {places}"
            return f"is not known here; did you mean {places}?"
    for other in sorted(ALL_TOOLS, key=lambda each: each.skill is not INVENTORY_SEARCH):
        if other is not tool and name in (elsewhere := _pointers(other)):
            return f"is not known here; {other.name} has {_either(elsewhere[name])}"
    if "query" in known and (parent == "/filters" or not parent):
        return (
            "is not a filter of this dealer; words of a listing can be in /filters/query. If none fits, tell the person"
        )
    return f"is not known here; known are {', '.join(beside)}"


def _either(pointers: list[str]) -> str:
    return " or ".join(dict.fromkeys(pointers))


def _nearest(name: str, known: tuple[str, ...]) -> list[str]:
    """The known names that mean the same, contain the name, or are near it. `price_min` is not near `mpg_min`."""
    name = name[:_LONGEST]
    folded = _CAPITAL.sub("_", name).lower()
    if (other := _OTHER_WORDS.get(folded)) in known:
        return [other] if other else []
    wanted = _words(folded)
    if not wanted - _BOUNDS:
        return []
    bases = {each: _words(each) - _BOUNDS for each in known}
    same_bound = [each for each in known if _words(each) & _BOUNDS == wanted & _BOUNDS]
    for within in (same_bound, known):
        if same := [each for each in within if bases[each] == wanted - _BOUNDS]:
            return same
    if holding := [each for each in same_bound if bases[each] > wanted - _BOUNDS or bases[each] < wanted - _BOUNDS]:
        return holding
    base = "_".join(sorted(wanted - _BOUNDS))
    joined = {"_".join(sorted(bases[each])): each for each in same_bound}
    return [joined[each] for each in difflib.get_close_matches(base, joined, n=1, cutoff=_NEAR)]


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name))


@cache
def _pointers(tool: Tool) -> Mapping[str, list[str]]:
    """The members of a tool's arguments, at any depth, with their pointers."""
    found: dict[str, list[str]] = {}
    for pointer, _ in _members(tool.input_schema, ""):
        found.setdefault(pointer.rpartition("/")[2], []).append(pointer)
    return found


def _members(schema: Schema, at: str) -> Iterator[tuple[str, Schema]]:
    for name, member in schema.get("properties", {}).items():
        yield f"{at}/{name}", member
        yield from _members(member, f"{at}/{name}")


def _example(tool: Tool, pointer: str, received: object) -> str | None:
    """A value of the right form, made of the received one where that is possible."""
    if pointer in _EXAMPLES:
        return _EXAMPLES[pointer]
    wanted = dict(_members(tool.input_schema, "")).get(pointer, {}).get("type")
    if wanted == "array" and isinstance(received, str):
        return json.dumps([received], ensure_ascii=False)
    # "$25,000" becomes 25000.
    digits = re.sub(r"\D", "", received) if isinstance(received, str) else ""
    return digits[:_LONGEST] if wanted == "integer" and digits else None
