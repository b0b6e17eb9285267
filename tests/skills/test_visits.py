"""Which visit a buyer gets, and what is stored and delivered (docs/protocol.md#appointments). On both databases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import BINDINGS, SampleDealer, a_lead, consent, customer, open_sample_dealer
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, rooftop, visit, windows
from tests.storage.calls import read

from dealer_agent.dealers.profile import Deliver, Profile, VisitRules
from dealer_agent.protocol.errors import AppointmentTimeUnavailable
from dealer_agent.storage.leads.stored_leads import get_lead

OpenIntake = Callable[..., IntakeSetup]


@pytest.mark.requirement("confirmed-at", "confirmed-window")
@pytest.mark.parametrize(
    ("appointment", "expected", "starts"),
    [
        (visit(at("10:00")), {"confirmed_at": at("10:00")}, 16),
        (visit("2026-03-03T16:00:00Z"), {"confirmed_at": at("10:00")}, 16),
        (visit(at("10:00"), duration_minutes=20), {"confirmed_at": at("10:00")}, 16),
        (
            windows((at("10:10"), at("12:00"))),
            {"confirmed_window": {"start": at("10:30"), "end": at("11:30")}},
            16.5,
        ),
        (
            windows((at("10:10"), at("11:00")), duration_minutes=30),
            {"confirmed_window": {"start": at("10:30"), "end": at("11:00")}},
            16.5,
        ),
        (
            windows(("2026-03-03T11:00:00", "2026-03-03T12:00:00"), timezone="America/New_York"),
            {"confirmed_window": {"start": at("10:00"), "end": at("11:00")}},
            16,
        ),
    ],
)
def test_a_free_time_is_confirmed_in_the_form_in_which_it_was_asked(
    new_intake: OpenIntake, appointment: dict[str, Any], expected: dict[str, Any], starts: float
) -> None:
    intake = new_intake(PROFILE)
    lead = lead_with_visit(appointment)
    answer = intake.take(lead, NOW, LOT)
    assert answer["status"] == "received"
    reply = answer["appointment"]
    assert reply == {"appointment_id": reply["appointment_id"], "status": "confirmed"} | expected
    (kept,) = intake.visits_of(answer["lead_id"])
    assert (kept.appointment_id, kept.status, kept.kind) == (reply["appointment_id"], "confirmed", "test_drive")
    assert kept.rooftop == answer["dealer"]["name"] == "Ridgeline North"
    assert kept.starts_at == NOW.replace(day=3, hour=0) + timedelta(hours=starts)
    assert kept.request is not None
    assert msgspec.json.decode(kept.request) == lead["appointment"]
    assert msgspec.json.decode(kept.reply) == reply


@pytest.mark.requirement(
    "confirm-free-place",
    "propose-three",
    "confirmed-at",
    "confirmed-window",
)
def test_a_taken_time_is_not_given_again_and_three_near_ones_are_proposed(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    assert intake.take(lead_with_visit(visit(at("12:00"))), NOW, LOT)["appointment"]["status"] == "confirmed"
    late = intake.take(lead_with_visit(visit(at("12:30")), stock="N2"), NOW, LOT)
    assert late["status"] == "received"
    assert late["appointment"]["status"] == "proposed"
    assert late["appointment"]["proposed_times"] == [at("11:00"), at("13:00"), at("13:30")]
    by_window = intake.take(lead_with_visit(windows((at("12:00"), at("13:00")))), NOW, LOT)
    assert by_window["appointment"]["proposed_slots"] == [
        {"start": at("10:30"), "end": at("11:30")},
        {"start": at("11:00"), "end": at("12:00")},
        {"start": at("13:00"), "end": at("14:00")},
    ]
    for lead in (late, by_window):
        (kept,) = intake.visits_of(lead["lead_id"])
        assert (kept.status, kept.starts_at) == ("proposed", None)
    for time in ("11:00", "13:00"):
        # What was only proposed is nobody's.
        assert intake.take(lead_with_visit(visit(at(time))), NOW, LOT)["appointment"]["status"] == "confirmed"


@pytest.mark.requirement("confirm-notice", "confirm-in-hours")
@pytest.mark.parametrize(
    ("time", "proposed"),
    [
        (at("10:30", 2), [at("11:00", 2), at("11:30", 2), at("12:00", 2)]),
        (at("08:00"), [at("09:00"), at("09:30"), at("10:00")]),
        (at("17:30"), [at("16:00"), at("16:30"), at("17:00")]),
        ("2020-01-01T12:00:00Z", [at("11:00", 2), at("11:30", 2), at("12:00", 2)]),
    ],
)
def test_nothing_is_confirmed_before_the_notice_or_outside_the_hours(
    new_intake: OpenIntake, time: str, proposed: list[str]
) -> None:
    reply = new_intake(PROFILE).take(lead_with_visit(visit(time)), NOW, LOT)["appointment"]
    assert (reply["status"], reply["proposed_times"]) == ("proposed", proposed)


@pytest.mark.parametrize(
    ("stock", "kind", "place", "status"),
    [
        ("N1", "test_drive", "Ridgeline North", "confirmed"),
        ("S1", "test_drive", "Ridgeline South", "confirmed"),
        (None, "test_drive", "Ridgeline North", "confirmed"),
        (None, "trade_in_appraisal", "Ridgeline South", "confirmed"),
        (None, "showroom_visit", "Ridgeline South", "confirmed"),
        ("N1", "sales", "Ridgeline North", "requested"),
        ("E1", "test_drive", "Ridgeline East", "requested"),
        (None, "service", "Ridgeline North", "requested"),
        ("S1", "service", "Ridgeline South", "requested"),
    ],
)
def test_the_vehicles_rooftop_is_visited_else_the_first_that_books_such_visits(
    new_intake: OpenIntake, stock: str | None, kind: str, place: str, status: str
) -> None:
    """A kind of visit that the rooftop does not book is arranged by people: `requested`."""
    intake = new_intake(PROFILE)
    answer = intake.take(lead_with_visit(visit(at("10:00"), kind), stock), NOW, LOT)
    assert (answer["dealer"]["name"], answer["appointment"]["status"]) == (place, status)
    (kept,) = intake.visits_of(answer["lead_id"])
    assert (kept.rooftop, kept.status) == (place, status)
    found = read(intake.store, "ridgeline", get_lead, answer["lead_id"])
    assert found is not None
    assert found.lead.rooftop == place, "its CRM gets the lead"


@pytest.mark.parametrize(
    "appointment",
    [
        visit("0002-01-01T00:00:00Z"),
        visit("9998-12-31T23:59:59.999999-23:59"),
        visit("9999-12-31T23:59:60Z"),
        visit("9999-12-31T23:59:59-12:00"),
        visit("0001-01-01T00:00:00+14:00"),
        windows(("0001-01-01T00:00:00", "0001-01-01T00:00:01"), timezone="Pacific/Kiritimati"),
        windows(("9999-12-31T23:00:00", "9999-12-31T23:59:60"), timezone="America/Chicago"),
        {"appointment_type": "test_drive", "requested_windows": [{"start": "9999-12-31T23:59:60Z"}]},
        visit(at("08:00"), duration_minutes=2**63 - 1),
        windows(("0002-01-01T00:00:00+23:59", "0002-01-01T00:00:01+23:59")),
        windows(("9998-12-31T23:00:00Z", "9998-12-31T23:59:59Z")),
        windows(("0002-01-01T00:00:00", "0002-01-02T00:00:00"), timezone="Pacific/Kiritimati"),
        {"appointment_type": "test_drive", "requested_windows": [{"start": "9998-12-31T23:00:00-12:00"}]},
        {"appointment_type": "test_drive", "requested_windows": [{"start": at("17:30")}] * 1000},
    ],
)
def test_whatever_time_is_asked_for_there_is_an_answer(new_intake: OpenIntake, appointment: dict[str, Any]) -> None:
    """A time in the past is not an error, and no other time is (docs/protocol.md#appointments)."""
    reply = new_intake(PROFILE).take(lead_with_visit(appointment), NOW, LOT)["appointment"]
    assert (reply["status"], len(reply.get("proposed_times") or reply["proposed_slots"])) == ("proposed", 3)


def test_every_moment_between_now_and_the_end_of_time_is_the_earliest_that_is_free(new_intake: OpenIntake) -> None:
    wide = windows(("0002-01-01T00:00:00Z", "9998-12-31T23:59:59Z"))
    reply = new_intake(PROFILE).take(lead_with_visit(wide), NOW, LOT)["appointment"]
    assert reply["confirmed_window"] == {"start": at("11:00", 2), "end": at("12:00", 2)}


@pytest.mark.requirement("no-time-requested")
def test_a_visit_without_a_time_takes_no_place(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    reply = intake.take(lead_with_visit(visit()), NOW, LOT)["appointment"]
    assert reply == {"appointment_id": reply["appointment_id"], "status": "requested"}
    assert intake.take(lead_with_visit(visit(at("10:00"))), NOW, LOT)["appointment"]["status"] == "confirmed"


FULL = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(rooftop("Ridgeline North", {"test_drive": VisitRules(duration_minutes=480, horizon_days=1)}, "north"),),
)
"""Tuesday from nine is all that can be had."""


@pytest.mark.requirement("error-appointment-time-unavailable", "no-time-available")
def test_where_no_time_is_left_the_lead_is_kept_and_delivered_and_the_error_names_it(new_intake: OpenIntake) -> None:
    intake = new_intake(FULL)
    first = intake.take(lead_with_visit(visit(at("09:00"))), NOW, LOT)
    assert first["appointment"]["status"] == "confirmed"
    lead = lead_with_visit(visit(at("09:00")), message="Hello")
    with pytest.raises(AppointmentTimeUnavailable) as refused:
        intake.take(lead, NOW, LOT)
    lead_id = refused.value.details["lead_id"]
    assert refused.value.message.startswith("Ridgeline North has your request. No time can be booked at present.")
    (kept,) = intake.visits_of(lead_id)
    assert (kept.status, kept.starts_at) == ("unavailable", None)
    stored = read(intake.store, "ridgeline", get_lead, lead_id)
    assert stored is not None
    assert [len(stored.consents), len(stored.events)] == [1, 0]
    sent = [(row.kind, row.channel) for row in intake.deliveries() if row.lead_id == lead_id]
    assert sent == [("lead", "north")]
    with pytest.raises(AppointmentTimeUnavailable) as again:
        intake.take(lead, NOW, LOT)
    assert again.value.details["lead_id"] == lead_id, "sent again, it is the same lead"
    assert "has your earlier request" in again.value.message

    intake.cancel_visit(first, NOW)
    answer = intake.take(lead, NOW, LOT)
    assert (answer["lead_id"], answer["status"]) == (lead_id, "duplicate")
    assert answer["appointment"]["confirmed_at"] == at("09:00")
    assert [one.status for one in intake.visits_of(lead_id)] == ["replaced", "confirmed"]


@pytest.mark.parametrize("confirms", [True, False])
@pytest.mark.parametrize(
    ("members", "mailed"),
    [
        ({}, True),
        (
            {
                "customer": customer(email="sam@example.com", phone="+12025550123"),
                "consent": consent(allowed_channels=["phone"]),
            },
            False,
        ),
        ({"customer": customer(phone="+12025550123")}, False),
        ({"appointment": visit()}, False),
        ({"appointment": ...}, False),
    ],
)
def test_a_lead_goes_to_its_rooftops_channels_its_people_and_where_agreed_to_the_customer(
    new_intake: OpenIntake, confirms: bool, members: dict[str, Any], mailed: bool
) -> None:
    north = msgspec.structs.replace(
        PROFILE.rooftops[0],
        deliver=Deliver(directory=PROFILE.rooftops[0].deliver.directory, notify=("sales@example.com",)),
    )
    intake = new_intake(
        msgspec.structs.replace(PROFILE, rooftops=(north, *PROFILE.rooftops[1:])), confirms_by_mail=confirms
    )
    lead = a_lead(**({"appointment": visit(at("10:00")), "vehicle_of_interest": {"stock": "N1"}} | members))
    answer = intake.take(lead, NOW, LOT)
    sent = {(row.lead_id, row.rooftop, row.kind, row.channel, row.event_id) for row in intake.deliveries()}
    expected = [("lead", "north", None), ("notify", "notify", None)]
    if mailed and confirms:
        expected.append(("confirm", "customer", answer["appointment"]["appointment_id"]))
    assert sent == {(answer["lead_id"], "Ridgeline North", *row) for row in expected}
    assert len(intake.deliveries()) == len(expected)


def test_the_message_has_the_time_on_the_rooftops_clock(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    lead = lead_with_visit(visit("2026-03-03T16:00:00Z"), trade_in={"make": "Ford"})
    assert intake.answer(lead, NOW, LOT).message == (
        "Your test drive of the 2024 Honda Civic is confirmed for Tuesday, March 3 at 10:00 AM (Central time) "
        "at Ridgeline North. Your trade-in will be appraised during the same visit."
    )
    assert intake.answer(lead_with_visit(visit(at("10:00"))), NOW, LOT).message == (
        "Ridgeline North has your request. "
        "Your test drive of the 2024 Honda Civic cannot be booked for the time you asked for. "
        "You could come on Tuesday, March 3 at 9:00 AM, Tuesday, March 3 at 11:00 AM, or "
        "Tuesday, March 3 at 11:30 AM (Central time). Nothing is booked until you ask for one of these times."
    )
    assert intake.answer(a_lead(), NOW.replace(hour=4), LOT).message == (
        "Ridgeline North has your request. Someone will contact you. "
        "We open again on Monday, March 2 at 9:00 AM (Central time)."
    )


TRADE = "trade_in_appraisal"


def a_customer() -> dict[str, Any]:
    return {"customer": customer(email="sam@example.com")}


def test_a_trade_in_beside_a_test_drive_is_part_of_the_visit(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    answer = intake.take(lead_with_visit(visit(at("10:00")), "S1", trade_in={"make": "Ford"}), NOW, LOT)
    assert [kept.kind for kept in intake.visits_of(answer["lead_id"])] == ["test_drive"]


@pytest.mark.parametrize(
    ("appointment", "expected", "shared"),
    [
        (visit(at("10:00"), TRADE), {"confirmed_at": at("10:00")}, True),
        (visit(at("10:15"), TRADE), {"confirmed_at": at("10:15")}, True),
        (visit(at("10:45"), TRADE), {"confirmed_at": at("10:45")}, True),
        (visit(at("11:00"), TRADE), {"confirmed_at": at("11:00")}, False),
        (visit(at("09:30"), TRADE), {"confirmed_at": at("09:30")}, False),
        (
            windows((at("09:00"), at("12:00")), kind=TRADE),
            {"confirmed_window": {"start": at("10:00"), "end": at("10:30")}},
            True,
        ),
        (
            windows((at("10:40"), at("12:00")), kind=TRADE),
            {"confirmed_window": {"start": at("10:40"), "end": at("11:00")}},
            True,
        ),
        (
            windows((at("13:00"), at("14:00")), kind=TRADE),
            {"confirmed_window": {"start": at("13:00"), "end": at("13:30")}},
            False,
        ),
    ],
)
@pytest.mark.parametrize("stock", [None, "S1"])
def test_a_later_appraisal_whose_time_lies_in_the_customers_test_drive_shares_its_visit(
    new_intake: OpenIntake, appointment: dict[str, Any], expected: dict[str, Any], shared: bool, stock: str | None
) -> None:
    """With the same lead (one vehicle) or with another of theirs (none): it takes no place of its own."""
    intake = new_intake(PROFILE)
    drive = intake.take(lead_with_visit(visit(at("10:00")), "S1", **a_customer()), NOW, LOT)
    answer = intake.take(lead_with_visit(appointment, stock, **a_customer()), NOW + timedelta(minutes=1), LOT)
    assert (answer["lead_id"] == drive["lead_id"]) == (stock == "S1")
    reply = answer["appointment"]
    assert reply == {"appointment_id": reply["appointment_id"], "status": "confirmed"} | expected
    kept = next(one for one in intake.visits_of(answer["lead_id"]) if one.kind == "trade_in")
    assert kept.rooftop == "Ridgeline South"
    assert kept.shares == (drive["appointment"]["appointment_id"] if shared else None)
    assert intake.places("trade_in") == (0 if shared else 2), "quarters of an hour"
    assert [one.status for one in intake.visits_of(drive["lead_id"]) if one.kind == "test_drive"] == ["confirmed"]


@pytest.mark.parametrize(
    ("drive", "stock", "place", "status"),
    [
        ("N1", "N1", "Ridgeline North", "requested"),
        ("N1", None, "Ridgeline South", "confirmed"),
        ("S1", "W1", "Ridgeline West", "confirmed"),
    ],
)
def test_an_appraisal_is_no_part_of_a_test_drive_where_none_are_booked_or_elsewhere(
    new_intake: OpenIntake, drive: str, stock: str | None, place: str, status: str
) -> None:
    intake = new_intake(PROFILE)
    intake.take(lead_with_visit(visit(at("10:00")), drive, **a_customer()), NOW, LOT)
    appraisal = intake.take(lead_with_visit(visit(at("10:00"), TRADE), stock, **a_customer()), NOW, LOT)
    assert (appraisal["dealer"]["name"], appraisal["appointment"]["status"]) == (place, status)
    assert [one.shares for one in intake.visits_of(appraisal["lead_id"]) if one.kind == "trade_in"] == [None]


BOOKS = """
[rooftops.hours.sales]
monday = "09:00-18:00"
tuesday = "09:00-18:00"
wednesday = "09:00-18:00"
thursday = "09:00-18:00"
friday = "09:00-18:00"
saturday = "09:00-18:00"
sunday = "09:00-18:00"
[rooftops.visits.test_drive]
duration_minutes = 480
horizon_days = 2
"""


@pytest.fixture
def booked_dealer(database_url: str) -> Any:
    """The dealer on the air, one of whose rooftops books one test drive a day, for two days."""
    with open_sample_dealer(database_url, rooftop_settings=BOOKS) as sample_dealer:
        yield sample_dealer


@pytest.mark.requirement("error-appointment-time-unavailable", "no-time-available")
@pytest.mark.parametrize("binding", BINDINGS)
def test_both_bindings_say_that_no_time_is_to_be_had(booked_dealer: SampleDealer, binding: str) -> None:
    anytime = {"appointment_type": "test_drive", "appointment_at": "2020-01-01T12:00:00Z"}
    for _ in range(10):
        answer = booked_dealer.send(a_lead(appointment=anytime), binding)
        if answer.data is None:
            break
        nearest = answer.data["appointment"]["proposed_times"][0]
        asked = {"appointment_type": "test_drive", "appointment_at": nearest}
        booked = (booked_dealer.send(a_lead(appointment=asked), binding).data or {})["appointment"]
        assert (booked["status"], booked["confirmed_at"]) == ("confirmed", nearest)
    assert (answer.status, answer.code) == (409 if binding == "http" else 200, "APPOINTMENT_TIME_UNAVAILABLE")
    assert answer.error is not None
    assert (answer.error["retryable"], answer.pointer) == (False, "/appointment")
    kept = booked_dealer.get_lead(answer.error["details"]["lead_id"])
    assert kept.lead.status == "received"
    assert [one.status for one in booked_dealer.visits_of(kept.lead.lead_id)] == ["unavailable"]
