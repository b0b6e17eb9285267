"""`python -m benchmarks`: measures all figures, prints them, and writes them with plots to benchmarks/results/."""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks import FIGURES, RESULTS, engine, imports, plots, report, targets
from benchmarks.commands import command_figures
from benchmarks.console import console_figures
from benchmarks.fairness import fairness_figures
from benchmarks.installation_costs import installation_costs
from benchmarks.leads import lead_figures
from benchmarks.machine import circumstances
from benchmarks.metrics import metrics_figures
from benchmarks.platform import extent_of, platform_figures
from benchmarks.record import record_figures
from benchmarks.routing import routing_figures
from benchmarks.scale import scale_figures
from benchmarks.signatures import signature_figures
from benchmarks.wire import PLANS, QUICK_PLANS, wire_figures
from benchmarks.wrk import require_wrk

Say = Callable[[str], None]


class Options(NamedTuple):
    """How much is measured: only a little, or everything. `dealers` is for `platform` and `installation`."""

    quick: bool
    dealers: int | None


class Part(NamedTuple):
    """A part of the benchmark: its subject, its longest duration in minutes, and its functions. They measure (in
    full or quickly), print and plot."""

    what: str
    minutes: float
    measure: Callable[[Options, Say], Any]
    show: Callable[[Console, Any], None]
    plot: Callable[[Any, Path], None]


def _wire(options: Options, say: Say) -> Any:
    return wire_figures(QUICK_PLANS if options.quick else PLANS, say)


def _show_wire(console: Console, found: Any) -> None:
    for table in report.wire_tables(found):
        console.print(table)
    console.print(report.target_table(targets.wire_targets(found)))


def _scale(options: Options, say: Say) -> Any:
    return scale_figures((1_000,), 1, 1, say) if options.quick else scale_figures((1_000, 100_000), 3, 3, say)


def _leads(options: Options, say: Say) -> Any:
    return lead_figures(1, 2, say) if options.quick else lead_figures(3, 4, say)


def _show_leads(console: Console, found: Any) -> None:
    for table in report.lead_tables(found):
        console.print(table)
    console.print(report.target_table(targets.lead_targets(found)))


def _engine(options: Options, say: Say) -> Any:
    say("ours, SQLite, DuckDB and Polars, a process each")
    return engine.engine_figures((1_000, 10_000) if options.quick else engine.SIZES)


def _show_engine(console: Console, found: Any) -> None:
    engine.print_figures(found, console)
    console.print(report.target_table(targets.engine_targets(found)))


def _imports(options: Options, say: Say) -> Any:
    say("a feed into the store, and the same file read by Polars")
    return imports.import_figures((10_000,) if options.quick else imports.SIZES)


def _metrics(options: Options, say: Say) -> Any:
    return metrics_figures(20 if options.quick else 200, say)


def _show_metrics(console: Console, found: Any) -> None:
    for table in report.metrics_tables(found):
        console.print(table)
    console.print(report.target_table(targets.metrics_targets(found)))


def _signatures(options: Options, say: Say) -> Any:
    return signature_figures(5 if options.quick else 20, say)


def _show_signatures(console: Console, found: Any) -> None:
    console.print(report.signatures_table(found))
    console.print(report.target_table(targets.signature_targets(found)))


def _record(options: Options, say: Say) -> Any:
    return record_figures(5 if options.quick else 20, say)


def _show_record(console: Console, found: Any) -> None:
    console.print(report.record_table(found))
    console.print(report.target_table(targets.record_targets(found)))


def _console(options: Options, say: Say) -> Any:
    return console_figures(2_000 if options.quick else 100_000, say)


def _show_console(console: Console, found: Any) -> None:
    for table in report.console_tables(found):
        console.print(table)
    console.print(report.target_table(targets.console_targets(found)))


def _commands(options: Options, say: Say) -> Any:
    return command_figures(3 if options.quick else 15, say)


def _show_commands(console: Console, found: Any) -> None:
    console.print(report.target_table(targets.command_targets(found)))


def _platform(options: Options, say: Say) -> Any:
    return platform_figures(extent_of(options.dealers, quick=options.quick), say)


def _show_platform(console: Console, found: Any) -> None:
    for table in report.platform_tables(found):
        console.print(table)
    console.print(report.target_table(targets.platform_targets(found)))


def _installation(options: Options, say: Say) -> Any:
    most = options.dealers or 3_500
    sizes = {1, 60} if options.quick else {1, min(300, most), most}
    return installation_costs(sorted(sizes), 5 if options.quick else 20, say)


