"""The message to the customer: what happens next, when, and with whom (docs/protocol.md#lead-reply-message)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.inventory.catalogue import RemovedUnit
from dealer_agent.leads.lead_response import LeadResponse, response_message
from dealer_agent.leads.records import VisitDecision, VisitRecord
from dealer_agent.leads.timetable import Department
from dealer_agent.leads.us_formats import clock_time, day_and_time, join_words, phone_number, zone_name
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.requests import VISIT_KIND_OF, VehicleOfInterest, VisitKind
from dealer_agent.protocol.responses import MESSAGE_LENGTH, AppointmentReply
from dealer_agent.protocol.vehicle import Vehicle

NOW = datetime(2026, 3, 11, 15, 0, tzinfo=UTC)
"""Wednesday, 10:00 AM in Chicago."""
CHICAGO = "America/Chicago"
ROOFTOP = DealerRooftop(name="Main Street Motors", timezone=CHICAGO)
THURSDAY = datetime(2026, 3, 12, 15, 30, tzinfo=UTC)
DEPARTMENT = Department(rooftop="Main Street Motors", zone=CHICAGO)
OPEN = replace(DEPARTMENT, hours=(datetime(2026, 3, 11, 14, tzinfo=UTC), datetime(2026, 3, 12, 1, tzinfo=UTC)))
OPENS = replace(DEPARTMENT, hours=(datetime(2026, 3, 12, 14, tzinfo=UTC), datetime(2026, 3, 13, 1, tzinfo=UTC)))
CIVIC = msgspec.convert(
    {
        "vehicle_id": "v",
        "dealer_id": "d",
        "rooftop": "Main Street Motors",
        "updated_at": "2026-03-01T00:00:00Z",
        "year": 2024,
        "make": "Honda",
        "model": "Civic",
        "condition": "used",
        "status": "available",
    },
    Vehicle,
)


def message_about(visit: VisitDecision | None = None, **more: Any) -> str:
    facts: dict[str, Any] = {"department": DEPARTMENT, "now": NOW, "interest": UNSET, "found": CIVIC, "visit": visit}
    return response_message(LeadResponse(**(facts | more)))


def asked(status: Any, kind: VisitKind = "test_drive", **more: Any) -> VisitDecision:
    reply = AppointmentReply(appointment_id="A2", status=status)
    return VisitDecision(kind=kind, status=status, rooftop=ROOFTOP, reply=reply, **more)


def slot(start: datetime = THURSDAY, **later: float) -> Slot:
    begin = start + timedelta(**later)
    return Slot(begin, begin + timedelta(hours=1))


def booked(hours: float) -> VisitRecord:
    time = slot(hours=hours)
    return VisitRecord(
        appointment_id="A1",
        lead_id="L1",
        rooftop="Main Street Motors",
        kind="test_drive",
        status="confirmed",
        created_at=NOW,
        reply=b"{}",
        request=None,
        starts_at=time.start,
        ends_at=time.end,
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "Main Street Motors has your request. Someone will contact you about the 2024 Honda Civic."),
        (
            {"department": OPEN},
            "Main Street Motors has your request. Someone will contact you about the 2024 Honda Civic. "
            "We are open until 8:00 PM today (Central time).",
        ),
        (
            {"found": None, "department": OPENS},
            "Main Street Motors has your request. Someone will contact you. "
            "We open again on Thursday, March 12 at 9:00 AM (Central time).",
        ),
        (
            {"found": None, "repeated": True},
            "Main Street Motors has your earlier request and added this one to it. Someone will contact you.",
        ),
        (
            {"found": RemovedUnit("v")},
            "Main Street Motors has your request. Someone will contact you. "
            "The vehicle you asked about is no longer available; you will hear about others.",
        ),
        (
            {"found": None, "interest": VehicleOfInterest(vin="1HGCY2F57RA000001")},
            "Main Street Motors has your request. Someone will contact you. "
            "The vehicle you asked about is not in our stock; you will hear about others.",
        ),
        (
            {"found": None, "interest": VehicleOfInterest(make="Honda")},
            "Main Street Motors has your request. Someone will contact you.",
        ),
    ],
)
def test_the_message_about_a_lead_without_a_visit_has_the_opening_hours(facts: dict[str, Any], words: str) -> None:
    assert message_about(**facts) == words


CONFIRMED = asked("confirmed", times=(slot(),))


@pytest.mark.parametrize(
    ("visit", "facts", "words"),
    [
        (
            CONFIRMED,
            {},
            "Your test drive of the 2024 Honda Civic is confirmed for Thursday, March 12 at 10:30 AM (Central time) "
            "at Main Street Motors.",
        ),
        (
            CONFIRMED,
            {"found": None, "trade_in": True, "department": replace(DEPARTMENT, phone="+12025550140")},
            "Your test drive is confirmed for Thursday, March 12 at 10:30 AM (Central time) at Main Street Motors. "
            "Your trade-in will be appraised during the same visit. To change anything, call +1 202-555-0140.",
        ),
        (
            replace(CONFIRMED, replaced=(booked(hours=-25),)),
            {"found": None},
            "Your test drive is confirmed for Thursday, March 12 at 10:30 AM (Central time) at Main Street Motors. "
            "It replaces the one on Wednesday, March 11 at 9:30 AM.",
        ),
        (
            replace(CONFIRMED, kind="video_call"),
            {},
            "Your video call about the 2024 Honda Civic is confirmed for Thursday, March 12 at 10:30 AM (Central time) "
            "with Main Street Motors.",
        ),
        (
            replace(CONFIRMED, kind="trade_in", shares="A0"),
            {"trade_in": True},
            "Your trade-in appraisal is confirmed for Thursday, March 12 at 10:30 AM (Central time) "
            "at Main Street Motors. It is part of your test drive.",
        ),
        (
            asked("confirmed", kind="service", times=(slot(),)),
            {"found": RemovedUnit("v")},
            "Your service visit is confirmed for Thursday, March 12 at 10:30 AM (Central time) at Main Street Motors. "
            "The vehicle you asked about is no longer available; you will hear about others.",
        ),
    ],
)
def test_the_message_about_a_confirmed_visit_has_day_time_zone_and_place(
    visit: VisitDecision, facts: dict[str, Any], words: str
) -> None:
    assert message_about(visit, **facts) == words


PROPOSED = asked("proposed", times=(slot(), slot(hours=3), slot(days=1)))


@pytest.mark.parametrize(
    ("visit", "facts", "words"),
    [
        (
            PROPOSED,
            {},
            "Main Street Motors has your request. "
            "Your test drive of the 2024 Honda Civic cannot be booked for the time you asked for. "
            "You could come on Thursday, March 12 at 10:30 AM, Thursday, March 12 at 1:30 PM, or "
            "Friday, March 13 at 10:30 AM (Central time). Nothing is booked until you ask for one of these times.",
        ),
        (
            asked("proposed", kind="phone_call", times=(slot(),), kept=slot(days=-1)),
            {"found": None, "repeated": True},
            "Main Street Motors has your earlier request and added this one to it. "
            "Your phone call cannot be booked for the time you asked for. "
            "Free times are Thursday, March 12 at 10:30 AM (Central time). "
            "Until you ask for one of these times, Wednesday, March 11 at 10:30 AM stays booked for you.",
        ),
        (
            asked("requested", kind="sales"),
            {"department": OPEN},
            "Main Street Motors has your request. "
            "Someone will contact you to arrange a time for your visit about the 2024 Honda Civic. "
            "We are open until 8:00 PM today (Central time).",
        ),
        (
            asked("requested", kept=slot()),
            {"found": None},
            "Main Street Motors has your request. Someone will contact you to arrange a time for your test drive. "
            "Until then, Thursday, March 12 at 10:30 AM stays booked for you.",
        ),
        (
            asked("unavailable"),
            {"found": None},
            "Main Street Motors has your request. No time can be booked at present. "
            "Someone will contact you to arrange a time for your test drive.",
        ),
    ],
)
def test_the_message_about_a_visit_without_a_time_has_the_free_times_and_the_booked_visit(
    visit: VisitDecision, facts: dict[str, Any], words: str
) -> None:
    assert message_about(visit, **facts) == words


@pytest.mark.requirement("lead-reply-message")
@pytest.mark.parametrize(
    "visit",
    [None, replace(CONFIRMED, replaced=(booked(hours=-25),), shares="A0"), PROPOSED, asked("unavailable", kept=slot())],
)
def test_a_message_is_bounded_however_long_the_names_are(visit: VisitDecision | None) -> None:
    long = "Long " * 10_000
    facts = {
        "department": replace(OPEN, rooftop=long, phone="+12025550140"),
        "found": msgspec.structs.replace(CIVIC, trim=long),
        "trade_in": True,
        "repeated": True,
        "unknown_rooftop": long,
    }
    assert len(message_about(visit, **facts)) <= MESSAGE_LENGTH


@pytest.mark.parametrize("kind", sorted(set(VISIT_KIND_OF.values())))
def test_every_kind_of_visit_has_a_name(kind: VisitKind) -> None:
    assert message_about(asked("requested", kind=kind)).startswith("Main Street Motors has your request.")


SUMMER, WINTER = datetime(2026, 7, 1, 17, 0, tzinfo=UTC), datetime(2026, 1, 1, 17, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "summer", "winter"),
    [
        ("America/New_York", "Eastern time", "Eastern time"),
        ("America/Chicago", "Central time", "Central time"),
        ("America/Denver", "Mountain time", "Mountain time"),
        ("America/Phoenix", "Arizona time", "Arizona time"),
        ("America/Los_Angeles", "Pacific time", "Pacific time"),
        ("America/Anchorage", "Alaska time", "Alaska time"),
        ("Pacific/Honolulu", "Hawaii time", "Hawaii time"),
        ("US/Eastern", "Eastern time", "Eastern time"),
        ("America/Sao_Paulo", "Sao Paulo time", "Sao Paulo time"),
        ("Asia/Shanghai", "Shanghai time", "Shanghai time"),
        ("Europe/Paris", "Paris time", "Paris time"),
        ("UTC", "UTC", "UTC"),
    ],
)
def test_a_zone_is_called_as_its_people_call_it(zone: str, summer: str, winter: str) -> None:
    assert [zone_name(zone, moment) for moment in (SUMMER, WINTER)] == [summer, winter]


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (WINTER, "Thursday, January 1 at 11:05 AM"),
        (SUMMER, "Wednesday, July 1 at 12:00 PM"),
        (WINTER - timedelta(hours=12), "Wednesday, December 31, 2025 at 11:05 PM"),
        (datetime(2026, 3, 8, 8, 0, tzinfo=UTC), "Sunday, March 8 at 3:00 AM"),
    ],
)
def test_a_time_is_shown_on_the_rooftops_clock(moment: datetime, words: str) -> None:
    assert day_and_time(moment, CHICAGO, NOW) == words
    assert words.endswith(clock_time(moment, CHICAGO))


def test_numbers_and_choices_are_written_as_people_write_them() -> None:
    assert phone_number("+12025550140") == "+1 202-555-0140"
    assert [join_words("abc"[:count], "or") for count in (1, 2, 3)] == ["a", "a or b", "a, b, or c"]


@pytest.mark.parametrize(
    ("closes", "words"),
    [
        (datetime(2026, 3, 12, 1, tzinfo=UTC), "We are open until 8:00 PM today (Central time)."),
        (datetime(2026, 3, 12, 5, tzinfo=UTC), "We are open until midnight today (Central time)."),
        (datetime(2026, 3, 12, 7, tzinfo=UTC), "We are open until 2:00 AM tomorrow (Central time)."),
        (datetime(2026, 3, 20, 5, tzinfo=UTC), "We are open now."),
    ],
)
def test_the_closing_time_is_of_today_or_of_the_night_that_follows(closes: datetime, words: str) -> None:
    department = replace(DEPARTMENT, hours=(NOW - timedelta(hours=1), closes))
    message_about = response_message(LeadResponse(department=department, now=NOW, interest=UNSET, found=None))
    assert message_about.endswith(words)
