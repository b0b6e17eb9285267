"""The loop in every worker process that leases due deliveries, sends them and records the results.

A dealer has a limited number of deliveries in progress, and so has each of its channels (`delivery.slots`). So a
channel that hangs delays only its own leads. Leases and results are jobs of the process's writer, and share
transactions with new leads. If the process is killed, its leases expire.
"""

import asyncio
import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import structlog

from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.dealer_outlets import DealerOutlets, DealerReceiver, OutletCache, Sending
from dealer_agent.delivery.delivery_content import prepare_delivery
from dealer_agent.delivery.failures import Breaker, DeliveryDropped, NeedsNewId, NotDelivered, retry_wait
from dealer_agent.delivery.lease import Lease
from dealer_agent.delivery.slots import share_slots
from dealer_agent.jobs.loop import words_of
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument
from dealer_agent.storage.errors import (
    DatabaseFailure,
    DealerUnknown,
    KeyMissing,
    LeaseLost,
    StorageError,
    WrongKey,
)
from dealer_agent.storage.leads.lead_job import Job
from dealer_agent.storage.leads.lead_writer import STORE_SECONDS, LeadWriter
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import OpenSpan, Transaction, current_span

log = structlog.get_logger()

POLL_SECONDS = 1.0
TURN_SECONDS = 0.05
"""Jobs of one turn share a transaction. A lease or a result waits for the end of its turn."""
PROCESS_CONCURRENCY = 128
"""The most deliveries in progress in one process."""
CONCURRENCY = 64
"""The most deliveries in progress of one dealer."""
CHANNEL_CONCURRENCY = 16
"""The most deliveries that are rendered or sent to one channel. One whose result is being recorded does not count."""
FAILING_CHANNEL_CONCURRENCY = 2
"""The same for a channel whose last attempt failed."""
FAILING_CONCURRENCY = 32
"""The most deliveries in progress to all such channels together."""
READ_AT_ONCE = 16
"""The most dealers whose due receivers are read in one turn."""
READ_AGAIN_SECONDS = 0.2
"""The due receivers of a dealer are read again after this time at the earliest: the query reads all that waits."""
READS_AGAIN_A_SECOND = 50
"""How many dealers whose channels pause are read again in a second, at most."""
LEASE_WAIT_SECONDS = 0.5
"""How long a lease waits for a dealer that another transaction has locked. The leases of all dealers wait meanwhile."""
WRONG_DEALER_SECONDS = 10.0
"""When a dealer that could send nothing is tried again."""
STOP_SECONDS = 5.0
"""The time for deliveries in progress when the loop stops."""
RECORD_AGAIN_SECONDS = 1.0
WRONG_CHANNEL = "there is no such channel in dealer.toml any more; name it there, then: dealer-agent deliveries retry"

Result = TypeVar("Result")


@dataclass
class DueReceivers:
    """The receivers of a dealer with due deliveries, and when they were read."""

    dealer: DealerOutlets
    receivers: set[Receiver]
    read_at: float


