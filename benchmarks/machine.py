"""The conditions of a measurement: machine, load, versions, commit.

`python -m benchmarks.machine` says which figures are old.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks import FIGURES

MOST_COMMITS = 100
"""Figures are old after so many commits."""
TOLD = ("uvicorn", "uvloop", "httptools", "msgspec", "numpy", "a2a-sdk", "starlette", "duckdb", "polars")


class Circumstances(Struct, frozen=True):
    """When and where a part was measured. `load` is the machine's load average over a minute at its start and end."""

    at: str
    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    versions: dict[str, str]
    commit: str
    load: tuple[float, float]
    seconds: float

    def __str__(self) -> str:
        """One line for the head of a table."""
        return (
            f"{self.at[:10]}, {self.processor}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}, "
            f"Python {self.python}, commit {self.commit}, load {self.load[0]:.1f} to {self.load[1]:.1f}"
        )


def circumstances(load_before: float, seconds: float) -> Circumstances:
    """The record of a part that began under this load and took so long."""
    return Circumstances(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        processor=_told_by("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        versions={name: found for name in TOLD if (found := _version(name))} | {"wrk": _first_line("wrk", "-v")},
        commit=_first_line("git", "describe", "--always", "--dirty"),
        load=(round(load_before, 2), round(os.getloadavg()[0], 2)),
        seconds=round(seconds, 1),
    )


def _told_by(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _first_line(*command: str) -> str:
    try:
        # `wrk --version` ends with code 1.
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    except FileNotFoundError:
        return ""
    return (run.stdout or run.stderr).partition("\n")[0].partition(" Copyright")[0].strip()


def measured_commits() -> dict[str, str]:
    """By part, the commit in which its figures were measured."""
    parts = msgspec.json.decode(FIGURES.read_bytes())
    return {name: part["circumstances"]["commit"].removesuffix("-dirty") for name, part in parts.items()}


def old_figures() -> list[str]:
    """A sentence for each part whose figures are older than MOST_COMMITS, or whose commit the history does not have."""
    sentences = []
    for name, commit in measured_commits().items():
        counted = _first_line("git", "rev-list", "--count", f"{commit}..HEAD")
        if not counted.isdigit():
            sentences.append(f"{name}: measured in {commit}, which this history does not have")
        elif int(counted) > MOST_COMMITS:
            sentences.append(f"{name}: measured in {commit}, {counted} commits ago")
    return sentences


if __name__ == "__main__":
    for sentence in old_figures():
        print(f"{sentence}. Measure again: make bench BENCH_ARGS='--only {sentence.partition(':')[0]}'")
