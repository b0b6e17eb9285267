"""Commits leads in groups: one writer thread per process, one transaction and one fsync for all that wait.

A write is a function that stores the content of one request in the transaction that it gets. The writer holds the
dealer's lock, so the writes of one dealer run one after the other, in all processes. No process misses a duplicate of
another one, or stores one idempotency key twice (docs/protocol.md#durability).

A transaction of several dealers never waits for a lock. It leaves out the dealers that another transaction has locked.
Their writes are tried apart from the others, again and again for STORE_SECONDS (`storage.leads.lead_queue`).

The writes of a group run in one savepoint, and their rows are stored together at its end. If a write fails after it
stored something, all writes of the group run again, each in a savepoint of its own. If a write waits for a lock in
vain, all of them run again as well. So a write may run several times. It must change nothing but the database.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from time import perf_counter, time_ns
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Engine, update

from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.storage.connections import begin
from dealer_agent.storage.errors import DatabaseBusy, DatabaseFailure, DealerBlocked, KeyMissing, WrongKey, translating
from dealer_agent.storage.installation.registration import not_registered
from dealer_agent.storage.leads.lead_queue import LeadQueue
from dealer_agent.storage.leads.lead_write import Buyer, LeadWrite, Result, Seeks, WriteFunction, savepoint
from dealer_agent.storage.leads.prepared_statements import CollectedRows, Read, collect_rows, find_absent_keys
from dealer_agent.storage.privacy.event_chain import DealerLocks, LockedDealer, lock_dealers
from dealer_agent.storage.privacy.keys import prepare_to_encrypt
from dealer_agent.storage.schema import revisions
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.tokens import FIND_ACTIVE_TOKEN
from dealer_agent.storage.transaction import Ciphers, OneCipher, Transaction

# The write of a probe. It sets a column to the value that it has.
WRITE = update(revisions).where(of_dealer(revisions)).values(token_counter=revisions.c.token_counter)

BLOCKED = (
    "another transaction holds a lock of the dealer for too long: find it in pg_stat_activity, and end it, or the "
    "program that began it"
)

STORE_SECONDS = 5.0
"""How long a write waits for a dealer that another transaction has locked. Then it is refused."""

LOCK_SECONDS = 1.0
"""How long a transaction of one dealer waits for a lock while no other dealer has writes."""

SHARED_LOCK_SECONDS = 0.02
"""How long it waits while other dealers have writes, which wait as well: it waits often, but never for long."""

BLOCKED_SECONDS = 0.1
"""While other dealers have writes, a transaction waits only for a dealer that has been blocked for this long."""

NO_WAIT_SECONDS = 0.001
"""The shortest wait that PostgreSQL accepts."""

REST = 4
"""After a wait without success, no transaction waits for this multiple of its time. So blocked dealers take at most a
fifth of the writer's time, however many they are."""

Writes = dict[str, list[LeadWrite[Any]]]
"""Writes by dealer."""


class UnstoredWrites(NamedTuple):
    """The writes that a transaction did not store, by dealer.

    `blocked`: another transaction has locked the dealer. `alone`: to be tried in a transaction of one dealer, because a
    statement met a lock, or because the dealer has no row to lock yet and to add it may wait.
    """

    blocked: Writes
    alone: Writes


