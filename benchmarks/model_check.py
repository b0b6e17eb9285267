"""Compares what the model says of an installation with measured ones. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from benchmarks.costs import INSTALLATION, PLATFORM, Costs, Figures
from benchmarks.installation_points import FITTED, InstallationCosts, Loaded, Point

GOAL = 0.2
"""The largest difference, as a share of the measured value."""


class Compared(NamedTuple):
    """What the model says of so many dealers, and what was measured. `fitted`: the model has learned from it."""

    what: str
    dealers: int
    said: float
    measured: float
    unit: str
    commit: str
    fitted: bool

    @property
    def difference(self) -> float:
        """What the model says too much, as a share of the measured value."""
        return self.said / self.measured - 1 if self.measured else 0.0

    @property
    def within(self) -> bool:
        """Whether the difference is within the goal."""
        return abs(self.difference) <= GOAL


def compared(figures: Figures) -> list[Compared]:
    """The model beside each measured installation of the figures."""
    return [*_installations(figures), *_platform(figures)]


def _installations(figures: Figures) -> Iterator[Compared]:
    part = figures.get(INSTALLATION)
    if part is None:
        return
    costs, commit = Costs.of(figures), part["circumstances"]["commit"]
    measured = msgspec.convert(part["figures"], InstallationCosts)
    workers = measured.workers
    ends = (min(measured.points, key=_dealers), max(measured.points, key=_dealers))
    for point in measured.points:
        dealers = point.dealers
        # What grows with registered dealers comes from the smallest and the largest point.
        is_end = point in ends
        registered = workers * (costs.worker_mib + dealers * costs.registered_mib)
        idle = workers * costs.idle_worker + dealers * costs.idle_dealer
        rows = [
            ("memory, none loaded", registered, point.registered_mib, "MiB", is_end),
            ("start, processor time", _start(costs, dealers), point.ready_cpu, "s", is_end),
            ("idle, service", idle * 100, point.idle_service * 100, "% of a core", is_end),
            ("connections, idle", workers * costs.connections, point.connections, "", True),
        ]
        for loaded in point.loaded:
            if loaded.fits(measured.open_files):
                said = registered + _loaded(costs, workers, loaded)
                rows.append((f"memory, {loaded.dealers:,} loaded", said, loaded.mib, "MiB", dealers <= FITTED))
        for what, said, found, unit, fitted in rows:
            yield Compared(what, dealers, said, found, unit, commit, fitted)


def _dealers(point: Point) -> int:
    return point.dealers


def _start(costs: Costs, dealers: int) -> float:
    return costs.ready_cpu + dealers * costs.ready_dealer


def _loaded(costs: Costs, workers: int, loaded: Loaded) -> float:
    """MiB of loaded dealers in all workers."""
    return workers * loaded.dealers * costs.loaded_mib + loaded.units * costs.unit_mib


def _platform(figures: Figures) -> Iterator[Compared]:
    """Its memory with loaded dealers is not compared: it loads more than a process may keep."""
    part = figures.get(PLATFORM)
    if part is None or INSTALLATION not in figures:
        return
    costs, commit, found = Costs.of(figures), part["circumstances"]["commit"], part["figures"]
    workers = msgspec.convert(figures[INSTALLATION]["figures"], InstallationCosts).workers
    for start in found["starts"]:
        said = _start(costs, start["dealers"])
        yield Compared("start, processor time", start["dealers"], said, start["cpu_seconds"], "s", commit, False)
    dealers = found["prepared"]["dealers"]
    registered = workers * (costs.worker_mib + dealers * costs.registered_mib)
    first = found["memory"][0]["mib"]
    yield Compared("memory, none loaded", dealers, registered, first, "MiB", commit, False)
    idle = workers * costs.idle_worker + dealers * costs.idle_dealer
    measured = found["idle"]["service"]
    yield Compared("idle, service", dealers, idle * 100, measured * 100, "% of a core", commit, False)
