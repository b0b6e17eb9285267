"""Collects one feed: fetches new files, and imports each file that waits, the oldest first. It is a job.

Each step can be repeated after a kill. A fetched file is complete in the incoming folder before the source remembers
it. A file gets its row before its import. The transaction of the import gives the file its result (`import_process`).
Then the file leaves the incoming folder.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from dealer_agent.catalogue_loading.child_processes import UNEXPECTED, ChildJob, refusal_of
from dealer_agent.config import Settings
from dealer_agent.config.feeds import FeedSettings, FolderSource
from dealer_agent.feeds.collection import import_process
from dealer_agent.feeds.collection.feed_folder import (
    WaitingFile,
    bytes_left,
    delete_old_files,
    delete_surplus,
    fair_share,
    keep,
    uploads_folder,
    waiting_bytes,
    waiting_files,
)
from dealer_agent.feeds.collection.folder_source import WatchedFolder
from dealer_agent.feeds.collection.import_process import LONGEST_PROBLEM, ImportJob
from dealer_agent.feeds.collection.source import Arrivals, FeedSource, FeedSourceError, incoming_folder
from dealer_agent.feeds.collection.url_source import FeedUrl
from dealer_agent.feeds.file_jobs import JobDealer
from dealer_agent.feeds.files.checks import FeedFinding
from dealer_agent.feeds.files.feed import FeedError
from dealer_agent.feeds.importing import FileImport
from dealer_agent.jobs.loop import JobResult
from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.stock.feeds import (
    ClaimedFeed,
    FeedFile,
    StoredFeed,
    add_file,
    count_attempt,
    find_file,
    finish_file,
    forget_files,
    forget_surplus,
    note_fetch,
    note_fetch_problem,
    note_file_problem,
    read_feed,
    uncount_attempt,
)
from dealer_agent.storage.stock.reading import list_imports
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

MOST_ATTEMPTS = 5
"""An import that was interrupted this often is given up: the file itself may be the reason."""
UPLOAD_SECONDS = 5
"""How long an upload stays in its folder: its client checks size and time of the file when it has sent it."""
MOST_ROWS = 1000
"""The newest files of a feed whose results the database keeps."""
_NEWEST_IMPORTS = 10
"""Where the import of a file is looked for: people may have changed the stock since."""
_FETCH_SECONDS = 7200
"""The longest fetch. Sources have their own, shorter limits."""
_IMPORT_SECONDS = 7200
"""The longest import. A file that is read for too long is refused earlier, so the database is the reason."""


@dataclass
class CollectionResult:
    """The result of a collection. `files` have their results. `problem` is why the source or a file must wait.

    `warnings` are the findings of the files that were imported with warnings, by the file's id.
    The feed is due again at `due_at`, and sooner after a problem.
    """

    due_at: datetime
    files: list[FeedFile] = field(default_factory=list)
    problem: str | None = None
    warnings: dict[str, tuple[FeedFinding, ...]] = field(default_factory=dict)

    @property
    def next(self) -> JobResult:
        """The end of the job."""
        return JobResult(self.due_at, failed=self.problem is not None)


class ImportInterrupted(Exception):  # noqa: N818 - says what happened.
    """An import ended without a result, so its file must wait. The message says why.

    `is_in_file`: the file itself may be the reason, so it is given up after MOST_ATTEMPTS.
    """

    def __init__(self, message: str, *, is_in_file: bool) -> None:
        super().__init__(message)
        self.is_in_file = is_in_file


ImportRunner = Callable[[ImportJob], Awaitable[None]]
"""Does a job: afterwards the file has its result. Raises ImportInterrupted, and FeedError if the file is refused
because the process died at one of its limits."""


def digest_of(feed: FeedSettings) -> bytes:
    """Changes with the settings of a feed."""
    return hashlib.blake2b(msgspec.json.encode(feed), digest_size=16).digest()


def feed_rows(settings: Settings) -> list[StoredFeed]:
    """The rows of the dealer's feeds, for `put_feeds`."""
    return [StoredFeed(feed.name, feed.source, feed.late_after_hours, digest_of(feed)) for feed in settings.feeds]


def zone_of(feed: FeedSettings, settings: Settings) -> ZoneInfo:
    """The time zone of a feed's schedule: that of its first rooftop."""
    rooftops = settings.dealer.rooftops
    first = next((rooftop for rooftop in rooftops if rooftop.name in feed.rooftops), rooftops[0])
    return ZoneInfo(first.timezone)


