"""The cells of one row to one unit. Pure functions.

A cell that cannot be parsed counts as absent, and a problem reports it. No cell raises an error.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from sys import intern
from typing import Any

from dealer_agent.feeds.files import values
from dealer_agent.feeds.files.layouts import FEEDS, Layout
from dealer_agent.feeds.files.plausibility import Implausibility, implausibility
from dealer_agent.feeds.files.values import is_absent, line, prose
from dealer_agent.inventory.canonical_words.tables import canonical, find_canonical
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.vehicle_field import CellParser, Feed

Cells = dict[str, list[str]]

_OLD_VIN_SHAPE = re.compile(r"[A-Z0-9]{4,17}", re.ASCII)
_FIRST_YEAR_OF_VINS = 1981
_STOCK_NUMBER = re.compile(f"[A-Za-z0-9]{{1,{FEEDS['stock'].limit}}}")
_SCHEMA_ORG = re.compile(r"https?://schema\.org/", re.IGNORECASE)  # JSON-LD has words as URLs of schema.org.
_ROOFTOP_HINTS = 8


@dataclass(slots=True)
class ParsedRow:
    """The result for one row, and problems for the report.

    `filled` are the members with a value. `misread` has those whose value is not understood: the value, and a problem.
    A row that identifies no unit has `refused` and no `identifier`. A row of a sold unit has an `identifier` and no
    `unit`. `doubts` say why the unit must be held back.
    """

    identifier: str | None = None
    unit: Unit | None = None
    refused: str | None = None
    row_problems: list[str] = field(default_factory=list)
    filled: tuple[str, ...] = ()
    misread: dict[str, tuple[str, str]] = field(default_factory=dict)
    doubts: list[Implausibility] = field(default_factory=list)

    def note_sold_words(self, texts: Sequence[str]) -> None:
        """Adds a doubt if a text of the row says that the unit is sold."""
        # All texts at once: one search is faster than one for each.
        if "sold" in "\n".join(texts).lower() and (words := values.sold_words(texts)):
            self.doubts.append(implausibility("sold_words", text=words))


def _parser(parse: Callable[[str], object], *, zero: bool = False) -> "_Read":
    """A parser of the first cell of a member. It ignores a value of 0, unless `zero` is set."""

    def read(row: "_RowParser", member: str, _: Feed) -> None:
        """Keeps the parsed value of the member. A text that cannot be parsed is noted."""
        text = row.first(member)
        if text is not None:
            value = parse(text)
            if value is None:
                row.not_understood(member, text)
            elif value or zero:
                row.keep(member, value)

    return read


class _RowParser:
    """Collects the members of one unit. The methods and attributes from `status` to `address` parse cells."""

    def __init__(self, cells: Cells, layout: Layout) -> None:
        self.layout = layout
        self.cells: Cells = {}
        for name, texts in cells.items():
            # Most members have one cell. A list for each of them takes time.
            if len(texts) != 1:
                texts = [text for text in texts if not is_absent(text)]
            if texts and (len(texts) != 1 or not is_absent(texts[0])):
                self.cells[name] = texts
        self.members: dict[str, Any] = {}
        self.row_problems: list[str] = []
        # By member, the text that was not understood, and the problem.
        self.misread: dict[str, tuple[str, str]] = {}
        self.doubts: list[Implausibility] = []
        self.is_sold = False

    def read(self, steps: "Iterable[tuple[_Read, str, Feed]]") -> None:
        for read, member, feed in steps:
            if member in self.cells or feed.more_columns:
                read(self, member, feed)

    def text(self, name: str, limit: int) -> str:
        text = self.first(name)
        return "" if text is None else line(text, limit)

    def status(self, member: str, _: Feed) -> None:
        """Reads the status. Keeps the first word that is understood, and notes whether the unit is sold."""
        texts = [line(_SCHEMA_ORG.sub("", text), 60) for text in self.cells.get(member, ())]
        own = self.layout.status_words
        words = [own.get(fold(text)) or find_canonical("status", text) for text in texts]
        for text, word in zip(texts, words, strict=True):
            if word is None:
                self.not_understood(member, text, "the unit is held back")
                self.doubts.append(implausibility("status_unknown", text=text))
        # Interned, as the default is: msgspec leaves out a default that is the same object.
        self.keep(member, next((intern(word) for word in words if word is not None), None))
        self.is_sold = "sold" in words

    def vehicle_type(self, member: str, _: Feed) -> None:
        """Reads the type of the vehicle. A cell may have several lines. Keeps the first that names a known type."""
        texts = [row for text in self.cells.get(member, ()) for row in text.split("\n") if row.strip()]
        words = (find_canonical("vehicle_type", line(_SCHEMA_ORG.sub("", text), 80)) for text in texts)
        word = next((word for word in words if word is not None), None)
        if texts and word is None:
            self.not_understood(member, texts[0])
        self.keep(member, word)

    year = _parser(values.year)
    whole = _parser(values.whole)
    amount = _parser(values.amount)
    truth = _parser(values.truth, zero=True)
    day = _parser(values.day)
    moment = _parser(values.moment)

    def dollars(self, member: str, _: Feed) -> None:
        """The first column that holds an amount; 0 and words such as "call" are not a price."""
        doubts: list[Implausibility] = []
        for text in self.cells.get(member, ()):
            amount = values.dollars(text)
            if amount:
                self.keep(member, amount)
                return
            if amount == 0:
                doubts.append(implausibility("price_zero"))
            elif amount is None and not values.is_no_price(text):
                currency = values.other_currency(text)
                self.not_understood(
                    member, text, f"it is in {currency}, and prices are US dollars" if currency else "it is left out"
                )
                if values.is_negative(text):
                    doubts.append(implausibility("price_negative", text=line(text, 40)))
                elif any(map(str.isdecimal, text)):
                    doubts.append(implausibility("price_unread", text=line(text, 40)))
        if member == "selling_price":
            self.doubts += doubts

    def miles(self, member: str, feed: Feed) -> None:
        """Reads the mileage, in miles or kilometres as its unit says."""
        text = self.first(member)
        if text is not None and values.is_no_mileage(text):
            return
        if text is not None and values.is_negative(text):
            self.doubts.append(implausibility("mileage_negative", text=line(text, 40)))
        unit = self.text("mileage_unit", 20)
        _parser(lambda text: values.miles(text, unit), zero=True)(self, member, feed)

    def cubic_centimetres(self, member: str, _: Feed) -> None:
        """Reads the displacement, from the first of its columns that has a value."""
        for name, unit in ((member, ""), ("displacement_litres", "l"), ("displacement_cubic_inches", "cid")):
            text = self.first(name)
            if text is not None and member not in self.members:
                size = values.cubic_centimetres(text, unit)
                if size is None:
                    self.not_understood(name, text)
                self.keep(member, size or None)

    def vin(self, member: str, _: Feed) -> None:
        """A text with the shape of a VIN. A failing check digit is only a problem, because real units have them."""
        text = self.text(member, 60)
        vin = fold(text).upper()
        if not vin:
            return
        year = self.members.get("year", _FIRST_YEAR_OF_VINS)
        is_old = year < _FIRST_YEAR_OF_VINS or self.members.get("vehicle_type") == "other"
        if values.VIN_SHAPE.fullmatch(vin):
            if year >= _FIRST_YEAR_OF_VINS and not values.has_check_digit(vin):
                self.row_problems.append("The VIN's check digit fails; the VIN is kept as it is.")
            self.keep(member, vin)
        elif is_old and _OLD_VIN_SHAPE.fullmatch(vin):
            self.keep(member, vin)
        else:
            if values.is_rounded(text):
                self.doubts.append(implausibility("vin_rounded", text=text))
            self.misread[member] = (
                text,
                f"The VIN {text!r} is not 17 letters and digits without I, O and Q; the unit goes by its stock number.",
            )

    def line(self, member: str, feed: Feed) -> None:
        """Reads a text of one line. Some layouts join it from several columns."""
        if member in self.layout.joined and member in self.cells:
            parts = dict.fromkeys(line(text, feed.limit) for text in self.cells[member])
            self.keep(member, line(" ".join(parts), feed.limit))
        else:
            self.keep(member, self.text(member, feed.limit))

    stock = line

    def word(self, member: str, _: Feed) -> None:
        """The canonical word of a vocabulary, which is named like the member, or the text as it is."""
        self.keep(member, canonical(member, self._short_text(member, 80)))

    def prose(self, member: str, _: Feed) -> None:
        self.keep(member, prose(self.first(member) or ""))

    def names(self, member: str, _: Feed) -> None:
        names = (line(text, 200) for text in self.cells.get(member, ()))
        self.keep(member, tuple(dict.fromkeys(name for name in names if name))[:_ROOFTOP_HINTS])

    def condition(self, member: str, _: Feed) -> None:
        """Reads the condition: from its own column, else from one that says whether the unit is used, or is new.

        A certified unit that is not new is `cpo`.
        """
        text = self._short_text(member, 60)
        condition = find_canonical("condition", text) if text else None
        if text and condition is None:
            self.not_understood(member, text)
        if condition is None and (is_used := self._flag("is_used")) is not None:
            condition = "used" if is_used else "new"
        if condition is None and (is_new := self._flag("is_new")) is not None:
            condition = "new" if is_new else "used"
        if self._flag("certified") and condition != "new":
            condition = "cpo"
        self.keep(member, condition)

    def photos(self, member: str, _: Feed) -> None:
        photos, refused = values.photos(self.cells.get(member, []))
        self.keep(member, tuple(photos))
        if refused:
            self.row_problems.append(f"photos: {refused} not an http or https address; left out.")

    def features(self, member: str, _: Feed) -> None:
        self.keep(member, tuple(values.features(self.cells.get(member, []))))

    def address(self, member: str, _: Feed) -> None:
        texts = self.cells.get(member, [])
        self.keep(member, next(filter(None, map(values.web_address, texts)), None))
        if texts and member not in self.members:
            self.not_understood(member, texts[0])

    def first(self, name: str) -> str | None:
        texts = self.cells.get(name)
        return texts[0] if texts else None

    def _short_text(self, name: str, limit: int) -> str:
        text = self.text(name, limit)
        if "schema.org" in text:
            text = _SCHEMA_ORG.sub("", text).removesuffix("Configuration")
        return text

    def _flag(self, name: str) -> bool | None:
        """A column that says yes or no. None if it is absent or not understood."""
        text = self.first(name)
        if text is None:
            return None
        value = values.truth(text)
        # "Manufacturer Certified" means yes.
        if value is None and find_canonical("condition", line(text, 60)) == "cpo":
            return True
        if value is None:
            self.not_understood(name, text)
        return value

    def keep(self, member: str, value: object) -> None:
        if value is not None and value not in ("", ()):
            self.members[member] = value

    def not_understood(self, name: str, text: str, result: str = "it is left out") -> None:
        shown = line(text, 60)
        self.misread.setdefault(name, (shown, f"{name}: {shown!r} is not understood; {result}."))


_Read = Callable[[_RowParser, str, Feed], None]


def _steps(*parsers: CellParser) -> tuple[tuple[_Read, str, Feed], ...]:
    """The parsers in order, each with the members that it parses."""
    return tuple(
        (getattr(_RowParser, name), member, feed)
        for name in parsers
        for member, feed in FEEDS.items()
        if feed.reader == name
    )


# A VIN is judged by its year and type, so these come first.
IDENTIFY = _steps(
    *("status", "vehicle_type", "year", "whole", "amount", "dollars", "miles", "cubic_centimetres", "vin", "stock")
)
DESCRIBE = _steps(
    *("line", "word", "prose", "names", "condition", "truth", "day", "moment", "photos", "features", "address")
)


def read_unit(cells: Cells, layout: Layout, ready: dict[str, Any] | None = None) -> ParsedRow:
    """The unit of a row's cells. `ready` are members that need no parsing: fees, other_attributes, extras.

    A row without VIN and stock number is refused. The row of a sold unit has an identifier, and no unit.
    """
    row = _RowParser(cells, layout)
    row.read(IDENTIFY)
    identifier = row.members.get("vin") or row.members.get("stock")
    reading = ParsedRow(
        identifier=identifier,
        row_problems=row.row_problems,
        filled=tuple(row.cells),
        misread=row.misread,
        doubts=row.doubts,
    )
    if identifier is None:
        vin_text = row.text("vin", 40)
        reading.refused = (
            f"The VIN {vin_text!r} is not a VIN, and there is no stock number."
            if vin_text
            else "There is neither a VIN nor a stock number."
        )
        return reading
    if not row.is_sold:
        row.read(DESCRIBE)
        if layout.fuel_inside_engine and "fuel" not in row.members and "engine" in row.members:
            row.keep("fuel", find_canonical("fuel", row.members["engine"]))
        reading.unit = Unit(**row.members, **(ready or {}))
    return reading


_MOST_REMEMBERED = 2_048
"""Texts of one member. When there are more, all are forgotten."""
_LONGEST_REMEMBERED = 64
_RARELY_REPEATED: Mapping[CellParser, Callable[[str], object]] = {
    "dollars": values.dollars,
    "miles": values.miles,
    "moment": values.moment,
    "vin": lambda text: text if values.VIN_SHAPE.fullmatch(text) and values.has_check_digit(text) else None,
    "stock": lambda text: text if _STOCK_NUMBER.fullmatch(text) and not is_absent(text) else None,
    "prose": lambda text: None if is_absent(text) else prose(text),
    "photos": values.plain_photos,
    "features": lambda text: None if is_absent(text) else tuple(values.features([text])),
    "address": values.web_address,
}
"""The value of the only text of a member. Without a value, the parser decides."""


class _Values(dict[Any, tuple[object, tuple[str, ...]] | None]):
    """The value of a member and its filled fields, by the text or texts. None for those that are not plain.

    Short ones are remembered: most cells repeat from row to row.
    """

    def __init__(self, layout: Layout, step: "tuple[_Read, str, Feed]", fields: Mapping[str, Sequence[int]]) -> None:
        super().__init__()
        self._read, self._member, self._feed = step
        self._fields = fields
        self._layout = layout
        self._absent = getattr(Unit(), self._member)
        # A member with one column: some of these have another value in each row, which is not worth remembering.
        is_single = [*map(len, fields.values())] == [1] and self._member in fields
        self._rarely_repeated = _RARELY_REPEATED.get(self._feed.reader) if is_single else None

    def __missing__(self, key: Any) -> tuple[object, tuple[str, ...]] | None:
        if self._rarely_repeated is not None and (value := self._rarely_repeated(key)):
            return value, (self._member,)
        texts: tuple[str, ...] = (key,) if isinstance(key, str) else key
        left = iter(texts)
        cells = {name: list(islice(left, len(columns))) for name, columns in self._fields.items()}
        row = _RowParser(cells, self._layout)
        if row.cells:
            self._read(row, self._member, self._feed)
        is_plain = not (row.misread or row.doubts or row.row_problems or row.is_sold)
        found = (row.members.get(self._member, self._absent), tuple(row.cells)) if is_plain else None
        if sum(map(len, texts)) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[key] = found
        return found


class PlainRows:
    """Reads rows whose `fields` are all plain as `read_unit` does, faster. An old VIN is not: it needs the year."""

    def __init__(self, fields: Mapping[str, Sequence[int]], layout: Layout) -> None:
        self._members: list[str] = []
        # What picks the texts of each member from a row, and its values.
        self._values: list[tuple[Callable[[list[str]], Any], _Values]] = []
        for step in (*IDENTIFY, *DESCRIBE):
            names = (step[1], *(step[2].more_columns or ()))
            if own := {name: fields[name] for name in names if fields.get(name)}:
                self._members.append(step[1])
                self._values.append((itemgetter(*chain.from_iterable(own.values())), _Values(layout, step, own)))
        self._needs_fuel = layout.fuel_inside_engine

    def read(self, cells: list[str]) -> ParsedRow | None:
        """The unit of a row that is as long as the header. None for a row that needs `read_unit`."""
        found = [values[pick(cells)] for pick, values in self._values]
        if None in found:
            return None
        read, filled = zip(*found, strict=True)
        unit = Unit(**dict(zip(self._members, read, strict=True)))
        identifier = unit.vin or unit.stock
        if not identifier or (self._needs_fuel and not unit.fuel):
            return None
        return ParsedRow(identifier=identifier, unit=unit, filled=tuple(chain.from_iterable(filled)))
