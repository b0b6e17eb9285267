"""The figures as tables for a terminal."""

from collections.abc import Iterable, Iterator, Sequence

from rich.table import Table

from benchmarks.console import PEOPLE, ConsoleFigures
from benchmarks.fairness import FLOOD_CONNECTIONS, LEAD, FairnessFigures
from benchmarks.installation_points import InstallationCosts
from benchmarks.leads import BARE, CONNECTIONS, STEADY_RATE, WORKERS, LeadFigures
from benchmarks.metrics import SCRAPE_SECONDS, MetricsFigures
from benchmarks.platform import BUDGET_MIB, WARM_CONNECTIONS, WARM_RATE, PlatformFigures
from benchmarks.record import RecordFigure
from benchmarks.routing import RoutingFigures
from benchmarks.scale import ScaleFigures
from benchmarks.signatures import SignatureFigures
from benchmarks.steady import Steady
from benchmarks.targets import Target
from benchmarks.wire import SDK, SERVERS, WireFigures
from benchmarks.wrk import Load


def wire_tables(wire: WireFigures) -> Iterator[Table]:
    """A table for each load. Ratios are ours over those of the row."""
    for figure in wire.figures:
        title = f"{figure.load}, {figure.vehicles:,} vehicles, {figure.reply_bytes:,} bytes a reply, one worker"
        table = _table(
            title, "Server", "Requests/s", "Ours is", "CPU µs", "kernel's", "Ours costs", "p50 ms", "p99 ms", "p99/p50"
        )
        for row in figure.rows:
            table.add_row(
                row.server,
                f"{row.load.per_second:,.0f}",
                f"{row.rate_ratio:,.2f}x",
                f"{row.load.cpu:,.0f}",
                f"{row.load.kernel_cpu:,.0f}",
                f"{row.cpu_ratio:,.2f}x",
                f"{row.load.p50:,.2f}",
                f"{row.load.p99:,.2f}",
                f"{row.load.tail:.1f}",
            )
        yield table
    notes = _table("The servers", "Server", "What it is")
    for name, what in SERVERS.items():
        notes.add_row(name, what)
    yield notes
    agreed = _table("As many vehicles found by ours and by the a2a-sdk dealer", "Vehicles", "Filters", "Free text")
    for vehicles, found in wire.agreements.items():
        filters, text = f"{found.agreed} of {found.asked}", f"{found.text_agreed} of {found.text_asked}"
        agreed.add_row(f"{vehicles:,}", filters, text)
    yield agreed


def scale_table(scale: ScaleFigures) -> Table:
    """Results by number of workers."""
    table = _table(
        "The mix on one worker and on two; wrk shares the cores with them",
        *("Vehicles", "Workers", "Requests/s", "Times one", "CPU µs", "p50 ms", "p99 ms", "PSS MiB", "RSS MiB"),
    )
    for row in scale.rows:
        table.add_row(
            f"{row.vehicles:,}",
            str(row.workers),
            f"{row.load.per_second:,.0f}",
            f"{row.times_one:.2f}x",
            f"{row.load.cpu:,.0f}",
            f"{row.load.p50:,.2f}",
            f"{row.load.p99:,.2f}",
            f"{row.memory.pss:,.0f}",
            f"{row.memory.rss:,.0f}",
        )
    return table


def metrics_tables(found: MetricsFigures) -> Iterator[Table]:
    """Processor time of a request with metrics and without, and of reading all metrics."""
    table = _table(
        "Processor time of a request in the process, µs",
        *("", "Without metrics", "With", "With over without", "Middle half of rounds"),
    )
    for figure in found.figures:
        table.add_row(
            figure.load,
            f"{figure.off:,.2f}",
            f"{figure.on:,.2f}",
            f"{figure.ratio:.3f}",
            f"{figure.low:.3f} to {figure.high:.3f}",
        )
    yield table
    read = _table("Reading all metrics", "", "Processor time, ms", f"Of a core, every {SCRAPE_SECONDS} s")
    read.add_row("once", f"{found.scrape_milliseconds:.1f}", f"{found.scrape_share:.2%}")
    yield read


