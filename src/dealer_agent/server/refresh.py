"""Background work of a process: it loads new stock, tokens, settings and keys within two seconds."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import structlog

from dealer_agent.encryption import Cipher
from dealer_agent.server.log import FLUSH_SECONDS, INTERVAL_SECONDS, BufferedLines, end_interval
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.server.served_dealers import Addresses, ServedDealers
from dealer_agent.server.service import LEADS_TAKEN, Service
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.storage.clock import has_trusted_time, trust_clock
from dealer_agent.storage.errors import BUSY, FULL, OTHER, READ_ONLY, UNREACHABLE, ClockDoubtful, StorageError
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.stock import Revision, read_revision
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import list_active_tokens
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

POLL_SECONDS = 0.5
PROBE_SECONDS = 2.0
NEEDED = {"stock", "tokens", "settings"}
"""The steps that reading skills need: when one fails, a process answers from older data."""


def token_registry(tx: Transaction) -> TokenRegistry:
    """The valid tokens of a dealer."""
    return TokenRegistry((token.token_id, token.token_hash) for token in list_active_tokens(tx))


def _load_tokens(store: Store, dealer_id: str) -> TokenRegistry:
    with store.read(dealer_id) as tx:
        return token_registry(tx)


def note_first_time(store: Store, dealer_id: str, now: datetime) -> None:
    """Stores the trusted time at the first start of a dealer's service; `dispose` updates it. Raises StorageError."""
    with store.read(dealer_id, now) as tx:
        known = has_trusted_time(tx)
    if not known:
        with suppress(ClockDoubtful), store.write(dealer_id, now) as tx:
            trust_clock(tx)


def revision_of(store: Store, dealer_id: str) -> Revision:
    """The revisions of the stock and of the tokens in the database now. Raises StorageError."""
    with store.read(dealer_id) as tx:
        return read_revision(tx)


@dataclass
class Refresher:
    """Polls the store, and replaces what has changed in the services of the opened dealers.

    `read_revisions` returns the revisions in the store, by dealer. It may leave out dealers without recent changes.
    `read_addresses` returns where the dealers answer. `on_settings` gets each dealer whose settings have changed.
    """

    store: Store
    writer: LeadWriter
    dealers: ServedDealers
    read_revisions: Callable[[], Mapping[str, Revision]]
    read_addresses: Callable[[], Addresses]
    cipher: Cipher | None
    on_settings: Callable[[str], None] = lambda _: None
    _settings: dict[str, int] = field(default_factory=dict)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats all steps until it is cancelled. Tokens do not wait while a large stock is loading."""
        await asyncio.gather(
            steps.repeat("stock", self._refresh_stock, POLL_SECONDS),
            steps.repeat("tokens", self._refresh_tokens, POLL_SECONDS),
            steps.repeat("settings", self._refresh_settings, POLL_SECONDS),
            steps.repeat("keys", self._refresh_keys, POLL_SECONDS),
            steps.repeat("leads", self._probe_leads, PROBE_SECONDS),
            steps.repeat("readiness", partial(self._note_readiness, steps), POLL_SECONDS),
        )

    async def _note_readiness(self, steps: RepeatedSteps) -> None:
        self.dealers.process.ready = not steps.failing & NEEDED

    async def _refresh_stock(self) -> None:
        for service, revision in await self._opened():
            if revision.stock != service.loaded.stock:
                snapshot = await asyncio.to_thread(service.snapshots.load, datetime.now(UTC))
                replaced = [service.dealer]
                service.dealer = service.dealer.with_stock(snapshot.catalogue, snapshot.at)
                service.stock_bytes = snapshot.size
                service.loaded = service.loaded._replace(stock=snapshot.revision)
                self.dealers.loads += 1
                # Freeing the pages of a large snapshot takes long.
                await asyncio.to_thread(replaced.clear)
                log.info("stock refreshed", revision=snapshot.revision, vehicles=len(snapshot.catalogue))

    async def _refresh_tokens(self) -> None:
        for service, revision in await self._opened():
            if revision.tokens != service.loaded.tokens:
                service.tokens = await asyncio.to_thread(_load_tokens, self.store, service.dealer.profile.id)
                service.loaded = service.loaded._replace(tokens=revision.tokens)
                log.info("tokens refreshed")

    async def _refresh_settings(self) -> None:
        """Reads where all dealers answer when the settings of any have changed, and opens changed dealers again."""
        found = await asyncio.to_thread(self.read_revisions)
        changed = {dealer_id: revision.settings for dealer_id, revision in found.items()}
        if changed.items() <= self._settings.items():
            return
        for dealer_id, number in changed.items():
            if self._settings.get(dealer_id) != number:
                self.store.forget_keys(dealer_id)
        self.dealers.move(await asyncio.to_thread(self.read_addresses))
        for dealer_id, number in changed.items():
            if self._settings.get(dealer_id) != number:
                self.on_settings(dealer_id)
            opened = self.dealers.opened.get(dealer_id)
            if opened is not None and opened.loaded.settings != number:
                await self.dealers.open_again(dealer_id)
                log.info("settings refreshed", dealer=dealer_id, revision=number)
        self._settings |= changed

    async def _opened(self) -> list[tuple[Service, Revision]]:
        """The opened dealers that may have changed, with their revisions in the store."""
        revisions = await asyncio.to_thread(self.read_revisions)
        opened = self.dealers.opened
        return [(opened[dealer_id], revision) for dealer_id, revision in revisions.items() if dealer_id in opened]

    async def _refresh_keys(self) -> None:
        if self.cipher is not None and await asyncio.to_thread(self.cipher.refresh):
            log.info("keys refreshed", active=self.cipher.keyring.active, keys=len(self.cipher.keyring.ids))

    async def _probe_leads(self) -> None:
        """Checks whether leads can be stored, for /readyz. All dealers share the database and its disk."""
        dealer_id = next(iter(self.dealers.addresses.dealers), None)
        if dealer_id is None:
            return
        try:
            await asyncio.to_thread(self.store.check_space)
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.wrap_future(self.writer.probe(dealer_id))
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


async def flush_logs(lines: BufferedLines) -> None:
    """Writes buffered log lines a few times a second, and suppressed lines at the end of each interval."""
    while True:
        for _ in range(round(INTERVAL_SECONDS / FLUSH_SECONDS)):
            await asyncio.sleep(FLUSH_SECONDS)
            lines.flush()
        end_interval()
