"""Finds the units for sale with a problem that keeps buyers away. `PROBLEMS` has one row for each kind.

Units with implausible facts are held back when a file is imported (`feeds.row_doubts`). What is found here is for sale.
"""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from time import sleep
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from dealer_agent.feeds.files import values
from dealer_agent.feeds.files.plausibility import Bounds, SimilarPrices
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.vehicle import SaleCondition, VehicleType

OLD_AFTER = timedelta(days=90)
"""A unit is old that is in the stock for longer."""
MOST_FOUND = 1_000
"""The most units of a kind that are named. All are counted."""
_FAR_FROM_SIMILAR = 2.0
"""An odd price is this many times that of similar units, or that part of it. Prices much farther away are held back."""
_FIRST_YEAR_OF_VINS = 1981
_BATCH = 500


class ProblemKind(NamedTuple):
    """A kind of problem. `cure` says what to do."""

    id: str
    title: str
    cure: str


PROBLEMS = (
    ProblemKind(
        "no-price",
        "No price",
        "Write the price into your inventory system. If the feed has prices before fees, write the fees of the rooftop "
        "into the settings.",
    ),
    ProblemKind(
        "no-photo",
        "No photo",
        "Take photos, and export their https addresses with the feed. Many buyers leave out units without a photo.",
    ),
    ProblemKind("vin", "VIN wrong", "Compare the VIN with the vehicle, and correct it in your inventory system."),
    ProblemKind(
        "price", "Price odd", "Compare the price with that of similar units, and correct it in your inventory system."
    ),
    ProblemKind("old", "Long on the lot", "Lower the price, or remove the unit from the feed if it is sold."),
)
"""All kinds, in the order of the page."""
PROBLEM_BY_ID: Mapping[str, ProblemKind] = {kind.id: kind for kind in PROBLEMS}


class FoundUnits(Struct):
    """The units of a kind: how many there are, and the reason of each of the first by its vehicle id."""

    count: int = 0
    reasons: dict[str, str] = {}


class _Facts(Struct, frozen=True):
    """The members of a listing that are judged."""

    vehicle_id: str
    vin: str | UnsetType = UNSET
    year: int | UnsetType = UNSET
    make: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    price: int | UnsetType = UNSET
    msrp: int | UnsetType = UNSET
    mileage: int | UnsetType = UNSET
    condition: SaleCondition | UnsetType = UNSET
    vehicle_type: VehicleType | UnsetType = UNSET
    photos: msgspec.Raw | UnsetType = UNSET
    inventory_date: date | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Facts).decode
_NO_PHOTOS = (UNSET, msgspec.Raw(b"[]"))


def problems_of(
    listings: Iterable[bytes], bounds: Bounds, seen: Mapping[str, datetime], today: date
) -> dict[str, FoundUnits]:
    """The units with a problem by its kind. `listings` are the JSON that buyers get.

    `seen` has the time since which a unit is in the stock, at least of those that are old. It counts for units whose
    feed does not say since when.
    """
    found = {kind.id: FoundUnits(0, {}) for kind in PROBLEMS}
    oldest = today - OLD_AFTER
    strict = replace(bounds, price_like_factor=_FAR_FROM_SIMILAR)
    similar_prices, ids = SimilarPrices(strict), list[str]()

    def note(kind: str, vehicle_id: str, reason: str) -> None:
        units = found[kind]
        if vehicle_id in units.reasons:
            return
        units.count += 1
        if units.count <= MOST_FOUND:
            units.reasons[vehicle_id] = reason

    for number, facts in enumerate(map(_decode, listings)):
        if number % _BATCH == 0:
            # Requests of agents need the interpreter, too.
            sleep(0)
        if facts.price is UNSET:
            note("no-price", facts.vehicle_id, "Agents see no price.")
        if facts.photos in _NO_PHOTOS:
            note("no-photo", facts.vehicle_id, "Agents see no photo.")
        if wrong := _wrong_vin(facts):
            note("vin", facts.vehicle_id, wrong)
        first = seen.get(facts.vehicle_id)
        since = facts.inventory_date or (today if first is None else first.date())
        if since <= oldest:
            note("old", facts.vehicle_id, f"In the stock since {since}, for {(today - since).days:,} days.")
        unit = _unit(facts)
        similar_prices.add(number, unit)
        ids.append(facts.vehicle_id)
        doubt = bounds.doubt_of(unit, today.year)
        if doubt is not None and doubt.reason.startswith("price"):
            note("price", facts.vehicle_id, doubt.sentence)
    for position, doubt in similar_prices.doubts():
        note("price", ids[position], doubt.sentence)
    return found


def _unit(facts: _Facts) -> Unit:
    """A unit with the facts that the checks compare."""
    return Unit(
        year=facts.year,
        make=facts.make,
        model=facts.model,
        selling_price=facts.price,
        msrp=facts.msrp,
        mileage=facts.mileage,
        condition=facts.condition,
        vehicle_type=facts.vehicle_type,
    )


def _wrong_vin(facts: _Facts) -> str:
    """What is wrong with the VIN of a unit; empty if nothing is."""
    if facts.vehicle_type not in (UNSET, "car"):
        return ""
    if not facts.vin:
        return "The unit has no VIN."
    if isinstance(facts.year, int) and facts.year < _FIRST_YEAR_OF_VINS:
        return ""
    if not values.VIN_SHAPE.fullmatch(facts.vin):
        return f"The VIN {facts.vin!r} is not 17 letters and digits without I, O and Q."
    return "" if values.has_check_digit(facts.vin) else f"The check digit of the VIN {facts.vin!r} is wrong."
