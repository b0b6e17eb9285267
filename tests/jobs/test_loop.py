"""The loop that does jobs: each once, all dealers in turn, also after failures, kills and pauses."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forks import FORKS
from tests.installation.platform import add, make_installation
from tests.logs import captured_logs
from tests.storage.calls import read_at, write_at
from tests.storage.samples import CIPHER, DEALER, MONDAY

from dealer_agent.jobs import loop as loops
from dealer_agent.jobs.loop import JobLoop, JobResult, Kind, pause_after, run_job
from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.isolation import ALL_DEALERS
from dealer_agent.storage.jobs import LEASE, Job, JobKey, add_jobs, begin_jobs, claim_job, find_due_jobs, hold_job
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("background work")

HOUR = timedelta(hours=1)
WORK = JobKey(DEALER, "work")
DAY = timedelta(days=1)


def add_work(store: Store, *subjects: str, dealer_id: str = DEALER) -> None:
    write_at(MONDAY, store, dealer_id, add_jobs, "work", subjects or ("",))


def is_due(store: Store, at: datetime) -> bool:
    return bool(read_at(at, store, DEALER, find_due_jobs, at, "work", DAY, 9, 9))


def loop_of(store: Store, run: Callable[[Job], Awaitable[JobResult]], at: datetime = MONDAY) -> JobLoop:
    return JobLoop(store, [Kind("work", run, longest_wait=DAY)], DEALER, clock=lambda: at)


def test_a_job_is_done_when_it_is_due_and_gets_what_its_last_run_left(store: Store) -> None:
    add_work(store)
    results: list[str | None] = []

    async def run(job: Job) -> JobResult:
        results.append(job.result)
        return JobResult(job.now + HOUR, result=f"run {len(results)}")

    for minutes in (0, 30, 60, 61, 120):
        asyncio.run(loop_of(store, run, MONDAY + timedelta(minutes=minutes)).run_due())
    assert results == [None, "run 1", "run 2"]


def test_a_job_that_fails_is_tried_again_later_and_later_and_logged_once(store: Store) -> None:
    add_work(store)
    attempts: list[int] = []

    async def run(job: Job) -> JobResult:
        attempts.append(job.attempts)
        if job.attempts < 4:
            raise ZeroDivisionError
        return JobResult(job.now + HOUR)

    kind = Kind("work", run, timedelta(minutes=10), timedelta(minutes=20), DAY)
    now = [MONDAY]
    loop = JobLoop(store, [kind], DEALER, clock=lambda: now[0])
    with captured_logs() as logged:
        for minutes in (0, 5, 11, 25, 32, 45, 54, 80):
            now[0] = MONDAY + timedelta(minutes=minutes)
            asyncio.run(loop.run_due())
    assert attempts == [1, 2, 3, 4]
    (line,) = logged
    assert (line["event"], line["kind"], line["error"]) == ("job failed", "work", "ZeroDivisionError")
    assert line["problem"].startswith("test_loop.py:")
    assert (is_due(store, MONDAY + 1.8 * HOUR), is_due(store, MONDAY + 2 * HOUR)) == (False, True)


def test_a_job_may_end_and_may_add_others(store: Store) -> None:
    add_work(store)
    done: list[str] = []

    async def run(job: Job) -> JobResult:
        done.append(job.subject)
        if not job.subject:
            add_work(store, "more")
        return JobResult(None, has_new_jobs=not job.subject)

    asyncio.run(loop_of(store, run).run_due())
    assert done == ["", "more"]
    assert not is_due(store, MONDAY + DAY)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_process_that_stops_gives_its_jobs_back(store: Store) -> None:
    add_work(store)
    begun: list[int] = []

    async def run(job: Job) -> JobResult:
        begun.append(job.attempts)
        await asyncio.Event().wait()
        raise AssertionError

    async def stop() -> None:
        before = len(begun)
        running = asyncio.create_task(loop_of(store, run).run())
        await until(lambda: len(begun) > before)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(stop())
    assert is_due(store, MONDAY)
    asyncio.run(stop())
    assert begun == [1, 1], "an attempt that was stopped does not count"


def test_a_look_that_fails_is_logged_once_and_does_not_end_the_loop(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "LOOK_SECONDS", 0.01)
    add_work(store)
    failures, done = [ZeroDivisionError()] * 3, []

    def find_more() -> tuple[JobKey, ...]:
        if failures:
            raise failures.pop()
        return ()

    async def run(_: Job) -> JobResult:
        done.append(1)
        return JobResult(None)

    async def work() -> None:
        kind = Kind("work", run, longest_wait=DAY)
        running = asyncio.create_task(JobLoop(store, [kind], DEALER, find_more=find_more, clock=lambda: MONDAY).run())
        await until(lambda: done)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with captured_logs() as logged:
        asyncio.run(work())
    assert [line["event"] for line in logged] == ["jobs not looked for"]


def test_the_lease_is_renewed_while_the_job_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LEASE", timedelta(0))
    add_work(store)
    renewed: list[str] = []

    def hold(tx: object, job: Job) -> None:
        renewed.append(job.lease)

    monkeypatch.setattr(loops, "hold_job", hold)

    async def run(job: Job) -> JobResult:
        await until(lambda: len(renewed) > 2)
        return JobResult(None)

    asyncio.run(loop_of(store, run).run_due())
    assert len(set(renewed)) == 1


def die_at_work(database_url: str) -> None:
    """A process that is killed while it does a job."""

    async def run(job: Job) -> JobResult:
        os.kill(os.getpid(), signal.SIGKILL)
        return JobResult(None)

    with Store.open(database_url, CIPHER) as own:
        asyncio.run(JobLoop(own, [Kind("work", run)], DEALER).run_due())


def test_after_a_kill_another_process_does_the_job_when_the_lease_ends(store: Store, database_url: str) -> None:
    add_work(store)
    process = FORKS.Process(target=die_at_work, args=(database_url,))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    attempts: list[int] = []

    async def run(job: Job) -> JobResult:
        attempts.append(job.attempts)
        return JobResult(None)

    with store.read(DEALER) as tx:
        now = tx.now
    asyncio.run(loop_of(store, run, now).run_due())
    assert attempts == []
    asyncio.run(loop_of(store, run, now + LEASE).run_due())
    assert attempts == [2]


def test_a_process_that_was_paused_for_longer_than_its_lease_stores_nothing(store: Store) -> None:
    add_work(store)

    async def run(job: Job) -> JobResult:
        # Meanwhile another process has taken the job over.
        other = write_at(MONDAY + LEASE, store, DEALER, claim_job, "work", "", DAY)
        assert other is not None
        with pytest.raises(LeaseLost):
            write_at(MONDAY + LEASE, store, DEALER, hold_job, job)
        return JobResult(None)

    asyncio.run(loop_of(store, run).run_due())
    assert is_due(store, MONDAY + 2 * LEASE), "the job of the other process is there"


def test_a_job_that_another_process_has_is_not_done(store: Store) -> None:
    add_work(store)

    async def run(job: Job) -> JobResult:
        kind = Kind("work", run)
        assert await run_job(store, kind, WORK) is None
        return JobResult(None)

    assert asyncio.run(run_job(store, Kind("work", run), WORK)) == JobResult(None)


def test_dealers_with_many_slow_or_failing_jobs_leave_places_to_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    installation = make_installation(tmp_path_factory.mktemp("platform") / "installation")
    for dealer_id in ("slow", "broken", "zz-last"):
        add(installation, dealer_id)
    with Store.open(installation.database_url, installation.cipher, many_dealers=True) as store:
        for dealer_id in ("slow", "broken"):
            add_work(store, *(f"w{number:02}" for number in range(50)), dealer_id=dealer_id)
        add_work(store, dealer_id="zz-last")
        write_at(MONDAY, store, ALL_DEALERS, begin_jobs, ["work"])
        begun: Counter[str] = Counter()

        async def run(job: Job) -> JobResult:
            begun[job.dealer_id] += 1
            if job.dealer_id == "slow":
                await asyncio.Event().wait()
            if job.dealer_id == "broken":
                raise ZeroDivisionError
            return JobResult(None)

        kind = Kind("work", run, longest_wait=DAY, at_once=8, of_dealer=4)
        loop = JobLoop(store, [kind], clock=lambda: MONDAY)

        async def look() -> None:
            async with asyncio.timeout(120):
                while not (begun["zz-last"] and begun[ALL_DEALERS]):
                    await loop.look()
                    await asyncio.sleep(0.05)
            for task in loop._running.values():
                task.cancel()
            await asyncio.gather(*loop._running.values(), return_exceptions=True)

        asyncio.run(look())
    assert begun["slow"] <= 4


@pytest.mark.parametrize(
    ("attempts", "longest"), [(1, 15), (2, 30), (3, 60), (4, 120), (8, 1920), (9, 3600), (10, 3600), (10_000, 3600)]
)
def test_the_longest_wait_doubles_up_to_the_set_one(attempts: int, longest: int) -> None:
    assert pause_after(attempts, timedelta(seconds=15), timedelta(hours=1)) == timedelta(seconds=longest)


@given(first=st.integers(1, 3600), longest=st.integers(1, 1440), attempts=st.integers(1, 10**6))
def test_the_pause_after_failures_never_exceeds_its_limit(first: int, longest: int, attempts: int) -> None:
    pause = pause_after(attempts, timedelta(seconds=first), timedelta(minutes=longest))
    assert timedelta() <= pause <= timedelta(minutes=longest)
