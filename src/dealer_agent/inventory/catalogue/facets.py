"""Facets: which values occur in the matching set, and how often (docs/protocol.md#inventory-facets). Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dealer_agent.inventory.catalogue.columns import Column, Rows
from dealer_agent.protocol.responses import (
    COUNT_FACETS,
    RANGE_FACETS,
    Facets,
    FloatRange,
    IntRange,
    TextCount,
    YearCount,
)

_RANGES = {facet.field.name: facet for facet in RANGE_FACETS}
_COUNTED = [
    (facet.name, facet.field.name, facet.field.value_type, _RANGES.pop(facet.field.name, None))
    for facet in COUNT_FACETS
]
"""Facet, field, type of its values, and the range facet of the same field: it needs no further look at the rows."""


def facets_of(columns: Mapping[str, Column[Any]], rows: Rows | None) -> Facets:
    """The facets of some rows, or of the whole stock. Highest count first, equal counts by value."""
    found: dict[str, Any] = {}
    for name, field, value_type, value_range in _COUNTED:
        values = columns[field].values
        counts = _counts(columns[field], rows)
        codes = [code for code, count in enumerate(counts) if count]
        if not codes:
            continue
        if value_range is not None:  # The codes are in the order of their values.
            found[value_range.name] = _range(value_type, values[codes[0]], values[codes[-1]])
        codes.sort(key=counts.__getitem__, reverse=True)
        if value_type is int:
            found[name] = [YearCount(values[code], counts[code]) for code in codes]
        elif value_type is bool:
            found[name] = [TextCount("true" if values[code] else "false", counts[code]) for code in codes]
        else:
            found[name] = [TextCount(values[code], counts[code]) for code in codes]
    for field, facet in _RANGES.items():
        if ends := _ends(columns[field], rows):
            found[facet.name] = _range(facet.field.value_type, *ends)
    return Facets(**found)


def _range(value_type: type, least: Any, greatest: Any) -> IntRange | FloatRange:
    if value_type is int:
        return IntRange(least, greatest)
    return FloatRange(*(int(end) if end == int(end) else end for end in (least, greatest)))


def _counts(column: Column[Any], rows: Rows | None) -> list[int]:
    """The number of vehicles for each value of a column, among these rows. None means all rows."""
    if rows is None:
        # The column knows its counts, so that a large stock opens quickly.
        known: list[int] = np.diff(column.starts).tolist()
        return known[: column.absent]
    counted: list[int] = np.bincount(column.codes.take(rows), minlength=column.absent).tolist()
    return counted[: column.absent]


def _ends(column: Column[Any], rows: Rows | None) -> tuple[Any, Any] | None:
    """The lowest and the highest value of a column, among these rows. None without any."""
    if rows is None:
        return (column.values[0], column.values[-1]) if column.values else None
    codes = column.codes.take(rows)
    codes = codes[codes < column.absent]
    if not len(codes):
        return None
    return column.values[codes.min()], column.values[codes.max()]
