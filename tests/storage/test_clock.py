"""A wrong clock deletes nothing: rows are deleted by age only when the clock is plausible."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import at_time, lock_at, read_at, write_at
from tests.storage.samples import DEALER, MONDAY, first_answer, import_rows, row, stock_of, storing

from dealer_agent.storage.clock import BACKWARD, FORWARD, clock_problem, confirm_clock, trust_clock
from dealer_agent.storage.errors import ClockUnreliable
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_refusal
from dealer_agent.storage.privacy.accesses import log_access
from dealer_agent.storage.privacy.erasure import dispose, purge
from dealer_agent.storage.store import Store

DAY = timedelta(days=1)
AHEAD, BEHIND = MONDAY + 800 * DAY, MONDAY - 800 * DAY


def dispose_at(store: Store, now: datetime) -> None:
    dispose(store, DEALER, leads_unused_since=now - 730 * DAY, consents_before=now - 1826 * DAY, now=now)


def purge_at(store: Store, now: datetime) -> None:
    purge(
        store,
        DEALER,
        refusals_before=now - 90 * DAY,
        accesses_before=now - 730 * DAY,
        counts_before=now - 730 * DAY,
        now=now,
    )


def counts(store: Store) -> list[int]:
    told = "SELECT count(customer) FROM leads", "SELECT count(*) FROM idempotency", "SELECT count(*) FROM refusals"
    with store.read(DEALER) as tx:
        return [tx.connection.execute(text(each)).scalar_one() for each in (*told, "SELECT count(*) FROM accesses")]


@pytest.fixture
def filled(store: Store, writer: LeadWriter) -> Store:
    """A store in which the newest row is from MONDAY."""
    writer.submit(DEALER, storing("L1")).result(60)
    writer.submit(DEALER, first_answer("key")).result(60)
    writer.submit(DEALER, lambda tx: record_refusal(at_time(tx, MONDAY), "INVALID_CONSENT")).result(60)
    lock_at(MONDAY, store, DEALER, log_access, "Alex", "leads list", leads=1)
    return store


@sqlite_first()
@pytest.mark.requirement("clock-doubtful")
@pytest.mark.parametrize("noted", [True, False], ids=["the service ran", "the service never ran"])
@pytest.mark.parametrize("now", [AHEAD, BEHIND], ids=["ahead", "behind"])
@pytest.mark.parametrize("delete", [dispose_at, purge_at])
def test_a_clock_that_is_wrong_by_800_days_deletes_nothing(
    filled: Store, delete: Callable[[Store, datetime], None], now: datetime, noted: bool
) -> None:
    if noted:
        write_at(MONDAY, filled, DEALER, trust_clock)
    with pytest.raises(ClockUnreliable, match=r"800 days (after|before) .*--clock-is-right"):
        delete(filled, now)
    assert counts(filled) == [1, 1, 1, 1]


@sqlite_first()
def test_rows_that_are_stored_while_the_clock_is_wrong_do_not_make_it_plausible(
    filled: Store, writer: LeadWriter
) -> None:
    write_at(MONDAY, filled, DEALER, trust_clock)
    writer.submit(DEALER, storing("L2", AHEAD, contacts=["pat@example.com"])).result(60)
    lock_at(AHEAD, filled, DEALER, log_access, "Alex", "leads list", leads=1)
    with pytest.raises(ClockUnreliable):
        dispose_at(filled, AHEAD)
    assert counts(filled)[0] == 2


def test_a_person_who_confirms_the_clock_lets_disposal_go_on(filled: Store) -> None:
    """A sample dealer that was closed for two years is not stuck."""
    write_at(MONDAY, filled, DEALER, trust_clock)
    write_at(AHEAD, filled, DEALER, confirm_clock)
    dispose_at(filled, AHEAD)
    purge_at(filled, AHEAD)
    assert counts(filled) == [0, 0, 0, 1], "the access log has the entry that says what was deleted"
    dispose_at(filled, AHEAD + DAY)


@sqlite_first()
def test_a_corrected_clock_is_plausible_at_once(filled: Store) -> None:
    write_at(MONDAY, filled, DEALER, trust_clock)
    with pytest.raises(ClockUnreliable):
        purge_at(filled, AHEAD)
    purge_at(filled, MONDAY + DAY)


@sqlite_first()
@pytest.mark.parametrize(
    ("now", "believed"),
    [
        (MONDAY + FORWARD, True),
        (MONDAY + FORWARD + timedelta(seconds=1), False),
        (MONDAY - BACKWARD, True),
        (MONDAY - BACKWARD - timedelta(seconds=1), False),
    ],
)
def test_a_service_may_be_off_for_two_weeks_and_clocks_may_differ_by_a_day(
    store: Store, now: datetime, believed: bool
) -> None:
    write_at(MONDAY, store, DEALER, trust_clock)
    assert (read_at(now, store, DEALER, clock_problem) is None) is believed


@sqlite_first()
def test_a_clock_that_is_behind_a_little_does_not_set_the_trusted_time_back(store: Store) -> None:
    write_at(MONDAY, store, DEALER, trust_clock)
    write_at(MONDAY - BACKWARD, store, DEALER, trust_clock)
    assert read_at(MONDAY + FORWARD, store, DEALER, clock_problem) is None


@sqlite_first()
def test_the_clock_of_a_service_that_runs_for_years_stays_plausible(filled: Store) -> None:
    for days in range(0, 800, 7):
        purge_at(filled, MONDAY + timedelta(days=days))
    assert counts(filled)[1:3] == [0, 0]


@sqlite_first()
def test_any_clock_is_plausible_for_a_dealer_without_rows(store: Store) -> None:
    assert read_at(AHEAD, store, DEALER, clock_problem) is None


@sqlite_first()
def test_each_dealer_has_a_trusted_time_of_its_own(filled: Store) -> None:
    write_at(AHEAD, filled, "lakeside", confirm_clock)
    with pytest.raises(ClockUnreliable):
        dispose_at(filled, AHEAD)


@sqlite_first()
def test_an_import_at_a_wrong_time_forgets_no_sold_unit(store: Store) -> None:
    import_rows(store, [row("V1"), row("V2")], at=MONDAY)
    import_rows(store, [row("V2")], at=MONDAY + DAY)
    write_at(MONDAY + DAY, store, DEALER, trust_clock)
    for wrong in (AHEAD, AHEAD + DAY):
        import_rows(store, [row("V2")], at=wrong, remember_days=90)
    assert len(stock_of(store, DEALER, remember_days=9999, now=MONDAY).gone) == 1
