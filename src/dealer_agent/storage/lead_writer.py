"""Leads are committed in groups: one writer thread per process, one transaction and one fsync for all that wait.

A job is a function of the connection that stores what one request brings. Jobs of one dealer run one after the other,
in every process: the writer holds the dealer's lock around them, so no two processes miss a duplicate of each other's
or store one idempotency key twice (contract, part 10).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine

from dealer_agent.storage.chain import lock_dealer
from dealer_agent.storage.errors import AlreadyStored, DatabaseFailure, StoreClosed, translating
from dealer_agent.storage.keys import ready_to_seal
from dealer_agent.storage.prepared import run_plainly
from dealer_agent.vault.vault import Vault

GROUP = 64
"""The most jobs in one transaction: bounds how long the first of them waits for the last."""

Result = TypeVar("Result")


@dataclass(slots=True)
class _Submitted(Generic[Result]):
    dealer_id: str
    job: Callable[[Connection], Result]
    future: Future[Result]
    result: Result | None = None
    failure: Exception | None = None

    def run(self, connection: Connection) -> None:
        """Runs the job in a savepoint: one that fails leaves nothing behind, and does not spoil the others.

        Raises DatabaseFailure: SQLite may then have rolled back the whole transaction, the others' work with it.
        """
        try:
            try:
                self._attempt(connection)
            except AlreadyStored:
                # Another one was first after this job had looked; it will see that one now.
                self._attempt(connection)
        except DatabaseFailure:
            raise
        except Exception as error:  # noqa: BLE001 - as in any executor, the failure belongs to whoever awaits the future
            self.failure = error

    def _attempt(self, connection: Connection) -> None:
        with translating():
            run_plainly(connection, "SAVEPOINT job")
            try:
                with translating():
                    self.result = self.job(connection)
            except DatabaseFailure:
                raise  # The whole transaction ends.
            except BaseException:
                run_plainly(connection, "ROLLBACK TO SAVEPOINT job")
                run_plainly(connection, "RELEASE SAVEPOINT job")
                raise
            run_plainly(connection, "RELEASE SAVEPOINT job")

    def settle(self) -> None:
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # The job ran: it is a Result.


class LeadWriter:
    """Stores leads durably. Threads and event loops may share one; every process makes its own (after a fork)."""

    def __init__(self, writer: Engine, vault: Vault | None) -> None:
        """Without a vault there is nothing that a job could seal with."""
        self._writer = writer
        self._vault = vault
        self._queue: SimpleQueue[_Submitted[Any] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="lead-writer", daemon=True)
        self._thread.start()

    def submit(self, dealer_id: str, job: Callable[[Connection], Result]) -> Future[Result]:
        """Queues `job`; the future has its result once that is durable.

        The future fails with what the job raised, or with a DatabaseFailure when the transaction failed: then nothing
        of the job is stored, unless the connection broke during the commit. A job that met AlreadyStored runs
        once more. Raises StoreClosed after `close`.
        """
        future: Future[Result] = Future()
        with self._closing:
            if self._closed:
                raise StoreClosed("the lead writer is closed")
            self._queue.put(_Submitted(dealer_id, job, future))
        return future

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
            running = [submitted for submitted in group if submitted.future.set_running_or_notify_cancel()]
            if running:
                self._store(running)
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
        # Dealers are locked in one order everywhere, so that two processes never wait for each other.
        group.sort(key=lambda submitted: submitted.dealer_id)
        locked: str | None = None
        try:
            with translating(), self._writer.begin() as connection:
                for submitted in group:
                    if submitted.dealer_id != locked:
                        lock_dealer(connection, submitted.dealer_id)
                        locked = submitted.dealer_id
                        if self._vault is not None:
                            ready_to_seal(connection, self._vault, locked)
                    submitted.run(connection)
        except Exception as error:  # noqa: BLE001 - as above: a thread that died would leave every lead waiting for ever
            for submitted in group:
                submitted.failure = submitted.failure or error
        for submitted in group:
            submitted.settle()
