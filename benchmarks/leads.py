"""Durable leads per second, beside bare durable one-row commits on the same disk."""

import json
import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.http import Figure, free_port, make_dealer, running
from benchmarks.load import measure, post
from dealer_agent.protocol.examples import example_body
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto

SECONDS = 3


def lead_figures() -> list[tuple[str, list[Figure], str]]:
    """Leads of different customers through the service; the peer inserts one row and waits for the disk, in a loop."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        make_dealer(directory)
        port = free_port()
        serve = [sys.executable, "-m", "dealer_agent.cli", "serve", "--dir", folder, "--port", str(port)]
        with running(serve, port, "/readyz"):
            load = measure(port, _leads(), connections=64, seconds=SECONDS)
        bare = _bare_commits(directory / "bare.db")
    figures = [
        Figure("dealer-agent", load.per_second, load.failed, load.p99 / load.p50),
        Figure("bare one-row commits (SQLite)", bare, 0, 0),
    ]
    return [("lead.submit", figures, "64 connections; SQLite, WAL, synchronous FULL")]


def _leads() -> list[bytes]:
    now = datetime.now(UTC)
    made = []
    for number in range(30000):
        body = example_body(SKILL_BY_ID["lead.submit"], proto(), now=now)
        payload = body["message"]["parts"][0]["data"]
        payload["customer"]["email"] = f"customer-{number}@example.com"
        del payload["customer"]["phone"], payload["idempotency_key"]
        made.append(post("/message:send", json.dumps(body).encode()))
    return made


def _bare_commits(path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE lead (id INTEGER PRIMARY KEY, body BLOB)")
    body = b"x" * 1000
    started = time.perf_counter()
    count = 0
    while time.perf_counter() - started < SECONDS:
        connection.execute("INSERT INTO lead (body) VALUES (?)", (body,))
        count += 1
    return count / (time.perf_counter() - started)
