"""Durable leads and their deliveries on both databases, beside bare durable one-row commits on the same disk.

Two workers take leads from wrk on 64 connections, without a channel. Then these leads are delivered to a CRM over
HTTP, without other load. Then leads arrive at a steady rate and are delivered. Last, wrk sends leads again while they
are delivered. Processor time is that of all processes of the service. That of the PostgreSQL server is reported
separately. wrk and the CRM share the cores with them.
"""

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct
from tests.storage.calls import at_time, list_leads, read

from benchmarks.databases import DatabaseKind, OpenDatabase, both
from benchmarks.dealership import feed_units, make_dealer, write_settings
from benchmarks.lead_requests import LEADS, lead_requests
from benchmarks.peers.sdk_dealer import DEALER_FILE, STOCK_FILE
from benchmarks.servers import Server, ask, dealer_agent, peer
from benchmarks.steady import Steady, send_steadily
from benchmarks.wire import write_stock
from benchmarks.wrk import Load, measure, median_load, write_requests
from dealer_agent.config import Settings, load_settings
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.storage.deliveries.outbox import enqueue
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

CONNECTIONS = 64
WORKERS = 2
VEHICLES = 1_000
STEADY_RATE = 100
"""Leads a second."""
DELIVERIES = 2_000
"""The largest number of deliveries without other load."""
PATIENCE_SECONDS = 120
BARE = "bare one-row commits"
CHANNEL = "crm"
CRM_CHANNEL = f"""[[rooftops.deliver.http]]
name = "{CHANNEL}"
url = "http://127.0.0.1:%d/leads"
"""


class Deliveries(Struct, frozen=True):
    """Deliveries without other load: the number per second, and microseconds of processor time each, of the service
    and of the database."""

    per_second: float
    cpu: float
    database_cpu: float


class Arrivals(Struct, frozen=True):
    """Leads that arrived at a steady rate for some seconds, with their deliveries: how many had arrived when the
    last lead was answered, and how many seconds later the last one arrived. Microseconds of processor time are
    those of a lead together with its delivery."""

    leads: Steady
    seconds: float
    arrived: int
    behind: float
    cpu: float
    database_cpu: float

    @property
    def per_second(self) -> float:
        """Deliveries per second while leads arrived."""
        return self.arrived / self.seconds

    @property
    def share(self) -> float:
        """The share of the deliveries that had arrived when the last lead was answered."""
        return self.arrived / self.leads.answered


class DatabaseFigures(Struct, frozen=True):
    """One database: bare commits; leads without a channel, with their rate relative to bare commits as `of_bare`;
    their deliveries; leads at a steady rate; leads at full rate with a channel, and the deliveries per second in
    that time. Microseconds of the database are those of a lead."""

    database: str
    bare: Load
    leads: Load
    of_bare: float
    database_cpu: float
    deliveries: Deliveries
    steady: Arrivals
    beside: Load
    beside_database_cpu: float
    beside_deliveries: float


class LeadFigures(Struct, frozen=True):
    """The databases, and the SDK's dealer, which keeps leads in memory only."""

    databases: list[DatabaseFigures]
    sdk: Load


def lead_figures(rounds: int, seconds: float, progress: Callable[[str], None]) -> LeadFigures:
    """Leads of different customers. A third of them ask for a visit, and every lead has an idempotency key.

    Raises AssertionError when a confirmed lead is not stored or not delivered.
    """
    found: dict[str, list[DatabaseFigures]] = {}
    sdk: list[Load] = []
    vins = [unit["vin"] for unit in feed_units(VEHICLES) if "vin" in unit]
    requests = list(lead_requests(vins, datetime.now(UTC)))
    with both() as kinds:
        for number in range(1, rounds + 1):
            for kind in kinds:
                with tempfile.TemporaryDirectory() as folder, kind.opened(Path(folder)) as database:
                    progress(f"round {number}: {kind.name}")
                    one = _Round(Path(folder), kind, database, requests, seconds)
                    found.setdefault(kind.name, []).append(one.figures())
                    if kind is kinds[0]:
                        progress(f"round {number}: the SDK's dealer")
                        sdk.append(one.kept_by_sdk())
    return LeadFigures([_middle(turns) for turns in found.values()], median_load(sdk))


def _middle(turns: Iterable[Any]) -> Any:
    """The median of every figure over the rounds."""
    first, *_ = turns = list(turns)
    if isinstance(first, Load):
        return median_load(turns)
    if isinstance(first, Struct):
        names = first.__struct_fields__
        return type(first)(**{name: _middle(getattr(turn, name) for turn in turns) for name in names})
    return first if isinstance(first, str) else median(turns)


