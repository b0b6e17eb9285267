"""The Unix socket on which a worker process sends its metrics to the collector of the machine."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dealer_agent.config.settings import RateLimitSettings
from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.server.metrics import (
    CONFIRMED,
    CONNECTIONS,
    DELIVERIES,
    FAMILIES,
    LEADS_AVAILABLE,
    OPENED_DEALERS,
    RATE_LIMITED,
    READY,
    SNAPSHOT_BYTES,
    SNAPSHOT_REVISION,
    UNITS,
    WRITER_JOBS,
    Readings,
    Series,
    WorkerMetrics,
    combined,
)
from dealer_agent.server.served_dealers import ServedDealers
from dealer_agent.server.service import LEADS_TAKEN
from dealer_agent.server.stored_metrics import StoredMetrics
from dealer_agent.storage.leads.lead_writer import LeadWriter

SUFFIX = ".sock"
OWN, WITH_STORED = b"o", b"s"
"""What the collector asks for: the values of the process, or also those of the database."""
ANSWER_SECONDS = 5.0

RULES = tuple(RateLimitSettings().by_rule)


@dataclass
class WorkerState:
    """What a worker knows about itself. `metrics` has the other counters."""

    metrics: WorkerMetrics
    dealers: ServedDealers
    writer: LeadWriter
    deliveries: DeliveryLoop
    stored: StoredMetrics

    async def readings(self, *, with_stored: bool) -> Readings:
        """All metrics of the worker."""
        stored = await self.stored.read(self.metrics.label_of) if with_stored else []
        sent: Readings = {Series(DELIVERIES, key): [float(n)] for key, n in self.deliveries.results.items()}
        return self.metrics.readings() | sent | combined([*self._gauges(), *stored]) | process_readings()

    def _gauges(self) -> list[tuple[Series, list[float]]]:
        """What is true of this worker now. Counters and histograms are in `metrics`."""
        process, label_of = self.dealers.process, self.metrics.label_of
        connections = 0 if process.connections is None else len(process.connections)
        found: list[tuple[Series, float]] = [
            (Series(READY), process.ready),
            (Series(LEADS_AVAILABLE), process.leads == LEADS_TAKEN),
            (Series(CONNECTIONS), connections),
            (Series(OPENED_DEALERS), len(self.dealers.opened)),
            (Series(WRITER_JOBS), self.writer.waiting),
            (Series(RATE_LIMITED, ("overload",)), process.load.refused),
            *((Series(RATE_LIMITED, (rule,)), process.refused[rule]) for rule in RULES),
        ]
        for dealer_id, service in self.dealers.opened.items():
            label = (label_of(dealer_id),)
            found += [
                (Series(UNITS, label), len(service.dealer.catalogue)),
                (Series(SNAPSHOT_BYTES, label), service.stock_bytes),
                (Series(SNAPSHOT_REVISION, label), service.loaded.stock),
            ]
            if service.dealer.stock_at is not None:
                found.append((Series(CONFIRMED, label), service.dealer.stock_at.timestamp()))
        return [(series, [float(value)]) for series, value in found]


def process_readings() -> Readings:
    """The processor time, memory and files of this process. It finds nothing without /proc."""
    # Imported here: a service without metrics does not need the library.
    from prometheus_client import ProcessCollector

    return {
        Series(sample.name): [sample.value]
        for family in ProcessCollector(registry=None).collect()
        for sample in family.samples
        if sample.name in FAMILIES
    }


@asynccontextmanager
async def answering_collector(folder: Path, state: WorkerState) -> AsyncIterator[None]:
    """Answers the collector of the machine during an `async with` block."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(ANSWER_SECONDS):
                wanted = await reader.readexactly(1)
                found = await state.readings(with_stored=wanted == WITH_STORED)
                writer.write(msgspec.json.encode(list(found.items())))
                await writer.drain()
        writer.close()

    # A name that no earlier worker had: the collector notices by the name that a worker has ended.
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
    server = await asyncio.start_unix_server(answer, path)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)
