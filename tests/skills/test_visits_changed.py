"""What a duplicate does to the visit of its lead (docs/protocol.md#duplicate-adds). On both databases."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, listing, visit, windows
from tests.storage.calls import lock_at, read
from tests.storage.samples import NO_NOTICES

from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.leads.records import MOST_ADDITIONS
from dealer_agent.protocol.errors import AppointmentTimeUnavailable
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consents import allowed_channels

OpenIntake = Callable[..., IntakeSetup]
SAM = {"customer": customer(email="sam@example.com")}
SOON = NOW + timedelta(minutes=5)
LATER = SOON + timedelta(minutes=1)
PLACES_OF_AN_HOUR = 4
"""A visit of an hour has a place in each of four quarters."""


def lead_of_sam(appointment: dict[str, Any] | None = None, stock: str | None = "S1", **members: Any) -> dict[str, Any]:
    """A lead of the one customer."""
    return lead_with_visit(appointment, stock, **SAM, **members) if appointment else a_lead(**SAM, **members)


def statuses(intake: IntakeSetup, lead_id: str) -> list[str]:
    return [one.status for one in intake.visits_of(lead_id)]


@pytest.mark.requirement("duplicate-adds", "confirm-free-place")
def test_a_changed_time_is_booked_in_the_place_of_the_earlier_one(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    moved = intake.take(lead_of_sam(visit(at("12:00"))), SOON, LOT)
    assert (moved["status"], moved["lead_id"]) == ("duplicate", first["lead_id"])
    assert moved["appointment"]["confirmed_at"] == at("12:00")
    assert moved["appointment"]["appointment_id"] != first["appointment"]["appointment_id"]
    old, new = intake.visits_of(first["lead_id"])
    assert (old.status, old.cancelled_at, new.status) == ("replaced", SOON, "confirmed")
    assert intake.places("test_drive") == PLACES_OF_AN_HOUR
    free_again = intake.take(lead_with_visit(visit(at("10:00")), "S1"), SOON, LOT)
    assert free_again["appointment"]["status"] == "confirmed"
    words = intake.answer(lead_of_sam(visit(at("14:00"))), SOON, LOT).message or ""
    assert words.endswith(
        "is confirmed for Tuesday, March 3 at 2:00 PM (Central time) at Ridgeline South. "
        "It replaces the one on Tuesday, March 3 at 12:00 PM."
    )


def test_a_visit_can_be_moved_to_a_time_that_overlaps_it(new_intake: OpenIntake) -> None:
    """The places of the visit itself count as free."""
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    moved = intake.take(lead_of_sam(visit(at("10:30"))), SOON, LOT)["appointment"]
    assert moved["confirmed_at"] == at("10:30")
    longer = intake.take(lead_of_sam(windows((at("10:00"), at("11:30")))), LATER, LOT)["appointment"]
    assert longer["confirmed_window"]["start"] == at("10:00")
    assert statuses(intake, first["lead_id"]) == ["replaced", "replaced", "confirmed"]
    assert intake.places("test_drive") == PLACES_OF_AN_HOUR


@pytest.mark.requirement("duplicate-adds", "propose-three")
def test_where_the_new_time_cannot_be_had_the_earlier_visit_stays_and_others_are_proposed(
    new_intake: OpenIntake,
) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.take(lead_with_visit(visit(at("12:00")), "S2"), NOW, LOT)
    answer = intake.answer(lead_of_sam(visit(at("12:00"))), SOON, LOT)
    proposed = msgspec.json.decode(answer.data)["appointment"]
    assert proposed["proposed_times"] == [at("11:00"), at("13:00"), at("13:30")], "not the hour that is theirs already"
    assert "Tuesday, March 3 at 10:00 AM stays booked for you." in (answer.message or "")
    assert statuses(intake, first["lead_id"]) == ["confirmed", "proposed"]
    assert intake.places("test_drive") == 2 * PLACES_OF_AN_HOUR

    # Both are as they were answered; one of the proposals takes the place of both.
    assert intake.take(lead_of_sam(visit(at("10:00"))), SOON, LOT)["appointment"] == first["appointment"]
    assert intake.answer(lead_of_sam(visit(at("12:00"))), SOON, LOT).message == answer.message
    chosen = intake.take(lead_of_sam(visit(at("11:00"))), LATER, LOT)["appointment"]
    assert chosen["confirmed_at"] == at("11:00")
    assert statuses(intake, first["lead_id"]) == ["replaced", "replaced", "confirmed"]
    assert intake.places("test_drive") == 2 * PLACES_OF_AN_HOUR


@pytest.mark.parametrize(
    ("appointment", "status"),
    [
        (visit(at("10:00")), "confirmed"),
        (windows((at("09:00"), at("12:00")), (at("13:00"), at("15:00"))), "confirmed"),
        (visit(at("08:00")), "proposed"),
        (windows((at("07:00"), at("08:00"))), "proposed"),
        (visit(), "requested"),
        (visit(at("10:00"), "service"), "requested"),
        (visit(at("10:00"), "showroom_visit", notes="By the door"), "confirmed"),
    ],
)
@pytest.mark.requirement("duplicate-same-token")
def test_who_asks_exactly_the_same_again_gets_the_same_answer_again(
    new_intake: OpenIntake, appointment: dict[str, Any], status: str
) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(appointment), NOW, LOT)
    assert first["appointment"]["status"] == status
    again = [intake.answer(lead_of_sam(appointment), NOW + timedelta(minutes=number), LOT) for number in (1, 2)]
    for answer in again:
        assert msgspec.json.decode(answer.data) == first | {"status": "duplicate"}
    assert again[0] == again[1]
    stored = read(intake.store, "ridgeline", get_lead, first["lead_id"])
    assert stored is not None
    assert (len(stored.consents), len(stored.events)) == (1, 0)
    assert len(intake.visits_of(first["lead_id"])) == 1
    assert len(intake.deliveries()) == 1, "nothing new is to be delivered"


def test_proposals_are_repeated_as_long_as_they_can_be_had(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    intake.take(lead_with_visit(visit(at("12:00")), "S1"), NOW, LOT)
    first = intake.take(lead_of_sam(visit(at("12:00"))), NOW, LOT)["appointment"]
    assert intake.take(lead_of_sam(visit(at("12:00"))), SOON, LOT)["appointment"] == first
    intake.take(lead_with_visit(visit(at("13:00")), "S1"), SOON, LOT)
    later = intake.take(lead_of_sam(visit(at("12:00"))), SOON, LOT)
    assert later["appointment"]["proposed_times"] == [at("10:00"), at("10:30"), at("11:00")]
    assert statuses(intake, later["lead_id"]) == ["replaced", "proposed"]


def test_a_visit_of_another_kind_is_another_visit(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.take(lead_of_sam(visit(at("12:00"), "sales")), SOON, LOT)
    intake.take(lead_of_sam(visit(at("14:00"), "phone_call")), LATER, LOT)
    assert statuses(intake, first["lead_id"]) == ["confirmed", "confirmed", "requested"]
    assert intake.places("test_drive") == intake.places("sales") == PLACES_OF_AN_HOUR


@pytest.mark.parametrize("changed", [visit(), visit(at("08:00"))])
def test_a_request_that_books_nothing_leaves_the_booked_visit(new_intake: OpenIntake, changed: dict[str, Any]) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    answer = intake.answer(lead_of_sam(changed), SOON, LOT)
    assert "Tuesday, March 3 at 10:00 AM stays booked for you." in (answer.message or "")
    assert statuses(intake, first["lead_id"])[0] == "confirmed"
    intake.take(lead_of_sam(visit(at("11:00"))), LATER, LOT)
    assert statuses(intake, first["lead_id"]) == ["replaced", "replaced", "confirmed"]


def test_a_visit_that_took_place_is_not_replaced(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("11:00", 2))), NOW, LOT)
    second = intake.take(lead_of_sam(visit(at("12:00"))), NOW + timedelta(hours=5), LOT)
    assert second["lead_id"] == first["lead_id"]
    assert statuses(intake, first["lead_id"]) == ["confirmed", "confirmed"]


@pytest.mark.parametrize("again", [windows((at("11:00", 2), at("18:00"))), visit(at("11:00", 2))])
def test_a_repeated_request_after_the_visit_is_not_answered_as_confirmed(
    new_intake: OpenIntake, again: dict[str, Any]
) -> None:
    """A time in the past is not an error, and is not confirmed again (docs/protocol.md#duplicate-adds)."""
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(again), NOW, LOT)
    assert first["appointment"]["status"] == "confirmed"
    under_way = intake.take(lead_of_sam(again), NOW + timedelta(hours=2, minutes=30), LOT)
    assert under_way["appointment"] == first["appointment"], "they are there"
    later = intake.take(lead_of_sam(again), NOW + timedelta(hours=5), LOT)
    assert later["lead_id"] == first["lead_id"]
    assert later["appointment"]["appointment_id"] != first["appointment"]["appointment_id"]
    assert later["appointment"].get("confirmed_window", {}).get("start", at("16:00", 2)) == at("16:00", 2)
    assert statuses(intake, first["lead_id"])[0] == "confirmed"


