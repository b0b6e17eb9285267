"""Columns of the stock: for each listing a small code, which is the place of its value in the sorted values. Pure.

Rows are listings in the default order. Codes compare like their values, and an absent value has the highest code. So a
range of values is an interval of codes, and no comparison can overflow.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.flat_arrays import FlatArrays, FlatWriter

Mask = NDArray[np.bool_]
"""Which rows match: one boolean for each listing."""

Codes = NDArray[np.unsignedinteger[Any]]
Rows = NDArray[np.signedinteger[Any]]

K = TypeVar("K")
V = TypeVar("V")

# With more wanted codes than this, one lookup in a table is cheaper than one comparison for each code.
_MANY_CODES = 6


def row_type(count: int) -> type[np.signedinteger[Any]]:
    """The integer type of row numbers: the fastest for indexing, or the smallest for a large stock."""
    return np.intp if count <= 1 << 16 else np.int32


class Column(Generic[V]):
    """Dictionary-encoded values: sorted distinct `values`, and the `codes` of the rows. `absent` is one more code.

    `by_code` are the row numbers sorted by code: `by_code[starts[c]:starts[c + 1]]`, ascending, have code c. They give
    a few rows without reading the others.
    """

    __slots__ = ("absent", "by_code", "codes", "starts", "values")

    def __init__(self, flat: FlatArrays, name: str) -> None:
        values: list[Any] = flat.json(f"{name}.values", list[Any])
        if values and isinstance(values[0], str):
            # A process may have thousands of catalogues with the same texts.
            values = list(map(sys.intern, values))
        self.values: list[V] = values
        self.codes: Codes = flat.array(f"{name}.codes")
        self.absent = len(self.values)
        self.by_code: Rows = flat.array(f"{name}.rows")
        self.starts = flat.numbers(f"{name}.starts")

    def having(self, codes: Collection[int], rows: Rows | None = None) -> Mask:
        """Which of the rows, by default of all rows, have one of these codes."""
        given = self.codes if rows is None else self.codes.take(rows)
        if len(codes) > _MANY_CODES:
            wanted = np.zeros(self.absent + 1, np.bool_)
            wanted[list(codes)] = True
            return wanted.take(given)
        mask: Mask | None = None
        for code in codes:
            mask = given == code if mask is None else np.logical_or(mask, given == code, out=mask)
        return np.zeros(len(given), np.bool_) if mask is None else mask

    def interval(self, low: V | UnsetType, high: V | UnsetType) -> tuple[int, int]:
        """The codes of the values from `low` to `high`, both included, as `first` and `last + 1`. UNSET: no limit."""
        values: list[Any] = self.values
        first = 0 if low is UNSET else bisect_left(values, low)
        last = self.absent if high is UNSET else bisect_right(values, high)
        return first, max(first, last)

    def within(self, first: int, last: int, rows: Rows | None = None) -> Mask:
        """Which of the rows, by default of all rows, have a code from `first` to below `last`."""
        given = self.codes if rows is None else self.codes.take(rows)
        if first == 0:
            return given < last
        # Codes are unsigned: those below `first` wrap around to large numbers, so one comparison covers both ends.
        return given - given.dtype.type(first) < last - first

    def outside(self, first: int, last: int, rows: Rows) -> tuple[Rows, Rows]:
        """The rows among `rows` that have no value, and the rows that have a code below `first` or from `last` on.

        The latter are sorted by their distance from the interval.
        """
        codes = self.codes.take(rows).astype(np.int64)
        distances = np.maximum(first - codes, codes - last + 1)
        missing = codes == self.absent
        beyond = ~missing & (distances > 0)
        return rows[missing], rows[beyond][np.argsort(distances[beyond], kind="stable")]

    def rows_within(self, first: int, last: int) -> Rows:
        """The rows that have a code from `first` to below `last`, sorted by code."""
        return self.by_code[self.starts[first] : self.starts[last]]


class EncodedColumn(NamedTuple, Generic[V]):
    """A column in memory, before it is written to a snapshot."""

    values: list[V]
    codes: Codes

    @staticmethod
    def of_numbers(rows: NDArray[np.int64]) -> "EncodedColumn[int]":
        """A column of numbers without absent values."""
        values, codes = np.unique(rows, return_inverse=True)
        return EncodedColumn(values.tolist(), codes.astype(np.uint32))

    def write(self, writer: FlatWriter, name: str) -> None:
        """Writes what `Column` reads."""
        by_code = np.argsort(self.codes, kind="stable").astype(np.int32)
        starts = np.searchsorted(self.codes[by_code], np.arange(len(self.values) + 2))
        writer.json(f"{name}.values", self.values)
        writer.array(f"{name}.codes", self.codes)
        writer.array(f"{name}.rows", by_code)
        writer.array(f"{name}.starts", starts)


class Numbering(dict[K, int]):
    """Gives each new key the next number, from 0."""

    __slots__ = ()

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class Encoder(Generic[V]):
    """Collects the values of a column, for listings in any order. Keeps each distinct value once."""

    __slots__ = ("_codes", "_ids")

    def __init__(self) -> None:
        self._ids: Numbering[V | UnsetType] = Numbering()
        self._codes = array("I")

    def extend(self, values: Iterable[V | UnsetType]) -> None:
        """Adds the values of the next listings: UNSET for an absent value."""
        self._codes.extend(map(self._ids.__getitem__, values))

    def column(self, default_order: Rows) -> EncodedColumn[V]:
        """The column, with its rows in the default order. Texts are sorted case-insensitively."""
        given: Any = [value for value in self._ids if value is not UNSET]
        values: list[V] = sorted(given)
        if values and isinstance(values[0], str):
            # Stable: spellings that differ only in case stay distinct, in their first order.
            values.sort(key=str.casefold)  # type: ignore[arg-type]  # They are strings.
        ranks = np.empty(len(self._ids), np.min_scalar_type(len(values)))
        if UNSET in self._ids:
            ranks[self._ids[UNSET]] = len(values)
        ranks[[self._ids[value] for value in values]] = np.arange(len(values))
        return EncodedColumn(values, ranks[np.frombuffer(self._codes, np.uint32)[default_order]])
