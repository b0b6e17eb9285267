"""Compares what the model says of an installation with measured ones. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from benchmarks.costs import INSTALLATION, PLATFORM, Costs, Figures
from benchmarks.installation_points import FITTED, InstallationCosts, Loaded

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
    for point in measured.points:
        fitted = point.dealers <= FITTED

        def row(
            what: str, said: float, found: float, unit: str, dealers: int = point.dealers, fitted: bool = fitted
        ) -> Compared:
            return Compared(what, dealers, said, found, unit, commit, fitted)

        registered = workers * (costs.worker_mib + point.dealers * costs.registered_mib)
        yield row("memory, none loaded", registered, point.registered_mib, "MiB")
        for loaded in point.loaded:
            if loaded.fits(measured.open_files):
                said = registered + _loaded(costs, workers, loaded)
                yield row(f"memory, {loaded.dealers:,} loaded", said, loaded.mib, "MiB")
        yield row("ready", costs.ready_seconds, point.ready_seconds, "s")
        idle = workers * costs.idle_worker + point.dealers * costs.idle_dealer
        yield row("idle, service", idle * 100, point.idle_service * 100, "% of a core")
        yield row("connections, idle", workers * costs.connections, point.connections, "")


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
        yield Compared("ready", start["dealers"], costs.ready_seconds, start["seconds"], "s", commit, False)
    dealers = found["prepared"]["dealers"]
    registered = workers * (costs.worker_mib + dealers * costs.registered_mib)
    first = found["memory"][0]["mib"]
    yield Compared("memory, none loaded", dealers, registered, first, "MiB", commit, False)
    idle = workers * costs.idle_worker + dealers * costs.idle_dealer
    measured = found["idle"]["service"]
    yield Compared("idle, service", dealers, idle * 100, measured * 100, "% of a core", commit, False)
