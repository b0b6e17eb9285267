"""The upkeep of a dealer's data: old data is deleted, keys are rotated, and the heads of event chains are recorded."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.retention import erase_before, purge_before
from dealer_agent.server.chain_heads import HEADS_SECONDS, record_heads
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.erasure import dispose
from dealer_agent.storage.retention import purge
from dealer_agent.storage.store import Store

log = structlog.get_logger()

UPKEEP_SECONDS = 3600.0
FIRST_UPKEEP_SECONDS = 5.0
"""A service that restarts every day also deletes old data."""


@dataclass
class Upkeep:
    """The upkeep of one dealer. `rotate_keys` runs the steps of a key rotation that are due."""

    store: Store
    profile: Profile
    heads_file: Path
    rotate_keys: Callable[[datetime], None]

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the steps until it is cancelled."""
        await asyncio.gather(
            steps.repeat("purge", self.delete_old_data, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS),
            steps.repeat("heads", self.record_heads, HEADS_SECONDS, first=0),
            steps.repeat("key rotation", self.rotate_due_keys, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS),
        )

    async def delete_old_data(self) -> None:
        """Deletes what is older than the dealer's settings allow."""
        dealer, now = self.profile, datetime.now(UTC)
        await asyncio.to_thread(partial(purge, self.store, dealer.id, now=now, **purge_before(dealer, now)))
        done = await asyncio.to_thread(partial(dispose, self.store, dealer.id, now=now, **erase_before(dealer, now)))
        if any(done):
            log.info("old customer data forgotten", leads=done.leads, consents=done.consents)

    async def record_heads(self) -> None:
        """Records the heads of the dealer's event chains outside the database."""
        await asyncio.to_thread(record_heads, self.store, self.profile.id, self.heads_file, datetime.now(UTC))

    async def rotate_due_keys(self) -> None:
        """Runs the steps of a key rotation that are due, and logs their events."""
        await asyncio.to_thread(self.rotate_keys, datetime.now(UTC))