def source_of(feed: FeedSettings, settings: Settings, secrets: Mapping[str, str]) -> FeedSource:
    """What fetches the files of a feed. `secrets` are the environment variables. Raises OSError.

    In an installation, a folder must be inside the dealer's own. Our SFTP server puts its files into a folder, too.
    """
    own = settings.folder
    if feed.folder is not UNSET:
        return WatchedFolder(feed.folder, own, None if settings.installation is None else own)
    if feed.url is not UNSET:
        return FeedUrl(feed.url, secrets, settings.address_rule, settings.service.address_rule)
    if feed.sftp is not UNSET:
        # Imported here: few feeds need it.
        from dealer_agent.feeds.collection.sftp_source import SftpServer

        return SftpServer(feed.sftp, own, secrets, settings.address_rule)
    uploads = uploads_folder(incoming_folder(own, feed.name).parent)
    uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    return WatchedFolder(FolderSource(path=str(uploads), settle_seconds=UPLOAD_SECONDS), own, own)


class FeedCollection:
    """Collects the feeds of a process, which runs one import at a time: each takes a processor.

    A dealer has one place in the queue of imports, however many of its feeds have files.
    """

    def __init__(self, store: Store, run_import: ImportRunner) -> None:
        self.store = store
        self._run_import = run_import
        self._one_import = asyncio.Lock()
        # A lock for each dealer, as long as one of its feeds is collected.
        self._of_dealers: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def collect(self, settings: Settings, job: Job, *, fetches: bool, again: bool = False) -> CollectionResult:
        """Collects the feed of a job. Raises StorageError and OSError.

        Without `fetches`, only the files that wait on this machine are imported. With `again`, a file is fetched and
        imported also if it has not changed.
        """
        feed = next((each for each in settings.feeds if each.name == job.subject), None)
        claimed = await asyncio.to_thread(self._read, job)
        if feed is None or claimed is None:
            return CollectionResult(
                job.due_at, problem="the settings do not have this feed: see dealer-agent feeds list"
            )
        of_dealer = self._of_dealers.setdefault(settings.dealer.id, asyncio.Lock())
        work = _FeedWork(self.store, settings, feed, self._run_import, (of_dealer, self._one_import), job.due_at)
        work.claimed = claimed._replace(seen={}, imported_hash=None) if again else claimed
        try:
            if fetches or feed.upload is not UNSET:
                await work.fetch()
            await work.import_waiting()
            if fetches:
                work.collected.due_at = feed.next_after(datetime.now(UTC), zone_of(feed, settings))
        finally:
            await asyncio.to_thread(work.delete_old)
        return work.collected

    def _read(self, job: Job) -> ClaimedFeed | None:
        with self.store.write(job.dealer_id) as tx:
            return read_feed(tx, job)


