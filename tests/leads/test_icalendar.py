"""Visits as iCalendar files (RFC 5545), read back with the library that others read them with."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import icalendar
import pytest
from hypothesis import example, given
from tests.leads.lead_views import APPOINTMENT_ID, RECEIVED, ROOFTOP, TEN_IN_NASHVILLE, nasty, near, zones

from dealer_agent.leads.icalendar import CalendarVisit, calendar_file, cancellation_file
from dealer_agent.leads.lead_view import RooftopView
from dealer_agent.leads.plain_text import short

pytestmark = pytest.mark.outside_protocol("calendar entries")


def a_calendar_visit(**changes: Any) -> CalendarVisit:
    sample: dict[str, Any] = {
        "appointment_id": APPOINTMENT_ID,
        "title": "Test drive, Jordan Example",
        "start": TEN_IN_NASHVILLE,
        "end": TEN_IN_NASHVILLE + timedelta(hours=1),
        "rooftop": ROOFTOP,
        "changed_at": RECEIVED,
        "notes": ("2024 Honda Accord EX",),
    }
    return CalendarVisit(**sample | changes)


def events(*visits: CalendarVisit, name: str = "Example Motors") -> list[icalendar.Event]:
    calendar = icalendar.Calendar.from_ical(calendar_file(name, visits))
    assert isinstance(calendar, icalendar.Calendar)
    assert not calendar.errors
    return list(calendar.events)


def test_a_visit_is_an_event_that_says_what_when_and_where() -> None:
    (event,) = events(a_calendar_visit())
    assert event["uid"] == APPOINTMENT_ID
    assert event["summary"] == "Test drive, Jordan Example"
    assert event.start == TEN_IN_NASHVILLE
    assert event.end == TEN_IN_NASHVILLE + timedelta(hours=1)
    assert event.stamp == RECEIVED.replace(microsecond=0)
    assert event["location"] == "Example Motors Nashville, 1200 Example Pike, Suite 2, Nashville, TN 37203"
    assert event["description"] == "2024 Honda Accord EX"
    assert event["organizer"] == "mailto:nashville@example.com"
    assert (event["status"], event["sequence"]) == ("CONFIRMED", 0)


def test_a_cancelled_visit_is_the_same_event_with_a_higher_sequence() -> None:
    """RFC 5546, 3.2.1: calendars that have the event take the later SEQUENCE of the same UID."""
    booked, cancelled = events(a_calendar_visit(), a_calendar_visit(cancelled=True))
    assert booked["uid"] == cancelled["uid"]
    assert cancelled["status"] == "CANCELLED"
    assert cancelled.sequence > booked.sequence


def test_a_cancellation_cancels_the_one_event_that_the_calendar_has() -> None:
    """RFC 5546, 3.2.5: METHOD:CANCEL, the same UID, a later SEQUENCE; Gmail and Outlook want the organizer too."""
    (booked,) = events(a_calendar_visit())
    calendar = icalendar.Calendar.from_ical(cancellation_file(a_calendar_visit(cancelled=True)))
    assert isinstance(calendar, icalendar.Calendar)
    assert not calendar.errors
    assert (calendar["method"], calendar["version"]) == ("CANCEL", "2.0")
    (event,) = calendar.events
    assert (event["uid"], event["organizer"], event.start) == (booked["uid"], booked["organizer"], booked.start)
    assert event["status"] == "CANCELLED"
    assert event.sequence > booked.sequence


def test_the_file_is_a_published_calendar_with_the_dealers_name() -> None:
    calendar = icalendar.Calendar.from_ical(calendar_file("Example Motors", []))
    assert (calendar["version"], calendar["method"], calendar["prodid"]) == (
        "2.0",
        "PUBLISH",
        "-//dealer-agent//appointments//EN",
    )
    assert calendar["name"] == calendar["x-wr-calname"] == "Example Motors"
    assert calendar.subcomponents == []


@given(start=near, zone=zones)
def test_an_instant_is_the_same_instant_in_the_calendar(start: datetime, zone: str) -> None:
    start = start.replace(microsecond=0)
    rooftop = RooftopView(name="Example", zone=zone)
    (event,) = events(a_calendar_visit(start=start, end=start + timedelta(minutes=45), rooftop=rooftop))
    assert event.start == start
    assert event.end - event.start == timedelta(minutes=45)


@pytest.mark.parametrize("start", [datetime(2026, 11, 1, 6, 30, tzinfo=UTC), datetime(2026, 11, 1, 7, 30, tzinfo=UTC)])
def test_the_two_hours_of_an_autumn_overlap_differ(start: datetime) -> None:
    """01:30 comes twice in Chicago on that night."""
    (event,) = events(a_calendar_visit(start=start, end=start + timedelta(minutes=30)))
    assert event.start == start


@given(text=nasty)
@example(text="\\N")
@example(text="a\\\\n;,")
def test_no_text_adds_a_line_to_the_file(text: str) -> None:
    rooftop = RooftopView(name=text, zone="America/Chicago", email="sales@example.com")
    visit = a_calendar_visit(title=text, notes=(text, "end"), rooftop=rooftop)
    written = calendar_file(text, [visit])
    (event,) = events(visit, name=text)
    # Not by the library, which reads a backslash before an n as a line break even where it is escaped.
    (summary,) = re.findall("^SUMMARY:(.*)\r$", written.decode().replace("\r\n ", ""), re.MULTILINE)
    assert re.sub(r"\\(.)", r"\1", summary).casefold() == short(text).casefold()
    assert not re.search(r"(?<!\\)(\\\\)*\\[nN]", summary)
    assert set(event) <= {
        "UID", "DTSTAMP", "DTSTART", "DTEND", "SUMMARY", "SEQUENCE", "STATUS", "LOCATION", "DESCRIPTION", "ORGANIZER",
    }  # fmt: skip
    assert written.count(b"BEGIN:") == 2
    assert not any("\u202a" <= character <= "\u202e" for character in written.decode())
    assert all(len(line) <= 75 for line in written.split(b"\r\n"))


def test_a_rooftop_without_address_and_mail_still_has_its_name() -> None:
    (event,) = events(a_calendar_visit(rooftop=RooftopView(name="Example", zone="America/Chicago"), notes=()))
    assert event["location"] == "Example"
    assert "organizer" not in event
    assert "description" not in event


def test_a_visit_without_an_end_ends_as_it_begins() -> None:
    """RFC 5545, 3.6.1."""
    (event,) = events(a_calendar_visit(end=None))
    assert "dtend" not in event
    assert event.start == TEN_IN_NASHVILLE
