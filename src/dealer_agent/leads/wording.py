"""How leads are told to people: times, money, visits and vehicles in plain American English. Pure.

Times are told on the clock of a rooftop with the abbreviation of its zone, which tells apart an hour that comes twice.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads.lead_view import CancelledVisit, ErasedLead, LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.local_time import instant_of
from dealer_agent.leads.plain_text import one_line, short
from dealer_agent.leads.us_formats import clock_time, either
from dealer_agent.protocol.formats import in_zone, parse_timestamp
from dealer_agent.protocol.requests import Appointment, AppointmentType, TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import ListingStatus, Vehicle, VehicleMembers

NOT_SPECIFIED = "Not specified"
"""Stands where a reader's rules want something and nothing is known."""

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
CHANNELS: Mapping[str, str] = {"email": "e-mail", "phone": "phone", "sms": "text message"}
"""In the order in which people are told of them."""


def day_words(moment: datetime, zone: str) -> str:
    """`Tuesday, March 3, 2026`, on the zone's calendar."""
    local = in_zone(moment, ZoneInfo(zone))
    return f"{local:%A, %B} {local.day}, {local.year}"


def time_words(moment: datetime, zone: str) -> str:
    """`Tuesday, March 3, 2026, 10:00 AM CST`, on the zone's clock."""
    return f"{day_words(moment, zone)}, {clock_time(moment, zone)} {_zone_name(moment, zone)}"


def period_words(time: VisitTime, zone: str) -> str:
    """`Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST`; what differs between the two ends is told of both."""
    start, end = time.start, time.end
    if end is None:
        return time_words(start, zone)
    day, until = day_words(start, zone), day_words(end, zone)
    if day != until:
        return f"{time_words(start, zone)} to {time_words(end, zone)}"
    begins = clock_time(start, zone)
    if _zone_name(start, zone) != _zone_name(end, zone):
        begins = f"{begins} {_zone_name(start, zone)}"
    return f"{day}, {begins} to {clock_time(end, zone)} {_zone_name(end, zone)}"


def _zone_name(moment: datetime, zone: str) -> str:
    local = in_zone(moment, ZoneInfo(zone))
    name = local.tzname()
    # Zones without an abbreviation of their own are named by numbers.
    return name if name and name.isalpha() else f"UTC{local:%z}"


def asked_times(request: Appointment, zone: str) -> tuple[VisitTime, ...]:
    """The times that the buyer asked for, in the order asked; none where no time was named.

    A window without an offset is read on the clock of the request's own time zone; `zone` is the rooftop's.
    """
    own = ZoneInfo(zone if request.timezone is UNSET else request.timezone)
    if request.appointment_at is not UNSET:
        return (VisitTime(_instant(request.appointment_at, own)),)
    if request.requested_windows is UNSET:
        return ()
    return tuple(
        VisitTime(_instant(window.start, own), None if window.end is UNSET else _instant(window.end, own))
        for window in request.requested_windows
    )


