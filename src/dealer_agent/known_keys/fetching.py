"""The jobs that fetch keys: one for each source, in the one table of jobs (`jobs`)."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import structlog

from dealer_agent.jobs.loop import Kind, Next, pause_after
from dealer_agent.known_keys.kinds import Fetched, KeysNotFetched, kind_of
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.outgoing.addresses import AddressRefused
from dealer_agent.outgoing.connections import http_client
from dealer_agent.storage.jobs import Job
from dealer_agent.storage.key_sets import (
    KEY_SET,
    KeySetRecord,
    find_key_set,
    keep_keys,
    note_problem,
    remove_sources,
)
from dealer_agent.storage.store import Store

log = structlog.get_logger()

FETCH_SECONDS = 10.0
"""The longest time of a fetch, from the look-up of the name to the last byte."""
MAX_AT_ONCE = 8
"""How many sources a process fetches at the same time. A source that never answers has one of these places."""
KEPT = timedelta(hours=24)
"""How long keys are used after their end, while their source does not answer."""
UNUSED = timedelta(days=7)
"""A source that neither a request nor the settings have named for so long is removed."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
"""A fetch that failed is repeated after a pause that doubles. A stranger's source without keys is removed instead."""


def key_set_jobs(opened: OpenInstallation) -> Kind:
    """The kind of jobs that fetch keys."""
    return Kind(KEY_SET, partial(_fetch, opened), at_once=MAX_AT_ONCE, of_dealer=MAX_AT_ONCE)


async def _fetch(opened: OpenInstallation, job: Job) -> Next:
    store, source = opened.store, job.subject
    record = await asyncio.to_thread(_find, store, job)
    if record is None:
        return Next(None)
    if record.used_at < job.now - UNUSED:
        await asyncio.to_thread(_remove, store, job)
        return Next(None)
    try:
        fetched = await fetch_keys(opened, source, pinned=record.pinned)
    except KeysNotFetched as problem:
        if record.problem != str(problem):
            log.warning("keys not fetched", source=source, problem=str(problem))
        if not record.pinned and record.document is None and job.attempts > 1:
            # Until now, it has kept this stranger's requests from asking again.
            await asyncio.to_thread(_remove, store, job)
            return Next(None)
        await asyncio.to_thread(_note_problem, store, job, str(problem))
        return Next(job.now + pause_after(job.attempts, FIRST_PAUSE, LONGEST_PAUSE), failed=True)
    now = datetime.now(UTC)
    await asyncio.to_thread(_keep, store, job, fetched, now)
    # Before its end, so that requests always find keys that may be used.
    return Next(now + fetched.lifetime * 0.9)


async def fetch_keys(opened: OpenInstallation, source: str, *, pinned: bool) -> Fetched:
    """Fetches the keys of a source. Raises KeysNotFetched.

    The operator has written a pinned source. The host of any other must have public addresses.
    """
    installation = opened.installation
    rule = installation.address_rule if pinned else installation.file.service.address_rule
    try:
        async with (
            asyncio.timeout(FETCH_SECONDS),
            http_client(rule, timeout=FETCH_SECONDS, trust_env=False) as client,
        ):
            return await kind_of(source).fetch(client, source)
    except TimeoutError:
        problem = f"there was no answer in {FETCH_SECONDS:.0f} seconds"
    except KeyError:
        problem = "this version does not know the kind of the source"
    except AddressRefused as refused:
        problem = str(refused)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        # The message of the error may contain the URL.
        problem = f"the connection failed ({type(error).__name__})"
    raise KeysNotFetched(problem)


def _find(store: Store, job: Job) -> KeySetRecord | None:
    with store.read(job.dealer_id) as tx:
        return find_key_set(tx, job.subject)


def _keep(store: Store, job: Job, fetched: Fetched, now: datetime) -> None:
    with store.write(job.dealer_id, now) as tx:
        keep_keys(tx, job.subject, fetched.document, now + fetched.lifetime)


def _note_problem(store: Store, job: Job, problem: str) -> None:
    with store.write(job.dealer_id) as tx:
        note_problem(tx, job.subject, problem)


def _remove(store: Store, job: Job) -> None:
    with store.write(job.dealer_id) as tx:
        remove_sources(tx, [job.subject])
