"""The targets of the project, and whether the figures meet them. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from benchmarks import engine
from benchmarks.commands import WORKERS, CommandFigures
from benchmarks.console import ConsoleFigures
from benchmarks.databases import POSTGRESQL, SQLITE
from benchmarks.engine import EngineFigures
from benchmarks.fairness import LEAD, FairnessFigures
from benchmarks.leads import STEADY_RATE, LeadFigures
from benchmarks.metrics import SEARCH, MetricsFigures
from benchmarks.platform import BUDGET_MIB, WARM_RATE, PlatformFigures
from benchmarks.record import RecordFigure
from benchmarks.signatures import SignatureFigures
from benchmarks.wire import BARE, OURS, SDK, WireFigures

COST_LIMIT = "the bare server is written in C; ours adds Python: checks, decoding, filters and the head of the response"
SDK_LIMIT = "the SDK alone, with a constant message, is the best possible ratio: see its row"
TAIL_LIMIT = "the bare server, which does nothing, also has a tail in the table: other work of the machine"
LEAD_LIMIT = "Python decodes, checks, encrypts and stores several rows; compare the processor time of a bare commit"
MOST_CPU = {SQLITE: 0.7, POSTGRESQL: 1.0}
"""Milliseconds of processor time for a lead."""


MOST_METRICS_CPU = 1.03
MOST_SIGNATURE_CPU = 300
"""Microseconds."""
SHARED_LIMIT = "flood, clients and database use the same cores, and a turn reads all connections of the flood"


class Target(Struct, frozen=True):
    """A target and the measured figure. `limit` explains a miss. `least` or `most` is the bound."""

    what: str
    found: float
    least: float | None = None
    most: float | None = None
    limit: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is within the bound."""
        return (self.least is None or self.found >= self.least) and (self.most is None or self.found <= self.most)

    @property
    def bound(self) -> str:
        """The bound as text."""
        return f"at least {self.least:,g}" if self.least is not None else f"at most {self.most:,g}"


def wire_targets(wire: WireFigures) -> Iterator[Target]:
    """Targets of the whole service on one worker."""
    for skill, of_bare, times_sdk in (("inventory.search", 0.5, 50), ("inventory.vehicle", 0.6, 40)):
        if figure := wire.figure(skill, 1_000):
            bare, sdk = figure.row(BARE), figure.row(SDK)
            yield Target(f"{skill}: rate over the bare server's", bare.rate_ratio, least=of_bare, limit=COST_LIMIT)
            yield Target(f"{skill}: the same by CPU a request", 1 / bare.cpu_ratio, least=of_bare, limit=COST_LIMIT)
            yield Target(f"{skill}: times the a2a-sdk dealer's rate", sdk.rate_ratio, least=times_sdk, limit=SDK_LIMIT)
            by_cpu = 1 / sdk.cpu_ratio
            yield Target(f"{skill}: the same by CPU a request", by_cpu, least=times_sdk, limit=SDK_LIMIT)
    for figure in wire.figures:
        if figure.vehicles == 1_000 and figure.load in ("inventory.search", "inventory.vehicle"):
            tail = figure.row(OURS).load.tail
            yield Target(f"{figure.load}: p99 over p50 under load", tail, most=4, limit=TAIL_LIMIT)
    if everything := wire.figure("facets over everything", 100_000):
        found = everything.row(OURS).load.per_second
        yield Target("facets over everything, 100,000 vehicles: requests/s", found, least=1_000)


def lead_targets(leads: LeadFigures) -> Iterator[Target]:
    """Targets of durable leads and of their deliveries."""
    for figures in leads.databases:
        name, steady = figures.database, figures.steady
        yield Target(
            f"{name}: processor time a lead, ms", figures.leads.cpu / 1000, most=MOST_CPU[name], limit=LEAD_LIMIT
        )
        yield Target(f"{name}: p99 over p50 of leads", figures.leads.tail, most=2, limit=TAIL_LIMIT)
        yield Target(f"{name}: processor time a delivery, ms", figures.deliveries.cpu / 1000, most=2, limit=LEAD_LIMIT)
        yield Target(
            f"{name}: {STEADY_RATE} leads/s, share of deliveries that arrived meanwhile", steady.share, least=0.95
        )


LARGE = 1_000_000


def engine_targets(found: EngineFigures) -> Iterator[Target]:
    """Targets of a million vehicles in the process."""
    for question, most in (("search", 2), ("facets, filtered", 5), ("facets of everything", 5), ("free text", 5)):
        for latency in found.latencies:
            if (latency.engine, latency.listings, latency.question) == (engine.OURS, LARGE, question):
                yield Target(f"{question}, {LARGE:,} vehicles: p50, ms", latency.p50 / 1000, most=most)
    for cost in found.costs:
        if (cost.engine, cost.listings) == (engine.OURS, LARGE):
            yield Target(f"{LARGE:,} vehicles: memory, GiB", cost.memory / 1024, most=3)
            yield Target(f"{LARGE:,} vehicles: made and ready, seconds", cost.made, most=60)
    for update in found.updates:
        if update.listings == LARGE:
            yield Target(f"{LARGE:,} vehicles: longest pause by a feed's update, ms", update.longest_ms, most=50)


