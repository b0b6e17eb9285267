"""Facets: which values occur in the matching set, and how often (contract, part 8). Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.columns import Codes, Column, Mask
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


def facets_of(columns: Mapping[str, Column[Any]], mask: Mask | None) -> Facets:
    """The facets of the rows of the mask, or of the whole stock. Counts fall, equal ones go by value."""
    rows = None if mask is None else mask.nonzero()[0]
    found: dict[str, Any] = {}
    for facet, member in TEXT_FACETS.items():
        column = columns[member]
        counts = _counts(column, rows)
        values = column.values
        if counted := [TextCount(values[code], count) for code, count in _highest_first(counts)]:
            found[facet] = counted
    flags = _counts(columns["dc_fast_charge"], rows)
    names = ["true" if flag else "false" for flag in columns["dc_fast_charge"].values]
    if counted := [TextCount(names[code], count) for code, count in _highest_first(flags)]:
        found["dc_fast_charge"] = counted
    years = _counts(columns["year"], rows)
    if by_year := [YearCount(columns["year"].values[code], count) for code, count in _highest_first(years)]:
        found["years"] = by_year
        present = years.nonzero()[0]
        found["year_range"] = IntRange(columns["year"].values[present[0]], columns["year"].values[present[-1]])
    for facet, member in _INT_RANGES.items():
        if ends := _ends(columns[member], rows):
            found[facet] = IntRange(*ends)
    if ends := _ends(columns["electric_range_mi"], rows):
        found["electric_range_mi_range"] = FloatRange(*(int(end) if end == int(end) else end for end in ends))
    return Facets(**found)


def _selected(column: Column[Any], rows: NDArray[np.intp] | None) -> Codes:
    return column.codes if rows is None else column.codes.take(rows)


def _counts(column: Column[Any], rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """How often each value of the column occurs."""
    return np.bincount(_selected(column, rows), minlength=column.absent + 1)[:-1]


def _highest_first(counts: NDArray[np.intp]) -> list[tuple[int, int]]:
    present = counts.nonzero()[0]
    order = present[np.argsort(-counts[present], kind="stable")]
    return list(zip(order.tolist(), counts[order].tolist(), strict=True))


def _ends(column: Column[Any], rows: NDArray[np.intp] | None) -> tuple[Any, Any] | None:
    """The least and the greatest value."""
    codes = _selected(column, rows)
    codes = codes[codes < column.absent]
    if not len(codes):
        return None
    return column.values[codes.min()], column.values[codes.max()]
