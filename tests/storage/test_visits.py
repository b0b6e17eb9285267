"""Visits, and who gets which place (docs/protocol.md#appointments). On both databases."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from sqlalchemy import create_engine, select
from tests.soak import sqlite_first
from tests.storage.calls import at_time, of_dealer
from tests.storage.samples import CIPHER, DEALER, MONDAY, TUESDAY, lead, storing

from dealer_agent.leads.records import VisitRecord
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.errors import AlreadyStored, translating
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.visits import (
    BookedVisit,
    booked_visits,
    busy_quarters,
    end_visits,
    find_visit,
    give_own_places,
    list_booked,
    list_waiting,
    occupy_places,
    record_visit,
    sharing_places_of,
    visits_of,
)
from dealer_agent.storage.schema import appointments, places
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import OneCipher, Transaction

QUARTER = timedelta(minutes=15)
TEN = MONDAY.replace(hour=10, minute=0, second=0, microsecond=0) + timedelta(days=1)
REQUEST = b'{"appointment_type":"test_drive","notes":"SECRETMARK"}'

Result = TypeVar("Result")


def quarters(start: datetime, count: int) -> list[datetime]:
    return [start + number * QUARTER for number in range(count)]


def visit(appointment_id: str, **more: Any) -> VisitRecord:
    values: dict[str, Any] = {
        "appointment_id": appointment_id,
        "lead_id": "L1",
        "rooftop": "Ridgeline North",
        "kind": "test_drive",
        "status": "confirmed",
        "created_at": MONDAY,
        "reply": b'{"status":"confirmed"}',
        "request": REQUEST,
        "starts_at": TEN,
        "ends_at": TEN + timedelta(hours=1),
    }
    return VisitRecord(**(values | more))


def in_one(writer: LeadWriter, job: Callable[[Transaction], Result]) -> Result:
    return writer.submit(DEALER, job).result(60)


def booking(record: VisitRecord, of: int = 1, count: int = 4) -> Callable[[Transaction], None]:
    """A job that stores a visit and takes a place in each quarter of its hour."""

    def job(tx: Transaction) -> None:
        record_visit(tx, record)
        assert record.starts_at is not None
        occupy_places(tx, record, quarters(record.starts_at, count), of)

    return job


def recording(*records: VisitRecord) -> Callable[[Transaction], None]:
    """A job that stores visits without places."""

    def job(tx: Transaction) -> None:
        for record in records:
            record_visit(tx, record)

    return job


def ending(ids: Sequence[str], how: Any = "cancelled", dealer_id: str = DEALER) -> Callable[[Transaction], int]:
    """A job that ends visits on Tuesday."""
    return lambda tx: end_visits(at_time(of_dealer(tx, dealer_id), TUESDAY), ids, how)


@pytest.fixture(autouse=True)
def a_lead(writer: LeadWriter) -> None:
    in_one(writer, storing("L1"))


def busy(writer: LeadWriter, **more: Any) -> dict[datetime, int]:
    sought: dict[str, Any] = {
        "rooftop": "Ridgeline North",
        "kind": "test_drive",
        "since": TEN - timedelta(hours=1),
        "until": TEN + timedelta(hours=9),
    } | more
    dealer_id = sought.pop("dealer_id", DEALER)
    return in_one(writer, lambda tx: busy_quarters(of_dealer(tx, dealer_id), **sought))


def test_a_visit_is_read_as_it_was_stored_and_its_request_is_encrypted_in_the_database(
    store: Store, writer: LeadWriter, database_url: str
) -> None:
    shared = visit("A2", status="requested", starts_at=None, ends_at=None, shares="A1", created_at=TUESDAY)
    in_one(writer, booking(visit("A1")))
    in_one(writer, recording(shared))
    found = in_one(writer, lambda tx: visits_of(tx, "L1"))
    assert found == [visit("A1"), shared]
    assert in_one(writer, lambda tx: visits_of(tx, "L2")) == []
    with create_engine(parsed_url(database_url)).connect() as connection:
        kept = [bytes(sealed) for sealed in connection.execute(select(appointments.c.request)).scalars()]
    assert len(kept) == 2
    assert not any(b"SECRETMARK" in sealed for sealed in kept)


@sqlite_first()
def test_busy_quarters_are_those_of_the_rooftop_the_kind_and_the_stretch(writer: LeadWriter) -> None:
    in_one(writer, booking(visit("A1"), of=2))
    in_one(writer, booking(visit("A2", starts_at=TEN + 2 * QUARTER), of=2))
    assert busy(writer) == dict(zip(quarters(TEN, 6), (1, 1, 2, 2, 1, 1), strict=True))
    assert busy(writer, since=TEN + QUARTER, until=TEN + 3 * QUARTER) == {TEN + QUARTER: 1, TEN + 2 * QUARTER: 2}
    for elsewhere in ({"rooftop": "Ridgeline South"}, {"kind": "service"}, {"dealer_id": "lakeside"}):
        assert busy(writer, **elsewhere) == {}


@sqlite_first()
@pytest.mark.requirement("confirm-free-place")
def test_there_are_as_many_places_as_the_rooftop_has_and_no_more(writer: LeadWriter) -> None:
    for number in range(3):
        in_one(writer, booking(visit(f"A{number}"), of=3))
    overlapping = visit("A4", starts_at=TEN + 3 * QUARTER)
    with pytest.raises(AlreadyStored):
        in_one(writer, booking(overlapping, of=3))
    assert max(busy(writer).values()) == 3
    found = in_one(writer, lambda tx: visits_of(tx, "L1"))
    assert [record.appointment_id for record in found] == ["A0", "A1", "A2"], "nothing of the fourth is stored"
    for free in (visit("A5", starts_at=TEN + 4 * QUARTER), visit("A6", kind="sales"), visit("A7", rooftop="South")):
        in_one(writer, booking(free, of=1))


@sqlite_first()
def test_a_dealer_with_fewer_places_than_before_keeps_what_was_booked_and_books_no_more(writer: LeadWriter) -> None:
    for number in range(3):
        in_one(writer, booking(visit(f"A{number}"), of=3))
    in_one(writer, ending(["A0"]))
    with pytest.raises(AlreadyStored):
        in_one(writer, booking(visit("A4"), of=2))
    in_one(writer, ending(["A1"]))
    in_one(writer, booking(visit("A5"), of=2))
    assert set(busy(writer).values()) == {2}


@sqlite_first()
@pytest.mark.requirement("confirm-free-place", "one-vehicle-one-buyer")
@pytest.mark.parametrize(
    "other",
    [visit("A2"), visit("A2", rooftop="Ridgeline South", vehicle_id="unit-9")],
    ids=["place", "vehicle at another rooftop"],
)
def test_of_two_who_look_at_once_the_primary_key_lets_one_have_the_place(
    writer: LeadWriter, database_url: str, other: VisitRecord
) -> None:
    """Without the dealer's lock, which would let one look after the other."""
    both_looked = threading.Barrier(2, timeout=60)
    outcomes: list[str] = []

    def book(record: VisitRecord) -> None:
        engine = writer_engine(parsed_url(database_url))
        try:
            with translating(), engine.begin() as connection:
                tx = Transaction(connection, DEALER, MONDAY, OneCipher(CIPHER))
                record_visit(tx, record)
                if connection.dialect.name == "postgresql":
                    both_looked.wait()
                occupy_places(tx, record, quarters(TEN, 4), 1)
            outcomes.append("booked")
        except AlreadyStored:
            outcomes.append("too late")
        finally:
            engine.dispose()

    records = (replace(other, appointment_id="A1", rooftop="Ridgeline North"), other)
    buyers = [threading.Thread(target=book, args=(record,)) for record in records]
    for buyer in buyers:
        buyer.start()
    for buyer in buyers:
        buyer.join(120)
    assert sorted(outcomes) == ["booked", "too late"]
    assert in_one(writer, lambda tx: len(visits_of(tx, "L1"))) == 1


