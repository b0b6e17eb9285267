"""Leads are committed in groups: one writer thread per process, one transaction and one fsync for all that wait.

A job is a function of the connection that stores what one request brings. Jobs of one dealer run one after the other,
in every process: the writer holds the dealer's lock around them, so no two processes miss a duplicate of each other's
or store one idempotency key twice (contract, part 10).

The jobs of a group run in one savepoint, and their rows are written together at its end. When one of them fails after
it stored something, all run again, each in a savepoint of its own: so a job may run twice, and changes nothing but the
database.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine, bindparam, update

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.errors import (
    AlreadyStored,
    DatabaseBusy,
    DatabaseFailure,
    StorageError,
    StoreClosed,
    translating,
)
from dealer_agent.storage.event_chain import lock_dealer
from dealer_agent.storage.keys import ready_to_seal
from dealer_agent.storage.prepared_statements import CollectedRows, collect_rows, run_plainly
from dealer_agent.storage.schema import revisions

GROUP = 64
"""The most jobs in one transaction: bounds how long the first of them waits for the last."""

MOST_WAITING = 1024
"""The most jobs in the queue. It bounds the memory of waiting leads while the database is locked."""

WRITE_SOMETHING = (
    update(revisions)
    .where(revisions.c.dealer_id == bindparam("in_dealer"))
    .values(token_revision=revisions.c.token_revision)
)

Result = TypeVar("Result")


@dataclass(slots=True)
class _Submitted(Generic[Result]):
    dealer_id: str
    job: Callable[[Connection], Result]
    future: Future[Result]
    started: bool = False
    met_another: bool = False
    result: Result | None = None
    failure: Exception | None = None

    def start(self) -> bool:
        """Makes the job impossible to cancel. Returns False for a job that was cancelled: it must not run."""
        if not self.started and not self.future.cancelled():
            self.started = self.future.set_running_or_notify_cancel()
        return self.started

    def run_with_others(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the job. Its failure is its own while it has stored nothing; else it is raised."""
        touched = rows.touched
        try:
            with translating():
                self.result = self.job(connection)
        except StorageError as error:
            self.met_another = isinstance(error, AlreadyStored)
            raise
        except Exception as error:
            if rows.touched > touched:
                raise
            self.failure = error

    def run_alone(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the job in a savepoint: one that fails leaves nothing behind, and does not spoil the others.

        Raises DatabaseFailure: SQLite may then have rolled back the whole transaction, the others' work with it.
        """
        self.failure = None
        try:
            try:
                self._attempt(connection, rows)
            except AlreadyStored:
                if self.met_another:
                    raise
                # Another one was first after this job had looked; it will see that one now.
                self._attempt(connection, rows)
        except DatabaseFailure:
            raise
        except Exception as error:  # noqa: BLE001 - as in any executor, the failure belongs to whoever awaits the future
            self.failure = error

    def _attempt(self, connection: Connection, rows: CollectedRows) -> None:
        with _savepoint(connection, rows, [self.dealer_id]):
            self.result = self.job(connection)

    def settle(self) -> None:
        if not self.start():
            return
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # The job ran: it is a Result.


class LeadWriter:
    """Stores leads durably. Threads and event loops may share one; every process makes its own (after a fork)."""

    def __init__(self, writer: Engine, cipher: Cipher | None) -> None:
        """Without a cipher there is nothing that a job could seal with."""
        self._writer = writer
        self._vault = cipher
        self._queue: SimpleQueue[_Submitted[Any] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="lead-writer", daemon=True)
        self._thread.start()

    def submit(self, dealer_id: str, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queues `job`; the future has its result once that is durable.

        The future fails with what the job raised, or with a DatabaseFailure when the transaction failed: then nothing
        of the job is stored, unless the connection broke during the commit. A job that met AlreadyStored runs
        once more. The future can be cancelled until the job runs, also while the writer waits for the database's lock:
        then nothing of the job is stored. Raises StoreClosed after `close`, and DatabaseBusy while MOST_WAITING jobs
        wait.
        """
        future: Future[Result] = Future()
        with self._closing:
            if self._closed:
                raise StoreClosed("the lead writer is closed")
            if self._queue.qsize() >= MOST_WAITING:
                raise DatabaseBusy(f"{MOST_WAITING} jobs wait for the database already")
            self._queue.put(_Submitted(dealer_id, job, future))
        return future

    def probe(self, dealer_id: str) -> Future[None]:
        """Finds out whether a lead could be stored now. The future is done, or fails, as that of a lead would.

        The job takes the locks that a lead takes. It writes only when the last transaction failed: a commit that
        writes nothing costs no fsync on SQLite.
        """

        def job(connection: Connection) -> None:
            if self._failed:
                connection.execute(WRITE_SOMETHING, {"in_dealer": dealer_id})

        return self.submit(dealer_id, job)

    def close(self) -> None:
        """Stores what was submitted, then stops. May be called twice."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            group, last = self._next_group()
            waiting = [submitted for submitted in group if not submitted.future.cancelled()]
            if waiting:
                self._store(waiting)
            if last:
                return

    def _next_group(self) -> tuple[list[_Submitted[Any]], bool]:
        """Waits for a job and takes what is queued behind it; whether the queue has ended."""
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
        dealers = sorted({submitted.dealer_id for submitted in group})
        try:
            with translating(), self._writer.begin() as connection, collect_rows(connection) as rows:
                # Dealers are locked in one order everywhere, so that two processes never wait for each other.
                for dealer_id in dealers:
                    lock_dealer(connection, dealer_id)
                    if self._vault is not None:
                        ready_to_seal(connection, self._vault, dealer_id)
                started = [submitted for submitted in group if submitted.start()]
                if not _run_together(started, connection, rows, dealers):
                    for submitted in started:
                        submitted.run_alone(connection, rows)
            self._failed = False
        except Exception as error:  # noqa: BLE001 - as above: a thread that died would leave every lead waiting for ever
            self._failed = True
            for submitted in group:
                submitted.failure = submitted.failure or error
        for submitted in group:
            submitted.settle()


def _run_together(
    group: Sequence[_Submitted[Any]], connection: Connection, rows: CollectedRows, dealers: Sequence[str]
) -> bool:
    """Runs jobs one after the other, and writes their rows together.

    Returns False, and leaves nothing behind, when one of them spoils the others. Raises DatabaseFailure.
    """
    try:
        with _savepoint(connection, rows, dealers):
            for submitted in group:
                submitted.run_with_others(connection, rows)
    except DatabaseFailure:
        raise
    except Exception:  # noqa: BLE001 - it is raised again when the job that it belongs to runs alone.
        return False
    return True


@contextmanager
def _savepoint(connection: Connection, rows: CollectedRows, dealers: Iterable[str]) -> Iterator[None]:
    """A savepoint for a block and the rows that it adds. The database goes back to it when the block fails.

    After a DatabaseFailure it does not: the whole transaction ends.
    """
    run_plainly(connection, "SAVEPOINT job")
    try:
        with translating():
            yield
            rows.write()
    except DatabaseFailure:
        raise
    except BaseException:
        rows.discard()
        run_plainly(connection, "ROLLBACK TO SAVEPOINT job")
        run_plainly(connection, "RELEASE SAVEPOINT job")
        for dealer_id in dealers:
            # It also reads the end of the chain of consents again.
            lock_dealer(connection, dealer_id)
        raise
    run_plainly(connection, "RELEASE SAVEPOINT job")
