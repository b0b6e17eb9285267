"""One plot for each figure, as SVG."""

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks.engine import EngineFigures
from benchmarks.imports import ImportFigure
from benchmarks.leads import BARE as BARE_COMMITS
from benchmarks.leads import LeadFigures
from benchmarks.platform import PlatformFigures
from benchmarks.scale import ScaleFigures
from benchmarks.wire import BARE, OURS, SDK, SDK_ALONE, WireFigures

COLOURS = {OURS: "#0b7285", BARE: "#adb5bd", SDK: "#e8590c", SDK_ALONE: "#ffc078"}
COLOURS_OF_ENGINES = ("#0b7285", "#e8590c", "#f08c00", "#5f3dc4")
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    # The same figures make the same file.
    "svg.hashsalt": "dealer-agent",
}


def plot_wire(wire: WireFigures, folder: Path) -> None:
    """wire-N.svg for each stock size: requests per second of each server under each load, on a logarithmic scale."""
    for vehicles in dict.fromkeys(figure.vehicles for figure in wire.figures):
        figures = [figure for figure in wire.figures if figure.vehicles == vehicles]
        with mpl.rc_context(STYLE):
            drawing = Figure(figsize=(8, 0.62 * len(figures) + 1.3), layout="constrained")
            axes = drawing.add_subplot()
            for place, (server, colour) in enumerate(COLOURS.items()):
                at = [number + (place - 1.5) * 0.2 for number in range(len(figures))]
                rates = [figure.row(server).load.per_second for figure in figures]
                axes.barh(at, rates, height=0.19, color=colour, label=server)
                for height, rate in zip(at, rates, strict=True):
                    axes.annotate(f" {rate:,.0f}", (rate, height), va="center", fontsize=7, color="#495057")
            axes.set_xscale("log")
            axes.set_title(f"Requests per second on one worker, {vehicles:,} vehicles (logarithmic)")
            _finish(axes, [figure.load for figure in figures])
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, frameon=False)
            _save(drawing, folder / f"wire-{vehicles}.svg")


def plot_scale(scale: ScaleFigures, folder: Path) -> None:
    """scale.svg: rate by workers, and memory of a worker."""
    names = [f"{row.vehicles:,} vehicles, {row.workers} worker{'s' * (row.workers > 1)}" for row in scale.rows]
    rates = _Bars("Requests/s, the mix", [row.load.per_second for row in scale.rows])
    memory = _Bars("MiB a worker (PSS)", [row.memory.pss for row in scale.rows])
    _side_by_side(names, rates, memory, folder / "scale.svg")


def plot_leads(leads: LeadFigures, folder: Path) -> None:
    """leads.svg: rate beside bare commits, and the processor time of a lead."""
    loads = {
        f"{figures.database}, {what}": load
        for figures in leads.databases
        for what, load in ((BARE_COMMITS, figures.bare), ("no channel", figures.leads), ("to a CRM", figures.beside))
    }
    loads[f"{SDK}, in memory"] = leads.sdk
    rates = _Bars("Durable per second", [load.per_second for load in loads.values()])
    costs = _Bars("Processor time, ms", [load.cpu / 1000 for load in loads.values()])
    _side_by_side(list(loads), rates, costs, folder / "leads.svg")


def plot_engine(figures: EngineFigures, folder: Path) -> None:
    """engine.svg: the median of each question by the size of the stock, for each engine. Both scales are
    logarithmic."""
    questions = list(dict.fromkeys(latency.question for latency in figures.latencies))
    engines = list(dict.fromkeys(latency.engine for latency in figures.latencies))
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(8, 2.1 * ((len(questions) + 2) // 3) + 0.4), layout="constrained")
        grid = drawing.subplots((len(questions) + 2) // 3, 3, sharex=True, sharey=True, squeeze=False).flat
        for axes, question in zip(grid, questions, strict=False):
            for engine, colour in zip(engines, COLOURS_OF_ENGINES, strict=False):
                curve = [
                    (each.listings, each.p50 / 1000)
                    for each in figures.latencies
                    if (each.engine, each.question) == (engine, question)
                ]
                if curve:
                    sizes, times = zip(*sorted(curve), strict=True)
                    axes.plot(sizes, times, marker="o", markersize=3, color=colour, label=engine)
            axes.set_title(question, fontsize=9)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.grid(color="#e9ecef")
        for axes in list(grid)[len(questions) :]:
            axes.set_visible(False)
        drawing.supylabel("p50, ms", fontsize=9)
        drawing.supxlabel("vehicles", fontsize=9)
        handles = drawing.axes[0].get_legend_handles_labels()
        drawing.legend(*handles, loc="outside upper center", ncols=len(engines), frameon=False)
        _save(drawing, folder / "engine.svg")


def plot_imports(figures: list[ImportFigure], folder: Path) -> None:
    """import.svg: rows per second and peak memory."""
    names = [f"{figure.name}, {figure.rows:,} rows" for figure in figures]
    rates = _Bars("Rows per second", [figure.per_second for figure in figures])
    memory = _Bars("Peak memory, MiB", [figure.peak_memory for figure in figures])
    _side_by_side(names, rates, memory, folder / "import.svg")


def plot_platform(figures: PlatformFigures, folder: Path) -> None:
    """platform.svg: memory by loaded dealers, and rate by warm dealers."""
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(8, 2.8), layout="constrained")
        left, right = drawing.subplots(1, 2)
        left.plot(
            [point.dealers for point in figures.memory],
            [point.mib for point in figures.memory],
            marker="o",
            markersize=3,
            color=COLOURS[OURS],
        )
        left.set_title("MiB of all processes (PSS)")
        left.set_xlabel("dealers that each worker has loaded")
        right.plot(
            [row.dealers for row in figures.warm],
            [row.cpu_ratio for row in figures.warm],
            marker="o",
            markersize=3,
            color=COLOURS[OURS],
        )
        right.set_title("Rate by processor time, of one dealer's")
        right.set_xscale("log")
        right.set_xlabel("warm dealers that share the requests")
        for axes in (left, right):
            axes.set_ylim(bottom=0)
            axes.grid(color="#e9ecef")
        _save(drawing, folder / "platform.svg")


class _Bars(NamedTuple):
    title: str
    values: list[float]


def _side_by_side(names: list[str], left: _Bars, right: _Bars, file: Path) -> None:
    with mpl.rc_context(STYLE):
        drawing = Figure(figsize=(8, 0.4 * len(names) + 1), layout="constrained")
        for axes, bars in zip(drawing.subplots(1, 2, sharey=True), (left, right), strict=True):
            _bars(axes, names, bars)
        _save(drawing, file)


def _bars(axes: Axes, names: list[str], bars: _Bars) -> None:
    places = list(range(len(names)))
    axes.barh(places, bars.values, height=0.6, color=COLOURS[OURS])
    for place, value in zip(places, bars.values, strict=True):
        axes.annotate(f" {value:,.4g}", (value, place), va="center", fontsize=8, color="#495057")
    axes.set_title(bars.title)
    axes.margins(x=0.15)
    _finish(axes, names)


def _finish(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="x", color="#e9ecef")
    axes.set_axisbelow(True)


def _save(drawing: Figure, path: Path) -> None:
    drawing.savefig(path, metadata={"Date": None})
