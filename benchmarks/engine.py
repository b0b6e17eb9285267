"""How long the catalogue takes without a server, beside DuckDB, SQLite and Polars.

    python -m benchmarks.engine [LISTINGS ...]

All engines have the same listings and get the same questions in turn, each in its own process. A check compares the
totals of their searches. The free text of the others has no synonyms, and only that of SQLite has a rank. DuckDB and
Polars may use every core, the others use one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import questions
from benchmarks.engine_store import make_store
from benchmarks.engine_update import Update, measured_update
from benchmarks.engines import Engine, Make, Open
from benchmarks.questions import Question
from benchmarks.stock_maker import listed, units
from dealer_agent.inventory.listing import listing_json
from dealer_agent.protocol.requests import Filters

SIZES = (1_000, 10_000, 100_000, 1_000_000)
OURS = "dealer-agent"
PEERS = ("SQLite", "DuckDB", "Polars")

_SECONDS = 1.5
"""The longest time for one kind of question. An engine that needs seconds for each gets only a few."""
_MOST = 2_000


@dataclass(frozen=True)
class Latency:
    """The time of an engine for one kind of question in microseconds, and the number of questions."""

    engine: str
    listings: int
    question: str
    p50: float
    p99: float
    asked: int


@dataclass(frozen=True)
class Cost:
    """The cost of an engine. Memory is that of its process in MiB: all of it, and the part that it shares with no
    other.

    `made` is the time in seconds to make the prepared form from the database. `ready` is the time in seconds from the
    start to the first response, when the prepared form exists.
    """

    engine: str
    listings: int
    made: float
    ready: float
    memory: float
    own_memory: float
    on_disk: float


@dataclass(frozen=True)
class EngineFigures:
    """All measurements. The cost curve of our catalogue is among the latencies."""

    latencies: list[Latency]
    costs: list[Cost]
    updates: list[Update]


def engine_figures(sizes: Sequence[int] = SIZES, peers: Sequence[str] = PEERS) -> EngineFigures:
    """Measures all engines at all sizes. A million listings take minutes."""
    figures = EngineFigures([], [], [])
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _alone("fill", size, folder)
            totals: list[list[int]] = []
            for engine in (OURS, *peers):
                made = 0.0
                if engine != OURS:
                    made = _alone("make", size, folder, engine)["seconds"]
                # The first start makes the file that the second one maps.
                started = [_alone("ask", size, folder, engine) for _ in range(2 if engine == OURS else 1)]
                last = started[-1]
                totals.append(last["totals"])
                figures.latencies.extend(msgspec.convert(last["latencies"], list[Latency]))
                made = made or started[0]["ready"]
                memory, on_disk = last["memory"], last["on_disk"]
                figures.costs.append(Cost(engine, size, made, last["ready"], memory["all"], memory["own"], on_disk))
            assert all(each == totals[0] for each in totals), "the engines found different listings"
            figures.updates.append(msgspec.convert(_alone("update", size, folder), Update))
    return figures


def _alone(*arguments: object) -> dict[str, Any]:
    """The result of a measurement in a separate process."""
    command = [sys.executable, "-m", "benchmarks.engine", "--alone", *map(str, arguments)]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    answer: dict[str, Any] = json.loads(said)
    return answer


def _measured(task: str, size: int, folder: Path, engine: str = OURS) -> object:
    """One task of `_alone`."""
    begun = time.perf_counter()
    if task == "fill":
        make_store(folder, size)
        return {}
    if task == "make":
        made = (listed(unit, changed_at) for unit, changed_at in units(size))
        _parts_of(engine)[0](folder, ((vehicle, listing_json(vehicle)) for vehicle in made))
        return {"seconds": time.perf_counter() - begun}
    if task == "update":
        return asdict(measured_update(folder, size))
    opened = _parts_of(engine)[1](folder)
    opened.search(Question(Filters()))
    ready = time.perf_counter() - begun
    totals = [opened.search(question)[0] for question in questions.mixed(40)]
    latencies = [asdict(latency) for latency in _latencies(engine, size, opened)]
    on_disk = sum(file.stat().st_size for file in folder.glob(_FILES[engine])) / 2**20
    return {"ready": ready, "totals": totals, "latencies": latencies, "memory": _memory(), "on_disk": on_disk}


_FILES = {OURS: "catalogue-snapshot.bin", "SQLite": "sqlite.db", "DuckDB": "duck.db", "Polars": "polars.arrow"}


def _parts_of(engine: str) -> tuple[Make, Open]:
    module = import_module(f"benchmarks.engines.{'catalogue' if engine == OURS else engine.lower()}_engine")
    name = "CatalogueEngine" if engine == OURS else f"{engine.capitalize()}Engine"
    return cast(Make, getattr(module, "make", None)), cast(Open, getattr(module, name))


def _latencies(engine: str, size: int, opened: Engine) -> Iterable[Latency]:
    mixed = questions.mixed(_MOST)
    everything = Question(Filters())
    asked: dict[str, tuple[Callable[[Any], object], Sequence[Any]]] = {
        "search": (opened.search, mixed),
        "free text": (opened.text, questions.texts(_MOST)),
        "facets, filtered": (opened.facets, [each for each in mixed if each.filters != Filters()]),
        "facets of everything": (opened.facets, [everything] * 200),
        "detail by VIN": (opened.detail, questions.vins(size, _MOST)),
        "first page, no filter": (opened.search, [Question(Filters(), 0, each.sort) for each in mixed[:500]]),
        "narrow filter": (opened.search, list(questions.narrow(500))),
        "broad filter": (opened.search, list(questions.broad(500))),
        "VIN filter": (opened.search, [Question(Filters(vin=vin)) for vin in questions.vins(size, 500)]),
    }
    for name, (call, given) in asked.items():
        if engine != OURS and name == "VIN filter":
            continue  # The same statement as the detail.
        times = _times(call, given)
        p50, p99 = np.percentile(times, (50, 99)) / 1000
        yield Latency(engine, size, name, float(p50), float(p99), len(times))


def _times(call: Callable[[Any], object], given: Sequence[Any]) -> list[int]:
    """Nanoseconds of each call after a warm-up, until the time is over."""
    for each in given[:3]:
        call(each)
    times: list[int] = []
    ends = time.perf_counter() + _SECONDS
    for each in given:
        begun = time.perf_counter_ns()
        call(each)
        times.append(time.perf_counter_ns() - begun)
        if time.perf_counter() > ends:
            break
    return times


def _memory() -> dict[str, float]:
    """MiB of this process in memory, and those that no other process can share."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"all": int(status["VmRSS"].split()[0]) / 1024, "own": int(status["RssAnon"].split()[0]) / 1024}


