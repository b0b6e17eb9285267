"""The keys that a process has. Requests look them up; what is missing is asked for, and fetched by a job."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from time import time
from typing import Any

import structlog

from dealer_agent.known_keys.fetching import KEPT
from dealer_agent.known_keys.kinds import kind_of
from dealer_agent.storage.key_sets import (
    KeySetRecord,
    add_sources,
    fetch_soon,
    list_key_sets,
    note_use,
)
from dealer_agent.storage.store import Store

log = structlog.get_logger()

MAX_ASKED = 60
"""The most unknown sources that a process asks for in a minute. Others stay unknown until later."""
ASK_SECONDS = 60.0
"""A process asks for a source once in so many seconds."""
STEP_SECONDS = 0.1
"""The pause before each step, so that one transaction asks for several sources."""
USE_SECONDS = 3600.0
"""How often the use of a source is stored."""


@dataclass(slots=True)
class _Held:
    record: KeySetRecord
    keys: Any
    until: float
    used: bool = False


@dataclass
class KnownKeys:
    """The keys of a process by source. `owner` is the dealer id of its rows. Use it on the event loop only.

    `on_asked` is called when there are new jobs.
    """

    store: Store
    owner: str
    on_asked: Callable[[], None] = lambda: None
    _held: dict[str, _Held] = field(default_factory=dict)
    _pinned: set[str] = field(default_factory=set)
    _new: set[str] = field(default_factory=set)
    _soon: set[str] = field(default_factory=set)
    _asked: dict[str, float] = field(default_factory=dict)
    _use_stored_at: float = field(default_factory=time)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def __len__(self) -> int:
        """The number of sources with keys."""
        return len(self._held)

    def find(self, source: str) -> Any:
        """The keys of a source, the same object until they change. None: there are none now, and they are asked for."""
        held = self._held.get(source)
        if held is None or held.until < time():
            self._ask(source)
            return None
        held.used = True
        return held.keys

    def refresh_soon(self, source: str) -> None:
        """Fetches a source again, because a request has named a key that it does not have. At most once a minute."""
        if source in self._held and source not in self._asked:
            self._asked[source] = time()
            self._soon.add(source)
            self._wake.set()

    def pin(self, sources: Iterable[str]) -> None:
        """Fetches sources that the settings name, now and before their keys end."""
        new = set(sources) - self._pinned
        self._pinned |= new
        if new:
            self._wake.set()

    async def load(self) -> None:
        """Loads what has changed. Raises StorageError."""
        records = await asyncio.to_thread(self._list)
        held: dict[str, _Held] = {}
        for number, record in enumerate(records):
            before = self._held.get(record.source)
            if record.document is None or record.fetched_at is None or record.expires_at is None:
                continue
            until = (record.expires_at + KEPT).timestamp()
            if before is not None and before.record[2:5] == record[2:5]:
                held[record.source] = before
                continue
            times = record.fetched_at.timestamp(), record.expires_at.timestamp()
            try:
                keys = kind_of(record.source).read(record.document, *times)
            except (KeyError, ValueError) as problem:
                log.error("keys not read", source=record.source, error=type(problem).__qualname__)
                continue
            held[record.source] = _Held(record, keys, until)
            if number % 50 == 0:
                await asyncio.sleep(0)
        self._held = held

    async def step(self) -> None:
        """Asks for what requests have missed, and stores which sources are used. Raises StorageError."""
        now = time()
        self._asked = {source: at for source, at in self._asked.items() if at + ASK_SECONDS > now}
        new, soon = set(self._new), set(self._soon)
        pinned = self._pinned - self._held.keys() - self._asked.keys()
        used: list[str] = []
        if self._use_stored_at + USE_SECONDS < now:
            used = [source for source, held in self._held.items() if held.used or source in self._pinned]
        if new or soon or pinned or used:
            await asyncio.to_thread(self._store, new, soon, pinned, used)
            self.on_asked()
        self._new -= new
        self._soon -= soon
        self._asked |= dict.fromkeys(pinned, now)
        if used:
            self._use_stored_at = now
            for held in self._held.values():
                held.used = False

    async def wait(self, seconds: float) -> None:
        """Waits for `seconds`, and then until something is asked for, at most a minute."""
        await asyncio.sleep(seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(ASK_SECONDS):
                await self._wake.wait()
        self._wake.clear()

    def _ask(self, source: str) -> None:
        if source not in self._asked and len(self._asked) < MAX_ASKED:
            self._asked[source] = time()
            self._new.add(source)
            self._wake.set()

    def _list(self) -> list[KeySetRecord]:
        with self.store.read(self.owner) as tx:
            return list_key_sets(tx)

    def _store(self, new: Iterable[str], soon: Iterable[str], pinned: Iterable[str], used: Iterable[str]) -> None:
        with self.store.write(self.owner) as tx:
            add_sources(tx, sorted(pinned), pinned=True)
            add_sources(tx, sorted(new))
            for source in sorted(soon):
                fetch_soon(tx, source)
            note_use(tx, sorted(used))