@sqlite_first()
@pytest.mark.parametrize("how", ["replaced", "cancelled"])
def test_a_visit_that_ends_frees_its_places_and_takes_what_shares_them_along(writer: LeadWriter, how: Any) -> None:
    in_one(writer, booking(visit("A1")))
    part = visit("A2", kind="trade_in", shares="A1")
    other = visit("A3", kind="trade_in")
    in_one(writer, recording(part, other))
    ended = [in_one(writer, ending(ids, how)) for ids in ([], ["A1"], ["A1", "A2"])]
    assert ended == [0, 2, 0]
    assert busy(writer) == {}
    found = in_one(writer, lambda tx: visits_of(tx, "L1"))
    over = {"status": how, "cancelled_at": TUESDAY}
    assert found == [replace(visit("A1"), **over), replace(part, **over), other]
    assert [record.is_active for record in found] == [False, False, True]


@sqlite_first()
def test_a_visit_of_another_dealer_is_not_ended(writer: LeadWriter) -> None:
    in_one(writer, booking(visit("A1")))
    assert in_one(writer, ending(["A1"], dealer_id="lakeside")) == 0
    assert len(busy(writer)) == 4


@sqlite_first()
def test_what_is_part_of_a_visit_is_found_as_long_as_it_stands(writer: LeadWriter) -> None:
    part = visit("A2", kind="trade_in", shares="A1")
    ended = visit("A3", kind="trade_in", shares="A1", status="replaced")
    in_one(writer, recording(part, ended))
    assert in_one(writer, lambda tx: sharing_places_of(tx, [])) == []
    assert in_one(writer, lambda tx: sharing_places_of(tx, ["A0", "A1"])) == [part]


