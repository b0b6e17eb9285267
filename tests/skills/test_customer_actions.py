"""What customers do with the links in their mails (docs/how-to/customer-links.md). On both databases."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
import pytest
from tests.skills.counter import Counter
from tests.skills.shop import a_lead, consent, customer, everything_stored
from tests.skills.test_cancellation import SAM, SOON, WITH_PEOPLE, id_of, sams, told
from tests.skills.visiting import LOT, NOW, PROFILE, asking, at, visit, windows
from tests.storage.calls import lock_at, read

from dealer_agent.dealers.profile import VisitRules
from dealer_agent.lead_intake.customer_actions import CustomerActions, CustomerVisit, TimeNotFree, VisitEnded
from dealer_agent.lead_intake.lead_transaction import MOST_ADDITIONS
from dealer_agent.leads.customer_links import LinkTarget
from dealer_agent.storage.consents import allowed_channels
from dealer_agent.storage.erasure import erase_lead
from dealer_agent.storage.leads import get_lead

OpenCounter = Callable[..., Counter]
Result = TypeVar("Result")
WAIT = 60.0


def linked(answer: dict[str, Any]) -> LinkTarget:
    """What the link in the mail of this answer's visit names."""
    return LinkTarget(answer["lead_id"], id_of(answer), NOW + timedelta(days=60))


def customers(desk: Counter) -> CustomerActions:
    return desk.desk.for_customers(desk.store)


def run(done: Awaitable[Result]) -> Result:
    async def wait() -> Result:
        return await done

    return asyncio.run(wait())


def see(desk: Counter, answer: dict[str, Any], now: datetime = SOON) -> CustomerVisit:
    return run(customers(desk).see(linked(answer), now))


def move(desk: Counter, answer: dict[str, Any], start: str, now: datetime = SOON) -> str:
    """The id of the visit after the move."""
    return run(customers(desk).move(linked(answer), datetime.fromisoformat(start), now, WAIT))[0]


def cancel(desk: Counter, answer: dict[str, Any], now: datetime = SOON) -> None:
    run(customers(desk).cancel(linked(answer), now, WAIT))


def withdraw(desk: Counter, answer: dict[str, Any], *channels: str, now: datetime = SOON) -> None:
    run(customers(desk).withdraw(linked(answer), channels, now, WAIT))


