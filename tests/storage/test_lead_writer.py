"""Leads are committed in groups, and answered after the commit (docs/protocol.md#durable-before-answer)."""

import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import event, text
from tests.soak import sqlite_first
from tests.storage.calls import at_time, list_leads, read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, MONDAY, first_answer, lead, storing

from dealer_agent.storage.errors import (
    AlreadyStored,
    DatabaseUnreachable,
    DiskFull,
    KeyMissing,
    QueueFull,
    StoreClosed,
)
from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.lead_queue import MOST_WAITING
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.persons import find_duplicate, hashes_of
from dealer_agent.storage.leads.stored_leads import CONTACT_HASH, get_lead, record_refusal
from dealer_agent.storage.stock.stock_import import NEXT_REVISION
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction


class SampleFailureError(Exception):
    """Something that a write raises."""


class Guard:
    """A write that keeps the writer busy, so that what is submitted meanwhile becomes one group."""

    def __init__(self, writer: LeadWriter, dealer_id: str = DEALER) -> None:
        self._open = threading.Event()
        entered = threading.Event()

        def write(_: Transaction) -> None:
            entered.set()
            assert self._open.wait(60)

        self.future = writer.submit(dealer_id, write)
        assert entered.wait(60)

    def open(self) -> None:
        self._open.set()


def failing(_: Transaction) -> None:
    raise SampleFailureError


@pytest.mark.requirement("durable-before-answer")
def test_every_lead_of_many_threads_is_there_when_its_future_is_done(database_url: str, store: Store) -> None:
    """Another store, with connections of its own, looks for each lead as soon as its future is done."""
    writer = store.lead_writer()
    missing: list[str] = []

    def client(number: int) -> None:
        with Store.open(database_url, CIPHER) as other:
            for turn in range(20):
                lead_id = writer.submit(DEALER, storing(f"L{number}-{turn}")).result(60)
                if read(other, DEALER, get_lead, lead_id) is None:
                    missing.append(lead_id)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(5)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    writer.close()
    assert missing == []
    assert len(read(store, DEALER, list_leads, 1000)) == 100


@sqlite_first()
@pytest.mark.requirement("durable-before-answer")
def test_a_future_is_not_done_before_the_commit_of_its_group(store: Store, writer: LeadWriter) -> None:
    guard = Guard(writer)
    first = writer.submit(DEALER, storing("L1"))
    second_runs, go_on = threading.Event(), threading.Event()

    def slow(_: Transaction) -> None:
        second_runs.set()
        assert go_on.wait(60)

    second = writer.submit(DEALER, slow)
    guard.open()
    assert second_runs.wait(60)
    assert not first.done()
    assert read(store, DEALER, get_lead, "L1") is None
    go_on.set()
    assert first.result(60) == "L1"
    assert second.result(60) is None
    assert read(store, DEALER, get_lead, "L1") is not None


def test_what_waits_is_stored_in_one_transaction(store: Store, writer: LeadWriter) -> None:
    guard = Guard(writer)
    transaction = {"sqlite": "SELECT 0", "postgresql": "SELECT pg_current_xact_id()::text"}
    seen: list[Any] = []

    def note(tx: Transaction) -> None:
        seen.append((tx.connection, tx.connection.execute(text(transaction[tx.connection.dialect.name])).scalar()))

    futures = [writer.submit(DEALER, note) for _ in range(10)]
    guard.open()
    wait(futures, 60)
    assert len(seen) == 10
    assert len(set(seen)) == 1


def test_a_failing_write_leaves_nothing_and_does_not_spoil_the_others(store: Store, writer: LeadWriter) -> None:
    def half_way(tx: Transaction) -> None:
        storing("HALF")(tx)
        raise SampleFailureError

    guard = Guard(writer)
    futures: list[Future[Any]] = [
        writer.submit(DEALER, storing("BEFORE")),
        writer.submit(DEALER, half_way),
        writer.submit(DEALER, lambda tx: tx.connection.execute(text("SELECT no_such_column FROM leads"))),
        writer.submit(DEALER, storing("BEFORE")),
        writer.submit(DEALER, storing("AFTER")),
    ]
    guard.open()
    assert futures[0].result(60) == "BEFORE"
    with pytest.raises(SampleFailureError):
        futures[1].result(60)
    with pytest.raises(Exception, match="refused a statement"):
        futures[2].result(60)
    with pytest.raises(AlreadyStored):
        futures[3].result(60)
    assert futures[4].result(60) == "AFTER"
    assert {each.lead_id for each in read(store, DEALER, list_leads, 10)} == {"BEFORE", "AFTER"}


