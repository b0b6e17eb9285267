"""Vehicles in plain American English. Pure."""

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter

from msgspec import UNSET

from dealer_agent.leads.lead_view import LeadView
from dealer_agent.leads.plain_text import one_line, short
from dealer_agent.protocol.requests import AppointmentType, TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import FIELDS, ListingStatus, Vehicle, VehicleMembers

CONDITIONS: Mapping[str, str] = {"new": "new", "used": "used", "cpo": "certified pre-owned"}
STATUSES: Mapping[ListingStatus, str] = {
    "available": "available",
    "intransit": "in transit",
    "pending": "sale pending",
}
OWN_VEHICLE_VISITS: tuple[AppointmentType, ...] = ("service", "trade_in", "trade_in_appraisal")
"""Visits that are about the customer's own vehicle."""

NOT_IN_STOCK = "Not found in stock when the lead came."

_FACT_ROWS = sorted(
    ((fact.position, row.name, row.field.label, fact) for row in FIELDS.values() if (fact := row.lead_fact)),
    key=itemgetter(0),
)
# The facts that ADF has no element for: member, label, unit.
_DESCRIBED_FACTS = [(name, label, fact.unit) for _, name, label, fact in _FACT_ROWS]
_FACTS = [(name, label, fact.unit) for _, name, label, fact in _FACT_ROWS if not fact.claim_only]


def vehicle_words(vehicle: VehicleMembers) -> str:
    """The known ones of year, make, model and trim. Empty if none is known."""
    parts = (vehicle.year, vehicle.make, vehicle.model, vehicle.trim)
    return " ".join(filter(None, (one_line(str(part)) for part in parts if part is not UNSET)))


def vehicle_name(vehicle: Vehicle) -> str:
    """The words for a listing, else `vehicle`."""
    return vehicle_words(vehicle) or "vehicle"


def listing_words(vehicle: Vehicle | None, kind: AppointmentType) -> str:
    """The listing that a visit is about, with its stock number. Empty for a visit about the customer's own vehicle."""
    if vehicle is None or kind in OWN_VEHICLE_VISITS:
        return ""
    stock = short(vehicle.stock or "", 40)
    return f"{short(vehicle_words(vehicle), 100)}{f' (stock {stock})' if stock else ''}".strip()


def wanted_words(view: LeadView) -> str:
    """The vehicle of the lead: the listing, else the buyer's description. Empty if there is neither."""
    if view.vehicle is not None:
        return vehicle_words(view.vehicle)
    return "" if view.wish is UNSET else vehicle_words(view.wish)


def listing_facts(vehicle: Vehicle) -> list[str]:
    """The facts about a listing that ADF has no element for, as `label: value`."""
    return _facts(vehicle, _FACTS)


def described_facts(vehicle: VehicleOfInterest | TradeIn, extras: Mapping[str, object]) -> list[str]:
    """The facts in a buyer's description that ADF has no element for, photos and extras included."""
    photos = [f"Photo: {url}" for url in map(one_line, vehicle.photos or ()) if url]
    return _facts(vehicle, _DESCRIBED_FACTS) + photos + extra_facts(vehicle, extras)


def extra_facts(vehicle: VehicleOfInterest | TradeIn, extras: Mapping[str, object]) -> list[str]:
    """The members of a buyer's description that the protocol does not define, and the rooftop that the buyer named."""
    members = {**(vehicle.other_attributes or {}), **extras}
    if isinstance(vehicle, VehicleOfInterest) and vehicle.rooftop is not UNSET:
        members["rooftop"] = vehicle.rooftop
    named = ((one_line(name) or "Other", one_line(_as_text(value))) for name, value in members.items())
    return [f"{name}: {value}" for name, value in named if value]


def _facts(vehicle: VehicleMembers, table: Iterable[tuple[str, str, str]]) -> list[str]:
    facts = []
    for member, label, unit in table:
        value = getattr(vehicle, member)
        if value is not UNSET and (text := one_line(_as_text(value))):
            facts.append(f"{label}: {text}{unit}")
    return facts


def _as_text(value: object) -> str:
    """A JSON value as text: objects, arrays and numbers as JSON, null as an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dict | list | int | float):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