class _FeedWork:
    """The work on one feed. Its methods raise StorageError, also LeaseLost, and OSError."""

    claimed: ClaimedFeed

    def __init__(
        self,
        store: Store,
        settings: Settings,
        feed: FeedSettings,
        run_import: ImportRunner,
        locks: tuple[asyncio.Lock, asyncio.Lock],
        due_at: datetime,
    ) -> None:
        """Prepares the work. `locks` are held in this order during an import."""
        self.run_import = run_import
        self.of_dealer, self.one_import = locks
        self.store = store
        self.settings = settings
        self.dealer_id = settings.dealer.id
        self.feed = feed
        self.collected = CollectionResult(due_at)

    async def write(
        self, action: Callable[Concatenate[Transaction, _Given], _Result], *given: _Given.args, **named: _Given.kwargs
    ) -> _Result:
        """Calls a function of storage in a transaction of its own."""

        def run() -> _Result:
            with self.store.write(self.dealer_id) as tx:
                return action(tx, *given, **named)

        return await asyncio.to_thread(run)

    async def fetch(self) -> None:
        """Asks the source for new files."""
        source = source_of(self.feed, self.settings, os.environ)
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                arrivals = await asyncio.to_thread(self._arrivals)
                fetched = await source.fetch(self.claimed.seen, arrivals)
        except (FeedSourceError, TimeoutError) as problem:
            words = str(problem) or "the source did not answer in time: ask its owner if this goes on"
            self.collected.problem = words
            await self.write(note_fetch_problem, self.claimed, words)
        else:
            # Nobody is asked for uploads, so a look that finds none shows nothing.
            if fetched.files or self.feed.upload is UNSET:
                await self.write(note_fetch, self.claimed, fetched.seen)

    def _arrivals(self) -> Arrivals:
        """The incoming folder, and how many bytes may still arrive. Raises FeedSourceError if nothing may arrive now.

        A feed gets a share of the bytes that are left, so that other feeds have room.
        """
        bounds = self.settings.feed_files
        incoming = incoming_folder(self.settings.folder, self.feed.name)
        incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.feed.upload is not UNSET:
            # The SFTP server has counted the bytes of uploads already.
            return Arrivals(incoming, sys.maxsize, sys.maxsize, least_free=0)
        left = bytes_left(self.settings.folder, bounds.dealer_mib << 20, bounds.least_free_mib << 20)
        waiting = waiting_bytes(incoming.parent)
        arrivals = Arrivals(
            incoming, self.feed.most_bytes, fair_share(waiting, left.of_dealer) - waiting, bounds.least_free_mib << 20
        )
        arrivals.check(0)
        return arrivals

    async def import_waiting(self) -> None:
        """Gives each waiting file its result. Stops at a file that must wait."""
        try:
            for waiting in await asyncio.to_thread(waiting_files, self.settings.folder, self.feed.name):
                file = await self._finish(waiting)
                await asyncio.to_thread(keep, waiting, file.state, self.feed.keep_days)
                self.collected.files.append(file)
        except ImportInterrupted as problem:
            self.collected.problem = str(problem)
            await self.write(note_file_problem, self.claimed, str(problem))

    async def _finish(self, waiting: WaitingFile) -> FeedFile:
        """Gives a waiting file its result: unchanged since the last import, failed too often, or imported now."""
        content_hash = await asyncio.to_thread(waiting.content_hash)
        file = await self.write(
            add_file,
            self.claimed,
            waiting.file_id,
            name=waiting.name,
            size=waiting.path.stat().st_size,
            content_hash=content_hash,
            received_at=waiting.received_at,
        )
        if file.state != "waiting":
            return file
        if content_hash == self.claimed.imported_hash:
            await self.write(finish_file, self.claimed, file, "unchanged")
        elif file.attempts >= MOST_ATTEMPTS:
            words = f"its import was interrupted {MOST_ATTEMPTS} times: check that this machine has enough memory"
            await self.write(finish_file, self.claimed, file, "failed", problem=words)
        else:
            async with self.of_dealer, self.one_import:
                await self.write(count_attempt, self.claimed, file)
                await self._import(waiting, file)
        imported = await asyncio.to_thread(self._read_again, file)
        if imported.state == "imported":
            self.claimed = self.claimed._replace(imported_hash=content_hash)
            if findings := await asyncio.to_thread(self._findings, imported):
                self.collected.warnings[imported.file_id] = findings
        return imported

    def _findings(self, file: FeedFile) -> tuple[FeedFinding, ...]:
        """What the checks said about a file that was imported now."""
        with self.store.read(self.dealer_id) as tx:
            newest = list_imports(tx, _NEWEST_IMPORTS)
        return next((each.findings for each in newest if each.revision == file.revision), ())

    def _read_again(self, file: FeedFile) -> FeedFile:
        """The row of the file as it is now: the import, in another process, has written its result."""
        with self.store.read(self.dealer_id) as tx:
            stored = find_file(tx, file.feed, file.file_id)
        assert stored is not None, "only old files with a result are forgotten"
        return stored

    async def _import(self, waiting: WaitingFile, file: FeedFile) -> None:
        """Imports a file in a process of its own, which stores the result. Raises ImportInterrupted."""
        settings = self.settings
        job = ImportJob(
            JobDealer.of(settings),
            FileImport.of_feed(file.name, self.feed, settings.checks),
            self.claimed,
            file,
            str(waiting.path),
        )
        try:
            await self.run_import(job)
        except FeedError as problem:
            await asyncio.to_thread(import_process.refuse, self.store, job, problem)
        except ImportInterrupted as problem:
            if not problem.is_in_file:
                await self.write(uncount_attempt, self.claimed, file)
            raise

    def delete_old(self) -> None:
        """Deletes the files that were kept for long enough, or that are too many."""
        bounds, folder = self.settings.feed_files, self.settings.folder
        with self.store.write(self.dealer_id) as tx:
            clock_is_right = clock_problem(tx) is None
            if clock_is_right:
                forget_files(tx, self.feed.name, tx.now - timedelta(days=self.feed.keep_days))
            forget_surplus(tx, self.feed.name, MOST_ROWS)
        if clock_is_right:
            keep_for = {feed.name: timedelta(days=feed.keep_days) for feed in self.settings.feeds}
            delete_old_files(folder, keep_for, timedelta(days=bounds.refused_days), datetime.now(UTC))
        delete_surplus(folder, bounds.kept_mib << 20, bounds.dealer_mib << 20, bounds.least_free_mib << 20)


async def import_in_process(job: ImportJob) -> None:
    """Imports a file in a process of its own, which has limits. See ImportRunner."""
    child = ChildJob()
    try:
        async with asyncio.timeout(_IMPORT_SECONDS):
            code, said = await asyncio.to_thread(child.run, "dealer_agent.feeds.collection.import_process", job)
    except TimeoutError:
        raise ImportInterrupted(
            "the database did not finish the import in time: it is tried again", is_in_file=False
        ) from None
    finally:
        child.end()
    if (refusal := refusal_of(code)) is not None:
        raise refusal
    if code < 0:
        raise ImportInterrupted(
            f"the import was ended by signal {-code}: check that this machine has enough memory", is_in_file=True
        )
    if code > 0:
        raise ImportInterrupted(said[:LONGEST_PROBLEM], is_in_file=code == UNEXPECTED)
