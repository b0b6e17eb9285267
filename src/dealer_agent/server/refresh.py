"""Background work of a process: it loads new stock, tokens and keys within two seconds, and deletes old data."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from dealer_agent.catalogue_loading.snapshot_loader import SnapshotError
from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.retention import erase_before, purge_before
from dealer_agent.encryption import Cipher, EncryptionError
from dealer_agent.server.chain_heads import HEADS_SECONDS, record_heads
from dealer_agent.server.key_rotation import LogEvent
from dealer_agent.server.log import FLUSH_SECONDS, INTERVAL_SECONDS, BufferedLines, end_interval, places
from dealer_agent.server.served_dealers import ServedDealers
from dealer_agent.server.service import LEADS_TAKEN, Service
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.storage.clock import has_trusted_time, trust_clock
from dealer_agent.storage.erasure import dispose
from dealer_agent.storage.errors import BUSY, FULL, OTHER, READ_ONLY, UNREACHABLE, ClockDoubtful, StorageError
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.retention import purge
from dealer_agent.storage.stock import Revision, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_active_tokens

log = structlog.get_logger()

POLL_SECONDS = 0.5
PROBE_SECONDS = 2.0
PURGE_SECONDS = 3600.0
RETRY_SECONDS = 30.0
"""The longest wait before a failed step is repeated."""
FIRST_PURGE_SECONDS = 5.0
"""A service that restarts every day also deletes old data."""


def load_tokens(store: Store, dealer_id: str) -> TokenRegistry:
    """The valid tokens. Raises StorageError."""
    with store.read(dealer_id) as tx:
        return TokenRegistry((token.token_id, token.token_hash) for token in list_active_tokens(tx))


def note_first_time(store: Store, dealer_id: str, now: datetime) -> None:
    """Stores the trusted time at the first start of a dealer's service. Raises StorageError.

    Later, each deletion by age updates it, and reports an implausible clock.
    """
    with store.read(dealer_id, now) as tx:
        known = has_trusted_time(tx)
    if not known:
        with suppress(ClockDoubtful), store.write(dealer_id, now) as tx:
            trust_clock(tx)


def revision_of(store: Store, dealer_id: str) -> Revision:
    """The revisions of stock and tokens in the store now. Raises StorageError."""
    with store.read(dealer_id) as tx:
        return read_revision(tx)


@dataclass
class Refresher:
    """Polls the store, and replaces what has changed in the services of the opened dealers.

    `read_revisions` returns the revisions in the store, by dealer. It may leave out dealers without recent changes.
    """

    store: Store
    writer: LeadWriter
    dealers: ServedDealers
    read_revisions: Callable[[], Mapping[str, Revision]]
    cipher: Cipher | None
    heads_file: Path
    rotate_keys: Callable[[datetime], list[LogEvent]]
    failing: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Repeats all steps until it is cancelled. Tokens do not wait while a large stock is loading."""
        await asyncio.gather(
            self._repeat("stock", self._refresh_stock, POLL_SECONDS),
            self._repeat("tokens", self._refresh_tokens, POLL_SECONDS),
            self._repeat("keys", self._refresh_keys, POLL_SECONDS),
            self._repeat("leads", self._probe_leads, PROBE_SECONDS),
            self._repeat("purge", self._purge, PURGE_SECONDS, first=FIRST_PURGE_SECONDS),
            self._repeat("heads", self._record_heads, HEADS_SECONDS, first=0),
            self._repeat("key rotation", self._rotate_keys, PURGE_SECONDS, first=FIRST_PURGE_SECONDS),
        )

    async def _repeat(
        self, name: str, step: Callable[[], Awaitable[None]], seconds: float, *, first: float | None = None
    ) -> None:
        """Repeats a step. A failure is logged once. Until the step works again, the service keeps the older data."""
        pause = seconds if first is None else first
        while True:
            await asyncio.sleep(pause)
            pause = seconds
            try:
                await step()
            except Exception as fault:  # noqa: BLE001 - the boundary: logged, and tried again.
                if name not in self.failing:
                    # The message of another package's exception may contain data of a customer.
                    ours = isinstance(fault, StorageError | EncryptionError | SnapshotError)
                    cause = {"problem": str(fault)} if ours else {"places": places(fault)}
                    log.error("refresh failed", what=name, error=type(fault).__qualname__, **cause)
                self.failing.add(name)
                pause = min(seconds, RETRY_SECONDS)
            else:
                if name in self.failing:
                    log.info("refresh works again", what=name)
                self.failing.discard(name)
            # Reading skills need only stock and tokens.
            self.dealers.process.ready = not self.failing & {"stock", "tokens"}

    async def _refresh_stock(self) -> None:
        for service, revision in await self._opened():
            if revision.stock != service.loaded.stock:
                snapshot = await asyncio.to_thread(service.snapshots.load, datetime.now(UTC))
                service.dealer = service.dealer.with_stock(snapshot.catalogue, snapshot.at)
                service.loaded = service.loaded._replace(stock=snapshot.revision)
                log.info("stock refreshed", revision=snapshot.revision, vehicles=len(snapshot.catalogue))

    async def _refresh_tokens(self) -> None:
        for service, revision in await self._opened():
            if revision.tokens != service.loaded.tokens:
                service.tokens = await asyncio.to_thread(load_tokens, self.store, service.dealer.profile.id)
                service.loaded = service.loaded._replace(tokens=revision.tokens)
                log.info("tokens refreshed")

    async def _opened(self) -> list[tuple[Service, Revision]]:
        """The opened dealers that may have changed, with their revisions in the store."""
        revisions = await asyncio.to_thread(self.read_revisions)
        opened = self.dealers.opened
        return [(opened[dealer_id], revision) for dealer_id, revision in revisions.items() if dealer_id in opened]

    async def _refresh_keys(self) -> None:
        if self.cipher is not None and await asyncio.to_thread(self.cipher.refresh):
            log.info("keys refreshed", active=self.cipher.keyring.active, keys=len(self.cipher.keyring.ids))

    async def _probe_leads(self) -> None:
        """Checks whether leads can be stored, for /readyz."""
        try:
            await asyncio.to_thread(self.store.check_space)
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.wrap_future(self.writer.probe(self._any_dealer().id))
        except TimeoutError:
            self.dealers.process.leads = f"unavailable: {BUSY[1]}"
            raise BUSY[0](BUSY[1]) from None
        except StorageError as fault:
            words = next(
                (words for kind, words in (BUSY, FULL, READ_ONLY, UNREACHABLE) if isinstance(fault, kind)), OTHER[1]
            )
            self.dealers.process.leads = f"unavailable: {words}"
            raise
        self.dealers.process.leads = LEADS_TAKEN

    async def _record_heads(self) -> None:
        await asyncio.to_thread(record_heads, self.store, self._any_dealer().id, self.heads_file, datetime.now(UTC))

    async def _purge(self) -> None:
        dealer, now = self._any_dealer(), datetime.now(UTC)
        await asyncio.to_thread(partial(purge, self.store, dealer.id, now=now, **purge_before(dealer, now)))
        done = await asyncio.to_thread(partial(dispose, self.store, dealer.id, now=now, **erase_before(dealer, now)))
        if any(done):
            log.info("old customer data forgotten", leads=done.leads, consents=done.consents)

    def _any_dealer(self) -> Profile:
        return next(iter(self.dealers.opened.values())).dealer.profile

    async def _rotate_keys(self) -> None:
        for news in await asyncio.to_thread(self.rotate_keys, datetime.now(UTC)):
            (log.warning if news.is_problem else log.info)(news.event, **news.facts)


async def flush_logs(lines: BufferedLines) -> None:
    """Writes buffered log lines a few times a second, and suppressed lines at the end of each interval."""
    while True:
        for _ in range(round(INTERVAL_SECONDS / FLUSH_SECONDS)):
            await asyncio.sleep(FLUSH_SECONDS)
            lines.flush()
        end_interval()
