"""Keeps a process up to date: a new import, token or key shows within two seconds, without a restart."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from dealer_agent.catalogue_loading import SnapshotError, SnapshotLoader
from dealer_agent.dealers.profile import Profile
from dealer_agent.encryption import Cipher, EncryptionError
from dealer_agent.server.chain_heads import HEADS_SECONDS, record_heads
from dealer_agent.server.key_rotation import News
from dealer_agent.server.log import FLUSH_SECONDS, INTERVAL_SECONDS, BufferedLines, end_interval, places
from dealer_agent.server.service import LEADS_TAKEN, Service
from dealer_agent.server.tokens import TokenRegistry
from dealer_agent.storage.errors import (
    BUSY,
    FULL,
    OTHER,
    READ_ONLY,
    UNREACHABLE,
    ClockDoubtful,
    DatabaseBusy,
    StorageError,
)
from dealer_agent.storage.lead_writer import LeadWriter
from dealer_agent.storage.privacy import Disposed
from dealer_agent.storage.retention import Purged
from dealer_agent.storage.stock import Revision
from dealer_agent.storage.store import Store

log = structlog.get_logger()

POLL_SECONDS = 0.5
PROBE_SECONDS = 2.0
PURGE_SECONDS = 3600.0
RETRY_SECONDS = 30.0
"""A step that failed is repeated after this time at the latest."""
FIRST_PURGE_SECONDS = 5.0
"""Soon after the start: a service that is restarted every day forgets in time, too."""


def load_tokens(store: Store, dealer_id: str) -> TokenRegistry:
    """The tokens that open the door now. Raises StorageError."""
    return TokenRegistry((token.token_id, token.token_hash) for token in store.active_token_hashes(dealer_id))


def ages(dealer: Profile, now: datetime) -> dict[str, datetime]:
    """Since when leads must be unused, and before when consents must be, to be forgotten now: `[privacy]`."""
    kept = dealer.privacy
    return {
        "leads_unused_since": now - timedelta(days=kept.keep_leads_days),
        "consents_before": now - timedelta(days=kept.keep_consents_days),
    }


def dispose_by_age(store: Store, dealer: Profile, now: datetime) -> Disposed:
    """Forgets the customers whose time is over, as `[privacy]` says (16 CFR 314.4(c)(6), 310.5). Raises StorageError.

    Of several processes at once, one finds what is old under the dealer's lock; the others find it done.
    """
    return store.dispose(dealer.id, **ages(dealer, now), now=now)


def purge_by_age(store: Store, dealer: Profile, now: datetime) -> Purged:
    """Deletes old answers to idempotency keys, refusals and entries of the access log, as `[privacy]` says.

    The access log is deleted up to a midnight, so that it gets only a few entries a day about the deletion. Raises
    StorageError.
    """
    kept, today = dealer.privacy, now.replace(hour=0, minute=0, second=0, microsecond=0)
    return store.purge(
        dealer.id,
        refusals_before=now - timedelta(days=kept.keep_refusals_days),
        accesses_before=today - timedelta(days=kept.keep_accesses_days),
        now=now,
    )


def note_first_time(store: Store, dealer_id: str, now: datetime) -> None:
    """Stores the trusted time at the first start of a dealer's service. Each deletion by age updates it later, and
    reports an implausible clock. Raises StorageError.
    """
    if not store.has_trusted_time(dealer_id):
        with suppress(ClockDoubtful):
            store.trust_clock(dealer_id, now)


@dataclass
class Refresher:
    """Polls the store's revision and swaps in what changed; `seen` is what the service shows."""

    store: Store
    writer: LeadWriter
    service: Service
    room: SnapshotLoader
    seen: Revision
    cipher: Cipher | None
    heads_file: Path
    change_keys: Callable[[datetime], list[News]]
    failing: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Polls until it is cancelled. Tokens do not wait for a large stock that is being loaded."""
        await asyncio.gather(
            self._repeat("stock", self._refresh_stock, POLL_SECONDS),
            self._repeat("tokens", self._refresh_tokens, POLL_SECONDS),
            self._repeat("keys", self._refresh_keys, POLL_SECONDS),
            self._repeat("leads", self._probe_leads, PROBE_SECONDS),
            self._repeat("purge", self._purge, PURGE_SECONDS, first=FIRST_PURGE_SECONDS),
            self._repeat("heads", self._record_heads, HEADS_SECONDS, first=0),
            self._repeat("change of keys", self._change_keys, PURGE_SECONDS, first=FIRST_PURGE_SECONDS),
        )

    async def _repeat(
        self, name: str, step: Callable[[], Awaitable[None]], seconds: float, *, first: float | None = None
    ) -> None:
        """Runs a step again and again. One that fails is reported once, and what is at hand stays on show."""
        pause = seconds if first is None else first
        while True:
            await asyncio.sleep(pause)
            pause = seconds
            try:
                await step()
            except Exception as fault:  # noqa: BLE001 - the boundary: recorded, and tried again.
                if name not in self.failing:
                    # The message of a foreign error may hold anything; these are our own.
                    ours = isinstance(fault, StorageError | EncryptionError | SnapshotError)
                    told = {"problem": str(fault)} if ours else {"places": places(fault)}
                    log.error("refresh failed", what=name, error=type(fault).__qualname__, **told)
                self.failing.add(name)
                pause = min(seconds, RETRY_SECONDS)
            else:
                if name in self.failing:
                    log.info("refresh works again", what=name)
                self.failing.discard(name)
            # Reading skills need stock and tokens alone.
            self.service.ready = not self.failing & {"stock", "tokens"}

    async def _refresh_stock(self) -> None:
        profile = self.service.dealer.profile
        revision = await asyncio.to_thread(self.store.revision, profile.id)
        if revision.stock == self.seen.stock:
            return
        shown = await asyncio.to_thread(self.room.load, datetime.now(UTC))
        self.service.dealer = self.service.dealer.with_stock(shown.catalogue, shown.at)
        self.seen = self.seen._replace(stock=shown.revision)
        log.info("stock refreshed", revision=shown.revision, vehicles=len(shown.catalogue))

    async def _refresh_tokens(self) -> None:
        dealer_id = self.service.dealer.profile.id
        revision = await asyncio.to_thread(self.store.revision, dealer_id)
        if revision.tokens == self.seen.tokens:
            return
        self.service.tokens = await asyncio.to_thread(load_tokens, self.store, dealer_id)
        self.seen = self.seen._replace(tokens=revision.tokens)
        log.info("tokens refreshed")

    async def _refresh_keys(self) -> None:
        if self.cipher is not None and await asyncio.to_thread(self.cipher.refresh):
            log.info("keys refreshed", active=self.cipher.keyring.active, keys=len(self.cipher.keyring.ids))

    async def _probe_leads(self) -> None:
        """Checks whether leads can be stored, for /readyz."""
        try:
            await asyncio.to_thread(self.store.check_space)
            async with asyncio.timeout(PROBE_SECONDS):
                await asyncio.wrap_future(self.writer.probe(self.service.dealer.profile.id))
        except TimeoutError:
            self.service.leads = f"unavailable: {BUSY[1]}"
            raise DatabaseBusy(BUSY[1]) from None
        except StorageError as fault:
            words = next(
                (words for kind, words in (BUSY, FULL, READ_ONLY, UNREACHABLE) if isinstance(fault, kind)), OTHER[1]
            )
            self.service.leads = f"unavailable: {words}"
            raise
        self.service.leads = LEADS_TAKEN

    async def _record_heads(self) -> None:
        dealer_id = self.service.dealer.profile.id
        await asyncio.to_thread(record_heads, self.store, dealer_id, self.heads_file, datetime.now(UTC))

    async def _purge(self) -> None:
        dealer, now = self.service.dealer.profile, datetime.now(UTC)
        await asyncio.to_thread(purge_by_age, self.store, dealer, now)
        done = await asyncio.to_thread(dispose_by_age, self.store, dealer, now)
        if any(done):
            log.info("old customer data forgotten", leads=done.leads, consents=done.consents)

    async def _change_keys(self) -> None:
        for news in await asyncio.to_thread(self.change_keys, datetime.now(UTC)):
            (log.warning if news.is_problem else log.info)(news.event, **news.facts)


async def flush_logs(lines: BufferedLines) -> None:
    """Writes buffered log lines a few times a second, and the counts of each interval, until it is cancelled."""
    while True:
        for _ in range(round(INTERVAL_SECONDS / FLUSH_SECONDS)):
            await asyncio.sleep(FLUSH_SECONDS)
            lines.flush()
        end_interval()
