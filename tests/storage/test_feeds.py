"""The state of feeds: one process has the lease, and a file gets one result."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from tests.storage.calls import read, write_at
from tests.storage.samples import DEALER, MONDAY

from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.feeds import (
    LEASE,
    LONGEST_WAIT,
    ClaimedFeed,
    FeedFile,
    FeedRow,
    FeedState,
    add_file,
    claim_feed,
    feed_states,
    find_due,
    finish_file,
    forget_files,
    forget_surplus,
    list_files,
    note_fetch,
    note_fetch_problem,
    put_feeds,
    release_feed,
    renew_lease,
)
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("automatic feeds")

HOUR = timedelta(hours=1)
ROW = FeedRow("main", "url", 48, b"digest")
LATER = MONDAY + LEASE


def put(store: Store, *rows: FeedRow, at: datetime = MONDAY) -> None:
    write_at(at, store, DEALER, put_feeds, rows)


def claim(store: Store, at: datetime = MONDAY, lease: str = "one") -> ClaimedFeed | None:
    return write_at(at, store, DEALER, claim_feed, "main", lease)


def claimed(store: Store, at: datetime = MONDAY, lease: str = "one") -> ClaimedFeed:
    found = claim(store, at, lease)
    assert found is not None
    return found


def added(store: Store, feed: ClaimedFeed, file_id: str = "1", content: bytes = b"hash") -> FeedFile:
    return write_at(
        MONDAY, store, DEALER, add_file, feed, file_id, name="a.csv", size=7, content_hash=content, received_at=MONDAY
    )


def due_at(store: Store, at: datetime) -> list[str]:
    with store.read(DEALER, at) as tx:
        return find_due(tx)


def state(store: Store, at: datetime = MONDAY) -> FeedState:
    with store.read(DEALER, at) as tx:
        (found,) = feed_states(tx)
    return found


def test_one_process_has_the_lease_until_it_ends(store: Store) -> None:
    put(store, ROW)
    first = claimed(store)
    assert claim(store, LATER - timedelta(seconds=1), "two") is None
    write_at(MONDAY + LEASE / 2, store, DEALER, renew_lease, first)
    assert claim(store, LATER, "two") is None
    assert claimed(store, MONDAY + LEASE * 1.5, "two").lease == "two"
    with pytest.raises(LeaseLost):
        write_at(LATER, store, DEALER, renew_lease, first)


def test_a_process_without_the_lease_writes_nothing(store: Store) -> None:
    put(store, ROW)
    first = claimed(store)
    file = added(store, first)
    second = claimed(store, LATER, "two")
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
    assert claimed(store, LATER + LEASE, "three").imported_hash == b"hash"


def test_a_lease_or_a_time_that_a_wrong_clock_wrote_does_not_last(store: Store) -> None:
    put(store, ROW)
    future = MONDAY + timedelta(days=3650)
    feed = claimed(store, future)
    assert due_at(store, MONDAY) == ["main"]
    write_at(MONDAY, store, DEALER, release_feed, feed, future)
    assert due_at(store, MONDAY) == ["main"]
    assert due_at(store, future - LONGEST_WAIT) == []
    assert claim(store, MONDAY, "two") is not None


def test_a_feed_is_due_by_its_time_and_only_while_nobody_works_on_it(store: Store) -> None:
    put(store, ROW)
    assert due_at(store, MONDAY) == ["main"]
    feed = claimed(store)
    assert due_at(store, MONDAY) == []
    write_at(MONDAY, store, DEALER, release_feed, feed, MONDAY + HOUR)
    assert (due_at(store, MONDAY + HOUR / 2), due_at(store, MONDAY + HOUR)) == ([], ["main"])
    assert write_at(MONDAY, store, DEALER, claim_feed, "main", "one", if_due=True) is None
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, release_feed, feed, None)
    assert state(store).next_at == MONDAY + HOUR
    assert write_at(MONDAY + HOUR, store, DEALER, claim_feed, "main", "one", if_due=True) is not None


def test_changed_settings_make_a_feed_due_and_forget_what_its_source_remembers(store: Store) -> None:
    put(store, ROW)
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, note_fetch, feed, {"etag": "x"})
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed), "imported", revision=1)
    write_at(MONDAY, store, DEALER, release_feed, feed, MONDAY + HOUR)
    put(store, ROW)
    again = claimed(store)
    assert (again.seen, again.imported_hash) == ({"etag": "x"}, b"hash")
    write_at(MONDAY, store, DEALER, release_feed, again, None)
    put(store, ROW._replace(digest=b"other"), FeedRow("second", "folder", 48, b"x"), at=MONDAY + HOUR / 2)
    assert due_at(store, MONDAY + HOUR / 2) == ["main", "second"]
    changed = claimed(store)
    assert (changed.seen, changed.imported_hash) == ({}, None)
    put(store, FeedRow("second", "folder", 48, b"x"))
    assert state(store).name == "second"
    with pytest.raises(LeaseLost):
        write_at(MONDAY, store, DEALER, renew_lease, changed)
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


def test_rows_of_a_removed_feed_are_forgotten_with_those_of_another_one(store: Store) -> None:
    put(store, ROW, FeedRow("second", "folder", 48, b"x"), FeedRow("third", "folder", 48, b"x"))
    feed = claimed(store)
    write_at(MONDAY, store, DEALER, finish_file, feed, added(store, feed), "failed", problem="not text")
    write_at(MONDAY, store, DEALER, forget_files, "second", MONDAY + HOUR)
    assert len(read(store, DEALER, list_files, None, 9)) == 1
    put(store, FeedRow("second", "folder", 48, b"x"))
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
    # That the source answers is no new file.
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
