"""Claims what is due, sends it, settles it: the loop that runs in every worker process.

Several deliveries are under way at a time, a few of each channel, so that a receiver that hangs holds up its own leads
only. Claims and settlements are jobs of the process's lead writer: they share transactions, and their fsync, with the
leads that are being taken. Whatever kills the process leaves leases that run out.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import structlog

from dealer_agent.config.settings import DeliverySettings
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.delivery_content import Planned
from dealer_agent.delivery.errors import DeliveryDropped, NeedsNewId, NotDelivered
from dealer_agent.delivery.outlet import OutgoingDocument, Outlets
from dealer_agent.delivery.retry_policy import Breaker, retry_wait
from dealer_agent.storage import outbox
from dealer_agent.storage.errors import AlreadyStored, StorageError
from dealer_agent.storage.lead_writer import Job, LeadWriter
from dealer_agent.storage.outbox import Address, DueDelivery
from dealer_agent.storage.sent_deliveries import store_document
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

POLL_SECONDS = 1.0
TURN_SECONDS = 0.05
"""How long a claim or a result waits for others: what is written within a turn shares a transaction."""
AT_ONCE = 64
"""Deliveries under way in one process."""
AT_ONCE_EACH = 16
"""Of these, those of one channel that are made or sent. What is sent leaves room while its result is recorded."""
STOP_SECONDS = 5.0
"""How long a stop waits for what is being sent."""
SETTLE_AGAIN_SECONDS = 1.0
WRONG_CHANNEL = "there is no such channel in dealer.toml any more; name it there, then: dealer-agent deliveries retry"

Result = TypeVar("Result")


@dataclass
class DeliveryLoop:
    """One dealer's deliveries in one process. `plan` is `DeliveryContents.of`."""

    dealer_id: str
    store: Store
    writer: LeadWriter
    outlets: Outlets
    plan: Callable[[DueDelivery], Planned]
    settings: DeliverySettings
    _under_way: dict[asyncio.Task[None], DueDelivery] = field(default_factory=dict)
    _settling: set[asyncio.Task[None]] = field(default_factory=set)
    _breakers: dict[Address, Breaker] = field(default_factory=dict)
    _awake: asyncio.Event = field(default_factory=asyncio.Event)
    _due: set[Address] = field(default_factory=set)
    _look_at: float = 0.0
    _failing: bool = False
    _stopping: bool = False

    def wake(self) -> None:
        """There may be something to send now: to be called on the event loop, once a lead is stored."""
        if self.outlets:
            self._awake.set()

    async def run(self) -> None:
        """Sends until `stop` is called; then what is being sent gets a little time, and the rest is released."""
        while not self._stopping:
            self._awake.clear()
            await self._begin_due()
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._awake.wait()
        await self._finish()

    def stop(self) -> None:
        """Has `run` end within a few seconds. Not by cancelling it: what it has just claimed would be lost."""
        self._stopping = True
        self._awake.set()

    async def _begin_due(self) -> None:
        """Claims as much as there is room for. What fails is reported once, and tried again at the next turn."""
        if len(self._under_way) >= AT_ONCE:
            return
        try:
            room = self._room(await self._addresses())
            claimed = await self._write(lambda tx: self._claim(tx, room)) if room else []
            for delivery in claimed:
                self._begin(delivery)
            counts = Counter(delivery.address for delivery in claimed)
            # An address that gave less than was asked for has no more.
            self._due.difference_update(address for address, limit in room.items() if counts[address] < limit)
        except Exception as fault:  # noqa: BLE001 - the boundary: a loop that ends would leave every lead where it is.
            if not self._failing:
                told = {"problem": str(fault)} if isinstance(fault, StorageError) else {"place": _place(fault)}
                log.error("deliveries wait", error=type(fault).__qualname__, **told)
            self._failing = True
        else:
            self._failing = False

    async def _addresses(self) -> list[Address]:
        """Where something is to be sent.

        The database is asked at each poll, and when no address is left of its last answer: the question reads all
        deliveries that wait. It goes to a reader, so the writer is not troubled while there is nothing to do.
        """
        time = asyncio.get_running_loop().time()
        if time >= self._look_at or not self._room(list(self._due)):
            self._look_at = time + POLL_SECONDS
            self._due = set(await asyncio.to_thread(self._due_addresses))
        return list(self._due)

    def _due_addresses(self) -> list[Address]:
        with self.store.read(self.dealer_id) as tx:
            return outbox.due_addresses(tx, self.settings.lease)

    def _room(self, addresses: list[Address]) -> dict[Address, int]:
        """How many deliveries may begin at each address; every address gets its turn."""
        counts: dict[Address, int] = defaultdict(int)
        for task, delivery in self._under_way.items():
            if task not in self._settling:
                counts[delivery.address] += 1
        free = AT_ONCE - len(self._under_way)
        room: dict[Address, int] = {}
        random.shuffle(addresses)
        for address in addresses:
            if address not in self.outlets:
                room[address] = AT_ONCE
                continue
            breaker = self._breaker(address)
            begin = min(free, breaker.room(asyncio.get_running_loop().time(), counts[address], AT_ONCE_EACH))
            if begin:
                room[address] = begin
                free -= begin
        return room

    def _claim(self, tx: Transaction, room: dict[Address, int]) -> list[DueDelivery]:
        """Claims; what goes to a channel that is gone is parked at once."""
        claimed = []
        for address, limit in room.items():
            for delivery in outbox.claim(tx, self.settings.lease, address, limit):
                if address in self.outlets:
                    claimed.append(delivery)
                else:
                    outbox.park(tx, delivery, WRONG_CHANNEL)
        return claimed

    def _begin(self, delivery: DueDelivery) -> None:
        task = asyncio.create_task(self._deliver(delivery))
        self._under_way[task] = delivery
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        delivery = self._under_way.pop(task)
        self._settling.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            # Nothing could be written down: the lease runs out.
            log.error("fault", **_named(delivery), error=type(fault).__qualname__, place=_place(fault))
        self.wake()

    async def _deliver(self, delivery: DueDelivery) -> None:
        """Sends one, and records the result."""
        sending = False
        try:
            letter = await self._letter(delivery)
            if letter is None:
                return
            sending = True
            note = await self.outlets[delivery.address].send(letter)
        except asyncio.CancelledError:
            # The process stops: another may send it at once. Where that cannot be stored, the lease runs out.
            with suppress(StorageError):
                await self._write(lambda tx: outbox.release(tx, delivery, may_have_arrived=sending))
            raise
        except DeliveryDropped as reason:
            log.info("delivery dropped", **_named(delivery), reason=reason.problem)
            problem = reason.problem
            await self._settle(delivery, lambda tx: outbox.drop(tx, delivery, problem))
        except NeedsNewId as reason:
            log.info("delivery goes on under another id", **_named(delivery), reason=reason.problem)
            problem = reason.problem
            await self._settle(delivery, lambda tx: outbox.send_under_new_id(tx, delivery, problem))
        except NotDelivered as failure:
            self._judge(delivery.address, failure)
            await self._failed(delivery, failure)
        except StorageError as failure:
            await self._failed(delivery, NotDelivered(f"not begun: {failure}", channel_failed=False))
        except Exception as fault:  # noqa: BLE001 - the boundary: one lead that cannot be sent must not end the loop.
            # The message of a foreign error may quote the lead.
            log.error("fault", **_named(delivery), error=type(fault).__qualname__, place=_place(fault))
            problem = f"a fault in this program ({type(fault).__qualname__}); the log says where"
            await self._failed(delivery, NotDelivered(problem, channel_failed=False, may_have_arrived=sending))
        else:
            self._breaker(delivery.address).succeeded()
            log.info("delivery sent", **_named(delivery), **({"note": note} if note else {}))
            await self._settle(delivery, lambda tx: outbox.settle_sent(tx, delivery, note))

    async def _letter(self, delivery: DueDelivery) -> OutgoingDocument | None:
        """What to send: the bytes of the first attempt, which are stored before it begins. None for a lost lease."""
        planned, made = await asyncio.to_thread(self._made, delivery)
        if planned.kept is None:
            document = planned.document(made)
            try:
                await self._write(lambda tx: store_document(tx, delivery, document))
            except AlreadyStored:
                return None
            content = made
        else:
            content = planned.kept.content
        return OutgoingDocument(delivery.delivery_id, delivery.lead_id, content)

    def _made(self, delivery: DueDelivery) -> tuple[Planned, bytes]:
        """The plan, and the document as it is made now. A mail to a customer is always made: it may be too late."""
        planned = self.plan(delivery)
        if planned.kept is not None and delivery.kind not in TO_CUSTOMER:
            return planned, planned.kept.content
        return planned, self.outlets[delivery.address].render(planned.parcel)

    def _judge(self, address: Address, failure: NotDelivered) -> None:
        breaker = self._breaker(address)
        if not failure.channel_failed:
            breaker.succeeded()
            return
        asked = failure.retry_after or timedelta()
        breaker.failed(asyncio.get_running_loop().time(), asked.total_seconds())
        if breaker.ailing:
            log.warning("channel rests", rooftop=address[0], channel=address[1], failures=breaker.failures)

    async def _failed(self, delivery: DueDelivery, failure: NotDelivered) -> None:
        """Puts it off, or parks it. What a CRM refuses for good is tried on as well: CRMs say so wrongly. A customer's
        mailbox is not, since to insist makes the dealer's mail suspect."""
        now = datetime.now(UTC)
        problem = failure.problem
        too_old = now - delivery.tried_since >= self.settings.park_after
        if too_old or (failure.permanent and delivery.kind in TO_CUSTOMER):
            log.error("delivery parked", **_named(delivery), problem=problem)
            await self._settle(
                delivery, lambda tx: outbox.park(tx, delivery, problem, may_have_arrived=failure.may_have_arrived)
            )
            return
        wait = retry_wait(self.settings, delivery.attempts, random.random())  # noqa: S311 - spreads attempts, keeps no secret
        due_at = now + max(wait, failure.retry_after or timedelta())
        log.warning("delivery failed", **_named(delivery), problem=problem)
        await self._settle(
            delivery,
            lambda tx: outbox.reschedule(tx, delivery, due_at, problem, may_have_arrived=failure.may_have_arrived),
        )

    async def _settle(self, delivery: DueDelivery, job: Job[object]) -> None:
        """Writes it down, again and again while the lease holds: what was sent should not be sent twice for a database
        that was away for a moment."""
        task = asyncio.current_task()
        assert task is not None, "a delivery is a task"
        self._settling.add(task)
        self.wake()
        now = datetime.now(UTC)
        deadline = asyncio.get_running_loop().time() + self.settings.lease_seconds
        while True:
            try:
                await self._write(job, now)
            except StorageError as failure:
                if asyncio.get_running_loop().time() >= deadline:
                    log.error("delivery not settled", **_named(delivery), problem=str(failure))
                    return
            else:
                return
            await asyncio.sleep(SETTLE_AGAIN_SECONDS)

    async def _write(self, job: Job[Result], now: datetime | None = None) -> Result:
        """Runs a job of the writer at the end of the turn, with the others of the turn in one transaction."""
        await asyncio.sleep(TURN_SECONDS - asyncio.get_running_loop().time() % TURN_SECONDS)
        return await asyncio.shield(asyncio.wrap_future(self.writer.submit(self.dealer_id, job, now)))

    def _breaker(self, address: Address) -> Breaker:
        if address not in self._breakers:
            self._breakers[address] = Breaker(self.settings.breaker_failures, self.settings.breaker_seconds)
        return self._breakers[address]

    async def _finish(self) -> None:
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=STOP_SECONDS)
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
    """The file and line that raised it."""
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