def test_a_write_whose_keys_cannot_be_made_does_not_spoil_the_others(database_url: str, store: Store) -> None:
    """Without a key, what needs none is still stored."""
    with Store.open(database_url) as without_key:
        writer = without_key.lead_writer()
        guard = Guard(writer)
        lacking = writer.submit(
            DEALER, storing("L1"), seeks=lambda tx: {CONTACT_HASH: hashes_of(tx, ["email:jordan@example.com"])}
        )
        other = writer.submit(DEALER, lambda tx: record_refusal(tx, "VALIDATION_ERROR"))
        guard.open()
        other.result(60)
        with pytest.raises(KeyMissing):
            lacking.result(60)
        writer.close()


@sqlite_first()
def test_writes_of_one_dealer_see_what_the_one_before_stored(writer: LeadWriter) -> None:
    def once(tx: Transaction, lead_id: str) -> str:
        earlier = find_duplicate(tx, ["sam@example.com"], None, MONDAY)
        return earlier or storing(lead_id)(tx)

    guard = Guard(writer)
    futures = [writer.submit(DEALER, lambda c, n=n: once(c, f"L{n}")) for n in range(5)]  # type: ignore[misc]
    guard.open()
    assert [future.result(60) for future in futures] == ["L0"] * 5


@sqlite_first()
def test_a_write_that_met_a_key_already_stored_runs_once_more_and_finds_it(store: Store, writer: LeadWriter) -> None:
    writer.submit(DEALER, storing("FIRST", idempotency=first_answer("k", reply=b"FIRST"))).result(60)
    runs = []

    def write(tx: Transaction) -> bytes:
        runs.append(1)
        if len(runs) > 1:
            answer = find_idempotent(at_time(tx, MONDAY), "token", "k")
            assert answer is not None
            return answer.reply
        storing("SECOND", idempotency=first_answer("k"))(tx)  # As if the look had come too early.
        return b"SECOND"

    assert writer.submit(DEALER, write).result(60) == b"FIRST"
    assert read(store, DEALER, get_lead, "SECOND") is None


@sqlite_first()
def test_a_write_is_not_run_a_third_time(writer: LeadWriter) -> None:
    runs = []

    def write(tx: Transaction) -> None:
        runs.append(1)
        raise AlreadyStored("again")

    with pytest.raises(AlreadyStored):
        writer.submit(DEALER, write).result(60)
    assert len(runs) == 2


def test_no_lead_of_a_group_is_answered_when_the_disk_is_full(sqlite_url: str, tmp_path: Any) -> None:
    """SQLite may roll back the whole transaction then, and with it what earlier writes of the group stored."""
    make_current(sqlite_url)
    with Store.open(sqlite_url, CIPHER) as store:
        writer = store.lead_writer()

        def fill(tx: Transaction) -> None:
            tx.connection.exec_driver_sql("PRAGMA max_page_count=1")  # Raised by SQLite to the pages in use.
            storing("BIG")(tx)
            tx.connection.exec_driver_sql("UPDATE leads SET payload = zeroblob(100000000)")

        guard = Guard(writer)
        futures: list[Future[Any]] = [
            writer.submit(DEALER, storing("BEFORE")),
            writer.submit(DEALER, fill),
            writer.submit(DEALER, storing("AFTER")),
        ]
        guard.open()
        for future in futures:
            with pytest.raises(DiskFull):
                future.result(60)
        assert read(store, DEALER, list_leads, 10) == []
        recovered = writer.submit(
            DEALER, lambda tx: tx.connection.exec_driver_sql("PRAGMA max_page_count=1000000").scalar()
        )
        recovered.result(60)
        assert writer.submit(DEALER, storing("LATER")).result(60) == "LATER"
        writer.close()


def test_no_lead_of_a_group_is_answered_when_the_connection_breaks_and_the_next_group_has_a_new_one(
    postgresql_url: str,
) -> None:
    make_current(postgresql_url)
    with Store.open(postgresql_url, CIPHER) as store:
        writer = store.lead_writer()
        guard = Guard(writer)
        futures: list[Future[Any]] = [
            writer.submit(DEALER, storing("BEFORE")),
            writer.submit(
                DEALER, lambda tx: tx.connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
            ),
            writer.submit(DEALER, storing("AFTER")),
        ]
        guard.open()
        for future in futures:
            with pytest.raises(DatabaseUnreachable):
                future.result(60)
        assert read(store, DEALER, list_leads, 10) == []
        assert writer.submit(DEALER, storing("LATER")).result(60) == "LATER"
        writer.close()


def test_groups_of_two_processes_with_the_same_dealers_never_deadlock(database_url: str, store: Store) -> None:
    with Store.open(database_url, CIPHER) as other:
        writers = (store.lead_writer(), other.lead_writer())
        guards = [
            Guard(writers[0], "guard")
        ]  # On SQLite there is one transaction at a time: the other group waits for it.
        orders = (["a", "b"], ["b", "a"])

        def slow(_: Transaction) -> str:
            time.sleep(0.2)
            return "stored"

        if store._writer.dialect.name == "postgresql":
            guards.append(Guard(writers[1], "another guard"))
        futures = [
            writer.submit(dealer, slow) for writer, order in zip(writers, orders, strict=True) for dealer in order
        ]
        for guard in guards:
            guard.open()
        assert [future.result(60) for future in futures] == ["stored"] * 4
        for writer in writers:
            writer.close()


