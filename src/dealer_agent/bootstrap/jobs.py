"""The jobs of a process: their kinds, and the rows that a start or new settings make."""

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import structlog

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.jobs import AlertJobs
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.bootstrap.monthly_mail import monthly_reports
from dealer_agent.config import Settings, SettingsError
from dealer_agent.feed_collection.collection import feed_rows
from dealer_agent.feed_collection.collector import SCAN_SECONDS, FeedJobs
from dealer_agent.jobs.loop import JobLoop, Kind, Next
from dealer_agent.server.upkeep import Upkeep
from dealer_agent.storage.alerts import ALERT_CHECK
from dealer_agent.storage.feeds import FeedRow, put_feeds
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import SETTINGS, Job, begin_jobs
from dealer_agent.storage.store import Store

log = structlog.get_logger()

LONGEST_CHECK_WAIT = timedelta(days=2)
"""The checks of 10,000 dealers without receivers are 8 hours apart."""


def jobs_of_folder(store: Store, settings: Settings, watch: Watch | None) -> JobLoop:
    """The jobs of the dealer of a folder. All are due at a start. Without a watch, it has no alerts."""
    dealer_id = settings.dealer.id
    feeds = FeedJobs(store, lambda _: settings, lambda: [(dealer_id, settings.directory)])
    kinds = _kinds(store, feeds, lambda: 1)
    if watch is not None:
        kinds += AlertJobs(store, lambda _: watch).kinds

    def begin() -> None:
        _store_jobs(store, dealer_id, feed_rows(settings), kinds)

    return JobLoop(store, kinds, dealer_id, begin, feeds.with_files)


def jobs_of_installation(
    store: Store,
    directory: Path,
    settings_of: Callable[[str], Settings],
    count_dealers: Callable[[], int],
    operator: Watch | None,
    of_installation: Iterable[Kind] = (),
) -> JobLoop:
    """The jobs of the dealers of an installation, and the alerts of its operator.

    `of_installation` are kinds that only the dealers of an installation have. New settings of a dealer add a job that
    stores its other jobs. `settings_of` raises StorageError and SettingsError.
    """

    async def store_jobs(job: Job) -> Next:
        try:
            rows = feed_rows(await asyncio.to_thread(settings_of, job.dealer_id))
        except SettingsError as problem:
            # They are read again when they have changed.
            log.error("feeds of a dealer not read", dealer=job.dealer_id, problem=str(problem))
            rows = []
        await asyncio.to_thread(_store_jobs, store, job.dealer_id, rows, kinds)
        return Next(None, has_new_jobs=True)

    def find_watch(owner: str) -> Watch | None:
        return operator if owner == ALL_DEALERS else watch_of_dealer(settings_of(owner))

    def begin() -> None:
        with store.write(ALL_DEALERS) as tx:
            begin_jobs(tx, [ALERT_CHECK])

    def find_folders() -> Iterable[tuple[str, Path]]:
        return ((folder.parent.name, folder.parent) for folder in directory.glob("dealers/[!.]*/feeds"))

    feeds = FeedJobs(store, settings_of, find_folders, SCAN_SECONDS)
    alerts = AlertJobs(store, find_watch, count_dealers, LONGEST_CHECK_WAIT)
    kinds = [*_kinds(store, feeds, count_dealers), *alerts.kinds, *of_installation]
    every = [Kind(SETTINGS, store_jobs, at_once=20), *kinds]
    return JobLoop(store, every, begin=begin, find_more=feeds.with_files)


def _kinds(store: Store, feeds: FeedJobs, count_dealers: Callable[[], int]) -> list[Kind]:
    settings_of = feeds.settings_of
    upkeep = Upkeep(store, settings_of, count_dealers)
    return [feeds.kind, *upkeep.kinds, monthly_reports(store, settings_of, count_dealers, os.environ)]


def _store_jobs(store: Store, dealer_id: str, rows: list[FeedRow], kinds: Iterable[Kind]) -> None:
    with store.write(dealer_id) as tx:
        put_feeds(tx, rows)
        begin_jobs(tx, [kind.name for kind in kinds if kind.is_lasting])