def booked(desk: Counter, answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Status and hour in UTC of a lead's visits, oldest first."""
    return [(one.status, f"{one.starts_at:%d %H:%M}") for one in desk.visits_of(answer["lead_id"]) if one.starts_at]


@pytest.mark.requirement("customer-links-move")
def test_moving_a_visit_frees_its_place_and_notifies_crm_staff_and_customer(counter: OpenCounter) -> None:
    desk = counter(WITH_PEOPLE, confirms_by_mail=True)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    desk.all_sent()
    new_id = move(desk, drive, at("13:00"))
    assert booked(desk, drive) == [("replaced", "03 16:00"), ("confirmed", "03 19:00")]
    assert desk.places("test_drive") == 4
    lead_id, south = drive["lead_id"], "Ridgeline South"
    (event,) = read(desk.store, "ridgeline", get_lead, lead_id).events  # type: ignore[union-attr]
    assert told(desk) == {
        (lead_id, "resend", south, "south", event.event_id),
        (lead_id, "notify", south, "notify", event.event_id),
        (lead_id, "confirm", south, "customer", new_id),
    }
    again = asking(visit(at("10:00")), "S1")
    assert desk.take(again, SOON, LOT)["appointment"]["status"] == "confirmed", "the old time is free"


@pytest.mark.requirement("customer-links-move")
@pytest.mark.parametrize(
    "start",
    [at("08:30"), at("17:30"), at("10:10"), at("11:00", 2), at("09:00", 2), at("10:00", 14), "0002-01-01T00:00:00Z"],
    ids=["closed", "ends after closing", "off the grid", "too soon", "past", "beyond the horizon", "long ago"],
)
def test_a_visit_moves_only_to_a_time_that_a_lead_could_have_booked(counter: OpenCounter, start: str) -> None:
    desk = counter(PROFILE, confirms_by_mail=True)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    desk.all_sent()
    before = everything_stored(desk.url)
    with pytest.raises(TimeNotFree):
        move(desk, drive, start, NOW + timedelta(minutes=30))
    assert everything_stored(desk.url) == before


@pytest.mark.requirement("customer-links-one-place")
def test_two_tabs_that_move_one_visit_at_once_get_one_place(counter: OpenCounter) -> None:
    desk = counter(PROFILE, confirms_by_mail=True)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    desk.all_sent()

    async def both() -> list[Any]:
        moves = [
            customers(desk).move(linked(drive), datetime.fromisoformat(at(clock)), SOON, WAIT)
            for clock in ("12:00", "15:00")
        ]
        return await asyncio.gather(*moves, return_exceptions=True)

    outcomes = asyncio.run(both())
    (refused,) = [one for one in outcomes if isinstance(one, VisitEnded)]
    assert refused.why == "moved"
    assert [status for status, _ in booked(desk, drive)] == ["replaced", "confirmed"]
    assert desk.places("test_drive") == 4
    assert len([row for row in told(desk) if row[1] == "confirm"]) == 1


@pytest.mark.requirement("customer-links-one-place")
def test_of_two_customers_who_move_to_one_time_one_gets_it(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    first = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    second = desk.take(asking(visit(at("11:00")), "S2"), NOW, LOT)

    async def both() -> list[Any]:
        moves = [
            customers(desk).move(linked(one), datetime.fromisoformat(at("15:00")), SOON, WAIT)
            for one in (first, second)
        ]
        return await asyncio.gather(*moves, return_exceptions=True)

    assert len([one for one in asyncio.run(both()) if isinstance(one, TimeNotFree)]) == 1
    stands = [status for one in (first, second) for status, _ in booked(desk, one)]
    assert sorted(stands) == ["confirmed", "confirmed", "replaced"]


def test_an_appraisal_within_a_test_drive_moves_with_it(counter: OpenCounter) -> None:
    desk = counter(PROFILE, confirms_by_mail=True)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    appraisal = desk.take(sams(visit(at("10:00"), "trade_in"), None), NOW, LOT)
    desk.all_sent()
    move(desk, drive, at("13:00"))
    assert booked(desk, appraisal) == [("replaced", "03 16:00"), ("confirmed", "03 19:00")]
    assert {row[0] for row in told(desk) if row[1] == "confirm"} == {drive["lead_id"], appraisal["lead_id"]}


def test_a_visit_that_was_asked_for_by_windows_keeps_its_length_when_it_moves(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    asked = windows((at("10:00"), at("11:00")), duration_minutes=30)
    drive = desk.take(sams(asked), NOW, LOT)
    move(desk, drive, at("13:30"))
    last = desk.visits_of(drive["lead_id"])[-1]
    assert last.ends_at is not None
    assert last.starts_at is not None
    assert last.ends_at - last.starts_at == timedelta(minutes=30)


def test_a_visit_that_is_moved_to_the_time_that_it_has_stays_as_it_is(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    before = everything_stored(desk.url)
    assert move(desk, drive, at("10:00")) == id_of(drive)
    assert everything_stored(desk.url) == before


def test_a_link_cannot_be_used_to_send_leads_to_the_crm_without_end(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    for number in range(MOST_ADDITIONS):
        drive["appointment"]["appointment_id"] = move(desk, drive, at("11:00" if number % 2 else "12:00"))
    assert see(desk, drive).free == ()
    with pytest.raises(TimeNotFree):
        move(desk, drive, at("13:00"))


@pytest.mark.requirement("customer-links-cancel")
def test_a_visit_that_its_customer_cancels_ends_as_one_that_the_dealer_cancels(counter: OpenCounter) -> None:
    desk = counter(WITH_PEOPLE, confirms_by_mail=True)
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    desk.all_sent()
    cancel(desk, drive)
    assert {row[1] for row in told(desk)} == {"resend", "notify", "cancel"}
    assert booked(desk, drive) == [("cancelled", "03 16:00")]
    assert desk.places("test_drive") == 0
    with pytest.raises(VisitEnded, match="cancelled"):
        cancel(desk, drive)
    with pytest.raises(VisitEnded, match="cancelled"):
        move(desk, drive, at("13:00"))


@pytest.mark.requirement("customer-links-withdraw")
def test_a_customer_who_withdraws_e_mail_gets_no_further_mail(counter: OpenCounter) -> None:
    desk = counter(PROFILE, confirms_by_mail=True)
    both = consent(allowed_channels=["email", "phone"])
    who = {"customer": customer(email="sam@example.com", phone="+12025550123"), "consent": both}
    drive = desk.take(asking(visit(at("10:00")), "S1", **who), NOW, LOT)
    desk.all_sent()
    assert see(desk, drive).channels == {"email", "phone"}
    withdraw(desk, drive, "email")
    assert see(desk, drive).channels == {"phone"}
    assert {row[1:4] for row in told(desk)} == {("withdrawal", "Ridgeline South", "south")}, "the CRM is told"
    move(desk, drive, at("13:00"))
    assert "confirm" not in {row[1] for row in told(desk)}
    stored = read(desk.store, "ridgeline", get_lead, drive["lead_id"])
    assert stored is not None
    (event,) = [one for one in stored.consents if one.kind == "revoked"]
    assert (event.channels, event.by, event.at) == (("email",), "customer", SOON)


@pytest.mark.requirement("customer-links-withdraw")
def test_a_link_withdraws_only_active_consent_of_the_address_that_got_it(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    both = consent(allowed_channels=["email", "phone"])
    who = SAM["customer"] | {"phone": "+12025550123"}
    drive = desk.take(asking(visit(at("10:00")), "S1", customer=who, consent=both), NOW, LOT)
    mine = desk.take(a_lead(customer=who, consent=both), NOW, LOT)
    theirs = desk.take(a_lead(customer=who | {"email": "pat@example.com"}, consent=both), NOW, LOT, token=None)
    before = everything_stored(desk.url)
    withdraw(desk, drive, "sms", "post", "")
    assert everything_stored(desk.url) == before
    withdraw(desk, drive, "phone")
    once = everything_stored(desk.url)
    withdraw(desk, drive, "phone")
    assert everything_stored(desk.url) == once
    for lead, left in ((drive, {"email"}), (mine, {"email"}), (theirs, {"email", "phone"})):
        assert read(desk.store, "ridgeline", allowed_channels, lead["lead_id"], SOON) == left


@pytest.mark.requirement("customer-links-withdraw")
def test_a_link_withdraws_nothing_for_later_leads_with_the_same_number_and_another_address(
    counter: OpenCounter,
) -> None:
    """A sender can put the phone number of another person in a lead, and get the link to an address of its own."""
    desk = counter(PROFILE)
    both = consent(allowed_channels=["email", "phone"])
    who = SAM["customer"] | {"phone": "+12025550123"}
    strangers = who | {"email": "pat@example.com"}
    drive = desk.take(asking(visit(at("10:00")), "S1", customer=strangers, consent=both), NOW, LOT, token=None)
    withdraw(desk, drive, "email", "phone")
    later = SOON + timedelta(minutes=1)
    mine = desk.take(a_lead(customer=who, consent=both), later, LOT)
    theirs = desk.take(a_lead(customer=strangers, consent=both, source_agent="Other"), later, LOT, token=None)
    for lead, left in ((mine, {"email", "phone"}), (theirs, set())):
        assert read(desk.store, "ridgeline", allowed_channels, lead["lead_id"], later) == left


@pytest.mark.requirement("customer-links-withdraw")
def test_a_consent_that_has_expired_can_be_withdrawn(counter: OpenCounter) -> None:
    """The CRM may have the lead from before, and does not know that the consent has expired."""
    desk = counter(PROFILE)
    until = consent(expires_at=(NOW + timedelta(minutes=1)).isoformat())
    drive = desk.take(sams(visit(at("10:00")), consent=until), NOW, LOT)
    desk.all_sent()
    assert see(desk, drive).channels == {"email"}
    withdraw(desk, drive, "email")
    assert see(desk, drive).channels == set()
    assert {row[1] for row in told(desk)} == {"withdrawal"}


@pytest.mark.requirement("customer-links-get")
def test_what_a_customer_sees_is_of_the_dealer_and_seeing_changes_nothing(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    drive = desk.take(sams(visit(at("10:00"), notes="Call my wife"), message="My secret"), NOW, LOT)
    before = everything_stored(desk.url)
    shown = see(desk, drive)
    assert everything_stored(desk.url) == before
    assert (shown.rooftop.name, shown.kind, shown.ended) == ("Ridgeline South", "test_drive", None)
    assert shown.vehicle == "2024 Honda Civic (stock S1)"
    assert shown.time is not None
    assert shown.time.start == datetime.fromisoformat(at("10:00"))
    for secret in ("sam", "Jordan", "Example", "secret", "wife"):
        assert secret not in repr(shown)


def test_the_free_times_are_those_of_the_rooftop_within_two_weeks_without_what_is_taken(counter: OpenCounter) -> None:
    long = {"test_drive": VisitRules(horizon_days=60, grid_minutes=60)}
    south = msgspec.structs.replace(PROFILE.rooftops[1], visits=long)
    desk = counter(msgspec.structs.replace(PROFILE, rooftops=(south,)))
    drive = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    desk.take(asking(visit(at("12:00")), "S2"), NOW, LOT)
    free = [slot.start for slot in see(desk, drive).free]
    tuesday = [start.strftime("%H:%M") for start in free if start.day == 3]
    assert tuesday == ["09:00", "11:00", "13:00", "14:00", "15:00", "16:00", "17:00"]
    assert free == sorted(free)
    assert free[0] >= SOON + timedelta(hours=2)
    assert timedelta(days=13) < free[-1] - free[0] <= timedelta(days=14)


@pytest.mark.requirement("customer-links-ended")
def test_of_a_visit_that_ended_nothing_is_shown_or_changed(counter: OpenCounter) -> None:
    desk = counter(PROFILE)
    moved = desk.take(sams(visit(at("10:00"))), NOW, LOT)
    move(desk, moved, at("12:00"))
    cancelled = desk.take(asking(visit(at("14:00")), "S1"), NOW, LOT)
    cancel(desk, cancelled)
    erased = desk.take(asking(visit(at("16:00")), "S1"), NOW, LOT)
    lock_at(SOON, desk.store, "ridgeline", erase_lead, erased["lead_id"])
    begun = desk.take(asking(visit(at("09:00")), "S1"), NOW, LOT)
    unknown = {"lead_id": erased["lead_id"], "appointment": begun["appointment"]}
    late = datetime.fromisoformat(at("09:00"))
    before = everything_stored(desk.url)
    for answer, why in (
        (moved, "moved"),
        (cancelled, "cancelled"),
        (erased, "gone"),
        (begun, "begun"),
        (unknown, "gone"),
    ):
        shown = see(desk, answer, late)
        assert (shown.ended, shown.free) == (why, ())
        for change in (lambda one: move(desk, one, at("17:00"), late), lambda one: cancel(desk, one, late)):
            with pytest.raises(VisitEnded) as refused:
                change(answer)
            assert refused.value.why == why
    with pytest.raises(VisitEnded):
        withdraw(desk, erased, "email")
    assert everything_stored(desk.url) == before
