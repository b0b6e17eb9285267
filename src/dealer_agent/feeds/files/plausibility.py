"""Decides which units of a feed are implausible, and must be held back (docs/reference/feeds.md#held-units). Pure.

`REASONS` has one row for each reason. The reader finds those about the text of a row. `Bounds` and `SimilarPrices`
find those about prices and mileages.
"""

import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from operator import attrgetter
from statistics import median_low
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, Struct

from dealer_agent.inventory.listing import Unit


class Reason(NamedTuple):
    """A reason to hold a unit back. `sentence` is for people. `advice` says what to do.

    The facts of a unit that is not `releasable` are wrong, so no person can publish them.
    """

    id: str
    sentence: str
    advice: str
    releasable: bool = True


_PRICE = "Correct the price in your inventory system, or release the unit if the price is right."
_MILEAGE = "Write the mileage into your inventory system, or leave it empty."
_ROW = "Correct the row in your inventory system and export it again."

REASONS = (
    Reason("price_low", "The price is {value}. Less than {other} is implausible.", _PRICE),
    Reason("price_high", "The price is {value}. More than {other} is implausible.", _PRICE),
    Reason("price_negative", "The price {value} is negative.", _PRICE),
    Reason("price_unread", "The price {value} is not understood.", _PRICE),
    Reason("price_zero", "The price is 0. The last price was {other}.", _PRICE),
    Reason("price_jump", "The price is {value}. The last price was {other}.", _PRICE),
    Reason("price_of_msrp", "The price is {value}. The MSRP is {other}.", _PRICE),
    Reason(
        "price_of_likes", "The price is {value}. The median of units of its make, model and year is {other}.", _PRICE
    ),
    Reason("price_of_stock", "The price is {value}. The median of the file is {other}.", _PRICE),
    Reason("price_of_mileage", "The price is {value}, and so is the mileage.", _PRICE),
    Reason("mileage_zero", "The unit is used, and its mileage is 0.", _MILEAGE),
    Reason("mileage_placeholder", "The mileage {value} is a placeholder.", _MILEAGE),
    Reason("mileage_negative", "The mileage {value} is negative.", _MILEAGE),
    Reason("mileage_low", "The mileage of a used unit of the year {other} is only {value}.", _MILEAGE),
    Reason("mileage_high", "The mileage is {value}. More than {other} is implausible at its age.", _MILEAGE),
    Reason(
        "not_for_sale",
        "The unit is a test, or not for buyers: {value}.",
        "Remove the unit from the feed. If it is for sale, remove these words from its row, or release the unit.",
    ),
    Reason(
        "vin_rounded",
        "The VIN {value} is a number that a spreadsheet rounded.",
        "Export the VIN as text. Do not save the file with a spreadsheet program.",
    ),
    Reason(
        "status_unknown",
        "The status {value} is not understood.",
        "Write what it means into status_words in [checks] of dealer.toml: available, intransit, pending or sold.",
    ),
    Reason(
        "sold_words",
        "A column says that the unit is sold: {value}.",
        "Remove the unit from the feed if it is sold. If not, remove the word from its row, or release the unit.",
    ),
    Reason("repeated", "Rows of the unit contradict each other: {value}.", _ROW),
    Reason("row_shifted", "The cells of the row are in the wrong columns: {value}.", _ROW, releasable=False),
)
"""All reasons, in the order of reports."""

REASON_BY_ID: Mapping[str, Reason] = {reason.id: reason for reason in REASONS}

_RELEASED_NEAR = 1.25
"""A released price covers later prices up to this factor away, so that a small change needs no second decision."""


class Implausibility(Struct, frozen=True, omit_defaults=True):
    """Why a unit is implausible. `amount` is the implausible number, `text` the implausible text."""

    reason: str
    sentence: str
    amount: int = 0
    text: str = ""

    @property
    def advice(self) -> str:
        """What to do about it."""
        return REASON_BY_ID[self.reason].advice

    @property
    def is_releasable(self) -> bool:
        """Whether a person can publish the unit as the feed gives it."""
        return REASON_BY_ID[self.reason].releasable

    def is_covered(self, released: Collection["Implausibility"]) -> bool:
        """Whether a person released it: the same reason, and the same text or about the same number."""
        return any(other.reason == self.reason and self._is_near(other) for other in released)

    def _is_near(self, other: "Implausibility") -> bool:
        low, high = sorted((self.amount, other.amount))
        return self.text == other.text and high <= low * _RELEASED_NEAR


