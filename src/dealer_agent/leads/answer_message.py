"""The message to the customer: what happens next, when, and with whom, on the rooftop's clock. Pure.

Contract, part 10: every answer to a lead carries a `message` for the customer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from msgspec import UnsetType

from dealer_agent.leads.plain_text import short
from dealer_agent.leads.received_lead import FoundVehicle, UnavailableVehicle, names_a_vehicle, vehicle_name
from dealer_agent.leads.us_formats import clock_time, day_and_time, either, phone_number, zone_name
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.requests import VehicleOfInterest, VisitKind
from dealer_agent.protocol.vehicle import Vehicle

NAME_LENGTH = 100
"""The most characters of a name in the message: of a rooftop, or of a vehicle."""

_CALLED: dict[VisitKind, str] = {
    "sales": "visit",
    "service": "service visit",
    "test_drive": "test drive",
    "trade_in": "trade-in appraisal",
    "handover": "handover",
    "phone_call": "phone call",
    "video_call": "video call",
}
_ABOUT: dict[VisitKind, str] = {
    "sales": "about",
    "test_drive": "of",
    "handover": "of",
    "phone_call": "about",
    "video_call": "about",
}
"""How a visit speaks of the vehicle; service and appraisals are about another one."""

_CALLS = ("phone_call", "video_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class RooftopContact:
    """Where the lead goes. `phone` is E.164; `zone` an IANA name; `hours` is when it is open: now, or next."""

    name: str
    zone: str
    phone: str | None = None
    hours: tuple[datetime, datetime] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitAnswer:
    """What became of the visit asked for.

    `times`: the confirmed one, or those proposed. `kept`: an earlier visit that stays, because this one was not booked;
    `moved`: one that this takes the place of. `within`: it is part of the customer's test drive.
    """

    kind: VisitKind
    status: Literal["requested", "proposed", "confirmed", "unavailable"]
    times: Sequence[Slot] = ()
    kept: Slot | None = None
    moved: Slot | None = None
    within: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadAnswer:
    """The facts for the message about one lead. `unknown_rooftop` is a name of the buyer's that no rooftop has.

    No channel is named: a missing channel would disclose to any sender that the customer withdrew consent for it.
    """

    house: RooftopContact
    now: datetime
    wish: VehicleOfInterest | UnsetType
    wanted: FoundVehicle
    repeated: bool = False
    trade_in: bool = False
    visit: VisitAnswer | None = None
    unknown_rooftop: str | None = None


def message_for(answer: LeadAnswer) -> str:
    """The reply's `message`: at most `responses.MESSAGE_LENGTH` characters, because each name in it is bounded."""
    visit = answer.visit
    if visit is None:
        told = [_thanks(answer), f"Someone will contact you{_about(answer)}.", _open(answer)]
    elif visit.status == "confirmed":
        told = _confirmed(answer, visit)
    elif visit.status == "proposed":
        told = _proposed(answer, visit)
    else:
        told = _to_be_arranged(answer, visit)
    return " ".join(sentence for sentence in [*told, _missing(answer), _unknown(answer)] if sentence)


def _confirmed(answer: LeadAnswer, visit: VisitAnswer) -> list[str]:
    house = answer.house
    where = f"{'with' if visit.kind in _CALLS else 'at'} {_house(answer)}"
    told = [f"Your {_visit(answer, visit)} is confirmed for {_times(answer, visit)} {where}."]
    if visit.moved is not None:
        told.append(f"It replaces the one on {_moment(answer, visit.moved)}.")
    if visit.within:
        told.append("It is part of your test drive.")
    if visit.kind == "test_drive" and answer.trade_in:
        told.append("Your trade-in will be appraised during the same visit.")
    if house.phone is not None:
        told.append(f"To change anything, call {phone_number(house.phone)}.")
    return told


