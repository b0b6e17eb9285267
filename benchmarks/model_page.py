"""The tables of the model: their rows, and the generated parts of docs/explanation/scaling.md."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.costs import Costs, Figures, missing
from benchmarks.model_check import GOAL, Compared, compared
from benchmarks.model_needs import Assumptions, Needs, needs

STEPS = (1, 100, 300, 3_500, 20_000, 80_000)
"""The numbers of dealers of the table."""
SCALING = Path(__file__).parents[1] / "docs" / "explanation" / "scaling.md"
BEGIN, END = "<!-- {}: written by `python -m benchmarks.model --write`. -->\n", "<!-- End of {}. -->\n"


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


def documented(figures: Figures) -> dict[str, str]:
    """The generated parts of the page about scaling, by name: the table with the default assumptions and its sources,
    the check, and the measured routing."""
    found = [needs(Costs.of(figures), Assumptions(), dealers) for dealers in STEPS]
    return {
        "Needs": f"{markdown(found)}\n{sources(figures)}\n",
        "Check": _markdown_of_check(compared(figures)),
        "Routing": _markdown_of_routing(figures["routing"]) if "routing" in figures else "Not measured yet.\n",
    }


def _markdown_of_check(rows: Sequence[Compared]) -> str:
    lines = [
        "| | Dealers | Model | Measured | Difference | Commit |",
        "|---|---:|---:|---:|---:|---|",
        *(
            f"| {row.what}{' *' if row.fitted else ''} | {row.dealers:,} | {row.said:,.4g} {row.unit} |"
            f" {row.measured:,.4g} {row.unit} | {row.difference:+.0%} | {row.commit} |"
            for row in rows
        ),
    ]
    outside = sum(not row.within for row in rows)
    return "\n".join([*lines, "", f"{len(rows) - outside} of {len(rows)} are within {GOAL:.0%}."]) + "\n"


def _markdown_of_routing(part: Mapping[str, Any]) -> str:
    found, of = part["figures"], part["circumstances"]
    lines = [
        "| | Memory of all replicas | Responses | p50 | p99 | Failed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for routed in found["routed"]:
        memory = f"{routed['mib']:,.0f} MiB; {routed['started_mib']:,.0f} without dealers"
        for number, (what, answers) in enumerate(
            (
                (f"{routed['routing']}, all replicas", routed["warm"]),
                (f"{routed['routing']}, the dealers of a lost replica", routed["gone"]),
                (f"{routed['routing']}, its dealers when it is back", routed["returned"]),
            )
        ):
            times = f"{answers['p50']:,.1f} ms | {answers['p99']:,.1f} ms"
            cells = f"{answers['count']:,} | {times} | {answers['failed']:,}"
            lines.append(f"| {what} | {'' if number else memory} | {cells} |")
    told = f"{of['at'][:10]}, commit {of['commit']}, load {of['load'][0]:.1f} to {of['load'][1]:.1f}."
    size = f"{found['replicas']} replicas with one worker each, {found['dealers']:,} dealers, {found['units']:,} units"
    return "\n".join([*lines, "", f"{size}; {told}"]) + "\n"


def sources(figures: Figures) -> str:
    """Where the costs come from, and which of them are not measured yet."""
    parts = dict.fromkeys(source.part for source in Costs.sources().values())
    told = (
        f"`{part}` of {figures[part]['circumstances']['at'][:10]}, commit {figures[part]['circumstances']['commit']}"
        for part in parts
        if part in figures
    )
    lacking = "".join(f" Not measured yet: {source.what}." for source in missing(figures))
    return f"Costs: {'; '.join(told)}.{lacking}"


def write_page(page: Path, figures: Figures) -> None:
    """Replaces the generated parts of the page."""
    text = page.read_text("utf-8")
    for name, part in documented(figures).items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{part}\n{end}{rest.partition(end)[2]}"
    page.write_text(text, "utf-8")
