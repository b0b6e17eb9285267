"""The figures as tables for a terminal."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from benchmarks.leads import LeadFigures
from benchmarks.scale import ScaleFigures
from benchmarks.targets import Target
from benchmarks.wire import SERVERS, WireFigures


def wire_tables(wire: WireFigures) -> Iterator[Table]:
    """A table for each load; ratios are ours over the row's."""
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
    """Workers side by side."""
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


def lead_table(leads: LeadFigures) -> Table:
    """Leads beside bare commits."""
    table = _table(
        "lead.submit, on disk before the answer (SQLite, WAL, synchronous FULL)",
        *("", "Leads/s", "Of bare", "CPU µs", "p50 ms", "p99 ms", "p99/p50"),
    )
    for row in leads.rows:
        table.add_row(
            row.name,
            f"{row.load.per_second:,.0f}",
            f"{row.of_bare:.2f}",
            f"{row.load.cpu:,.0f}",
            f"{row.load.p50:,.2f}",
            f"{row.load.p99:,.2f}",
            f"{row.load.tail:.1f}",
        )
    return table


def target_table(targets: Iterable[Target]) -> Table:
    """Promises kept and broken."""
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
