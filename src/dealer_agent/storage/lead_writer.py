"""Leads are committed in groups: one writer thread per process, one transaction and one fsync for all that wait.

A job is a function that stores the content of one request in the transaction that it gets. The writer holds the
dealer's lock, so the jobs of one dealer run one after the other, in all processes. No process misses a duplicate of
another one, or stores one idempotency key twice (docs/protocol.md#durability).

The jobs of a group run in one savepoint, and their rows are written together at its end. If a job fails after it stored
something, all jobs run again, each in a savepoint of its own. So a job may run twice. It must change nothing but the
database.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from time import perf_counter, time_ns
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, update

from dealer_agent.storage.connections import begin
from dealer_agent.storage.errors import (
    AlreadyStored,
    DatabaseBusy,
    DatabaseFailure,
    DealerUnknown,
    KeyMissing,
    StorageError,
    StoreClosed,
    TokenRevoked,
    WrongKey,
    translating,
)
from dealer_agent.storage.event_chain import lock_dealer
from dealer_agent.storage.isolation import forget_dealer
from dealer_agent.storage.keys import prepare_to_encrypt
from dealer_agent.storage.prepared_statements import CollectedRows, collect_rows, run_plainly
from dealer_agent.storage.schema import of_dealer, revisions
from dealer_agent.storage.tokens import FIND_ACTIVE_TOKEN
from dealer_agent.storage.trace_context import OpenSpan, current_span
from dealer_agent.storage.transaction import Ciphers, OneCipher, Transaction

GROUP = 64
"""The most jobs in one transaction: bounds how long the first of them waits for the last."""

MOST_WAITING = 1024
"""The most jobs in the queue. It bounds the memory of waiting leads while the database is locked."""

# It changes nothing: a probe needs a write.
WRITE = update(revisions).where(of_dealer(revisions)).values(token_revision=revisions.c.token_revision)

Result = TypeVar("Result")
Job = Callable[[Transaction], Result]


class Buyer(NamedTuple):
    """The sender of a request whose job must not run for a disabled dealer, or with a revoked token."""

    token_id: str | None = None


@dataclass(slots=True)
class _Submitted(Generic[Result]):
    dealer_id: str
    job: Job[Result]
    now: datetime | None
    ciphers: Ciphers
    future: Future[Result]
    buyer: Buyer | None
    submitted_at: float = field(default_factory=perf_counter)
    span: OpenSpan | None = field(default_factory=current_span.get)
    began: int = 0
    started: bool = False
    met_another: bool = False
    result: Result | None = None
    failure: Exception | None = None

    def start(self) -> bool:
        """Makes the job impossible to cancel. Returns False for a job that was cancelled: it must not run."""
        if not self.started and not self.future.cancelled():
            self.started = self.future.set_running_or_notify_cancel()
        return self.started

    def transaction(self, connection: Connection) -> Transaction:
        """The job's transaction. The keys were checked when the service started."""
        tx = Transaction(connection, self.dealer_id, self.now or datetime.now(UTC), self.ciphers)
        if self.span is not None:
            tx.trace = self.span.traceparent
        return tx

    def refusal(self, tokens: Collection[str], *, is_enabled: bool) -> StorageError | None:
        """Why the job must not run, now that its dealer is locked. `tokens` are the active ones."""
        if self.buyer is None:
            return None
        if not is_enabled:
            return DealerUnknown(f"the dealer {self.dealer_id} is disabled: see dealer-agent dealers enable")
        if self.buyer.token_id is not None and self.buyer.token_id not in tokens:
            return TokenRevoked(f"the token {self.buyer.token_id} was revoked: give this buyer a new one")
        return None

    def run_with_others(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the job. Keeps its failure if it has stored nothing, and raises it otherwise."""
        touched = rows.touched
        try:
            with translating():
                self.result = self.job(self.transaction(connection))
        except StorageError as error:
            self.met_another = isinstance(error, AlreadyStored)
            raise
        except Exception as error:
            if rows.touched > touched:
                raise
            self.failure = error

    def run_alone(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the job in a savepoint: a failure leaves nothing stored, and does not affect other jobs.

        Raises DatabaseFailure: SQLite may then have rolled back the whole transaction, with the work of other jobs.
        """
        self.failure = None
        try:
            try:
                self._attempt(connection, rows)
            except AlreadyStored:
                if self.met_another:
                    raise
                # Another transaction was first after this job had looked; the next attempt sees it.
                self._attempt(connection, rows)
        except DatabaseFailure:
            raise
        except Exception as error:  # noqa: BLE001 - as in any executor, the failure belongs to the future
            self.failure = error

    def _attempt(self, connection: Connection, rows: CollectedRows) -> None:
        tx = self.transaction(connection)
        with _savepoint(rows, [tx]):
            self.result = self.job(tx)

    def settle(self) -> None:
        if not self.start():
            return
        if self.span is not None:
            self.span.record("transaction", self.began, time_ns())
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # The job ran: it is a Result.


class LeadWriter:
    """Stores leads durably. Threads and event loops may share one; every process makes its own (after a fork)."""

    def __init__(self, writer: Engine, ciphers: Ciphers) -> None:
        """Without a cipher, a job that encrypts raises KeyMissing."""
        self._writer = writer
        self._ciphers = ciphers
        self._queue: SimpleQueue[_Submitted[Any] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._failed = False
        self.on_wait: Callable[[float], None] = lambda _: None
        """Gets the seconds that each job waited in the queue. The thread of the writer calls it."""
        self._thread = threading.Thread(target=self._work, name="lead-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of jobs in the queue."""
        return self._queue.qsize()

    def submit(
        self, dealer_id: str, job: Job[Result], now: datetime | None = None, buyer: Buyer | None = None
    ) -> Future[Result]:
        """Queues `job`; the future has its result as soon as that is durable. `now` is the time of its transaction.

        The future fails with DealerUnknown if the dealer was removed. A job of a `buyer` also fails with DealerUnknown
        for a disabled dealer, and with TokenRevoked for a revoked token.

        The future fails with the error of the job, or with a DatabaseFailure if the transaction failed. Then nothing of
        the job is stored, unless the connection broke during the commit. A job that raised AlreadyStored runs a second
        time. The future can be cancelled until the job runs, even while the writer waits for the database's lock. Then
        nothing of the job is stored. Raises StoreClosed after `close`, and DatabaseBusy while MOST_WAITING jobs wait.
        """
        future: Future[Result] = Future()
        with self._closing:
            if self._closed:
                raise StoreClosed("the lead writer is closed")
            if self._queue.qsize() >= MOST_WAITING:
                raise DatabaseBusy(f"{MOST_WAITING} jobs wait for the database already")
            self._queue.put(_Submitted(dealer_id, job, now, self._ciphers, future, buyer))
        return future

    def probe(self, dealer_id: str) -> Future[None]:
        """Tests whether a lead could be stored now. The future succeeds or fails as that of a lead would.

        The job takes the same locks as a lead. It writes only if the last transaction failed, because a commit that
        writes nothing costs no fsync on SQLite.
        """

        def job(tx: Transaction) -> None:
            if self._failed:
                tx.execute(WRITE)

        return self.submit(dealer_id, job)

    def close(self) -> None:
        """Runs the jobs that were submitted, then stops. May be called twice."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            group, last = self._next_group()
            waiting = [submitted for submitted in group if not submitted.future.cancelled()]
            now = perf_counter()
            for submitted in waiting:
                self.on_wait(now - submitted.submitted_at)
                submitted.began = 0 if submitted.span is None else time_ns()
            if waiting:
                self._store(waiting)
            if last:
                return

    def _next_group(self) -> tuple[list[_Submitted[Any]], bool]:
        """Waits for a job, and returns it with the jobs behind it in the queue. True if the queue has ended."""
        group: list[_Submitted[Any]] = []
        submitted = self._queue.get()
        while submitted is not None:
            group.append(submitted)
            if len(group) == GROUP:
                return group, False
            try:
                submitted = self._queue.get_nowait()
            except Empty:
                return group, False
        return group, True

    def _store(self, group: list[_Submitted[Any]]) -> None:
        by_dealer = {submitted.dealer_id: submitted for submitted in group}
        try:
            with translating(), begin(self._writer, min(by_dealer)) as connection, collect_rows(connection) as rows:
                # Dealers are locked in one order everywhere, so that two processes never wait for each other.
                dealers = [submitted.transaction(connection) for _, submitted in sorted(by_dealer.items())]
                locked = [tx for tx in dealers if _lock(tx, [each for each in group if each.dealer_id == tx.dealer_id])]
                # Sort the jobs by dealer, so that the dealer is set once for all its jobs.
                runnable = sorted((each for each in group if each.failure is None), key=lambda each: each.dealer_id)
                started = [each for each in runnable if each.start()]
                if not _run_together(started, connection, rows, locked):
                    for submitted in started:
                        submitted.run_alone(connection, rows)
            self._failed = False
        except Exception as error:  # noqa: BLE001 - as above: if the thread ended, every lead would wait for ever
            self._failed = True
            for submitted in group:
                submitted.failure = submitted.failure or error
        for submitted in group:
            submitted.settle()


def _lock(tx: Transaction, jobs: Sequence[_Submitted[Any]]) -> bool:
    """Locks a dealer, and decides which of its jobs may run. Returns False for a dealer that was removed.

    The process may have read tokens and state of the dealer long ago: it may have been stopped since.
    """
    tokens = {job.buyer.token_id for job in jobs if job.buyer is not None and job.buyer.token_id is not None}
    try:
        is_enabled, found = lock_dealer(tx, [(FIND_ACTIVE_TOKEN, {"sought": token_id}) for token_id in tokens])
    except DealerUnknown as error:
        for job in jobs:
            job.failure = error
        return False
    active = {row.token_id for rows in found for row in rows}
    for job in jobs:
        job.failure = job.refusal(active, is_enabled=is_enabled)
    _prepare_keys(tx, [job for job in jobs if job.failure is None])
    return True


def _prepare_keys(tx: Transaction, jobs: Iterable[_Submitted[Any]]) -> None:
    """Lets a dealer's jobs encrypt with keys that may encrypt. Without such keys they fail. Those of others run.

    Another thread may refresh the keys meanwhile: the jobs keep the keys that were checked here.
    """
    try:
        if tx.given_cipher is None:
            return
        prepare_to_encrypt(tx)
    except (KeyMissing, WrongKey) as error:
        for submitted in jobs:
            submitted.failure = error
    else:
        ciphers = OneCipher(tx.unchecked_cipher, tx.ciphers.installation)
        for submitted in jobs:
            submitted.ciphers = ciphers


def _run_together(
    group: Sequence[_Submitted[Any]], connection: Connection, rows: CollectedRows, locked: Sequence[Transaction]
) -> bool:
    """Runs jobs one after the other, and writes their rows together.

    Returns False, and stores nothing, if one of them fails after it stored something. Raises DatabaseFailure.
    """
    try:
        with _savepoint(rows, locked):
            for submitted in group:
                submitted.run_with_others(connection, rows)
    except DatabaseFailure:
        raise
    except Exception:  # noqa: BLE001 - it is raised again when the job that it belongs to runs alone.
        return False
    return True


@contextmanager
def _savepoint(rows: CollectedRows, locked: Iterable[Transaction]) -> Iterator[None]:
    """A savepoint for a `with` block and the rows that it adds. If the block fails, they are rolled back.

    `locked` has a transaction of each dealer that is locked. After a DatabaseFailure the whole transaction ends.
    """
    run_plainly(rows.connection, "SAVEPOINT job")
    try:
        with translating():
            yield
            rows.write()
    except DatabaseFailure:
        raise
    except BaseException:
        rows.discard()
        run_plainly(rows.connection, "ROLLBACK TO SAVEPOINT job")
        run_plainly(rows.connection, "RELEASE SAVEPOINT job")
        forget_dealer(rows.connection)
        for tx in locked:
            # It also reads the end of the chain of consents again.
            lock_dealer(tx)
        raise
    run_plainly(rows.connection, "RELEASE SAVEPOINT job")
