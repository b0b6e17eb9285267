"""The upkeep of dealers: old data is deleted, heads of event chains are recorded, monthly reports are mailed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.dealers.profile import Profile, erase_before, purge_before
from dealer_agent.encryption import EncryptionError
from dealer_agent.server.chain_heads import HEADS_SECONDS, record_heads, repair_withdrawals
from dealer_agent.server.log import places
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.erasure import dispose, purge
from dealer_agent.storage.errors import StorageError
from dealer_agent.storage.store import Store
from dealer_agent.storage.upkeep import ClaimedUpkeep, DueUpkeep, claim_upkeep, find_due_upkeep, note_recorded_heads

log = structlog.get_logger()

UPKEEP_SECONDS = 3600.0
FIRST_UPKEEP_SECONDS = 5.0
"""A service that restarts every day also deletes old data."""
SECONDS_FOR_EACH = 3.0
"""With more than 1,200 dealers, each one's upkeep is less often than hourly, so that its cost stays bounded."""
SEARCH_SECONDS = 20.0
"""How often a process of an installation looks for dealers whose upkeep is due."""

MOST_MAILING = 4
"""How many monthly reports a process of an installation mails at the same time."""


@dataclass
class Upkeep:
    """The upkeep of one dealer. `send_report` mails the monthly report if it is due."""

    store: Store
    profile: Profile
    heads_file: Path
    send_report: Callable[[], Awaitable[None]]

    async def run(self, steps: RepeatedSteps, rotate_keys: Callable[[datetime], None]) -> None:
        """Repeats the steps until it is cancelled. `rotate_keys` runs the steps of a key rotation that are due."""

        async def rotate_due_keys() -> None:
            await asyncio.to_thread(rotate_keys, datetime.now(UTC))

        await asyncio.gather(
            steps.repeat("purge", self.delete_old_data, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS),
            steps.repeat("heads", self.record_heads, HEADS_SECONDS, first=0),
            steps.repeat("monthly report", self.send_report, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS),
            steps.repeat("key rotation", rotate_due_keys, UPKEEP_SECONDS, first=FIRST_UPKEEP_SECONDS),
        )

    async def delete_old_data(self) -> None:
        """Deletes what is older than the dealer's settings allow."""
        dealer_id, kept, now = self.profile.id, self.profile.privacy, datetime.now(UTC)
        await asyncio.to_thread(partial(purge, self.store, dealer_id, now=now, **purge_before(kept, now)))
        done = await asyncio.to_thread(partial(dispose, self.store, dealer_id, now=now, **erase_before(kept, now)))
        if any(done):
            log.info("old customer data forgotten", leads=done.leads, consents=done.consents)

    async def record_heads(self) -> None:
        """Checks the table of withdrawals, and records the heads of the dealer's event chains outside the database."""
        now = datetime.now(UTC)
        try:
            await asyncio.to_thread(repair_withdrawals, self.store, self.profile, now)
        finally:
            await asyncio.to_thread(record_heads, self.store, self.profile.id, self.heads_file, now)


@dataclass
class UpkeepOfMany:
    """The upkeep of the enabled dealers of an installation, each by one process of all machines at a time.

    `count_dealers` returns their number. `find_upkeep` makes the upkeep of one; it raises StorageError and
    SettingsError. A dealer is not opened for it. `server.installation_keys` rotates the keys.
    """

    store: Store
    count_dealers: Callable[[], int]
    find_upkeep: Callable[[str], Upkeep]
    _failing: set[tuple[str, str]] = field(default_factory=set)
    _may_report: dict[str, Upkeep] = field(default_factory=dict)
    _found: dict[str, tuple[int, Upkeep]] = field(default_factory=dict)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the upkeep of each dealer every `_period` until it is cancelled."""
        await asyncio.gather(
            steps.repeat("upkeep", self.run_due, SEARCH_SECONDS, first=FIRST_UPKEEP_SECONDS),
            steps.repeat("monthly reports", self.send_reports, SEARCH_SECONDS, first=FIRST_UPKEEP_SECONDS),
        )

    @property
    def _period(self) -> float:
        """The seconds from one upkeep of a dealer to the next."""
        return max(UPKEEP_SECONDS, self.count_dealers() * SECONDS_FOR_EACH)

    async def run_due(self) -> None:
        """Runs the upkeep of some dealers: at most twice as many as are due on average, which spreads them."""
        most = 1 + round(2 * self.count_dealers() * SEARCH_SECONDS / self._period)
        for dealer_id, settings_number in await asyncio.to_thread(self._find_due, most):
            await self._unless_it_fails("upkeep failed", dealer_id, self._run_one(dealer_id, settings_number))

    def _find_due(self, most: int) -> list[DueUpkeep]:
        with self.store.installation() as tx:
            return find_due_upkeep(tx, most)

    async def _run_one(self, dealer_id: str, settings_number: int) -> None:
        claimed = await asyncio.to_thread(self._claim, dealer_id)
        if claimed is None:
            return  # Another process has claimed it.
        known, upkeep = self._found.get(dealer_id, (None, None))
        if upkeep is None or known != settings_number:
            upkeep = await asyncio.to_thread(self.find_upkeep, dealer_id)
            self._found[dealer_id] = settings_number, upkeep
        await upkeep.delete_old_data()
        if claimed.heads_at is None or claimed.heads_at + timedelta(seconds=HEADS_SECONDS) <= datetime.now(UTC):
            await upkeep.record_heads()
            await asyncio.to_thread(self._note_heads, dealer_id)
        self._may_report[dealer_id] = upkeep

    async def send_reports(self) -> None:
        """Mails the monthly reports that are due. A slow mail server does not delay the upkeep."""
        upkeeps, self._may_report = self._may_report, {}
        slots = asyncio.Semaphore(MOST_MAILING)

        async def send_one(dealer_id: str, upkeep: Upkeep) -> None:
            async with slots:
                await self._unless_it_fails("monthly report failed", dealer_id, upkeep.send_report())

        await asyncio.gather(*(send_one(*each) for each in upkeeps.items()))

    async def _unless_it_fails(self, event: str, dealer_id: str, work: Awaitable[None]) -> None:
        """Waits for work for one dealer. The first of several failures in a row is logged."""
        try:
            await work
        except Exception as fault:  # noqa: BLE001 - the boundary: one dealer must not stop the work for others.
            if (event, dealer_id) not in self._failing:
                ours = isinstance(fault, StorageError | SettingsError | EncryptionError)
                cause = {"problem": str(fault)} if ours else {"places": places(fault)}
                log.error(event, dealer=dealer_id, error=type(fault).__qualname__, **cause)
            self._failing.add((event, dealer_id))
        else:
            self._failing.discard((event, dealer_id))

    def _claim(self, dealer_id: str) -> ClaimedUpkeep | None:
        with self.store.write(dealer_id) as tx:
            return claim_upkeep(tx, tx.now + timedelta(seconds=self._period))

    def _note_heads(self, dealer_id: str) -> None:
        with self.store.write(dealer_id) as tx:
            note_recorded_heads(tx)
