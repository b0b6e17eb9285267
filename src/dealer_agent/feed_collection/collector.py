"""Finds the feeds that are due or have files waiting, and collects them, in every process of the service."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import structlog

from dealer_agent.catalogue_loading.child_processes import line_of
from dealer_agent.config import Settings, SettingsError
from dealer_agent.encryption import EncryptionError
from dealer_agent.feed_collection.collection import FeedCollection, feed_rows, import_in_process
from dealer_agent.feed_collection.feed_folder import feeds_with_files
from dealer_agent.storage.dealer_registry import find_dealer
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.feeds import find_all_due, find_changed, find_due, put_feeds
from dealer_agent.storage.store import Store

log = structlog.get_logger()

LOOK_SECONDS = 5.0
"""How often a process looks for feeds that are due, and into the folders of its machine."""
MOST_AT_ONCE = 16
"""The feeds that a process collects at the same time. Most of the time, a collection waits for a server."""
MOST_OF_DEALER = 4
"""The same for the feeds of one dealer. It gets another only while more are free than it has, as for deliveries."""
MOST_CHANGED = 20
"""The dealers whose settings one look reads."""
SCAN_SECONDS = 60.0
"""How often the process of an installation looks into the incoming folders of all dealers."""
REST_SECONDS = 300.0
"""The wait after a collection that failed, or whose files must wait."""


class Work(NamedTuple):
    """A feed to collect. `settings_number` is that of the dealer's settings in an installation, if it is known."""

    dealer_id: str
    feed: str
    fetches: bool
    settings_number: int | None = None


@dataclass
class FolderFeeds:
    """The feeds of the dealer of a folder."""

    store: Store
    settings: Settings
    _stored: bool = False

    def find(self, _: int) -> list[Work]:
        """The feeds that are due, and those with files waiting. Raises StorageError."""
        dealer_id = self.settings.dealer.id
        if not self._stored:
            with self.store.write(dealer_id) as tx:
                put_feeds(tx, feed_rows(self.settings))
            self._stored = True
        if not self.settings.feeds:
            return []
        with self.store.read(dealer_id) as tx:
            due = [Work(dealer_id, name, fetches=True) for name in find_due(tx)]
        return [*due, *(Work(dealer_id, name, fetches=False) for name in feeds_with_files(self.settings.directory))]

    def settings_of(self, _: Work) -> Settings:
        """The dealer's settings."""
        return self.settings


@dataclass
class InstallationFeeds:
    """The feeds of the dealers of an installation. `load_settings` raises StorageError and SettingsError."""

    store: Store
    directory: Path
    load_settings: Callable[[str], Settings]
    _scan_at: float = 0.0
    _known: dict[str, tuple[int, Settings]] = field(default_factory=dict)

    def find(self, busy: int) -> list[Work]:
        """The feeds of dealers that are due, and those with files waiting on this machine. Raises StorageError.

        So many dealers are `busy` that there is work for MOST_AT_ONCE feeds of the others, if they have it.
        """
        with self.store.installation() as tx:
            changed = find_changed(tx, MOST_CHANGED)
        for dealer_id in changed:
            self._store_feeds(dealer_id)
        with self.store.installation() as tx:
            found = find_all_due(tx, MOST_AT_ONCE + busy * MOST_OF_DEALER, MOST_OF_DEALER)
        due = [Work(each.dealer_id, each.name, True, each.settings_number) for each in found]
        if time.monotonic() >= self._scan_at:
            self._scan_at = time.monotonic() + SCAN_SECONDS
            for folder in self.directory.glob("dealers/[!.]*/feeds"):
                due += [Work(folder.parent.name, name, fetches=False) for name in feeds_with_files(folder.parent)]
        return due

    def _store_feeds(self, dealer_id: str) -> None:
        with self.store.read(dealer_id) as tx:
            number = find_dealer(tx).settings_number
        try:
            rows = feed_rows(self.load_settings(dealer_id))
        except SettingsError as problem:
            # They are read again when they have changed.
            log.error("feeds of a dealer not read", dealer=dealer_id, problem=str(problem))
            rows = []
        with self.store.write(dealer_id) as tx:
            put_feeds(tx, rows, number)

    def settings_of(self, work: Work) -> Settings:
        """The current settings of a dealer. Raises StorageError and SettingsError."""
        number, known = self._known.get(work.dealer_id, (None, None))
        if known is None or number != work.settings_number:
            known = self.load_settings(work.dealer_id)
            if work.settings_number is not None:
                self._known[work.dealer_id] = work.settings_number, known
        return known


class Collector:
    """Collects feeds until its task is cancelled. `find` blocks for the database."""

    def __init__(self, feeds: FolderFeeds | InstallationFeeds) -> None:
        self._feeds = feeds
        self._collection = FeedCollection(feeds.store, import_in_process)
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._rests: dict[tuple[str, str], float] = {}

    async def run(self) -> None:
        """Looks for work every LOOK_SECONDS. Cancel its task to stop."""
        is_failing = False
        try:
            while True:
                try:
                    found = await asyncio.to_thread(self._feeds.find, self._busy_dealers())
                except (StorageError, OSError) as fault:
                    if not is_failing:
                        log.error("feeds not looked for", error=type(fault).__qualname__, problem=str(fault))
                    is_failing, found = True, []
                else:
                    is_failing = False
                self._start(found)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    def _busy_dealers(self) -> int:
        """The number of dealers with feeds that are collected, or rest."""
        now = time.monotonic()
        self._rests = {key: until for key, until in self._rests.items() if until > now}
        return len({dealer_id for dealer_id, _ in (*self._running, *self._rests)})

    def _start(self, found: Iterable[Work]) -> None:
        of_dealer = Counter(dealer_id for dealer_id, _ in self._running)
        for work in found:
            key = work.dealer_id, work.feed
            free = min(MOST_OF_DEALER, MOST_AT_ONCE - len(self._running))
            if key in self._running or key in self._rests or of_dealer[work.dealer_id] >= free:
                continue
            of_dealer[work.dealer_id] += 1
            task = asyncio.create_task(self._collect(work))
            self._running[key] = task
            task.add_done_callback(partial(self._end, key))

    def _end(self, key: tuple[str, str], _: asyncio.Task[None]) -> None:
        del self._running[key]

    async def _collect(self, work: Work) -> None:
        try:
            settings = await asyncio.to_thread(self._feeds.settings_of, work)
            done = await self._collection.collect(settings, work.feed, fetches=work.fetches, if_due=work.fetches)
            feed = {"dealer": work.dealer_id, "feed": work.feed}
            for file in done.files:
                log.info("feed file", **feed, file=file.file_id, state=file.state, problem=file.problem)
            if done.problem is not None:
                log.warning("feed must wait", **feed, problem=done.problem)
            rests = done.problem is not None
        except Exception as fault:  # noqa: BLE001 - the boundary: one feed must not stop the others.
            ours = isinstance(fault, StorageError | SettingsError | EncryptionError)
            cause = str(fault) if ours else line_of(fault)
            log.error(
                "feed not collected",
                dealer=work.dealer_id,
                feed=work.feed,
                error=type(fault).__qualname__,
                problem=cause,
            )
            rests = True
        if rests:
            self._rests[work.dealer_id, work.feed] = time.monotonic() + REST_SECONDS
