"""An attempt to deliver: its lease, its timeout, and how it ends. An outlet renews the lease just before the document
leaves.

A process may stop for longer than its lease, anywhere: with SIGSTOP, or with its virtual machine. Then another process
may have sent the delivery. Only the database knows, so the renewal asks it. The transaction is the one that stores the
document of a first attempt, so it costs first attempts nothing.

The process may stop again until it reads the response of the database. So two clocks of the machine then say whether
the lease still holds: CLOCK_BOOTTIME, which also runs while the machine sleeps, and the wall clock, because after a
pause of a virtual machine only the time of the network has moved on.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from dealer_agent.config.channels import LEAST_LEASE_MARGIN_SECONDS
from dealer_agent.config.settings import LONGEST_LEASE_SECONDS, DeliverySettings
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.jobs.loop import pause_after
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.deliveries.sent_deliveries import LEASE_TAKEN, StoredDocument, renew
from dealer_agent.storage.errors import AlreadyStored, LeaseLost
from dealer_agent.storage.leads.lead_write import WriteFunction
from dealer_agent.storage.leads.outcomes import note_bounce
from dealer_agent.storage.transaction import Transaction

_CLOCKS = (getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC), time.CLOCK_REALTIME)

MOST_RENEWALS = 3
"""How often a lease is renewed if the renewal takes too long."""


@dataclass(eq=False)
class NotDelivered(Exception):  # noqa: N818 - it says what happened
    """The attempt failed, or its result is unknown. `problem` has no personal data and no text of a server.

    `channel_failed`: the circuit breaker of the channel counts it. Otherwise the receiver works and refused only this
    delivery. `permanent`: the receiver says that no later attempt will succeed, which is not always true.
    `may_have_arrived`: the receiver got some of it and did not refuse it.
    """

    problem: str
    _: KW_ONLY
    channel_failed: bool = True
    permanent: bool = False
    retry_after: timedelta | None = None
    may_have_arrived: bool = False


class DeliveryDropped(Exception):  # noqa: N818 - it says what happened
    """The delivery must not be sent: the customer was erased, or its content is out of date."""


class NeedsNewId(Exception):  # noqa: N818 - it says what happened
    """The document of the first attempt must not be sent again. The delivery continues with another id."""


class End(NamedTuple):
    """The end of an attempt: its result for metrics and traces, what the log says, and what the writer stores.

    The result is sent, failed, undeliverable or dropped.
    """

    result: str
    level: str
    event: str
    details: Mapping[str, object]
    store: Callable[[Transaction, DueDelivery], object]


def dropped(event: str, reason: Exception, store: Callable[[Transaction, DueDelivery, str], object]) -> End:
    """The end of an attempt whose delivery must not be sent, at least not under its id."""
    words = str(reason)
    return End("dropped", "info", event, {"reason": words}, lambda tx, delivery: store(tx, delivery, words))


def end_of_failure(delivery: DueDelivery, settings: DeliverySettings, failure: NotDelivered) -> End:
    """The end of an attempt that failed: there is another one later, or none.

    CRMs report permanent failures that are not permanent, so these are retried. A customer's mailbox is not tried
    again: after repeated attempts, mail providers could treat the dealer's mail as spam.
    """
    now, details = datetime.now(UTC), {"problem": failure.problem}
    stored: dict[str, Any] = {"problem": failure.problem, "may_have_arrived": failure.may_have_arrived}
    too_old = now - delivery.tried_since >= timedelta(hours=settings.give_up_after_hours)
    if failure.permanent and not failure.channel_failed and delivery.kind in TO_CUSTOMER:
        return End("undeliverable", "error", "delivery undeliverable", details, partial(_give_up_bounced, **stored))
    if too_old or (failure.permanent and delivery.kind in TO_CUSTOMER):
        return End("undeliverable", "error", "delivery undeliverable", details, partial(outbox.give_up, **stored))
    first, longest = timedelta(seconds=settings.first_retry_seconds), timedelta(minutes=settings.longest_retry_minutes)
    # Full jitter: deliveries that failed together do not come back together.
    wait = pause_after(delivery.attempts, first, longest) * random.random()  # noqa: S311 - not a secret
    due_at = now + max(wait, failure.retry_after or timedelta())
    return End("failed", "warning", "delivery failed", details, partial(outbox.reschedule, due_at=due_at, **stored))


def _give_up_bounced(tx: Transaction, delivery: DueDelivery, **stored: Any) -> None:
    """Parks a mail that the server of the customer's address refused for good. It counts against the lead's sender."""
    if outbox.give_up(tx, delivery, **stored):
        note_bounce(tx, delivery.lead_id)


@dataclass
class Lease:
    """The lease of a delivery, for `seconds` from each renewal. `new_document` is that of a first attempt.

    `write` runs a function in a transaction of the lead writer. `may_have_left`: some of the document may have left.
    """

    delivery: DueDelivery
    seconds: float
    new_document: StoredDocument | None
    write: Callable[[WriteFunction[None]], Awaitable[None]]
    may_have_left: bool = False
    _renewed_at: list[float] = field(default_factory=list)
    _longest: float = 0.0

    async def renew(self, sending_seconds: float) -> None:
        """Call it just before the first byte leaves. Raises LeaseLost, NotDelivered and StorageError.

        The document is sent within `sending_seconds`, or given up.
        """
        self._longest = max(self.seconds - sending_seconds, LEAST_LEASE_MARGIN_SECONDS) / 2
        for _ in range(MOST_RENEWALS):
            now = _now()
            try:
                await self.write(self._renewal)
            except AlreadyStored:
                raise LeaseLost(LEASE_TAKEN) from None
            self.new_document, self._renewed_at = None, now
            if self._elapsed() < self._longest:
                self.may_have_left = True
                return
        raise NotDelivered("not begun: the database is too slow", channel_failed=False)

    def check(self) -> None:
        """Raises LeaseLost if the lease may have ended since `renew`. Call it after a wait for something else."""
        if self._elapsed() >= self._longest:
            raise LeaseLost("the lease of this delivery ended before it was sent")

    def _renewal(self, tx: Transaction) -> None:
        renew(tx, self.delivery, timedelta(seconds=self.seconds), self.new_document)

    def _elapsed(self) -> float:
        return max(now - then for now, then in zip(_now(), self._renewed_at, strict=True))


def lease_outside_queue(delivery: DueDelivery) -> Lease:
    """The lease of a delivery that is not in the database: no other process can send it."""

    async def write(_: WriteFunction[None]) -> None:
        pass

    return Lease(delivery, LONGEST_LEASE_SECONDS, None, write)


def _now() -> list[float]:
    return [time.clock_gettime(clock) for clock in _CLOCKS]


class Countdown:
    """The timeout of an attempt, whose lease is renewed meanwhile. Only one block runs at a time."""

    def __init__(self, seconds: float) -> None:
        self._ends = asyncio.get_running_loop().time() + seconds
        self._timeout: asyncio.Timeout | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises TimeoutError in the block when the time is over."""
        async with asyncio.timeout_at(self._ends) as self._timeout:
            yield

    async def renew(self, lease: Lease) -> None:
        """Renews the lease. The time for it does not count, because the receiver does not cause it."""
        assert self._timeout is not None, "call it inside the block of `running`"
        loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        self._timeout.reschedule(None)
        await lease.renew(self._ends - begun)
        self._ends += loop.time() - begun
        self._timeout.reschedule(self._ends)