def print_figures(figures: EngineFigures, console: Console) -> None:
    """Tables with a line for each question and size: p50 and p99 of each engine."""
    engines = list(dict.fromkeys(latency.engine for latency in figures.latencies))
    table = Table("Question", "Listings", *engines, title="In process: p50 / p99 in ms", title_justify="left")
    found = {(latency.question, latency.listings, latency.engine): latency for latency in figures.latencies}
    for question, size in dict.fromkeys((latency.question, latency.listings) for latency in figures.latencies):
        cells = [found.get((question, size, engine)) for engine in engines]
        table.add_row(
            question, f"{size:,}", *(f"{cell.p50 / 1e3:,.3f} / {cell.p99 / 1e3:,.3f}" if cell else "" for cell in cells)
        )
    console.print(table)
    table = Table("Engine", "Listings", "Made s", "Ready s", "Memory MiB", "of it its own", "On disk MiB")
    for cost in figures.costs:
        numbers = (cost.memory, cost.own_memory, cost.on_disk)
        table.add_row(
            cost.engine,
            f"{cost.listings:,}",
            f"{cost.made:.2f}",
            f"{cost.ready:.2f}",
            *(f"{each:,.0f}" for each in numbers),
        )
    console.print(table)
    table = Table("Listings", "Update on show after s", "Longest pause ms", "Longest without an update ms")
    for update in figures.updates:
        pauses = [f"{longest:.1f}" for longest in (update.longest_ms, update.longest_quiet_ms)]
        table.add_row(f"{update.listings:,}", f"{update.seconds:.2f}", *pauses)
    console.print(table)


def main() -> None:
    """Measures and prints. With `--alone` it measures one engine in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listings", nargs="*", type=int, default=SIZES)
    parser.add_argument("--alone", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        task, size, folder, *engine = given.alone
        print(json.dumps(_measured(task, int(size), Path(folder), *engine)))
        return
    print_figures(engine_figures(given.listings), Console())


if __name__ == "__main__":
    main()
