"""Composes the service of the dealers of an installation."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from weakref import WeakSet

from dealer_agent.alerts.machine import MachineAlerts
from dealer_agent.alerts.watches import watch_of_operator
from dealer_agent.bootstrap.dealer_service import Shared, customer_links, limit_store, open_service, shared_limits
from dealer_agent.bootstrap.deliveries import dealer_outlets, delivering, http_client
from dealer_agent.bootstrap.jobs import jobs_of_installation
from dealer_agent.bootstrap.metrics import answering_metrics, count_delivery, worker_metrics
from dealer_agent.bootstrap.one_dealer import RATE_LIMITS_FILE, cancel
from dealer_agent.bootstrap.traces import open_traces
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotLoader
from dealer_agent.config import Settings
from dealer_agent.config.installation import SNAPSHOTS, Installation
from dealer_agent.config.settings import LONGEST_LEASE_SECONDS
from dealer_agent.delivery.dealer_outlets import DealerOutlets
from dealer_agent.encryption import Cipher
from dealer_agent.protocol.vocabulary import vocabularies_of
from dealer_agent.server.counting import Counting
from dealer_agent.server.dealer_memory import DealerMemory, memory_budget
from dealer_agent.server.dealer_settings import load_dealer_settings
from dealer_agent.server.installation_keys import InstallationKeys
from dealer_agent.server.key_rotation import KeyRotation, changeable_key_file, wait_unless
from dealer_agent.server.limits import INSTALLATION_BLOCKS, RateLimits
from dealer_agent.server.log import configure_logs, end_interval
from dealer_agent.server.refresh import Refresher, flush_logs, note_first_time
from dealer_agent.server.removed_dealers import delete_files_of_removed
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.replica_record import ReplicaRecord, machine_name, settings_hash
from dealer_agent.server.served_dealers import Addresses, ListedDealer, ServedDealers
from dealer_agent.server.service import Process, Service
from dealer_agent.server.stored_metrics import StoredMetrics
from dealer_agent.storage.dealer_registry import all_dealers, all_hosts, changed_dealers, count_changes
from dealer_agent.storage.errors import NotIsolated
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.outbox import dealers_with_due
from dealer_agent.storage.stock import Revision
from dealer_agent.storage.store import LISTENING_CONNECTIONS, Store
from dealer_agent.storage.transaction import InstallationTransaction

BUSIEST_FILE = "busiest-dealers.json"
EPOCH = datetime.fromtimestamp(0, UTC)
USUAL_TRANSACTION = timedelta(seconds=10)
"""A transaction commits its change with an earlier time. Changes are read again for this long."""

LONGEST_LEASE = timedelta(seconds=LONGEST_LEASE_SECONDS)
MOST_DUE = 100_000
"""The most dealers with due deliveries that are read at once. Dealers that can send nothing now are among them."""


@asynccontextmanager
async def many_dealers(installation: Installation) -> AsyncIterator[ServedDealers]:
    """The running service of the dealers of an installation. A dealer is opened at its first request.

    Raises StorageError, also if the database does not isolate dealers from each other.
    """
    settings = installation.file
    operator = watch_of_operator(installation)
    lines = configure_logs(settings.logs.level)
    async with AsyncExitStack() as closing:
        closing.callback(lines.flush)
        closing.callback(end_interval)
        store = await asyncio.to_thread(
            partial(
                Store.open,
                installation.database_url,
                installation.cipher,
                many_dealers=True,
                most_connections=settings.installation.database_connections - LISTENING_CONNECTIONS,
            )
        )
        closing.callback(store.close)
        addresses = await asyncio.to_thread(read_addresses, installation, store)
        writer = store.lead_writer()
        closing.push_async_callback(asyncio.to_thread, writer.close)
        rules = settings.rate_limits.by_rule
        limits = RateLimits(installation.directory / RATE_LIMITS_FILE, rules, blocks=INSTALLATION_BLOCKS)
        closing.callback(limits.close)
        process = Process(
            settings=settings.service,
            vocabularies=vocabularies_of(settings.service.vocabulary, settings.service.proto),
            limits=limits,
            logs_access=settings.logs.access,
            limit_store=await closing.enter_async_context(limit_store(installation.rate_limit_url)),
        )
        client = await closing.enter_async_context(http_client(settings.service.address_rule))

        def find_due_dealers() -> list[str]:
            with store.installation() as tx:
                due = dealers_with_due(tx, LONGEST_LEASE, MOST_DUE)
            return [dealer_id for dealer_id in due if dealer_id in dealers.addresses.dealers]

        def find_outlets(dealer_id: str) -> DealerOutlets:
            dealer_settings = load_dealer_settings(installation, store, dealer_id)
            links = customer_links(dealer_settings, installation.public_url, store.check_keys(dealer_id))
            return dealer_outlets(dealer_settings, links, client)

        files = SnapshotFolder(installation.directory / SNAPSHOTS)
        loaders = WeakSet[SnapshotLoader]()

        def end_loading() -> None:
            for loader in loaders:
                loader.close()

        closing.callback(end_loading)

        def prepare_dealer(dealer_id: str) -> tuple[Settings, Cipher]:
            dealer_settings = load_dealer_settings(installation, store, dealer_id)
            cipher = store.check_keys(dealer_id)
            note_first_time(store, dealer_id, datetime.now(UTC))
            dealer_settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return dealer_settings, cipher

        async def open_dealer(dealer_id: str) -> Service:
            dealer_settings, cipher = await asyncio.to_thread(prepare_dealer, dealer_id)
            snapshots = SnapshotLoader(
                store, installation.database_url, dealer_settings.dealer, files.file_of(dealer_id), files
            )
            loaders.add(snapshots)
            links = customer_links(dealer_settings, shared.listens_at, cipher)
            return await open_service(shared, dealer_settings, snapshots, links, cipher)

        def delete_files(served: Collection[str]) -> None:
            files.delete_except(served)
            delete_files_of_removed(store, installation.directory, served)

        process.ready = True
        budget = memory_budget(settings.installation.snapshot_memory_mib)
        memory = DealerMemory(budget, installation.directory / SNAPSHOTS / BUSIEST_FILE, delete_files)
        dealers = ServedDealers(process, addresses, open_dealer, memory.close_idle)
        metrics = worker_metrics(settings.metrics)
        traces = await closing.enter_async_context(open_traces(settings.traces))
        deliveries = await closing.enter_async_context(
            delivering(store, writer, find_due_dealers, find_outlets, partial(count_delivery, metrics), traces)
        )
        cipher = installation.cipher
        shared = Shared(
            store,
            writer,
            process,
            installation.public_url,
            deliveries.wake,
            has_many_dealers=True,
            metrics=metrics,
            traces=traces,
            # Without keys, no dealer can be opened.
            all_dealers_limits=shared_limits(process.limit_store, limits, ALL_DEALERS, rules, cipher)
            if cipher
            else None,
        )
        refresher = Refresher(
            store,
            writer,
            dealers,
            Changes(store).read,
            partial(read_addresses, installation, store),
            installation.cipher,
            deliveries.forget,
        )
        steps = RepeatedSteps()
        machine = machine_name(installation.directory)
        replica = ReplicaRecord(store, ALL_DEALERS, machine, settings_hash(installation))
        closing.push_async_callback(replica.end)
        counting = Counting(store, process.counts, dealers.find_catalogue)
        closing.push_async_callback(counting.close)
        works = [
            refresher.run(steps),
            memory.run(dealers, steps),
            replica.run(steps),
            counting.run(steps),
            MachineAlerts(store, process.failed_leads, operator).run(steps),
            flush_logs(lines),
        ]
        settings_of = partial(load_dealer_settings, installation, store)
        kinds = []
        if installation.cipher is not None:
            stopped = threading.Event()
            closing.callback(stopped.set)
            rotation = await asyncio.to_thread(_key_rotation, installation, store, wait_unless(stopped))
            keys = InstallationKeys(rotation, settings_of, lambda: len(dealers.addresses.dealers))
            works.append(keys.run(steps))
            kinds.append(keys.kind)
        jobs = jobs_of_installation(
            store, installation.directory, settings_of, lambda: len(dealers.addresses.dealers), operator, kinds
        )
        works.append(jobs.run())
        stored = StoredMetrics(
            store,
            lambda: dealers.addresses.dealers,
            find_due_dealers,
            lambda dealer_id: load_dealer_settings(installation, store, dealer_id).dealer,
        )
        await closing.enter_async_context(answering_metrics(metrics, dealers, writer, stored))
        for work in works:
            closing.push_async_callback(cancel, asyncio.create_task(work))
        yield dealers


def _key_rotation(installation: Installation, store: Store, wait: Callable[[float], None]) -> KeyRotation:
    """The rotation of the installation's keys. Raises KeyMissing and WrongKey for wrong ones."""
    return KeyRotation(
        store=store,
        cipher=store.check_keys(ALL_DEALERS),
        dealer_id=ALL_DEALERS,
        place=changeable_key_file(installation.directory, os.environ),
        days=installation.file.installation.rotate_keys_days,
        machine=machine_name(installation.directory),
        wait=wait,
    )


