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
from dataclasses import fields
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import FIGURES
from benchmarks.costs import Costs, Figures
from benchmarks.model_check import GOAL, Compared, compared
from benchmarks.model_needs import Assumptions, needs
from benchmarks.model_page import ROWS, SCALING, STEPS, sources, write_page


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
        console.print(sources(figures))


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
