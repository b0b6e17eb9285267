"""The loop in every worker process that leases due deliveries, sends them and records the results.

Only a few deliveries are sent at once to each channel, so a channel that hangs delays only its own leads. Leases and
results are jobs of the process's writer, and share transactions with new leads. If the process is killed, its leases
expire.
"""

import asyncio
import random
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import structlog

from dealer_agent.config.settings import DeliverySettings
from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.delivery_content import prepare_delivery
from dealer_agent.delivery.failures import Breaker, DeliveryDropped, NeedsNewId, NotDelivered, retry_wait
from dealer_agent.delivery.outlet import Outlets
from dealer_agent.storage import outbox
from dealer_agent.storage.errors import AlreadyStored, StorageError
from dealer_agent.storage.lead_writer import Job, LeadWriter
from dealer_agent.storage.outbox import DueDelivery, Receiver
from dealer_agent.storage.sent_deliveries import StoredDocument, store_document
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

POLL_SECONDS = 1.0
TURN_SECONDS = 0.05
"""Jobs of one turn share a transaction. A lease or a result waits for the end of its turn."""
CONCURRENCY = 64
"""The most deliveries in progress in one process."""
CHANNEL_CONCURRENCY = 16
"""The most deliveries that are rendered or sent to one channel. One whose result is being recorded does not count."""
STOP_SECONDS = 5.0
"""The time for deliveries in progress when the loop stops."""
RECORD_AGAIN_SECONDS = 1.0
WRONG_CHANNEL = "there is no such channel in dealer.toml any more; name it there, then: dealer-agent deliveries retry"

Result = TypeVar("Result")


