"""What one dealer costs the other dealers of its service: a flood of leads, one of searches, and a locked row.

Two workers serve an installation on PostgreSQL. Requests to the other dealers arrive at a steady rate, first alone,
then beside each of the three. wrk sends the floods. The clients and the database share the cores with the service, so a
figure is compared with that of the other dealers alone, in one run.
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec
import psycopg
from msgspec import Struct
from tests.storage.databases import own_postgresql, with_system_folders
from tests.storage.service_role import prepared_schema

from benchmarks.buyers import MIX, Ask, asks
from benchmarks.lead_requests import LEADS, MOST_LEADS, lead_requests
from benchmarks.many_dealers import prepare, write_installation
from benchmarks.platform_clients import a_client_of_each_worker, load_all, posts
from benchmarks.servers import Server, ask, installation
from benchmarks.steady import Steady, send_steadily
from benchmarks.stock_maker import stock
from benchmarks.wrk import Load, measure, write_requests

WORKERS = 2
UNITS = 50
FLOODED = "flooded"
OTHERS = tuple(f"other-{number}" for number in range(8))
FLOOD_CONNECTIONS = 128
LEAD_RATE = 20
"""Leads a second to all other dealers together."""
SEARCH_RATE = 100
LOCKED_RATE = 10
"""Leads a second to the dealer whose row is locked."""
LEAD, SEARCH = "lead.submit", "inventory.search"
OK = 200


class Beside(Struct, frozen=True):
    """Steady requests of one kind to the other dealers: alone, and beside a flood of this kind to one dealer."""

    what: str
    alone: Steady
    beside: Steady
    flood: Load

    @property
    def ratio(self) -> float:
        """p50 beside the flood, divided by p50 alone."""
        return self.beside.p50 / self.alone.p50


class Locked(Struct, frozen=True):
    """Steady leads to the other dealers while another transaction holds one dealer's row. `own` are those of the locked
    dealer. `ready` is the share of the checks of /readyz that got 200."""

    others: Steady
    own: Steady
    ready: float


class FairnessFigures(Struct, frozen=True):
    """Leads and searches beside a flood, and leads beside a locked row."""

    floods: list[Beside]
    locked: Locked


def fairness_figures(seconds: float, say: Callable[[str], None]) -> FairnessFigures:
    """Measures everything, with a PostgreSQL server of its own."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    with (
        tempfile.TemporaryDirectory() as name,
        own_postgresql() as database,
        prepared_schema(database.url) as (admin_url, service_url),
    ):
        folder = Path(name) / "installation"
        write_installation(folder, snapshot_memory_mib=1024, workers=WORKERS)
        say("dealers are made")
        prepare(folder, admin_url, service_url, dict.fromkeys((FLOODED, *OTHERS), UNITS))
        with _serving(folder, {"DATABASE_URL": service_url}) as server:
            run = _Run(folder, server, admin_url, seconds, say)
            return FairnessFigures(run.floods(), run.locked())


@contextmanager
def _serving(folder: Path, env: Mapping[str, str]) -> Iterator[Server]:
    with installation(folder, WORKERS, env) as server:
        with a_client_of_each_worker(server) as clients:
            load_all(clients, (FLOODED, *OTHERS))
        yield server


@dataclass
class _Run:
    """One running service."""

    folder: Path
    server: Server
    admin_url: str
    seconds: float
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        units = [msgspec.json.decode(listing.json) for listing in stock(UNITS)]
        vins = [unit["vin"] for unit in units if "vin" in unit]
        self._leads = lead_requests(vins, datetime.now(UTC), MOST_LEADS)
        found = (each for each in asks(MIX, units, 4 * LEADS) if each.skill == SEARCH and each.status == OK)
        # A rooftop has another name at each dealer.
        self._searches = (each for each in found if b'"rooftops"' not in each.body)

    def floods(self) -> list[Beside]:
        """Leads, then searches."""
        return [self._beside(LEAD, LEAD_RATE), self._beside(SEARCH, SEARCH_RATE)]

    def locked(self) -> Locked:
        """Leads while the dealer's row is locked, and its own leads arrive."""
        self.say("leads beside a locked row")
        count = round(self.seconds * LOCKED_RATE)
        own = self._requests(LEAD, count, [FLOODED])
        checks: list[bool] = []
        over = threading.Event()

        def check() -> None:
            while not over.wait(0.5):
                checks.append(ask(self.server.port, "GET", "/readyz")[0] == 200)

        with psycopg.connect(self.admin_url) as connection, ThreadPoolExecutor(2) as threads:
            connection.execute("SELECT 1 FROM dealers WHERE dealer_id = %s FOR UPDATE", [FLOODED])
            held = threads.submit(send_steadily, self.server.port, own, LOCKED_RATE)
            checking = threads.submit(check)
            others = self._steady(LEAD, LEAD_RATE)
            over.set()
            checking.result()
            connection.rollback()
            return Locked(others, held.result(), sum(checks) / len(checks))

    def _beside(self, what: str, rate: float) -> Beside:
        self.say(f"{what} alone")
        self._steady(what, rate)  # It only warms up.
        alone = self._steady(what, rate)
        self.say(f"{what} beside a flood of {FLOOD_CONNECTIONS} connections")
        path = self.folder / "requests"
        flood = self._requests(what, LEADS, [FLOODED])
        write_requests(path, flood)
        with ThreadPoolExecutor(1) as threads:
            flooding = threads.submit(
                measure,
                self.server,
                path,
                seconds=self.seconds + 2,
                connections=FLOOD_CONNECTIONS,
                pinned=False,
            )
            time.sleep(1)
            beside = self._steady(what, rate)
            load = flooding.result()
        # At the end of the file, wrk begins again. A lead that was stored would then cost less.
        assert 3 * (load.answered - load.refused) < len(flood) or what != LEAD, f"{len(flood)} leads are too few"
        return Beside(what, alone, beside, load)

    def _steady(self, what: str, rate: float) -> Steady:
        return send_steadily(self.server.port, self._requests(what, round(self.seconds * rate), OTHERS), rate)

    def _requests(self, what: str, count: int, dealers: Sequence[str]) -> list[bytes]:
        """The next requests of this kind, each to the next dealer. Every lead is that of another customer."""
        if what == SEARCH:
            return posts(list(islice(self._searches, count)), dealers)
        bodies = (lead.partition(b"\r\n\r\n")[2] for lead in islice(self._leads, count))
        return posts([Ask(LEAD, LEAD, body) for body in bodies], dealers)