def record_table(found: Sequence[RecordFigure]) -> Table:
    """Processor time of a request whose reply is recorded and of one whose reply is not."""
    table = _table(
        "Processor time of a request in the process, µs",
        *("", "Not recorded", "More for the request", "And to write it", "Share", "Bytes in the database"),
    )
    for figure in found:
        table.add_row(
            figure.request.load,
            f"{figure.request.off:,.0f}",
            f"{figure.request.more:,.1f}",
            f"{figure.writing:,.1f}",
            f"{figure.share:.1%}",
            f"{figure.bytes:,.0f}",
        )
    return table


def signatures_table(found: SignatureFigures) -> Table:
    """Processor time of a search that is signed and one that is not."""
    table = _table(
        "Processor time of a request in the process, µs",
        *("", "Anonymous", "Signed", "More", "Of that Ed25519"),
    )
    figure = found.search
    table.add_row(
        figure.load, f"{figure.off:,.0f}", f"{figure.on:,.0f}", f"{figure.more:,.0f}", f"{found.ed25519:,.0f}"
    )
    return table


def console_tables(found: ConsoleFigures) -> Iterator[Table]:
    """The cost of each page, and searches alone and beside people."""
    table = _table(f"Pages of the console with {found.leads:,} leads", "Page", "ms of CPU", "KB")
    for page in found.pages:
        table.add_row(page.path, f"{page.ms:.1f}", f"{page.size / 1000:.1f}")
    yield table
    beside = found.beside
    table = _table(
        f"Searches beside {PEOPLE} people, {beside.clicks:,} pages", *("", "p50 ms", "p99 ms", "Of p50 alone")
    )
    table.add_row("alone", f"{beside.p50:.3f}", f"{beside.p99:.3f}", "1.00")
    table.add_row("beside people", f"{beside.p50_beside:.3f}", f"{beside.p99_beside:.3f}", f"{beside.ratio:.2f}")
    yield table


def fairness_table(found: FairnessFigures) -> Table:
    """Steady requests to other dealers: alone, beside floods, and beside a locked row."""
    table = _table(
        f"Steady requests to 8 dealers, beside {FLOOD_CONNECTIONS} connections to another one, or its locked row",
        *("", "p50 ms", "p99 ms", "Longest ms", "Refused", "Of p50 alone", "Flood: answered/s", "refused/s"),
    )
    for row in found.floods:
        table.add_row(f"{row.what}, alone", *_times(row.alone), "1.00", "", "")
        refused = row.flood.refused / row.flood.answered * row.flood.per_second
        rates = f"{row.flood.per_second - refused:,.0f}", f"{refused:,.0f}"
        table.add_row(f"{row.what}, beside a flood", *_times(row.beside), f"{row.ratio:.2f}", *rates)
    locked = found.locked
    table.add_row(f"{LEAD}, beside a locked row", *_times(locked.others), "", "", "")
    table.add_row("the leads of the locked dealer", *_times(locked.own), "", "", "")
    table.add_row("/readyz beside a locked row", f"200 in {locked.ready:.0%}", *[""] * 6)
    return table


def _times(steady: Steady) -> tuple[str, str, str, str]:
    return (
        f"{steady.p50:,.1f}",
        f"{steady.p99:,.1f}",
        f"{steady.longest:,.1f}",
        f"{steady.refused} of {steady.answered}",
    )