@dataclass
class DeliveryLoop:
    """The deliveries of all dealers of one process.

    `find_due_dealers` returns the dealers that may have due deliveries, the longest waiting first. `find_outlets`
    raises StorageError and SettingsError for a dealer that can send nothing now. Both run in a thread. `on_result` gets
    each attempt with its result: sent, failed, undeliverable or dropped. `begin_span` begins the span of an attempt of
    a dealer, if traces are on.
    """

    store: Store
    writer: LeadWriter
    find_due_dealers: Callable[[], Iterable[str]]
    find_outlets: Callable[[str], DealerOutlets]
    on_result: Callable[[Sending, str], None] = lambda *_: None
    begin_span: Callable[[str, DueDelivery], OpenSpan | None] = lambda *_: None
    _outlets: OutletCache = field(default_factory=OutletCache)
    _in_progress: dict[asyncio.Task[None], Sending] = field(default_factory=dict)
    _recording: set[asyncio.Task[None]] = field(default_factory=set)
    _breakers: dict[DealerReceiver, Breaker] = field(default_factory=dict)
    _awake: asyncio.Event = field(default_factory=asyncio.Event)
    _woken: dict[str, None] = field(default_factory=dict)
    _found: dict[str, None] = field(default_factory=dict)
    _due: OrderedDict[str, DueReceivers] = field(default_factory=OrderedDict)
    _wrong_until: dict[str, float] = field(default_factory=dict)
    _forgotten: int = 0
    _next_poll: float = 0.0
    _failing: bool = False
    _stopping: bool = False

    def wake(self, dealer_id: str) -> None:
        """The dealer may have a new delivery. Call it on the event loop."""
        kept = self._outlets.get(dealer_id)
        if dealer_id not in self._wrong_until and (kept is None or kept.outlets):
            self._woken[dealer_id] = None
            self._awake.set()

    def forget(self, dealer_id: str) -> None:
        """The dealer's settings have changed. Call it on the event loop. Deliveries in progress keep the older ones."""
        self._outlets.forget(dealer_id)
        self._due.pop(dealer_id, None)
        self._wrong_until.pop(dealer_id, None)
        for receiver in [receiver for receiver in self._breakers if receiver[0] == dealer_id]:
            del self._breakers[receiver]
        self._forgotten += 1

    async def run(self) -> None:
        """Sends until `stop` is called. Then deliveries in progress get STOP_SECONDS, and the others are released."""
        while not self._stopping:
            self._awake.clear()
            await self._begin_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(READ_AGAIN_SECONDS, POLL_SECONDS) if self._woken else POLL_SECONDS):
                    await self._awake.wait()
        await self._finish()

    def stop(self) -> None:
        """Ends `run` within a few seconds. Do not cancel the task of `run`: it would lose deliveries that it leased."""
        self._stopping = True
        self._awake.set()

    async def _begin_due(self) -> None:
        """Leases as many deliveries as allowed. A failure is logged once, and the next turn tries again."""
        try:
            await self._read_due()
            await self._begin_shares()
        except Exception as fault:  # noqa: BLE001 - the boundary: if the loop ended, no lead would be sent.
            if not self._failing:
                log.error("deliveries wait", error=type(fault).__qualname__, problem=words_of(fault))
            self._failing = True
        else:
            self._failing = False

    async def _begin_shares(self) -> None:
        """Leases for all dealers at once. Raises the first failure when all leases have ended."""
        leases = [self._begin(dealer_id, limits) for dealer_id, limits in self._shares().items()]
        for failure in await asyncio.gather(*leases, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _begin(self, dealer_id: str, limits: Mapping[Receiver, int]) -> None:
        """Leases deliveries of a dealer, and begins to send them."""
        due = self._due[dealer_id]
        try:
            leased = await self._write(dealer_id, lambda tx: _lease(tx, due.dealer, limits), seconds=LEASE_WAIT_SECONDS)
        except (KeyMissing, WrongKey, DealerUnknown) as fault:
            self._put_off(dealer_id, fault)
            return
        self._wrong_until.pop(dealer_id, None)
        for delivery in leased:
            sending = Sending(due.dealer, delivery)
            task = asyncio.create_task(self._deliver(sending))
            self._in_progress[task] = sending
            task.add_done_callback(self._ended)
        counts = Counter(delivery.receiver for delivery in leased)
        # A receiver with fewer deliveries than its limit has no more.
        due.receivers.difference_update(receiver for receiver, limit in limits.items() if counts[receiver] < limit)
        if not due.receivers and self._due.get(dealer_id) is due:
            del self._due[dealer_id]

    async def _read_due(self) -> None:
        """Reads which dealers have due deliveries, at each poll, and the due receivers of some of them.

        The transactions are read-only, so they do not delay the writer.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._next_poll:
            self._next_poll = now + POLL_SECONDS
            self._found = dict.fromkeys(await asyncio.to_thread(self.find_due_dealers))
            for dealer_id in self._due.keys() - self._found:
                del self._due[dealer_id]
        chosen = self._dealers_to_read(now)
        kept = {dealer_id: self._outlets.get(dealer_id) for dealer_id in chosen}
        forgotten = self._forgotten
        try:
            read = await asyncio.to_thread(self._receivers_of, kept, now)
        finally:
            for dealer_id in chosen:
                self._woken.pop(dealer_id, None)
                self._found.pop(dealer_id, None)
        for dealer_id, found in read.items():
            if isinstance(found, Exception):
                self._put_off(dealer_id, found)
            elif forgotten == self._forgotten:
                self._outlets.keep(dealer_id, found.dealer)
                if found.receivers:
                    self._due[dealer_id] = found
        if len(chosen) >= READ_AT_ONCE:
            self._awake.set()

    def _dealers_to_read(self, now: float) -> list[str]:
        """Dealers with new deliveries, and some of those that have waited longest.

        Dealers with paused channels are found at every poll. The more there are, the less often they are read.
        """
        again = max(POLL_SECONDS, len(self._due) / READS_AGAIN_A_SECOND)
        woken = [each for each in self._woken if self._may_read(each, now, READ_AGAIN_SECONDS)]
        found = [each for each in self._found if self._may_read(each, now, again)]
        return list(dict.fromkeys((*woken[:READ_AT_ONCE], *found[:READ_AT_ONCE])))

    def _may_read(self, dealer_id: str, now: float, again: float) -> bool:
        due = self._due.get(dealer_id)
        return (due is None or now >= due.read_at + again) and now >= self._wrong_until.get(dealer_id, now)

    def _receivers_of(
        self, dealers: Mapping[str, DealerOutlets | None], now: float
    ) -> dict[str, DueReceivers | Exception]:
        """The due receivers of dealers, or why a dealer can send nothing. Raises DatabaseFailure."""
        found: dict[str, DueReceivers | Exception] = {}
        for dealer_id, kept in dealers.items():
            try:
                dealer = kept or self.find_outlets(dealer_id)
                with self.store.read(dealer_id) as tx:
                    due = outbox.due_receivers(tx, timedelta(seconds=dealer.settings.lease_seconds))
            except DatabaseFailure:
                raise
            except Exception as fault:  # noqa: BLE001 - the boundary: one dealer must not delay the others.
                found[dealer_id] = fault
            else:
                found[dealer_id] = DueReceivers(dealer, set(due), now)
        return found

    def _put_off(self, dealer_id: str, fault: Exception) -> None:
        if dealer_id not in self._wrong_until:
            log.error(
                "deliveries of a dealer wait", dealer=dealer_id, error=type(fault).__qualname__, problem=words_of(fault)
            )
        self._wrong_until[dealer_id] = asyncio.get_running_loop().time() + WRONG_DEALER_SECONDS
        self._outlets.forget(dealer_id)
        self._due.pop(dealer_id, None)

    def _shares(self) -> dict[str, dict[Receiver, int]]:
        """How many deliveries may begin at each receiver, by dealer. A dealer that gets a turn comes last next time."""
        used, at_failing, at_receiver = self._slots_in_use()
        healthy: dict[str, dict[Receiver, int]] = {}
        failing: dict[str, dict[Receiver, int]] = {}
        shares: dict[str, dict[Receiver, int]] = defaultdict(dict)
        for dealer_id, due in self._due.items():
            for receiver in random.sample(sorted(due.receivers), len(due.receivers)):
                if receiver in due.dealer.outlets:
                    breaker = self._breaker(due.dealer, receiver)
                    group = failing if breaker.failures else healthy
                    capacity = self._capacity(breaker, at_receiver[dealer_id, receiver])
                    group.setdefault(dealer_id, {})[receiver] = capacity
                else:
                    # They become undeliverable, which needs no slot.
                    shares[dealer_id][receiver] = CONCURRENCY
        granted = share_slots(healthy, used, total=PROCESS_CONCURRENCY, of_dealer=CONCURRENCY)
        left = PROCESS_CONCURRENCY - used.total() - _count(granted)
        total = min(FAILING_CONCURRENCY, at_failing.total() + left)
        for group in (granted, share_slots(failing, at_failing, total=total, of_dealer=CONCURRENCY)):
            for dealer_id, share in group.items():
                shares[dealer_id] |= share
                self._due.move_to_end(dealer_id)
        return shares

    def _slots_in_use(self) -> tuple[Counter[str], Counter[str], Counter[DealerReceiver]]:
        """The deliveries in progress: by dealer, those to failing channels by dealer, and by receiver.

        By receiver, a delivery whose result is being recorded does not count.
        """
        used: Counter[str] = Counter()
        at_failing: Counter[str] = Counter()
        at_receiver: Counter[DealerReceiver] = Counter()
        for task, sending in self._in_progress.items():
            used[sending.dealer_id] += 1
            if self._breaker(sending.dealer, sending.delivery.receiver).failures:
                at_failing[sending.dealer_id] += 1
            if task not in self._recording:
                at_receiver[sending.receiver] += 1
        return used, at_failing, at_receiver

    def _capacity(self, breaker: Breaker, in_progress: int) -> int:
        at_once = FAILING_CHANNEL_CONCURRENCY if breaker.failures else CHANNEL_CONCURRENCY
        return breaker.capacity(asyncio.get_running_loop().time(), in_progress, at_once)

    def _ended(self, task: asyncio.Task[None]) -> None:
        sending = self._in_progress.pop(task)
        self._recording.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            # No result could be recorded: the lease expires.
            log.error("fault", **sending.named(), error=type(fault).__qualname__, problem=words_of(fault))
        self.wake(sending.dealer_id)

    async def _deliver(self, sending: Sending) -> None:
        """One attempt: renders the document, sends it, and records the outcome, whatever it is."""
        span = self.begin_span(sending.dealer_id, sending.delivery)
        if span is not None:
            current_span.set(span)  # The task is of this attempt only.
            sending = sending._replace(delivery=sending.delivery._replace(trace=span.traceparent))
        delivery, lease = sending.delivery, self._lease_of(sending)
        try:
            document, is_new = await asyncio.to_thread(self._rendered, sending)
            lease.new_document = document if is_new else None
            note = await sending.dealer.outlets[delivery.receiver].send(delivery, document.content, lease)
        except asyncio.CancelledError:
            # The process stops, so another process may send it at once. If this cannot be stored, the lease expires.
            with suppress(StorageError):
                await self._write(
                    sending.dealer_id, lambda tx: outbox.release(tx, delivery, may_have_arrived=lease.may_have_left)
                )
            raise
        except DeliveryDropped as dropped:
            self._note(sending, "dropped")
            log.info("delivery dropped", **sending.named(), reason=str(dropped))
            await self._record(sending, outbox.drop, str(dropped))
        except NeedsNewId as reason:
            self._note(sending, "dropped")
            log.info("delivery goes on under another id", **sending.named(), reason=str(reason))
            await self._record(sending, outbox.send_under_new_id, str(reason))
        except NotDelivered as failure:
            self._count_failure(sending, failure)
            await self._record_failure(sending, failure)
        except (LeaseLost, DealerUnknown) as lost:
            log.info("delivery not sent", **sending.named(), reason=str(lost))
        except StorageError as failure:
            await self._record_failure(sending, NotDelivered(f"not begun: {failure}", channel_failed=False))
        except Exception as fault:  # noqa: BLE001 - the boundary: a fault of one delivery must not end the loop.
            # The message of a library's error may quote the lead.
            log.error("fault", **sending.named(), error=type(fault).__qualname__, problem=words_of(fault))
            problem = f"a fault in this program ({type(fault).__qualname__}); the log says where"
            unsent = NotDelivered(problem, channel_failed=False, may_have_arrived=lease.may_have_left)
            await self._record_failure(sending, unsent)
        else:
            self._breaker(sending.dealer, delivery.receiver).succeeded()
            self._note(sending, "sent")
            log.info("delivery sent", **sending.named(), **({"note": note} if note else {}))
            await self._record(sending, outbox.settle_sent, note)

    def _lease_of(self, sending: Sending) -> Lease:
        seconds, write = sending.dealer.settings.lease_seconds, partial(self._write, sending.dealer_id)
        return Lease(sending.delivery, seconds, None, write)

    def _rendered(self, sending: Sending) -> tuple[StoredDocument, bool]:
        """The document, and whether it is new. Raises DeliveryDropped for a mail to a customer that is out of date."""
        dealer, delivery = sending
        prepared = prepare_delivery(self.store, dealer.profile, delivery)
        if prepared.stored is not None and delivery.kind not in TO_CUSTOMER:
            return prepared.stored, False
        content = dealer.outlets[delivery.receiver].render(delivery, prepared.message)
        return prepared.stored or StoredDocument(content, prepared.needs, prepared.first), prepared.stored is None

    def _count_failure(self, sending: Sending, failure: NotDelivered) -> None:
        """Counts a failure of the channel, which pauses after several. A failure of one lead does not count."""
        rooftop, channel = sending.delivery.receiver
        breaker = self._breaker(sending.dealer, sending.delivery.receiver)
        if not failure.channel_failed:
            breaker.succeeded()
            return
        retry_after = failure.retry_after or timedelta()
        breaker.failed(asyncio.get_running_loop().time(), retry_after.total_seconds())
        if breaker.is_open:
            log.warning(
                "channel pauses",
                dealer=sending.dealer_id,
                rooftop=rooftop,
                channel=channel,
                failures=breaker.failures,
            )

    async def _record_failure(self, sending: Sending, failure: NotDelivered) -> None:
        """Schedules a retry, or gives up the delivery.

        CRMs report permanent failures that are not permanent, so these are retried. A customer's mailbox is not tried
        again: after repeated attempts, mail providers could treat the dealer's mail as spam.
        """
        now = datetime.now(UTC)
        delivery, settings = sending.delivery, sending.dealer.settings
        problem, may_have_arrived = failure.problem, failure.may_have_arrived
        too_old = now - delivery.tried_since >= timedelta(hours=settings.give_up_after_hours)
        if too_old or (failure.permanent and delivery.kind in TO_CUSTOMER):
            self._note(sending, "undeliverable")
            log.error("delivery undeliverable", **sending.named(), problem=problem)
            await self._record(sending, outbox.give_up, problem, may_have_arrived=may_have_arrived)
            return
        self._note(sending, "failed")
        wait = retry_wait(settings, delivery.attempts, random.random())  # noqa: S311 - not a secret
        due_at = now + max(wait, failure.retry_after or timedelta())
        log.warning("delivery failed", **sending.named(), problem=problem)
        await self._record(sending, outbox.reschedule, due_at, problem, may_have_arrived=may_have_arrived)

    async def _record(self, sending: Sending, result: Callable[..., object], *values: object, **more: object) -> None:
        """Stores a result, and tries again while the lease is valid: a short failure of the database must not cause a
        second sending."""
        task = asyncio.current_task()
        assert task is not None, "a delivery is a task"
        self._recording.add(task)
        self.wake(sending.dealer_id)
        now = datetime.now(UTC)
        deadline = asyncio.get_running_loop().time() + sending.dealer.settings.lease_seconds
        while True:
            try:
                await self._write(sending.dealer_id, lambda tx: result(tx, sending.delivery, *values, **more), now)
            except DealerUnknown:
                return  # It was removed with all its deliveries.
            except StorageError as failure:
                if asyncio.get_running_loop().time() >= deadline:
                    log.error("delivery not settled", **sending.named(), problem=str(failure))
                    return
            else:
                return
            await asyncio.sleep(RECORD_AGAIN_SECONDS)

    async def _write(
        self, dealer_id: str, job: Job[Result], now: datetime | None = None, seconds: float = STORE_SECONDS
    ) -> Result:
        await asyncio.sleep(TURN_SECONDS - asyncio.get_running_loop().time() % TURN_SECONDS)
        return await asyncio.shield(asyncio.wrap_future(self.writer.submit(dealer_id, job, now, seconds=seconds)))

    def _note(self, sending: Sending, result: str) -> None:
        """Notes the result of an attempt. Call it in the task of the attempt."""
        self.on_result(sending, result)
        span = current_span.get()
        if span is not None:
            span.end({"dealer_agent.result": result}, failed=result in ("failed", "undeliverable"))

    def _breaker(self, dealer: DealerOutlets, receiver: Receiver) -> Breaker:
        full = dealer.profile.id, receiver
        if full not in self._breakers:
            self._breakers[full] = Breaker(dealer.settings.breaker_failures, dealer.settings.breaker_seconds)
        return self._breakers[full]

    async def _finish(self) -> None:
        if self._in_progress:
            _, late = await asyncio.wait(self._in_progress, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _count(shares: Mapping[str, Mapping[Receiver, int]]) -> int:
    return sum(sum(share.values()) for share in shares.values())


def _lease(tx: Transaction, dealer: DealerOutlets, limits: Mapping[Receiver, int]) -> list[DueDelivery]:
    leased = []
    for receiver, limit in limits.items():
        for delivery in outbox.claim(tx, timedelta(seconds=dealer.settings.lease_seconds), receiver, limit):
            if receiver in dealer.outlets:
                leased.append(delivery)
            else:
                outbox.give_up(tx, delivery, WRONG_CHANNEL)
    return leased
