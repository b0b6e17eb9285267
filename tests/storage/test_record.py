"""The record has the stock of every revision, as buyers saw it (docs/how-to/record.md)."""

from collections import Counter
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.feeds.recorded_days import REMEMBER_DAYS, VINS, Cars, RecordedDays, changes, dealer_named, seen_in
from tests.soak import examples, sqlite_first
from tests.storage.calls import read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER

from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.database_url import database_url as parse
from dealer_agent.storage.installation.dealer_registry import copy_dealer
from dealer_agent.storage.migrate import migrate
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


@sqlite_first()
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


OLDER = (
    "DROP TABLE recorded_units",
    "DROP TABLE record_starts",
    "DROP TABLE recorded_replies",
    "DROP TABLE reply_settings",
    "DROP TABLE quotes",
    "DROP TABLE holds",
    "ALTER TABLE imports DROP COLUMN current_at",
    "ALTER TABLE imports DROP COLUMN good_since",
    "UPDATE alembic_version SET version_num = '0024'",
)
"""Makes the database that of a version without a record."""


def test_after_an_upgrade_the_record_begins_with_the_stock_as_it_is(store: Store, database_url: str) -> None:
    """A unit that was held back then keeps the time of its last confirmation."""
    days = RecordedDays(store, dealer_named("ridgeline"))
    cars: Cars = dict.fromkeys(VINS, (20000, "North", False))
    for price in (21_000, 20_000, 900):
        days.change("import", {**cars, VINS[0]: (price, "North", False)}, "", 1)
    engine = writer_engine(parse(database_url))
    with engine.begin() as connection:
        for statement in OLDER:
            connection.execute(text(statement))
    engine.dispose()
    assert migrate(database_url) == "0024"
    revision = days.revision
    assert read(store, days.profile.id, record_start) == revision == 3
    seen, at = days.seen[revision]
    assert seen_in(days.recorded(revision, at)) == seen
    days.change("import", {VINS[0]: (20_500, "South", False)}, "", 1)
    assert seen_in(days.recorded(revision, at)) == seen
    assert [each.revision for each in read(store, days.profile.id, history_of, f"vin-{VINS[0]}")] == [2, 4]


def test_a_moved_dealer_has_its_record(store: Store, tmp_path: Path) -> None:
    """The target has counted changes of an earlier dealer with this id, so the revisions are others there."""
    days = RecordedDays(store, dealer_named("ridgeline"))
    for number in (3, 2, 4):
        days.change("import", dict.fromkeys(VINS[:number], (20000, "North", False)), "", 1)
    url = f"sqlite:///{tmp_path}/moved.db"
    make_current(url)
    with Store.open(url, CIPHER) as target:
        moved = RecordedDays(target, days.profile)
        with target.write(days.profile.id) as tx:
            tx.execute(text("INSERT INTO revisions VALUES (:dealer, 1, 0, 0, 0)"))
        copy_dealer(store, target, days.profile.id)
        for revision, (seen, at) in days.seen.items():
            assert seen_in(moved.recorded(revision + 1, at)) == seen
