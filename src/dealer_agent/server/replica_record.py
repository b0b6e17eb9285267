"""Records this machine, its version and its settings in the database, so that `doctor` finds differences."""

import asyncio
import hashlib
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import msgspec
import structlog

from dealer_agent import __version__
from dealer_agent.config.installation import Installation
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.installation.replicas import forget_replica, record_replica
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

log = structlog.get_logger()

RECORD_SECONDS = 300.0
SEEN_WITHIN = timedelta(seconds=3 * RECORD_SECONDS)
"""A machine that was not recorded for longer does not serve any more."""


def machine_name(folder: Path) -> str:
    """The name of this machine and its folder."""
    return f"{socket.gethostname()}:{folder}"


def settings_hash(served: Installation) -> str:
    """A hash of the settings in `dealer.toml` or `installation.toml`, without secrets and paths of this machine."""
    content = served.file if served.only is None else served.only.dealer
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()[:16]


@dataclass(frozen=True)
class ReplicaRecord:
    """The record of this machine. `dealer_id` may be ALL_DEALERS. `forwarded_by` finds a proxy that is not declared.

    `proxy_noticed` is set when one is found: the record is then renewed at once, for `doctor` and the alert.
    """

    store: Store
    dealer_id: str
    machine: str
    settings: str
    forwarded_by: Callable[[], str | None] = lambda: None
    proxy_noticed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, steps: RepeatedSteps) -> None:
        """Renews the record until it is cancelled."""
        await steps.repeat("replica", self._record, RECORD_SECONDS, first=0, wait=self._wait)

    async def end(self) -> None:
        """Deletes the record. If the database does not answer, the record becomes old."""
        try:
            await asyncio.to_thread(self._write, lambda tx: forget_replica(tx, self.machine))
        except StorageError as problem:
            log.info("replica not removed", problem=str(problem))

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.proxy_noticed.wait(), seconds)
        self.proxy_noticed.clear()

    async def _record(self) -> None:
        seen = self.machine, __version__, self.settings, self.forwarded_by()
        await asyncio.to_thread(self._write, lambda tx: record_replica(tx, *seen))

    def _write(self, change: Callable[[Transaction], None]) -> None:
        with self.store.write(self.dealer_id) as tx:
            change(tx)
