"""The `message` of the answer to a lead: what happens next, when, and with whom. Pure.

The rules are in docs/protocol.md#lead-submit.
"""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import UnsetType

from dealer_agent.inventory.listing import RemovedUnit
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.received_lead import FoundVehicle, names_a_vehicle
from dealer_agent.leads.texts import render_lines
from dealer_agent.leads.timetable import Department
from dealer_agent.leads.us_formats import clock_time, day_and_time, join_words, zone_name
from dealer_agent.leads.visit_decision import VisitDecision
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
class LeadAnswer:
    """The facts for the text of the reply to the buyer. `unknown_rooftop` is a name from the buyer that no rooftop has.

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


def answer_message(answer: LeadAnswer) -> str:
    """The text. It has at most `responses.MESSAGE_LENGTH` characters, because each name in it is bounded."""
    visit, zone = answer.visit, answer.department.zone
    opens, closes = _opening(answer)
    missing = ""
    if isinstance(answer.found, RemovedUnit):
        missing = "sold"
    elif answer.found is None and names_a_vehicle(answer.interest):
        missing = "unknown"
    times = ""
    if visit is not None and visit.times:
        starts = join_words([_time(answer, slot) for slot in visit.times], "or")
        times = f"{starts} ({zone_name(zone, visit.times[0].start)})"
    text = render_lines(
        "answer.txt",
        answer=answer,
        visit_words=visit and _visit(answer, visit),
        is_call=visit is not None and visit.kind in CALLS,
        times=times,
        moved_from=visit and _time(answer, visit.moved_from),
        kept=visit and _time(answer, visit.kept),
        is_open=answer.department.hours is not None,
        opens=opens,
        closes=closes,
        missing=missing,
        unknown_rooftop=short(answer.unknown_rooftop or "", NAME_LENGTH).replace('"', "'"),
    )
    return " ".join(text)


def _visit(answer: LeadAnswer, visit: VisitDecision) -> str:
    name = _SHORT_NAMES.get(visit.kind) or VISITS[visit.kind]
    if visit.kind in OWN_VEHICLE_VISITS or not answer.vehicle:
        return name
    return f"{name} {'of' if visit.kind in _OF_THE_VEHICLE else 'about'} the {answer.vehicle}"


def _time(answer: LeadAnswer, slot: Slot | None) -> str:
    return "" if slot is None else day_and_time(slot.start, answer.department.zone, answer.now)


def _opening(answer: LeadAnswer) -> tuple[str, str]:
    """When the department opens again, or until when it is open. Both are empty if it is open for more than a day."""
    if answer.department.hours is None:
        return "", ""
    zone, now, (opens, closes) = answer.department.zone, answer.now, answer.department.hours
    if opens > now:
        return f"{day_and_time(opens, zone, now)} ({zone_name(zone, opens)})", ""
    if closes - now > timedelta(days=1):
        return "", ""
    return "", f"{_closing_time(closes, zone, now)} ({zone_name(zone, closes)})"


def _closing_time(closes: datetime, zone: str, now: datetime) -> str:
    local, today = (moment.astimezone(ZoneInfo(zone)) for moment in (closes, now))
    if local.date() == today.date():
        return f"{clock_time(closes, zone)} today"
    return "midnight today" if local.time() == time.min else f"{clock_time(closes, zone)} tomorrow"
