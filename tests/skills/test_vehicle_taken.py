"""A test drive takes its vehicle as well as a place (docs/protocol.md#one-vehicle-one-buyer). On both databases."""

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, select
from tests.skills.intake_setup import IntakeSetup
from tests.skills.sample_dealers import customer
from tests.skills.test_cancellation import OpenIntake, id_of
from tests.skills.test_customer_actions import cancel, move, see
from tests.skills.visiting import LOT, NOW, at, lead_with_visit, listing, rooftop, visit, windows
from tests.soak import examples
from tests.storage.calls import lock_at

from dealer_agent.dealers.profile import Profile, VisitRules
from dealer_agent.inventory.catalogue import Catalogue
from dealer_agent.leads.visit_times import Slot, quarters_of
from dealer_agent.protocol.errors import AppointmentTimeUnavailable
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.leads.visits import VEHICLE
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.schema import appointments, places
from dealer_agent.visits.booking import MOST_DRIVES
from dealer_agent.visits.changes import ChangeRefused, ChosenTime
from dealer_agent.visits.customer_changes import TimeNotFree, VisitIsOver

pytestmark = pytest.mark.requirement("one-vehicle-one-buyer")

SOON = NOW + timedelta(minutes=5)

TWO_PLACES = Profile(
    id="ridgeline",
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=tuple(
        rooftop(
            name,
            {"test_drive": VisitRules(durations_allowed=(30,), horizon_days=7, places=3), "sales": VisitRules()},
            "crm",
        )
        for name in ("Ridgeline North", "Ridgeline South")
    ),
)
"""A dealer where three customers can drive at one time, but not in one vehicle."""


@pytest.fixture
def intake(new_intake: OpenIntake) -> IntakeSetup:
    return new_intake(TWO_PLACES)


def book(intake: IntakeSetup, clock: str, stock: str = "N1", lot: Catalogue = LOT, **members: Any) -> dict[str, Any]:
    """The response to a new customer who wants to drive a vehicle."""
    return intake.take(lead_with_visit(visit(at(clock)), stock, **members), NOW, lot)


def status(answer: dict[str, Any]) -> str:
    found: str = answer["appointment"]["status"]
    return found


def vehicle_times(intake: IntakeSetup) -> dict[str, set[datetime]]:
    """The quarters of an hour in which each vehicle is taken."""
    taken = defaultdict(set)
    with create_engine(parsed_url(intake.url)).connect() as connection:
        of_vehicles = select(places.c.rooftop, places.c.quarter).where(places.c.kind == VEHICLE)
        for vehicle_id, quarter in connection.execute(of_vehicles):
            taken[vehicle_id].add(quarter)
    return taken


def test_two_buyers_do_not_get_one_vehicle_at_overlapping_times(intake: IntakeSetup) -> None:
    """The times that are proposed are free for the vehicle too. Another vehicle has a place at that time."""
    assert status(book(intake, "10:00")) == "confirmed"
    late = book(intake, "10:30")
    assert late["appointment"]["proposed_times"] == [at("09:00"), at("11:00"), at("11:30")]
    by_window = intake.take(lead_with_visit(windows((at("09:30"), at("11:00")))), NOW, LOT)
    assert [slot["start"] for slot in by_window["appointment"]["proposed_slots"]] == [
        at("09:00"),
        at("11:00"),
        at("11:30"),
    ]
    for clock, stock in (("10:00", "N2"), ("11:00", "N1"), ("09:00", "N1")):
        assert status(book(intake, clock, stock)) == "confirmed"


def test_another_kind_of_visit_and_a_drive_without_a_vehicle_take_none(intake: IntakeSetup) -> None:
    taken = (
        lead_with_visit(visit(at("10:00"), "sales")),
        lead_with_visit(visit(at("10:00")), None),
        lead_with_visit(visit(at("10:00")), None),
    )
    for lead in taken:
        assert status(intake.take(lead, NOW, LOT)) == "confirmed"
    assert vehicle_times(intake) == {}
    assert status(book(intake, "10:00")) == "confirmed"


