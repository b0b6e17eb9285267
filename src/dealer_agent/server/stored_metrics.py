"""The metrics that come from the database: feeds, and deliveries that were not sent yet.

They are read in a thread, at most once in `READ_SECONDS`, and only while somebody reads the metrics. A scrape waits for
them at most `WAIT_SECONDS`, and else gets those of the last time.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from time import monotonic
from typing import NamedTuple

import structlog

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.routing import UNKNOWN_CHANNEL, channel_kinds
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.metrics import DATABASE_READ, FEED, OLDEST, STOCK_REVISION, UNSENT, Series
from dealer_agent.storage.deliveries.outbox import UnsentDeliveries, unsent_deliveries
from dealer_agent.storage.errors import StorageError
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
        try:
            await asyncio.to_thread(self._read_some)
        except (StorageError, SettingsError) as fault:
            if not self._failing:
                log.error("metrics not read", error=type(fault).__qualname__, problem=str(fault))
            self._failing = True
        else:
            self._failing = False

    def _read_some(self) -> None:
        ends = monotonic() + LONGEST_READ_SECONDS
        enabled = self.opened.enabled
        for dealer_id in self._known.keys() - enabled:
            self._known.pop(dealer_id, None)
        for dealer_id in self._chosen(enabled):
            self._known[dealer_id] = self._read_dealer(dealer_id)
            if monotonic() > ends:
                break
        self._read_at = datetime.now(UTC)

    def _chosen(self, enabled: Collection[str]) -> Iterator[str]:
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
