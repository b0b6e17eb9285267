"""Composes the service of the dealer of a folder."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial

from dealer_agent.alerts.machine import MachineAlerts
from dealer_agent.alerts.watches import watch_of_dealer
from dealer_agent.bootstrap.dealer_service import Shared, customer_links, limit_store, open_service
from dealer_agent.bootstrap.deliveries import dealer_outlets, delivering, http_client
from dealer_agent.bootstrap.jobs import jobs_of_folder
from dealer_agent.bootstrap.metrics import answering_metrics, count_delivery, worker_metrics
from dealer_agent.bootstrap.traces import open_traces
from dealer_agent.catalogue_loading.snapshot_loader import FILE, SnapshotLoader
from dealer_agent.config import Settings
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.counting import Counting
from dealer_agent.server.key_rotation import FIRST_ROTATION_SECONDS, KeyRotation, changeable_key_file, wait_unless
from dealer_agent.server.limits import RateLimits
from dealer_agent.server.log import configure_logs, end_interval
from dealer_agent.server.refresh import Refresher, flush_logs, note_first_time, revision_of
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.replica_record import ReplicaRecord, machine_name, settings_hash
from dealer_agent.server.served_dealers import Addresses, ServedDealers
from dealer_agent.server.service import Process
from dealer_agent.server.stored_metrics import StoredMetrics
from dealer_agent.server.upkeep import UPKEEP_SECONDS
from dealer_agent.storage.store import LISTENING_CONNECTIONS, Store

RATE_LIMITS_FILE = "rate-limits.bin"


@asynccontextmanager
async def one_dealer(settings: Settings, listens_at: str) -> AsyncIterator[ServedDealers]:
    """The running service of the dealer of a folder: leads are stored and delivered, and background work runs.

    Raises StorageError, and SettingsError if a channel cannot work.
    """
    lines = configure_logs(settings.logs.level)
    profile = settings.dealer
    watch = watch_of_dealer(settings)
    async with AsyncExitStack() as closing:
        closing.callback(lines.flush)
        closing.callback(end_interval)
        store = await asyncio.to_thread(
            partial(
                Store.open,
                settings.database_url,
                settings.cipher,
                most_connections=settings.database_connections - LISTENING_CONNECTIONS,
            )
        )
        closing.callback(store.close)
        cipher = await asyncio.to_thread(store.check_keys, profile.id)
        # Before the first lead. Otherwise a lead that is stored while the clock is wrong would make that time trusted.
        await asyncio.to_thread(note_first_time, store, profile.id, datetime.now(UTC))
        writer = store.lead_writer()
        closing.push_async_callback(asyncio.to_thread, writer.close)
        links = customer_links(settings, listens_at, cipher)
        metrics = worker_metrics(settings.metrics)
        traces = await closing.enter_async_context(open_traces(settings.traces))
        outlets = dealer_outlets(settings, links, await closing.enter_async_context(http_client(settings.address_rule)))
        deliveries = await closing.enter_async_context(
            delivering(store, writer, lambda: [profile.id], lambda _: outlets, partial(count_delivery, metrics), traces)
        )
        limits = RateLimits(settings.directory / RATE_LIMITS_FILE, settings.rate_limits.by_rule)
        closing.callback(limits.close)
        process = Process(
            settings=settings.service,
            vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
            limits=limits,
            logs_access=settings.logs.access,
            limit_store=await closing.enter_async_context(limit_store(settings.rate_limit_url)),
        )
        shared = Shared(store, writer, process, listens_at, deliveries.wake, metrics=metrics, traces=traces)
        snapshots = SnapshotLoader(store, settings.database_url, profile, settings.directory / FILE)
        closing.callback(snapshots.close)
        dealers = ServedDealers(
            process,
            Addresses(frozenset((profile.id,)), only=profile.id, base_path=settings.service.base_path),
            lambda _: open_service(shared, settings, snapshots, links, cipher),
        )
        await dealers.open(profile.id)
        process.ready = True
        stored = StoredMetrics(store, lambda: (profile.id,), lambda: (profile.id,), lambda _: profile)
        await closing.enter_async_context(answering_metrics(metrics, dealers, writer, stored))
        stopped = threading.Event()
        closing.callback(stopped.set)
        rotation = KeyRotation(
            store=store,
            cipher=cipher,
            dealer_id=profile.id,
            place=changeable_key_file(settings.directory, os.environ),
            days=profile.privacy.rotate_keys_days,
            machine=machine_name(settings.directory),
            wait=wait_unless(stopped),
        )
        steps = RepeatedSteps()
        refresher = Refresher(
            store,
            writer,
            dealers,
            lambda: {profile.id: revision_of(store, profile.id)},
            lambda: dealers.addresses,
            settings.cipher,
        )

        async def rotate_keys() -> None:
            await asyncio.to_thread(rotation.run_due_steps, datetime.now(UTC))

        replica = ReplicaRecord(store, profile.id, rotation.machine, settings_hash(settings))
        closing.push_async_callback(replica.end)
        counting = Counting(store, process.counts, dealers.find_catalogue)
        closing.push_async_callback(counting.close)
        works = (
            refresher.run(steps),
            steps.repeat("key rotation", rotate_keys, UPKEEP_SECONDS, first=FIRST_ROTATION_SECONDS),
            jobs_of_folder(store, settings, watch).run(),
            replica.run(steps),
            counting.run(steps),
            flush_logs(lines),
            *([] if watch is None else [MachineAlerts(store, process.failed_leads, watch).run(steps)]),
        )
        for work in works:
            closing.push_async_callback(cancel, asyncio.create_task(work))
        yield dealers


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancels a task and waits for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
