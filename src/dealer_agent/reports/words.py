"""The labels of counted items, for people. Pure."""

from collections.abc import Mapping

from msgspec import UNSET

from dealer_agent.inventory.listing import Unit
from dealer_agent.leads.us_formats import money
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.requests import FILTERED, filter_members
from dealer_agent.protocol.vehicle_field import Range
from dealer_agent.storage.daily_counts import OTHER

_UNKNOWN = "Other"


def _filter_labels() -> dict[str, str]:
    labels = {"query": "Words of a free text"}
    for row in FILTERED:
        for name in filter_members(row):
            ends = {f"{row.name}_min": "at least", f"{row.name}_max": "at most"}
            bound = f", {ends[name]}" if isinstance(row.filter, Range) else ""
            labels[name] = row.field.label + bound
    return labels


_FILTERS = _filter_labels()
_WORDS = {"suv": "SUV"}


def filter_label(name: str) -> str:
    """The label of a filter: `Price, at most`."""
    return _FILTERS.get(name, _UNKNOWN)


def plain_label(item: str) -> str:
    """The label of a make, a model or a body style. A model has its make before it: `Honda: Accord`."""
    if item == OTHER:
        return _UNKNOWN
    make, colon, model = item.partition(": ")
    if colon:
        return f"{make}, another model" if model == OTHER else f"{make} {model}"
    return _WORDS.get(item, item[:1].upper() + item[1:])


def error_label(code: str) -> str:
    """The meaning of an error code."""
    return ERRORS[code].meaning.replace("`", "") if code in ERRORS else code


def price_label(item: str) -> str:
    """The label of a price band: `Up to $20,000`."""
    words, _, limit = item.rpartition(" ")
    return f"{words[:1].upper()}{words[1:]} {money(int(limit))}" if words and limit.isdigit() else _UNKNOWN


def unit_label(vehicle_id: str, stock: str | None, unit: Unit | None) -> str:
    """`2024 Honda Accord EX, stock N-7`. A unit that is sold has only its stock number."""
    if vehicle_id == OTHER:
        return "Other vehicles"
    named = f"stock {stock}" if stock else vehicle_id
    if unit is None:
        return f"A vehicle that is no longer for sale, {named}"
    parts = (str(part) for part in (unit.year, unit.make, unit.model, unit.trim) if part is not UNSET)
    return f"{' '.join(parts) or 'A vehicle'}, {named}"


def agent_label(agent: str, tokens: Mapping[str, str]) -> str:
    """The name of an agent: that of its token, or one of the dealer's list."""
    return "Other agents" if agent == OTHER else tokens.get(agent, agent)
