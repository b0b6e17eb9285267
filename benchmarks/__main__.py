"""`python -m benchmarks`: all figures in one run, with the machine and its load."""

import os
import platform
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.http import VEHICLES, http_figures
from benchmarks.leads import lead_figures


def _machine() -> str:
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = models[0] if models else ""
    return f"{model or platform.processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    """Prints a table for each skill; ratios are dealer-agent's rate over the row's, from the same run."""
    console = Console()
    console.print(f"{_machine()}; load {os.getloadavg()[0]:.1f} at the start; {VEHICLES:,} vehicles, one worker")
    for name, figures, note in [*http_figures(), *lead_figures()]:
        table = Table(title=f"{name} ({note})", title_justify="left")
        for column in ("Server", "Requests/s", "Ratio", "p50 ms", "p99 ms", "p99/p50", "Failed"):
            table.add_column(column, justify="left" if column == "Server" else "right")
        first = figures[0].per_second
        for figure in figures:
            table.add_row(
                figure.name,
                f"{figure.per_second:,.0f}",
                f"{first / figure.per_second:.2f}",
                f"{figure.p50:,.1f}",
                f"{figure.p99:,.1f}",
                f"{figure.tail:.1f}",
                str(figure.failed),
            )
        console.print(table)
    console.print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
