"""Columns of the stock: one small code for each listing into the sorted distinct values. Pure.

Rows are listings in the default order. A code compares as its value does, and what is absent has the highest code, so a
range over values of any size is an interval of codes, and no comparison can overflow.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from dealer_agent.inventory.catalogue.flat import Flat, FlatWriter

Mask = NDArray[np.bool_]
"""Which rows match: one boolean for each listing."""

Codes = NDArray[np.unsignedinteger[Any]]
Rows = NDArray[np.signedinteger[Any]]

K = TypeVar("K")
V = TypeVar("V")

# From here on one look into a table of codes is cheaper than a comparison for each wanted code.
_MANY_CODES = 6


def row_type(count: int) -> type[np.signedinteger[Any]]:
    """The integer type of row numbers: the one that indexes fastest, but for a stock where it would cost memory."""
    return np.intp if count <= 1 << 16 else np.int32


class Column(Generic[V]):
    """Dictionary-encoded values: `values` sorted and distinct, `codes` one for each row, `absent` the code of none."""

    __slots__ = ("absent", "codes", "values")

    def __init__(self, values: list[V], codes: Codes) -> None:
        self.values = values
        self.codes = codes
        self.absent = len(values)

    @staticmethod
    def of_numbers(rows: NDArray[np.int64]) -> "Column[int]":
        """The column of numbers that no row lacks."""
        values, codes = np.unique(rows, return_inverse=True)
        return Column(values.tolist(), codes.astype(np.uint32))

    @staticmethod
    def read(flat: Flat, name: str) -> "Column[Any]":
        """The column of that name."""
        return Column(flat.json(f"{name}.values", list[Any]), flat.array(f"{name}.codes"))

    def write(self, writer: FlatWriter, name: str) -> None:
        """Adds it to a flat form."""
        writer.json(f"{name}.values", self.values)
        writer.array(f"{name}.codes", self.codes)

    def having(self, codes: Collection[int]) -> Mask:
        """The rows that have one of these codes."""
        if len(codes) > _MANY_CODES:
            wanted = np.zeros(self.absent + 1, np.bool_)
            wanted[list(codes)] = True
            return wanted.take(self.codes)
        mask: Mask | None = None
        for code in codes:
            mask = self.codes == code if mask is None else np.logical_or(mask, self.codes == code, out=mask)
        return np.zeros(len(self.codes), np.bool_) if mask is None else mask

    def within(self, low: V | UnsetType, high: V | UnsetType) -> Mask:
        """The rows that have a value between the two, ends included; none when they are the wrong way round."""
        values: list[Any] = self.values
        first = 0 if low is UNSET else bisect_left(values, low)
        last = self.absent if high is UNSET else bisect_right(values, high)
        if first == 0:
            return self.codes < last
        # Codes below `first` wrap round to large ones, so that one comparison does for both ends.
        return self.codes - self.codes.dtype.type(first) < last - first


class Numbering(dict[K, int]):
    """Numbers what it is asked for in the order in which that is first seen, from 0."""

    __slots__ = ()

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


class Encoder(Generic[V]):
    """Collects the values of one column, in any order of listings, keeping each distinct value once."""

    __slots__ = ("_codes", "_ids")

    def __init__(self) -> None:
        self._ids: Numbering[V | UnsetType] = Numbering()
        self._codes = array("I")

    def extend(self, values: Iterable[V | UnsetType]) -> None:
        """The values of the next listings; UNSET of one that has none."""
        self._codes.extend(map(self._ids.__getitem__, values))

    def column(self, default_order: Rows) -> Column[V]:
        """The column, with its rows in the default order. Strings are ordered as the contract orders them, part 7."""
        given: Any = [value for value in self._ids if value is not UNSET]
        values: list[V] = sorted(given)
        if values and isinstance(values[0], str):
            # Without regard to case; spellings that differ in case stay apart, in the order that they have.
            values.sort(key=str.casefold)  # type: ignore[arg-type]  # They are strings.
        places = np.empty(len(self._ids), np.min_scalar_type(len(values)))
        if UNSET in self._ids:
            places[self._ids[UNSET]] = len(values)
        places[[self._ids[value] for value in values]] = np.arange(len(values))
        return Column(values, places[np.frombuffer(self._codes, np.uint32)[default_order]])
