"""Visits as iCalendar files (RFC 5545): what the desk subscribes to, and what a customer puts into their own. Pure.

Times are in UTC: RFC 5545's local times cannot tell the two hours of an autumn overlap apart, and every calendar shows
UTC on its reader's own clock.
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
    """A visit with a time, as a calendar shows it.

    `title` is its one line, `notes` are lines below it. `changed_at` is when it was booked or, if so, cancelled.
    """

    appointment_id: str
    title: str
    start: datetime
    end: datetime | None
    rooftop: RooftopView
    changed_at: datetime
    notes: tuple[str, ...] = ()
    cancelled: bool = False


def calendar_file(name: str, visits: Iterable[CalendarVisit]) -> bytes:
    """An iCalendar file with METHOD:PUBLISH; `name` is what the calendar is called.

    An event keeps its UID, the appointment's id, for good; a cancelled one has a higher SEQUENCE and says so, so that
    calendars take it out.
    """
    calendar = _calendar("PUBLISH")
    title = _line(name)
    calendar.add("name", title)
    # What calendars read as the name that do not know NAME, which is newer than most of them.
    calendar.add("x-wr-calname", title)
    for visit in visits:
        calendar.add_component(_event(visit))
    return _written(calendar)


def cancellation_file(visit: CalendarVisit) -> bytes:
    """An iCalendar file with METHOD:CANCEL, which takes a cancelled visit out (RFC 5546, 3.2.5): one UID in a file."""
    calendar = _calendar("CANCEL")
    calendar.add_component(_event(visit))
    return _written(calendar)


def _calendar(method: Method) -> Calendar:
    calendar = Calendar()
    calendar.add("prodid", PRODUCT)
    calendar.add("version", "2.0")
    calendar.add("method", method)
    return calendar


def _written(calendar: Calendar) -> bytes:
    ical: bytes = calendar.to_ical(sorted=False)
    return ical


def _event(visit: CalendarVisit) -> Event:
    event = Event()
    event.add("uid", visit.appointment_id)
    event.add("dtstamp", visit.changed_at.astimezone(UTC))
    event.add("dtstart", visit.start.astimezone(UTC))
    if visit.end is not None:
        event.add("dtend", visit.end.astimezone(UTC))
    event.add("summary", _line(visit.title))
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
    """One line, safe from the library, which takes a backslash before an N for a line break, but not before an n."""
    return short(text).replace("\\N", "\\n")