def implausibility(reason: str, *, amount: int = 0, text: str = "", other: object = "") -> Implausibility:
    """Why a unit is implausible. `amount` and a number `other` are shown as dollars if the reason is about prices."""

    def shown(value: object) -> str:
        if isinstance(value, int):
            return f"${value:,}" if reason.startswith("price") else f"{value:,}"
        return repr(value)

    sentence = REASON_BY_ID[reason].sentence.format(value=shown(text or amount), other=shown(other))
    return Implausibility(reason, sentence, amount, text)


_FACTS = ("selling_price", "mileage", "condition", "year", "make", "model")
_facts_of = attrgetter(*_FACTS)


def contradiction(one: Unit | None, other: Unit | None) -> str:
    """How two rows of a unit contradict each other; "" if they do not. None is a row that says that it is sold."""
    if one is None or other is None:
        return "" if one is other else "one says that it is sold"
    for fact, first, second in zip(_FACTS, _facts_of(one), _facts_of(other), strict=True):
        if first != second and UNSET not in (first, second):
            return f"{fact} {first} and {second}"
    return ""


class Bounds(Struct, frozen=True, kw_only=True):
    """What is plausible for a dealer: part of `[checks]` of dealer.toml. Factors compare two prices, either way."""

    lowest_price: Annotated[int, Meta(ge=0, le=100_000)] = 500
    highest_price: Annotated[int, Meta(ge=1_000, le=1_000_000_000)] = 2_000_000
    price_jump_factor: Annotated[float, Meta(ge=1.1, le=1000)] = 3.0
    price_like_factor: Annotated[float, Meta(ge=1.5, le=1000)] = 5.0

    def doubt_of(self, unit: Unit, this_year: int) -> Implausibility | None:
        """What is implausible about a unit, judged by itself."""
        price, mileage = unit.selling_price, unit.mileage
        if isinstance(price, int) and (of_price := self._doubt_of_price(unit, price, this_year)):
            return of_price
        if isinstance(mileage, int) and (of_mileage := _doubt_of_mileage(unit, mileage, this_year)):
            return of_mileage
        texts = [text[:_BEGINNING] for text in (unit.stock, unit.make, unit.model, unit.description) if text]
        # Seldom true, and faster than the regular expression.
        joined = "\n".join(texts).lower()
        if "test" in joined or "auction" in joined or "do not" in joined:
            marked = next(filter(_NOT_FOR_SALE.search, texts), "")
            return implausibility("not_for_sale", text=marked) if marked else None
        return None

    def _doubt_of_price(self, unit: Unit, price: int, this_year: int) -> Implausibility | None:
        """Why the price of a unit for sale is implausible. None if it is plausible."""
        lowest = self.lowest_price
        if unit.vehicle_type in _CARS:
            if unit.condition == "new":
                lowest *= _NEW_CARS_COST
            elif isinstance(unit.year, int) and unit.year >= this_year - _YOUNG:
                lowest *= _YOUNG_CARS_COST
        if price < lowest:
            return implausibility("price_low", amount=price, other=lowest)
        if price > self.highest_price:
            return implausibility("price_high", amount=price, other=self.highest_price)
        msrp = unit.msrp
        if isinstance(msrp, int) and msrp >= lowest and self._is_far_from_msrp(unit, price, msrp):
            return implausibility("price_of_msrp", amount=price, other=msrp)
        return implausibility("price_of_mileage", amount=price) if price and price == unit.mileage else None

    def _is_far_from_msrp(self, unit: Unit, price: int, msrp: int) -> bool:
        # An old car costs a small part of its MSRP.
        least = msrp / (self.price_jump_factor if unit.condition == "new" else _OLD_CARS_COST)
        return not least <= price <= msrp * self.price_jump_factor

    def jump_of(self, old: int, new: int) -> Implausibility | None:
        """Whether the price of a unit for sale is far from its last one. 0 is not a price."""
        if not new or not old or old < self.lowest_price:
            return None
        is_far = new > old * self.price_jump_factor or new * self.price_jump_factor < old
        return implausibility("price_jump", amount=new, other=old) if is_far else None


