"""Vehicles, visits and the consent of a lead in plain American English. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from operator import itemgetter
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads.consent import CHANNELS
from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.local_time import read_instant
from dealer_agent.leads.plain_text import one_line, short
from dealer_agent.leads.statuses import VisitStatus
from dealer_agent.leads.us_formats import time_words
from dealer_agent.protocol.requests import Appointment, AppointmentType, Channel, TradeIn, VehicleOfInterest
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
    """The name of a vehicle, such as `2024 Toyota RAV4 XLE`. If nothing is known, it is `vehicle`."""
    return vehicle_words(vehicle) or "vehicle"


def listing_words(vehicle: Vehicle | None, kind: AppointmentType) -> str:
    """The listing that a visit is about, with its stock number. Empty for a visit about the customer's own vehicle."""
    if vehicle is None or kind in OWN_VEHICLE_VISITS:
        return ""
    stock = short(vehicle.stock or "", 40)
    return f"{short(vehicle_words(vehicle), 100)}{f' (stock {stock})' if stock else ''}".strip()


_USUAL_NAME = re.compile(r"[\w .&'+-]*")


def claimed_name(name: str) -> str:
    """What an agent calls itself. One that looks like a proof is in quotes, such as "https://a.example, verified"."""
    name = short(name, 80)
    if _USUAL_NAME.fullmatch(name) and "verified" not in name.casefold():
        return name
    return '"' + name.replace('"', "'") + '"'


def source_words(view: LeadView) -> str:
    """Who sent the lead: the proved identity, and the name that the sender gives itself, which is only a claim."""
    name = claimed_name(view.agent.name) or "an unnamed agent"
    if view.caller:
        return f"{short(view.caller, 200)}, verified. It calls itself {name}"
    return f"{name} (says so itself, not verified)"


def wanted_words(view: LeadView) -> str:
    """The vehicle of the lead: the listing, else the buyer's description. Empty if there is neither."""
    if view.vehicle is not None:
        return vehicle_words(view.vehicle)
    return "" if view.interest is UNSET else vehicle_words(view.interest)


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
    """The facts of a vehicle that are known, with label and unit."""
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


VISITS: Mapping[AppointmentType, str] = {
    "sales": "sales visit",
    "service": "service visit",
    "test_drive": "test drive",
    "trade_in": "trade-in appraisal",
    "showroom_visit": "showroom visit",
    "handover": "vehicle handover",
    "phone_call": "phone call",
    "video_call": "video call",
    "trade_in_appraisal": "trade-in appraisal",
}
CALLS: tuple[AppointmentType, ...] = ("phone_call", "video_call")
"""Visits for which the customer does not come to the rooftop."""

_VISIT_STATUSES: Mapping[VisitStatus, str] = {
    "requested": "asked for",
    "proposed": "asked for, other times proposed",
    "confirmed": "confirmed",
    "rejected": "declined",
    "cancelled": "cancelled",
    "unavailable": "asked for, no time found",
    "done": "done",
    "no_show": "missed",
}
ENDS: Mapping[VisitStatus, str] = {
    "cancelled": "was cancelled",
    "done": "took place",
    "no_show": "did not take place, because the customer did not come",
}


def visit_name(kind: AppointmentType) -> str:
    """The kind of visit with a capital letter: `Test drive`."""
    name = VISITS[kind]
    return f"{name[0].upper()}{name[1:]}"


def visit_title(visit: VisitView) -> str:
    """The kind of visit and its status: `Test drive confirmed`."""
    return f"{visit_name(visit.kind)} {_VISIT_STATUSES[visit.status]}"


def visit_with_time(visit: VisitView) -> str:
    """`the test drive on Tuesday, March 3, 2026, 10:00 AM CST`."""
    when = f" on {time_words(visit.times[0].start, visit.rooftop.zone)}" if visit.times else ""
    return f"the {VISITS[visit.kind]}{when}"


def requested_periods(request: Appointment, zone: str) -> tuple[VisitTime, ...]:
    """The requested times, in their order. A time without an offset is in the request's zone, else in `zone`."""
    own = ZoneInfo(zone if request.timezone is UNSET else request.timezone)
    if request.appointment_at is not UNSET:
        return (VisitTime(read_instant(request.appointment_at, own)),)
    return tuple(
        VisitTime(read_instant(window.start, own), None if window.end is UNSET else read_instant(window.end, own))
        for window in request.requested_windows or ()
    )


def place_words(rooftop: RooftopView) -> str:
    """A rooftop's name and postal address on one line."""
    parts = [rooftop.name]
    if (address := rooftop.address) is not None:
        parts += [address.address_line_1, address.address_line_2 or "", address.city, f"{address.state} {address.zip}"]
    return ", ".join(filter(None, map(short, parts)))


def refused_channels(view: LeadView) -> list[Channel]:
    """The channels by which the customer must not be contacted."""
    return [channel for channel in CHANNELS if channel not in view.channels]
