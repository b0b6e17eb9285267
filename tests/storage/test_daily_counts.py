"""The counts of a day add up, are bounded, and are deleted by age. A monthly report is claimed by one process."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.soak import examples
from tests.storage.calls import write_at
from tests.storage.samples import DEALER, MONDAY, storing

from dealer_agent.storage.clock import confirm_clock
from dealer_agent.storage.daily_counts import (
    MOST_ITEMS,
    OTHER,
    SUBJECTS,
    Subject,
    add_counts,
    first_day,
    requests_by_day,
    sum_counts,
)
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.monthly_reports import LeadCounts, count_leads
from dealer_agent.storage.privacy.erasure import purge
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("daily counts and monthly reports")

FIRST = date(2026, 3, 1)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)

Parts = list[tuple[int, dict[Subject, dict[str, int]]]]
tallies = st.dictionaries(
    st.sampled_from(SUBJECTS[:4]), st.dictionaries(st.sampled_from(["a", "b", OTHER]), st.integers(1, 9)), max_size=3
)


@given(st.lists(st.tuples(st.integers(0, 5), tallies), max_size=8), st.integers(0, 5), st.integers(0, 5))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(60),
    deadline=None,
)
def test_the_sum_of_a_period_is_the_sum_of_what_was_added_on_its_days(
    store: Store, parts: Parts, first: int, length: int
) -> None:
    with store.write(DEALER) as tx:
        tx.connection.execute(text("DELETE FROM daily_counts"))
    expected: dict[Subject, Counter[str]] = {subject: Counter() for subject in SUBJECTS}
    for offset, tally in parts:
        with store.write(DEALER) as tx:
            add_counts(tx, FIRST + offset * DAY, tally)
        if first <= offset <= first + length:
            for subject, numbers in tally.items():
                expected[subject].update(numbers)
    with store.read(DEALER) as tx:
        assert sum_counts(tx, FIRST + first * DAY, FIRST + (first + length) * DAY) == expected
    with store.read("lakeside") as tx:
        assert not any(sum_counts(tx, FIRST, FIRST + 99 * DAY).values()), "they are those of one dealer"


def test_the_rows_of_a_day_are_bounded_and_nothing_is_lost(store: Store) -> None:
    for first in (0, 60, 120):
        with store.write(DEALER) as tx:
            add_counts(tx, FIRST, {"make": {f"make {number}": number + 1 for number in range(first, first + 60)}})
    with store.write(DEALER) as tx:
        add_counts(tx, FIRST, {"make": {"make 0": 1, "one more": 1}})
    with store.read(DEALER) as tx:
        found = sum_counts(tx, FIRST, FIRST)["make"]
    assert len(found) == MOST_ITEMS + 1
    assert sum(found.values()) == sum(range(1, 181)) + 2
    assert found["make 0"] == 2
    assert "make 119" in found, "of the items that come together, the most frequent get the free rows"
    assert "make 60" not in found


def test_the_requests_of_a_day_are_those_of_all_skills(store: Store) -> None:
    for offset in (0, 2):
        with store.write(DEALER) as tx:
            add_counts(tx, FIRST + offset * DAY, {"requests": {"a OK": 2, "b OK": offset + 1}, "make": {"Honda": 7}})
    with store.read(DEALER) as tx:
        assert requests_by_day(tx, FIRST, FIRST + 9 * DAY) == {FIRST: 3, FIRST + 2 * DAY: 5}
        assert first_day(tx) == FIRST


def test_counts_are_deleted_by_age(store: Store) -> None:
    for offset in range(4):
        with store.write(DEALER) as tx:
            add_counts(tx, FIRST + offset * DAY, {"make": {"Honda": 1}})
    with store.write("lakeside") as tx:
        add_counts(tx, FIRST, {"make": {"Honda": 1}})
    now = datetime(2026, 3, 9, tzinfo=UTC)
    write_at(now, store, DEALER, confirm_clock)
    purge(store, DEALER, refusals_before=now, accesses_before=now, counts_before=now - 6 * DAY, now=now)
    with store.read(DEALER) as tx:
        assert first_day(tx) == date(2026, 3, 3)
    with store.read("lakeside") as tx:
        assert first_day(tx) == FIRST


def test_leads_and_visits_of_a_period_are_counted(store: Store, writer: LeadWriter) -> None:
    for lead_id, at in (("L1", MONDAY), ("L2", MONDAY + DAY), ("L3", MONDAY + 2 * DAY)):
        writer.submit(DEALER, storing(lead_id, at)).result()
    with store.write(DEALER) as tx:
        for number, (status, confirmed, cancelled) in enumerate(
            [("confirmed", True, 0), ("proposed", False, 0), ("replaced", True, 1), ("cancelled", True, 1)]
        ):
            tx.connection.execute(
                text(
                    "INSERT INTO appointments (dealer_id, appointment_id, lead_id, rooftop, kind, status, created_at,"
                    " starts_at, cancelled_at, reply)"
                    " VALUES (:dealer, :id, 'L1', 'North', 'sales', :status, :at, :starts, :cancelled, :reply)"
                ),
                {
                    "dealer": DEALER,
                    "id": f"A{number}",
                    "status": status,
                    "at": _microseconds(MONDAY + number * HOUR),
                    "starts": _microseconds(MONDAY + 9 * DAY) if confirmed else None,
                    "cancelled": _microseconds(MONDAY + 3 * DAY) if cancelled else None,
                    "reply": b"{}",
                },
            )

    def counted(since: datetime, until: datetime) -> LeadCounts:
        with store.read(DEALER) as tx:
            return count_leads(tx, since, until)

    assert counted(MONDAY, MONDAY + 2 * DAY) == LeadCounts(leads=2, visits=3, confirmed=2, cancelled=0)
    assert counted(MONDAY + 3 * DAY, MONDAY + 4 * DAY) == LeadCounts(leads=0, visits=0, confirmed=0, cancelled=1)


def _microseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000)
