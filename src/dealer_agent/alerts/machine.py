"""Notes for the alerts what only a running process sees: how many leads failed in it, and if its database works."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from dealer_agent.alerts.checking import Watch
from dealer_agent.alerts.database_away import DatabaseAlert
from dealer_agent.alerts.rules import DAY
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.alerts import check_that_writing_works, count_failed_leads
from dealer_agent.storage.errors import DatabaseFailure, DealerUnknown
from dealer_agent.storage.store import Store

STEP_SECONDS = 20.0
FIRST_STEP_SECONDS = 5.0


@dataclass
class MachineAlerts:
    """`failed_leads` counts the leads that failed in this process, by dealer.

    `watch` is the one with the conditions of the machine; None without receivers.
    """

    store: Store
    failed_leads: Counter[str]
    watch: Watch | None
    _database: DatabaseAlert | None = field(init=False)

    def __post_init__(self) -> None:
        """Prepares the alert about the database, which belongs to the machine."""
        self._database = None if self.watch is None else DatabaseAlert(self.store, self.watch)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the step until it is cancelled."""
        await steps.repeat("alerts", self.step, STEP_SECONDS, first=FIRST_STEP_SECONDS)

    async def step(self) -> None:
        """`note` at the current time."""
        await self.note(datetime.now(UTC))

    async def note(self, now: datetime) -> None:
        """Stores the number of failed leads, and notes whether the database works. Raises StorageError."""
        try:
            await asyncio.to_thread(self._store_counts, now)
        except DatabaseFailure as failure:
            if self._database is not None:
                await self._database.note(now, failure)
            raise
        if self._database is not None:
            await self._database.note(now, None)

    def _store_counts(self, now: datetime) -> None:
        """Stores the number of leads that failed in this process. It stays in memory while the database is away.

        With receivers, it writes even if no lead has failed: a full disk shows only when something is written.
        """
        failed = self.failed_leads
        for dealer_id in list(failed):
            count = failed[dealer_id]
            # Nobody needs the number for a dealer that was removed.
            with suppress(DealerUnknown), self.store.write(dealer_id, now) as tx:
                count_failed_leads(tx, count, DAY)
            failed[dealer_id] -= count
            if not failed[dealer_id]:
                del failed[dealer_id]
        if self.watch is not None:
            with self.store.write(self.watch.owner, now) as tx:
                check_that_writing_works(tx)