@dataclass
class DeliveryLoop:
    """One dealer's deliveries in one process."""

    profile: Profile
    store: Store
    writer: LeadWriter
    outlets: Outlets
    settings: DeliverySettings
    _in_progress: dict[asyncio.Task[None], DueDelivery] = field(default_factory=dict)
    _recording: set[asyncio.Task[None]] = field(default_factory=set)
    _breakers: dict[Receiver, Breaker] = field(default_factory=dict)
    _awake: asyncio.Event = field(default_factory=asyncio.Event)
    _due: set[Receiver] = field(default_factory=set)
    _next_poll: float = 0.0
    _failing: bool = False
    _stopping: bool = False

    def wake(self) -> None:
        """There may be a new delivery. Call it on the event loop."""
        if self.outlets:
            self._awake.set()

    async def run(self) -> None:
        """Sends until `stop` is called. Then deliveries in progress get STOP_SECONDS, and the others are released."""
        while not self._stopping:
            self._awake.clear()
            await self._begin_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._awake.wait()
        await self._finish()

    def stop(self) -> None:
        """Ends `run` within a few seconds. Do not cancel the task of `run`: it would lose deliveries that it leased."""
        self._stopping = True
        self._awake.set()

    async def _begin_due(self) -> None:
        """Leases as many deliveries as allowed. A failure is logged once, and the next turn tries again."""
        if len(self._in_progress) >= CONCURRENCY:
            return
        try:
            limits = self._limits(await self._due_receivers())
            leased = await self._write(lambda tx: self._lease(tx, limits)) if limits else []
            for delivery in leased:
                task = asyncio.create_task(self._deliver(delivery))
                self._in_progress[task] = delivery
                task.add_done_callback(self._ended)
            counts = Counter(delivery.receiver for delivery in leased)
            # A receiver with fewer deliveries than its limit has no more.
            self._due.difference_update(receiver for receiver, limit in limits.items() if counts[receiver] < limit)
        except Exception as fault:  # noqa: BLE001 - the boundary: if the loop ended, no lead would be sent.
            if not self._failing:
                details = {"problem": str(fault)} if isinstance(fault, StorageError) else {"place": _place(fault)}
                log.error("deliveries wait", error=type(fault).__qualname__, **details)
            self._failing = True
        else:
            self._failing = False

    async def _due_receivers(self) -> list[Receiver]:
        """The receivers with due deliveries.

        The query reads all waiting deliveries, so it runs only at each poll and when no known receiver is left. Its
        transaction is read-only, so it does not delay the writer.
        """
        time = asyncio.get_running_loop().time()
        if time >= self._next_poll or not self._limits(list(self._due)):
            self._next_poll = time + POLL_SECONDS
            self._due = set(await asyncio.to_thread(self._read_due_receivers))
        return list(self._due)

    def _read_due_receivers(self) -> list[Receiver]:
        with self.store.read(self.profile.id) as tx:
            return outbox.due_receivers(tx, timedelta(seconds=self.settings.lease_seconds))

    def _limits(self, receivers: list[Receiver]) -> dict[Receiver, int]:
        """How many deliveries may begin at each receiver. The order is random, so no receiver is always last."""
        counts: dict[Receiver, int] = defaultdict(int)
        for task, delivery in self._in_progress.items():
            if task not in self._recording:
                counts[delivery.receiver] += 1
        free = CONCURRENCY - len(self._in_progress)
        limits: dict[Receiver, int] = {}
        random.shuffle(receivers)
        for receiver in receivers:
            if receiver not in self.outlets:
                limits[receiver] = CONCURRENCY
                continue
            now = asyncio.get_running_loop().time()
            limit = min(free, self._breaker(receiver).capacity(now, counts[receiver], CHANNEL_CONCURRENCY))
            if limit:
                limits[receiver] = limit
                free -= limit
        return limits

    def _lease(self, tx: Transaction, limits: dict[Receiver, int]) -> list[DueDelivery]:
        leased = []
        for receiver, limit in limits.items():
            for delivery in outbox.claim(tx, timedelta(seconds=self.settings.lease_seconds), receiver, limit):
                if receiver in self.outlets:
                    leased.append(delivery)
                else:
                    outbox.park(tx, delivery, WRONG_CHANNEL)
        return leased

    def _ended(self, task: asyncio.Task[None]) -> None:
        delivery = self._in_progress.pop(task)
        self._recording.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            # No result could be recorded: the lease expires.
            log.error("fault", **_named(delivery), error=type(fault).__qualname__, place=_place(fault))
        self.wake()

    async def _deliver(self, delivery: DueDelivery) -> None:
        sending = False
        try:
            document = await self._document(delivery)
            if document is None:
                return
            sending = True
            note = await self.outlets[delivery.receiver].send(delivery, document)
        except asyncio.CancelledError:
            # The process stops, so another process may send it at once. If this cannot be stored, the lease expires.
            with suppress(StorageError):
                await self._write(lambda tx: outbox.release(tx, delivery, may_have_arrived=sending))
            raise
        except DeliveryDropped as dropped:
            log.info("delivery dropped", **_named(delivery), reason=str(dropped))
            await self._record(delivery, outbox.drop, str(dropped))
        except NeedsNewId as reason:
            log.info("delivery goes on under another id", **_named(delivery), reason=str(reason))
            await self._record(delivery, outbox.send_under_new_id, str(reason))
        except NotDelivered as failure:
            self._count_failure(delivery.receiver, failure)
            await self._record_failure(delivery, failure)
        except StorageError as failure:
            await self._record_failure(delivery, NotDelivered(f"not begun: {failure}", channel_failed=False))
        except Exception as fault:  # noqa: BLE001 - the boundary: a fault of one delivery must not end the loop.
            # The message of a library's error may quote the lead.
            log.error("fault", **_named(delivery), error=type(fault).__qualname__, place=_place(fault))
            problem = f"a fault in this program ({type(fault).__qualname__}); the log says where"
            unsent = NotDelivered(problem, channel_failed=False, may_have_arrived=sending)
            await self._record_failure(delivery, unsent)
        else:
            self._breaker(delivery.receiver).succeeded()
            log.info("delivery sent", **_named(delivery), **({"note": note} if note else {}))
            await self._record(delivery, outbox.settle_sent, note)

    async def _document(self, delivery: DueDelivery) -> bytes | None:
        """The document of the first attempt, which is stored before it is sent. None if the lease was lost."""
        document, is_new = await asyncio.to_thread(self._rendered, delivery)
        if is_new:
            try:
                await self._write(lambda tx: store_document(tx, delivery, document))
            except AlreadyStored:
                return None
        return document.content

    def _rendered(self, delivery: DueDelivery) -> tuple[StoredDocument, bool]:
        """The document, and whether it is new. Raises DeliveryDropped for a mail to a customer that is out of date."""
        prepared = prepare_delivery(self.store, self.profile, delivery)
        if prepared.stored is not None and delivery.kind not in TO_CUSTOMER:
            return prepared.stored, False
        content = self.outlets[delivery.receiver].render(delivery, prepared.message)
        return prepared.stored or StoredDocument(content, prepared.needs, prepared.first), prepared.stored is None

    def _count_failure(self, receiver: Receiver, failure: NotDelivered) -> None:
        breaker = self._breaker(receiver)
        if not failure.channel_failed:
            breaker.succeeded()
            return
        retry_after = failure.retry_after or timedelta()
        breaker.failed(asyncio.get_running_loop().time(), retry_after.total_seconds())
        if breaker.is_open:
            log.warning("channel pauses", rooftop=receiver[0], channel=receiver[1], failures=breaker.failures)

    async def _record_failure(self, delivery: DueDelivery, failure: NotDelivered) -> None:
        """Schedules a retry, or parks the delivery.

        CRMs report permanent failures that are not permanent, so these are retried. A customer's mailbox is not tried
        again: after repeated attempts, mail providers could treat the dealer's mail as spam.
        """
        now = datetime.now(UTC)
        problem, may_have_arrived = failure.problem, failure.may_have_arrived
        too_old = now - delivery.tried_since >= timedelta(hours=self.settings.park_after_hours)
        if too_old or (failure.permanent and delivery.kind in TO_CUSTOMER):
            log.error("delivery parked", **_named(delivery), problem=problem)
            await self._record(delivery, outbox.park, problem, may_have_arrived=may_have_arrived)
            return
        wait = retry_wait(self.settings, delivery.attempts, random.random())  # noqa: S311 - not a secret
        due_at = now + max(wait, failure.retry_after or timedelta())
        log.warning("delivery failed", **_named(delivery), problem=problem)
        await self._record(delivery, outbox.reschedule, due_at, problem, may_have_arrived=may_have_arrived)

    async def _record(
        self, delivery: DueDelivery, result: Callable[..., object], *values: object, **more: object
    ) -> None:
        """Stores a result, and tries again while the lease is valid: a short failure of the database must not cause a
        second sending."""
        task = asyncio.current_task()
        assert task is not None, "a delivery is a task"
        self._recording.add(task)
        self.wake()
        now = datetime.now(UTC)
        deadline = asyncio.get_running_loop().time() + self.settings.lease_seconds
        while True:
            try:
                await self._write(lambda tx: result(tx, delivery, *values, **more), now)
            except StorageError as failure:
                if asyncio.get_running_loop().time() >= deadline:
                    log.error("delivery not settled", **_named(delivery), problem=str(failure))
                    return
            else:
                return
            await asyncio.sleep(RECORD_AGAIN_SECONDS)

    async def _write(self, job: Job[Result], now: datetime | None = None) -> Result:
        await asyncio.sleep(TURN_SECONDS - asyncio.get_running_loop().time() % TURN_SECONDS)
        return await asyncio.shield(asyncio.wrap_future(self.writer.submit(self.profile.id, job, now)))

    def _breaker(self, receiver: Receiver) -> Breaker:
        if receiver not in self._breakers:
            self._breakers[receiver] = Breaker(self.settings.breaker_failures, self.settings.breaker_seconds)
        return self._breakers[receiver]

    async def _finish(self) -> None:
        if self._in_progress:
            _, late = await asyncio.wait(self._in_progress, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _named(delivery: DueDelivery) -> dict[str, object]:
    return {
        "delivery": delivery.delivery_id,
        "lead": delivery.lead_id,
        "kind": delivery.kind,
        "rooftop": delivery.rooftop,
        "channel": delivery.channel,
        "attempt": delivery.attempts,
    }


def _place(fault: BaseException) -> str:
    frames = traceback.extract_tb(fault.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
