"""The loop in every worker process that leases due deliveries, sends them and records the results.

A dealer has a limited number of deliveries in progress, and so has each of its channels (`delivery.slots`). So a
channel that hangs delays only its own leads. Leases and results are writes of the process's writer, and share
transactions with new leads. If the process is killed, its leases expire.

The loop of the other jobs (`jobs.loop`) could do this work, but leads and deliveries would cost more. Measured with two
receivers on SQLite: a row of the table of jobs for each delivery costs the writer 6 to 8 % more processor time for a
lead. A transaction for each lease and each result makes 2.1 write transactions and 1.6 to 2.0 ms of processor time for
a delivery. Here they are 0.2 and 0.9 to 1.2 ms, because deliveries share transactions with each other and with leads.
"""

import asyncio
import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

import structlog

from dealer_agent.dealers.routing import TO_CUSTOMER, UNKNOWN_CHANNEL, channel_kinds
from dealer_agent.delivery.attempt import DeliveryDropped, End, Lease, NeedsNewId, NotDelivered, dropped, end_of_failure
from dealer_agent.delivery.delivery_content import prepare_delivery, read_leads
from dealer_agent.delivery.outlets import DealerOutlets
from dealer_agent.delivery.slots import Breaker, share_slots
from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.jobs.loop import PollTimer, fault_text
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument
from dealer_agent.storage.errors import DatabaseFailure, DealerUnknown, KeyMissing, LeaseLost, StorageError, WrongKey
from dealer_agent.storage.leads.lead_record import LeadToDeliver
from dealer_agent.storage.leads.lead_write import WriteFunction
from dealer_agent.storage.leads.lead_writer import STORE_SECONDS, LeadWriter
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import OpenSpan, Transaction, current_span

log = structlog.get_logger()

POLL_SECONDS = 1.0
IDLE_TIMES = 2
"""So many times as long while nothing is due. A new lead of this process does not wait for it."""
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
LEADS_AT_ONCE = 16
"""The most deliveries whose leads are read in one transaction. It bounds how long the first waits for the others."""
READ_AGAIN_SECONDS = 0.2
"""The due receivers of a dealer are read again after this time at the earliest: the query reads all that waits."""
READS_AGAIN_A_SECOND = 50
"""How many dealers whose channels pause are read again in a second, at most."""
LEASE_WAIT_SECONDS = 0.5
"""How long a lease waits for a dealer that another transaction has locked. The leases of all dealers wait meanwhile."""
MOST_KEPT = 1024
"""The most dealers that are remembered although nothing of them is due."""
WRONG_DEALER_SECONDS = 10.0
"""When a dealer that could send nothing is tried again."""
STOP_SECONDS = 5.0
"""The time for deliveries in progress when the loop stops."""
RECORD_AGAIN_SECONDS = 1.0
WRONG_CHANNEL = "dealer.toml does not have this channel any more; add it again under [rooftops.deliver], then type: "
RETRY = "dealer-agent deliveries retry"

Result = TypeVar("Result")


@dataclass(eq=False)
class DealerQueue:
    """What the process knows about the deliveries of a dealer, since its settings changed last.

    `receivers_due` are those with due deliveries, read at `read_at`. A dealer that could send nothing is not read
    before `not_before`.
    """

    dealer_id: str
    dealer: DealerOutlets | None = None
    receivers_due: set[Receiver] = field(default_factory=set)
    read_at: float = 0.0
    not_before: float | None = None
    # The circuit breaker of each channel to which something was sent.
    _breakers: dict[Receiver, Breaker] = field(default_factory=dict)

    def breaker(self, dealer: DealerOutlets, receiver: Receiver) -> Breaker:
        """The circuit breaker of a channel."""
        settings = dealer.settings
        if receiver not in self._breakers:
            self._breakers[receiver] = Breaker(settings.breaker_failures, settings.breaker_seconds)
        return self._breakers[receiver]

    def is_idle(self, now: float) -> bool:
        """Whether it may be forgotten, if nothing of it is in progress.

        A dealer that can send nothing is remembered, so that the log says so once.
        """
        is_wrong = self.not_before is not None and now < self.not_before + WRONG_DEALER_SECONDS
        return not (self.receivers_due or is_wrong or any(each.failures for each in self._breakers.values()))


