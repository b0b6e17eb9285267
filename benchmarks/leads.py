"""Durable leads per second, beside bare durable one-row commits on the same disk."""

import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.http import Figure, figure_of, free_port, make_dealer, running
from benchmarks.load import Load, load_of, measure, post
from dealer_agent.config import load_settings
from dealer_agent.protocol.examples import example_body
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto
from dealer_agent.storage.connections import database_url

ROUNDS = 3
SECONDS = 5
CONNECTIONS = 64
LEADS = 10_000
"""More than one round sends: no customer writes twice."""
VISITS = ("test_drive", "sales", "service", "phone_call")


def lead_figures() -> list[tuple[str, list[Figure], str]]:
    """Leads of different customers through the service; the peer inserts one row and waits for the disk, in a loop.

    A third of the customers ask for a visit, every lead has an idempotency key, and everything is delivered as it
    comes, into folders beside the database. Raises AssertionError where a lead that was answered is not stored.
    """
    loads: dict[str, list[Load]] = {"dealer-agent, two workers": [], "dealer-agent, one worker": []}
    bare = []
    for _ in range(ROUNDS):
        for workers, runs in zip((2, 1), loads.values(), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                bare.append(_bare_commits(Path(folder) / "bare.db"))
                runs.append(_taken(Path(folder), workers))
    figures = [figure_of(title, runs) for title, runs in loads.items()]
    figures.append(figure_of("bare one-row commits (SQLite)", bare))
    return [("lead.submit", figures, f"{CONNECTIONS} connections; SQLite, WAL, synchronous FULL")]


def _taken(directory: Path, workers: int) -> Load:
    """One round of a fresh dealer's service."""
    make_dealer(directory)
    port = free_port()
    serve = [sys.executable, "-m", "dealer_agent.cli", "serve", "--dir", str(directory), "--port", str(port)]
    database = str(database_url(load_settings(directory, {}).database_url).database)
    with closing(sqlite3.connect(database)) as connection:
        vins = [vin for (vin,) in connection.execute("SELECT vin FROM units WHERE vin IS NOT NULL")]
        with running([*serve, "--workers", str(workers)], port, "/readyz"):
            load = measure(port, _leads(vins), connections=CONNECTIONS, seconds=SECONDS)
        (stored,) = connection.execute("SELECT count(*) FROM leads").fetchone()
    assert stored >= load.answered - load.failed, f"{load.answered - load.failed} leads were answered, {stored} stored"
    return load


def _leads(vins: list[str]) -> list[bytes]:
    """Requests of as many customers. Every third asks for a visit, each at another time of the coming weeks."""
    now = datetime.now(UTC)
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    made = []
    for number in range(LEADS):
        body = example_body(SKILL_BY_ID["lead.submit"], proto(), now=now, vin=vins[number % len(vins)])
        payload = body["message"]["parts"][0]["data"]
        payload["customer"] |= {"email": f"customer-{number}@example.com", "phone": f"+1202555{number:04d}"}
        payload["idempotency_key"] = f"benchmark-{number}"
        if number % 3:
            del payload["appointment"]
        else:
            # Between nine and four in Chicago, on one of 21 days.
            at = tomorrow + timedelta(days=number // 42 % 21, hours=15, minutes=30 * (number // 3 % 14))
            payload["appointment"] = {
                "appointment_type": VISITS[number // 3 % len(VISITS)],
                "appointment_at": at.isoformat(),
            }
        made.append(post("/message:send", json.dumps(body).encode()))
    return made


def _bare_commits(path: Path) -> Load:
    """One connection that inserts and commits, as durably as the service."""
    waited = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE lead (id INTEGER PRIMARY KEY, body BLOB)")
        body = b"x" * 1000
        started = sent = time.perf_counter()
        while sent - started < SECONDS:
            connection.execute("INSERT INTO lead (body) VALUES (?)", (body,))
            done = time.perf_counter()
            waited.append(done - sent)
            sent = done
    return load_of(waited, sent - started, 0)
