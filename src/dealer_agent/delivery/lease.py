"""The lease of a delivery in progress. An outlet renews it just before the document leaves.

A process may stop for longer than its lease, anywhere: with SIGSTOP, or with its virtual machine. Then another process
may have sent the delivery. Only the database knows, so the renewal asks it. The transaction is the one that stores the
document of a first attempt, so it costs first attempts nothing.

The process may stop again until it reads the response of the database. So the clocks then say whether the lease still
holds. One runs while the machine sleeps. The other is set by the network, which a machine needs whose clocks all stood
still.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from dealer_agent.config.channels import LEAST_LEASE_MARGIN_SECONDS
from dealer_agent.config.settings import LONGEST_LEASE_SECONDS
from dealer_agent.delivery.failures import NotDelivered
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument, store_document
from dealer_agent.storage.errors import AlreadyStored, LeaseLost
from dealer_agent.storage.leads.lead_job import Job
from dealer_agent.storage.transaction import Transaction

_CLOCKS = (getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC), time.CLOCK_REALTIME)

MOST_RENEWALS = 3
"""How often a lease is renewed if the renewal takes too long."""


@dataclass
class Lease:
    """The lease of a delivery, for `seconds` from each renewal. `new_document` is that of a first attempt.

    `write` executes a job of the lead writer. `may_have_left`: some of the document may have left.
    """

    delivery: DueDelivery
    seconds: float
    new_document: StoredDocument | None
    write: Callable[[Job[None]], Awaitable[None]]
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
                await self.write(self._renew)
            except AlreadyStored:
                raise LeaseLost("another process has the lease of this delivery") from None
            self.new_document, self._renewed_at = None, now
            if self._elapsed() < self._longest:
                self.may_have_left = True
                return
        raise NotDelivered("not begun: the database is too slow", channel_failed=False)

    def check(self) -> None:
        """Raises LeaseLost if the lease may have ended since `renew`. Call it after a wait for something else."""
        if self._elapsed() >= self._longest:
            raise LeaseLost("the lease of this delivery ended before it was sent")

    def _renew(self, tx: Transaction) -> None:
        lease = timedelta(seconds=self.seconds)
        if self.new_document is None:
            outbox.renew(tx, self.delivery, lease)
        else:
            store_document(tx, self.delivery, self.new_document, lease)

    def _elapsed(self) -> float:
        return max(now - then for now, then in zip(_now(), self._renewed_at, strict=True))


def lease_outside_queue(delivery: DueDelivery) -> Lease:
    """The lease of a delivery that is not in the database: no other process can send it."""

    async def write(_: Job[None]) -> None:
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
        assert self._timeout is not None, "call it in the block"
        loop, begun = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        self._timeout.reschedule(None)
        await lease.renew(self._ends - begun)
        self._ends += loop.time() - begun
        self._timeout.reschedule(self._ends)