def test_a_vehicle_without_a_free_time_is_no_time_at_all(new_intake: OpenIntake) -> None:
    """The lead is kept, as for a rooftop without a free place."""
    long: dict[VisitKind, VisitRules] = {"test_drive": VisitRules(duration_minutes=480, horizon_days=7, places=3)}
    intake = new_intake(msgspec.structs.replace(TWO_PLACES, rooftops=(rooftop("Ridgeline North", long, "crm"),)))
    lot = Catalogue.build([listing("N1", "Ridgeline North")])
    whole_week = windows((at("09:00", 2), at("23:00", 9)))
    for _ in range(7):
        assert status(intake.take(lead_with_visit(whole_week), NOW, lot)) == "confirmed"
    with pytest.raises(AppointmentTimeUnavailable):
        intake.take(lead_with_visit(whole_week), NOW, lot)


@pytest.mark.requirement("vehicle-in-demand")
def test_many_strangers_do_not_take_a_vehicle_for_weeks(intake: IntakeSetup) -> None:
    """Staff arrange what is over the bound. Other vehicles are not affected, and a confirmed drive can be moved."""
    whole_week = windows((at("09:00", 2), at("23:00", 9)))
    taken = [intake.take(lead_with_visit(whole_week), NOW, LOT) for _ in range(63)]
    assert [status(answer) for answer in taken] == ["confirmed"] * MOST_DRIVES + ["requested"] * (63 - MOST_DRIVES)
    assert [len(quarters) for quarters in vehicle_times(intake).values()] == [4 * MOST_DRIVES]
    assert status(book(intake, "10:00", "N2")) == "confirmed"
    move(intake, taken[0], at("16:00", 6))
    cancel(intake, taken[1])
    assert [status(intake.take(lead_with_visit(whole_week), NOW, LOT)) for _ in range(2)] == ["confirmed", "requested"]


@pytest.mark.parametrize(
    "named",
    [{"vin": "1HGCY2F5XRA000001"}, {"stock": "N9"}, {"vehicle_id": "unit-9"}],
    ids=["VIN", "stock number", "vehicle_id"],
)
def test_a_vehicle_is_one_whatever_names_it_and_wherever_it_is(intake: IntakeSetup, named: dict[str, str]) -> None:
    """The vehicle moved to the other rooftop between the two requests."""
    here, there = (
        Catalogue.build([listing("N9", place, vehicle_id="unit-9", vin="1HGCY2F5XRA000001")])
        for place in ("Ridgeline North", "Ridgeline South")
    )
    assert status(book(intake, "10:00", "N9", here)) == "confirmed"
    second = intake.take(lead_with_visit(visit(at("10:00")), None, vehicle_of_interest=named), NOW, there)
    assert (status(second), second["dealer"]["name"]) == ("proposed", "Ridgeline South")


def test_a_customer_moves_the_own_drive_to_an_overlapping_time_and_not_to_that_of_another(intake: IntakeSetup) -> None:
    mine, other = book(intake, "10:00"), book(intake, "12:00")
    free = {slot.start.strftime("%H:%M") for slot in see(intake, mine).free if slot.start.day == 3}
    assert {"09:30", "10:30", "11:00", "13:00"} <= free
    assert free.isdisjoint({"11:30", "12:00", "12:30"})
    with pytest.raises(TimeNotFree):
        move(intake, mine, at("11:30"))
    move(intake, mine, at("10:30"))
    with pytest.raises(TimeNotFree):
        move(intake, other, at("11:00"))
    assert status(book(intake, "09:30")) == "confirmed", "the first half hour is free again"


def test_a_buyer_asks_again_for_an_overlapping_time(intake: IntakeSetup) -> None:
    sam = customer(email="sam@example.com")
    first, second = (book(intake, clock, customer=sam) for clock in ("10:00", "10:30"))
    assert (first["lead_id"], status(second)) == (second["lead_id"], "confirmed")
    assert vehicle_times(intake)["stock-N1"] == {
        NOW.replace(day=3, hour=16, minute=30) + quarter * timedelta(minutes=15) for quarter in range(4)
    }


