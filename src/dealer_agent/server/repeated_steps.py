"""Repeats the steps of background work, and logs when one begins to fail and when it works again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from dealer_agent.catalogue_loading.snapshot_loader import SnapshotError
from dealer_agent.encryption import EncryptionError
from dealer_agent.server.log import code_positions
from dealer_agent.storage.errors import StorageError

log = structlog.get_logger()

RETRY_SECONDS = 30.0
"""The longest wait before a failed step is repeated."""


@dataclass
class RepeatedSteps:
    """The background work of a process. `failing` has the names of the steps whose last attempt failed."""

    failing: set[str] = field(default_factory=set)
    on_change: Callable[[], None] = lambda: None
    """Called when a step begins to fail, and when it works again."""

    async def repeat(
        self,
        name: str,
        step: Callable[[], Awaitable[None]],
        seconds: float,
        *,
        first: float | None = None,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Repeats a step until it is cancelled. `first` is the wait before the first time. `wait` may return early."""
        pause = seconds if first is None else first
        while True:
            await wait(pause)
            pause = seconds
            try:
                await step()
            except Exception as error:  # noqa: BLE001 - the boundary: logged, and tried again.
                if name not in self.failing:
                    # The message of another package's exception may contain data of a customer.
                    ours = isinstance(error, StorageError | EncryptionError | SnapshotError)
                    cause = {"problem": str(error)} if ours else {"places": code_positions(error)}
                    log.error("refresh failed", what=name, error=type(error).__qualname__, **cause)
                    self.failing.add(name)
                    self.on_change()
                pause = min(seconds, RETRY_SECONDS)
            else:
                if name in self.failing:
                    log.info("refresh works again", what=name)
                    self.failing.discard(name)
                    self.on_change()
