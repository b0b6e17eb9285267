"""A locked database and a full disk: leads are refused in time, everything else is served, and /readyz answers 503."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.acceptance.asking import answer, ask, asked, error_payload, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, eventually, serving, start
from tests.servers.small_disk import fill, small_disk
from tests.storage.calls import list_leads, read

from dealer_agent.config import load_settings
from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.store import Store

ONE_SECOND = "\n[service]\nrequest_timeout_seconds = 1\n"
LOCK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_file(folder: Path) -> Iterator[None]:
    """Another process has the write lock of the SQLite file."""
    words = [sys.executable, "-c", LOCK, str(folder / "dealer-agent.db")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        yield
        process.kill()


@contextmanager
def locked_by(url: str, *statements: str) -> Iterator[None]:
    """Another connection to PostgreSQL holds what these statements lock."""
    plain = parsed_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield
        connection.rollback()


def readiness(running: Running) -> tuple[int, dict[str, Any]]:
    got = httpx.get(f"{running.url}/readyz", timeout=120, verify=False)
    return got.status_code, got.json()


def leads_are(running: Running, words: str) -> bool:
    status, told = readiness(running)
    ready = told["leads"] == "available"
    assert (status, told["status"]) == ((200, "ready") if ready else (503, "leads cannot be stored"))
    assert told["vehicles"] == 3
    return str(told["leads"]).startswith(words)


def received(running: Running, sent: dict[str, Any]) -> dict[str, Any]:
    """The response to a lead with a key, once it is stored: on a loaded machine that may take more than ONE_SECOND."""

    def taken() -> dict[str, Any] | None:
        got = ask(running.url, "lead.submit", **sent)
        return answer(got, "lead.submit") if got.status_code == 200 else None

    told: dict[str, Any] = eventually("the lead is stored", taken)
    assert told["status"] == "received"
    return told


def stored(folder: Path, **environment: str) -> list[str]:
    """The customers of all leads, from the newest to the oldest."""
    settings = load_settings(folder, environment)
    with Store.open(settings.database_url, settings.cipher) as store:
        return [
            json.loads(each.customer)["last_name"]
            for each in read(store, "acceptance", list_leads, 100)
            if each.customer
        ]


def refused_in_time(running: Running) -> None:
    """Leads that are sent while the lock is held get their answer while it is still held."""
    with ThreadPoolExecutor(9) as senders:
        keyed = {"idempotency_key": "key-0"}
        sent = [
            senders.submit(ask, running.url, "lead.submit", **lead(n, **(keyed if n == 0 else {}))) for n in range(9)
        ]
        refused = [each.result(120) for each in sent]
    for each in refused:
        payload = error_payload(each)
        assert (each.status_code, payload["code"], payload["retryable"]) == (500, "INTERNAL_ERROR", True)
        assert "was not stored" in payload["message"]
        for inside in ("sqlite", "psycopg", ".py", "SELECT"):
            assert inside not in each.text
    eventually("it says that leads cannot be taken", lambda: leads_are(running, "unavailable: the database is busy"))
    assert asked(running.url, "inventory.search")["total"] == 3


def taken_again(running: Running, folder: Path, **environment: str) -> None:
    """None of the refused leads is stored; each can be sent again, with and without a key."""
    eventually("it says that leads are taken", lambda: leads_are(running, "available"))
    received(running, lead(100, idempotency_key="key-100"))
    assert stored(folder, **environment) == ["Example100"]
    again = lead(0, idempotency_key="key-0")
    assert received(running, again) == received(running, again)
    received(running, lead(1, idempotency_key="key-1"))
    assert sorted(stored(folder, **environment)) == ["Example0", "Example1", "Example100"]


@pytest.mark.requirement("refused-in-time", "readiness")
def test_a_locked_sqlite_file_refuses_leads_in_time_and_stores_none_of_them_later(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store", ONE_SECOND)
    with serving(folder) as running:
        with locked_file(folder):
            refused_in_time(running)
        taken_again(running, folder)


@pytest.mark.soak
@pytest.mark.requirement("refused-in-time", "readiness")
def test_a_locked_dealer_on_postgresql_refuses_leads_in_time_and_stores_none_of_them_later(
    tmp_path: Path, postgresql_url: str
) -> None:
    folder = stocked_dealer(tmp_path / "store", ONE_SECOND, DATABASE_URL=postgresql_url)
    with serving(folder, DATABASE_URL=postgresql_url) as running:
        row = "INSERT INTO dealers (dealer_id) VALUES ('acceptance') ON CONFLICT DO NOTHING"
        with locked_by(postgresql_url, row, "SELECT * FROM dealers FOR UPDATE"):
            refused_in_time(running)
        taken_again(running, folder, DATABASE_URL=postgresql_url)


@pytest.mark.requirement("refused-in-time")
def test_a_lead_that_is_being_stored_is_waited_for_and_a_retry_with_its_key_finds_it(
    tmp_path: Path, postgresql_url: str
) -> None:
    """The lead has its dealer's lock and waits for a table: it can be cancelled no more."""
    folder = stocked_dealer(tmp_path / "store", ONE_SECOND, DATABASE_URL=postgresql_url)
    keyed = lead(1, idempotency_key="key-1")
    with serving(folder, DATABASE_URL=postgresql_url) as running:
        with locked_by(postgresql_url, "LOCK TABLE leads IN ACCESS EXCLUSIVE MODE"):

            def is_being_stored() -> bool:
                """False if the lead was refused before it had its dealer's lock, as on a loaded machine."""
                refused = ask(running.url, "lead.submit", **keyed)
                payload = error_payload(refused)
                assert (refused.status_code, payload["code"], payload["retryable"]) == (500, "INTERNAL_ERROR", True)
                return "may have been stored" in payload["message"] and "idempotency_key" in payload["message"]

            eventually("it is being stored", is_being_stored)
        eventually("it is stored", lambda: stored(folder, DATABASE_URL=postgresql_url) == ["Example1"])
        received(running, keyed)
        assert stored(folder, DATABASE_URL=postgresql_url) == ["Example1"]


@pytest.mark.requirement("refused-in-time", "readiness")
def test_on_a_full_disk_leads_are_refused_and_are_taken_again_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as disk:
        # The log is on the same disk, as in the folder of a dealer who arranged nothing else.
        running = start(stocked_dealer(disk / "store", ONE_SECOND))
        try:
            received(running, lead(1, idempotency_key="key-1"))
            fill(disk / "filler")
            eventually("it says that the disk is full", lambda: leads_are(running, "unavailable: the disk"))
            answers = [ask(running.url, "lead.submit", **lead(n, message="x" * 4000)) for n in range(2, 60)]
            # The first ones may fit into the room that the database has left in its own files.
            refused = [each for each in answers if each.status_code != 200]
            assert refused
            assert {(error_payload(each)["code"], each.status_code) for each in refused} == {("INTERNAL_ERROR", 500)}
            assert asked(running.url, "inventory.search")["total"] == 3
            assert leads_are(running, "unavailable: the disk")
            (disk / "filler").unlink()
            eventually("it says that leads are taken", lambda: leads_are(running, "available"))
            received(running, lead(99, idempotency_key="key-99"))
            assert len(stored(disk / "store")) == 60 - len(refused)
            eventually("the log goes on", lambda: '"event":"refresh works again"' in running.stderr())
        finally:
            running.kill_all()
