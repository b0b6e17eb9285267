"""Feeds of one stock in every layout, for tests that damage them. The vehicles are those of the demo dealer."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from msgspec import UNSET, structs

from dealer_agent.demo import demo_inventory
from dealer_agent.feeds.files.layouts import LAYOUTS, Layout
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.inventory.listing import Unit

ROOFTOPS = ("Juniper Hollow Nashville", "Juniper Hollow Knoxville")
"""The names of the rooftops in the feeds."""

DELIMITED = tuple(name for name, layout in LAYOUTS.items() if "delimited" in layout.kinds and name != "generic")
JSON = ("canonical", "dealercom", "schemaorg")

_STOCK = 33
_NEW = 3
_PHOTOS = 4

Row = dict[str, str]


@dataclass(frozen=True)
class FeedFile:
    """A delimited feed that a test can change. `columns` is the column of each member. It has a header or none."""

    layout: str
    columns: dict[str, str]
    rows: tuple[Row, ...]
    others: tuple[Row, ...]
    """Rows of vehicles that are not in stock."""

    has_header: bool = True
    delimiter: str = ","
    header: tuple[str, ...] = ()

    def text(self) -> str:
        """The file, with every cell in quotes."""
        out = io.StringIO(newline="")
        header = self.header or tuple(self.rows[0])
        writer = csv.DictWriter(out, header, delimiter=self.delimiter, quoting=csv.QUOTE_ALL, extrasaction="ignore")
        if self.has_header:
            writer.writeheader()
        writer.writerows(self.rows)
        return out.getvalue()

    def data(self) -> bytes:
        """The file in UTF-8."""
        return self.text().encode()

    def with_rows(self, rows: Sequence[Row]) -> "FeedFile":
        """The file with other rows."""
        return replace(self, rows=tuple(rows), header=self.header or tuple(self.rows[0]))

    def mapped(self, member: str, change: Callable[[str], str]) -> "FeedFile":
        """The file with other values of a member."""
        column = self.columns[member]
        return self.with_rows([row | {column: change(row[column])} for row in self.rows])

    def named(self, names: dict[str, str]) -> "FeedFile":
        """The file with other names of members' columns."""
        new = {self.columns[member]: name for member, name in names.items()}
        rows = tuple({new.get(name, name): value for name, value in row.items()} for row in self.rows)
        return replace(self, rows=rows, header=())

    def separated_by(self, delimiter: str) -> "FeedFile":
        """The file with another delimiter."""
        return replace(self, delimiter=delimiter)

    def reordered(self) -> "FeedFile":
        """The file with its columns in another order."""
        return replace(self, header=tuple(reversed(self.header or tuple(self.rows[0]))))

    def wide(self) -> "FeedFile":
        """The file with every column of its rows in the header."""
        return replace(self, header=tuple(self.rows[0]))

    def swapped(self, member: str, other: str) -> "FeedFile":
        """The file with the values of two members in each other's columns."""
        a, b = self.columns[member], self.columns[other]
        return self.with_rows([row | {a: row[b], b: row[a]} for row in self.rows])

    def without(self, *members: str) -> "FeedFile":
        """The file without the columns of members."""
        gone = {self.columns[member] for member in members}
        return replace(
            self, rows=tuple({k: v for k, v in row.items() if k not in gone} for row in self.rows), header=()
        )


@cache
def stock_units() -> tuple[list[Unit], list[Unit]]:
    """The units of the stock, at two rooftops, and units that are not in stock."""
    read = [row.unit for row in read_feed(demo_inventory()).units]
    units = [structs.replace(unit, photos=(unit.photos or ())[:_PHOTOS]) for unit in read]
    wanted = [
        unit
        for unit in units
        if unit.vehicle_type == "car" and unit.selling_price is not UNSET and unit.vin is not UNSET
    ]
    chosen = wanted[:: len(wanted) // (_STOCK + _NEW)][: _STOCK + _NEW]
    return chosen[:_STOCK], chosen[_STOCK:]


def real_file(data: bytes) -> FeedFile:
    """A file of vAuto that this project did not make."""
    rows = tuple(csv.DictReader(io.StringIO(data.decode(), newline="")))
    columns = {member: name for member, name in _columns(LAYOUTS["vauto"]).items() if name in rows[0]}
    return FeedFile("vauto", columns, rows, ())


def _cell(unit: Unit, member: str, number: int) -> str:
    match member:
        case "certified":
            return "Yes" if unit.condition == "cpo" else "No"
        case "rooftop_hints":
            return ROOFTOPS[number % 3 == 0]
        case "mileage_unit":
            return "mi"
        case "description":
            return f"Très propre \N{EN DASH} {unit.description} \N{AUTOMOBILE}"
        case "displacement_litres":
            return "" if unit.displacement_cc is UNSET else f"{unit.displacement_cc / 1000:.1f} L"
        case "displacement_cc":
            return "" if unit.displacement_cc is UNSET else f"{unit.displacement_cc} cc"
        case _:
            value: Any = getattr(unit, member, UNSET)
            if member == "exterior_color":
                return f"{value} métallisé"
            if isinstance(value, tuple):
                return "|".join(map(str, value))
            return "" if value is UNSET else str(value)


_LEFT_OUT = frozenset({"fees", "other_attributes", "vehicle_id", "is_used", "is_new", "feed_updated_at", "status"})
_LEFT_OUT_TOO = frozenset({"displacement_cubic_inches", "notes"})


def _columns(layout: Layout) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for member, names in layout.columns.items():
        free = next((name for name in names if name not in chosen.values()), None)
        if free is not None and member not in _LEFT_OUT | _LEFT_OUT_TOO:
            chosen[member] = free
    if any(pattern.startswith("image") for pattern, _ in layout.patterns):
        chosen["photos"] = "image[0].url"
    return chosen


def feed_file(layout_name: str) -> FeedFile:
    """The stock in a delimited layout."""
    layout = LAYOUTS[layout_name]
    columns = _columns(layout)

    def rows(units: list[Unit], start: int) -> tuple[Row, ...]:
        return tuple(
            {name: _cell(unit, member, number) for member, name in columns.items()}
            for number, unit in enumerate(units, start)
        )

    stock, new = stock_units()
    header = layout.header
    file = FeedFile(layout_name, columns, rows(stock, 0), rows(new, _STOCK), has_header=not header, header=header)
    if not header:
        return file
    return file.with_rows([{name: row.get(name, "") for name in header} for row in file.rows])


def json_records(layout_name: str) -> list[dict[str, Any]]:
    """The stock as records of a JSON layout."""
    columns = _columns(LAYOUTS[layout_name])
    records: list[dict[str, Any]] = []
    for number, unit in enumerate(stock_units()[0]):
        record: dict[str, Any] = {}
        for member, path in columns.items():
            if member == "photos":
                photos = list(unit.photos or ())
                *above, last = path.split(".")
                record[above[0] if above else last] = [{last: photo} for photo in photos] if above else photos
            elif cell := _cell(unit, member, number):
                inner = record
                *above, last = path.split(".")
                for name in above:
                    inner = inner.setdefault(name, {})
                inner[last] = cell
        records.append(record)
    return records


def json_file(layout_name: str) -> bytes:
    """The stock as a JSON array."""
    return json.dumps(json_records(layout_name), indent=1).encode()
