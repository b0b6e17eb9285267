"""The `message` of the response to a lead: what happens next, when, and with whom. Pure.

The rules are in docs/protocol.md#lead-submit.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import UnsetType

from dealer_agent.inventory.listing import RemovedUnit
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.received_lead import FoundVehicle, names_a_vehicle
from dealer_agent.leads.records import VisitDecision
from dealer_agent.leads.statuses import CONFIRMED, PROPOSED, UNAVAILABLE
from dealer_agent.leads.timetable import Department
from dealer_agent.leads.us_formats import clock_time, day_and_time, join_words, phone_number, zone_name
from dealer_agent.leads.visit_times import Slot
from dealer_agent.leads.wording import CALLS, OWN_VEHICLE_VISITS, VISITS, vehicle_name
from dealer_agent.protocol.requests import VehicleOfInterest, VisitKind
from dealer_agent.protocol.vehicle import Vehicle

NAME_LENGTH = 100
"""The most characters of the name of a rooftop or a vehicle in the text."""

# To a customer these names are shorter than in `wording.VISITS`.
_SHORT_NAMES: dict[VisitKind, str] = {"sales": "visit", "handover": "handover"}
_OF_THE_VEHICLE: tuple[VisitKind, ...] = ("test_drive", "handover")
"""A test drive is of the vehicle. A call is about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadResponse:
    """The facts for the text of the response. `unknown_rooftop` is a name from the buyer that no rooftop has.

    The text names no channel. A missing channel would disclose to any sender that the customer withdrew consent.
    """

    department: Department
    now: datetime
    interest: VehicleOfInterest | UnsetType
    found: FoundVehicle
    repeated: bool = False
    trade_in: bool = False
    visit: VisitDecision | None = None
    unknown_rooftop: str | None = None

    @property
    def rooftop(self) -> str:
        """The rooftop's name, cut to NAME_LENGTH."""
        return short(self.department.rooftop, NAME_LENGTH)

    @property
    def vehicle(self) -> str:
        """The name of the vehicle in stock. Empty if there is none."""
        return short(vehicle_name(self.found), NAME_LENGTH) if isinstance(self.found, Vehicle) else ""


def response_message(answer: LeadResponse) -> str:
    """The text. It has at most `responses.MESSAGE_LENGTH` characters, because each name in it is bounded."""
    visit = answer.visit
    if visit is None:
        about = f" about the {answer.vehicle}" if answer.vehicle else ""
        sentences = [_thanks(answer), f"Someone will contact you{about}.", _opening(answer)]
    elif visit.status == CONFIRMED:
        sentences = _confirmed(answer, visit)
    elif visit.status == PROPOSED:
        sentences = _proposed(answer, visit)
    else:
        sentences = _to_be_arranged(answer, visit)
    return " ".join(filter(None, [*sentences, _missing_vehicle(answer), _unknown_rooftop(answer)]))


def _confirmed(answer: LeadResponse, visit: VisitDecision) -> list[str]:
    """The sentences about a visit that is booked."""
    where = f"{'with' if visit.kind in CALLS else 'at'} {answer.rooftop}"
    sentences = [f"Your {_visit(answer, visit)} is confirmed for {_times(answer, visit)} {where}."]
    if visit.moved_from is not None:
        sentences.append(f"It replaces the one on {_time(answer, visit.moved_from)}.")
    if visit.shares:
        sentences.append("It is part of your test drive.")
    if visit.kind == "test_drive" and answer.trade_in:
        sentences.append("Your trade-in will be appraised during the same visit.")
    if answer.department.phone is not None:
        sentences.append(f"To change anything, call {phone_number(answer.department.phone)}.")
    return sentences


def _proposed(answer: LeadResponse, visit: VisitDecision) -> list[str]:
    """The sentences about free times, because the requested one is not free."""
    free = "Free times are" if visit.kind in CALLS else "You could come on"
    sentences = [
        _thanks(answer),
        f"Your {_visit(answer, visit)} cannot be booked for the time you asked for.",
        f"{free} {_times(answer, visit)}.",
    ]
    if visit.kept is None:
        return [*sentences, "Nothing is booked until you ask for one of these times."]
    return [*sentences, f"Until you ask for one of these times, {_time(answer, visit.kept)} stays booked for you."]


def _to_be_arranged(answer: LeadResponse, visit: VisitDecision) -> list[str]:
    """The sentences about a visit whose time a person arranges."""
    return [
        _thanks(answer),
        "No time can be booked at present." if visit.status == UNAVAILABLE else "",
        f"Someone will contact you to arrange a time for your {_visit(answer, visit)}.",
        _opening(answer),
        "" if visit.kept is None else f"Until then, {_time(answer, visit.kept)} stays booked for you.",
    ]


def _thanks(answer: LeadResponse) -> str:
    if answer.repeated:
        return f"{answer.rooftop} has your earlier request and added this one to it."
    return f"{answer.rooftop} has your request."


def _visit(answer: LeadResponse, visit: VisitDecision) -> str:
    name = _SHORT_NAMES.get(visit.kind) or VISITS[visit.kind]
    if visit.kind in OWN_VEHICLE_VISITS or not answer.vehicle:
        return name
    return f"{name} {'of' if visit.kind in _OF_THE_VEHICLE else 'about'} the {answer.vehicle}"


def _missing_vehicle(answer: LeadResponse) -> str:
    """The sentence about a vehicle that was sold, or is unknown. Empty for others."""
    if isinstance(answer.found, RemovedUnit):
        return "The vehicle you asked about is no longer available; you will hear about others."
    if answer.found is None and names_a_vehicle(answer.interest):
        return "The vehicle you asked about is not in our stock; you will hear about others."
    return ""


def _unknown_rooftop(answer: LeadResponse) -> str:
    name = short(answer.unknown_rooftop or "", NAME_LENGTH).replace('"', "'")
    return f'We have no location named "{name}".' if name else ""


def _times(answer: LeadResponse, visit: VisitDecision) -> str:
    times = join_words([_time(answer, slot) for slot in visit.times], "or")
    return f"{times} ({zone_name(answer.department.zone, visit.times[0].start)})"


def _time(answer: LeadResponse, slot: Slot) -> str:
    return day_and_time(slot.start, answer.department.zone, answer.now)


def _opening(answer: LeadResponse) -> str:
    """The sentence that says until when the dealer is open, or when it opens. Empty if its hours are unknown."""
    if answer.department.hours is None:
        return ""
    zone, now, (opens, closes) = answer.department.zone, answer.now, answer.department.hours
    if opens > now:
        return f"We open again on {day_and_time(opens, zone, now)} ({zone_name(zone, opens)})."
    if closes - now > timedelta(days=1):
        return "We are open now."
    return f"We are open until {_closing_time(closes, zone, now)} ({zone_name(zone, closes)})."


def _closing_time(closes: datetime, zone: str, now: datetime) -> str:
    local, today = (moment.astimezone(ZoneInfo(zone)) for moment in (closes, now))
    if local.date() == today.date():
        return f"{clock_time(closes, zone)} today"
    return "midnight today" if local.time() == time.min else f"{clock_time(closes, zone)} tomorrow"
