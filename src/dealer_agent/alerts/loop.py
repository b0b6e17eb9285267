"""Repeats the checks of a process: for one dealer, or for the dealers of an installation and its operator."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from dealer_agent.alerts.checking import Watch, run_check, send_due
from dealer_agent.alerts.database_away import DatabaseAlert
from dealer_agent.alerts.rules import DAY
from dealer_agent.config.settings_problems import SettingsError
from dealer_agent.encryption import EncryptionError
from dealer_agent.server.log import places
from dealer_agent.server.repeated_steps import RepeatedSteps
from dealer_agent.storage.alerts import claim_check, count_failed_leads, find_due_checks
from dealer_agent.storage.errors import DatabaseFailure, DealerUnknown, StorageError
from dealer_agent.storage.store import Store

log = structlog.get_logger()

STEP_SECONDS = 20.0
FIRST_STEP_SECONDS = 5.0
CHECK_SECONDS = 60.0
"""How often the conditions of one dealer, and those of the operator, are checked."""
SECONDS_A_DEALER = 0.5
"""Checks of many dealers are spread, so that their cost stays bounded: 1,000 dealers are checked every 8 minutes."""
UNWATCHED_SECONDS = 3600.0
UNWATCHED_SECONDS_A_DEALER = 3.0
"""How soon a dealer without receivers of alerts is looked at again: after an hour, or later with many dealers."""
MOST_SENDING = 32
"""The most dealers whose messages a process sends at the same time. Those of the operator need no place."""


@dataclass
class AlertLoop:
    """The alerts of a process. `failed_leads` counts the leads that failed in it, by dealer.

    `machine` is the watch with the conditions of the machine; None without receivers. `find_watch` makes the watch of a
    dealer of an installation; None without receivers. It raises StorageError and SettingsError.
    """

    store: Store
    failed_leads: Counter[str]
    machine: Watch | None
    find_watch: Callable[[str], Watch | None] | None = None
    count_dealers: Callable[[], int] = lambda: 1
    _found: dict[str, tuple[int, Watch | None]] = field(default_factory=dict)
    _failing: set[str] = field(default_factory=set)
    _sending: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_SENDING))
    _database: DatabaseAlert | None = field(init=False)

    def __post_init__(self) -> None:
        """Prepares the alert about the database, which belongs to the machine."""
        self._database = None if self.machine is None else DatabaseAlert(self.store, self.machine)

    async def run(self, steps: RepeatedSteps) -> None:
        """Repeats the checks until it is cancelled."""
        if self.machine is not None or self.find_watch is not None:
            try:
                await steps.repeat("alerts", self.step, STEP_SECONDS, first=FIRST_STEP_SECONDS)
            finally:
                for task in self._sending.values():
                    task.cancel()

    async def step(self) -> None:
        """Runs what is due now. The messages are sent meanwhile: a receiver that hangs delays no check."""
        await self._run_checks(datetime.now(UTC))

    async def run_due(self, now: datetime) -> None:
        """Runs what is due at `now`, and waits until the messages are sent. Raises StorageError."""
        await self._run_checks(now)
        await asyncio.gather(*self._sending.values())

    async def _run_checks(self, now: datetime) -> None:
        try:
            await asyncio.to_thread(self._store_failed_leads, now)
            if self.machine is not None:
                await self._check(self.machine, now, timedelta(seconds=CHECK_SECONDS))
            if self.find_watch is not None:
                await self._check_dealers(now)
        except DatabaseFailure as failure:
            if self._database is not None:
                await self._database.note(now, failure)
            raise
        if self._database is not None:
            await self._database.note(now, None)

    async def _check(self, watch: Watch, now: datetime, pause: timedelta, longest: timedelta | None = None) -> None:
        if await asyncio.to_thread(run_check, self.store, watch, now, now + pause, longest):
            self._begin_sending(watch, now)

    def _begin_sending(self, watch: Watch, now: datetime) -> None:
        """Sends the due messages of an owner, unless its messages are being sent."""
        if watch.owner not in self._sending:
            task = self._sending[watch.owner] = asyncio.create_task(self._send(watch, now))
            task.add_done_callback(lambda _: self._sending.pop(watch.owner))

    async def _send(self, watch: Watch, now: datetime) -> None:
        begun = time.monotonic()
        async with self._places if watch.is_dealer else nullcontext():
            try:
                await send_due(self.store, watch, now + timedelta(seconds=time.monotonic() - begun))
            except Exception as fault:  # noqa: BLE001 - the boundary of a task that nobody waits for.
                self._note_fault(watch.owner, fault)

    async def _check_dealers(self, now: datetime) -> None:
        dealers = self.count_dealers()
        seconds = max(CHECK_SECONDS, SECONDS_A_DEALER * dealers)
        pause = timedelta(seconds=seconds)
        longest = max(pause, timedelta(seconds=max(UNWATCHED_SECONDS, UNWATCHED_SECONDS_A_DEALER * dealers)))
        most = 1 + round(2 * dealers * STEP_SECONDS / seconds)
        for dealer_id, settings_number in await asyncio.to_thread(self._find_due, now, longest, most):
            try:
                await self._check_dealer(dealer_id, settings_number, now, pause, longest)
            except DatabaseFailure:
                raise
            except Exception as fault:  # noqa: BLE001 - the boundary: one dealer must not stop the alerts of others.
                self._note_fault(dealer_id, fault)
            else:
                self._failing.discard(dealer_id)

    def _note_fault(self, owner: str, fault: Exception) -> None:
        if owner not in self._failing:
            ours = isinstance(fault, StorageError | SettingsError | EncryptionError)
            cause = {"problem": str(fault)} if ours else {"places": places(fault)}
            log.error("alerts failed", dealer=owner, error=type(fault).__qualname__, **cause)
        self._failing.add(owner)

    async def _check_dealer(
        self, dealer_id: str, settings_number: int, now: datetime, pause: timedelta, longest: timedelta
    ) -> None:
        known, watch = self._found.get(dealer_id, (None, None))
        if known != settings_number:
            assert self.find_watch is not None
            try:
                watch = await asyncio.to_thread(self.find_watch, dealer_id)
            except SettingsError:
                await asyncio.to_thread(self._put_off, dealer_id, now, longest)
                raise
            self._found[dealer_id] = settings_number, watch
        if watch is None:
            await asyncio.to_thread(self._put_off, dealer_id, now, longest)
        else:
            await self._check(watch, now, pause, longest)

    def _find_due(self, now: datetime, longest: timedelta, most: int) -> Sequence[tuple[str, int]]:
        with self.store.installation() as tx:
            return find_due_checks(tx, now, longest, most)

    def _put_off(self, dealer_id: str, now: datetime, pause: timedelta) -> None:
        with self.store.write(dealer_id, now) as tx:
            claim_check(tx, now + pause)

    def _store_failed_leads(self, now: datetime) -> None:
        """Stores the leads that failed in this process. They stay in memory while the database is away."""
        failed = self.failed_leads
        for dealer_id in list(failed):
            count = failed[dealer_id]
            # Nobody needs the number for a dealer that was removed.
            with suppress(DealerUnknown), self.store.write(dealer_id, now) as tx:
                count_failed_leads(tx, count, DAY)
            failed[dealer_id] -= count
            if not failed[dealer_id]:
                del failed[dealer_id]