_CARS = ("car", Unit().vehicle_type)
"""A unit without a type counts as a car."""
_NEW_CARS_COST = 10
"""A new car costs at least this many times the lowest price: a monthly payment is less."""
_YOUNG = 5
"""A used car is young up to this many years."""
_YOUNG_CARS_COST = 4
"""A young used car costs at least this many times the lowest price: a down payment is less."""
_OLD_CARS_COST = 30
_MOST_MILES = 999_999
_PLACEHOLDERS = frozenset({111_111, 123_456, 888_888})
_FEW_MILES = 100
"""A used car of another year has more, unless it is a classic."""
_CLASSIC = 25
_MOST_MILES_OF_NEW = 10_000
_MOST_MILES_A_YEAR = 50_000
_NOT_FOR_SALE = re.compile(
    r"^test(?![a-z ])|\btest (?:car|unit|vehicle)\b|\bsend to auction\b"
    r"|\bdo not (?:use|advertise|publish|sell(?! my))\b",
    re.IGNORECASE,
)
_BEGINNING = 100
"""Characters of a text in which a note for the staff is searched."""
_FEWEST_SIMILAR = 5
_FEWEST_PRICES = 20
_FAR_FROM_ALL = 30


def _doubt_of_mileage(unit: Unit, mileage: int, this_year: int) -> Implausibility | None:
    """Why the mileage of a unit is implausible. None if it is plausible."""
    is_used = unit.condition in ("used", "cpo")
    if mileage == 0 and is_used:
        return implausibility("mileage_zero")
    if mileage >= _MOST_MILES or mileage in _PLACEHOLDERS:
        return implausibility("mileage_placeholder", amount=mileage)
    if unit.vehicle_type not in _CARS or not isinstance(unit.year, int):
        return None
    age = this_year - unit.year
    if is_used and mileage < _FEW_MILES and 1 <= age <= _CLASSIC:
        return implausibility("mileage_low", amount=mileage, other=str(unit.year))
    most = _MOST_MILES_OF_NEW if unit.condition == "new" else _MOST_MILES_A_YEAR * (max(age, 0) + 1)
    return implausibility("mileage_high", amount=mileage, other=most) if mileage > most else None


class SimilarPrices:
    """Compares the prices of a file with the median of units of the same make, model and year, and of all units.

    `add` gets each unit with its position in the file.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        # By make, model and year: the prices of the units, and their positions.
        self._similar_units: dict[tuple[object, ...], tuple[array[int], array[int]]] = {}

    def add(self, position: int, unit: Unit) -> None:
        """Notes the price of a unit."""
        if isinstance(unit.selling_price, int):
            key = (unit.make, unit.model, unit.year)
            units = self._similar_units.get(key) or self._similar_units.setdefault(key, (array("q"), array("q")))
            prices, positions = units
            prices.append(unit.selling_price)
            positions.append(position)

    def doubts(self) -> Iterator[tuple[int, Implausibility]]:
        """The positions of the units with an implausible price, each with its doubt.

        With enough similar units: a price far above or below their median. Otherwise only one far above the median of
        the file, because old units are cheap.
        """
        factor = self._bounds.price_like_factor
        everything = array("q", (price for prices, _ in self._similar_units.values() for price in prices))
        median_of_file = median_low(everything) if len(everything) >= _FEWEST_PRICES else 0
        for prices, positions in self._similar_units.values():
            if len(prices) >= _FEWEST_SIMILAR:
                reason, middle = "price_of_likes", median_low(prices)
                low, high = middle / factor, middle * factor
            else:
                reason, middle = "price_of_stock", median_of_file
                low, high = 0, median_of_file * _FAR_FROM_ALL
            if middle and not low <= min(prices) <= max(prices) <= high:
                for price, position in zip(prices, positions, strict=True):
                    if not low <= price <= high:
                        yield position, implausibility(reason, amount=price, other=middle)
