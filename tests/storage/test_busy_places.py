"""The places that are taken, as the lead intake reads them: what is looked at and its surroundings, not the horizon."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.soak import examples
from tests.storage.samples import DEALER, MONDAY, storing

from dealer_agent.leads.records import VisitRecord
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.visits import busy_quarters, occupy_places, record_visit
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import Availability, OtherVisits

QUARTER = timedelta(minutes=15)
NINE = MONDAY.replace(hour=9, minute=0, second=0, microsecond=0)
SPAN = (NINE, NINE + timedelta(days=20))
QUARTERS = int((SPAN[1] - SPAN[0]) / QUARTER)
numbers = st.integers(0, QUARTERS - 1)


class Undo(Exception):  # noqa: N818 - it is how a job leaves nothing behind
    """Ends a job."""


def at(number: int) -> datetime:
    return NINE + number * QUARTER


def visit(number: int, start: datetime) -> VisitRecord:
    return VisitRecord(
        appointment_id=f"A{number}",
        lead_id="L1",
        rooftop="Ridgeline North",
        kind="test_drive",
        status="confirmed",
        created_at=MONDAY,
        reply=b"{}",
        request=None,
        starts_at=start,
        ends_at=start + 2 * QUARTER,
    )


def book(tx: Transaction, starts: Sequence[int]) -> list[VisitRecord]:
    visits = [visit(number, at(start)) for number, start in enumerate(starts)]
    for each in visits:
        assert each.starts_at is not None
        record_visit(tx, each)
        occupy_places(tx, each, [each.starts_at, each.starts_at + QUARTER], None)
    return visits


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(starts=st.lists(numbers, max_size=12), looked_at=st.lists(numbers, max_size=30), ending=st.integers(0, 12))
def test_wherever_somebody_looks_as_many_places_are_taken_as_were_taken(
    writer: LeadWriter, starts: list[int], looked_at: list[int], ending: int
) -> None:
    def job(tx: Transaction) -> None:
        storing("L1")(tx)
        visits = book(tx, starts)
        busy = Availability(partial(busy_quarters, tx, "Ridgeline North", "test_drive"), SPAN)
        less = OtherVisits(busy, "Ridgeline North", 2, {}, visits[:ending])
        for number in looked_at:
            assert busy.get(at(number), 0) == sum(start in (number, number - 1) for start in starts)
            assert less.get(at(number), 0) == sum(start in (number, number - 1) for start in starts[ending:])
        raise Undo

    with pytest.raises(Undo):
        writer.submit(DEALER, job).result(60)


def test_little_is_read_for_a_time_that_is_free_and_more_for_who_looks_further() -> None:
    read: list[timedelta] = []

    def noted(since: datetime, until: datetime) -> dict[datetime, int]:
        read.append(until - since)
        return {}

    busy = Availability(noted, SPAN)
    asked = NINE + timedelta(days=10)
    for number in range(4):
        busy.get(asked + number * QUARTER, 0)
    assert read == [timedelta(hours=2)]
    busy.get(asked + timedelta(hours=20), 0)
    busy.get(asked, 0)
    assert read[1:] == [timedelta(days=2)]
    for number in range(QUARTERS):
        busy.get(at(number), 0)
    assert read[2:] == [SPAN[1] - SPAN[0]]
