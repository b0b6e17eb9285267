"""Facets: which values occur in the matching set, and how often (contract, part 8). Pure."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from dealer_agent.inventory.catalogue.columns import Column, Rows
from dealer_agent.protocol.responses import Facets, FloatRange, IntRange, TextCount, YearCount

TEXT_FACETS = {
    "makes": "make",
    "models": "model",
    "trims": "trim",
    "conditions": "condition",
    "vehicle_types": "vehicle_type",
    "transmissions": "transmission",
    "fuels": "fuel",
    "charge_ports": "charge_port",
    "drivelines": "driveline",
    "bodies": "body",
    "exterior_colors": "exterior_color",
    "interior_colors": "interior_color",
    "rooftops": "rooftop",
    "statuses": "status",
}
"""The member of a listing that each facet of words counts."""

_INT_RANGES = {
    "price_range": "price",
    "mileage_range": "mileage",
    "displacement_cc_range": "displacement_cc",
}

_count = itemgetter(1)


def facets_of(columns: Mapping[str, Column[Any]], rows: Rows | None) -> Facets:
    """The facets of some rows, or of the whole stock. Counts fall, equal ones go by value."""
    found: dict[str, Any] = {}
    for facet, member in TEXT_FACETS.items():
        values = columns[member].values
        if counted := _highest_first(columns[member], rows):
            found[facet] = [TextCount(values[code], count) for code, count in counted]
    flags = columns["dc_fast_charge"]
    if counted := _highest_first(flags, rows):
        found["dc_fast_charge"] = [
            TextCount("true" if flags.values[code] else "false", count) for code, count in counted
        ]
    years = columns["year"].values
    if counted := _highest_first(columns["year"], rows):
        found["years"] = [YearCount(years[code], count) for code, count in counted]
        found["year_range"] = IntRange(years[min(counted)[0]], years[max(counted)[0]])
    for facet, member in _INT_RANGES.items():
        if ends := _ends(columns[member], rows):
            found[facet] = IntRange(*ends)
    if ends := _ends(columns["electric_range_mi"], rows):
        found["electric_range_mi_range"] = FloatRange(*(int(end) if end == int(end) else end for end in ends))
    return Facets(**found)


def _counts(column: Column[Any], rows: Rows | None) -> list[int]:
    """How often each code occurs."""
    if rows is None:
        # Known without a look at the rows: so a stock of a million is on show in no time.
        known: list[int] = np.diff(column.starts).tolist()
        return known[: column.absent]
    counted: list[int] = np.bincount(column.codes.take(rows), minlength=column.absent).tolist()
    return counted[: column.absent]


def _highest_first(column: Column[Any], rows: Rows | None) -> list[tuple[int, int]]:
    """The codes that occur and how often: highest count first, equal ones by value, which is by code."""
    present = [(code, count) for code, count in enumerate(_counts(column, rows)) if count]
    present.sort(key=_count, reverse=True)
    return present


def _ends(column: Column[Any], rows: Rows | None) -> tuple[Any, Any] | None:
    """The least and the greatest value."""
    if rows is None:
        return (column.values[0], column.values[-1]) if column.values else None
    codes = column.codes.take(rows)
    codes = codes[codes < column.absent]
    if not len(codes):
        return None
    return column.values[codes.min()], column.values[codes.max()]
