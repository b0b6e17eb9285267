"""What customers do with the links in their mails (docs/how-to/customer-links.md). On both databases."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import a_lead, consent, customer, everything_stored
from tests.skills.test_cancellation import SAM, SOON, WITH_PEOPLE, id_of, lead_of_sam, waiting_deliveries
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit, windows
from tests.storage.calls import lock_at, read

from dealer_agent.dealers.profile import VisitRules
from dealer_agent.leads.customer_links import LinkTarget
from dealer_agent.leads.records import MOST_ADDITIONS
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consents import allowed_channels
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.visits.customer_actions import CustomerActions, CustomerVisit
from dealer_agent.visits.customer_changes import TimeNotFree, VisitIsOver

OpenIntake = Callable[..., IntakeSetup]
Result = TypeVar("Result")
WAIT = 60.0
CHICAGO = ZoneInfo("America/Chicago")


def linked(answer: dict[str, Any]) -> LinkTarget:
    """What the link in the mail of this answer's visit names."""
    return LinkTarget(answer["lead_id"], id_of(answer), NOW + timedelta(days=60))


def customers(intake: IntakeSetup) -> CustomerActions:
    return intake.intake.for_customers(intake.store)


def run(done: Awaitable[Result]) -> Result:
    async def wait() -> Result:
        return await done

    return asyncio.run(wait())


def see(intake: IntakeSetup, answer: dict[str, Any], now: datetime = SOON) -> CustomerVisit:
    return run(customers(intake).see(linked(answer), now))


def move(intake: IntakeSetup, answer: dict[str, Any], start: str, now: datetime = SOON) -> str:
    """The id of the visit after the move."""
    return run(customers(intake).move(linked(answer), datetime.fromisoformat(start), now, WAIT))[0]


def cancel(intake: IntakeSetup, answer: dict[str, Any], now: datetime = SOON) -> None:
    run(customers(intake).cancel(linked(answer), now, WAIT))


def withdraw(intake: IntakeSetup, answer: dict[str, Any], *channels: str, now: datetime = SOON) -> None:
    run(customers(intake).withdraw(linked(answer), channels, now, WAIT))


