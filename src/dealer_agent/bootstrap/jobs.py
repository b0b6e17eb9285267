"""The jobs of a process: their kinds, and the rows that a start or new settings make."""

import asyncio
import os
from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.jobs import alert_kinds
from dealer_agent.config import SettingsError
from dealer_agent.feeds.collection.collection import feed_rows
from dealer_agent.feeds.collection.collector import FeedJobs
from dealer_agent.jobs.loop import JobLoop, JobResult, Kind, first_jobs_within
from dealer_agent.known_keys.known import KnownKeys
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.privacy.key_rotation import InstallationKeys
from dealer_agent.privacy.maintenance import Maintenance
from dealer_agent.reports.monthly_mail import monthly_reports
from dealer_agent.storage.alerts import ALERT_CHECK
from dealer_agent.storage.jobs import SETTINGS, Job, begin_jobs
from dealer_agent.storage.stock.feeds import StoredFeed, put_feeds
from dealer_agent.storage.store import Store


def jobs_of(opened: OpenInstallation, watch: Watch | None, keys: InstallationKeys | None, known: KnownKeys) -> JobLoop:
    """The jobs of the dealers of a process. `watch` is that of the machine.

    Those of the only dealer of a folder are due at a start. In an installation, new settings of a dealer add a job that
    stores its other jobs.
    """
    store, only = opened.store, opened.installation.only
    feeds = FeedJobs(opened)
    kinds = [
        feeds.kind,
        *Maintenance(opened).kinds,
        monthly_reports(opened, os.environ),
        *alert_kinds(opened, watch),
        known.kind,
    ]
    if only is not None:
        rows = feed_rows(only)
        begin = partial(_store_jobs, store, opened.owner, rows, kinds)
        return JobLoop(store, kinds, opened.owner, begin, feeds.with_files)
    if keys is not None:
        kinds.append(keys.kind)
    every = [Kind(SETTINGS, partial(_store_changed, opened, kinds), at_once=20), *kinds]
    return JobLoop(store, every, begin=partial(_begin_checks, opened), find_more=feeds.with_files)


async def _store_changed(opened: OpenInstallation, kinds: Iterable[Kind], job: Job) -> JobResult:
    """Stores the jobs of a dealer whose settings have changed.

    If this process cannot read the settings, the job fails and is tried again. Meanwhile the rows of the feeds stay:
    they say what was imported, and a process with a newer program or another environment may read the settings.
    """
    within = first_jobs_within(opened.count())
    try:
        rows = feed_rows(await asyncio.to_thread(opened.settings_of, job.dealer_id))
    except SettingsError:
        await asyncio.to_thread(_store_jobs, opened.store, job.dealer_id, None, kinds, within)
        raise
    await asyncio.to_thread(_store_jobs, opened.store, job.dealer_id, rows, kinds, within)
    return JobResult(None, has_new_jobs=True)


def _begin_checks(opened: OpenInstallation) -> None:
    """Stores the job that checks the conditions of the operator."""
    with opened.store.write(opened.owner) as tx:
        begin_jobs(tx, [ALERT_CHECK])


def _store_jobs(
    store: Store, dealer_id: str, rows: list[StoredFeed] | None, kinds: Iterable[Kind], within: timedelta = timedelta()
) -> None:
    """Stores the feeds of a dealer, and its recurring jobs. Without `rows`, the feeds stay as they are."""
    with store.write(dealer_id) as tx:
        if rows is not None:
            put_feeds(tx, rows)
        begin_jobs(tx, [kind.name for kind in kinds if kind.is_recurring], within)
