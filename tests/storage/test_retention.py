"""Rows that would accumulate are deleted by age or by number, a few at a time."""

import fcntl
from datetime import datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from tests.acceptance.running import eventually
from tests.soak import sqlite_first
from tests.storage.calls import at_time, lock_at, of_dealer, read, write_at
from tests.storage.samples import DEALER, MONDAY, TUESDAY, first_answer, storing

from dealer_agent.storage.clock import confirm_clock
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_refusal
from dealer_agent.storage.privacy.accesses import list_accesses, log_access
from dealer_agent.storage.privacy.erasure import MOST_ROWS, purge
from dealer_agent.storage.store import Store

DAY = timedelta(days=1)


KEYS = {"idempotency": "fingerprint", "refusals": "refusal_id", "accesses": "access_id"}


def ids(store: Store) -> list[set[Any]]:
    with store.read(DEALER) as tx:
        return [set(tx.connection.execute(text(f"SELECT {key} FROM {table}")).scalars()) for table, key in KEYS.items()]


def purged(store: Store, now: datetime) -> tuple[int, ...]:
    """How many rows of KEYS a purge deletes."""
    write_at(now, store, DEALER, confirm_clock)
    before = ids(store)
    purge(
        store,
        DEALER,
        refusals_before=now - 90 * DAY,
        accesses_before=now - 730 * DAY,
        counts_before=now - 730 * DAY,
        now=now,
    )
    return tuple(len(had - has) for had, has in zip(before, ids(store), strict=True))


def fill(store: Store, table: str, count: int, **more: Any) -> None:
    """Rows of MONDAY, the later ones a microsecond younger each."""
    columns = {
        "refusals": ("refusal_id", "code"),
        "accesses": ("access_id", "actor", "action", "leads", "number", "hash"),
        "idempotency": ("fingerprint", "reply"),
    }[table]
    values = {
        "code": "X",
        "actor": "Alex",
        "action": "leads list",
        "leads": 1,
        "hash": b"any",
        "reply": b"sealed",
        **more,
    }
    rows = [
        {
            "dealer_id": DEALER,
            "at": microseconds(MONDAY) + number,
            "number": number + 1,
            **values,
            columns[0]: _name(table, number),
        }
        for number in range(count)
    ]
    names = ("dealer_id", "at", *columns)
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
    with store.write(DEALER) as tx:
        tx.connection.execute(text(statement), [{name: each[name] for name in names} for each in rows])
        if table == "accesses":
            end = "INSERT INTO dealers (dealer_id, accesses, access_head) VALUES (:dealer_id, :count, :head)"
            tx.connection.execute(text(end), {"dealer_id": DEALER, "count": count, "head": b"any"})


def _name(table: str, number: int) -> str | bytes:
    return f"{number:026}".encode() if table == "idempotency" else f"{number:026}"


