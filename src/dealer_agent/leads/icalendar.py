"""Visits as iCalendar files (RFC 5545). Pure.

Times are in UTC. Local times of RFC 5545 cannot distinguish the two hours of an autumn clock change, and every calendar
program shows UTC in its user's local time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from icalendar import Calendar, Event, vCalAddress, vText

from dealer_agent.leads.lead_view import RooftopView
from dealer_agent.leads.plain_text import lines, short
from dealer_agent.leads.wording import place_words

PRODUCT = "-//dealer-agent//appointments//EN"
Method = Literal["PUBLISH", "CANCEL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarVisit:
    """A visit with a time. `changed_at` is when it was booked or cancelled. `notes` are lines below the title."""

    appointment_id: str
    title: str
    start: datetime
    end: datetime | None
    rooftop: RooftopView
    changed_at: datetime
    notes: tuple[str, ...] = ()
    cancelled: bool = False


def calendar_file(name: str, visits: Iterable[CalendarVisit]) -> bytes:
    """An iCalendar file with METHOD:PUBLISH and the calendar's name.

    The UID of an event is the appointment's id. A cancelled visit has a higher SEQUENCE, so that calendars remove it.
    """
    return _file("PUBLISH", visits, _line(name))


def cancellation_file(visit: CalendarVisit) -> bytes:
    """An iCalendar file with METHOD:CANCEL, which removes one visit (RFC 5546, 3.2.5)."""
    return _file("CANCEL", [visit])


def _file(method: Method, visits: Iterable[CalendarVisit], title: str | None = None) -> bytes:
    """A calendar file with these visits."""
    calendar = Calendar()
    for name, value in (("prodid", PRODUCT), ("version", "2.0"), ("method", method)):
        calendar.add(name, value)
    if title is not None:
        calendar.add("name", title)
        # Most calendar programs are older than NAME and read this property.
        calendar.add("x-wr-calname", title)
    for visit in visits:
        calendar.add_component(_event(visit))
    ical: bytes = calendar.to_ical(sorted=False)
    return ical


def _event(visit: CalendarVisit) -> Event:
    """A visit as an event of a calendar."""
    event = Event()
    event.add("uid", visit.appointment_id)
    event.add("dtstamp", visit.changed_at.astimezone(UTC))
    event.add("dtstart", visit.start.astimezone(UTC))
    if visit.end is not None:
        event.add("dtend", visit.end.astimezone(UTC))
    event.add("summary", _line(visit.title))
    # A visit at another time is another visit with its own uid. So a visit changes at most once: when it is cancelled.
    event.add("sequence", 1 if visit.cancelled else 0)
    event.add("status", "CANCELLED" if visit.cancelled else "CONFIRMED")
    event.add("location", _line(place_words(visit.rooftop)))
    if visit.notes:
        event.add("description", "\n".join(_line(line) for note in visit.notes for line in lines(note)))
    if visit.rooftop.email:
        organizer = vCalAddress(f"mailto:{visit.rooftop.email}")
        organizer.params["CN"] = vText(short(visit.rooftop.name))
        event.add("organizer", organizer)
    return event


def _line(text: str) -> str:
    # The library reads a backslash before N as a line break, but not one before n.
    return short(text).replace("\\N", "\\n")
