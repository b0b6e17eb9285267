"""Many dealers in one service, on PostgreSQL with a role that owns nothing.

The service runs with two workers. Clients, imports and the database share the machine with it, so latencies depend on
the load of the machine: the same load is measured with and without the other work, in one run. The cost of a request
is compared as processor time.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct
from tests.storage.databases import fresh_schema, own_postgresql, with_system_folders
from tests.storage.service_role import admin_of, prepared_schema

from benchmarks.answers import check_refusals
from benchmarks.buyers import MIX, Ask, asks
from benchmarks.imports import make_dealer, measured, write_feed
from benchmarks.many_dealers import (
    COLD,
    USUAL,
    Dealers,
    Prepared,
    dealer_document,
    dealers_of,
    prepare,
    write_installation,
)
from benchmarks.platform_clients import (
    WorkerClient,
    a_client_of_each_worker,
    first_answers,
    load_all,
    median_and_p99,
    posts,
)
from benchmarks.servers import Server, allow_open_files, cpu_seconds, installation
from benchmarks.steady import Steady, send_steadily
from benchmarks.stock_maker import stock
from benchmarks.wrk import Load, measure, median_load, write_requests
from dealer_agent.config.installation import load_installation
from dealer_agent.storage.installation.dealer_registry import add_dealer, change_settings, set_state
from dealer_agent.storage.store import Store

WORKERS = 2
WARM_CONNECTIONS = 8
"""So few that no worker is overloaded and refuses requests, also on a busy machine."""
ROOMY_MIB = 8_192
BUDGET_MIB = 256
WARM_RATE = 50
"""Requests a second to warm dealers while something else happens."""
COLD_PER_SECOND = 5
SECONDS_TO_IMPORT = 20.0
POINTS = 8
"""Points of the curve of memory."""
VISIBLE_SECONDS = 2.0


class Start(Struct, frozen=True):
    """The start of a service with so many dealers: seconds until it is ready, and its processor time until then."""

    dealers: int
    seconds: float
    cpu_seconds: float


class MemoryPoint(Struct, frozen=True):
    """The memory of all processes in MiB when each worker has loaded so many dealers with so many units."""

    dealers: int
    units: int
    mib: float


class Idle(Struct, frozen=True):
    """The share of a core that the service and the database use without requests."""

    service: float
    database: float


class WarmLoad(Struct, frozen=True):
    """The mix of requests spread over so many warm dealers. The ratios are those of one dealer's rate, and of its rate
    by processor time, within a round."""

    dealers: int
    load: Load
    rate_ratio: float
    cpu_ratio: float


class ColdAnswers(Struct, frozen=True):
    """The first answers of so many dealers of this size, in milliseconds, and a steady load to warm dealers without
    and with them."""

    units: int
    dealers: int
    p50: float
    p99: float
    alone: Steady
    beside: Steady


class FedDealers(Struct, frozen=True):
    """A steady load to dealers that no import changes, without and with imports, and one to a dealer that they
    change. Last, the ratio of processor time of a request without imports to that with imports."""

    imports: int
    rows: int
    alone: Steady
    others: Steady
    fed: Steady
    cpu_ratio: float


class LargeImport(Struct, frozen=True):
    """An import of one file into PostgreSQL, with the peak memory of its process in MiB."""

    rows: int
    seconds: float
    peak_memory: float

    @property
    def per_second(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


class Visible(Struct, frozen=True):
    """Changes of one kind: how many, how many of them all workers showed in time, and the longest in seconds."""

    what: str
    times: int
    in_time: int
    longest: float


class PlatformFigures(Struct, frozen=True):
    """All figures of the part. `within_budget` is the largest memory of all processes while each worker answers for
    every dealer with a budget of BUDGET_MIB. `open_files` is the limit of a process, which
    closes dealers if it is too low."""

    prepared: Prepared
    open_files: int
    starts: list[Start]
    memory: list[MemoryPoint]
    further_mib: float
    within_budget: float
    idle: Idle
    warm: list[WarmLoad]
    cold: list[ColdAnswers]
    imports: FedDealers
    large_import: LargeImport
    visible: list[Visible]


class Extent(Struct, frozen=True):
    """How much is measured."""

    dealers: int
    rounds: int
    seconds: float
    changes: int
    import_rows: int


FULL = Extent(dealers=3_500, rounds=3, seconds=5, changes=100, import_rows=1_000_000)
QUICK = Extent(dealers=60, rounds=1, seconds=2, changes=3, import_rows=5_000)
SMALL = 1_000
"""With fewer dealers, everything else is less too."""


def extent_of(dealers: int | None, *, quick: bool) -> Extent:
    """What to measure with so many dealers, by default 3,500, or 60 in a quick run."""
    extent = QUICK if quick else FULL
    if dealers is None:
        return extent
    rows, changes = (
        (extent.import_rows // 10, 30) if dealers < SMALL and not quick else (extent.import_rows, extent.changes)
    )
    return msgspec.structs.replace(extent, dealers=dealers, changes=min(changes, extent.changes), import_rows=rows)


Say = Callable[[str], None]


def platform_figures(extent: Extent, say: Say) -> PlatformFigures:
    """Measures everything, with a PostgreSQL server of its own."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    open_files = allow_open_files()
    with tempfile.TemporaryDirectory() as name, own_postgresql() as server:
        say("one dealer")
        with _prepared(Path(name) / "one", server.url, {"only": USUAL}) as (folder, env, _):
            one = _start(folder, env, 1)
        dealers = dealers_of(extent.dealers)
        say(f"{extent.dealers:,} dealers are made")
        with _prepared(Path(name) / "many", server.url, dealers.sizes()) as (folder, env, prepared):
            run = _Run(folder, env, server.pid, dealers, extent, say)
            starts = [one, _start(folder, env, len(dealers.sizes()))]
            memory, further_mib, idle = run.loaded()
            warm = run.warm()
            figures = PlatformFigures(
                prepared=prepared,
                open_files=open_files,
                starts=starts,
                memory=memory,
                further_mib=further_mib,
                idle=idle,
                within_budget=run.within_budget(),
                warm=warm,
                cold=run.cold(),
                imports=run.imports(),
                visible=run.visible(),
                large_import=_large_import(Path(name), server.url, extent.import_rows, say),
            )
    return figures


