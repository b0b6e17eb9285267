"""Keeps a process up to date with the store: a new import or token shows within two seconds, without a restart."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from dealer_agent.server.log import FLUSH_SECONDS, BufferedLines
from dealer_agent.server.service import Service
from dealer_agent.server.tokens import TokenBook
from dealer_agent.stock_room import load_stock
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.stock import Revision
from dealer_agent.storage.store import Store

log = structlog.get_logger()

POLL_SECONDS = 0.5
PURGE_EVERY_POLLS = 7200


def load_tokens(store: Store, dealer_id: str) -> TokenBook:
    """The tokens that open the door now. Raises StorageError."""
    return TokenBook((token.token_id, token.token_hash) for token in store.active_token_hashes(dealer_id))


@dataclass
class Refresher:
    """Polls the store's revision and swaps in what changed; `seen` is what the service shows."""

    store: Store
    service: Service
    seen: Revision
    polls: int = 0

    async def run(self) -> None:
        """Polls until it is cancelled. A store that is away is reported once, and the stock at hand stays on show."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                await self._poll()
            except StorageError as problem:
                if self.service.ready:
                    log.error("store away", problem=str(problem))
                self.service.ready = False

    async def _poll(self) -> None:
        dealer_id = self.service.dealer.profile.id
        revision = await asyncio.to_thread(self.store.revision, dealer_id)
        if not self.service.ready:
            log.info("store back")
            self.service.ready = True
        if revision.stock != self.seen.stock:
            await self._refresh_stock()
        if revision.tokens != self.seen.tokens:
            self.service.tokens = await asyncio.to_thread(load_tokens, self.store, dealer_id)
            log.info("tokens refreshed")
            self.seen = self.seen._replace(tokens=revision.tokens)
        self.polls += 1
        if self.polls % PURGE_EVERY_POLLS == 0:
            await asyncio.to_thread(self.store.purge, dealer_id, datetime.now(UTC))

    async def _refresh_stock(self) -> None:
        profile = self.service.dealer.profile
        shown = await asyncio.to_thread(load_stock, self.store, profile, datetime.now(UTC))
        self.service.dealer = self.service.dealer.with_stock(shown.catalogue, shown.at)
        self.seen = self.seen._replace(stock=shown.revision)
        log.info("stock refreshed", revision=shown.revision, vehicles=len(shown.catalogue))


async def flush_logs(lines: BufferedLines) -> None:
    """Writes buffered log lines a few times a second, until it is cancelled."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        lines.flush()
