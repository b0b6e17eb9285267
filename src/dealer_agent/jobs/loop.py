"""The loop in every process that does the jobs of the table `storage.jobs` when they are due."""

import asyncio
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog

from dealer_agent.config import SettingsError
from dealer_agent.encryption import EncryptionError
from dealer_agent.storage.errors import DealerUnknown, LeaseLost, StorageError
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import LEASE, Job, JobKey, When, claim_job, find_due_jobs, finish_job, hold_job
from dealer_agent.storage.store import Store

log = structlog.get_logger()

LOOK_SECONDS = 5.0
"""How often a process looks for due jobs."""
MAINTENANCE_SECONDS = 3600.0
SECONDS_FOR_EACH = 3.0
"""With more than 1,200 dealers, each one's maintenance is less often than hourly, so that its cost stays bounded."""
FEW_DEALERS = 100
"""The first jobs of so many dealers cost little, so they need not be spread."""


class JobResult(NamedTuple):
    """The end of a run. The job is due again at `due_at`; None removes it.

    A job that `failed` is due again after the pause of its kind, or at `due_at` if that is sooner. `result` is for the
    next run. `has_new_jobs`: the run has added jobs that are due.
    """

    due_at: datetime | None
    result: str | None = None
    failed: bool = False
    has_new_jobs: bool = False


def pause_after(attempts: int, first: timedelta, longest: timedelta) -> timedelta:
    """The pause after so many failed attempts: it doubles from the first to the longest."""
    # More doublings exceed every longest pause.
    doublings: int = 2 ** min(attempts - 1, 20)
    return min(longest, first * doublings)


def maintenance_period(dealers: int) -> timedelta:
    """The time from one maintenance of a dealer to the next."""
    return timedelta(seconds=max(MAINTENANCE_SECONDS, dealers * SECONDS_FOR_EACH))


def first_jobs_within(dealers: int) -> timedelta:
    """The time over which the first jobs of new dealers are spread. Those of a few dealers are due at once."""
    return timedelta(seconds=dealers * SECONDS_FOR_EACH if dealers > FEW_DEALERS else 0)


@dataclass(frozen=True)
class Kind:
    """A kind of jobs. `run` does one, and may raise any error: then the job failed.

    The pause after a failure doubles from `first_pause` to `longest_pause`. A due time further ahead than
    `longest_wait` was written while the clock was wrong.

    A process does at most `at_once` of them at the same time, and `of_dealer` of one dealer. A dealer gets another only
    while more are free than it has. The jobs of ALL_DEALERS do not count. Every look begins as many as are free, so
    `at_once` also spreads the jobs of many dealers. Disabled dealers have no jobs, unless `of_disabled`. Every dealer
    always has one job of a kind that `is_recurring`.
    """

    name: str
    run: Callable[[Job], Awaitable[JobResult]]
    first_pause: timedelta = timedelta(seconds=30)
    longest_pause: timedelta = timedelta(hours=1)
    longest_wait: timedelta = timedelta(days=8)
    at_once: int = 4
    of_dealer: int = 1
    of_disabled: bool = False
    is_recurring: bool = False


@dataclass
class PollTimer:
    """When a loop polls for work: after a time, or at once after `wake`.

    A poll that fails is logged as `event`, once until one succeeds.
    """

    event: str
    is_failing: bool = False
    _awake: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Ends the wait for the next poll. Call it on the event loop."""
        self._awake.set()

    async def poll(self, begin_due: Callable[[], Awaitable[object]]) -> None:
        """Polls once: `begin_due` begins the work that is due."""
        self._awake.clear()
        try:
            await begin_due()
        except Exception as fault:  # noqa: BLE001 - the boundary: if the loop ended, nothing more would be done.
            if not self.is_failing:
                log.error(self.event, error=type(fault).__qualname__, problem=fault_text(fault))
            self.is_failing = True
        else:
            self.is_failing = False

    async def wait(self, seconds: float) -> None:
        """Waits until the next poll is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._awake.wait()