@dataclass
class Changes:
    """Reads the revisions of the dealers that have changed since the last time.

    Several steps of background work read them at about the same time, and share the result.
    """

    store: Store
    _newest: datetime = EPOCH
    _counted: int = -1
    _seen: dict[str, Revision] = field(default_factory=dict)

    def read(self) -> dict[str, Revision]:
        """The revisions by dealer. The first call returns those of all dealers. Raises StorageError."""
        with self.store.installation() as tx:
            count = count_changes(tx)
            if count == self._counted:
                return {}
            found = self._read_since(tx, max(self._newest, EPOCH + USUAL_TRANSACTION) - USUAL_TRANSACTION)
            if count != sum(map(sum, self._seen.values())):
                # A long transaction has committed a change with an earlier time.
                found = self._read_since(tx, EPOCH)
        self._counted = count
        return found

    def _read_since(self, tx: InstallationTransaction, since: datetime) -> dict[str, Revision]:
        changes = changed_dealers(tx, since)
        if changes:
            self._newest = changes[-1].changed_at
        found = {each.dealer_id: Revision(each.stock, each.tokens, each.settings) for each in changes}
        self._seen.update(found)
        return found


def read_addresses(installation: Installation, store: Store) -> Addresses:
    """Where the enabled dealers answer. Raises StorageError, also if the database does not isolate them."""
    with store.installation() as tx:
        enabled = [dealer for dealer in all_dealers(tx) if dealer.enabled]
        hosts = all_hosts(tx)
    if len(enabled) > 1 and (problem := store.isolation_problem()):
        raise NotIsolated(problem)
    names: dict[str, list[str]] = {}
    for host, dealer_id in hosts.items():
        names.setdefault(dealer_id, []).append(host)
    listed = (
        ListedDealer(each.dealer_id, each.name, installation.address_of(each.dealer_id, names.get(each.dealer_id, ())))
        for each in enabled
        if each.listed
    )
    return Addresses(
        frozenset(dealer.dealer_id for dealer in enabled),
        hosts,
        public_url=installation.public_url,
        listed=sorted(listed, key=lambda each: (each.name.casefold(), each.dealer_id)),
    )