def test_one_visit_is_found_by_its_id_though_it_has_ended(writer: LeadWriter) -> None:
    ended = visit("A1", status="cancelled", cancelled_at=TUESDAY)
    in_one(writer, recording(ended, visit("A2")))
    assert in_one(writer, lambda tx: find_visit(tx, "A1")) == ended
    assert in_one(writer, lambda tx: find_visit(tx, "A3")) is None
    assert in_one(writer, lambda tx: find_visit(of_dealer(tx, "lakeside"), "A1")) is None


def test_what_other_leads_have_in_a_visit_goes_on_without_it_in_places_of_its_own(writer: LeadWriter) -> None:
    """Also where every place for such visits is taken: the time was promised."""
    in_one(writer, storing("L2", contacts=["pat@example.com"]))
    full = visit("A0", kind="trade_in")
    own = visit("A2", kind="trade_in", shares="A1")
    others = [
        visit("A3", kind="trade_in", shares="A1", lead_id="L2", starts_at=TEN + timedelta(minutes=10)),
        visit("A4", kind="trade_in", shares="A1", lead_id="L2", status="cancelled"),
        visit("A5", kind="trade_in", shares="A9", lead_id="L2"),
    ]
    in_one(writer, booking(full))
    in_one(writer, booking(visit("A1")))
    in_one(writer, recording(own, *others))
    in_one(writer, lambda tx: give_own_places(tx, [], ["L1"]))
    in_one(writer, lambda tx: give_own_places(tx, ["A1"], ["L1"]))
    in_one(writer, ending(["A1"]))
    found = in_one(writer, lambda tx: visits_of(tx, "L2"))
    assert found == [replace(others[0], shares=None), *others[1:]]
    (mine,) = in_one(writer, lambda tx: [one for one in visits_of(tx, "L1") if one.shares])
    assert (mine.status, mine.shares) == ("cancelled", "A1")
    assert busy(writer) == {}
    assert set(busy(writer, kind="trade_in").values()) == {2}
    in_one(writer, ending(["A0", "A3"]))
    assert busy(writer, kind="trade_in") == {}


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (visit("A1"), True),
        (visit("A1", ends_at=MONDAY + QUARTER), True),
        (visit("A1", ends_at=MONDAY), False),
        (visit("A1", kind="sales"), False),
        (visit("A1", status="cancelled"), False),
        (visit("A1", status="proposed", starts_at=None, ends_at=None), False),
        (visit("A1", lead_id="L2"), False),
    ],
)
def test_a_customers_booked_visits_are_those_that_stand_and_are_not_over(
    writer: LeadWriter, record: VisitRecord, found: bool
) -> None:
    in_one(writer, storing("L2", contacts=["pat@example.com"]))
    in_one(writer, recording(record))

    def look(lead_ids: Sequence[str]) -> list[BookedVisit]:
        return in_one(writer, lambda tx: booked_visits(at_time(tx, MONDAY), lead_ids, "test_drive"))

    assert record.starts_at is None or record.ends_at is not None
    told = [BookedVisit("A1", "Ridgeline North", record.kind, record.starts_at, record.ends_at)] if found else []  # type: ignore[arg-type]
    assert look(["L0", "L1"]) == told
    assert look([]) == []


def test_visits_are_listed_in_the_order_of_time_with_whom_and_what_they_are_about(writer: LeadWriter) -> None:
    later = visit("A1", starts_at=TEN + timedelta(days=1), ends_at=TEN + timedelta(days=1, hours=1))
    earlier = visit("A2", status="cancelled", cancelled_at=TUESDAY)
    gone_by = visit("A3", starts_at=TEN - timedelta(days=40), ends_at=TEN - timedelta(days=40))
    waiting = [
        visit(f"W{number}", status=status, starts_at=None, ends_at=None, created_at=MONDAY + number * QUARTER)
        for number, status in enumerate(("requested", "proposed", "unavailable"))
    ]
    over = visit("W3", status="replaced", starts_at=None, ends_at=None)
    records = (later, earlier, gone_by, *reversed(waiting), over)
    in_one(writer, recording(*records))
    booked = in_one(writer, lambda tx: list_booked(tx, TEN - timedelta(days=30)))
    customer = lead("L1").customer
    assert booked == [(earlier, customer, None, "Ridgeline North"), (later, customer, None, "Ridgeline North")]
    asked = in_one(writer, lambda tx: list_waiting(tx, MONDAY))
    assert asked == [(one, customer, None, "Ridgeline North") for one in waiting]
    assert in_one(writer, lambda tx: list_waiting(tx, MONDAY + QUARTER)) == asked[1:]


def test_places_are_numbered_within_what_the_rooftop_has(writer: LeadWriter, database_url: str) -> None:
    for number in range(3):
        in_one(writer, booking(visit(f"A{number}"), of=3, count=1))
    with create_engine(parsed_url(database_url)).connect() as connection:
        assert sorted(connection.execute(select(places.c.place)).scalars()) == [0, 1, 2]
