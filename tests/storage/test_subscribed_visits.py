"""The subscribed calendar stays small and cheap with many visits."""

import time
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Engine, event, insert
from tests.soak import SOAK, sqlite_first
from tests.storage.calls import read_at, write_at
from tests.storage.samples import DEALER, MONDAY, storing

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.visits import list_calendar
from dealer_agent.storage.schema import appointments
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token
from dealer_agent.visits.calendar import FUTURE, MOST_VISITS, PAST, subscribed_calendar

SECRET = b"\x02" * 32
PROFILE = Profile(
    id=DEALER,
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(DealerRooftop(name="Ridgeline North", timezone="America/Chicago"),),
)


def fill(store: Store, count: int, *, first: datetime, every: timedelta, status: str, name: str) -> None:
    rows = [
        {
            "dealer_id": DEALER,
            "appointment_id": f"{name}{number:06}",
            "lead_id": "L1",
            "rooftop": "Ridgeline North",
            "kind": "test_drive",
            "status": status,
            "created_at": MONDAY,
            "starts_at": first + number * every,
            "ends_at": first + number * every + timedelta(hours=1),
            "reply": b"{}",
        }
        for number in range(count)
    ]
    with store.write(DEALER) as tx:
        tx.connection.execute(insert(appointments), rows)


@pytest.fixture
def sample_dealer(store: Store, writer: LeadWriter) -> Store:
    writer.submit(DEALER, storing("L1")).result(60)
    write_at(MONDAY, store, DEALER, create_token, "calendar", SECRET, "calendar")
    return store


def calendar(store: Store) -> bytes:
    made = subscribed_calendar(store, PROFILE, SECRET, MONDAY)
    assert made is not None
    return made


MANY = 100_000 if SOAK else 4_000


@sqlite_first()
@pytest.mark.requirement("calendar-bounded")
def test_a_calendar_of_many_visits_stays_small_and_cheap(sample_dealer: Store) -> None:
    minute = timedelta(minutes=1)
    fill(sample_dealer, MOST_VISITS, first=MONDAY, every=minute, status="confirmed", name="A")
    began = time.process_time()
    small = calendar(sample_dealer)
    once = time.process_time() - began
    fill(sample_dealer, MANY // 2, first=MONDAY + minute, every=minute, status="confirmed", name="B")
    fill(sample_dealer, MANY // 4, first=MONDAY + minute, every=minute, status="cancelled", name="C")
    fill(sample_dealer, MANY // 4, first=MONDAY - PAST, every=minute, status="confirmed", name="D")
    read = rows_read(sample_dealer._reader)
    began = time.process_time()
    large = calendar(sample_dealer)
    assert time.process_time() - began < 5 * once + 0.5
    assert large.count(b"BEGIN:VEVENT") == small.count(b"BEGIN:VEVENT") == MOST_VISITS
    assert len(large) < 1024 * MOST_VISITS
    assert len(read) == 1, "one statement fills it"


def rows_read(engine: Engine) -> list[str]:
    """The statements that ask for visits from now on."""
    asked: list[str] = []

    @event.listens_for(engine, "after_cursor_execute")
    def note(_: object, __: object, sql: str, *___: object) -> None:
        if "FROM appointments" in sql:
            asked.append(sql)

    return asked


@sqlite_first()
def test_confirmed_visits_to_come_are_shown_before_all_others(sample_dealer: Store) -> None:
    """Nobody can push a visit out of the calendar by booking and calling off others."""
    day = timedelta(days=1)
    fill(sample_dealer, 2 * MOST_VISITS, first=MONDAY, every=timedelta(minutes=1), status="replaced", name="R")
    fill(sample_dealer, 40, first=MONDAY - PAST - 10 * day, every=day, status="confirmed", name="P")
    fill(sample_dealer, 30, first=MONDAY + 350 * day, every=day, status="confirmed", name="F")
    made = calendar(sample_dealer)
    assert made.count(b"BEGIN:VEVENT") == MOST_VISITS
    assert made.count(b"UID:F") == 16, "those within the horizon"
    assert made.count(b"UID:P") == 0
    assert made.count(b"UID:R") == MOST_VISITS - 16


def test_past_visits_fill_the_rest_of_the_calendar_latest_first(sample_dealer: Store) -> None:
    day = timedelta(days=1)
    fill(sample_dealer, 3, first=MONDAY, every=day, status="confirmed", name="F")
    fill(sample_dealer, 40, first=MONDAY - PAST - 10 * day, every=day, status="confirmed", name="P")
    made = calendar(sample_dealer)
    assert (made.count(b"UID:F"), made.count(b"UID:P")) == (3, 30)
    found = read_at(MONDAY, sample_dealer, DEALER, list_calendar, since=MONDAY - PAST, until=MONDAY + FUTURE, most=8)
    assert [each.appointment.appointment_id for each in found] == [f"P{n:06}" for n in range(35, 40)] + [
        f"F{n:06}" for n in range(3)
    ]