IMPORT_ROWS_BEFORE = 7_898
"""Rows a second of an import into SQLite before imports were streamed (2026-11-21, the same machine)."""
BUSY_LIMIT = "other work of the machine delays the service too: compare the load at the head of the part"


def platform_targets(found: PlatformFigures) -> Iterator[Target]:
    """Targets of many dealers in one service."""
    loaded, dealers = found.memory[-1].mib, found.prepared.dealers
    yield Target(f"memory with {dealers:,} dealers loaded, GiB", loaded / 1024, most=4)
    yield Target(f"memory with a budget of {BUDGET_MIB} MiB, MiB", found.within_budget, most=600)
    yield Target("memory of a further dealer of 290 units, MiB", found.further_mib, most=1)
    for start in found.starts:
        yield Target(f"ready with {start.dealers:,} dealers, seconds", start.seconds, most=5, limit=BUSY_LIMIT)
    yield Target("idle processor time of the service, % of a core", found.idle.service * 100, most=1)
    spread = found.warm[-1]
    yield Target(f"requests to {spread.dealers} dealers: rate of one dealer's", spread.rate_ratio, least=0.9)
    yield Target("the same by processor time of a request", spread.cpu_ratio, least=0.9)
    for cold, most in zip(found.cold, (60, 400), strict=True):
        name = f"first answer of a dealer with {cold.units:,} units"
        yield Target(f"{name}: p99 of {cold.dealers}, ms", cold.p99, most=most, limit=BUSY_LIMIT)
        ratio = cold.beside.p99 / cold.alone.p99
        yield Target(f"p99 of warm dealers beside it, at {WARM_RATE}/s, times", ratio, most=1.5, limit=BUSY_LIMIT)
    yield Target(
        "imports: longest pause of another dealer, ms", found.imports.others.longest, most=50, limit=BUSY_LIMIT
    )
    yield Target(
        "imports: longest pause of a dealer that gets one, ms", found.imports.fed.longest, most=50, limit=BUSY_LIMIT
    )
    yield Target("imports: rate by processor time, of that without", found.imports.cpu_ratio, least=0.9)
    large = found.large_import
    yield Target(f"import of {large.rows:,} rows: peak memory, MiB", large.peak_memory, most=1024)
    times = large.per_second / IMPORT_ROWS_BEFORE
    yield Target("rows a second, times those into SQLite before", times, least=3, limit=BUSY_LIMIT)
    for change in found.visible:
        share = change.in_time / change.times
        yield Target(f"dealers {change.what}: share seen by all workers in 2 s", share, least=1, limit=BUSY_LIMIT)


def signature_targets(found: SignatureFigures) -> Iterator[Target]:
    """The target of the cost of a signature."""
    yield Target(f"{SEARCH}: signed over anonymous, µs of CPU", found.search.more, most=MOST_SIGNATURE_CPU)


def record_targets(found: Sequence[RecordFigure]) -> Iterator[Target]:
    """The target of the cost of the record, for a search."""
    search = next(figure for figure in found if figure.request.load == SEARCH)
    limit = "the hash of the reply, its row and its part of a transaction"
    yield Target(f"{SEARCH}: what the record costs, of a search", search.share, most=0.03, limit=limit)


def command_targets(found: CommandFigures) -> Iterator[Target]:
    """The targets of commands and workers."""
    limit = "imports of SQLAlchemy, pydantic (for Typer) and rich; other work of the machine makes all of them dearer"
    for figure in found.commands:
        most = {"--version": 0.1, "--help": 0.2}.get(figure.command, 0.5)
        yield Target(f"{figure.command}: seconds of CPU", figure.seconds, most=most, limit=limit)
    yield Target(f"one of {WORKERS} workers starts: seconds of CPU", found.worker_seconds, most=0.5)
    yield Target(f"one of {WORKERS} workers: MiB, with its share of what they share", found.worker_mib, most=80)


def console_targets(found: ConsoleFigures) -> Iterator[Target]:
    """The targets of the pages, and of searches beside people."""
    slowest = max(found.pages, key=lambda page: page.ms)
    yield Target(f"{slowest.path}: the dearest page, ms of CPU", slowest.ms, most=30)
    largest = max(found.pages, key=lambda page: page.size)
    yield Target(f"{largest.path}: the largest page, KB", largest.size / 1000, most=100)
    yield Target("search: p50 beside people over p50 alone", found.beside.ratio, most=1.1)


def fairness_targets(found: FairnessFigures) -> Iterator[Target]:
    """The targets of the other dealers beside one dealer's flood or lock."""
    for row in found.floods:
        yield Target(f"{row.what}: p50 beside a flood over p50 alone", row.ratio, most=2, limit=SHARED_LIMIT)
    alone = next(row.alone for row in found.floods if row.what == LEAD)
    ratio = found.locked.others.p50 / alone.p50
    yield Target(f"{LEAD}: p50 beside a locked row over p50 alone", ratio, most=2, limit=SHARED_LIMIT)
    yield Target("/readyz: 200 while one dealer's row is locked", found.locked.ready, least=1)


def metrics_targets(found: MetricsFigures) -> Iterator[Target]:
    """The target of the cost of metrics for a search: counting it, and reading the metrics."""
    ratio = found.figure(SEARCH).ratio + found.scrape_share
    yield Target(f"{SEARCH}: CPU with metrics over without", ratio, most=MOST_METRICS_CPU)