def booked(intake: IntakeSetup, answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Status, day and hour of a lead's visits on the clock of the rooftops, oldest first."""
    visits = [(one.status, one.starts_at) for one in intake.visits_of(answer["lead_id"])]
    return [(status, f"{start.astimezone(CHICAGO):%d %H:%M}") for status, start in visits if start]


@pytest.mark.requirement("customer-links-move")
def test_moving_a_visit_frees_its_place_and_notifies_crm_staff_and_customer(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    new_id = move(intake, drive, at("13:00"))
    assert booked(intake, drive) == [("replaced", "03 10:00"), ("confirmed", "03 13:00")]
    assert intake.places("test_drive") == 4
    lead_id, south = drive["lead_id"], "Ridgeline South"
    (event,) = read(intake.store, "ridgeline", get_lead, lead_id).events  # type: ignore[union-attr]
    assert waiting_deliveries(intake) == {
        (lead_id, "resend", south, "south", event.event_id),
        (lead_id, "notify", south, "notify", event.event_id),
        (lead_id, "confirm", south, "customer", new_id),
    }
    again = lead_with_visit(visit(at("10:00")), "S1")
    assert intake.take(again, SOON, LOT)["appointment"]["status"] == "confirmed", "the old time is free"


@pytest.mark.requirement("customer-links-move")
@pytest.mark.parametrize(
    "start",
    [at("08:30"), at("17:30"), at("10:10"), at("11:00", 2), at("09:00", 2), at("10:00", 14), "0002-01-01T00:00:00Z"],
    ids=["closed", "ends after closing", "off the grid", "too soon", "past", "beyond the horizon", "long ago"],
)
def test_a_visit_moves_only_to_a_time_that_a_lead_could_have_booked(new_intake: OpenIntake, start: str) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    before = everything_stored(intake.url)
    with pytest.raises(TimeNotFree):
        move(intake, drive, start, NOW + timedelta(minutes=30))
    assert everything_stored(intake.url) == before


@pytest.mark.both_databases
@pytest.mark.requirement("customer-links-one-place")
def test_two_tabs_that_move_one_visit_at_once_get_one_place(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()

    async def both() -> list[Any]:
        moves = [
            customers(intake).move(linked(drive), datetime.fromisoformat(at(clock)), SOON, WAIT)
            for clock in ("12:00", "15:00")
        ]
        return await asyncio.gather(*moves, return_exceptions=True)

    outcomes = asyncio.run(both())
    (refused,) = [one for one in outcomes if isinstance(one, VisitIsOver)]
    assert refused.why == "moved"
    assert [status for status, _ in booked(intake, drive)] == ["replaced", "confirmed"]
    assert intake.places("test_drive") == 4
    assert len([row for row in waiting_deliveries(intake) if row[1] == "confirm"]) == 1


@pytest.mark.both_databases
@pytest.mark.requirement("customer-links-one-place")
def test_of_two_customers_who_move_to_one_time_one_gets_it(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    first = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    second = intake.take(lead_with_visit(visit(at("11:00")), "S2"), NOW, LOT)

    async def both() -> list[Any]:
        moves = [
            customers(intake).move(linked(one), datetime.fromisoformat(at("15:00")), SOON, WAIT)
            for one in (first, second)
        ]
        return await asyncio.gather(*moves, return_exceptions=True)

    assert len([one for one in asyncio.run(both()) if isinstance(one, TimeNotFree)]) == 1
    stands = [status for one in (first, second) for status, _ in booked(intake, one)]
    assert sorted(stands) == ["confirmed", "confirmed", "replaced"]


def test_an_appraisal_within_a_test_drive_moves_with_it(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    appraisal = intake.take(lead_of_sam(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    intake.all_sent()
    move(intake, drive, at("13:00"))
    assert booked(intake, appraisal) == [("replaced", "03 10:00"), ("confirmed", "03 13:00")]
    assert {row[0] for row in waiting_deliveries(intake) if row[1] == "confirm"} == {
        drive["lead_id"],
        appraisal["lead_id"],
    }


def test_a_visit_that_was_asked_for_by_windows_keeps_its_length_when_it_moves(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    asked = windows((at("10:00"), at("11:00")), duration_minutes=30)
    drive = intake.take(lead_of_sam(asked), NOW, LOT)
    move(intake, drive, at("13:30"))
    last = intake.visits_of(drive["lead_id"])[-1]
    assert last.ends_at is not None
    assert last.starts_at is not None
    assert last.ends_at - last.starts_at == timedelta(minutes=30)


def test_a_visit_that_is_moved_to_the_time_that_it_has_stays_as_it_is(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    before = everything_stored(intake.url)
    assert move(intake, drive, at("10:00")) == id_of(drive)
    assert everything_stored(intake.url) == before


def test_a_link_cannot_be_used_to_send_leads_to_the_crm_without_end(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    for number in range(MOST_ADDITIONS):
        drive["appointment"]["appointment_id"] = move(intake, drive, at("11:00" if number % 2 else "12:00"))
    assert see(intake, drive).free == ()
    with pytest.raises(TimeNotFree):
        move(intake, drive, at("13:00"))


@pytest.mark.requirement("customer-links-cancel")
def test_a_visit_that_its_customer_cancels_ends_as_one_that_the_dealer_cancels(new_intake: OpenIntake) -> None:
    intake = new_intake(WITH_PEOPLE, confirms_by_mail=True)
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.all_sent()
    cancel(intake, drive)
    assert {row[1] for row in waiting_deliveries(intake)} == {"resend", "notify", "cancel"}
    assert booked(intake, drive) == [("cancelled", "03 10:00")]
    assert intake.places("test_drive") == 0
    with pytest.raises(VisitIsOver, match="cancelled"):
        cancel(intake, drive)
    with pytest.raises(VisitIsOver, match="cancelled"):
        move(intake, drive, at("13:00"))


@pytest.mark.requirement("customer-links-withdraw")
def test_a_customer_who_withdraws_e_mail_gets_no_further_mail(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE, confirms_by_mail=True)
    both = consent(allowed_channels=["email", "phone"])
    who = {"customer": customer(email="sam@example.com", phone="+12025550123"), "consent": both}
    drive = intake.take(lead_with_visit(visit(at("10:00")), "S1", **who), NOW, LOT)
    intake.all_sent()
    assert see(intake, drive).channels == {"email", "phone"}
    withdraw(intake, drive, "email")
    assert see(intake, drive).channels == {"phone"}
    assert {row[1:4] for row in waiting_deliveries(intake)} == {("withdrawal", "Ridgeline South", "south")}, (
        "the CRM is told"
    )
    move(intake, drive, at("13:00"))
    assert "confirm" not in {row[1] for row in waiting_deliveries(intake)}
    stored = read(intake.store, "ridgeline", get_lead, drive["lead_id"])
    assert stored is not None
    (event,) = [one for one in stored.consents if one.kind == "revoked"]
    assert (event.channels, event.by, event.at) == (("email",), "customer", SOON)


@pytest.mark.requirement("customer-links-withdraw")
def test_a_link_withdraws_only_active_consent_of_the_address_that_got_it(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    both = consent(allowed_channels=["email", "phone"])
    who = SAM["customer"] | {"phone": "+12025550123"}
    drive = intake.take(lead_with_visit(visit(at("10:00")), "S1", customer=who, consent=both), NOW, LOT)
    mine = intake.take(a_lead(customer=who, consent=both), NOW, LOT)
    theirs = intake.take(a_lead(customer=who | {"email": "pat@example.com"}, consent=both), NOW, LOT, token=None)
    before = everything_stored(intake.url)
    withdraw(intake, drive, "sms", "post", "")
    assert everything_stored(intake.url) == before
    withdraw(intake, drive, "phone")
    once = everything_stored(intake.url)
    withdraw(intake, drive, "phone")
    assert everything_stored(intake.url) == once
    for lead, left in ((drive, {"email"}), (mine, {"email"}), (theirs, {"email", "phone"})):
        assert read(intake.store, "ridgeline", allowed_channels, lead["lead_id"], SOON) == left


@pytest.mark.requirement("customer-links-withdraw")
def test_a_link_withdraws_nothing_for_later_leads_with_the_same_number_and_another_address(
    new_intake: OpenIntake,
) -> None:
    """A sender can put the phone number of another person in a lead, and get the link to an address of its own."""
    intake = new_intake(PROFILE)
    both = consent(allowed_channels=["email", "phone"])
    who = SAM["customer"] | {"phone": "+12025550123"}
    strangers = who | {"email": "pat@example.com"}
    drive = intake.take(
        lead_with_visit(visit(at("10:00")), "S1", customer=strangers, consent=both), NOW, LOT, token=None
    )
    withdraw(intake, drive, "email", "phone")
    later = SOON + timedelta(minutes=1)
    mine = intake.take(a_lead(customer=who, consent=both), later, LOT)
    theirs = intake.take(a_lead(customer=strangers, consent=both, source_agent="Other"), later, LOT, token=None)
    for lead, left in ((mine, {"email", "phone"}), (theirs, set())):
        assert read(intake.store, "ridgeline", allowed_channels, lead["lead_id"], later) == left


@pytest.mark.requirement("customer-links-withdraw")
def test_a_consent_that_has_expired_can_be_withdrawn(new_intake: OpenIntake) -> None:
    """The CRM may have the lead from before, and does not know that the consent has expired."""
    intake = new_intake(PROFILE)
    until = consent(expires_at=(NOW + timedelta(minutes=1)).isoformat())
    drive = intake.take(lead_of_sam(visit(at("10:00")), consent=until), NOW, LOT)
    intake.all_sent()
    assert see(intake, drive).channels == {"email"}
    withdraw(intake, drive, "email")
    assert see(intake, drive).channels == set()
    assert {row[1] for row in waiting_deliveries(intake)} == {"withdrawal"}


@pytest.mark.requirement("customer-links-get")
def test_what_a_customer_sees_is_of_the_dealer_and_seeing_changes_nothing(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    drive = intake.take(lead_of_sam(visit(at("10:00"), notes="Call my wife"), message="My secret"), NOW, LOT)
    before = everything_stored(intake.url)
    shown = see(intake, drive)
    assert everything_stored(intake.url) == before
    assert (shown.rooftop.name, shown.kind, shown.ended) == ("Ridgeline South", "test_drive", None)
    assert shown.vehicle == "2024 Honda Civic (stock S1)"
    assert shown.time is not None
    assert shown.time.start == datetime.fromisoformat(at("10:00"))
    for secret in ("sam", "Jordan", "Example", "secret", "wife"):
        assert secret not in repr(shown)


def test_the_free_times_are_those_of_the_rooftop_within_two_weeks_without_what_is_taken(new_intake: OpenIntake) -> None:
    long = {"test_drive": VisitRules(horizon_days=60, grid_minutes=60)}
    south = msgspec.structs.replace(PROFILE.rooftops[1], visits=long)
    intake = new_intake(msgspec.structs.replace(PROFILE, rooftops=(south,)))
    drive = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    intake.take(lead_with_visit(visit(at("12:00")), "S2"), NOW, LOT)
    free = [slot.start for slot in see(intake, drive).free]
    tuesday = [start.strftime("%H:%M") for start in free if start.day == 3]
    assert tuesday == ["09:00", "11:00", "13:00", "14:00", "15:00", "16:00", "17:00"]
    assert free == sorted(free)
    assert free[0] >= SOON + timedelta(hours=2)
    assert timedelta(days=13) < free[-1] - free[0] <= timedelta(days=14)


@pytest.mark.both_databases
@pytest.mark.requirement("customer-links-ended")
def test_of_a_visit_that_ended_nothing_is_shown_or_changed(new_intake: OpenIntake) -> None:
    intake = new_intake(PROFILE)
    moved = intake.take(lead_of_sam(visit(at("10:00"))), NOW, LOT)
    move(intake, moved, at("12:00"))
    cancelled = intake.take(lead_with_visit(visit(at("14:00")), "S1"), NOW, LOT)
    cancel(intake, cancelled)
    erased = intake.take(lead_with_visit(visit(at("16:00")), "S1"), NOW, LOT)
    lock_at(SOON, intake.store, "ridgeline", erase_lead, erased["lead_id"])
    begun = intake.take(lead_with_visit(visit(at("09:00")), "S1"), NOW, LOT)
    unknown = {"lead_id": erased["lead_id"], "appointment": begun["appointment"]}
    late = datetime.fromisoformat(at("09:00"))
    before = everything_stored(intake.url)
    for answer, why in (
        (moved, "moved"),
        (cancelled, "cancelled"),
        (erased, "gone"),
        (begun, "begun"),
        (unknown, "gone"),
    ):
        shown = see(intake, answer, late)
        assert (shown.ended, shown.free) == (why, ())
        for change in (lambda one: move(intake, one, at("17:00"), late), lambda one: cancel(intake, one, late)):
            with pytest.raises(VisitIsOver) as refused:
                change(answer)
            assert refused.value.why == why
    with pytest.raises(VisitIsOver):
        withdraw(intake, erased, "email")
    assert everything_stored(intake.url) == before