@dataclass(eq=False)
class Sending:
    """A delivery in progress. While its result is being recorded, the channel may get another one.

    `leads` has what it and others are made from, by the ids of the deliveries.
    """

    queue: DealerQueue
    dealer: DealerOutlets
    delivery: DueDelivery
    leads: asyncio.Future[dict[str, LeadToDeliver | EncryptionError]]
    is_being_recorded: bool = False

    @property
    def breaker(self) -> Breaker:
        """The circuit breaker of its channel."""
        return self.queue.breaker(self.dealer, self.delivery.receiver)

    def named(self) -> dict[str, object]:
        """What the log says about it."""
        return {
            "dealer": self.queue.dealer_id,
            "delivery": self.delivery.delivery_id,
            "lead": self.delivery.lead_id,
            "kind": self.delivery.kind,
            "rooftop": self.delivery.rooftop,
            "channel": self.delivery.channel,
            "attempt": self.delivery.attempts,
        }


@dataclass
class DeliveryLoop:
    """The deliveries of all dealers of one process.

    `find_due_dealers` returns the dealers that may have due deliveries, the longest waiting first. `find_outlets`
    raises StorageError and SettingsError for a dealer that can send nothing now. Both run in a thread. `begin_span`
    begins the span of an attempt of a dealer, if traces are on.
    """

    store: Store
    writer: LeadWriter
    find_due_dealers: Callable[[], Iterable[str]]
    find_outlets: Callable[[str], DealerOutlets]
    begin_span: Callable[[str, DueDelivery], OpenSpan | None] = lambda *_: None
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of attempts by the kind of their channel and their result."""
    # In the order in which they had their last turn.
    _queues: OrderedDict[str, DealerQueue] = field(default_factory=OrderedDict)
    # By the task of the attempt.
    _in_progress: dict[asyncio.Task[None], Sending] = field(default_factory=dict)
    # The dealers with news, and those that the last poll found. Both are read, side by side.
    _woken: dict[str, None] = field(default_factory=dict)
    _found: dict[str, None] = field(default_factory=dict)
    _poll_timer: PollTimer = field(default_factory=lambda: PollTimer("deliveries wait"))
    _next_poll: float = 0.0
    _stopping: bool = False

    def wake(self, dealer_id: str) -> None:
        """The dealer may have a new delivery. Call it on the event loop."""
        queue = self._queues.get(dealer_id)
        if queue is None or (queue.not_before is None and (queue.dealer is None or queue.dealer.outlets)):
            self._woken[dealer_id] = None
            self._poll_timer.wake()

    def forget(self, dealer_id: str) -> None:
        """The dealer's settings have changed. Call it on the event loop. Deliveries in progress keep the older ones."""
        self._queues.pop(dealer_id, None)

    async def run(self) -> None:
        """Sends until `stop` is called. Then deliveries in progress get STOP_SECONDS, and the others are released."""
        while not self._stopping:
            await self._poll_timer.poll(self._begin_due)
            until_poll = self._next_poll - asyncio.get_running_loop().time()
            await self._poll_timer.wait(min(READ_AGAIN_SECONDS, until_poll) if self._woken else until_poll)
        await self._finish()

    def stop(self) -> None:
        """Ends `run` within a few seconds. Do not cancel the task of `run`: it would lose deliveries that it leased."""
        self._stopping = True
        self._poll_timer.wake()

    async def _begin_due(self) -> None:
        """Leases as many deliveries as allowed. After a failure, the next look tries again."""
        await self._poll()
        await self._read_due()
        await self._begin_shares()

    async def _poll(self) -> None:
        """Finds the dealers with due deliveries, once in POLL_SECONDS, or less often while there are none."""
        now = asyncio.get_running_loop().time()
        if now < self._next_poll:
            return
        self._next_poll = now + POLL_SECONDS
        self._found = dict.fromkeys(await asyncio.to_thread(self.find_due_dealers))
        if not self._found and not self._in_progress:
            self._next_poll = now + IDLE_TIMES * POLL_SECONDS
        for queue in self._queues.values():
            if queue.dealer_id not in self._found:
                queue.receivers_due.clear()

    async def _read_due(self) -> None:
        """Reads the due receivers of some dealers, in transactions that are read-only and do not delay the writer."""
        now = asyncio.get_running_loop().time()
        chosen = [self._queues.setdefault(each, DealerQueue(each)) for each in self._dealers_to_read(now)]
        if not chosen:
            return
        try:
            faults = await asyncio.to_thread(self._read_receivers, chosen, now)
        finally:
            for queue in chosen:
                self._woken.pop(queue.dealer_id, None)
                self._found.pop(queue.dealer_id, None)
        for queue, fault in faults:
            self._put_off(queue, fault)
        if len(self._queues) > MOST_KEPT:
            busy = {sending.queue for sending in self._in_progress.values()}
            idle = [each.dealer_id for each in self._queues.values() if each not in busy and each.is_idle(now)]
            for dealer_id in idle[: len(self._queues) - MOST_KEPT]:
                del self._queues[dealer_id]
        if len(chosen) >= READ_AT_ONCE:
            self._poll_timer.wake()

    def _dealers_to_read(self, now: float) -> list[str]:
        """Dealers with new deliveries, and some of those that have waited longest.

        Dealers with paused channels are found at every poll. The more there are, the less often they are read.
        """
        again = max(
            POLL_SECONDS, sum(bool(queue.receivers_due) for queue in self._queues.values()) / READS_AGAIN_A_SECOND
        )
        woken = [each for each in self._woken if self._may_read(each, now, READ_AGAIN_SECONDS)]
        found = [each for each in self._found if self._may_read(each, now, again)]
        return list(dict.fromkeys((*woken[:READ_AT_ONCE], *found[:READ_AT_ONCE])))

    def _may_read(self, dealer_id: str, now: float, again: float) -> bool:
        queue = self._queues.get(dealer_id)
        least = queue.read_at + again if queue is not None and queue.receivers_due else 0.0
        return queue is None or now >= max(queue.not_before or 0.0, least)

    def _read_receivers(self, queues: Sequence[DealerQueue], now: float) -> list[tuple[DealerQueue, Exception]]:
        """Reads the due receivers. Returns the dealers that can send nothing, and why. Raises DatabaseFailure."""
        faults: list[tuple[DealerQueue, Exception]] = []
        for queue in queues:
            try:
                dealer = queue.dealer or self.find_outlets(queue.dealer_id)
                with self.store.read(queue.dealer_id) as tx:
                    due = outbox.due_receivers(tx, timedelta(seconds=dealer.settings.lease_seconds))
            except DatabaseFailure:
                raise
            except Exception as fault:  # noqa: BLE001 - the boundary: one dealer must not delay the others.
                faults.append((queue, fault))
            else:
                queue.dealer, queue.receivers_due, queue.read_at = dealer, set(due), now
        return faults

    def _put_off(self, queue: DealerQueue, fault: Exception) -> None:
        """Lets the deliveries of a dealer wait, because its settings or keys cannot be read. Logs the first failure."""
        if queue.not_before is None:
            problem = fault_text(fault)
            log.error(
                "deliveries of a dealer wait", dealer=queue.dealer_id, error=type(fault).__qualname__, problem=problem
            )
        queue.not_before = asyncio.get_running_loop().time() + WRONG_DEALER_SECONDS
        queue.dealer = None
        queue.receivers_due.clear()

    async def _begin_shares(self) -> None:
        """Leases for all dealers at once. Raises the first failure when all leases have ended."""
        leases = [self._begin(self._queues[dealer_id], limits) for dealer_id, limits in self._shares().items()]
        for failure in await asyncio.gather(*leases, return_exceptions=True):
            if failure is not None:
                raise failure

    async def _begin(self, queue: DealerQueue, limits: Mapping[Receiver, int]) -> None:
        """Leases deliveries of a dealer, and begins to send them."""
        dealer = queue.dealer
        assert dealer is not None, "a dealer that can send nothing has no share"
        try:
            lease = partial(_lease, dealer=dealer, limits=limits)
            leased = await self._write(queue.dealer_id, lease, seconds=LEASE_WAIT_SECONDS)
        except (KeyMissing, WrongKey, DealerUnknown) as fault:
            self._put_off(queue, fault)
            return
        queue.not_before = None
        for offset in range(0, len(leased), LEADS_AT_ONCE):
            together = leased[offset : offset + LEADS_AT_ONCE]
            leads = asyncio.ensure_future(asyncio.to_thread(read_leads, self.store, dealer.profile, together))
            for delivery in together:
                sending = Sending(queue, dealer, delivery, leads)
                task = asyncio.create_task(self._deliver(sending))
                self._in_progress[task] = sending
                task.add_done_callback(self._on_task_end)
        counts = Counter(delivery.receiver for delivery in leased)
        # A receiver with fewer deliveries than its limit has no more.
        queue.receivers_due.difference_update(
            receiver for receiver, limit in limits.items() if counts[receiver] < limit
        )

    def _shares(self) -> dict[str, dict[Receiver, int]]:
        """How many deliveries may begin at each receiver, by dealer. A dealer that gets a turn comes last next time."""
        used, at_failing, at_receiver = self._slots_in_use()
        healthy: dict[str, dict[Receiver, int]] = {}
        failing: dict[str, dict[Receiver, int]] = {}
        shares: dict[str, dict[Receiver, int]] = defaultdict(dict)
        for dealer_id, queue in self._queues.items():
            if queue.dealer is None:
                continue  # Nothing was read of it yet, or it can send nothing.
            for receiver in random.sample(sorted(queue.receivers_due), len(queue.receivers_due)):
                if receiver in queue.dealer.outlets:
                    breaker = queue.breaker(queue.dealer, receiver)
                    group = failing if breaker.failures else healthy
                    capacity = _capacity(breaker, at_receiver[dealer_id, receiver])
                    group.setdefault(dealer_id, {})[receiver] = capacity
                else:
                    # The settings have no such channel any more: its deliveries become undeliverable, which needs no
                    # slot.
                    shares[dealer_id][receiver] = CONCURRENCY
        granted = share_slots(healthy, used, total=PROCESS_CONCURRENCY, of_dealer=CONCURRENCY)
        left = PROCESS_CONCURRENCY - used.total() - sum(sum(share.values()) for share in granted.values())
        total = min(FAILING_CONCURRENCY, at_failing.total() + left)
        for group in (granted, share_slots(failing, at_failing, total=total, of_dealer=CONCURRENCY)):
            for dealer_id, share in group.items():
                shares[dealer_id] |= share
                self._queues.move_to_end(dealer_id)
        return shares

    def _slots_in_use(self) -> tuple[Counter[str], Counter[str], Counter[tuple[str, Receiver]]]:
        """The deliveries in progress: by dealer, those to failing channels by dealer, and by receiver.

        By receiver, a delivery whose result is being recorded does not count.
        """
        used: Counter[str] = Counter()
        at_failing: Counter[str] = Counter()
        at_receiver: Counter[tuple[str, Receiver]] = Counter()
        for sending in self._in_progress.values():
            dealer_id = sending.queue.dealer_id
            used[dealer_id] += 1
            at_failing[dealer_id] += sending.breaker.failures > 0
            at_receiver[dealer_id, sending.delivery.receiver] += not sending.is_being_recorded
        return used, at_failing, at_receiver

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Forgets a delivery whose task has ended, and looks for more of its dealer."""
        sending = self._in_progress.pop(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            # No result could be recorded: the lease expires.
            log.error("fault", **sending.named(), error=type(fault).__qualname__, problem=fault_text(fault))
        self.wake(sending.queue.dealer_id)

    async def _deliver(self, sending: Sending) -> None:
        """One attempt: renders the document, sends it, and records the outcome, whatever it is."""
        dealer_id = sending.queue.dealer_id
        span = self.begin_span(dealer_id, sending.delivery)
        if span is not None:
            current_span.set(span)  # The task is of this attempt only.
            sending.delivery = sending.delivery._replace(trace=span.traceparent)
        delivery, settings = sending.delivery, sending.dealer.settings
        lease = Lease(delivery, settings.lease_seconds, None, partial(self._write, dealer_id))
        try:
            # Shielded: the tasks of the other deliveries wait for it too.
            leads = await asyncio.shield(sending.leads)
            # Taken out: the data of a customer need not stay in memory until all have been sent.
            document, is_new = await asyncio.to_thread(self._rendered, sending, leads.pop(delivery.delivery_id))
            lease.new_document = document if is_new else None
            note = await sending.dealer.outlets[delivery.receiver].send(delivery, document.content, lease)
        except asyncio.CancelledError:
            # The process stops, so another process may send it at once. If this cannot be stored, the lease expires.
            with suppress(StorageError):
                release = partial(outbox.release, delivery=delivery, may_have_arrived=lease.may_have_left)
                await self._write(dealer_id, release)
            raise
        except DeliveryDropped as reason:
            end = dropped("delivery dropped", reason, outbox.drop)
        except NeedsNewId as reason:
            end = dropped("delivery goes on under another id", reason, outbox.send_under_new_id)
        except NotDelivered as failure:
            _count_failure(sending, failure)
            end = end_of_failure(delivery, settings, failure)
        except (LeaseLost, DealerUnknown) as lost:
            log.info("delivery not sent", **sending.named(), reason=str(lost))
            return
        except StorageError as failure:
            end = end_of_failure(delivery, settings, NotDelivered(f"not begun: {failure}", channel_failed=False))
        except Exception as fault:  # noqa: BLE001 - the boundary: a fault of one delivery must not end the loop.
            # The message of a library's error may quote the lead.
            log.error("fault", **sending.named(), error=type(fault).__qualname__, problem=fault_text(fault))
            problem = f"a fault in this program ({type(fault).__qualname__}): see the event `fault` in its log"
            unsent = NotDelivered(problem, channel_failed=False, may_have_arrived=lease.may_have_left)
            end = end_of_failure(delivery, settings, unsent)
        else:
            sending.breaker.succeeded()
            details = {"note": note} if note else {}
            end = End("sent", "info", "delivery sent", details, partial(outbox.settle_sent, note=note))
        await self._record(sending, end)

    def _rendered(self, sending: Sending, read: LeadToDeliver | EncryptionError) -> tuple[StoredDocument, bool]:
        """The document, and whether it is new. Raises DeliveryDropped for a mail to a customer that is out of date."""
        dealer, delivery = sending.dealer, sending.delivery
        prepared = prepare_delivery(self.store, dealer.profile, delivery, read)
        if prepared.stored is not None and delivery.kind not in TO_CUSTOMER:
            return prepared.stored, False
        content = dealer.outlets[delivery.receiver].render(delivery, prepared.message)
        return prepared.stored or StoredDocument(content, prepared.needs, prepared.first), prepared.stored is None

    async def _record(self, sending: Sending, end: End) -> None:
        """Records the end of an attempt. Call it in the task of the attempt.

        It tries again while the lease is valid: a short failure of the database must not cause a second sending.
        """
        kind = channel_kinds(sending.dealer.profile).get(sending.delivery.receiver, UNKNOWN_CHANNEL)
        self.results[kind, end.result] += 1
        span = current_span.get()
        if span is not None:
            span.end({"dealer_agent.result": end.result}, failed=end.result in ("failed", "undeliverable"))
        getattr(log, end.level)(end.event, **sending.named(), **end.details)
        sending.is_being_recorded = True
        self.wake(sending.queue.dealer_id)
        now = datetime.now(UTC)
        deadline = asyncio.get_running_loop().time() + sending.dealer.settings.lease_seconds
        while True:
            try:
                await self._write(sending.queue.dealer_id, lambda tx: end.store(tx, sending.delivery), now)
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
        self,
        dealer_id: str,
        function: WriteFunction[Result],
        now: datetime | None = None,
        seconds: float = STORE_SECONDS,
    ) -> Result:
        """Gives a write to the lead writer at the next full TURN_SECONDS.

        So the writes of many deliveries share a commit. A write that was submitted is not cancelled.
        """
        await asyncio.sleep(TURN_SECONDS - asyncio.get_running_loop().time() % TURN_SECONDS)
        return await asyncio.shield(asyncio.wrap_future(self.writer.submit(dealer_id, function, now, seconds=seconds)))

    async def _finish(self) -> None:
        """Waits for the deliveries in progress, and cancels those that take longer than STOP_SECONDS."""
        if self._in_progress:
            _, late = await asyncio.wait(self._in_progress, timeout=STOP_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _count_failure(sending: Sending, failure: NotDelivered) -> None:
    """Counts a failure of the channel, which pauses after several. A failure of one lead does not count."""
    breaker = sending.breaker
    if not failure.channel_failed:
        breaker.succeeded()
        return
    retry_after = failure.retry_after or timedelta()
    breaker.failed(asyncio.get_running_loop().time(), retry_after.total_seconds())
    if breaker.is_open:
        rooftop, channel = sending.delivery.receiver
        names = {"dealer": sending.queue.dealer_id, "rooftop": rooftop, "channel": channel}
        log.warning("channel pauses", **names, failures=breaker.failures)


def _capacity(breaker: Breaker, in_progress: int) -> int:
    at_once = FAILING_CHANNEL_CONCURRENCY if breaker.failures else CHANNEL_CONCURRENCY
    return breaker.capacity(asyncio.get_running_loop().time(), in_progress, at_once)


def _lease(tx: Transaction, dealer: DealerOutlets, limits: Mapping[Receiver, int]) -> list[DueDelivery]:
    """Leases due deliveries, at most as many for each receiver as `limits` says. Gives up those without an outlet."""
    leased = []
    for receiver, limit in limits.items():
        for delivery in outbox.claim(tx, timedelta(seconds=dealer.settings.lease_seconds), receiver, limit):
            if receiver in dealer.outlets:
                leased.append(delivery)
            else:
                outbox.give_up(tx, delivery, f"{WRONG_CHANNEL}{RETRY} {delivery.delivery_id}")
    return leased
