"""A load by wrk: keep-alive connections. Each sends its next request after the whole response to the last one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from benchmarks.servers import Server, cores

SCRIPT = Path(__file__).with_name("wrk.lua")
CONNECTIONS = 16


class Load(Struct, frozen=True):
    """The result of a run.

    `refused` are responses with a status over 399. `broken` are failed connections and missing responses. Times are
    p50 and p99 in milliseconds. Processor time is the server's, in microseconds for each request: the total, and the
    kernel's part.
    """

    per_second: float
    answered: int
    refused: int
    broken: int
    p50: float
    p99: float
    cpu: float
    kernel_cpu: float

    @property
    def tail(self) -> float:
        """p99 divided by p50."""
        return self.p99 / self.p50


def median_load(loads: Iterable[Load]) -> Load:
    """The median of every figure over the rounds. Counts are sums."""
    rounds = list(loads)
    middle = {name: median(getattr(load, name) for load in rounds) for name in ("per_second", "p50", "p99")}
    costs = {name: median(getattr(load, name) for load in rounds) for name in ("cpu", "kernel_cpu")}
    counts = {name: sum(getattr(load, name) for load in rounds) for name in ("answered", "refused", "broken")}
    return Load(**middle, **costs, **counts)


def require_wrk() -> None:
    """Ends the run with a message when a tool is missing."""
    for tool, package in (("wrk", "wrk"), ("taskset", "util-linux")):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is needed, and is not on the PATH: apt-get install {package}")


def write_requests(path: Path, requests: Iterable[bytes]) -> None:
    """The file for wrk's script: the length of each request, a newline, and the request."""
    path.write_bytes(b"".join(b"%d\n%b" % (len(request), request) for request in requests))


def measure(
    server: Server, requests: Path, *, seconds: float, connections: int = CONNECTIONS, pinned: bool = True
) -> Load:
    """Loads a server of this machine from the other core, with the requests of the file from the beginning."""
    core = ["taskset", "-c", str(cores()[1])] if pinned else []
    wrk = ["wrk", "--threads", "1", "--connections", str(connections), "--timeout", "60s"]
    before = server.cpu_seconds()
    run = subprocess.run(
        [*core, *wrk, "--duration", f"{seconds:.0f}s", "--script", str(SCRIPT), f"http://127.0.0.1:{server.port}"],
        env={**os.environ, "BENCH_REQUESTS": str(requests)},
        capture_output=True,
        text=True,
        check=True,
    )
    after = server.cpu_seconds()
    return load_of(run.stdout, after[0] - before[0], after[1] - before[1])


def load_of(printed: str, cpu_seconds: float, kernel_seconds: float) -> Load:
    """The figures in the output of wrk, with the server's processor time.

    Raises ValueError when there are none, or when no request was answered.
    """
    _, found, figures = printed.partition("FIGURES ")
    if not found:
        raise ValueError(f"wrk printed no figures: {printed}")
    told = msgspec.json.decode(figures.partition("\n")[0], type=dict[str, int])
    answered = told["answered"]
    if not answered:
        raise ValueError("no request was answered before the time was over")
    return Load(
        per_second=answered / (told["microseconds"] / 1e6),
        answered=answered,
        refused=told["refused"],
        broken=told["broken"],
        p50=told["p50"] / 1000,
        p99=told["p99"] / 1000,
        cpu=cpu_seconds / answered * 1e6,
        kernel_cpu=kernel_seconds / answered * 1e6,
    )
