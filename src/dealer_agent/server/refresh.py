"""Background work of a process: it loads new stock, tokens, policies, settings and keys within two seconds."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import structlog

from dealer_agent.delivery.loop import DeliveryLoop
from dealer_agent.open_installation import OpenInstallation
from dealer_agent.server.dealer_opener import CallerData, admitted_callers, shared_policies
from dealer_agent.server.log import FLUSH_SECONDS, INTERVAL_SECONDS, BufferedLines, end_interval
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.served_dealers import ServedDealers, read_addresses
from dealer_agent.server.service import LEADS_TAKEN, Service
from dealer_agent.storage.errors import (
    BUSY,
    FULL,
    OTHER,
    READ_ONLY,
    UNREACHABLE,
    DatabaseFailure,
    DealerBlocked,
    DealerUnknown,
    StorageError,
)
from dealer_agent.storage.installation.dealer_registry import changed_dealers, count_changes
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.stock.reading import ChangeCounters, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import InstallationTransaction

log = structlog.get_logger()

EPOCH = datetime.fromtimestamp(0, UTC)
USUAL_TRANSACTION = timedelta(seconds=10)
"""A transaction commits its change with an earlier time. Changes are read again for this long."""

POLL_SECONDS = 0.5
KEYS_SECONDS = 1.5
LISTENING_POLL_SECONDS = 2.0
"""The pause between polls while PostgreSQL announces changes. An announcement ends it."""
SHORTEST_PAUSE_SECONDS = 0.05
RECONNECT_SECONDS = 5.0
RETRY_SECONDS = 0.2
"""How soon a step runs again, also after a failure."""
MOST_REFRESHING = 2
"""How many dealers each step refreshes at the same time."""
PROBE_SECONDS = 2.0
PROBE_WAIT_SECONDS = 5.0
"""How long a check waits for the database. Longer than on a busy machine."""
PROBE_BLOCKED_SECONDS = 1.0
"""How long a check waits for a dealer that another transaction has locked."""
PROBED_DEALERS = 16
"""Leads cannot be stored if none of so many dealers, chosen at random, can have any."""
NEEDED_BY_ALL = {"changes"}
"""The steps that reading skills need: when one fails, a process answers from older data."""
NEEDED_BY_ONE = NEEDED_BY_ALL | {"stock", "tokens", "settings"}
"""The steps that reading skills of a process with one dealer need. With many, a failure may concern only one."""


MOST_AT_ONCE = 500
"""The most opened dealers that get new policies of the installation without a pause. Each takes 5 microseconds."""


def _load_admitted(store: Store, dealer_id: str) -> CallerData:
    with store.read(dealer_id) as tx:
        return admitted_callers(tx)


@dataclass
class Changes:
    """Reads the revisions of the dealers that have changed since the last time."""

    opened: OpenInstallation
    _newest: datetime = EPOCH
    _counted: int = -1
    # By dealer id.
    _seen: dict[str, ChangeCounters] = field(default_factory=dict)

    def read(self) -> dict[str, ChangeCounters]:
        """The revisions by dealer. The first call returns those of all dealers. Raises StorageError.

        Later calls return those that changed. They read changes again that are up to USUAL_TRANSACTION older than the
        newest one seen: a transaction may commit such a change late. The counters seen must add up to the count of all
        changes, else everything is read. The only dealer of a folder is returned by each call.
        """
        only = self.opened.installation.only
        if only is not None:
            with self.opened.store.read(only.dealer.id) as tx:
                return {only.dealer.id: read_revision(tx)}
        with self.opened.store.installation() as everything:
            count = count_changes(everything)
            if count == self._counted:
                return {}
            counters = self._read_since(everything, max(self._newest, EPOCH + USUAL_TRANSACTION) - USUAL_TRANSACTION)
            if count != sum(map(sum, self._seen.values())):
                # A long transaction has committed a change with an earlier time.
                counters = self._read_since(everything, EPOCH)
        self._counted = count
        return counters

    def _read_since(self, tx: InstallationTransaction, since: datetime) -> dict[str, ChangeCounters]:
        """The counters of the dealers that changed since then."""
        changes = changed_dealers(tx, since)
        if changes:
            self._newest = changes[-1].changed_at
        counters = {row.dealer_id: ChangeCounters(row.stock, row.tokens, row.settings) for row in changes}
        self._seen.update(counters)
        return counters


class MarkedDealers:
    """The dealers whose data one step must load again."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._marked = asyncio.Event()

    def add(self, dealer_ids: Iterable[str]) -> None:
        """Marks dealers."""
        self._ids.update(dealer_ids)
        self._marked.set()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[set[str]]:
        """Waits for marked dealers. They are marked again if the `async with` block fails."""
        await self._marked.wait()
        self._marked.clear()
        taken, self._ids = self._ids, set()
        try:
            yield taken
        except BaseException:
            self.add(taken)
            raise


