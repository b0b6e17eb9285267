"""The flat filter block over the columns (specification, part 2.4; contract, part 7). Pure.

What a string finds is decided once for each distinct value of a column, never for each listing.
"""

from collections.abc import Collection, Mapping
from operator import attrgetter, methodcaller
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET

from dealer_agent.inventory.catalogue.columns import Column, Mask, Rows
from dealer_agent.inventory.catalogue.lookup import Lookup
from dealer_agent.inventory.vocabulary import colour_words, value_key, wanted_colour_words, wanted_keys
from dealer_agent.protocol.requests import Filters

# The filters that list strings, and the member of a listing that each looks at.
_WORDS = {
    "make": "make",
    "model": "model",
    "trim": "trim",
    "condition": "condition",
    "vehicle_type": "vehicle_type",
    "transmission": "transmission",
    "fuel": "fuel",
    "charge_port": "charge_port",
    "driveline": "driveline",
    "body": "body",
    "rooftops": "rooftop",
    "exterior_color": "exterior_color",
    "interior_color": "interior_color",
}
_COLOURS = frozenset({"exterior_color", "interior_color"})

_wanted_words = attrgetter(*_WORDS)

# Up to here a look at every row costs less than the thought of looking at fewer.
_MANY_ROWS = 16_384
# To look at a row by its number costs about as much as at so many in a row.
_FEW = 24


class _ValueFinder:
    """Finds the codes of a column that a wanted string means: whole values, folded, through well-known synonyms."""

    __slots__ = ("_codes", "_member", "column")

    def __init__(self, member: str, column: Column[str]) -> None:
        self.column = column
        self._member = member
        self._codes: dict[str, list[int]] = {}
        for code, value in enumerate(column.values):
            if key := value_key(member, value):
                self._codes.setdefault(key, []).append(code)

    def codes(self, wanted: list[str]) -> Collection[int]:
        """The codes that one of the strings finds."""
        found: set[int] = set()
        for text in wanted:
            for key in wanted_keys(self._member, text):
                found.update(self._codes.get(key, ()))
        return found


class _ColourFinder:
    """Finds the codes of a colour column whose colours have all words of a wanted one."""

    __slots__ = ("_codes", "column")

    def __init__(self, column: Column[str]) -> None:
        self.column = column
        self._codes: dict[str, set[int]] = {}
        for code, value in enumerate(column.values):
            for word in colour_words(value):
                self._codes.setdefault(word, set()).add(code)

    def codes(self, wanted: list[str]) -> Collection[int]:
        """The codes that one of the strings finds; a string without a word finds none."""
        found: set[int] = set()
        nothing: set[int] = set()
        for text in wanted:
            if words := wanted_colour_words(text):
                found.update(set.intersection(*(self._codes.get(word, nothing) for word in words)))
        return found


class _Values(NamedTuple):
    """The rows that have one of some values of a column."""

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
    """The rows that have a value of a column in a range."""

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
    """The rows that have an identifier: hardly ever more than one."""

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


class Found(NamedTuple):
    """The rows that match: as a mask, or, where an index led to a few of many, their numbers, which rise."""

    mask: Mask | None
    few: Rows | None

    def rows(self) -> Rows:
        """Their numbers."""
        if self.few is not None:
            return self.few
        assert self.mask is not None
        return self.mask.nonzero()[0]


class Matcher:
    """Finds the rows that a filter block asks for, its free text apart."""

    __slots__ = ("_columns", "_count", "_finders", "_lookup", "_ranged")

    def __init__(self, columns: Mapping[str, Column[Any]], lookup: Lookup, count: int) -> None:
        self._columns = columns
        self._lookup = lookup
        self._count = count
        self._finders = tuple(
            _ColourFinder(columns[member]) if member in _COLOURS else _ValueFinder(member, columns[member])
            for member in _WORDS.values()
        )
        self._ranged = tuple(
            columns[member] for member in ("price", "year", "mileage", "electric_range_mi", "displacement_cc")
        )

    def matching(self, filters: Filters) -> Found | None:
        """The rows that meet every filter, or None when nothing is asked for. A mask is the caller's to change."""
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
                return Found(None, rows)
        mask = wanted[0].mask()
        for each in wanted[1:]:
            np.logical_and(mask, each.mask(), out=mask)
        return Found(mask, None)

    def _wanted(self, filters: Filters) -> list[_Wanted]:
        wanted: list[_Wanted] = []
        for finder, texts in zip(self._finders, _wanted_words(filters), strict=True):
            if texts:  # absent and empty alike are no constraint
                wanted.append(_Values(finder.column, finder.codes(texts)))
        price, year, mileage, electric_range, displacement = self._ranged
        if filters.price_min is not UNSET or filters.price_max is not UNSET:
            wanted.append(_range(price, filters.price_min, filters.price_max))
        if filters.year_min is not UNSET or filters.year_max is not UNSET:
            wanted.append(_range(year, filters.year_min, filters.year_max))
        if filters.mileage_max is not UNSET:
            wanted.append(_range(mileage, UNSET, filters.mileage_max))
        if filters.electric_range_mi_min is not UNSET or filters.electric_range_mi_max is not UNSET:
            wanted.append(_range(electric_range, filters.electric_range_mi_min, filters.electric_range_mi_max))
        if filters.displacement_cc_min is not UNSET or filters.displacement_cc_max is not UNSET:
            wanted.append(_range(displacement, filters.displacement_cc_min, filters.displacement_cc_max))
        if filters.dc_fast_charge:  # false is no constraint
            wanted.append(_range(self._columns["dc_fast_charge"], True, True))
        if filters.vin is not UNSET:
            wanted.append(_Unit(self._lookup.rows_of_vin(filters.vin), self._count))
        if filters.stock is not UNSET:
            wanted.append(_Unit(self._lookup.rows_of_stock(filters.stock), self._count))
        return wanted


def _range(column: Column[Any], low: object, high: object) -> _Range:
    return _Range(column, *column.interval(low, high))


_size_of = methodcaller("size")
