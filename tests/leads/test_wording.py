"""Times, places and vehicles in words, and text from outside made fit to be read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from tests.leads.lead_views import LISTING, ROOFTOP, a_view

from dealer_agent.leads.consent import CHANNELS
from dealer_agent.leads.lead_view import RooftopView, VisitTime, extras_of
from dealer_agent.leads.plain_text import lines, one_line, quoted, short
from dealer_agent.leads.us_formats import join_words, period_words, time_words
from dealer_agent.leads.wording import (
    CONDITIONS,
    STATUSES,
    VISITS,
    described_facts,
    place_words,
    requested_periods,
    source_words,
    vehicle_words,
)
from dealer_agent.protocol.requests import Appointment, RequestedWindow, SourceAgent, TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import ListingStatus

pytestmark = pytest.mark.outside_protocol("words of mails and ADF")


@pytest.mark.parametrize(
    ("moment", "zone", "words"),
    [
        (datetime(2026, 3, 3, 16, tzinfo=UTC), "America/Chicago", "Tuesday, March 3, 2026, 10:00 AM CST"),
        (datetime(2026, 7, 5, 5, 5, tzinfo=UTC), "America/Chicago", "Sunday, July 5, 2026, 12:05 AM CDT"),
        (datetime(2026, 7, 5, 19, tzinfo=UTC), "America/Phoenix", "Sunday, July 5, 2026, 12:00 PM MST"),
        (datetime(2026, 11, 1, 6, 30, tzinfo=UTC), "America/Chicago", "Sunday, November 1, 2026, 1:30 AM CDT"),
        (datetime(2026, 11, 1, 7, 30, tzinfo=UTC), "America/Chicago", "Sunday, November 1, 2026, 1:30 AM CST"),
        (datetime(2026, 1, 1, 0, 0, tzinfo=UTC), "Asia/Kathmandu", "Thursday, January 1, 2026, 5:45 AM UTC+0545"),
    ],
)
def test_a_time_is_shown_on_the_clock_of_the_zone(moment: datetime, zone: str, words: str) -> None:
    assert time_words(moment, zone) == words


@pytest.mark.parametrize(
    ("start", "minutes", "words"),
    [
        (datetime(2026, 3, 3, 16, tzinfo=UTC), 60, "Tuesday, March 3, 2026, 10:00 AM to 11:00 AM CST"),
        (datetime(2026, 3, 3, 16, tzinfo=UTC), None, "Tuesday, March 3, 2026, 10:00 AM CST"),
        (datetime(2026, 3, 8, 7, 30, tzinfo=UTC), 60, "Sunday, March 8, 2026, 1:30 AM CST to 3:30 AM CDT"),
        (datetime(2026, 11, 1, 6, 30, tzinfo=UTC), 60, "Sunday, November 1, 2026, 1:30 AM CDT to 1:30 AM CST"),
        (
            datetime(2026, 3, 4, 5, 30, tzinfo=UTC),
            60,
            "Tuesday, March 3, 2026, 11:30 PM CST to Wednesday, March 4, 2026, 12:30 AM CST",
        ),
    ],
)
def test_a_period_repeats_what_differs_between_its_ends(start: datetime, minutes: int | None, words: str) -> None:
    end = None if minutes is None else start + timedelta(minutes=minutes)
    assert period_words(VisitTime(start, end), "America/Chicago") == words


@pytest.mark.parametrize(
    ("request_", "starts"),
    [
        (Appointment("sales"), []),
        (Appointment("sales", appointment_at="2026-03-03T16:00:00Z"), ["2026-03-03T16:00:00+00:00"]),
        (
            Appointment("sales", requested_windows=[RequestedWindow("2026-03-03T10:00")], timezone="America/Denver"),
            ["2026-03-03T17:00:00+00:00"],
        ),
        # The clock skips 02:30 on that morning (PEP 495).
        (
            Appointment("sales", requested_windows=[RequestedWindow("2026-03-08T02:30")], timezone="America/Chicago"),
            ["2026-03-08T08:30:00+00:00"],
        ),
    ],
)
def test_the_times_asked_for_are_read_on_the_buyers_clock(request_: Appointment, starts: list[str]) -> None:
    times = requested_periods(request_, "America/Chicago")
    assert [time.start.astimezone(UTC).isoformat() for time in times] == starts


def test_every_word_of_the_protocol_has_its_human_word() -> None:
    appointment_types = Appointment.__annotations__["appointment_type"].__args__
    assert set(VISITS) == set(appointment_types)
    assert set(CHANNELS) == {"email", "phone", "sms"}
    assert set(CONDITIONS) == {"new", "used", "cpo"}
    assert set(STATUSES) == set(get_args(ListingStatus))


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b, and c")],
)
def test_lists_read_as_people_say_them(words: list[str], expected: str) -> None:
    assert join_words(words, "and") == expected


@pytest.mark.parametrize(
    ("vehicle", "words"),
    [
        (LISTING, "2024 Honda Accord EX"),
        (VehicleOfInterest(make=" Kia ", trim=""), "Kia"),
        (VehicleOfInterest(), ""),
        (VehicleOfInterest(year=2020), "2020"),
    ],
)
def test_a_vehicle_is_called_by_what_is_known(vehicle: Any, words: str) -> None:
    assert vehicle_words(vehicle) == words


def test_the_name_and_address_of_a_rooftop_are_written_in_one_line() -> None:
    assert place_words(ROOFTOP) == "Example Motors Nashville, 1200 Example Pike, Suite 2, Nashville, TN 37203"
    assert place_words(RooftopView(name="Example", zone="America/Chicago")) == "Example"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("red", "red"),
        (True, "yes"),
        (False, "no"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (1e300, "1e+300"),
        (10**30, "1" + "0" * 30),
        ([1, {"a": "é"}], '[1, {"a": "é"}]'),
    ],
)
def test_extra_members_of_any_type_are_shown(value: Any, expected: str) -> None:
    assert described_facts(TradeIn(), {"x": value}) == [f"x: {expected}"]


@pytest.mark.parametrize(("name", "value", "expected"), [("x", "", []), ("x", None, []), ("", "y", ["Other: y"])])
def test_a_fact_without_value_is_left_out_and_one_without_name_is_other(
    name: str, value: Any, expected: list[str]
) -> None:
    assert described_facts(TradeIn(), {name: value}) == expected


def test_extras_are_the_members_that_the_protocol_does_not_know() -> None:
    described = {"vin": "x", "price": 5, "seats": 4}
    assert extras_of(described, VehicleOfInterest) == {"seats": 4}
    assert extras_of(described, TradeIn) == {"price": 5, "seats": 4}
    assert extras_of(None, TradeIn) == {}


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("a" * 10, "a" * 10),
        ("a" * 11, "a" * 9 + "…"),
        ("12345678 abc", "12345678…"),
        ("\u202eabc\u2066", "abc"),
        ("a\nb", "a b"),
    ],
)
def test_a_short_line_is_cut_and_turns_nothing_around(text: str, cut: str) -> None:
    assert short(text, 10) == cut


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("\n\n a \r\n\n\tb\x0bc\n\n", [" a", "", "\tb", "c"]),
        ("", []),
        ("\n \n", []),
        ("a\0b", ["a\ufffdb"]),
    ],
)
def test_a_longer_text_keeps_its_lines(text: str, read: list[str]) -> None:
    assert lines(text) == read


def test_quoted_words_are_wrapped_and_marked() -> None:
    told = quoted("word " * 30 + "\n\nhttps://example.com/" + "x" * 100)
    assert told[-2:] == [">", "> https://example.com/" + "x" * 100]
    assert all(len(line) <= 76 for line in told[:-1])


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "x " * 500_000, "\u200b" * 1_000_000, "\n" * 1_000_000, "-x" * 500_000]
)
def test_a_text_of_a_megabyte_is_checked_quickly(text: str) -> None:
    """What takes quadratic time would hold up the whole suite here."""
    assert len(one_line(text)) <= len(text)
    assert sum(map(len, quoted(text))) <= 2 * len(text)
    assert len(short(text)) <= 200


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Acme Agent 2.0", "Acme Agent 2.0"),
        ("Bj\u00f6rn's & Co.", "Bj\u00f6rn's & Co."),
        ("https://agent.example", '"https://agent.example"'),
        ("https://agent.example, verified. It calls itself X", '"https://agent.example, verified. It calls itself X"'),
        ('Acme", Verified by "us', "\"Acme', Verified by 'us\""),
        ("Acme verified", '"Acme verified"'),
        ("Acme\n\u202eVerified", '"Acme Verified"'),
    ],
)
def test_a_name_that_looks_like_a_proof_is_in_quotes(name: str, words: str) -> None:
    view = a_view(agent=SourceAgent(name))
    assert source_words(replace(view, caller="")) == f"{words} (says so itself, not verified)"
    proved = source_words(replace(view, caller="https://login.example#<b>"))
    assert proved == f"https://login.example#<b>, verified. It calls itself {words}"
