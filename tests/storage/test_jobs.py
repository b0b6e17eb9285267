"""The table of jobs: one process has a job, until its lease ends."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select
from tests.installation.platform import add, make_installation
from tests.soak import sqlite_first
from tests.storage.calls import write, write_at
from tests.storage.samples import CIPHER, DEALER, MONDAY
from tests.storage.service_role import admin_of, prepared_schema

from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.installation.dealer_registry import set_state
from dealer_agent.storage.jobs import (
    LEASE,
    SETTINGS,
    Job,
    JobKey,
    When,
    add_jobs,
    begin_jobs,
    claim_job,
    find_due_jobs,
    finish_job,
    hold_job,
)
from dealer_agent.storage.schema import jobs
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("background work")

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LONGEST = timedelta(days=8)


def add_at(at: datetime, store: Store, *subjects: str) -> None:
    write_at(at, store, DEALER, add_jobs, "feed", subjects)


def claim(store: Store, at: datetime, subject: str = "main", when: When = "due") -> Job | None:
    return write_at(at, store, DEALER, claim_job, "feed", subject, LONGEST, when)


def claimed(store: Store, at: datetime = MONDAY, when: When = "due") -> Job:
    job = claim(store, at, when=when)
    assert job is not None
    return job


def due(store: Store, at: datetime) -> list[str]:
    with store.read(DEALER) as tx:
        return [key.subject for key in find_due_jobs(tx, at, "feed", LONGEST, 9, 9)]


def test_a_job_is_done_once_and_then_waits_for_its_next_time(store: Store) -> None:
    add_at(MONDAY, store, "main", "other")
    assert due(store, MONDAY) == ["main", "other"]
    job = claimed(store)
    assert (job.attempts, job.is_due, job.result) == (1, True, None)
    assert due(store, MONDAY) == ["other"]
    write_at(MONDAY, store, DEALER, finish_job, job, MONDAY + HOUR, 0, "2026-03")
    assert claim(store, MONDAY + HOUR / 2) is None
    again = claimed(store, MONDAY + HOUR)
    assert (again.attempts, again.result) == (1, "2026-03")
    write_at(MONDAY + HOUR, store, DEALER, finish_job, again, None, 0, None)
    assert claim(store, MONDAY + 9 * HOUR, when="now") is None, "it is gone"


@sqlite_first()
def test_a_process_without_the_lease_keeps_and_finishes_nothing(store: Store) -> None:
    add_at(MONDAY, store, "main")
    first = claimed(store)
    write_at(MONDAY + LEASE / 2, store, DEALER, hold_job, first)
    assert claim(store, MONDAY + LEASE) is None
    later = MONDAY + LEASE * 1.5
    second = claimed(store, later)
    assert second.attempts == 2
    with pytest.raises(LeaseLost, match="the job ridgeline feed main"):
        write_at(later, store, DEALER, hold_job, first)
    write_at(later, store, DEALER, finish_job, first, None, 0, None)
    write_at(later, store, DEALER, hold_job, second)


@sqlite_first()
def test_a_job_is_done_early_on_request_and_by_itself_only_if_it_did_not_fail(store: Store) -> None:
    add_at(MONDAY, store, "main")
    write_at(MONDAY, store, DEALER, finish_job, claimed(store), MONDAY + HOUR, 0, None)
    early = claimed(store, when="unless it failed")
    assert not early.is_due
    assert claimed(store, MONDAY + LEASE, "unless it failed").attempts == 2, "its process died"
    job = claimed(store, MONDAY + 2 * LEASE, "now")
    write_at(MONDAY, store, DEALER, finish_job, job, MONDAY + HOUR, job.attempts, None)
    assert claim(store, MONDAY + 2 * LEASE, when="unless it failed") is None
    assert claim(store, MONDAY + 2 * LEASE, when="now") is not None


@sqlite_first()
def test_a_time_that_a_wrong_clock_wrote_does_not_last(store: Store) -> None:
    future = MONDAY + timedelta(days=3650)
    add_at(future, store, "main")
    job = claimed(store, future)
    assert due(store, MONDAY) == ["main"]
    write_at(MONDAY, store, DEALER, finish_job, job, future, 0, None)
    assert (due(store, MONDAY), due(store, future - LONGEST)) == (["main"], [])
    assert claimed(store).is_due


def test_a_job_that_is_added_again_begins_anew_and_one_of_a_start_goes_on(store: Store) -> None:
    add_at(MONDAY, store, "main")
    write_at(MONDAY, store, DEALER, begin_jobs, ["heads"])
    for kind, subject in (("feed", "main"), ("heads", "")):
        assert write_at(MONDAY, store, DEALER, claim_job, kind, subject, LONGEST) is not None
    add_at(MONDAY, store, "main")
    write_at(MONDAY, store, DEALER, begin_jobs, ["heads"])
    assert write_at(MONDAY, store, DEALER, claim_job, "feed", "main", LONGEST) is not None
    assert write_at(MONDAY, store, DEALER, claim_job, "heads", "", LONGEST) is None


@sqlite_first()
def test_the_first_jobs_of_many_new_dealers_spread_and_new_settings_make_each_due_now(store: Store) -> None:
    dealers = [f"dealer-{number}" for number in range(40)]
    for dealer_id in dealers:
        write_at(MONDAY, store, dealer_id, begin_jobs, ["heads"], DAY)
    times = [due_at(store, dealer_id) for dealer_id in dealers]
    assert len(set(times)) == len(times)
    assert MONDAY <= min(times) < MONDAY + DAY / 4
    assert MONDAY + DAY * 3 / 4 < max(times) <= MONDAY + DAY
    write_at(MONDAY, store, dealers[0], begin_jobs, ["heads"], DAY)
    assert due_at(store, dealers[0]) == MONDAY


def due_at(store: Store, dealer_id: str) -> datetime:
    with store.read(dealer_id) as tx:
        found: datetime = tx.execute(select(jobs.c.due_at).where(of_dealer(jobs), jobs.c.kind == "heads")).scalar_one()
    return found


def test_of_processes_that_claim_at_once_one_succeeds(store: Store, database_url: str) -> None:
    add_at(MONDAY, store, "main")

    def try_it(_: int) -> bool:
        with Store.open(database_url, CIPHER) as own:
            return claim(own, MONDAY) is not None

    with ThreadPoolExecutor(4) as processes:
        assert sorted(processes.map(try_it, range(8))) == [False] * 7 + [True]


@pytest.fixture(params=["sqlite", "postgresql"])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """An installation with three dealers, of which the last is disabled: for commands, and for the service."""
    with ExitStack() as closing:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing.enter_context(schemas)
        made = make_installation(tmp_path / "installation", env=env)
        for dealer_id in ("north", "south", "west"):
            add(made, dealer_id)
        urls = (admin_of(made.database_url), made.database_url)
        admin, service = (closing.enter_context(Store.open(url, made.cipher, many_dealers=True)) for url in urls)
        write(admin, "west", set_state, enabled=False)
        yield admin, service


def test_the_due_jobs_of_all_enabled_dealers_are_found_and_one_dealer_hides_no_other(
    platform: tuple[Store, Store],
) -> None:
    _, service = platform
    for number, dealer_id in enumerate(("south", "north", "west")):
        with service.write(dealer_id, MONDAY + number * HOUR) as tx:
            add_jobs(tx, "feed", [f"f{each}" for each in range(50)])

    def found(most: int, **options: bool) -> list[JobKey]:
        with service.installation() as tx:
            return find_due_jobs(tx, MONDAY + HOUR, "feed", LONGEST, most, 2, **options)

    of_both = [JobKey(dealer_id, "feed", name) for dealer_id in ("south", "north") for name in ("f0", "f1")]
    assert found(9) == of_both
    assert found(1) == of_both[:1]
    with service.installation() as everything:
        every = find_due_jobs(everything, MONDAY + 2 * HOUR, "feed", LONGEST, 9, 2, of_disabled=True)
    assert {key.dealer_id for key in every} == {"north", "south", "west"}


@sqlite_first("platform")
def test_new_settings_of_a_dealer_add_a_job(platform: tuple[Store, Store]) -> None:
    _, service = platform
    with service.installation() as tx:
        found = find_due_jobs(tx, tx.now, SETTINGS, LONGEST, 9, 1)
    assert [key.dealer_id for key in found] == ["north", "south"]


def test_a_look_reads_the_due_jobs_only_however_many_dealers_there_are(platform: tuple[Store, Store]) -> None:
    _, service = platform
    plan: list[str] = []
    with service.installation() as tx:
        if tx.connection.dialect.name != "sqlite":
            tx.connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # The tables are nearly empty.

        @event.listens_for(tx.connection, "before_cursor_execute")
        def explain(_: Any, cursor: Any, sql: str, values: Any, *__: Any) -> None:
            how = "EXPLAIN QUERY PLAN" if tx.connection.dialect.name == "sqlite" else "EXPLAIN"
            plan.extend(str(step) for step in cursor.execute(f"{how} {sql}", values).fetchall())

        find_due_jobs(tx, MONDAY, "feed", LONGEST, 9, 2)
    assert sum("ix_jobs_kind_due_at" in step for step in plan) == 2, plan
