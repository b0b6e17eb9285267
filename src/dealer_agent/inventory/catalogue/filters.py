"""Filters over the columns (docs/protocol.md#inventory-search). Pure.

The distinct values of each column are folded once, when the snapshot opens. A text of a request is looked up among
them, and is never compared with each listing.
"""

import sys
from collections.abc import Collection, Mapping
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple

from dealer_agent.inventory.canonical_words.tables import colour_words, value_key, wanted_colour_words, wanted_keys
from dealer_agent.inventory.catalogue.columns import Column, Mask, Rows
from dealer_agent.inventory.catalogue.lookup import Lookup
from dealer_agent.protocol.requests import FILTERED, Filters
from dealer_agent.protocol.vehicle_field import AnyOf, IsTrue, Range, VehicleField

# Below this number of rows, comparing every row is cheaper than selecting rows by an index.
_MANY_ROWS = 16_384
# Taking one row by its number costs about as much as comparing this many rows in sequence.
_FEW = 24


class _ValueFinder:
    """Finds the codes of the values that a text names: by any known spelling, else by the whole folded value.

    A colour is found by its words: the value must have all of them.
    """

    __slots__ = ("_codes", "_vocabulary", "column", "field")

    def __init__(self, row: VehicleField, column: Column[str]) -> None:
        self.field = row.name
        self.column = column
        self._vocabulary = row.field.vocabulary
        found: dict[str, list[int]] = {}
        for code, value in enumerate(column.values):
            keys = colour_words(value) if self._vocabulary == "colour" else (value_key(self._vocabulary, value),)
            for key in filter(None, keys):
                found.setdefault(key, []).append(code)
        # A process may have thousands of catalogues with the same keys.
        self._codes = {sys.intern(key): tuple(codes) for key, codes in found.items()}

    def codes(self, wanted: list[str]) -> Collection[int]:
        """The codes of the values that one of the wanted texts finds."""
        found: set[int] = set()
        for text in wanted:
            if self._vocabulary == "colour":
                if words := wanted_colour_words(text):
                    found.update(set.intersection(*(set(self._codes.get(word, ())) for word in words)))
            else:
                for key in wanted_keys(self._vocabulary, text):
                    found.update(self._codes.get(key, ()))
        return found


class _Values(NamedTuple):
    column: Column[Any]
    codes: Collection[int]

    def size(self) -> int:
        starts = self.column.starts
        return sum(starts[code + 1] - starts[code] for code in self.codes)

    def rows(self) -> Rows:
        found = [self.column.rows_within(code, code + 1) for code in self.codes]
        if len(found) == 1:
            return found[0]
        return np.sort(np.concatenate(found)) if found else np.empty(0, np.intp)

    def mask(self, rows: Rows | None = None) -> Mask:
        return self.column.having(self.codes, rows)


class _Range(NamedTuple):
    column: Column[Any]
    first: int
    last: int

    def size(self) -> int:
        return self.column.starts[self.last] - self.column.starts[self.first]

    def rows(self) -> Rows:
        return np.sort(self.column.rows_within(self.first, self.last))

    def mask(self, rows: Rows | None = None) -> Mask:
        return self.column.within(self.first, self.last, rows)


class _Unit(NamedTuple):
    found: list[int]
    of: int

    def size(self) -> int:
        return len(self.found)

    def rows(self) -> Rows:
        return np.array(self.found, np.intp)

    def mask(self, rows: Rows | None = None) -> Mask:
        mask = np.zeros(self.of, np.bool_)
        mask[self.found] = True
        return mask if rows is None else mask.take(rows)


_Wanted = _Values | _Range | _Unit


class MatchingRows(NamedTuple):
    """The rows that match: a mask over all rows, or ascending row numbers if an index found only a few rows."""

    mask: Mask | None
    few: Rows | None

    def rows(self) -> Rows:
        """The ascending numbers of the rows."""
        if self.few is not None:
            return self.few
        assert self.mask is not None
        return self.mask.nonzero()[0]

    def within(self, only: Mask) -> "MatchingRows":
        """The matching rows that are also in `only`, a mask over all rows."""
        if self.few is not None:
            return MatchingRows(None, self.few[only.take(self.few)])
        assert self.mask is not None
        return MatchingRows(self.mask & only, None)


class Matcher:
    """Finds the rows that match a filter block, except for its free text."""

    __slots__ = ("_by_field", "_count", "_finders", "_flags", "_lookup", "_ranges")

    def __init__(self, columns: Mapping[str, Column[Any]], lookup: Lookup, count: int) -> None:
        self._lookup = lookup
        self._count = count
        # Each entry has the index of its filter in the tuple of all values that `_wanted` makes. A range without a
        # minimum has the index -1: the last value is always UNSET.
        index = {name: number for number, name in enumerate(Filters.__struct_fields__)}
        self._finders: list[tuple[int, _ValueFinder]] = []
        self._ranges: list[tuple[int, int, Column[Any]]] = []
        self._flags: list[tuple[int, Column[Any]]] = []
        for row in FILTERED:
            match row.filter:
                case AnyOf(name=name):
                    self._finders.append((index[name or row.name], _ValueFinder(row, columns[row.name])))
                case Range():
                    least = index.get(f"{row.name}_min", -1)
                    self._ranges.append((least, index[f"{row.name}_max"], columns[row.name]))
                case IsTrue():
                    self._flags.append((index[row.name], columns[row.name]))
        self._by_field = {finder.field: finder for _, finder in self._finders}

    def spelling(self, field: str, text: str) -> str | None:
        """The first value of the stock that `text` finds in a field, as the stock has it."""
        finder = self._by_field[field]
        codes = finder.codes([text])
        return finder.column.values[min(codes)] if codes else None

    def matching(self, filters: Filters) -> MatchingRows | None:
        """The rows that match every filter. None without a filter. The caller may change the returned mask."""
        wanted = self._wanted(filters)
        if not wanted:
            return None
        if self._count > _MANY_ROWS:
            narrowest = min(wanted, key=_size_of)
            if narrowest.size() * _FEW < self._count:
                rows = narrowest.rows()
                for each in wanted:
                    if each is not narrowest:
                        rows = rows[each.mask(rows)]
                return MatchingRows(None, rows)
        mask = wanted[0].mask()
        for each in wanted[1:]:
            np.logical_and(mask, each.mask(), out=mask)
        return MatchingRows(mask, None)

    def _wanted(self, filters: Filters) -> list[_Wanted]:
        """The constraints of a request, each with the column that it is about."""
        values = (*astuple(filters), UNSET)
        # An empty list of texts and a flag that is false do not constrain.
        wanted: list[_Wanted] = [
            _Values(finder.column, finder.codes(values[at])) for at, finder in self._finders if values[at]
        ]
        for least, greatest, column in self._ranges:
            low, high = values[least], values[greatest]
            if low is not UNSET or high is not UNSET:
                wanted.append(_Range(column, *column.interval(low, high)))
        for at, column in self._flags:
            if values[at]:
                wanted.append(_Range(column, *column.interval(True, True)))
        if filters.vin is not UNSET:
            wanted.append(_Unit(self._lookup.rows_of_vin(filters.vin), self._count))
        if filters.stock is not UNSET:
            wanted.append(_Unit(self._lookup.rows_of_stock(filters.stock), self._count))
        return wanted


_size_of = methodcaller("size")
