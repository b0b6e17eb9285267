"""The flat filter block over the columns (specification, part 2.4; contract, part 7). Pure.

What a string finds is decided once for each distinct value of a column, never for each listing.
"""

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import UNSET

from dealer_agent.inventory.catalogue.columns import Column, Mask
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

    def matching(self, filters: Filters) -> Mask | None:
        """The rows that meet every filter, or None when nothing is asked for. The mask is the caller's to change."""
        mask: Mask | None = None
        for finder, wanted in zip(self._finders, _wanted_words(filters), strict=True):
            if wanted:  # absent and empty alike are no constraint
                mask = _both(mask, finder.column.having(finder.codes(wanted)))
        price, year, mileage, electric_range, displacement = self._ranged
        if filters.price_min is not UNSET or filters.price_max is not UNSET:
            mask = _both(mask, price.within(filters.price_min, filters.price_max))
        if filters.year_min is not UNSET or filters.year_max is not UNSET:
            mask = _both(mask, year.within(filters.year_min, filters.year_max))
        if filters.mileage_max is not UNSET:
            mask = _both(mask, mileage.within(UNSET, filters.mileage_max))
        if filters.electric_range_mi_min is not UNSET or filters.electric_range_mi_max is not UNSET:
            mask = _both(mask, electric_range.within(filters.electric_range_mi_min, filters.electric_range_mi_max))
        if filters.displacement_cc_min is not UNSET or filters.displacement_cc_max is not UNSET:
            mask = _both(mask, displacement.within(filters.displacement_cc_min, filters.displacement_cc_max))
        if filters.dc_fast_charge:  # false is no constraint
            mask = _both(mask, self._columns["dc_fast_charge"].within(True, True))
        if filters.vin is not UNSET:
            mask = _both(mask, self._only(self._lookup.rows_of_vin(filters.vin)))
        if filters.stock is not UNSET:
            mask = _both(mask, self._only(self._lookup.rows_of_stock(filters.stock)))
        return mask

    def _only(self, rows: tuple[int, ...]) -> Mask:
        mask = np.zeros(self._count, np.bool_)
        mask[list(rows)] = True
        return mask


def _both(mask: Mask | None, other: Mask) -> Mask:
    return other if mask is None else np.logical_and(mask, other, out=mask)
