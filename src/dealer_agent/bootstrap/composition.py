"""Composes the running service of an installation: a list that reads top to bottom."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from dealer_agent.alerts.machine import MachineAlerts
from dealer_agent.alerts.watches import watch_of_machine
from dealer_agent.bootstrap.jobs import jobs_of
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.config.installation import SNAPSHOTS, Installation
from dealer_agent.config.settings import TracesSettings
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.console.console import Console
from dealer_agent.delivery.loop import PROCESS_CONCURRENCY, DeliveryLoop
from dealer_agent.delivery.outlets import outlets_of_dealer
from dealer_agent.known_keys.issuers import RESOLVERS
from dealer_agent.known_keys.known import REFRESH_SECONDS, KnownKeys
from dealer_agent.open_installation import OpenInstallation, open_store
from dealer_agent.outgoing.connections import http_client
from dealer_agent.privacy.key_rotation import InstallationKeys, KeyRotation, changeable_key_file, wait_unless
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.counting import Counting
from dealer_agent.server.dealer_memory import DealerMemory, delete_removed_files, memory_budget
from dealer_agent.server.dealer_opener import DealerOpener
from dealer_agent.server.limits import BLOCKS, INSTALLATION_BLOCKS, RateLimits
from dealer_agent.server.log import BufferedLines, configure_logs, end_interval
from dealer_agent.server.metrics import FOLDER_VARIABLE, WorkerMetrics
from dealer_agent.server.nonces import CLEAN_SECONDS, FileNonces, StoredNonces
from dealer_agent.server.refresh import Refresher, flush_logs
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.replica_record import ReplicaRecord, machine_name, settings_hash
from dealer_agent.server.reply_record import ReplySaving
from dealer_agent.server.served_dealers import ServedDealers, read_addresses
from dealer_agent.server.service import Process
from dealer_agent.server.shared_limits import LimitStore
from dealer_agent.server.worker_metrics import StoredMetrics, WorkerState, answering_collector

if TYPE_CHECKING:
    # Only with the extra `traces`.
    from dealer_agent.server.traces import Traces

TRACES_MISSING = "[traces] needs more packages: pip install 'dealer-agent[traces]', or remove endpoint under [traces]"
RATE_LIMITS_FILE = "rate-limits.bin"
NONCES_FILE = "nonces.bin"
BUSIEST_FILE = "busiest-dealers.json"
HTTP_CONNECTIONS = httpx.Limits(max_connections=PROCESS_CONCURRENCY, max_keepalive_connections=20)
"""A delivery never waits for a connection of another one."""


@asynccontextmanager
async def serving(installation: Installation) -> AsyncIterator[ServedDealers]:
    """The running service: leads are stored and delivered, and background work runs.

    The only dealer of a folder is opened at once, each dealer of an installation at its first request. Raises
    SettingsError, and StorageError, also if the database does not isolate dealers from each other.
    """
    settings, only, folder = installation.file, installation.only, installation.folder
    many_dealers = only is None
    # The callbacks run in the reverse order: background work ends first, the store is closed almost last.
    async with AsyncExitStack() as closing:
        watch = watch_of_machine(installation)
        lines = configure_logs(settings.logs.level)
        closing.callback(_end_logs, lines)
        opened = OpenInstallation(installation, await asyncio.to_thread(open_store, installation))
        closing.callback(opened.store.close)
        stopped = threading.Event()
        keys = await asyncio.to_thread(_key_rotation, opened, stopped)
        addresses = await asyncio.to_thread(read_addresses, opened)
        writer = opened.store.lead_writer()
        closing.push_async_callback(asyncio.to_thread, writer.close)
        metrics = WorkerMetrics(settings.metrics.dealers) if os.environ.get(FOLDER_VARIABLE) else None
        traces = await closing.enter_async_context(open_traces(settings.traces))
        process = _process(installation)
        closing.push_async_callback(_close_limits, process)
        client = await closing.enter_async_context(http_client(installation.address_rule, limits=HTTP_CONNECTIONS))
        find_outlets = partial(outlets_of_dealer, opened, client)
        begin_span = (lambda *_: None) if traces is None else traces.begin_delivery
        deliveries = DeliveryLoop(opened.store, writer, opened.dealers_with_due, find_outlets, begin_span)
        closing.push_async_callback(_stop_deliveries, deliveries, asyncio.create_task(deliveries.run()))
        snapshots = SnapshotFolder(folder / SNAPSHOTS) if many_dealers else None
        opener = DealerOpener(opened, writer, process, deliveries, snapshots, metrics, traces)
        closing.callback(opener.close)
        budget = memory_budget(settings.installation.snapshot_memory_mib) if many_dealers else 0
        memory = DealerMemory(budget, folder / SNAPSHOTS / BUSIEST_FILE)
        rules = settings.service.address_rule, installation.address_rule
        known_keys = process.known_keys = KnownKeys(opened.store, opened.owner, *rules, RESOLVERS)
        await known_keys.refresh()
        process.nonces = nonces_of(opened)
        if isinstance(process.nonces, FileNonces):
            closing.callback(process.nonces.close)
        dealers = ServedDealers(process, addresses, opener.open, memory.close_idle if many_dealers else None)
        if settings.console.enabled:
            dealers.console = console = Console(opened, dealers)
            closing.push_async_callback(asyncio.to_thread, console.close)
        process.is_host_of = lambda dealer_id, name: dealers.addresses.is_host_of(dealer_id, name)
        if only is not None:
            await dealers.open(only.dealer.id)
        process.ready = True
        counting = Counting(opened.store, process.counts, dealers.find_catalogue)
        closing.push_async_callback(counting.close)
        replies = ReplySaving(opened.store, process.replies)
        closing.push_async_callback(replies.close)
        machine, hash_of_settings = machine_name(folder), settings_hash(installation)
        replica = ReplicaRecord(
            opened.store,
            opened.owner,
            machine,
            hash_of_settings,
            lambda: process.forwarded_by,
            process.proxy_noticed,
        )
        closing.push_async_callback(replica.end)
        if metrics is not None:
            writer.on_wait = metrics.note_wait
            state = WorkerState(metrics, dealers, writer, deliveries, StoredMetrics(opened))
            await closing.enter_async_context(answering_collector(Path(os.environ[FOLDER_VARIABLE]), state))
        closing.callback(stopped.set)
        alerts = MachineAlerts(opened.store, process.failed_leads, watch)
        steps = RepeatedSteps()
        jobs = jobs_of(opened, watch, keys, known_keys)
        known_keys.on_asked = jobs.wake
        background_work: list[Coroutine[Any, Any, None]] = [
            Refresher(opened, writer, dealers, deliveries).run(steps),
            steps.repeat("keys of agents", known_keys.refresh, REFRESH_SECONDS, wait=known_keys.pause),
        ]
        if isinstance(process.nonces, StoredNonces):
            background_work.append(steps.repeat("nonces", process.nonces.clean, CLEAN_SECONDS))
        if many_dealers:
            background_work.append(memory.run(dealers, steps))
        if snapshots is not None:
            background_work.append(delete_removed_files(opened, snapshots, steps))
        if keys is not None:
            background_work.append(keys.run(steps))
        if watch is not None or many_dealers:
            # With many dealers also without a watch: it stores the failed leads, for the alerts of the dealers.
            background_work.append(alerts.run(steps))
        background_work += [
            jobs.run(),
            replica.run(steps),
            counting.run(steps),
            replies.run(steps),
            flush_logs(lines),
        ]
        for work in background_work:
            closing.push_async_callback(_cancel, asyncio.create_task(work))
        yield dealers


def nonces_of(opened: OpenInstallation) -> FileNonces | StoredNonces:
    """Where the nonces of signed requests are remembered: where all machines find them."""
    if opened.store.is_shared:
        return StoredNonces(opened.store, opened.owner)
    return FileNonces(opened.installation.folder / NONCES_FILE)


def check_traces(settings: TracesSettings) -> None:
    """Raises SettingsError if traces are on and their packages are missing."""
    if settings.endpoint:
        try:
            # Imported here: the packages are an extra.
            import dealer_agent.server.traces  # noqa: F401
        except ModuleNotFoundError:
            raise SettingsError(TRACES_MISSING) from None


@asynccontextmanager
async def open_traces(settings: TracesSettings) -> AsyncIterator["Traces | None"]:
    """The traces of this process for an `async with` block. None if they are off."""
    if not settings.endpoint:
        yield None
        return
    check_traces(settings)
    from dealer_agent.server.traces import Traces

    traces = Traces(settings)
    try:
        yield traces
    finally:
        await asyncio.to_thread(traces.close)


def _key_rotation(opened: OpenInstallation, stopped: threading.Event) -> InstallationKeys | None:
    """The rotation of all keys. None for an installation without keys, which can open no dealer.

    Raises KeyMissing and WrongKey.
    """
    installation = opened.installation
    if installation.cipher is None and installation.only is None:
        return None
    own = KeyRotation(
        store=opened.store,
        cipher=opened.store.check_keys(opened.owner),
        dealer_id=opened.owner,
        location=changeable_key_file(installation.folder, os.environ),
        days=installation.file.installation.rotate_keys_days,
        machine=machine_name(installation.folder),
        wait=wait_unless(stopped),
    )
    return InstallationKeys(opened, own)


def _process(installation: Installation) -> Process:
    """What the dealers of this process share: limits of rates, and settings of the service."""
    settings, url = installation.file, installation.rate_limit_url
    blocks = INSTALLATION_BLOCKS if installation.only is None else BLOCKS
    return Process(
        settings=settings.service,
        vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
        limits=RateLimits(installation.folder / RATE_LIMITS_FILE, settings.rate_limits.by_rule, blocks=blocks),
        logs_access=settings.logs.access,
        limit_store=LimitStore(url) if url else None,
    )


async def _close_limits(process: Process) -> None:
    process.limits.close()
    if process.limit_store is not None:
        await process.limit_store.close()


async def _stop_deliveries(deliveries: DeliveryLoop, running: asyncio.Task[None]) -> None:
    """Deliveries in progress get a few seconds."""
    deliveries.stop()
    await running


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _end_logs(lines: BufferedLines) -> None:
    end_interval()
    lines.flush()
