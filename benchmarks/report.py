"""The figures as tables for a terminal."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from benchmarks.leads import BARE, CONNECTIONS, STEADY_RATE, WORKERS, LeadFigures
from benchmarks.scale import ScaleFigures
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
