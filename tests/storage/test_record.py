"""The record has the stock of every revision, as buyers saw it (docs/how-to/record.md)."""

from collections import Counter
from datetime import timedelta
from itertools import count
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.feeds.recorded_days import REMEMBER_DAYS, VINS, RecordedDays, changes, dealer_named, seen_in
from tests.soak import examples
from tests.storage.calls import read

from dealer_agent.storage.stock.record import history_of, record_start, revision_at
from dealer_agent.storage.stock.recorded_units import prune_record
from dealer_agent.storage.store import Store

SAME_STORE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(60),
    deadline=None,
)
numbers = count()


def days_of(store: Store) -> RecordedDays:
    return RecordedDays(store, dealer_named(f"dealer-{next(numbers)}"))


_one, _two = (dict.fromkeys(VINS[:many], (20000, "North", False)) for many in (1, 2))
FORGOTTEN = [("import", _two, "", 1), ("import", _one, "", 1), ("import", _two | _one, "", 1), ("import", _one, "", 1)]
FORGOTTEN += [("import", _one, "", 70), ("import", _two, "", 1)]
UNDONE = [("import", _two, "", 1), ("import", _one, "", 1), ("undo", _one, "", 1), ("import North", _one, "", 1)]


@SAME_STORE
@example(FORGOTTEN)
@example(UNDONE)
@given(st.lists(changes, min_size=1, max_size=8))
def test_the_stock_of_every_second_is_made_again_as_buyers_saw_it(store: Store, done: list[Any]) -> None:
    days = days_of(store)
    for change in done:
        days.change(*change)
    for revision, (seen, at) in days.seen.items():
        assert read(store, days.profile.id, revision_at, at + timedelta(minutes=1)) == revision
        assert seen_in(days.recorded(revision, at)) == seen


@SAME_STORE
@given(st.lists(changes, min_size=1, max_size=8), st.integers(0, 8))
def test_pruning_keeps_what_later_stocks_need_and_nothing_else(store: Store, done: list[Any], keep_days: int) -> None:
    days = days_of(store)
    for change in done:
        days.change(*change)
    dealer = days.profile.id
    prune_record(store, dealer, now=days.now, keep_days=keep_days, remember_days=REMEMBER_DAYS)
    start = read(store, dealer, record_start)
    assert start == read(store, dealer, revision_at, days.now - timedelta(days=keep_days))
    for revision, (seen, at) in days.seen.items():
        if revision >= start:
            assert seen_in(days.recorded(revision, at)) == seen
    before = days.now - timedelta(days=keep_days + REMEMBER_DAYS)
    for vin in VINS:
        kept = read(store, dealer, history_of, f"vin-{vin}")
        old = Counter(each.action == "sold" for each in kept if each.revision < start and each.updated_at < before)
        assert old[True] <= 1
        assert old[False] <= 1
