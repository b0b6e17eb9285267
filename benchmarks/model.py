"""A model of an installation: which machines, memory, connections and disk so many dealers need.

    python -m benchmarks.model
    python -m benchmarks.model --dealers 500 --requests-a-day 5000 --memory-gib 64
    python -m benchmarks.model --check

The costs are measured: they come from benchmarks/results/figures.json, and `--costs` lists them with the commit of
their measurement. Everything else is an assumption, and an option. The busiest hour decides how many workers are
needed, and memory may need more machines for them. One PostgreSQL server on a machine of its own stores everything.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks import FIGURES
from benchmarks.costs import Costs, Figures, missing
from benchmarks.installation_points import OPENED_MIB, most_opened
from benchmarks.model_check import GOAL, Compared, compared
from benchmarks.servers import OPEN_FILES
from dealer_agent.server.refresh import LISTENING_POLL_SECONDS
from dealer_agent.storage.connections import MOST_CONNECTIONS

STEPS = (1, 100, 300, 3_500, 20_000, 80_000)
"""The numbers of dealers of the table."""
SCALING = Path(__file__).parents[1] / "docs" / "explanation" / "scaling.md"
BEGIN, END = "<!-- Written by `python -m benchmarks.model --write`. -->\n", "<!-- End of the table. -->\n"
NOTICED_SECONDS = 9.0
"""How long HAProxy sends requests to a machine that does not answer (docs/how-to/production.md)."""
DAYS = 365
"""Days of a year."""


def _assumed(default: float, what: str) -> Any:
    return field(default=default, metadata={"what": what})


@dataclass(frozen=True)
class Assumptions:
    """What nobody has measured. Each is an option."""

    units: float = _assumed(375, "units of a dealer")
    requests_a_day: float = _assumed(1_000, "requests to a dealer in a day")
    leads_a_day: float = _assumed(5, "leads of a dealer in a day")
    deliveries_a_lead: float = _assumed(1, "receivers of a lead")
    feeds_a_day: float = _assumed(4, "feeds of a dealer in a day")
    changed_rows: float = _assumed(0.02, "share of the rows of a feed that changed since the last one")
    busiest_hour: float = _assumed(0.1, "share of a day's requests, leads and feeds in the busiest hour")
    years: float = _assumed(2, "years that leads and earlier versions are kept")
    cores: int = _assumed(8, "cores of a machine")
    memory_gib: float = _assumed(32, "memory of a machine in GiB")
    full: float = _assumed(0.6, "how full a core may be in the busiest hour, and the memory at any time")
    lost: int = _assumed(1, "how many machines may be lost in the busiest hour")
    open_files: int = _assumed(OPEN_FILES, "LimitNOFILE: half of them are for loaded dealers")
    server_connections: int = _assumed(100, "max_connections of PostgreSQL")
    process_connections: int = _assumed(MOST_CONNECTIONS, "database_connections: the most of a worker")


class Needs(Struct, frozen=True):
    """What so many dealers need. Processor time is in cores in the busiest hour, memory in MiB of a machine.

    `machines` are those of the service, with those that may be lost. It is 0 if no number is enough. `lost_requests`:
    those that HAProxy sends to a machine that does not answer any more. `cold_dealers`: dealers of a lost machine that
    another one must load, with routing by name. `warm_seconds`: until the others have loaded them all.
    `returned_seconds`: until a machine that comes back has loaded its dealers. `snapshots`: the setting
    `snapshot_memory_mib` with which a worker keeps its dealers loaded, with routing by name.
    """

    dealers: int
    requests: float
    leads: float
    deliveries: float
    imports: float
    idle: float
    database: float
    machines: int
    workers: int
    snapshots: float
    memory_round_robin: float
    memory_routed: float
    connections: int
    idle_connections: float
    pooler: bool
    stored_gb: float
    growth_gb: float
    lost_requests: float
    cold_dealers: float
    warm_seconds: float
    returned_seconds: float
    first_limit: str


def needs(costs: Costs, assumed: Assumptions, dealers: int) -> Needs:
    """What so many dealers need."""
    work = _Work(costs, assumed, dealers)
    left, workers = work.fewest()
    machines = left + assumed.lost if left else 0
    everywhere = machines * workers
    database = work.database(everywhere)
    memory = work.memory(workers, dealers)
    connections = everywhere * assumed.process_connections
    # The dealers of one machine: those that another one must load when it is lost.
    cold = dealers / max(1, machines)
    a_load = costs.first_answer_ms / 1000
    growth = work.growth_gb()
    return Needs(
        dealers=dealers,
        requests=work.requests,
        leads=work.leads,
        deliveries=work.deliveries,
        imports=work.imports,
        idle=work.idle(everywhere),
        database=database,
        machines=machines,
        workers=workers,
        snapshots=work.snapshots(dealers / max(1, left)),
        memory_round_robin=memory,
        memory_routed=work.memory(workers, dealers / max(1, left)),
        connections=connections,
        idle_connections=everywhere * costs.connections,
        pooler=connections > assumed.server_connections,
        stored_gb=work.stock_gb() + growth * assumed.years,
        growth_gb=growth,
        lost_requests=work.a_second / max(1, machines) * NOTICED_SECONDS,
        cold_dealers=cold,
        warm_seconds=cold / max(1, left) * a_load,
        returned_seconds=costs.ready_seconds + cold * a_load,
        first_limit=work.first_limit(everywhere, database, memory, connections),
    )


@dataclass(frozen=True)
class _Work:
    """The work of so many dealers."""

    costs: Costs
    assumed: Assumptions
    dealers: int

    @property
    def a_second(self) -> float:
        """Requests a second in the busiest hour."""
        return self._in_busiest_second(self.assumed.requests_a_day)

    @property
    def requests(self) -> float:
        return self.a_second * self.costs.request / 1e6

    @property
    def leads(self) -> float:
        return self._in_busiest_second(self.assumed.leads_a_day) * self.costs.lead / 1e6

    @property
    def deliveries(self) -> float:
        return self._delivered_a_second * self.costs.delivery / 1e6

    @property
    def imports(self) -> float:
        return self._rows(self.costs.changed_row, self.costs.unchanged_row)

    def idle(self, workers: int) -> float:
        """The service without requests."""
        return workers * self.costs.idle_worker + self.dealers * self.costs.idle_dealer

    def database(self, workers: int) -> float:
        """Processor time of PostgreSQL. Requests need none: they are answered from memory."""
        polls = workers * self.dealers * self.costs.poll / LISTENING_POLL_SECONDS / 1e6
        leads = self._in_busiest_second(self.assumed.leads_a_day) * self.costs.lead_database / 1e6
        deliveries = self._delivered_a_second * self.costs.delivery_database / 1e6
        rows = self._rows(self.costs.changed_row_database, self.costs.unchanged_row_database)
        return polls + leads + deliveries + rows + workers * self.costs.idle_worker_database

    def memory(self, workers: int, loaded: float) -> float:
        """MiB of a machine with so many workers, each of which has loaded so many dealers. They map the same files."""
        of_worker = self.costs.worker_mib + self.dealers * self.costs.registered_mib + loaded * self.costs.loaded_mib
        return workers * of_worker + loaded * self.assumed.units * self.costs.unit_mib

    def snapshots(self, loaded: float) -> float:
        """The least `snapshot_memory_mib` with which a worker keeps so many dealers loaded."""
        return loaded * (OPENED_MIB + self.assumed.units * self.costs.file_mib)

    def fewest(self) -> tuple[int, int]:
        """The fewest machines that are enough after the loss, with routing by name, and the workers of each. Both are
        0 if no number is enough."""
        assumed = self.assumed
        room, memory = assumed.full - self.costs.idle_worker, assumed.memory_gib * 1024 * assumed.full
        opened = most_opened(assumed.open_files)
        if room <= 0 or self.memory(1, 0) >= memory or not opened:
            return 0, 0
        needed = max(1, ceil((self.requests + self.leads + self.deliveries + self.imports + self.idle(0)) / room))
        machines = ceil(needed / assumed.cores)
        while (
            self.memory(ceil(needed / machines), self.dealers / machines) > memory
            or self.snapshots(self.dealers / machines) > opened
        ):
            machines += 1
        return machines, ceil(needed / machines)

    def stock_gb(self) -> float:
        """The database without what grows."""
        return self.dealers * (self.assumed.units * self.costs.unit_bytes + self.costs.dealer_bytes) / 1e9

    def growth_gb(self) -> float:
        """Growth of the database in a year, until the oldest is deleted."""
        assumed, costs = self.assumed, self.costs
        lead = costs.lead_bytes + assumed.deliveries_a_lead * costs.delivery_bytes
        feed = costs.feed_bytes + assumed.units * assumed.changed_rows * costs.version_bytes
        return self.dealers * DAYS * (assumed.leads_a_day * lead + assumed.feeds_a_day * feed) / 1e9

    def first_limit(self, workers: int, database: float, memory: float, connections: int) -> str:
        """What one machine of the service, or one PostgreSQL server with default settings, has too little of most."""
        assumed = self.assumed
        room = assumed.cores * assumed.full
        cores = self.requests + self.leads + self.deliveries + self.imports + self.idle(workers)
        shares = {
            "processor time": cores / room,
            "memory without routing": memory / (assumed.memory_gib * 1024 * assumed.full),
            "connections": connections / assumed.server_connections,
            "processor time of the database": database / room,
        }
        limit = max(shares, key=shares.__getitem__)
        return limit if shares[limit] > 1 else "none"

    @property
    def _delivered_a_second(self) -> float:
        return self._in_busiest_second(self.assumed.leads_a_day * self.assumed.deliveries_a_lead)

    def _in_busiest_second(self, a_day: float) -> float:
        return self.dealers * a_day * self.assumed.busiest_hour / 3600

    def _rows(self, changed: float, unchanged: float) -> float:
        share = self.assumed.changed_rows
        rows = self._in_busiest_second(self.assumed.feeds_a_day * self.assumed.units)
        return rows * (share * changed + (1 - share) * unchanged) / 1e6


class Row(NamedTuple):
    """A row of the table: what it is, and the text of its cell for a number of dealers."""

    what: str
    cell: Callable[[Needs], str]


ROWS = (
    Row("cores for requests", lambda each: _cores(each.requests)),
    Row("cores for leads", lambda each: _cores(each.leads)),
    Row("cores for deliveries", lambda each: _cores(each.deliveries)),
    Row("cores for imports", lambda each: _cores(each.imports)),
    Row("cores when idle", lambda each: _cores(each.idle)),
    Row("cores of the database", lambda each: _cores(each.database)),
    Row("machines", lambda each: f"{each.machines:,}" if each.machines else "none is enough"),
    Row("workers of a machine", lambda each: f"{each.workers:,}"),
    Row("memory of a machine, round robin, GiB", lambda each: f"{each.memory_round_robin / 1024:,.1f}"),
    Row("memory of a machine, routed by name, GiB", lambda each: f"{each.memory_routed / 1024:,.1f}"),
    Row("snapshot_memory_mib, routed by name", lambda each: f"{ceil(each.snapshots):,}"),
    Row("database connections, at most", lambda each: f"{each.connections:,}"),
    Row("PgBouncer needed", lambda each: "yes" if each.pooler else "no"),
    Row("database, GB", lambda each: f"{each.stored_gb:,.1f}"),
    Row("its growth a year, GB", lambda each: f"{each.growth_gb:,.1f}"),
    Row("a machine is lost: requests lost", lambda each: f"{each.lost_requests:,.0f}"),
    Row("routed by name: dealers to load again", lambda each: f"{each.cold_dealers:,.0f}"),
    Row("seconds until they are loaded", lambda each: f"{each.warm_seconds:,.1f}"),
    Row("seconds until it is warm when it returns", lambda each: f"{each.returned_seconds:,.1f}"),
    Row("first limit of one machine", lambda each: each.first_limit),
)


def _cores(number: float) -> str:
    return f"{number:,.3f}" if number < 1 else f"{number:,.1f}"


def markdown(found: Sequence[Needs]) -> str:
    """The table as Markdown."""
    lines = [
        "| Dealers | " + " | ".join(f"{each.dealers:,}" for each in found) + " |",
        "|---|" + "---:|" * len(found),
        *(f"| {row.what} | " + " | ".join(map(row.cell, found)) + " |" for row in ROWS),
    ]
    return "\n".join(lines) + "\n"


def documented(figures: Figures) -> str:
    """The generated part of the page about scaling: the table with the default assumptions, and its sources."""
    found = [needs(Costs.of(figures), Assumptions(), dealers) for dealers in STEPS]
    return f"{markdown(found)}\n{_sources(figures)}\n"


def _sources(figures: Figures) -> str:
    parts = dict.fromkeys(source.part for source in Costs.sources().values())
    told = (
        f"`{part}` of {figures[part]['circumstances']['at'][:10]}, commit {figures[part]['circumstances']['commit']}"
        for part in parts
        if part in figures
    )
    lacking = "".join(f" Not measured yet: {source.what}." for source in missing(figures))
    return f"Costs: {'; '.join(told)}.{lacking}"


def write_page(page: Path, figures: Figures) -> None:
    """Replaces the generated part of the page."""
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{documented(figures)}\n{END}{after}", "utf-8")


def tables(figures: Figures, assumed: Assumptions, steps: Sequence[int]) -> Iterator[Table]:
    """What the dealers need, by their number."""
    table = Table(title="What an installation needs in its busiest hour", title_justify="left")
    table.add_column("Dealers")
    found = [needs(Costs.of(figures), assumed, dealers) for dealers in steps]
    for each in found:
        table.add_column(f"{each.dealers:,}", justify="right")
    for row in ROWS:
        table.add_row(row.what, *map(row.cell, found))
    yield table


def cost_table(figures: Figures) -> Table:
    """The measured costs, with the part and the commit of each."""
    table = Table(title="The measured costs", title_justify="left")
    for column in ("Cost", "Found", "", "Part", "Commit"):
        table.add_column(column)
    costs = Costs.of(figures)
    for name, source in Costs.sources().items():
        part = figures.get(source.part)
        value, commit = f"{getattr(costs, name):,.4g}", part["circumstances"]["commit"] if part else ""
        table.add_row(source.what, value if part else "not measured", source.unit, source.part, commit)
    return table


def check_table(rows: Sequence[Compared]) -> Table:
    """The model beside measured installations."""
    table = Table(title=f"The model beside measured installations; the goal is {GOAL:.0%}", title_justify="left")
    for column in ("", "Dealers", "Model", "Measured", "", "Difference", "", "Commit"):
        table.add_column(column)
    for row in rows:
        verdict = ("fitted, " if row.fitted else "") + ("within" if row.within else "outside")
        table.add_row(
            row.what,
            f"{row.dealers:,}",
            f"{row.said:,.4g}",
            f"{row.measured:,.4g}",
            row.unit,
            f"{row.difference:+.0%}",
            verdict,
            row.commit,
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, the costs or the check."""
    options = _parser().parse_args(arguments)
    figures = msgspec.json.decode(FIGURES.read_bytes())
    assumed = Assumptions(**{each.name: getattr(options, each.name) for each in fields(Assumptions)})
    steps = options.dealers or STEPS
    console = Console()
    if not console.is_terminal:
        console.width = 160
    if options.write:
        write_page(SCALING, figures)
        console.print(f"{SCALING} has the table with the default assumptions.")
    elif options.check:
        if options.json:
            print(_json([row._asdict() | {"difference": row.difference} for row in compared(figures)]))
        else:
            console.print(check_table(compared(figures)))
    elif options.json:
        print(_json([needs(Costs.of(figures), assumed, dealers) for dealers in steps]))
    elif options.costs:
        console.print(cost_table(figures))
    else:
        for table in tables(figures, assumed, steps):
            console.print(table)
        console.print(_sources(figures))


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dealers", type=_count, action="append", help="a number of dealers, or several")
    parser.add_argument("--costs", action="store_true", help="print the measured costs, each with its commit")
    parser.add_argument("--check", action="store_true", help="compare the model with measured installations")
    parser.add_argument("--json", action="store_true", help="print a document for a program")
    parser.add_argument(
        "--write", action="store_true", help="write the table with default assumptions into docs/explanation/scaling.md"
    )
    group = parser.add_argument_group("assumptions")
    for each in fields(Assumptions):
        kind = COUNTED.get(each.name, _share if each.name in SHARES else _number)
        words = f"{each.metadata['what']} (default: {each.default:g})"
        group.add_argument(f"--{each.name.replace('_', '-')}", type=kind, default=each.default, metavar="N", help=words)
    return parser


def _number(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return number


def _share(text: str) -> float:
    number = _number(text)
    if number > 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share: use a number from 0 to 1")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return number


def _at_least_one(text: str) -> int:
    number = _count(text)
    if not number:
        raise argparse.ArgumentTypeError("0 is too few")
    return number


SHARES = {"changed_rows", "busiest_hour", "full"}
COUNTED: dict[str, Callable[[str], float]] = {
    "cores": _at_least_one,
    "lost": _count,
    "open_files": _at_least_one,
    "server_connections": _at_least_one,
    "process_connections": _at_least_one,
}


if __name__ == "__main__":
    main()