@contextmanager
def _prepared(folder: Path, server: str, sizes: dict[str, int]) -> Iterator[tuple[Path, Mapping[str, str], Prepared]]:
    with prepared_schema(server) as (admin_url, service_url):
        write_installation(folder, snapshot_memory_mib=ROOMY_MIB, workers=WORKERS)
        prepared = prepare(folder, admin_url, service_url, sizes)
        yield folder, {"DATABASE_URL": service_url}, prepared


def _start(folder: Path, env: Mapping[str, str], dealers: int) -> Start:
    begun = time.perf_counter()
    with installation(folder, WORKERS, env) as server:
        return Start(dealers, time.perf_counter() - begun, server.cpu_seconds()[0])


@dataclass
class _Run:
    """One installation. Each method starts the service and measures something."""

    folder: Path
    env: Mapping[str, str]
    database: int
    dealers: Dealers
    extent: Extent
    say: Say

    def __post_init__(self) -> None:
        units = [msgspec.json.decode(listing.json) for listing in stock(USUAL)]
        # Every kind of request but those that name a rooftop, which has another name at each dealer.
        self.asked = [ask for ask in asks(MIX, units) if b'"rooftops"' not in ask.body]
        self.warm_ids = list(self.dealers.warm)

    def _serve(self, memory_mib: int = ROOMY_MIB) -> AbstractContextManager[Server]:
        write_installation(self.folder, snapshot_memory_mib=memory_mib, workers=WORKERS)
        return installation(self.folder, WORKERS, self.env)

    def loaded(self) -> tuple[list[MemoryPoint], float, Idle]:
        """Memory by the number of loaded dealers, memory of a further usual dealer, and idle processor time."""
        sizes = self.dealers.sizes()
        further = list(self.dealers.further)
        most = [dealer_id for dealer_id in sizes if dealer_id not in self.dealers.further]
        step = -(-len(most) // POINTS)
        with self._serve() as server, a_client_of_each_worker(server) as clients:
            points = [MemoryPoint(0, 0, server.whole_memory())]
            for begin in range(0, len(most), step):
                self.say(f"each worker loads dealer {begin:,} to {begin + step:,}")
                load_all(clients, most[begin : begin + step])
                done = most[: begin + step]
                units = sum(sizes[dealer_id] for dealer_id in done)
                points.append(MemoryPoint(len(done), units, server.whole_memory()))
            load_all(clients, further)
            further_mib = (server.whole_memory() - points[-1].mib) / len(further)
            self.say("nothing happens")
            time.sleep(5)
            service, database = server.cpu_seconds()[0], cpu_seconds(self.database)[0]
            pause = max(5.0, 4 * self.extent.seconds)
            time.sleep(pause)
            idle = Idle((server.cpu_seconds()[0] - service) / pause, (cpu_seconds(self.database)[0] - database) / pause)
        return points, further_mib, idle

    def within_budget(self) -> float:
        """The largest memory while each worker answers once for each dealer, with a small budget."""
        largest, over = 0.0, threading.Event()
        with self._serve(BUDGET_MIB) as server, a_client_of_each_worker(server) as clients:
            self.say(f"each worker loads each dealer, with {BUDGET_MIB} MiB")

            def watch() -> None:
                nonlocal largest
                while not over.wait(0.5):
                    largest = max(largest, server.whole_memory())

            with ThreadPoolExecutor(1) as threads:
                watching = threads.submit(watch)
                try:
                    load_all(clients, list(self.dealers.sizes()))
                finally:
                    over.set()
                watching.result()
            return max(largest, server.whole_memory())

    def warm(self) -> list[WarmLoad]:
        """The rate by the number of dealers that share the same requests."""
        counts = [1, *(count for count in (10, 100) if count < len(self.warm_ids)), len(self.warm_ids)]
        loads: dict[int, list[Load]] = {count: [] for count in counts}
        with self._serve() as server, a_client_of_each_worker(server) as clients:
            load_all(clients, self.warm_ids)
            for number in range(-1, self.extent.rounds):
                for count in counts:
                    self.say(f"round {number + 1}: requests to {count} warm dealers")
                    load = self._load(server, self.asked, self.warm_ids[:count])
                    # The first round only warms up.
                    if number >= 0:
                        loads[count].append(load)
        rows = []
        for count, found in loads.items():
            pairs = list(zip(found, loads[1], strict=True))
            rate = median(load.per_second / one.per_second for load, one in pairs)
            cpu = median(one.cpu / load.cpu for load, one in pairs)
            rows.append(WarmLoad(count, median_load(found), rate, cpu))
        return rows

    def _load(self, server: Server, asked: Sequence[Ask], dealers: Sequence[str]) -> Load:
        path = self.folder / "requests"
        write_requests(path, posts(asked, dealers))
        load = measure(server, path, seconds=self.extent.seconds, connections=WARM_CONNECTIONS, pinned=False)
        check_refusals(asked, load, WARM_CONNECTIONS)
        return load

    def _steady(self, server: Server, seconds: float, dealers: Sequence[str] | None = None) -> Steady:
        asked = [ask for ask in self.asked if ask.status == 200][: round(WARM_RATE * seconds)]
        return send_steadily(server.port, posts(asked, dealers or self.warm_ids), WARM_RATE)

    def cold(self) -> list[ColdAnswers]:
        """First answers, while warm dealers answer."""
        body = next(ask.body for ask in self.asked if ask.kind == "search")
        rows = []
        for units in COLD:
            cold = self.dealers.cold[units]
            with self._serve() as server, a_client_of_each_worker(server) as clients:
                self.say(f"first answers of dealers with {units:,} units")
                load_all(clients, self.warm_ids)
                seconds = max(4.0, len(cold) / COLD_PER_SECOND)
                alone = self._steady(server, seconds)
                with ThreadPoolExecutor(1) as threads:
                    firsts = threads.submit(first_answers, server.port, cold, body, COLD_PER_SECOND)
                    beside = self._steady(server, seconds)
                    p50, p99 = median_and_p99(firsts.result())
            rows.append(ColdAnswers(units, len(cold), p50, p99, alone, beside))
        return rows

    def imports(self) -> FedDealers:
        """Imports one after the other beside a steady load."""
        fed = list(self.dealers.fed)
        seconds = SECONDS_TO_IMPORT if self.extent.rounds > 1 else 6.0
        with self._serve() as server, a_client_of_each_worker(server) as clients:
            load_all(clients, [*self.warm_ids, *fed])
            self.say("imports beside a steady load")
            alone = self._steady(server, seconds)
            quiet = self._load(server, self.asked, self.warm_ids)
            importing = [sys.executable, "-m", "benchmarks.platform_imports", str(self.folder), *fed]
            with _background(importing, self.env, self.folder / "imports.log") as imported:
                others = self._steady(server, seconds)
                of_fed = self._steady(server, seconds, fed)
                busy = self._load(server, self.asked, self.warm_ids)
                count = imported()
        rows = count * COLD[0]
        return FedDealers(count, rows, alone, others, of_fed, quiet.cpu / busy.cpu)

    def visible(self) -> list[Visible]:
        """Dealers that are added, changed and disabled while the service runs."""
        loaded = load_installation(self.folder, self.env)
        waits: dict[str, list[float]] = {"added": [], "changed": [], "disabled": []}
        with (
            self._serve() as server,
            a_client_of_each_worker(server) as clients,
            Store.open(admin_of(loaded.database_url), loaded.cipher, many_dealers=True) as store,
        ):
            for number in range(self.extent.changes):
                self.say(f"change {number} of {self.extent.changes}")
                dealer_id = f"new-{number:05d}"
                card = f"/d/{dealer_id}/.well-known/agent-card.json"
                document = dealer_document(dealer_id)
                with store.registration(dealer_id) as tx:
                    add_dealer(tx, document, actor="benchmark")
                waits["added"].append(_until(clients, card, lambda status, _: status == 200))
                renamed = document.replace(b'name = "new-', b'name = "renamed-')
                with store.write(dealer_id) as tx:
                    change_settings(tx, renamed, expected=1, actor="benchmark")
                waits["changed"].append(_until(clients, card, lambda _, body: b"renamed-" in body))
                with store.write(dealer_id) as tx:
                    set_state(tx, enabled=False)
                waits["disabled"].append(_until(clients, card, lambda status, _: status == 404))
        return [
            Visible(what, len(found), sum(each <= VISIBLE_SECONDS for each in found), max(found))
            for what, found in waits.items()
        ]


def _until(clients: Sequence[WorkerClient], path: str, is_visible: Callable[[int, bytes], bool]) -> float:
    """Seconds until all workers show a change."""
    begun = time.perf_counter()
    for client in clients:
        while not is_visible(*client.get(path)):
            assert time.perf_counter() - begun < 60, f"{path} is not visible"
            time.sleep(0.02)
    return time.perf_counter() - begun


@contextmanager
def _background(command: list[str], env: Mapping[str, str], log: Path) -> Iterator[Callable[[], int]]:
    """Runs a command that writes a line for each import. Gives a function that counts them since the start of the
    block."""
    with log.open("wb") as lines:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=lines, stderr=lines)
    try:
        ends = time.monotonic() + 120
        while not log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < ends, "no import ended"
            time.sleep(0.05)
        before = log.read_bytes().count(b"\n")
        yield lambda: log.read_bytes().count(b"\n") - before
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait()


def _large_import(folder: Path, server: str, rows: int, say: Say) -> LargeImport:
    say(f"an import of {rows:,} rows into PostgreSQL")
    with fresh_schema(server) as url:
        env = {"DATABASE_URL": url}
        dealer = folder / "large"
        dealer.mkdir(mode=0o700)
        make_dealer(dealer, env)
        feed = folder / "feed.csv"
        write_feed(feed, rows)
        command = [sys.executable, "-m", "dealer_agent.cli", "inventory", "import", str(feed), "--dir", str(dealer)]
        seconds, peak = measured(command, {**os.environ, **env})
    return LargeImport(rows, seconds, peak)
