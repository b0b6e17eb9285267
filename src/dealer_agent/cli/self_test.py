"""`dealer-agent check --self-test`: what the checker finds at dealers that are broken on purpose."""

import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from dealer_agent.cli.terminal import counted, out, progress, terminal_width

if TYPE_CHECKING:
    from dealer_agent.self_test.matrix import MatrixRow

STYLES = {"found": "green", "missed": "bold red", "could not check": "yellow"}


def run_self_test(only: Collection[str], *, whole: bool, as_json: bool) -> None:
    """Runs the defects whose names begin with one of these, prints the matrix, and ends the command.

    With `whole`, each run has all checks of an interface, else those of the defect's subject. The exit code is 1 unless
    each defect is found. Raises BadParameter if no defect has such a name.
    """
    from dealer_agent.self_test.defect import defects
    from dealer_agent.self_test.matrix import run_matrix

    known = defects().values()
    chosen = [each for each in known if not only or any(f"{each.name}.".startswith(f"{start}.") for start in only)]
    if not chosen:
        raise typer.BadParameter(
            "no defect has such a name; give the id of a requirement, or its beginning", param_hint="--only"
        )
    began = time.monotonic()
    with progress() as bar:
        task = bar.add_task("Checking broken dealers", total=len(chosen))
        rows = run_matrix(chosen, lambda _: bar.advance(task), whole=whole)
    seconds = time.monotonic() - began
    number = sum(each.found == "found" for each in rows)
    if as_json:
        document = {"found": number, "of": len(rows), "seconds": round(seconds, 1), "defects": rows}
        typer.echo(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        out.print(_matrix(rows), width=terminal_width() or 120, soft_wrap=False)
        style = "bold green" if number == len(rows) else "bold red"
        out.print(Text(f"\n{number} of {counted(len(rows), 'defect')} found, in {seconds:.0f} s", style=style))
    if number < len(rows):
        raise typer.Exit(1)


def _matrix(rows: "list[MatrixRow]") -> Table:
    """The table of defects, each with the verdict of its requirement."""
    table = Table(header_style="bold", show_edge=False, pad_edge=False)
    for title in ("Defect", "Requirement", "Verdict", "Failed too"):
        table.add_column(title, overflow="fold")
    for each in rows:
        name = Text(each.says) if each.name == each.requirement else Text(f"{each.says} ({each.name})")
        requirement = f"{each.requirement} {each.level}"
        table.add_row(name, requirement, Text(each.found, style=STYLES[each.found]), ", ".join(each.others))
    return table