@dataclass
class JobLoop:
    """The jobs of a process: of one dealer, or of an installation if `dealer_id` is None.

    `begin` stores the jobs that every start makes due, before the first look. `find_more` returns jobs that have
    something to do before they are due, such as files of this machine; those whose last run failed wait. Both run in a
    thread. `clock` is the time.
    """

    store: Store
    kinds: Sequence[Kind]
    dealer_id: str | None = None
    begin: Callable[[], None] | None = None
    find_more: Callable[[], Sequence[JobKey]] = tuple
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _running: dict[JobKey, asyncio.Task[None]] = field(default_factory=dict)
    # The class of the error with which each failing job failed last.
    _failing: dict[JobKey, type[Exception]] = field(default_factory=dict)
    _poll_timer: PollTimer = field(default_factory=lambda: PollTimer("jobs not looked for"))

    async def run(self) -> None:
        """Does jobs until it is cancelled. Then it gives the leases of its jobs back."""
        try:
            while True:
                await self._poll_timer.poll(self.look)
                await self._poll_timer.wait(LOOK_SECONDS)
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def run_due(self) -> None:
        """Does what is due now, and what that makes due. Raises StorageError."""
        while await self.look() or self._running:
            await asyncio.gather(*self._running.values())

    def wake(self) -> None:
        """Looks for due jobs at once. Call it on the event loop."""
        self._poll_timer.wake()

    async def look(self) -> bool:
        """Begins due jobs, and returns whether there was one. Raises StorageError."""
        begun = [self._begin_job(kind, key, when) for kind, key, when in await asyncio.to_thread(self._due_jobs)]
        return any(begun)

    def _due_jobs(self) -> list[tuple[Kind, JobKey, When]]:
        """The jobs that are due now, and those that the process wants to run at once."""
        if self.begin is not None:
            self.begin()
            self.begin = None
        kinds = {kind.name: kind for kind in self.kinds}
        opened = self.store.installation() if self.dealer_id is None else self.store.read(self.dealer_id)
        found: list[tuple[Kind, JobKey, When]] = []
        with opened as tx:
            for kind in self.kinds:
                # More than can begin: up to `at_once` dealers have jobs in progress, and the due jobs of these wait.
                most = kind.at_once * (1 + kind.of_dealer)
                limits = (kind.longest_wait, most, kind.of_dealer)
                keys = find_due_jobs(tx, self.clock(), kind.name, *limits, of_disabled=kind.of_disabled)
                found += [(kind, key, "due") for key in keys]
        return [*found, *((kinds[key.kind], key, "unless it failed") for key in self.find_more())]

    def _begin_job(self, kind: Kind, key: JobKey, when: When) -> bool:
        """Begins a job if there is a place for it."""
        running = Counter(each.dealer_id for each in self._running if each.kind == kind.name)
        used = 0 if key.dealer_id == ALL_DEALERS else running.total() - running[ALL_DEALERS]
        if key in self._running or running[key.dealer_id] >= min(kind.of_dealer, kind.at_once - used):
            return False
        task = self._running[key] = asyncio.create_task(self._run_job(kind, key, when))
        task.add_done_callback(lambda _: self._running.pop(key))
        return True

    async def _run_job(self, kind: Kind, key: JobKey, when: When) -> None:
        """Runs one job. A job that fails again and again is logged once."""
        try:
            done = await run_job(self.store, kind, key, when, self.clock)
            if done is not None and done.has_new_jobs:
                self._poll_timer.wake()
        except (DealerUnknown, LeaseLost):
            pass  # The dealer was removed, or another process has the job.
        except Exception as fault:  # noqa: BLE001 - the boundary: one job must not stop the others.
            if self._failing.get(key) is not type(fault):
                names = {"kind": key.kind, "dealer": key.dealer_id, "subject": key.subject}
                log.error("job failed", **names, error=type(fault).__qualname__, problem=fault_text(fault))
            self._failing[key] = type(fault)
        else:
            self._failing.pop(key, None)


async def run_job(
    store: Store, kind: Kind, key: JobKey, when: When = "now", clock: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> JobResult | None:
    """Does a job and stores when it is due next. None if another process has it, or if `when` excludes it.

    Raises StorageError, and the errors of the kind.
    """
    started, now = time.monotonic(), clock()
    job = await asyncio.to_thread(_claim, store, kind, key, when, now)
    if job is None:
        return None
    renewing = asyncio.create_task(_renew(store, job))
    done: JobResult | None = None
    try:
        done = await kind.run(job)
    except Exception:
        done = JobResult(None, failed=True)
        raise
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        now += timedelta(seconds=time.monotonic() - started)
        await asyncio.to_thread(_finish, store, kind, job, done, now)
    return done


def _claim(store: Store, kind: Kind, key: JobKey, when: When, now: datetime) -> Job | None:
    with store.write(key.dealer_id, now) as tx:
        return claim_job(tx, key.kind, key.subject, kind.longest_wait, when)


async def _renew(store: Store, job: Job) -> None:
    """Renews the lease until it is cancelled or the lease is lost. Then nothing more can be stored."""

    def renew() -> None:
        with store.write(job.dealer_id) as tx:
            hold_job(tx, job)

    while True:
        await asyncio.sleep(LEASE.total_seconds() / 3)
        try:
            await asyncio.to_thread(renew)
        except (LeaseLost, DealerUnknown):
            return
        except StorageError:
            continue  # The lease lasts for two more attempts.


def _finish(store: Store, kind: Kind, job: Job, done: JobResult | None, now: datetime) -> None:
    """Stores the end of a run. None: it was stopped, so another process may do the job at once."""
    if done is None:
        end = JobResult(job.due_at), job.attempts - 1
    elif done.failed:
        again = now + pause_after(job.attempts, kind.first_pause, kind.longest_pause)
        end = done._replace(due_at=min(again, done.due_at or again)), job.attempts
    else:
        end = done, 0
    with store.write(job.dealer_id, now) as tx:
        finish_job(tx, job, end[0].due_at, end[1], end[0].result or job.result)


def fault_text(fault: BaseException) -> str:
    """What the log says about a fault. The message of another package's exception may contain a secret."""
    if isinstance(fault, StorageError | SettingsError | EncryptionError):
        return str(fault)
    frame = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"
