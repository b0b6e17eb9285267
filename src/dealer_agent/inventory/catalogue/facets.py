"""Facets: which values occur in the matching set, and how often (docs/protocol.md#inventory-facets). Pure.

The codes of all counted fields of a row are next to each other, those of each field after those of the field before
it. So one count over the matching rows counts the values of all fields.
"""

from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.columns import Column, EncodedColumn, Rows
from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter
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

_MOST_ROWS = 4_096
"""Rows that are counted together: numpy makes a number of 8 bytes of each of their codes."""
_NO_VALUE = -1
"""The code of an absent value among the codes of ranges."""


def write_facets(writer: FlatWriter, columns: Mapping[str, EncodedColumn[Any]]) -> None:
    """Writes what `FacetTable` reads. An absent value has the code after those of all fields."""
    counted = [columns[field] for _, field, _, _ in _COUNTED]
    *firsts, absent = accumulate((len(column.values) for column in counted), initial=0)
    codes = np.empty((len(counted[0].codes), len(counted)), np.min_scalar_type(absent))
    for number, (column, first) in enumerate(zip(counted, firsts, strict=True)):
        codes[:, number] = np.where(column.codes == len(column.values), absent, column.codes.astype(np.int64) + first)
    writer.array("facets.counted", codes.ravel())
    ranges = [columns[field] for field in _RANGES]
    ends = [np.where(column.codes == len(column.values), _NO_VALUE, column.codes.astype(np.int32)) for column in ranges]
    writer.array("facets.ranges", np.concatenate(ends).astype(np.int32))


class FacetTable:
    """The codes of the rows for their facets. `columns` have the values."""

    __slots__ = ("_absent", "_codes", "_columns", "_ends")

    def __init__(self, flat: FlatArrays, columns: Mapping[str, Column[Any]]) -> None:
        self._columns = columns
        self._codes = flat.array("facets.counted").reshape(-1, len(_COUNTED))
        self._ends = flat.array("facets.ranges").reshape(len(_RANGES), -1)
        self._absent = sum(columns[field].absent for _, field, _, _ in _COUNTED)

    def facets_of(self, rows: Rows | None) -> Facets:
        """The facets of some rows, or of the whole stock. Highest count first, equal counts by value."""
        counts = self._counts(rows)
        codes = list(counts)  # Ascending: those of each field are next to each other.
        found: dict[str, Any] = {}
        first_code = start = 0
        for name, field, value_type, value_range in _COUNTED:
            values = self._columns[field].values
            next_code = first_code + len(values)
            end = bisect_left(codes, next_code, start)
            if start < end:
                own = codes[start:end]
                if value_range is not None:  # The codes are in the order of their values.
                    found[value_range.name] = _range(
                        value_type, values[own[0] - first_code], values[own[-1] - first_code]
                    )
                own.sort(key=counts.__getitem__, reverse=True)
                if value_type is int:
                    found[name] = [YearCount(values[code - first_code], counts[code]) for code in own]
                elif value_type is bool:
                    found[name] = [
                        TextCount("true" if values[code - first_code] else "false", counts[code]) for code in own
                    ]
                else:
                    found[name] = [TextCount(values[code - first_code], counts[code]) for code in own]
            first_code, start = next_code, end
        for (field, facet), least, greatest in zip(_RANGES.items(), *self._least_and_greatest(rows), strict=True):
            if greatest != _NO_VALUE:
                values = self._columns[field].values
                found[facet.name] = _range(facet.field.value_type, values[least], values[greatest])
        return Facets(**found)

    def _counts(self, rows: Rows | None) -> dict[int, int]:
        """The number of rows for each code that occurs among them, by ascending code."""
        if rows is None:
            # The columns know their counts, so that a large stock opens quickly.
            columns = (self._columns[field] for _, field, _, _ in _COUNTED)
            counts = np.concatenate([np.diff(column.starts)[: column.absent] for column in columns])
        else:
            counts = self._counted(rows[:_MOST_ROWS])
            for start in range(_MOST_ROWS, len(rows), _MOST_ROWS):
                counts += self._counted(rows[start : start + _MOST_ROWS])
        present = counts.nonzero()[0]
        return dict(zip(present.tolist(), counts[present].tolist(), strict=True))

    def _counted(self, rows: Rows) -> NDArray[np.intp]:
        return np.bincount(self._codes.take(rows, axis=0).ravel(), minlength=self._absent + 1)[: self._absent]

    def _least_and_greatest(self, rows: Rows | None) -> tuple[list[int], list[int]]:
        """The lowest and the highest code of each range, among these rows. The highest is _NO_VALUE without any."""
        if rows is None:
            last = [self._columns[field].absent - 1 for field in _RANGES]
            return [0] * len(last), last
        if not len(rows):
            return [0] * len(_RANGES), [_NO_VALUE] * len(_RANGES)
        codes = self._ends.take(rows, axis=1)
        # Without its sign, _NO_VALUE is the highest number.
        return codes.view(np.uint32).min(axis=1).tolist(), codes.max(axis=1).tolist()


def _range(value_type: type, least: Any, greatest: Any) -> IntRange | FloatRange:
    if value_type is int:
        return IntRange(least, greatest)
    return FloatRange(*(int(end) if end == int(end) else end for end in (least, greatest)))
