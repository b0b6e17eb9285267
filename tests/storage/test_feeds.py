"""The state of feeds: one process has the lease, and a file gets one result."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read, write_at
from tests.storage.samples import DEALER, MONDAY

from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.jobs import LEASE, claim_job, finish_job
from dealer_agent.storage.stock.feeds import (
    FEED,
    ClaimedFeed,
    FeedFile,
    FeedState,
    StoredFeed,
    add_file,
    feed_states,
    finish_file,
    forget_files,
    forget_surplus,
    list_files,
    note_fetch,
    note_fetch_problem,
    put_feeds,
    read_feed,
)
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("automatic feeds")

HOUR = timedelta(hours=1)
ROW = StoredFeed("main", "url", 48, b"digest")
LATER = MONDAY + LEASE


def put(store: Store, *rows: StoredFeed, at: datetime = MONDAY) -> None:
    write_at(at, store, DEALER, put_feeds, rows)


def claimed(store: Store, at: datetime = MONDAY) -> ClaimedFeed:
    with store.write(DEALER, at) as tx:
        job = claim_job(tx, FEED, "main", timedelta(days=8), "now")
        assert job is not None
        found = read_feed(tx, job)
    assert found is not None
    return found


def added(store: Store, feed: ClaimedFeed, file_id: str = "1", content: bytes = b"hash") -> FeedFile:
    return write_at(
        MONDAY, store, DEALER, add_file, feed, file_id, name="a.csv", size=7, content_hash=content, received_at=MONDAY
    )


def finish(store: Store, feed: ClaimedFeed, due_at: datetime) -> None:
    write_at(MONDAY, store, DEALER, finish_job, feed.job, due_at, 0, None)


def state(store: Store, at: datetime = MONDAY) -> FeedState:
    with store.read(DEALER, at) as tx:
        (found,) = feed_states(tx)
    return found


def test_a_process_without_the_lease_writes_nothing(store: Store) -> None:
    put(store, ROW)
    first = claimed(store)
    file = added(store, first)
    second = claimed(store, LATER)
    actions: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (note_fetch, ({"etag": "x"},)),
        (note_fetch_problem, ("down",)),
        (finish_file, (file, "imported")),
        (finish_file, (file, "failed")),
        (finish_file, (file, "unchanged")),
    ]
    for action, values in actions:
        with pytest.raises(LeaseLost):
            write_at(LATER, store, DEALER, action, first, *values)
    assert read(store, DEALER, list_files, "main", 9) == [file]
    write_at(LATER, store, DEALER, finish_file, second, file, "imported", revision=4)
    with pytest.raises(LeaseLost):
        write_at(LATER, store, DEALER, finish_file, second, file, "imported", revision=5)
    (found,) = read(store, DEALER, list_files, "main", 9)
    assert (found.state, found.revision, found.finished_at) == ("imported", 4, LATER)
    assert claimed(store, LATER + LEASE).imported_hash == b"hash"


def test_changed_settings_make_a_feed_due_and_forget_what_its_source_remembers(store: Store) -> None:
    put(store, ROW)
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, note_fetch, feed, {"etag": "x"})
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed), "imported", revision=1)
    finish(store, feed, MONDAY + HOUR)
    put(store, ROW)
    assert state(store).next_at == MONDAY + HOUR
    again = claimed(store)
    assert (again.seen, again.imported_hash) == ({"etag": "x"}, b"hash")
    put(store, ROW._replace(digest=b"other"), StoredFeed("second", "folder", 48, b"x"), at=MONDAY + HOUR / 2)
    with store.read(DEALER) as tx:
        assert [found.next_at for found in feed_states(tx)] == [MONDAY + HOUR / 2] * 2
    with pytest.raises(LeaseLost):
        write_at(MONDAY, store, DEALER, note_fetch, again, {"etag": "of the older settings"})
    changed = claimed(store)
    assert (changed.seen, changed.imported_hash) == ({}, None)
    put(store, StoredFeed("second", "folder", 48, b"x"))
    assert state(store).name == "second"
    with pytest.raises(LeaseLost):
        write_at(MONDAY, store, DEALER, note_fetch, changed, {})
    put(store)
    assert read(store, DEALER, feed_states) == []


def test_a_file_has_one_row_and_old_rows_are_forgotten(store: Store) -> None:
    put(store, ROW)
    feed = claimed(store)
    file = added(store, feed)
    assert added(store, feed, content=b"other") == file
    waiting = added(store, feed, "2")
    write_at(MONDAY, store, DEALER, finish_file, feed, file, "failed", problem="not text")
    write_at(MONDAY, store, DEALER, forget_files, "main", MONDAY)
    assert len(read(store, DEALER, list_files, None, 9)) == 2
    write_at(MONDAY, store, DEALER, forget_files, "main", MONDAY + HOUR)
    assert read(store, DEALER, list_files, None, 9) == [waiting]
    assert read(store, "lakeside", list_files, None, 9) == []


@sqlite_first()
def test_rows_of_a_removed_feed_are_forgotten_with_those_of_another_one(store: Store) -> None:
    put(store, ROW, StoredFeed("second", "folder", 48, b"x"), StoredFeed("third", "folder", 48, b"x"))
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed), "failed", problem="not text")
    write_at(MONDAY, store, DEALER, forget_files, "second", MONDAY + HOUR)
    assert len(read(store, DEALER, list_files, None, 9)) == 1
    put(store, StoredFeed("second", "folder", 48, b"x"))
    write_at(MONDAY, store, DEALER, forget_files, "second", MONDAY)
    assert len(read(store, DEALER, list_files, None, 9)) == 1
    write_at(MONDAY, store, DEALER, forget_files, "second", MONDAY + HOUR)
    assert read(store, DEALER, list_files, None, 9) == []


def test_only_the_newest_rows_with_a_result_stay(store: Store) -> None:
    put(store, ROW)
    feed = claimed(store)
    for number in range(1, 6):
        file = added(store, feed, str(number))
        if number != 1:
            write_at(MONDAY, store, DEALER, finish_file, feed, file, "failed", problem="not text")
    for most, left in ((9, "12345"), (4, "12345"), (2, "145"), (0, "1")):
        write_at(MONDAY, store, DEALER, forget_surplus, "main", most)
        assert sorted(file.file_id for file in read(store, DEALER, list_files, None, 9)) == list(left)


def test_a_feed_is_late_when_no_new_file_came_for_too_long(store: Store) -> None:
    put(store, ROW)
    assert [state(store, MONDAY + hours * HOUR).is_late for hours in (48, 49)] == [False, True]
    feed = claimed(store, MONDAY + 47 * HOUR)
    file = added(store, feed)._replace(received_at=MONDAY + 47 * HOUR)
    write_at(MONDAY + 47 * HOUR, store, DEALER, finish_file, feed, file, "unchanged")
    assert [state(store, MONDAY + hours * HOUR).is_late for hours in (95, 96)] == [False, True]
    # An answer of the source without a new file does not make the feed fresh.
    write_at(MONDAY + 48 * HOUR, store, DEALER, note_fetch, feed, {})
    assert state(store, MONDAY + 96 * HOUR).is_late
    assert state(store).succeeded_at == MONDAY + 48 * HOUR


def test_a_problem_of_the_source_and_one_of_a_file_end_each_by_itself(store: Store) -> None:
    put(store, ROW)
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed), "refused", problem="too few units")
    assert state(store).problem == "too few units"
    write_at(MONDAY, store, DEALER, note_fetch_problem, feed, "the server is away")
    assert state(store).problem == "the server is away"
    write_at(MONDAY, store, DEALER, note_fetch, feed, {})
    assert state(store).problem == "too few units"
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed, "2"), "imported", revision=1)
    assert state(store).problem is None