@dataclass(frozen=True)
class _Round:
    """One round with a new dealer."""

    folder: Path
    kind: DatabaseKind
    database: OpenDatabase
    requests: list[bytes]
    seconds: float

    def figures(self) -> DatabaseFigures:
        bare = self.kind.bare_commits(self.folder, min(self.seconds, 2))
        make_dealer(self.folder, VEHICLES, self.database.env)
        write_settings(self.folder, "")
        third = LEADS // 3
        with self._service() as server:
            write_stock(server, self.folder)
            leads, database_cpu = self._load(server, self.requests[:third])
        stored = self._stored()
        # A visit at an occupied time is refused, but its lead is stored.
        assert stored >= leads.answered, f"{leads.answered} leads were answered, {stored} stored"
        with peer("crm", pinned=False) as crm:
            write_settings(self.folder, CRM_CHANNEL % crm.port)
            waiting = self._enqueue()
            with self._service() as server:
                deliveries = self._delivered(server, crm, waiting)
                steady = self._steady(server, crm, self.requests[third : 2 * third])
                before, started = _taken_by(crm), time.perf_counter()
                beside, beside_database_cpu = self._load(server, self.requests[2 * third :])
                beside_deliveries = (_taken_by(crm) - before) / (time.perf_counter() - started)
        return DatabaseFigures(
            database=self.kind.name,
            bare=bare,
            leads=leads,
            of_bare=leads.per_second / bare.per_second,
            database_cpu=database_cpu,
            deliveries=deliveries,
            steady=steady,
            beside=beside,
            beside_database_cpu=beside_database_cpu,
            beside_deliveries=beside_deliveries,
        )

    def kept_by_sdk(self) -> Load:
        """The same leads, sent to the peer, which checks them and appends them to a list."""
        env = {STOCK_FILE: str(self.folder / "stock.json"), DEALER_FILE: str(self.folder / "dealer.json")}
        write_requests(self.folder / "requests", self.requests[: LEADS // 3])
        with peer("sdk_dealer", env) as server:
            load = measure(server, self.folder / "requests", seconds=self.seconds, connections=CONNECTIONS)
        assert not load.refused, f"{load.refused} leads were refused"
        return load

    def _service(self) -> Any:
        return dealer_agent(self.folder, WORKERS, pinned=False, env=self.database.env)

    def _settings(self) -> Settings:
        return load_settings(self.folder, self.database.env)

    def _load(self, server: Server, requests: list[bytes]) -> tuple[Load, float]:
        """Leads at full rate, and microseconds of the database for each lead."""
        path = self.folder / "requests"
        write_requests(path, requests)
        before = self.database.cpu_seconds()
        load = measure(server, path, seconds=self.seconds, connections=CONNECTIONS, pinned=False)
        used = self.database.cpu_seconds() - before
        assert load.answered < len(requests), f"{load.answered} leads were answered: {len(requests)} are too few"
        return load, used / load.answered * 1e6

    def _stored(self) -> int:
        settings = self._settings()
        with Store.open(settings.database_url, settings.cipher) as store:
            return len(read(store, settings.dealer.id, list_leads, LEADS))

    def _enqueue(self) -> int:
        """Delivers the stored leads to the CRM. Returns their number."""
        settings = self._settings()
        dealer_id = settings.dealer.id
        with Store.open(settings.database_url, settings.cipher) as store:
            leads = read(store, dealer_id, list_leads, DELIVERIES)
            writer = store.lead_writer()

            def job(tx: Transaction) -> None:
                for lead in leads:
                    enqueue(at_time(tx, datetime.now(UTC)), lead.lead_id, [NewDelivery("lead", lead.rooftop, CHANNEL)])

            writer.submit(dealer_id, job).result()
            writer.close()
        return len(leads)

    def _delivered(self, server: Server, crm: Server, waiting: int) -> Deliveries:
        """Measures after a tenth has arrived: then all workers have started."""
        first = _wait_for(crm, waiting // 10)
        started, cpu, database_cpu = time.perf_counter(), server.cpu_seconds()[0], self.database.cpu_seconds()
        count = _wait_for(crm, waiting) - first
        elapsed = time.perf_counter() - started
        used, database_used = server.cpu_seconds()[0] - cpu, self.database.cpu_seconds() - database_cpu
        return Deliveries(count / elapsed, used / count * 1e6, database_used / count * 1e6)

    def _steady(self, server: Server, crm: Server, requests: list[bytes]) -> Arrivals:
        before = _taken_by(crm)
        started, cpu, database_cpu = time.perf_counter(), server.cpu_seconds()[0], self.database.cpu_seconds()
        count = round(STEADY_RATE * self.seconds)
        leads = send_steadily(server.port, requests[:count], STEADY_RATE)
        elapsed, arrived = time.perf_counter() - started, _taken_by(crm) - before
        _wait_for(crm, before + count - leads.refused)
        behind = time.perf_counter() - started - elapsed
        used, database_used = server.cpu_seconds()[0] - cpu, self.database.cpu_seconds() - database_cpu
        return Arrivals(leads, elapsed, arrived, behind, used / count * 1e6, database_used / count * 1e6)


def _taken_by(crm: Server) -> int:
    return int(ask(crm.port, "GET", "/")[1])


def _wait_for(crm: Server, count: int) -> int:
    """Waits until so many leads arrived. Returns how many there are then."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while (taken := _taken_by(crm)) < count:
        assert time.monotonic() < ends, f"{taken} of {count} leads arrived"
        time.sleep(0.02)
    return taken
