"""The jobs that collect feeds, and the files that wait on this machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from dealer_agent.feeds.collection.collection import FeedCollection, import_in_process
from dealer_agent.feeds.collection.feed_folder import feeds_with_files
from dealer_agent.jobs.loop import JobResult, Kind
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.storage.jobs import Job, JobKey
from dealer_agent.storage.stock.feeds import FEED

log = structlog.get_logger()

MOST_AT_ONCE = 16
"""The feeds that a process collects at the same time. Most of the time, a collection waits for a server."""
MOST_OF_DEALER = 4
"""The feeds of one dealer that a process collects at the same time."""
SCAN_SECONDS = 60.0
"""How often the process of an installation looks into the incoming folders of all dealers."""


def feed_kind(run: Callable[[Job], Awaitable[JobResult]]) -> Kind:
    """The kind of the jobs that collect feeds."""
    return Kind(
        FEED,
        run,
        first_pause=timedelta(minutes=5),
        longest_pause=timedelta(hours=6),
        at_once=MOST_AT_ONCE,
        of_dealer=MOST_OF_DEALER,
    )


@dataclass
class FeedJobs:
    """The feeds of the dealers of a process."""

    opened: OpenInstallation
    _scan_at: float = 0.0
    _collection: FeedCollection = field(init=False)

    def __post_init__(self) -> None:
        """Prepares the queue of imports."""
        self._collection = FeedCollection(self.opened.store, import_in_process)

    @property
    def kind(self) -> Kind:
        """The kind of jobs."""
        return feed_kind(self._collect)

    def with_files(self) -> list[JobKey]:
        """The feeds with files that wait on this machine. Raises OSError."""
        if time.monotonic() < self._scan_at:
            return []
        if self.opened.installation.only is None:
            self._scan_at = time.monotonic() + SCAN_SECONDS
        folders = self.opened.feed_folders()
        return [JobKey(dealer_id, FEED, name) for dealer_id, folder in folders for name in feeds_with_files(folder)]

    async def _collect(self, job: Job) -> JobResult:
        """Collects the files of a feed, imports them, and logs the result of each."""
        settings = await asyncio.to_thread(self.opened.settings_of, job.dealer_id)
        # A job that is not due runs because files wait on this machine. Then nothing is fetched from a server.
        done = await self._collection.collect(settings, job, fetches=job.is_due)
        feed = {"dealer": job.dealer_id, "feed": job.subject}
        for file in done.files:
            warnings = [finding.check for finding in done.warnings.get(file.file_id, ())]
            write = log.info if file.state == "imported" and not warnings else log.warning
            write("feed file", **feed, file=file.file_id, state=file.state, problem=file.problem, warnings=warnings)
        if done.problem is not None:
            log.warning("feed must wait", **feed, problem=done.problem)
        return done.next