def _proposed(answer: LeadAnswer, visit: VisitAnswer) -> list[str]:
    told = [
        _thanks(answer),
        f"Your {_visit(answer, visit)} cannot be booked for the time you asked for.",
        f"You could come on {_times(answer, visit)}."
        if visit.kind not in _CALLS
        else f"Free times are {_times(answer, visit)}.",
    ]
    if visit.kept is None:
        return [*told, "Nothing is booked until you ask for one of these times."]
    return [*told, f"Until you ask for one of these times, {_moment(answer, visit.kept)} stays booked for you."]


def _to_be_arranged(answer: LeadAnswer, visit: VisitAnswer) -> list[str]:
    told = [_thanks(answer)]
    if visit.status == "unavailable":
        told.append("No time can be booked at present.")
    arranged = f"arrange a time for your {_visit(answer, visit)}"
    told += [f"Someone will contact you to {arranged}.", _open(answer)]
    if visit.kept is not None:
        told.append(f"Until then, {_moment(answer, visit.kept)} stays booked for you.")
    return told


def _thanks(answer: LeadAnswer) -> str:
    if answer.repeated:
        return f"{_house(answer)} has your earlier request and added this one to it."
    return f"{_house(answer)} has your request."


def _visit(answer: LeadAnswer, visit: VisitAnswer) -> str:
    called, vehicle = _CALLED[visit.kind], _vehicle(answer)
    return f"{called} {_ABOUT[visit.kind]} the {vehicle}" if visit.kind in _ABOUT and vehicle else called


def _about(answer: LeadAnswer) -> str:
    vehicle = _vehicle(answer)
    return f" about the {vehicle}" if vehicle else ""


def _missing(answer: LeadAnswer) -> str:
    """What became of a vehicle that cannot be had."""
    if isinstance(answer.wanted, UnavailableVehicle):
        return "The vehicle you asked about is no longer available; you will hear about others."
    if answer.wanted is None and names_a_vehicle(answer.wish):
        return "The vehicle you asked about is not in our stock; you will hear about others."
    return ""


def _house(answer: LeadAnswer) -> str:
    return short(answer.house.name, NAME_LENGTH)


def _unknown(answer: LeadAnswer) -> str:
    """That the dealer has no rooftop of the name that the buyer chose."""
    name = short(answer.unknown_rooftop or "", NAME_LENGTH).replace('"', "'")
    return f'We have no location named "{name}".' if name else ""


def _vehicle(answer: LeadAnswer) -> str:
    """The name of the vehicle that was found; empty when none was."""
    return short(vehicle_name(answer.wanted), NAME_LENGTH) if isinstance(answer.wanted, Vehicle) else ""


def _times(answer: LeadAnswer, visit: VisitAnswer) -> str:
    zone = answer.house.zone
    times = either([_moment(answer, slot) for slot in visit.times])
    return f"{times} ({zone_name(zone, visit.times[0].start)})"


def _moment(answer: LeadAnswer, slot: Slot) -> str:
    return day_and_time(slot.start, answer.house.zone, answer.now)


def _open(answer: LeadAnswer) -> str:
    """When somebody is there to do it."""
    if answer.house.hours is None:
        return ""
    zone, (opens, closes) = answer.house.zone, answer.house.hours
    if opens <= answer.now:
        if closes - answer.now > timedelta(days=1):
            return "We are open now."
        return f"We are open until {_closing_time(closes, zone, answer.now)} ({zone_name(zone, closes)})."
    return f"We open again on {day_and_time(opens, zone, answer.now)} ({zone_name(zone, opens)})."


def _closing_time(closes: datetime, zone: str, now: datetime) -> str:
    """At most a day from now."""
    local, today = (moment.astimezone(ZoneInfo(zone)) for moment in (closes, now))
    if local.date() == today.date():
        return f"{clock_time(closes, zone)} today"
    return "midnight today" if local.time() == time.min else f"{clock_time(closes, zone)} tomorrow"
