"""Staff arrange, confirm, move and close visits (docs/protocol.md#staff-visits). On both databases."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol

import msgspec
import pytest
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import consent, customer
from tests.skills.test_cancellation import SAM, WITH_PEOPLE, OpenIntake, id_of, waiting_deliveries
from tests.skills.visiting import LOT, NOW, PROFILE, at, lead_with_visit, visit, windows
from tests.storage.calls import lock_at

from dealer_agent.leads.records import VisitRecord
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.visits.changes import ChangeRefused, ChosenTime, VisitChange, VisitChanges

SOON = NOW + timedelta(minutes=5)
NEVER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def time_at(clock: str, day: int = 3, **more: Any) -> ChosenTime:
    return ChosenTime(start=datetime.fromisoformat(at(clock, day)), **more)


@dataclass
class Staff:
    """The staff of a dealer, and the intake at which its leads arrive."""

    setup: IntakeSetup

    def change(self, how: Callable[[VisitChanges], VisitChange], *, notify: bool = True, now: datetime = SOON) -> Any:
        return self.setup.intake.change_visit(how, notify=notify, now=now)

    def take(self, appointment: dict[str, Any] | None, stock: str | None = "S1", **members: Any) -> dict[str, Any]:
        lead = lead_with_visit(appointment or {}, stock, **(SAM | members))
        if appointment is None:
            del lead["appointment"]
        taken = self.setup.take(lead, NOW, LOT)
        self.setup.all_sent()
        return taken

    def booked(self, lead_id: str) -> list[VisitRecord]:
        return [each for each in self.setup.visits_of(lead_id) if each.status == "confirmed"]


@pytest.fixture
def staff(new_intake: OpenIntake) -> Staff:
    return Staff(new_intake(WITH_PEOPLE, confirms_by_mail=True))


def kinds_told(staff: Staff) -> set[tuple[str, str]]:
    return {(kind, channel) for _, kind, _, channel, _ in waiting_deliveries(staff.setup)}


EVERYBODY = {("resend", "south"), ("notify", "notify"), ("confirm", "customer")}


@pytest.mark.requirement("staff-visits-arrange")
def test_staff_arrange_a_visit_for_a_lead_without_one(staff: Staff) -> None:
    lead_id = staff.take(None)["lead_id"]
    done = staff.change(lambda visits: visits.arrange(lead_id, "test_drive", time_at("10:00")))
    (booked,) = staff.booked(lead_id)
    assert done.visit == booked
    assert (booked.rooftop, booked.kind, booked.starts_at) == ("Ridgeline South", "test_drive", time_at("10:00").start)
    assert booked.ends_at == time_at("11:00").start
    assert staff.setup.places("test_drive") == 4
    assert kinds_told(staff) == EVERYBODY
    assert done.mailed == {booked.appointment_id}
    with pytest.raises(ChangeRefused, match=f"appointments move {booked.appointment_id}"):
        staff.change(lambda visits: visits.arrange(lead_id, "test_drive", time_at("12:00")))


@pytest.mark.requirement("staff-visits-arrange")
def test_a_visit_can_be_arranged_at_another_rooftop_and_of_a_kind_that_buyers_cannot_book(staff: Staff) -> None:
    lead_id = staff.take(None)["lead_id"]
    call = time_at("10:10", length=timedelta(minutes=20))
    done = staff.change(lambda visits: visits.arrange(lead_id, "phone_call", call, "ridgeline east"))
    assert (done.visit.rooftop, done.visit.kind) == ("Ridgeline East", "phone_call")
    assert done.visit.ends_at == time_at("10:30").start
    with pytest.raises(ChangeRefused, match="no rooftop 'Nowhere'"):
        staff.change(lambda visits: visits.arrange(lead_id, "handover", call, "Nowhere"))


@pytest.mark.requirement("staff-visits-confirm")
@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        (visit(), time_at("10:00")),
        (windows((at("08:00"), at("08:30"))), time_at("10:00")),
        (visit(at("10:00"), "service"), None),
    ],
    ids=["requested", "proposed", "at the time that the customer asked for"],
)
def test_staff_confirm_a_visit_without_a_time(staff: Staff, asked: dict[str, Any], chosen: ChosenTime | None) -> None:
    taken = staff.take(asked)
    done = staff.change(lambda visits: visits.confirm(id_of(taken), chosen))
    assert (done.replaced, done.visit.starts_at) == (id_of(taken), time_at("10:00").start)
    statuses = {each.appointment_id: each.status for each in staff.setup.visits_of(taken["lead_id"])}
    assert statuses == {id_of(taken): "replaced", done.visit.appointment_id: "confirmed"}
    assert kinds_told(staff) == EVERYBODY


@pytest.mark.requirement("staff-visits-confirm")
def test_a_time_must_be_chosen_if_the_customer_named_no_single_one(staff: Staff) -> None:
    taken = staff.take(visit())
    with pytest.raises(ChangeRefused, match="choose one with --at"):
        staff.change(lambda visits: visits.confirm(id_of(taken), None))


@pytest.mark.requirement("staff-visits-move")
def test_staff_move_a_visit_and_its_old_place_is_free_again(staff: Staff) -> None:
    taken = staff.take(visit(at("10:00"), duration_minutes=30))
    done = staff.change(lambda visits: visits.move(id_of(taken), time_at("10:15")))
    assert (done.replaced, done.visit.starts_at) == (id_of(taken), time_at("10:15").start)
    assert done.visit.ends_at == time_at("10:45").start, "it keeps its length"
    assert staff.setup.places("test_drive") == 2
    assert kinds_told(staff) == EVERYBODY
    with pytest.raises(ChangeRefused, match="at that time already"):
        staff.change(lambda visits: visits.move(done.visit.appointment_id, time_at("10:15")))


@pytest.mark.requirement("staff-visits-move")
def test_an_appraisal_moves_with_the_test_drive_that_it_is_part_of(staff: Staff) -> None:
    drive = staff.take(visit(at("10:00")))
    staff.take(visit(at("10:00"), "trade_in"), None)
    done = staff.change(lambda visits: visits.move(id_of(drive), time_at("14:00")))
    (part,) = done.parts
    assert (part.starts_at, part.shares) == (time_at("14:00").start, done.visit.appointment_id)
    assert done.mailed == {done.visit.appointment_id, part.appointment_id}


@pytest.mark.requirement("staff-visits-rules")
@pytest.mark.parametrize(
    ("time", "why"),
    [
        (time_at("17:30"), "The opening hours of Ridgeline South on 2026-03-03 are: 09:00-18:00"),
        (time_at("08:45"), "The opening hours of Ridgeline South"),
        (time_at("12:30"), "The only place is taken at Ridgeline South"),
    ],
    ids=["ends too late", "starts too early", "taken"],
)
def test_a_time_outside_the_rules_is_refused_unless_it_is_forced(staff: Staff, time: ChosenTime, why: str) -> None:
    other = staff.take(visit(at("12:00")), "S2", customer=customer(email="other@example.com"))
    taken = staff.take(visit(at("10:00")))
    with pytest.raises(ChangeRefused, match=f"{why}.*Choose another time, or add --force"):
        staff.change(lambda visits: visits.move(id_of(taken), time))
    forced = ChosenTime(start=time.start, forced=True)
    done = staff.change(lambda visits: visits.move(id_of(taken), forced))
    assert [each.startswith(why) for each in done.broken_rules] == [True]
    assert [each.starts_at for each in staff.booked(taken["lead_id"])] == [time.start]
    assert [each.status for each in staff.setup.visits_of(other["lead_id"])] == ["confirmed"]


@pytest.mark.requirement("staff-visits-rules")
def test_a_forced_time_that_breaks_no_rule_breaks_none(staff: Staff) -> None:
    lead_id = staff.take(None)["lead_id"]
    done = staff.change(lambda visits: visits.arrange(lead_id, "test_drive", time_at("10:00", forced=True)))
    assert done.broken_rules == ()


@pytest.mark.requirement("staff-visits-rules")
def test_staff_need_not_keep_the_notice_and_the_grid_of_buyers(staff: Staff) -> None:
    lead_id = staff.take(None)["lead_id"]
    done = staff.change(lambda visits: visits.arrange(lead_id, "test_drive", time_at("09:10", day=2)))
    assert done.visit.starts_at == SOON + timedelta(minutes=5)


@pytest.mark.requirement("staff-visits-rules")
@pytest.mark.parametrize(("days", "why"), [(-1, "in the past"), (0, "in the past"), (367, "more than 366 days ahead")])
def test_no_force_books_a_time_in_the_past_or_after_the_calendar(staff: Staff, days: int, why: str) -> None:
    taken = staff.take(visit(at("10:00")))
    time = ChosenTime(start=SOON + timedelta(days=days), forced=True)
    for change in (
        lambda visits: visits.move(id_of(taken), time),
        lambda visits: visits.arrange(taken["lead_id"], "handover", time),
    ):
        with pytest.raises(ChangeRefused, match=why):
            staff.change(change)


@pytest.mark.requirement("staff-visits-close")
@pytest.mark.parametrize("how", ["done", "no_show"])
def test_a_visit_that_has_begun_is_closed_and_only_the_crm_is_notified(staff: Staff, how: Any) -> None:
    taken = staff.take(visit(at("10:00")))
    begun = time_at("10:00").start
    with pytest.raises(ChangeRefused, match="has not begun"):
        staff.change(lambda visits: visits.close(id_of(taken), how), now=begun - timedelta(seconds=1))
    done = staff.change(lambda visits: visits.close(id_of(taken), how), now=begun)
    (closed,) = staff.setup.visits_of(taken["lead_id"])
    assert (closed.status, closed.cancelled_at, done.visit) == (how, begun, closed)
    assert waiting_deliveries(staff.setup) == {(taken["lead_id"], "resend", "Ridgeline South", "south", id_of(taken))}
    with pytest.raises(ChangeRefused, match="closed so already"):
        staff.change(lambda visits: visits.close(id_of(taken), how), now=begun)


@pytest.mark.requirement("staff-visits-close")
def test_a_mistake_about_the_end_of_a_visit_can_be_corrected(staff: Staff) -> None:
    taken = staff.take(visit(at("10:00")))
    begun = time_at("10:00").start
    staff.change(lambda visits: visits.close(id_of(taken), "no_show"), now=begun)
    staff.change(lambda visits: visits.close(id_of(taken), "done"), now=begun)
    assert [each.status for each in staff.setup.visits_of(taken["lead_id"])] == ["done"]


@pytest.mark.both_databases
@pytest.mark.requirement("staff-visits-close")
def test_an_appraisal_is_closed_with_the_test_drive_that_it_is_part_of(staff: Staff) -> None:
    drive = staff.take(visit(at("10:00")))
    appraisal = staff.take(visit(at("10:00"), "trade_in"), None)
    done = staff.change(lambda visits: visits.close(id_of(drive), "done"), now=time_at("11:00").start)
    assert [(each.appointment_id, each.status) for each in done.parts] == [(id_of(appraisal), "done")]


@pytest.mark.requirement("staff-visits-notified")
def test_without_notifications_the_visit_changes_and_nobody_hears_of_it(staff: Staff) -> None:
    taken = staff.take(visit(at("10:00")))
    moved = staff.change(lambda visits: visits.move(id_of(taken), time_at("14:00")), notify=False)
    assert (moved.mailed, waiting_deliveries(staff.setup)) == (frozenset(), set())
    later = time_at("14:00").start
    staff.change(lambda visits: visits.close(moved.visit.appointment_id, "done"), notify=False, now=later)
    assert waiting_deliveries(staff.setup) == set()


@pytest.mark.requirement("staff-visits-notified")
@pytest.mark.parametrize(
    "members",
    [
        {"customer": customer(phone="+12025550123")},
        {
            "customer": customer(email="sam@example.com", phone="+12025550123"),
            "consent": consent(allowed_channels=["phone"]),
        },
    ],
    ids=["no address", "no consent"],
)
def test_a_customer_who_may_not_be_written_to_gets_no_mail(staff: Staff, members: dict[str, Any]) -> None:
    taken = staff.take(visit(at("10:00")), **members)
    assert staff.change(lambda visits: visits.move(id_of(taken), time_at("14:00"))).mailed == frozenset()
    assert kinds_told(staff) == EVERYBODY - {("confirm", "customer")}


class ChangeOfVisit(Protocol):
    def __call__(self, staff: VisitChanges, /, visit_id: str) -> VisitChange: ...


CHANGES: dict[str, ChangeOfVisit] = {
    "confirm": lambda staff, visit_id: staff.confirm(visit_id, time_at("14:00")),
    "move": lambda staff, visit_id: staff.move(visit_id, time_at("14:00")),
    "done": lambda staff, visit_id: staff.close(visit_id, "done"),
}


@pytest.mark.requirement("staff-visits-refused")
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_unknown_a_cancelled_and_a_replaced_visit_stay_as_they_are(staff: Staff, change: ChangeOfVisit) -> None:
    first = staff.take(visit(at("10:00")))
    second = staff.change(lambda visits: visits.move(id_of(first), time_at("12:00"))).visit.appointment_id
    staff.change(lambda visits: visits.cancel(second), notify=False)
    for visit_id, why in ((NEVER, f"no visit {NEVER}: see"), (id_of(first), "replaced"), (second, "cancelled")):
        with pytest.raises(ChangeRefused, match=why):
            staff.change(partial(change, visit_id=visit_id))


@pytest.mark.requirement("staff-visits-refused")
def test_wrong_leads_and_wrong_states_are_refused_with_the_command_to_use(staff: Staff) -> None:
    asked, booked = (
        staff.take(visit()),
        staff.take(visit(at("10:00")), "S1", customer=customer(email="o@example.com")),
    )
    begun = time_at("10:00").start
    later = time_at("12:00", day=4)
    cases: list[tuple[Callable[[VisitChanges], VisitChange], str, datetime]] = [
        (lambda visits: visits.arrange(NEVER, "handover", later), f"no lead {NEVER}", SOON),
        (lambda visits: visits.arrange(asked["lead_id"], "test_drive", later), "appointments confirm", SOON),
        (lambda visits: visits.move(id_of(asked), later), "appointments confirm", SOON),
        (lambda visits: visits.confirm(id_of(booked), later), "appointments move", SOON),
        (lambda visits: visits.move(id_of(booked), later), "has begun", begun),
        (lambda visits: visits.close(id_of(asked), "done"), "only a confirmed visit", begun),
    ]
    for change, why, now in cases:
        with pytest.raises(ChangeRefused, match=why):
            staff.change(change, now=now)
    lock_at(SOON, staff.setup.store, "ridgeline", erase_lead, booked["lead_id"], consent_too=False)
    with pytest.raises(ChangeRefused, match="was erased"):
        staff.change(lambda visits: visits.arrange(booked["lead_id"], "handover", later))


@pytest.mark.requirement("staff-visits-refused")
def test_the_visit_of_another_dealer_is_unknown(staff: Staff, new_intake: OpenIntake) -> None:
    taken = staff.take(visit(at("10:00")))
    other = Staff(new_intake(msgspec.structs.replace(PROFILE, id="valley")))
    for change in CHANGES.values():
        with pytest.raises(ChangeRefused, match=f"no visit {id_of(taken)}"):
            other.change(partial(change, visit_id=id_of(taken)))
    with pytest.raises(ChangeRefused, match="no lead"):
        other.change(lambda visits: visits.arrange(taken["lead_id"], "handover", time_at("14:00")))
    assert [each.status for each in staff.setup.visits_of(taken["lead_id"])] == ["confirmed"]