def _instant(text: str, zone: ZoneInfo) -> datetime:
    moment = parse_timestamp(text)
    assert moment is not None, "the schema lets only timestamps through"
    return instant_of(moment, zone)


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, and c`; at least one."""
    if len(words) < 3:
        return " and ".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"


def money(amount: int) -> str:
    """Whole US dollars."""
    return f"${amount:,}"


def place_words(rooftop: RooftopView) -> str:
    """A rooftop's name and postal address on one line."""
    parts = [rooftop.name]
    if (address := rooftop.address) is not None:
        parts += [address.address_line_1, address.address_line_2 or "", address.city, f"{address.state} {address.zip}"]
    return ", ".join(filter(None, map(short, parts)))


def vehicle_words(vehicle: VehicleMembers) -> str:
    """Year, make, model and trim, as far as they are known; empty when none of them is."""
    parts = (vehicle.year, vehicle.make, vehicle.model, vehicle.trim)
    return " ".join(filter(None, (one_line(str(part)) for part in parts if part is not UNSET)))


def listing_words(vehicle: Vehicle | None, kind: AppointmentType) -> str:
    """The listing that a visit is about, with its stock number.

    Empty for an appraisal and a service visit: they are about the customer's own vehicle.
    """
    if vehicle is None or kind in ("service", "trade_in", "trade_in_appraisal"):
        return ""
    stock = short(vehicle.stock or "", 40)
    return f"{short(vehicle_words(vehicle), 100)}{f' (stock {stock})' if stock else ''}".strip()


def wanted_words(view: LeadView) -> str:
    """The vehicle that the lead is about: the listing's words, else the buyer's; empty when there are none."""
    if view.vehicle is not None:
        return vehicle_words(view.vehicle)
    return "" if view.wish is UNSET else vehicle_words(view.wish)


# Beyond what ADF has elements for: member, what it is called, unit.
_FACTS = (
    ("engine", "Engine", ""),
    ("displacement_cc", "Displacement", " cc"),
    ("fuel", "Fuel", ""),
    ("driveline", "Drive", ""),
    ("city_mpg", "City", " mpg"),
    ("highway_mpg", "Highway", " mpg"),
    ("electric_range_mi", "Electric range", " mi"),
    ("battery_kwh", "Battery", " kWh"),
    ("motor_power_hp", "Motor power", " hp"),
    ("dc_fast_charge", "DC fast charging", ""),
    ("charge_port", "Charge port", ""),
    ("vdp_url", "Web page", ""),
)
_CLAIMS = (
    ("vehicle_type", "Type", ""),
    *_FACTS,
    ("inventory_date", "In stock since", ""),
    ("description", "Description", ""),
    ("notes", "Notes", ""),
)


def listing_facts(vehicle: Vehicle) -> list[str]:
    """What a salesperson wants to know of a listing beyond the fields that every system has, as `name: value`."""
    return _facts(vehicle, _FACTS)


def claimed_facts(vehicle: VehicleOfInterest | TradeIn, extras: Mapping[str, object]) -> list[str]:
    """All that a buyer said of a vehicle beyond the fields that every system has, extras included."""
    told = _facts(vehicle, _CLAIMS)
    told += [f"Photo: {url}" for url in map(one_line, vehicle.photos or ()) if url]
    return told + added_facts(vehicle, extras)


def added_facts(vehicle: VehicleOfInterest | TradeIn, extras: Mapping[str, object]) -> list[str]:
    """The rooftop that a buyer named, and what they said of a vehicle in members of their own making."""
    own = {**(vehicle.other_attributes or {}), **extras}
    if isinstance(vehicle, VehicleOfInterest) and vehicle.rooftop is not UNSET:
        own["rooftop"] = vehicle.rooftop
    named = ((one_line(name) or "Other", one_line(_as_text(value))) for name, value in own.items())
    return [f"{name}: {value}" for name, value in named if value]


def _facts(vehicle: VehicleMembers, table: tuple[tuple[str, str, str], ...]) -> list[str]:
    told = []
    for member, name, unit in table:
        value = getattr(vehicle, member)
        if value is not UNSET and (text := one_line(_as_text(value))):
            told.append(f"{name}: {text}{unit}")
    return told


def _as_text(value: object) -> str:
    """A JSON value in words; what is nested, and what are numbers, as JSON. Null says nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, dict | list | int | float):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def visit_title(visit: VisitView) -> str:
    """`Test drive confirmed`: the visit and how it stands."""
    name = VISITS[visit.kind]
    states = {
        "requested": "asked for",
        "proposed": "asked for, other times proposed",
        "confirmed": "confirmed",
        "rejected": "declined",
        "cancelled": "cancelled",
        "unavailable": "asked for, no time found",
    }
    return f"{name[0].upper()}{name[1:]} {states[visit.status]}"


CONDITIONS: Mapping[str, str] = {"new": "new", "used": "used", "cpo": "certified pre-owned"}
STATUSES: Mapping[ListingStatus, str] = {
    "available": "available",
    "intransit": "in transit",
    "pending": "sale pending",
}


TIMES_TOLD = 10
"""Of more windows than these, people are told how many more there are."""


def visit_lines(visit: VisitView) -> list[str]:
    """A visit for the salesperson: how it stands, its times on the rooftop's clock, and what they should do."""
    zone = visit.rooftop.zone
    asked = [period_words(time, zone) for time in asked_times(visit.request, zone)]
    times = [period_words(time, zone) for time in visit.times]
    place = short(visit.rooftop.name)
    told = [f"{visit_title(visit)}, at {place}"]
    match visit.status:
        case "confirmed" | "cancelled":
            told += [f"When: {time}" for time in times]
        case "proposed":
            told += _listed_times("Asked for", asked) + _listed_times("Proposed", times)
            told.append("Nothing is booked: the customer has yet to choose.")
        case "unavailable":
            told += _listed_times("Asked for", asked)
            told.append("Nothing is booked: please find a time with the customer.")
        case "requested":
            told += _listed_times("Asked for", asked)
            told.append("Nothing is booked: please agree on a time with the customer.")
        case "rejected":
            told += _listed_times("Asked for", asked)
    if visit.status != "confirmed" and visit.request.duration_minutes is not UNSET:
        told.append(f"Length asked for: {visit.request.duration_minutes} minutes")
    return told


def _listed_times(name: str, times: list[str]) -> list[str]:
    told = [f"{name}: {time}" for time in times[:TIMES_TOLD]]
    more = len(times) - TIMES_TOLD
    return told if more <= 0 else [*told, f"{name}: {more} more times"]


def erasure_words(erased: ErasedLead) -> list[str]:
    """Sentences that tell a receiver to erase its copy of an erased lead."""
    return [
        f"The customer's data in lead {erased.lead_id} was erased at their request.",
        "Erase your copy of this lead.",
    ]


def ended_visit_lines(ended: CancelledVisit) -> list[str]:
    """Lines about a visit that was cancelled because its customer was erased, for the people who expect it."""
    name = VISITS[ended.kind]
    return [
        f"{name[0].upper()}{name[1:]} cancelled, at {short(ended.rooftop.name)}",
        f"When: {period_words(ended.time, ended.rooftop.zone)}",
        f"Nobody will come: the customer's data in lead {ended.lead_id} was erased at their request.",
    ]


def same_person_words(view: LeadView) -> list[str]:
    """A sentence about another sender's lead that may be of the same person; empty when there is none."""
    if view.may_be_same_person_as is None:
        return []
    return [
        f"This may be the same person as lead {view.may_be_same_person_as}: an address or number and the vehicle are "
        "the same. Nobody checked that the senders are."
    ]


def refused_channels(view: LeadView) -> list[str]:
    """The channels by which the customer must not be contacted."""
    return [channel for channel in CHANNELS if channel not in view.channels]


def withdrawal_words(view: LeadView) -> list[str]:
    """A sentence about the consent that the customer has just withdrawn; empty when there is none."""
    if not view.withdrawn:
        return []
    return [f"The customer withdrew the consent to be contacted by {either([CHANNELS[c] for c in view.withdrawn])}."]


def refusal_words(view: LeadView) -> list[str]:
    """A sentence that names the channels that must not be used; empty when all may be used."""
    refused = [CHANNELS[channel] for channel in refused_channels(view)]
    return [f"Do not contact by {either(refused)}."] if refused else []


def contact_words(view: LeadView) -> list[str]:
    """By which channels the customer may be contacted, and by which not, as sentences."""
    allowed = [CHANNELS[channel] for channel in CHANNELS if channel in view.channels]
    told = withdrawal_words(view)
    if allowed:
        told.append(f"The customer agreed to be contacted by {listed(allowed)}.")
    else:
        told.append("The customer agrees to no channel: the consent was withdrawn or has expired.")
    told += refusal_words(view)
    if view.customer.preferred_contact in view.channels:
        told.append(f"Prefers {CHANNELS[view.customer.preferred_contact]}.")
    return told
