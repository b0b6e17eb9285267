"""A wrong clock deletes nothing: rows are deleted by age only when the clock is plausible."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text
from tests.storage.samples import DEALER, MONDAY, VAULT, first_answer, import_rows, row, stock_of, storing

from dealer_agent.storage import ClockDoubtful, LeadWriter, Store, record_idempotency, record_refusal
from dealer_agent.storage.clock import BACKWARD, FORWARD

DAY = timedelta(days=1)
AHEAD, BEHIND = MONDAY + 800 * DAY, MONDAY - 800 * DAY


def dispose(store: Store, now: datetime) -> None:
    store.dispose(DEALER, leads_unused_since=now - 730 * DAY, consents_before=now - 1826 * DAY, now=now)


def purge(store: Store, now: datetime) -> None:
    store.purge(DEALER, refusals_before=now - 90 * DAY, accesses_before=now - 730 * DAY, now=now)


def counts(store: Store) -> list[int]:
    told = "SELECT count(customer) FROM leads", "SELECT count(*) FROM idempotency", "SELECT count(*) FROM refusals"
    with store._reading() as connection:
        return [connection.execute(text(each)).scalar_one() for each in (*told, "SELECT count(*) FROM accesses")]


@pytest.fixture
def filled(store: Store, writer: LeadWriter) -> Store:
    """A store in which the newest row is from MONDAY."""
    writer.submit(DEALER, storing("L1")).result(60)
    writer.submit(DEALER, lambda c: record_idempotency(c, VAULT, DEALER, first_answer("key"))).result(60)
    writer.submit(DEALER, lambda c: record_refusal(c, DEALER, MONDAY, "INVALID_CONSENT")).result(60)
    store.log_access(DEALER, MONDAY, "Alex", "leads list", leads=1)
    return store


@pytest.mark.requirement("clock-doubtful")
@pytest.mark.parametrize("noted", [True, False], ids=["the service ran", "the service never ran"])
@pytest.mark.parametrize("now", [AHEAD, BEHIND], ids=["ahead", "behind"])
@pytest.mark.parametrize("delete", [dispose, purge])
def test_a_clock_that_is_wrong_by_800_days_deletes_nothing(
    filled: Store, delete: Callable[[Store, datetime], None], now: datetime, noted: bool
) -> None:
    if noted:
        filled.trust_clock(DEALER, MONDAY)
    with pytest.raises(ClockDoubtful, match=r"800 days (after|before) .*--clock-is-right"):
        delete(filled, now)
    assert counts(filled) == [1, 1, 1, 1]


def test_rows_that_are_stored_while_the_clock_is_wrong_do_not_make_it_plausible(
    filled: Store, writer: LeadWriter
) -> None:
    filled.trust_clock(DEALER, MONDAY)
    writer.submit(DEALER, storing("L2", AHEAD, contacts=["pat@example.com"])).result(60)
    filled.log_access(DEALER, AHEAD, "Alex", "leads list", leads=1)
    with pytest.raises(ClockDoubtful):
        dispose(filled, AHEAD)
    assert counts(filled)[0] == 2


def test_a_person_who_confirms_the_clock_lets_disposal_go_on(filled: Store) -> None:
    """A shop that was closed for two years is not stuck."""
    filled.trust_clock(DEALER, MONDAY)
    filled.confirm_clock(DEALER, AHEAD)
    dispose(filled, AHEAD)
    purge(filled, AHEAD)
    assert counts(filled) == [0, 0, 0, 1], "the access log has the entry that says what was deleted"
    dispose(filled, AHEAD + DAY)


def test_a_corrected_clock_is_plausible_at_once(filled: Store) -> None:
    filled.trust_clock(DEALER, MONDAY)
    with pytest.raises(ClockDoubtful):
        purge(filled, AHEAD)
    purge(filled, MONDAY + DAY)


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
    store.trust_clock(DEALER, MONDAY)
    assert (store.clock_problem(DEALER, now) is None) is believed


def test_a_clock_that_is_behind_a_little_does_not_set_the_trusted_time_back(store: Store) -> None:
    store.trust_clock(DEALER, MONDAY)
    store.trust_clock(DEALER, MONDAY - BACKWARD)
    assert store.clock_problem(DEALER, MONDAY + FORWARD) is None


def test_the_clock_of_a_service_that_runs_for_years_stays_plausible(filled: Store) -> None:
    for days in range(0, 800, 7):
        purge(filled, MONDAY + timedelta(days=days))
    assert counts(filled)[1:3] == [0, 0]


def test_any_clock_is_plausible_for_a_dealer_without_rows(store: Store) -> None:
    assert store.clock_problem(DEALER, AHEAD) is None


def test_each_dealer_has_a_trusted_time_of_its_own(filled: Store) -> None:
    filled.confirm_clock("lakeside", AHEAD)
    with pytest.raises(ClockDoubtful):
        dispose(filled, AHEAD)


def test_an_import_at_a_wrong_time_forgets_no_sold_unit(store: Store) -> None:
    import_rows(store, [row("V1"), row("V2")], at=MONDAY)
    import_rows(store, [row("V2")], at=MONDAY + DAY)
    store.trust_clock(DEALER, MONDAY + DAY)
    for wrong in (AHEAD, AHEAD + DAY):
        import_rows(store, [row("V2")], at=wrong, remember_days=90)
    assert len(stock_of(store, DEALER, remember_days=9999, now=MONDAY).gone) == 1
