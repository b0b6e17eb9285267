"""A row's cells to a unit, in the words of the contract. Pure functions.

A cell that is not understood is absent, with a remark; nothing about a single cell raises.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from vininfo import Vin

from dealer_agent.inventory.feeds import values
from dealer_agent.inventory.feeds.cells import PROSE_LIMIT, is_absent, line, prose
from dealer_agent.inventory.feeds.layouts import Layout
from dealer_agent.inventory.unit import Unit
from dealer_agent.inventory.vocabulary import CanonicalField, canonical, fold, known

Cells = dict[str, list[str]]

_VIN_SHAPE = re.compile(r"[A-HJ-NPR-Z0-9]{17}", re.ASCII)
_OLD_VIN_SHAPE = re.compile(r"[A-Z0-9]{4,17}", re.ASCII)
_FIRST_YEAR_OF_VINS = 1981
_SCHEMA_ORG = re.compile(r"https?://schema\.org/", re.IGNORECASE)

_TEXT_LIMITS = {"model": 100, "trim": 150, "engine": 200, "exterior_color": 120, "interior_color": 120}
_WORD_FIELDS: tuple[CanonicalField, ...] = ("make", "body", "transmission", "driveline", "fuel", "charge_port")
_ROOFTOP_HINTS = 8


def _whole(text: str) -> int | None:
    """A whole number above zero; feeds write 0 for what they do not know."""
    number = values.amount(text)
    return None if number is None else int(number + 0.5)


_NUMBERS: dict[str, Callable[[str], int | float | None]] = {
    "year": values.year,
    "city_mpg": _whole,
    "highway_mpg": _whole,
    "electric_range_mi": values.amount,
    "battery_kwh": values.amount,
    "motor_power_hp": values.amount,
}
_MONEY = ("selling_price", "list_price", "msrp")
_DISPLACEMENTS = (("displacement_cc", ""), ("displacement_litres", "l"), ("displacement_cubic_inches", "cid"))


@dataclass(slots=True)
class Reading:
    """What became of a row: a unit, or a refusal, or a unit that is sold; and what was odd about it."""

    identifier: str | None = None
    unit: Unit | None = None
    refused: str | None = None
    is_sold: bool = False
    remarks: list[str] = field(default_factory=list)


class _RowReader:
    """The members of one unit, read from one row's cells."""

    def __init__(self, cells: Cells, layout: Layout) -> None:
        self.layout = layout
        self.cells = {
            name: present for name, texts in cells.items() if (present := [t for t in texts if not is_absent(t)])
        }
        self.members: dict[str, Any] = {}
        self.remarks: list[str] = []

    def first(self, name: str) -> str | None:
        texts = self.cells.get(name)
        return texts[0] if texts else None

    def line(self, name: str, limit: int) -> str:
        text = self.first(name)
        return "" if text is None else line(text, limit)

    def not_understood(self, name: str, text: str) -> None:
        self.remarks.append(f"{name}: {line(text, 60)!r} is not understood; it is left out.")

    def keep(self, name: str, value: object) -> None:
        if value is not None and value not in ("", ()):
            self.members[name] = value

    def word(self, name: CanonicalField, limit: int = 60) -> str:
        """The cell as a word of a vocabulary may be written, schema.org's names among them."""
        text = self.line(name, limit)
        if "schema.org" in text:
            text = _SCHEMA_ORG.sub("", text).removesuffix("Configuration")
        return text

    def texts(self) -> None:
        for name, limit in _TEXT_LIMITS.items():
            if name in self.layout.joined and name in self.cells:
                parts = dict.fromkeys(line(text, limit) for text in self.cells[name])
                self.keep(name, line(" ".join(parts), limit))
            else:
                self.keep(name, self.line(name, limit))
        for name in _WORD_FIELDS:
            text = self.word(name, 80)
            if text:
                self.keep(name, canonical(name, text))
        if "fuel" not in self.members and self.layout.fuel_inside_engine and "engine" in self.members:
            self.keep("fuel", known("fuel", self.members["engine"]))
        for name in ("description", "notes"):
            text = self.first(name) or ""
            self.keep(name, prose(text, PROSE_LIMIT))
        self.keep("vehicle_id", self.line("vehicle_id", 100))
        hints = (line(text, 200) for text in self.cells.get("rooftop_hints", ()))
        self.keep("rooftop_hints", tuple(dict.fromkeys(hint for hint in hints if hint))[:_ROOFTOP_HINTS])

    def numbers(self) -> None:
        for name, read in _NUMBERS.items():
            text = self.first(name)
            if text is not None:
                value = read(text)
                if value is None:
                    self.not_understood(name, text)
                elif value > 0:
                    self.keep(name, value)
        for name in _MONEY:
            self.money(name)
        text = self.first("mileage")
        if text is not None:
            self.keep("mileage", values.miles(text, self.line("mileage_unit", 20)))
            if "mileage" not in self.members:
                self.not_understood("mileage", text)
        for name, unit in _DISPLACEMENTS:
            text = self.first(name)
            if text is not None and "displacement_cc" not in self.members:
                size = values.cubic_centimetres(text, unit)
                if size is None:
                    self.not_understood(name, text)
                elif size > 0:
                    self.keep("displacement_cc", size)

    def money(self, name: str) -> None:
        """The first column that holds an amount; 0 and words such as "call" are no price."""
        for text in self.cells.get(name, ()):
            amount = values.dollars(text)
            if amount:
                self.keep(name, amount)
                return
            if amount is None and not values.is_no_price(text):
                self.not_understood(name, text)

    def truths(self) -> None:
        text = self.first("dc_fast_charge")
        if text is not None:
            self.keep("dc_fast_charge", values.truth(text))
            if "dc_fast_charge" not in self.members:
                self.not_understood("dc_fast_charge", text)

    def flag(self, name: str) -> bool | None:
        text = self.first(name)
        if text is None:
            return None
        # "Manufacturer Certified" says yes as well as "Yes" does.
        says = values.truth(text)
        if says is None:
            says = True if known("condition", line(text, 60)) == "cpo" else None
        if says is None:
            self.not_understood(name, text)
        return says

    def condition(self) -> None:
        text = self.word("condition")
        condition = known("condition", text) if text else None
        if text and condition is None:
            self.not_understood("condition", text)
        if condition is None and (is_used := self.flag("is_used")) is not None:
            condition = "used" if is_used else "new"
        if condition is None and (is_new := self.flag("is_new")) is not None:
            condition = "new" if is_new else "used"
        if self.flag("certified") and condition != "new":
            condition = "cpo"
        self.keep("condition", condition)

    def kind(self) -> None:
        texts = [part for text in self.cells.get("vehicle_type", ()) for part in text.split("\n") if part.strip()]
        read = [known("vehicle_type", line(_SCHEMA_ORG.sub("", text), 80)) for text in texts]
        self.keep("vehicle_type", next((word for word in read if word is not None), None))
        if texts and "vehicle_type" not in self.members:
            self.not_understood("vehicle_type", texts[0])

    def status(self) -> bool:
        """Whether the row says that the unit is sold; else the first status that is understood is kept."""
        said = [line(_SCHEMA_ORG.sub("", text), 60) for text in self.cells.get("status", ())]
        words = [known("status", text) for text in said]
        for text, word in zip(said, words, strict=True):
            if word is None:
                self.remarks.append(f"status: {text!r} is not understood; the unit counts as available.")
        self.keep("status", next((word for word in words if word is not None), None))
        return "sold" in words

    def times(self) -> None:
        text = self.first("inventory_date")
        if text is not None:
            self.keep("inventory_date", values.day(text))
            if "inventory_date" not in self.members:
                self.not_understood("inventory_date", text)
        text = self.first("feed_updated_at")
        if text is not None:
            self.keep("feed_updated_at", values.moment(text))
            if "feed_updated_at" not in self.members:
                self.not_understood("feed_updated_at", text)

    def lists(self) -> None:
        photos, refused = values.photos(self.cells.get("photos", []))
        self.keep("photos", tuple(photos))
        if refused:
            self.remarks.append(f"photos: {refused} not an http or https address; left out.")
        self.keep("features", tuple(values.features(self.cells.get("features", []))))
        addresses = self.cells.get("vdp_url", [])
        self.keep("vdp_url", next(filter(None, map(values.web_address, addresses)), None))
        if addresses and "vdp_url" not in self.members:
            self.not_understood("vdp_url", addresses[0])

    def vin(self) -> None:
        """The VIN, when it has the shape of one; a failing check digit is remarked, since real units have them."""
        text = self.line("vin", 60)
        vin = fold(text).upper()
        if not vin:
            return
        year = self.members.get("year", _FIRST_YEAR_OF_VINS)
        if _VIN_SHAPE.fullmatch(vin):
            if year >= _FIRST_YEAR_OF_VINS and not Vin(vin).verify_checksum():
                self.remarks.append("The VIN's check digit fails; the VIN is kept as it is.")
            self.keep("vin", vin)
        elif (year < _FIRST_YEAR_OF_VINS or self.members.get("vehicle_type") == "other") and _OLD_VIN_SHAPE.fullmatch(
            vin
        ):
            self.keep("vin", vin)
        else:
            self.remarks.append(
                f"The VIN {text!r} is not 17 letters and digits without I, O and Q; the unit goes by its stock number."
            )


def read_unit(cells: Cells, layout: Layout, further: dict[str, Any] | None = None) -> Reading:
    """What a row's cells tell. `further` are members that are ready: fees, other_attributes, extras."""
    row = _RowReader(cells, layout)
    is_sold = row.status()
    row.kind()
    row.numbers()
    row.vin()
    row.keep("stock", row.line("stock", 64))
    identifier = row.members.get("vin") or row.members.get("stock")
    reading = Reading(identifier=identifier, remarks=row.remarks)
    if identifier is None:
        said = row.line("vin", 40)
        reading.refused = (
            f"The VIN {said!r} is not a VIN, and there is no stock number."
            if said
            else "There is neither a VIN nor a stock number."
        )
        return reading
    if is_sold:
        reading.is_sold = True
        return reading
    row.texts()
    row.condition()
    row.truths()
    row.times()
    row.lists()
    reading.unit = Unit(**cast("dict[str, Any]", row.members | (further or {})))
    return reading