def lead_tables(leads: LeadFigures) -> Iterator[Table]:
    """Leads beside bare commits and the SDK's dealer, deliveries, and leads at a steady rate."""
    taken = _table(
        f"lead.submit, on disk before the answer: {WORKERS} workers, {CONNECTIONS} connections",
        *("", "Leads/s", "Of bare", "CPU ms", "database's", "p50 ms", "p99 ms", "p99/p50", "Deliveries/s"),
    )
    for figures in leads.databases:
        bare, beside = figures.bare, figures.beside
        taken.add_row(f"{figures.database}, {BARE}", *_lead_cells(bare, 1.0, 0.0), "")
        taken.add_row(
            f"{figures.database}, no channel", *_lead_cells(figures.leads, figures.of_bare, figures.database_cpu), ""
        )
        taken.add_row(
            f"{figures.database}, to a CRM over HTTP",
            *_lead_cells(beside, beside.per_second / bare.per_second, figures.beside_database_cpu),
            f"{figures.beside_deliveries:,.0f}",
        )
    first = leads.databases[0]
    taken.add_row(f"{SDK}, in memory", *_lead_cells(leads.sdk, leads.sdk.per_second / first.bare.per_second, 0.0), "")
    yield taken
    sent = _table("Deliveries over HTTP with nothing beside them", "", "Deliveries/s", "CPU ms", "database's")
    for figures in leads.databases:
        cells = (figures.deliveries.cpu / 1000, figures.deliveries.database_cpu / 1000)
        sent.add_row(
            figures.database,
            f"{figures.deliveries.per_second:,.0f}",
            *(f"{milliseconds:.2f}" for milliseconds in cells),
        )
    yield sent
    steady = _table(
        f"{STEADY_RATE} leads a second, delivered over HTTP; CPU of a lead and its delivery",
        *(
            "",
            "Leads",
            "p50 ms",
            "p99 ms",
            "Arrived meanwhile",
            "Deliveries/s",
            "The last, s later",
            "CPU ms",
            "database's",
        ),
    )
    for figures in leads.databases:
        found = figures.steady
        steady.add_row(
            figures.database,
            f"{found.leads.answered:,.0f}",
            f"{found.leads.p50:,.1f}",
            f"{found.leads.p99:,.1f}",
            f"{found.arrived:,.0f}",
            f"{found.per_second:,.0f}",
            f"{found.behind:,.1f}",
            f"{found.cpu / 1000:.2f}",
            f"{found.database_cpu / 1000:.2f}",
        )
    yield steady


def platform_tables(found: PlatformFigures) -> Iterator[Table]:
    """Memory, starts, rates, first answers, imports and changes of many dealers."""
    made = found.prepared
    memory = _table(
        f"{made.dealers:,} dealers, {made.units:,} units, at most {made.largest:,}; made in {made.seconds:,.0f} s",
        *("Loaded by each worker", "Units", "MiB of all processes (PSS)"),
    )
    for point in found.memory:
        memory.add_row(f"{point.dealers:,} dealers", f"{point.units:,}", f"{point.mib:,.0f}")
    memory.add_row("a further dealer of 290 units", "290", f"{found.further_mib:.2f}")
    memory.add_row(f"each dealer once, budget of {BUDGET_MIB} MiB", f"{made.units:,}", f"{found.within_budget:,.0f}")
    yield memory
    starts = _table("Start and idle time", "", "Seconds", "Processor time, s")
    for start in found.starts:
        starts.add_row(f"ready with {start.dealers:,} dealers", f"{start.seconds:,.1f}", f"{start.cpu_seconds:,.1f}")
    starts.add_row("a second without requests: service", "", f"{found.idle.service:.4f}")
    starts.add_row("a second without requests: database", "", f"{found.idle.database:.4f}")
    yield starts
    warm = _table(
        f"The mix spread over warm dealers of 290 units, {WARM_CONNECTIONS} connections",
        *("Dealers", "Requests/s", "Of one dealer's", "CPU µs", "By CPU", "p50 ms", "p99 ms"),
    )
    for row in found.warm:
        warm.add_row(
            f"{row.dealers:,}",
            f"{row.load.per_second:,.0f}",
            f"{row.rate_ratio:.2f}",
            f"{row.load.cpu:,.0f}",
            f"{row.cpu_ratio:.2f}",
            f"{row.load.p50:,.2f}",
            f"{row.load.p99:,.2f}",
        )
    yield warm
    steady = _table(
        f"{WARM_RATE} requests a second to warm dealers, alone and beside other work",
        *("", "p50 ms", "p99 ms", "Longest ms"),
    )
    for cold in found.cold:
        name = f"first answers of {cold.dealers} dealers with {cold.units:,} units"
        steady.add_row(name, f"{cold.p50:,.1f}", f"{cold.p99:,.1f}", "")
        for what, load in (("  warm dealers before", cold.alone), ("  warm dealers meanwhile", cold.beside)):
            steady.add_row(what, f"{load.p50:,.1f}", f"{load.p99:,.1f}", f"{load.longest:,.1f}")
    imports = found.imports
    for what, load in (
        ("before imports", imports.alone),
        (f"{imports.imports} imports of 300 units: other dealers", imports.others),
        ("  dealers that get imports", imports.fed),
    ):
        steady.add_row(what, f"{load.p50:,.1f}", f"{load.p99:,.1f}", f"{load.longest:,.1f}")
    yield steady
    large = found.large_import
    changes = _table("Changes and a large import", "", "Times", "Within 2 s", "Longest s")
    for each in found.visible:
        changes.add_row(f"dealer {each.what}", str(each.times), str(each.in_time), f"{each.longest:.2f}")
    rate = f"{large.per_second:,.0f} rows/s, {large.peak_memory:,.0f} MiB"
    changes.add_row(f"import of {large.rows:,} rows into PostgreSQL: {rate}", "1", "", f"{large.seconds:,.1f}")
    yield changes