class LeadWriter:
    """Stores leads durably. Threads and event loops may share one; every process makes its own (after a fork)."""

    def __init__(self, engine: Engine, ciphers: Ciphers) -> None:
        """`ciphers` has the ciphers of dealers. Without one, a write that encrypts raises KeyMissing."""
        self._engine = engine
        self._ciphers = ciphers
        self._queue = LeadQueue()
        # A time of `perf_counter`. Until then, no transaction waits for a lock (REST).
        self._rests_until = 0.0
        self.stored = 0
        """The number of writes that were stored."""
        self._failed = False
        self.on_wait: Callable[[float], None] = lambda _: None
        """Gets the seconds that each write waited in the queue. The thread of the writer calls it."""
        self._thread = threading.Thread(target=self._work, name="lead-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of writes in the queue."""
        return len(self._queue)

    def submit(
        self,
        dealer_id: str,
        function: WriteFunction[Result],
        now: datetime | None = None,
        buyer: Buyer | None = None,
        *,
        seconds: float = STORE_SECONDS,
        seeks: Seeks | None = None,
    ) -> Future[Result]:
        """Queues a write. The future has the result of its function as soon as that is durable.

        `now` is the time of the transaction.

        `seeks` returns the keys that the write looks for, under the dealer's lock.

        The future fails with DealerUnknown if the dealer was removed. A write of a `buyer` also fails with
        DealerUnknown for a disabled dealer, and with TokenRevoked for a revoked token.

        The future fails with the error of the write, or with a DatabaseFailure if the transaction failed. Then nothing
        of the write is stored, unless the connection broke during the commit. It fails with DealerBlocked if another
        transaction holds a lock that the write needs, and the write is older than `seconds`. A write that raised
        AlreadyStored runs a second time. The future can be cancelled until the write runs, even while it waits for a
        lock. Then nothing of the write is stored. Raises StoreClosed after `close`, and QueueFull while too many writes
        of the dealer, or of all dealers, wait.
        """
        future: Future[Result] = Future()
        self._queue.add(LeadWrite(dealer_id, function, now, self._ciphers, future, buyer, seconds, seeks=seeks))
        return future

    def probe(self, dealer_id: str, seconds: float) -> Future[None]:
        """Tests whether a lead could be stored now. The future succeeds or fails as that of a lead would.

        The write takes the same locks as a lead, and goes before all writes that wait. So a long queue is not a
        failure. It writes only if the last transaction failed, because a commit that writes nothing costs no fsync on
        SQLite.
        """

        def write(tx: Transaction) -> None:
            if self._failed:
                tx.execute(WRITE)

        future: Future[None] = Future()
        self._queue.add(LeadWrite(dealer_id, write, None, self._ciphers, future, None, seconds), first=True)
        return future

    def close(self) -> None:
        """Runs the writes that were submitted, then stops. May be called twice."""
        self._queue.close()
        self._thread.join()

    def _work(self) -> None:
        """The loop of the writer's thread: stores one group of writes after the other, until the queue is closed."""
        while group := self._queue.next_group():
            writes: Writes = {}
            now = perf_counter()
            for write in group:
                if write.future.cancelled():
                    continue
                if not write.was_taken:
                    self.on_wait(now - write.submitted_at)
                    write.was_taken = True
                write.began_at = 0 if write.span is None else time_ns()
                writes.setdefault(write.dealer_id, []).append(write)
            try:
                self._store_of_several_dealers(writes)
            except Exception as error:  # noqa: BLE001 - if the thread ended, every lead would wait for ever
                self._fail_group(group, error)
                for write in group:
                    write.settle()

    def _store_of_several_dealers(self, writes: Writes) -> None:
        """Stores writes of several dealers: first of the free dealers together, then of the blocked dealers together.

        What a shared transaction leaves is tried in a transaction for each dealer, which may wait for a lock
        (`_may_wait`), or goes back to the queue.
        """
        if len(writes) == 1:
            ((dealer_id, own),) = writes.items()
            self._store_alone(dealer_id, own, waits=self._may_wait(dealer_id))
            return
        blocked = {dealer_id: own for dealer_id, own in writes.items() if self._queue.is_blocked(dealer_id)}
        free = {dealer_id: own for dealer_id, own in writes.items() if dealer_id not in blocked}
        for group in (free, blocked):
            left = self._store(group, NO_WAIT_SECONDS) if len(group) > 1 else UnstoredWrites({}, group)
            for dealer_id in sorted((*left.blocked, *left.alone), key=self._queue.waited_at):
                waits = self._may_wait(dealer_id)
                if dealer_id in left.alone or waits:
                    self._store_alone(dealer_id, group[dealer_id], waits=waits)
                else:
                    self._put_back_blocked(dealer_id, group[dealer_id], waited=False)

    def _may_wait(self, dealer_id: str) -> bool:
        """Whether a transaction may wait for this dealer's lock. The writes of other dealers wait meanwhile.

        After a wait without success, none may wait for some time (REST). While other dealers have writes, only a dealer
        that has been blocked for BLOCKED_SECONDS may wait.
        """
        now = perf_counter()
        if now < self._rests_until:
            return False
        return not self._queue.several_dealers_active or self._queue.is_blocked(dealer_id, since=now - BLOCKED_SECONDS)

    def _store_alone(self, dealer_id: str, own: list[LeadWrite[Any]], *, waits: bool) -> None:
        """Stores writes of one dealer. If the dealer stays locked, they go back to the queue."""
        began = perf_counter()
        longest = SHARED_LOCK_SECONDS if self._queue.several_dealers_active else LOCK_SECONDS
        if any(self._store({dealer_id: own}, longest if waits else NO_WAIT_SECONDS)):
            if waits:
                self._rests_until = perf_counter() + REST * (perf_counter() - began)
            self._put_back_blocked(dealer_id, own, waited=waits)

    def _put_back_blocked(self, dealer_id: str, own: list[LeadWrite[Any]], *, waited: bool) -> None:
        """Gives writes of a blocked dealer back to the queue, to be tried later. Refuses those that are too old."""
        for write in self._queue.put_back_blocked(dealer_id, own, waited=waited):
            write.refuse(DealerBlocked(BLOCKED))

    def _store(self, writes: Writes, lock_seconds: float) -> UnstoredWrites:
        """Stores writes in one transaction. Nothing of those that it returns is stored.

        Only a transaction of one dealer waits for the dealer's lock. On PostgreSQL, no statement waits for a lock for
        longer than `lock_seconds`. SQLite has one lock for all dealers. Its writers wait for it when they begin.
        """
        left = UnstoredWrites({}, {})
        group = [write for own in writes.values() for write in own]
        for write in group:
            write.failure, write.has_met_same_row = None, False
        try:
            with (
                translating(),
                begin(self._engine, min(writes), lock_seconds) as connection,
                collect_rows(connection) as rows,
            ):
                # Sort the writes by dealer, so that the dealer is set once for all its writes.
                locks = lock_dealers(
                    [(own[0].transaction(connection), _token_reads(own)) for _, own in sorted(writes.items())]
                )
                left = _unstored_writes(writes, locks)
                for tx in locks.removed:
                    for write in writes[tx.dealer_id]:
                        write.failure = not_registered(tx.dealer_id)
                for tx, dealer in locks.locked:
                    _check_writes(tx, dealer, writes[tx.dealer_id])
                    _note_absent_keys(tx, writes[tx.dealer_id])
                locked = [tx for tx, _ in locks.locked]
                runnable = [write for tx in locked for write in writes[tx.dealer_id] if write.failure is None]
                started = [write for write in runnable if write.start()]
                if not _run_together(started, connection, rows, locked):
                    for write in started:
                        write.run_alone(connection, rows)
            self._failed = False
            self.stored += len(started)
        except DatabaseBusy as error:
            if self._engine.dialect.name != "sqlite":
                return UnstoredWrites({}, writes)
            self._fail_group(group, error)
        except Exception as error:  # noqa: BLE001 - if the thread ended, every lead would wait for ever
            self._fail_group(group, error)
            left = UnstoredWrites({}, {})
        for dealer_id in writes.keys() - left.blocked.keys() - left.alone.keys():
            self._queue.let_in(dealer_id)
            for write in writes[dealer_id]:
                write.settle()
        return left

    def _fail_group(self, group: Iterable[LeadWrite[Any]], error: Exception) -> None:
        """Sets the `failure` of all writes that have none, and makes the next probe write."""
        self._failed = True
        for write in group:
            write.failure = write.failure or error


def _unstored_writes(writes: Writes, locks: DealerLocks) -> UnstoredWrites:
    """The writes of the dealers that `lock_dealers` did not lock."""
    if not (locks.taken or locks.new):
        return UnstoredWrites({}, {})
    return UnstoredWrites(*({tx.dealer_id: writes[tx.dealer_id] for tx in each} for each in (locks.taken, locks.new)))


def _token_reads(writes: Iterable[LeadWrite[Any]]) -> list[Read]:
    """Returns the statements that read the tokens of the writes, unless they were revoked."""
    tokens = {write.buyer.token_id for write in writes if write.buyer is not None and write.buyer.token_id is not None}
    return [(FIND_ACTIVE_TOKEN, {"sought": token_id}) for token_id in tokens]


def _check_writes(tx: Transaction, dealer: LockedDealer, writes: Iterable[LeadWrite[Any]]) -> None:
    """Sets the `failure` of each write that may not run, and gives the other writes the keys that encrypt.

    A write of a buyer may not run if its token was revoked or the dealer is disabled. The rows that were read with the
    lock decide: what the process has in memory may be old, because the process may have been stopped meanwhile.
    """
    active = {row.token_id for rows in dealer.rows for row in rows}
    for write in writes:
        write.failure = write.problem(active, is_enabled=dealer.enabled)
    _give_keys(tx, [write for write in writes if write.failure is None])


def _give_keys(tx: Transaction, writes: Iterable[LeadWrite[Any]]) -> None:
    """Sets the `ciphers` of a dealer's writes to the keys that may encrypt now.

    Without such keys it sets the `failure` of these writes, and the writes of other dealers still run. The writes keep
    the keys that were checked here, because another thread may refresh the keys meanwhile.
    """
    try:
        if tx.given_cipher is None:
            return
        prepare_to_encrypt(tx)
    except (KeyMissing, WrongKey) as error:
        for write in writes:
            write.failure = error
    else:
        ciphers = OneCipher(tx.unchecked_cipher, tx.ciphers.installation)
        for write in writes:
            write.ciphers = ciphers


def _note_absent_keys(tx: Transaction, writes: Iterable[LeadWrite[Any]]) -> None:
    """Finds in one round trip which idempotency keys and contact hashes of a dealer's writes no row has.

    Most are absent, because most leads are of new customers. The statements of the writes that look for an absent key
    are then not executed. A write that cannot make its keys is left out.
    """
    sought: dict[Column[Any], list[bytes]] = {}
    for write in writes:
        if write.seeks is not None and write.failure is None:
            with suppress(EncryptionError, KeyMissing, UnicodeError):  # The write will raise it.
                for column, keys in write.seeks(tx).items():
                    sought.setdefault(column, []).extend(keys)
    find_absent_keys(tx, sought)


def _run_together(
    group: Sequence[LeadWrite[Any]], connection: Connection, rows: CollectedRows, locked: Sequence[Transaction]
) -> bool:
    """Runs writes one after the other, and writes their rows together.

    Returns False, and stores nothing, if one of them fails after it stored something. Raises DatabaseFailure.
    """
    try:
        with savepoint(rows, locked):
            for write in group:
                write.run_with_others(connection, rows)
    except DatabaseFailure:
        raise
    except Exception:  # noqa: BLE001 - it is raised again when the write that it belongs to runs alone.
        return False
    return True