@dataclass
class Refresher:
    """Polls the database, and replaces what has changed in the services of the opened dealers.

    On PostgreSQL, an announced change causes a poll at once.
    """

    opened: OpenInstallation
    writer: LeadWriter
    dealers: ServedDealers
    deliveries: DeliveryLoop
    # By dealer id: what the last poll read, and the number of the settings in use.
    _known: dict[str, ChangeCounters] = field(default_factory=dict)
    _settings: dict[str, int] = field(default_factory=dict)
    _new_stock: MarkedDealers = field(default_factory=MarkedDealers)
    _new_tokens: MarkedDealers = field(default_factory=MarkedDealers)
    _new_settings: MarkedDealers = field(default_factory=MarkedDealers)
    _announced: asyncio.Event = field(default_factory=asyncio.Event)
    _is_listening: bool = False
    _changes: Changes = field(init=False)

    def __post_init__(self) -> None:
        self._changes = Changes(self.opened)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats all steps until it is cancelled. Tokens do not wait while a large stock is loading."""
        self.dealers.on_opened = self._check_opened
        steps.on_change = partial(self._note_readiness, steps)
        await asyncio.gather(
            steps.repeat("announcements", self._listen, RECONNECT_SECONDS, first=0),
            steps.repeat("changes", self._poll, POLL_SECONDS, wait=self._wait_for_change),
            steps.repeat("stock", self._refresh_stock, RETRY_SECONDS),
            steps.repeat("tokens", self._refresh_tokens, RETRY_SECONDS),
            steps.repeat("settings", self._refresh_settings, RETRY_SECONDS),
            steps.repeat("keys", self._refresh_keys, KEYS_SECONDS),
            steps.repeat("leads", self._probe_leads, PROBE_SECONDS),
        )

    def _note_readiness(self, steps: RepeatedSteps) -> None:
        has_one_dealer = self.dealers.addresses.only is not None
        self.dealers.process.ready = not steps.failing & (NEEDED_BY_ONE if has_one_dealer else NEEDED_BY_ALL)

    async def _listen(self) -> None:
        """Notes the announcements of changes by the database, until the process ends."""
        try:
            async for _ in self.opened.store.announcements():
                self._is_listening = True
                self._announced.set()
        finally:
            self._is_listening = False
            self._announced.set()
        # There are no announcements. Only the poll finds changes.
        await asyncio.Event().wait()

    async def _wait_for_change(self, seconds: float) -> None:
        """Waits for an announcement, at most until the next poll."""
        await asyncio.sleep(SHORTEST_PAUSE_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(LISTENING_POLL_SECONDS if self._is_listening else seconds):
                await self._announced.wait()
        self._announced.clear()

    async def _poll(self) -> None:
        """Reads which dealers have changed, and marks them."""
        counters = await asyncio.to_thread(self._changes.read)
        changed = [dealer_id for dealer_id, revision in counters.items() if self._known.get(dealer_id) != revision]
        self._known.update(counters)
        if changed:
            self._mark_dealers(changed)

    def _mark_dealers(self, dealer_ids: Iterable[str]) -> None:
        for step in (self._new_stock, self._new_tokens, self._new_settings):
            step.add(dealer_ids)

    def _check_opened(self, dealer_id: str) -> None:
        """A change may have been found while the dealer was being opened."""
        revisions, service = self._known.get(dealer_id), self.dealers.opened.get(dealer_id)
        if service is not None and (shared := self.dealers.process.shared_policies) is not None:
            service.use_policies(service.policies.with_shared(shared))
        if revisions is not None and service is not None and revisions != service.loaded:
            self._mark_dealers([dealer_id])
            self._announced.set()

    async def _refresh_stock(self) -> None:
        """Replaces the stock of the marked dealers. A request that has begun keeps its old stock."""

        async def refresh(service: Service, _: ChangeCounters) -> None:
            """Loads the new snapshot, and replaces the stock of the service. Other requests are answered meanwhile."""
            snapshot = await asyncio.to_thread(service.snapshots.load, datetime.now(UTC))
            replaced = [service.dealer]
            service.dealer = service.dealer.with_stock(snapshot.catalogue, snapshot.at, snapshot.revision)
            service.stock_bytes = snapshot.size
            service.loaded = service.loaded._replace(stock=snapshot.revision)
            self.dealers.loads += 1
            # Freeing the pages of a large snapshot takes long.
            await asyncio.to_thread(replaced.clear)
            log.info("stock refreshed", revision=snapshot.revision, vehicles=len(snapshot.catalogue))

        async with self._new_stock.take() as taken:
            changed = [each for each in self._services(taken) if each[0].loaded.stock != each[1].stock]
            await _refresh_each(changed, refresh)

    async def _refresh_tokens(self) -> None:
        """Loads the tokens of the dealers whose tokens have changed."""

        async def refresh(service: Service, revision: ChangeCounters) -> None:
            """Loads the tokens and policies of the dealer, and replaces those of the service."""
            admitted = await asyncio.to_thread(_load_admitted, self.opened.store, service.dealer.profile.id)
            service.tokens = admitted.tokens
            service.use_policies(service.policies.with_own(admitted.policies))
            if self.dealers.addresses.only is not None:
                self.dealers.process.keep_keys_of(admitted.policies)
            service.loaded = service.loaded._replace(tokens=revision.tokens)
            log.info("tokens refreshed")

        async with self._new_tokens.take() as taken:
            if ALL_DEALERS in taken:
                await self._refresh_shared_policies()
            changed = [each for each in self._services(taken) if each[0].loaded.tokens != each[1].tokens]
            await _refresh_each(changed, refresh)

    async def _refresh_shared_policies(self) -> None:
        """Gives the policies of the installation to the opened dealers. Others get them when they are opened."""
        process = self.dealers.process
        shared = process.shared_policies = await asyncio.to_thread(shared_policies, self.opened.store)
        process.keep_keys_of(shared)
        for number, service in enumerate(list(self.dealers.opened.values())):
            service.use_policies(service.policies.with_shared(shared))
            if number % MOST_AT_ONCE == MOST_AT_ONCE - 1:
                await asyncio.sleep(0)

    async def _refresh_settings(self) -> None:
        """Reads where all dealers answer when the settings of any have changed, and opens changed dealers again."""

        async def open_again(service: Service, revision: ChangeCounters) -> None:
            dealer_id = service.dealer.profile.id
            await self.dealers.open_again(dealer_id)
            # The file of the only dealer was read after this counter. What was saved since then is read next time.
            if (opened := self.dealers.opened.get(dealer_id)) is not None:
                opened.loaded = opened.loaded._replace(settings=numbers[dealer_id])
            log.info("settings refreshed", dealer=dealer_id, revision=revision.settings)

        async with self._new_settings.take() as taken:
            numbers = {dealer_id: self._known[dealer_id].settings for dealer_id in taken}
            changed = {
                dealer_id: number for dealer_id, number in numbers.items() if self._settings.get(dealer_id) != number
            }
            for dealer_id in changed:
                self.opened.store.forget_keys(dealer_id)
            if changed:
                await asyncio.to_thread(self.opened.read_again)
                self.dealers.move(await asyncio.to_thread(read_addresses, self.opened))
            for dealer_id in changed:
                self.deliveries.forget(dealer_id)
            self._settings.update(changed)
            opened = [
                each for each in self._services(taken) if each[0].loaded.settings != numbers[each[0].dealer.profile.id]
            ]
            await _refresh_each(opened, open_again)

    def _services(self, dealer_ids: Iterable[str]) -> list[tuple[Service, ChangeCounters]]:
        """The services of those dealers that are opened, with their revisions in the database."""
        opened = self.dealers.opened
        return [(opened[dealer_id], self._known[dealer_id]) for dealer_id in dealer_ids if dealer_id in opened]

    async def _refresh_keys(self) -> None:
        cipher = self.opened.installation.cipher
        if cipher is not None and await asyncio.to_thread(cipher.refresh):
            log.info("keys refreshed", active=cipher.keyring.active, keys=len(cipher.keyring.ids))

    async def _probe_leads(self) -> None:
        """Checks whether leads can be stored, for /readyz. All dealers share the database and its disk.

        It tries another dealer each time, and some others if the failure may concern only this one. A writer that
        stores leads meanwhile is only slow: an overload must not take a machine away.
        """
        dealers = tuple(self.dealers.addresses.dealers)
        if not dealers:
            return
        stored = self.writer.stored
        first, *others = random.sample(dealers, min(PROBED_DEALERS, len(dealers)))
        try:
            async with asyncio.timeout(PROBE_WAIT_SECONDS):
                await asyncio.to_thread(self.opened.store.check_space)
                try:
                    await self._probe_dealer(first)
                except StorageError as error:
                    if not others or (isinstance(error, DatabaseFailure) and not isinstance(error, DealerBlocked)):
                        raise
                    await self._probe_any(others)
        except DealerUnknown:
            return  # It was removed. The database works, and the addresses will not have the dealer next time.
        except (TimeoutError, DealerBlocked):
            if self.writer.stored > stored:
                return
            self.dealers.process.leads = f"unavailable: {BUSY[1]}"
            raise BUSY[0](BUSY[1]) from None
        except StorageError as error:
            words = next(
                (words for kind, words in (BUSY, FULL, READ_ONLY, UNREACHABLE) if isinstance(error, kind)), OTHER[1]
            )
            self.dealers.process.leads = f"unavailable: {words}"
            raise
        self.dealers.process.leads = LEADS_TAKEN

    async def _probe_dealer(self, dealer_id: str) -> None:
        await asyncio.wrap_future(self.writer.probe(dealer_id, PROBE_BLOCKED_SECONDS))

    async def _probe_any(self, dealers: Sequence[str]) -> None:
        """Raises the failure of the first of these dealers if all fail."""
        failures = await asyncio.gather(*map(self._probe_dealer, dealers), return_exceptions=True)
        if None not in failures and failures[0] is not None:
            raise failures[0]


async def _refresh_each(
    dealers: Iterable[tuple[Service, ChangeCounters]], refresh: Callable[[Service, ChangeCounters], Awaitable[None]]
) -> None:
    """Refreshes a few dealers at a time. One that fails or takes long keeps no other from its refresh.

    Raises the first failure, when all are done.
    """
    slots = asyncio.Semaphore(MOST_REFRESHING)

    async def refresh_one(service: Service, revision: ChangeCounters) -> None:
        async with slots:
            await refresh(service, revision)

    results = await asyncio.gather(*(refresh_one(*each) for each in dealers), return_exceptions=True)
    for failure in results:
        if failure is not None:
            raise failure


async def flush_logs(lines: BufferedLines) -> None:
    """Writes buffered log lines a few times a second, and suppressed lines at the end of each interval."""
    while True:
        for _ in range(round(INTERVAL_SECONDS / FLUSH_SECONDS)):
            await asyncio.sleep(FLUSH_SECONDS)
            lines.flush()
        end_interval()
