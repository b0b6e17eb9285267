"""Visits in plain American English. Pure."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from msgspec import UNSET

from dealer_agent.leads.lead_view import CancelledVisit, RooftopView, VisitTime, VisitView
from dealer_agent.leads.local_time import read_instant
from dealer_agent.leads.plain_text import short
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, PROPOSED, REQUESTED, UNAVAILABLE, VisitStatus
from dealer_agent.leads.us_formats import period_words, time_words
from dealer_agent.protocol.requests import Appointment, AppointmentType

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

_STATUSES: Mapping[VisitStatus, str] = {
    "requested": "asked for",
    "proposed": "asked for, other times proposed",
    "confirmed": "confirmed",
    "rejected": "declined",
    "cancelled": "cancelled",
    "unavailable": "asked for, no time found",
}
_NEXT_STEPS: Mapping[VisitStatus, str] = {
    PROPOSED: "Nothing is booked: the customer has yet to choose.",
    UNAVAILABLE: "Nothing is booked: please find a time with the customer.",
    REQUESTED: "Nothing is booked: please agree on a time with the customer.",
}
MOST_TIMES = 10
"""The most requested windows that are listed."""


def visit_name(kind: AppointmentType) -> str:
    """The kind of visit with a capital letter: `Test drive`."""
    name = VISITS[kind]
    return f"{name[0].upper()}{name[1:]}"


def visit_title(visit: VisitView) -> str:
    """The kind of visit and its status: `Test drive confirmed`."""
    return f"{visit_name(visit.kind)} {_STATUSES[visit.status]}"


def visit_with_time(visit: VisitView) -> str:
    """`the test drive on Tuesday, March 3, 2026, 10:00 AM CST`."""
    when = f" on {time_words(visit.times[0].start, visit.rooftop.zone)}" if visit.times else ""
    return f"the {VISITS[visit.kind]}{when}"


def visit_lines(visit: VisitView) -> list[str]:
    """A visit for the dealer's staff: its status, its times on the rooftop's clock, and the next step."""
    zone = visit.rooftop.zone
    times = [period_words(time, zone) for time in visit.times]
    text = [f"{visit_title(visit)}, at {short(visit.rooftop.name)}"]
    if visit.status in (CONFIRMED, CANCELLED):
        text += [f"When: {time}" for time in times]
    else:
        text += _listed_times(
            "Asked for", [period_words(time, zone) for time in requested_periods(visit.request, zone)]
        )
    if visit.status == PROPOSED:
        text += _listed_times("Proposed", times)
    if visit.status in _NEXT_STEPS:
        text.append(_NEXT_STEPS[visit.status])
    if visit.status != CONFIRMED and visit.request.duration_minutes is not UNSET:
        text.append(f"Length asked for: {visit.request.duration_minutes} minutes")
    return text


def cancelled_visit_lines(visit: CancelledVisit) -> list[str]:
    """A visit that an erasure cancelled, for the staff who expect it."""
    return [
        f"{visit_name(visit.kind)} cancelled, at {short(visit.rooftop.name)}",
        f"When: {period_words(visit.time, visit.rooftop.zone)}",
        f"Nobody will come: the customer's data in lead {visit.lead_id} was erased at their request.",
    ]


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


def _listed_times(name: str, times: list[str]) -> list[str]:
    more = len(times) - MOST_TIMES
    return [f"{name}: {time}" for time in times[:MOST_TIMES]] + ([f"{name}: {more} more times"] if more > 0 else [])