@sqlite_first()
def test_closing_stores_what_was_submitted_and_then_takes_nothing_more(store: Store) -> None:
    writer = store.lead_writer()
    guard = Guard(writer)
    futures = [writer.submit(DEALER, storing(f"L{n}")) for n in range(200)]
    closer = threading.Thread(target=writer.close)
    closer.start()
    guard.open()
    closer.join(60)
    assert not closer.is_alive()
    assert [future.result(0) for future in futures] == [f"L{n}" for n in range(200)]
    assert len(read(store, DEALER, list_leads, 1000)) == 200
    with pytest.raises(StoreClosed):
        writer.submit(DEALER, storing("LATE"))
    writer.close()


@sqlite_first()
def test_a_cancelled_lead_is_not_stored(store: Store, writer: LeadWriter) -> None:
    guard = Guard(writer)
    cancelled = writer.submit(DEALER, storing("CANCELLED"))
    kept = writer.submit(DEALER, storing("KEPT"))
    assert cancelled.cancel()
    guard.open()
    assert kept.result(60) == "KEPT"
    assert read(store, DEALER, list_leads, 10) == [lead("KEPT")]


def test_an_import_under_way_holds_up_no_lead_on_postgresql(postgresql_url: str) -> None:
    """Leads and stock are locked apart. (SQLite has one writer: there a lead waits for the import's transaction.)"""
    make_current(postgresql_url)
    with Store.open(postgresql_url, CIPHER) as store, Store.open(postgresql_url, CIPHER) as other:
        writer, importing = store.lead_writer(), other.lead_writer()
        guard = threading.Event()

        def hold_stock(tx: Transaction) -> None:
            tx.connection.execute(NEXT_REVISION, {"dealer_id": DEALER})
            assert guard.wait(60)

        held = importing.submit("another dealer", hold_stock)
        assert writer.submit(DEALER, storing("L1")).result(60) == "L1"
        assert not held.done()
        guard.set()
        held.result(60)
        writer.close()
        importing.close()


@pytest.mark.requirement("refused-in-time")
def test_a_lead_can_be_cancelled_while_the_writer_waits_for_the_lock(
    database_url: str, store: Store, writer: LeadWriter
) -> None:
    writer.submit(DEALER, storing("FIRST")).result(60)
    with Store.open(database_url, CIPHER) as other:
        holder = other.lead_writer()
        guard = Guard(holder)
        cancelled, kept = writer.submit(DEALER, storing("CANCELLED")), writer.submit(DEALER, storing("KEPT"))
        while not writer._queue._blocked and store._leads.dialect.name == "postgresql":
            time.sleep(0.01)
        # On PostgreSQL, the writer has found the other's lock. On SQLite, it waits for it.
        assert cancelled.cancel()
        guard.open()
        assert kept.result(60) == "KEPT"
        holder.close()
    assert {each.lead_id for each in read(store, DEALER, list_leads, 10)} == {"FIRST", "KEPT"}


def test_a_probe_waits_for_the_locks_of_a_lead_and_after_a_failure_writes(store: Store, writer: LeadWriter) -> None:
    assert writer.probe(DEALER, 60).result(60) is None

    def fail(_: Transaction) -> None:
        raise DiskFull("no room")

    with pytest.raises(DiskFull):
        writer.submit(DEALER, fail).result(60)
    written: list[str] = []
    event.listen(store._leads, "before_cursor_execute", lambda *given: written.append(given[2]))
    for _ in range(2):
        assert writer.probe(DEALER, 60).result(60) is None
    assert len([statement for statement in written if statement.startswith("UPDATE")]) == 1


@sqlite_first()
def test_a_dealer_has_half_of_the_queue_alone_and_a_smaller_share_beside_others(
    store: Store, writer: LeadWriter
) -> None:
    guard = Guard(writer, "guard")

    def fill(dealer_id: str) -> int:
        before = len(futures)
        with suppress(QueueFull):
            futures.extend(writer.submit(dealer_id, lambda _: "taken") for _ in range(2 * MOST_WAITING))
        return len(futures) - before

    futures: list[Future[Any]] = []
    assert [fill(dealer) for dealer in "abcd"] == [MOST_WAITING // share for share in (2, 4, 8, 16)]
    assert fill("a") == 0
    guard.open()
    wait(futures, 60)
    assert writer.submit("a", lambda _: "taken").result(60) == "taken"