def left(store: Store, table: str) -> int:
    with store.read(DEALER) as tx:
        return int(tx.connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


@sqlite_first()
@pytest.mark.requirement("retention")
def test_old_answers_refusals_and_accesses_are_deleted_and_young_ones_kept(store: Store, writer: LeadWriter) -> None:
    for job in (
        first_answer("old", MONDAY),
        first_answer("young", TUESDAY),
        lambda tx: first_answer("another dealer's", MONDAY)(of_dealer(tx, "lakeside")),
        lambda tx: record_refusal(at_time(tx, MONDAY), "INVALID_CONSENT"),
        lambda tx: record_refusal(at_time(tx, MONDAY), "VEHICLE_NOT_FOUND"),
        lambda tx: record_refusal(at_time(tx, TUESDAY), "INVALID_CONSENT"),
    ):
        writer.submit(DEALER, job).result(60)
    for at in (MONDAY, TUESDAY):
        lock_at(at, store, DEALER, log_access, "Alex", "leads list", leads=1)
    assert purged(store, MONDAY + 30 * DAY) == (0, 0, 0)
    assert purged(store, TUESDAY + 30 * DAY) == (1, 0, 0)
    assert purged(store, TUESDAY + 90 * DAY) == (1, 2, 0)
    assert purged(store, TUESDAY + 730 * DAY) == (0, 1, 1)
    assert left(store, "idempotency") == 1, "another dealer's"


def test_a_deletion_from_the_access_log_adds_an_entry_to_it(store: Store) -> None:
    lock_at(MONDAY, store, DEALER, log_access, "Alex", "leads list", leads=1)
    now = TUESDAY + 730 * DAY
    purged(store, now)
    (entry,) = read(store, DEALER, list_accesses, 9)
    assert (entry.actor, entry.at, entry.leads) == ("dealer-agent", now, 0)
    assert entry.action == "delete 1 entries from before 2026-03-03 out of this log, up to number 1"
    assert purged(store, now) == (0, 0, 0)
    assert left(store, "accesses") == 1


def test_only_a_bounded_number_of_the_newest_refusals_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers cause them, as often as they like."""
    stored, kept = 4000, 2500
    retention = import_module("dealer_agent.storage.privacy.erasure")
    monkeypatch.setattr(retention, "READ_OLDEST_KEPT", retention.READ_OLDEST_KEPT.offset(None).offset(kept - 1))
    fill(store, "refusals", stored)
    assert purged(store, TUESDAY) == (0, stored - kept, 0)
    with store.read(DEALER) as tx:
        oldest = tx.connection.execute(text("SELECT min(at) FROM refusals")).scalar()
    assert oldest == microseconds(MONDAY) + stored - kept, "`fill` adds a row for each microsecond after MONDAY"


@pytest.mark.parametrize("table", ["idempotency", "refusals", "accesses"])
def test_no_transaction_deletes_more_than_a_thousand_rows(store: Store, table: str) -> None:
    """A lead waits for one of them at most, however much there is to delete."""
    count = 3 * MOST_ROWS + 1
    fill(store, table, count)
    deleted = []

    @event.listens_for(store._writer, "after_cursor_execute")
    def note(_: Any, cursor: Any, sql: str, *__: Any) -> None:
        if sql.startswith(f"DELETE FROM {table}"):
            deleted.append(cursor.rowcount)

    commits = []
    event.listen(store._writer, "commit", lambda _: commits.append(len(deleted)))
    purged(store, TUESDAY + 800 * DAY)
    assert [each for each in deleted if each] == [MOST_ROWS] * 3 + [1]
    assert {later - earlier for earlier, later in pairwise(commits)} <= {0, 1}, "one each"


def test_a_lead_that_comes_while_much_is_deleted_waits_for_a_batch_or_two(store: Store, writer: LeadWriter) -> None:
    batches = []
    leads: list[Any] = []
    fill(store, "refusals", 20 * MOST_ROWS)
    taken: list[int] = []

    @event.listens_for(store._writer, "after_cursor_execute")
    def submit_in_between(_: Any, __: Any, sql: str, *___: Any) -> None:
        if sql.startswith("DELETE FROM refusals"):
            batches.append(sql)
            if len(batches) == 5:
                leads.append(writer.submit(DEALER, storing("L1")))
                leads[0].add_done_callback(lambda _: taken.append(len(batches)))
                # The writer is a thread. On a busy machine it would begin to wait after many batches.
                eventually("the lead waits for its turn", lambda: leads[0].done() or waits_for_its_turn(store))

    purged(store, TUESDAY + 100 * DAY)
    assert leads[0].result(60) == "L1"
    assert taken[0] < 20, "the lead waited until all was deleted"


def waits_for_its_turn(store: Store) -> bool:
    """Whether a writer of a SQLite database waits for the transaction that is open."""
    if store._writer.dialect.name != "sqlite":
        return False
    with Path(f"{store._writer.url.database}-wal").open("rb") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