def _show_installation(console: Console, found: Any) -> None:
    for table in report.installation_tables(found):
        console.print(table)


def _routing(options: Options, say: Say) -> Any:
    return routing_figures(60 if options.quick else 300, say)


def _fairness(options: Options, say: Say) -> Any:
    return fairness_figures(4 if options.quick else 10, say)


def _show_fairness(console: Console, found: Any) -> None:
    console.print(report.fairness_table(found))
    console.print(report.target_table(targets.fairness_targets(found)))


PARTS = {
    "wire": Part("the whole service on one worker, beside its peers", 6, _wire, _show_wire, plots.plot_wire),
    "scale": Part(
        "one worker and two",
        2,
        _scale,
        lambda console, found: console.print(report.scale_table(found)),
        plots.plot_scale,
    ),
    "leads": Part("leads on disk and their deliveries, on both databases", 5, _leads, _show_leads, plots.plot_leads),
    "engine": Part("the catalogue in the process, beside SQL engines", 7, _engine, _show_engine, plots.plot_engine),
    "import": Part(
        "a feed of a million rows, beside reading it with Polars",
        2,
        _imports,
        lambda console, found: imports.print_figures(found, console),
        plots.plot_imports,
    ),
    "metrics": Part("a request with metrics and without", 2, _metrics, _show_metrics, lambda *_: None),
    "record": Part("a recorded reply beside one that is not", 1, _record, _show_record, lambda *_: None),
    "signatures": Part("a signed request beside an anonymous one", 1, _signatures, _show_signatures, lambda *_: None),
    "console": Part("pages for people, and searches beside them", 8, _console, _show_console, lambda *_: None),
    "commands": Part("the start of commands and of workers", 1, _commands, _show_commands, lambda *_: None),
    "platform": Part("many dealers in one service on PostgreSQL", 40, _platform, _show_platform, plots.plot_platform),
    "installation": Part(
        "memory, idle time, feeds and bytes of 1, 300 and 3,500 dealers, for benchmarks.model",
        8,
        _installation,
        _show_installation,
        lambda *_: None,
    ),
    "routing": Part(
        "three replicas behind HAProxy, with and without routing by dealer",
        3,
        _routing,
        lambda console, found: console.print(report.routing_table(found)),
        lambda *_: None,
    ),
    "fairness": Part("one dealer's flood or lock, beside other dealers", 2, _fairness, _show_fairness, lambda *_: None),
}

WITHOUT_WRK = {"engine", "import", "metrics", "record", "signatures", "console", "commands", "installation", "routing"}
"""The parts that need no wrk."""


def main() -> None:
    """Measures the chosen parts in order. A quick run is printed and not stored."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parts = "; ".join(f"{name}: {part.what}, about {part.minutes:g} minutes" for name, part in PARTS.items())
    parser.add_argument("--only", choices=PARTS, action="append", help=f"one part, or several. {parts}")
    parser.add_argument("--quick", action="store_true", help="a short look: few rounds, nothing written")
    parser.add_argument("--dealers", type=int, help="the dealers of platform and installation; 3,500 in a full run")
    arguments = parser.parse_args()
    chosen = arguments.only or [*PARTS]
    if not WITHOUT_WRK.issuperset(chosen):
        require_wrk()
    console = Console()
    if not console.is_terminal:
        console.width = 120
    for name in chosen:
        run(console, name, Options(arguments.quick, arguments.dealers))


def run(console: Console, name: str, options: Options) -> None:
    """Measures and prints one part. Stores it too, unless the run is quick."""
    part = PARTS[name]
    load, started = os.getloadavg()[0], time.monotonic()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=2, transient=True) as progress:
        task = progress.add_task(name)
        found = part.measure(options, lambda words: progress.update(task, description=f"{name}: {words}"))
    made_in = circumstances(load, time.monotonic() - started)
    console.print(f"\n[bold]{name}[/]: {part.what}\n{made_in}; took {made_in.seconds:.0f} s")
    part.show(console, found)
    if not options.quick:
        keep(name, {"circumstances": made_in, "figures": found})
        part.plot(found, RESULTS)


def keep(name: str, result: Any) -> None:
    """Replaces the figures of a part in the file. Other parts stay the same."""
    RESULTS.mkdir(exist_ok=True)
    kept = msgspec.json.decode(FIGURES.read_bytes()) if FIGURES.exists() else {}
    kept[name] = msgspec.to_builtins(result, str_keys=True)
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=1) + b"\n")


if __name__ == "__main__":
    main()