def test_no_force_lets_staff_give_a_vehicle_away_twice(intake: IntakeSetup) -> None:
    first, second = book(intake, "10:00"), book(intake, "12:00")
    onto = ChosenTime(start=datetime.fromisoformat(at("10:40")), forced=True)
    with pytest.raises(ChangeRefused, match=f"visit {id_of(first)}. Choose another time, or move or cancel that visit"):
        intake.intake.change_visit(lambda staff: staff.move(id_of(second), onto), notify=True, now=SOON)
    own = ChosenTime(start=datetime.fromisoformat(at("12:10")))
    intake.intake.change_visit(lambda staff: staff.move(id_of(second), own), notify=True, now=SOON)
    assert status(book(intake, "13:00")) == "proposed", "staff took the vehicle until ten past one"
    intake.cancel_visit(first, SOON)
    intake.intake.change_visit(
        lambda staff: staff.arrange(first["lead_id"], "test_drive", ChosenTime(start=onto.start)), notify=True, now=SOON
    )
    assert status(book(intake, "10:00")) == "proposed"


def test_a_cancelled_drive_and_an_erased_customer_free_the_vehicle(intake: IntakeSetup) -> None:
    cancelled, erased = book(intake, "10:00"), book(intake, "12:00")
    cancel(intake, cancelled)
    lock_at(SOON, intake.store, "ridgeline", erase_lead, erased["lead_id"])
    assert vehicle_times(intake) == {}
    assert [status(book(intake, clock)) for clock in ("10:00", "12:00")] == ["confirmed", "confirmed"]


clocks = st.sampled_from([f"{hour:02}:{minute}" for hour in range(9, 13) for minute in ("00", "15", "30")])
steps = st.one_of(
    st.tuples(st.just("book"), clocks, st.sampled_from(["N1", "S1"]), st.sampled_from([30, 60])),
    st.tuples(st.sampled_from(["move", "staff", "cancel", "erase"]), clocks, st.integers(0, 9), st.just(0)),
)


@pytest.mark.both_databases
@settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(steps, min_size=4, max_size=14))
def test_whatever_buyers_customers_and_staff_do_no_vehicle_has_two_visits_at_once(
    intake: IntakeSetup, steps: list[tuple[str, str, Any, int]]
) -> None:
    """A vehicle is taken exactly while it has a confirmed test drive."""
    answers: list[dict[str, Any]] = []
    for what, clock, which, minutes in steps:
        if what == "book":
            answers.append(intake.take(lead_with_visit(visit(at(clock), duration_minutes=minutes), which), NOW, LOT))
        elif answers:
            _change(intake, what, clock, answers[which % len(answers)])
    with create_engine(parsed_url(intake.url)).connect() as connection:
        drives = connection.execute(
            select(appointments.c.vehicle_id, appointments.c.starts_at, appointments.c.ends_at)
            .where(appointments.c.status == "confirmed")
            .order_by(appointments.c.starts_at)
        ).all()
    taken = defaultdict(set)
    for vehicle_id in ("stock-N1", "stock-S1"):
        of_vehicle = [drive for drive in drives if drive.vehicle_id == vehicle_id]
        assert all(one.ends_at <= other.starts_at for one, other in pairwise(of_vehicle))
        for drive in of_vehicle:
            taken[vehicle_id].update(quarters_of(Slot(drive.starts_at, drive.ends_at)))
    assert vehicle_times(intake) == {vehicle_id: quarters for vehicle_id, quarters in taken.items() if quarters}


def _change(intake: IntakeSetup, what: str, clock: str, answer: dict[str, Any]) -> None:
    """Does something with the newest visit of an answered lead, unless it is refused."""
    newest = intake.visits_of(answer["lead_id"])[-1]
    link = answer | {"appointment": {"appointment_id": newest.appointment_id}}
    time = ChosenTime(start=datetime.fromisoformat(at(clock)), forced=True)
    try:
        if what == "move":
            move(intake, link, at(clock))
        elif what == "cancel":
            cancel(intake, link)
        elif what == "erase":
            lock_at(SOON, intake.store, "ridgeline", erase_lead, answer["lead_id"])
        else:
            again = "move" if newest.status == "confirmed" else "confirm"
            intake.intake.change_visit(
                lambda staff: getattr(staff, again)(newest.appointment_id, time), notify=False, now=SOON
            )
    except (TimeNotFree, VisitIsOver, ChangeRefused):
        pass
