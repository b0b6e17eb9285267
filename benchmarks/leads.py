"""Durable leads per second, beside bare durable one-row commits on the same disk."""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

from msgspec import Struct

from benchmarks.buyers import post
from benchmarks.dealership import make_dealer
from benchmarks.peers.sdk_dealer import DEALER_FILE, STOCK_FILE
from benchmarks.servers import dealer_agent, peer
from benchmarks.wire import SDK, write_stock
from benchmarks.wrk import Load, measure, median_load, write_requests
from dealer_agent.config import load_settings
from dealer_agent.protocol.examples import example_body
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto
from dealer_agent.storage.connections import database_url

CONNECTIONS = 64
VEHICLES = 1_000
AREAS = ("202", "203", "205", "206", "207", "208")
LEADS = 10_000 * len(AREAS)
"""More than one round sends: no customer writes twice."""
VISITS = ("test_drive", "sales", "service", "phone_call")
BARE = "bare one-row commits"


class LeadRow(Struct, frozen=True):
    """One way to store: the medians, and its rate over that of the bare commits of the same round."""

    name: str
    load: Load
    of_bare: float


class LeadFigures(Struct, frozen=True):
    """Leads by two workers and by one; by the SDK's dealer, which keeps them in memory alone; then what the disk does
    for one writer that waits for each row."""

    rows: list[LeadRow]


def lead_figures(rounds: int, seconds: float, progress: Callable[[str], None]) -> LeadFigures:
    """Leads of different customers through the service; the peer inserts one row and waits for the disk, in a loop.

    A third of the customers ask for a visit, every lead has an idempotency key, and everything is delivered as it
    comes, into folders beside the database. Raises AssertionError where a lead that was answered is not stored.
    """
    taken: dict[int, list[Load]] = {2: [], 1: []}
    bare: dict[int, list[Load]] = {2: [], 1: []}
    sdk: list[Load] = []
    for number in range(1, rounds + 1):
        for workers in taken:
            with tempfile.TemporaryDirectory() as folder:
                progress(f"round {number}: {BARE}")
                bare[workers].append(_bare_commits(Path(folder) / "bare.db", min(seconds, 2)))
                progress(f"round {number}: leads, {workers} workers")
                taken[workers].append(_taken(Path(folder), workers, seconds))
                if workers == 1:
                    progress(f"round {number}: leads, {SDK}")
                    sdk.append(_kept_by_sdk(Path(folder), seconds))
    rows = [
        LeadRow(
            f"dealer-agent, {workers} worker{'s' if workers > 1 else ''}",
            median_load(loads),
            median(load.per_second / beside.per_second for load, beside in zip(loads, bare[workers], strict=True)),
        )
        for workers, loads in taken.items()
    ]
    beside = zip(sdk, bare[1], strict=True)
    of_bare = median(load.per_second / commits.per_second for load, commits in beside)
    rows.append(LeadRow(f"{SDK}, in memory", median_load(sdk), of_bare))
    return LeadFigures([*rows, LeadRow(BARE, median_load([*bare[2], *bare[1]]), 1.0)])


def _taken(directory: Path, workers: int, seconds: float) -> Load:
    """One round of a fresh dealer's service; wrk shares the cores with it."""
    make_dealer(directory, VEHICLES)
    database = str(database_url(load_settings(directory, {}).database_url).database)
    with closing(sqlite3.connect(database)) as connection:
        vins = [vin for (vin,) in connection.execute("SELECT vin FROM units WHERE vin IS NOT NULL")]
        write_requests(directory / "requests", leads(vins))
        with dealer_agent(directory, workers, pinned=False) as server:
            write_stock(server, directory)
            load = measure(server, directory / "requests", seconds=seconds, connections=CONNECTIONS, pinned=False)
        (stored,) = connection.execute("SELECT count(*) FROM leads").fetchone()
    assert load.answered < LEADS, f"{load.answered} leads were answered: {LEADS} different ones are too few"
    # A visit at a time that is taken is refused, and its lead stored all the same.
    assert stored >= load.answered, f"{load.answered} leads were answered, {stored} stored"
    return load


def _kept_by_sdk(directory: Path, seconds: float) -> Load:
    """The same leads, sent to the peer, which checks them and keeps them in a list."""
    env = {STOCK_FILE: str(directory / "stock.json"), DEALER_FILE: str(directory / "dealer.json")}
    with peer("sdk_dealer", env) as server:
        load = measure(server, directory / "requests", seconds=seconds, connections=CONNECTIONS)
    assert not load.refused, f"{load.refused} leads were refused"
    return load


def leads(vins: list[str]) -> list[bytes]:
    """Requests of as many customers. Every third asks for a visit, each at another time of the coming weeks."""
    now = datetime.now(UTC)
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    made = []
    for number in range(LEADS):
        body = example_body(SKILL_BY_ID["lead.submit"], proto(), now=now, vin=vins[number % len(vins)])
        payload = body["message"]["parts"][0]["data"]
        payload["customer"]["email"] = f"customer-{number}@example.com"
        payload["customer"]["phone"] = f"+1{AREAS[number // 10_000]}555{number % 10_000:04d}"
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
        made.append(post(json.dumps(body).encode()))
    return made


def _bare_commits(path: Path, seconds: float) -> Load:
    """One connection that inserts and commits, as durably as the service."""
    waited = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE lead (id INTEGER PRIMARY KEY, body BLOB)")
        body = b"x" * 1000
        cpu = time.process_time()
        started = sent = time.perf_counter()
        while sent - started < seconds:
            connection.execute("INSERT INTO lead (body) VALUES (?)", (body,))
            done = time.perf_counter()
            waited.append(done - sent)
            sent = done
    hundredths = quantiles(waited, n=100)
    count = len(waited)
    used = (time.process_time() - cpu) / count * 1e6
    return Load(count / (sent - started), count, 0, 0, hundredths[49] * 1000, hundredths[98] * 1000, used, 0.0)