def installation_tables(found: InstallationCosts) -> Iterator[Table]:
    """Installations without requests, rows of feeds, and bytes in the database."""
    points = _table(
        f"Installations with {found.workers} workers, without requests; at most {found.open_files:,} open files",
        *("Registered", "Loaded", "Units", "MiB (PSS)", "Ready s", "Idle core", "Database", "Connections", "Poll µs"),
    )
    for point in found.points:
        points.add_row(
            f"{point.dealers:,} dealers",
            "0",
            "0",
            f"{point.registered_mib:,.0f}",
            f"{point.ready_seconds:,.1f}",
            f"{point.idle_service:.4f}",
            f"{point.idle_database:.4f}",
            f"{point.connections}",
            f"{point.poll:,.0f}",
        )
        for loaded in point.loaded:
            points.add_row("", f"{loaded.dealers:,}", f"{loaded.units:,}", f"{loaded.mib:,.0f}", *[""] * 5)
    yield points
    rows = _table("A row of a feed, with the service that loads the new stock", "", "CPU µs", "database's")
    for what, cost in (("with another price", found.changed_row), ("unchanged", found.unchanged_row)):
        rows.add_row(what, f"{cost.service:,.0f}", f"{cost.database:,.0f}")
    yield rows
    stored = _table("Bytes in PostgreSQL, with indexes", "", "Bytes")
    for name in found.stored.__struct_fields__:
        stored.add_row(name, f"{getattr(found.stored, name):,.0f}")
    yield stored


def routing_table(found: RoutingFigures) -> Table:
    """Memory and responses by the way of routing."""
    table = _table(
        f"{found.replicas} replicas with one worker each, {found.dealers:,} dealers, {found.units:,} units",
        *("", "MiB of all", "without dealers", "Responses", "p50 ms", "p99 ms", "Failed"),
    )
    for routed in found.routed:
        for number, (what, answers) in enumerate(
            (
                (f"{routed.routing}: all replicas", routed.warm),
                ("  the dealers of a lost replica", routed.gone),
                ("  its dealers when it is back", routed.returned),
            )
        ):
            memory = ("", "") if number else (f"{routed.mib:,.0f}", f"{routed.started_mib:,.0f}")
            times = f"{answers.p50:,.1f}", f"{answers.p99:,.1f}"
            table.add_row(what, *memory, f"{answers.count:,}", *times, f"{answers.failed:,}")
    return table


def _lead_cells(load: Load, of_bare: float, database_cpu: float) -> tuple[str, ...]:
    return (
        f"{load.per_second:,.0f}",
        f"{of_bare:.2f}",
        f"{load.cpu / 1000:.2f}",
        f"{database_cpu / 1000:.2f}" if database_cpu else "",
        f"{load.p50:,.2f}",
        f"{load.p99:,.2f}",
        f"{load.tail:.1f}",
    )


def target_table(targets: Iterable[Target]) -> Table:
    """The targets, met and missed."""
    table = _table("Targets", "Target", "Wanted", "Found", "", "What the limit is")
    for target in targets:
        told = "[green]met" if target.met else "[red]missed"
        table.add_row(target.what, target.bound, f"{target.found:,.2f}", told, "" if target.met else target.limit)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        words = number == 0 or column in ("What it is", "What the limit is")
        table.add_column(column, justify="left" if words else "right")
    return table
