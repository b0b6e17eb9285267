"""Runs one write that waits in memory for the lead writer, and gives its future the result.

The writes of a group run together in one savepoint, because a savepoint for each takes time. If one of them fails after
it stored something, its rows cannot be told from those of the others. Then all are rolled back, and each one runs again
alone, in a savepoint of its own: only the one that fails again has stored nothing.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter, time_ns
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from dealer_agent.storage.errors import (
    AlreadyStored,
    DatabaseFailure,
    DealerUnknown,
    StorageError,
    TokenRevoked,
    translating,
)
from dealer_agent.storage.isolation import forget_dealer
from dealer_agent.storage.leads.prepared_statements import CollectedRows, Sought, run_without_parameters
from dealer_agent.storage.privacy.event_chain import lock_dealer
from dealer_agent.storage.transaction import Ciphers, OpenSpan, Transaction, current_span

Result = TypeVar("Result")
WriteFunction = Callable[[Transaction], Result]
Seeks = Callable[[Transaction], Sought]


async def result_in_time(stored: Future[Result], seconds: float) -> Result:
    """The result of a write. After `seconds` it is cancelled, unless it runs already, and this raises TimeoutError."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(asyncio.wrap_future(stored))
    except TimeoutError:
        stored.cancel()
        raise


class Buyer(NamedTuple):
    """The sender of a request whose write must not run for a disabled dealer, or with a revoked token."""

    token_id: str | None = None


@dataclass(slots=True)
class LeadWrite(Generic[Result]):
    """A function that writes, what its transaction needs, and the future of its result.

    The write may wait for a blocked dealer for `seconds`. `seeks` returns the keys that it looks for: mostly no row has
    them, and then it runs without these statements.

    `began_at`: when the writer last took it from the queue, in nanoseconds, for the span of a trace. `was_taken`: it
    has left the queue at least once. `started`: it can no longer be cancelled. `has_met_same_row`: in the savepoint of
    its group, the write raised AlreadyStored. Its run alone is then the second attempt, and there is no third one.
    """

    dealer_id: str
    function: WriteFunction[Result]
    now: datetime | None
    ciphers: Ciphers
    future: Future[Result]
    buyer: Buyer | None
    seconds: float
    submitted_at: float = field(default_factory=perf_counter)
    seeks: Seeks | None = None
    span: OpenSpan | None = field(default_factory=current_span.get)
    began_at: int = 0
    was_taken: bool = False
    started: bool = False
    has_met_same_row: bool = False
    result: Result | None = None
    failure: Exception | None = None

    def start(self) -> bool:
        """Makes the write impossible to cancel. Returns False for a write that was cancelled: it must not run."""
        if not self.started and not self.future.cancelled():
            self.started = self.future.set_running_or_notify_cancel()
        return self.started

    def transaction(self, connection: Connection) -> Transaction:
        """The write's transaction. The keys were checked when the service started."""
        tx = Transaction(connection, self.dealer_id, self.now or datetime.now(UTC), self.ciphers)
        if self.span is not None:
            tx.trace = self.span.traceparent
        return tx

    def problem(self, tokens: Collection[str], *, is_enabled: bool) -> StorageError | None:
        """Why the write must not run, now that its dealer is locked. `tokens` are the active ones."""
        if self.buyer is None:
            return None
        if not is_enabled:
            return DealerUnknown(f"the dealer {self.dealer_id} is disabled: see dealer-agent dealers enable")
        if self.buyer.token_id is not None and self.buyer.token_id not in tokens:
            return TokenRevoked(f"the token {self.buyer.token_id} was revoked: give this buyer a new one")
        return None

    def is_too_old(self, now: float, since: float) -> bool:
        """Whether it has waited for `seconds` for a dealer who is blocked `since`. Both are times of `perf_counter`."""
        return now - max(self.submitted_at, since) >= self.seconds

    def refuse(self, failure: Exception) -> None:
        """Fails the future."""
        self.failure = failure
        self.settle()

    def run_with_others(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the write. Keeps its failure if it has stored nothing, and raises it otherwise."""
        touched = rows.touched
        try:
            with translating():
                self.result = self.function(self.transaction(connection))
        except StorageError as error:
            self.has_met_same_row = isinstance(error, AlreadyStored)
            raise
        except Exception as error:
            if rows.touched > touched:
                raise
            self.failure = error

    def run_alone(self, connection: Connection, rows: CollectedRows) -> None:
        """Runs the write in a savepoint: a failure leaves nothing stored, and does not affect other writes.

        Raises DatabaseFailure: SQLite may then have rolled back the whole transaction, with the work of other writes.
        """
        self.failure = None
        try:
            try:
                self._attempt(connection, rows)
            except AlreadyStored:
                if self.has_met_same_row:
                    raise
                # Another transaction stored the same row after this write had looked for it; the next attempt finds it.
                self._attempt(connection, rows)
        except DatabaseFailure:
            raise
        except Exception as error:  # noqa: BLE001 - as in any executor, the failure belongs to the future
            self.failure = error

    def _attempt(self, connection: Connection, rows: CollectedRows) -> None:
        tx = self.transaction(connection)
        with savepoint(rows, [tx]):
            self.result = self.function(tx)

    def settle(self) -> None:
        """Gives the future its result or its failure."""
        if self.future.done() or not self.start():
            return
        if self.span is not None:
            self.span.record("transaction", self.began_at, time_ns())
        if self.failure is not None:
            self.future.set_exception(self.failure)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # The write ran: it is a Result.


@contextmanager
def savepoint(rows: CollectedRows, locked: Iterable[Transaction]) -> Iterator[None]:
    """A savepoint for a `with` block and the rows that it adds. If the block fails, they are rolled back.

    `locked` has a transaction of each dealer that is locked. After a DatabaseFailure the whole transaction ends.
    """
    run_without_parameters(rows.connection, "SAVEPOINT lead_write")
    try:
        with translating():
            yield
            rows.write()
    except DatabaseFailure:
        raise
    except BaseException:
        rows.discard()
        run_without_parameters(rows.connection, "ROLLBACK TO SAVEPOINT lead_write")
        run_without_parameters(rows.connection, "RELEASE SAVEPOINT lead_write")
        forget_dealer(rows.connection)
        for tx in locked:
            # The lock went with the savepoint. To take it again also reads the end of the chain of consents.
            lock_dealer(tx)
        raise
    run_without_parameters(rows.connection, "RELEASE SAVEPOINT lead_write")