def test_a_visit_that_the_dealer_cancelled_can_be_booked_anew(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.cancel_visit(first, SOON)
    assert intake.places("test_drive") == 0
    again = intake.take(lead_of_sam(visit(at("10:00"))), SOON, LOT)["appointment"]
    assert again["confirmed_at"] == at("10:00")
    assert again["appointment_id"] != first["appointment"]["appointment_id"]
    assert statuses(intake, first["lead_id"]) == ["cancelled", "confirmed"]


def test_what_a_duplicate_adds_is_delivered_again_and_a_new_time_confirmed_by_mail(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    before = {row.delivery_id for row in intake.deliveries()}
    moved = intake.take(lead_of_sam(visit(at("12:00")), message="Later, please."), SOON, LOT)
    stored = read(intake.store, "ridgeline", get_lead, first["lead_id"])
    assert stored is not None
    (event,) = stored.events
    assert msgspec.json.decode(event.changes or b"") == {
        "message": "Later, please.",
        "appointment": {"request": visit(at("12:00")), "reply": moved["appointment"]},
    }
    added = {
        (row.lead_id, row.rooftop, row.kind, row.channel, row.event_id)
        for row in intake.deliveries()
        if row.delivery_id not in before
    }
    south = (first["lead_id"], "Ridgeline South")
    assert added == {
        (*south, "resend", "south", event.event_id),
        (*south, "confirm", "customer", moved["appointment"]["appointment_id"]),
    }


def test_what_is_added_before_a_lead_was_ever_sent_goes_out_with_it(new_intake: OpenIntake) -> None:
    """A hundred additions are no hundred deliveries: what is sent is made at sending time."""
    intake = new_intake(PROFILE)
    intake.take(lead_of_sam(), NOW, LOT)
    for number in range(3):
        intake.take(lead_of_sam(message=f"And {number}"), SOON, LOT)
    assert [(row.channel, row.kind) for row in intake.deliveries()] == [("north", "lead")]


def test_a_lead_takes_fifty_additions_and_then_another_lead_begins(new_intake: OpenIntake) -> None:
    """Each addition reads the ones before: the work that one customer can make is bounded."""
    intake = new_intake(PROFILE)
    answers = [intake.take(lead_of_sam(message=f"Message {number}"), SOON, LOT) for number in range(MOST_ADDITIONS + 2)]
    assert [answer["status"] for answer in answers] == ["received", *["duplicate"] * MOST_ADDITIONS, "received"]
    assert answers[-1]["lead_id"] != answers[0]["lead_id"] == answers[1]["lead_id"]


def test_a_channel_that_a_customer_revoked_stays_closed_on_a_new_lead_with_the_consent_from_before(
    new_intake: OpenIntake,
) -> None:
    """A revoked channel is not used, whichever vehicle the agent asks about next; a consent from after it opens it."""
    intake = new_intake(PROFILE, confirms_by_mail=True)
    both = {"customer": customer(email="sam@example.com", phone="+12025550123")}
    granted = {"consent": consent(allowed_channels=["email", "phone"])}
    first = intake.take(lead_of_sam() | both | granted, NOW, LOT)
    lock_at(
        SOON,
        intake.store,
        "ridgeline",
        withdraw,
        first["lead_id"],
        ["email"],
        by="staff",
        reason=None,
        profile=NO_NOTICES,
    )
    another = intake.take(
        lead_of_sam(visit(at("10:00")), stock="N1") | both | granted, SOON + timedelta(minutes=1), LOT
    )
    assert another["lead_id"] != first["lead_id"]
    assert read(intake.store, "ridgeline", allowed_channels, another["lead_id"], SOON) == {"phone"}
    assert "confirm" not in {row.kind for row in intake.deliveries()}


def test_a_visit_elsewhere_is_delivered_to_the_leads_rooftop_and_to_the_one_visited(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    first = intake.take(lead_of_sam(), NOW, LOT)
    assert [row.channel for row in intake.deliveries()] == ["north"]
    intake.all_sent()
    answer = intake.take(lead_of_sam(visit(at("10:00"), "sales"), stock=None), SOON, LOT)
    assert (answer["lead_id"], answer["dealer"]["name"]) == (first["lead_id"], "Ridgeline South")
    assert sorted((row.channel, row.kind) for row in intake.deliveries()) == [
        ("customer", "confirm"),
        ("north", "lead"),
        ("north", "resend"),
        ("south", "resend"),
    ]


def test_a_trade_in_that_a_duplicate_brings_is_added_to_the_lead(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(), NOW, LOT)
    trade_in = {"make": "Ford", "payoff": {"bank": "Example"}}
    for _ in range(2):
        intake.take(lead_of_sam(trade_in=trade_in), SOON, LOT)
    stored = read(intake.store, "ridgeline", get_lead, first["lead_id"])
    assert stored is not None
    assert [msgspec.json.decode(event.changes or b"") for event in stored.events] == [{"trade_in": trade_in}]


@pytest.mark.parametrize("stock", [None, "S1"])
def test_an_appraisal_moves_with_the_test_drive_that_it_is_part_of(new_intake: OpenIntake, stock: str | None) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    by_time = intake.take(lead_of_sam(visit(at("10:15"), "trade_in"), stock), NOW, LOT)
    intake.all_sent()
    moved = intake.take(lead_of_sam(visit(at("13:00"))), SOON, LOT)["appointment"]
    before, appraisal = [one for one in intake.visits_of(by_time["lead_id"]) if one.kind == "trade_in"]
    assert (before.status, before.appointment_id, before.starts_at) == (
        "replaced",
        by_time["appointment"]["appointment_id"],
        NOW.replace(day=3, hour=16, minute=15),
    )
    assert (appraisal.status, appraisal.shares) == ("confirmed", moved["appointment_id"])
    assert appraisal.appointment_id != before.appointment_id, "a calendar knows the earlier time by that"
    assert appraisal.starts_at == NOW.replace(day=3, hour=19)
    assert appraisal.ends_at == NOW.replace(day=3, hour=19, minute=30)
    answer = {"appointment_id": appraisal.appointment_id, "status": "confirmed", "confirmed_at": at("13:00")}
    assert msgspec.json.decode(appraisal.reply) == answer
    assert intake.take(lead_of_sam(visit(at("10:15"), "trade_in"), stock), SOON, LOT)["appointment"] == answer
    told = read(intake.store, "ridgeline", get_lead, by_time["lead_id"])
    assert told is not None
    assert answer in [
        msgspec.json.decode(event.changes or b"{}").get("appointment", {}).get("reply") for event in told.events
    ]
    resent = {row.lead_id for row in intake.deliveries() if row.kind == "resend"}
    assert resent == {drive["lead_id"], by_time["lead_id"]}
    assert (intake.places("test_drive"), intake.places("trade_in")) == (PLACES_OF_AN_HOUR, 0)


def test_an_appraisal_is_no_part_of_a_test_drive_at_a_time_that_has_passed(new_intake: OpenIntake) -> None:
    """A time in the past is not an error, and is never confirmed (docs/protocol.md#duplicate-adds)."""
    intake = new_intake(PROFILE)
    intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    under_way = NOW + timedelta(days=1, hours=1, minutes=30)
    appraisal = intake.take(lead_of_sam(visit(at("10:15"), "trade_in"), None), under_way, LOT)["appointment"]
    assert appraisal["status"] == "proposed"


def test_an_appraisal_of_its_own_gives_its_place_back_when_it_becomes_part_of_a_test_drive(
    new_intake: OpenIntake,
) -> None:
    intake = new_intake(PROFILE)
    intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    alone = intake.take(lead_of_sam(visit(at("15:00"), "trade_in"), None), NOW, LOT)
    assert intake.places("trade_in") == PLACES_OF_AN_HOUR // 2
    part = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), SOON, LOT)
    assert part["lead_id"] == alone["lead_id"]
    assert statuses(intake, alone["lead_id"]) == ["replaced", "confirmed"]
    assert intake.places("trade_in") == 0


def test_without_a_window_for_duplicates_every_request_is_a_lead_and_a_visit_of_its_own(new_intake: OpenIntake) -> None:
    policies = msgspec.structs.replace(PROFILE.policies, duplicate_window_hours=0)
    intake = new_intake(msgspec.structs.replace(PROFILE, policies=policies))
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    second = intake.take(lead_of_sam(visit(at("10:00"))), SOON, LOT)
    assert (first["appointment"]["status"], second["appointment"]["status"]) == ("confirmed", "proposed")
    assert first["lead_id"] != second["lead_id"]


def test_an_earlier_visit_stays_where_nothing_is_to_be_had_any_more(new_intake: OpenIntake) -> None:
    north = PROFILE.rooftops[0]
    rules = msgspec.structs.replace(north.visits["test_drive"], duration_minutes=480, horizon_days=1)
    small = msgspec.structs.replace(north, visits={"test_drive": rules})
    intake = new_intake(msgspec.structs.replace(PROFILE, rooftops=(small,)))
    first = intake.take(lead_of_sam(visit(at("09:00"))), NOW, LOT)
    with pytest.raises(AppointmentTimeUnavailable) as refused:
        intake.take(lead_of_sam(visit("2026-03-20T15:00:00Z")), SOON, LOT)
    assert refused.value.details["lead_id"] == first["lead_id"]
    assert "Tuesday, March 3 at 9:00 AM stays booked for you." in refused.value.message
    assert statuses(intake, first["lead_id"]) == ["confirmed", "unavailable"]


def test_a_visit_at_another_rooftop_frees_no_place_at_the_one_to_which_the_vehicle_was_brought(
    new_intake: OpenIntake,
) -> None:
    intake = new_intake(PROFILE)
    brought = Catalogue.build([listing("N1", "Ridgeline South"), listing("S1", "Ridgeline South")])
    first = intake.take(lead_of_sam(visit(at("10:00")), "N1"), NOW, LOT)
    intake.take(lead_with_visit(visit(at("10:00")), "S1"), NOW, brought)
    answer = intake.take(lead_of_sam(visit(at("10:30")), "N1"), SOON, brought)
    assert (answer["lead_id"], answer["appointment"]["status"]) == (first["lead_id"], "proposed")
    moved = intake.take(lead_of_sam(visit(at("11:00")), "N1"), SOON, brought)
    assert (moved["appointment"]["status"], moved["dealer"]["name"]) == ("confirmed", "Ridgeline South")
    assert intake.places("test_drive") == 2 * PLACES_OF_AN_HOUR
