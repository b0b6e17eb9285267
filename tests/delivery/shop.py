"""A dealer with leads to deliver: the real store on a real database, and a loop that runs for a block."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.storage.calls import at_time, read
from tests.storage.samples import DEALER, consent, lead

from dealer_agent.config.settings import DeliverySettings
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.delivery.attempt import Lease, NotDelivered
from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.delivery.outlet import Outlets
from dealer_agent.delivery.outlets import DealerOutlets
from dealer_agent.leads.lead_view import DeliveredMessage, LeadView
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.deliveries import outbox
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, DueDelivery, Receiver, list_deliveries
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

NORTH = "Ridgeline North"
CRM, HOOK = (NORTH, "crm"), (NORTH, "hook")
PROFILE = Profile(
    id=DEALER,
    name="Ridgeline Motors",
    feed_price="advertised",
    rooftops=(DealerRooftop(name=NORTH, timezone="America/Chicago"),),
)
AT_ONCE = DeliverySettings(first_retry_seconds=0, lease_seconds=60)
"""Failures are tried again without a wait."""

REQUEST: dict[str, Any] = {
    "type": "lead.submit.request",
    "customer": {"first_name": "Sam", "last_name": "Sample", "email": "sam@example.com"},
    "source_agent": "Example Agent",
    "message": "Is it still there?",
}


def loop_of_one(store: Store, writer: LeadWriter, dealer: DealerOutlets) -> DeliveryLoop:
    """The loop of a process with one dealer."""
    return DeliveryLoop(store, writer, lambda: [dealer.profile.id], lambda _: dealer)


class SampleDealer:
    """Leads come in at `take`, and go out by `delivering`."""

    def __init__(self, store: Store, writer: LeadWriter) -> None:
        self.store = store
        self.writer = writer

    def take(self, *receivers: Receiver, kind: str = "lead", channels: tuple[str, ...] = ("email",)) -> str:
        """Stores a lead for these, as the lead intake does; its id."""
        lead_id, now = new_ulid(), datetime.now(UTC)
        rows = [NewDelivery(kind, rooftop, channel) for rooftop, channel in receivers]  # type: ignore[arg-type]

        def job(tx: Transaction) -> None:
            record = lead(lead_id, now, payload=msgspec.json.encode(REQUEST))
            agreed = consent(now, channels=channels)
            record_lead(tx, record, agreed, contacts=[f"{lead_id}@example.com"], vehicle_key=None)
            outbox.enqueue(at_time(tx, now), lead_id, rows)

        self.writer.submit(DEALER, job).result(120)
        return lead_id

    def rows(self, lead_id: str | None = None) -> list[DeliveryRecord]:
        return read(self.store, DEALER, list_deliveries, 10_000, lead_id=lead_id)

    def row(self, lead_id: str) -> DeliveryRecord:
        (found,) = self.rows(lead_id)
        return found

    @asynccontextmanager
    async def delivering(self, outlets: Outlets, settings: DeliverySettings = AT_ONCE) -> AsyncIterator[DeliveryLoop]:
        """A loop that runs for a block, then stops in good order."""
        loop = loop_of_one(self.store, self.writer, DealerOutlets(PROFILE, outlets, settings))
        running = asyncio.create_task(loop.run())
        try:
            yield loop
        finally:
            loop.stop()
            await running

    def deliver(self, outlets: Outlets, until: Callable[[], object], settings: DeliverySettings = AT_ONCE) -> None:
        """Runs a loop until something is so."""

        async def run() -> None:
            async with self.delivering(outlets, settings):
                await so(until)

        asyncio.run(run())

    def settled(self) -> bool:
        return all(row.state != "waiting" for row in self.rows())


async def so(until: Callable[[], object]) -> None:
    """Waits until something is so; fails when it never is."""
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        if await asyncio.to_thread(until):
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to be so")


class Noting:
    """An outlet that notes what it is given. It fails with each of `failures` first; None lets one pass."""

    def __init__(self, *failures: Exception | None) -> None:
        self.taken: list[DueDelivery] = []
        self.tried: list[DueDelivery] = []
        self.views: dict[str, LeadView] = {}
        self.failures = list(failures)

    def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
        assert isinstance(message, LeadView)
        self.views[delivery.delivery_id] = message
        return delivery.delivery_id.encode()

    async def send(self, delivery: DueDelivery, _: bytes, lease: Lease) -> str | None:
        await lease.renew(0)
        self.tried.append(delivery)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.taken.append(delivery)
        return None


class Failing(Noting):
    """An outlet that fails each time."""

    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.more = more

    async def send(self, delivery: DueDelivery, _: bytes, lease: Lease) -> str | None:
        await lease.renew(0)
        self.tried.append(delivery)
        raise NotDelivered("answered 500", **self.more)


class Hanging(Noting):
    """An outlet that takes a letter and never comes back."""

    async def send(self, delivery: DueDelivery, _: bytes, lease: Lease) -> str | None:
        await lease.renew(0)
        self.tried.append(delivery)
        await asyncio.Event().wait()
        return None
