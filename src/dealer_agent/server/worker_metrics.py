"""Sends the metrics of a worker process to the collector of the machine, and those that come from the database.

Those of the database (feeds, and deliveries that were not sent yet) are read in a thread, at most once in
`READ_SECONDS`, and only while somebody reads the metrics. A scrape waits for them at most `WAIT_SECONDS`, and else gets
those of the last time. All go over a Unix socket.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import msgspec
import structlog

from dealer_agent.callers.policy import LEADS_A_DAY
from dealer_agent.config.settings import RateLimitSettings
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.routing import UNKNOWN_CHANNEL, channel_kinds
from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.metrics import (
    CONFIRMED,
    CONNECTIONS,
    DATABASE_READ,
    DELIVERIES,
    FAMILIES,
    FEED,
    LEADS_AVAILABLE,
    OLDEST,
    OPENED_DEALERS,
    RATE_LIMITED,
    READY,
    RECORDED,
    SNAPSHOT_BYTES,
    SNAPSHOT_REVISION,
    STOCK_REVISION,
    UNITS,
    UNSENT,
    WRITER_WAITING,
    Readings,
    Series,
    WorkerMetrics,
    combined,
)
from dealer_agent.server.served_dealers import ServedDealers
from dealer_agent.server.service import LEADS_TAKEN
from dealer_agent.storage.deliveries.outbox import UnsentDeliveries, unsent_deliveries
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.stock.reading import StockMark, read_mark

log = structlog.get_logger()

READ_SECONDS = 15.0
WAIT_SECONDS = 0.2
LONGEST_READ_SECONDS = 5.0
"""No further dealer is read after this time. The next read continues with it."""
DEALERS_AT_ONCE = 100
"""The most dealers of an installation that are read at a time: those with due deliveries first, then the others in
turn."""


class ReadDealer(NamedTuple):
    """What the database has of a dealer. `unsent` has the kind of each channel."""

    mark: StockMark
    unsent: Sequence[tuple[str, UnsentDeliveries]]


@dataclass
class StoredMetrics:
    """The metrics of the dealers in a database."""

    opened: OpenInstallation
    # By dealer id.
    _known: dict[str, ReadDealer] = field(default_factory=dict)
    _next: str = ""
    _read_at: datetime | None = None
    _due_at: float = 0.0
    _reading: asyncio.Task[None] | None = None
    _failing: bool = False

    async def read(self, label_of: Callable[[str], str]) -> list[tuple[Series, list[float]]]:
        """The metrics of all dealers, with this label for each."""
        if self._reading is None or (self._reading.done() and monotonic() >= self._due_at):
            self._due_at = monotonic() + READ_SECONDS
            self._reading = asyncio.create_task(self._refresh())
        await asyncio.wait([self._reading], timeout=WAIT_SECONDS)
        return list(self._series(label_of, datetime.now(UTC)))

    async def _refresh(self) -> None:
        """Reads the metrics of the database. A failure is logged once."""
        try:
            await asyncio.to_thread(self._read_some)
        except (StorageError, SettingsError) as error:
            if not self._failing:
                log.error("metrics not read", error=type(error).__qualname__, problem=str(error))
            self._failing = True
        else:
            self._failing = False

    def _read_some(self) -> None:
        """Reads the numbers of some dealers, for at most LONGEST_READ_SECONDS."""
        ends = monotonic() + LONGEST_READ_SECONDS
        enabled = self.opened.enabled
        for dealer_id in self._known.keys() - enabled:
            self._known.pop(dealer_id, None)
        for dealer_id in self._dealers_to_read(enabled):
            self._known[dealer_id] = self._read_dealer(dealer_id)
            if monotonic() > ends:
                break
        self._read_at = datetime.now(UTC)

    def _dealers_to_read(self, enabled: Collection[str]) -> Iterator[str]:
        """The dealers to read now: those with due deliveries, then the next ones in order of their ids."""
        if len(enabled) <= DEALERS_AT_ONCE:
            yield from enabled
            return
        due = self.opened.dealers_with_due()[: DEALERS_AT_ONCE // 2]
        yield from due
        in_order = sorted(enabled)
        later = [dealer_id for dealer_id in in_order if dealer_id >= self._next]
        for dealer_id in islice((*later, *in_order), DEALERS_AT_ONCE - len(due)):
            yield dealer_id
            self._next = dealer_id + "-"

    def _read_dealer(self, dealer_id: str) -> ReadDealer:
        with self.opened.store.read(dealer_id) as tx:
            mark, unsent = read_mark(tx), unsent_deliveries(tx)
        kinds = channel_kinds(self.opened.settings_of(dealer_id).dealer) if unsent else {}
        return ReadDealer(mark, [(kinds.get(each.receiver, UNKNOWN_CHANNEL), each) for each in unsent])

    def _series(self, label_of: Callable[[str], str], now: datetime) -> Iterator[tuple[Series, list[float]]]:
        """The series that were read from the database."""
        if self._read_at is None:
            return
        yield Series(DATABASE_READ), [self._read_at.timestamp()]
        for dealer_id, (mark, unsent) in self._known.copy().items():
            label = label_of(dealer_id)
            yield Series(STOCK_REVISION, (label,)), [float(mark.revision)]
            if mark.imported_at is not None:
                yield Series(FEED, (label,)), [mark.imported_at.timestamp()]
            waiting = [each.oldest for _, each in unsent if each.state == "waiting"]
            age = max(0.0, (now - min(waiting)).total_seconds()) if waiting else 0.0
            yield Series(OLDEST, (label,)), [age]
            for state in ("waiting", "undeliverable"):
                yield Series(UNSENT, (label, "", state)), [0.0]
            for kind, each in unsent:
                yield Series(UNSENT, (label, kind, each.state)), [float(each.number)]


SUFFIX = ".sock"
OWN, WITH_STORED = b"o", b"s"
"""What the collector asks for: the values of the process, or also those of the database."""
ANSWER_SECONDS = 5.0

RULES = (*RateLimitSettings().by_rule, LEADS_A_DAY)


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
        gauges: list[tuple[Series, float]] = [
            (Series(READY), process.ready),
            (Series(LEADS_AVAILABLE), process.leads == LEADS_TAKEN),
            (Series(CONNECTIONS), connections),
            (Series(OPENED_DEALERS), len(self.dealers.opened)),
            (Series(WRITER_WAITING), self.writer.waiting),
            (Series(RATE_LIMITED, ("overload",)), process.load.refused),
            (Series(RECORDED, ("kept",)), process.replies.kept),
            (Series(RECORDED, ("dropped",)), process.replies.dropped),
            *((Series(RATE_LIMITED, (rule,)), process.refused[rule]) for rule in RULES),
        ]
        for dealer_id, service in self.dealers.opened.items():
            label = (label_of(dealer_id),)
            gauges += [
                (Series(UNITS, label), len(service.dealer.catalogue)),
                (Series(SNAPSHOT_BYTES, label), service.stock_bytes),
                (Series(SNAPSHOT_REVISION, label), service.loaded.stock),
            ]
            if service.dealer.stock_at is not None:
                gauges.append((Series(CONFIRMED, label), service.dealer.stock_at.timestamp()))
        return [(series, [float(value)]) for series, value in gauges]


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
        """Sends the readings of this worker to the process that asks."""
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(ANSWER_SECONDS):
                wanted = await reader.readexactly(1)
                readings = await state.readings(with_stored=wanted == WITH_STORED)
                writer.write(msgspec.json.encode(list(readings.items())))
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
