"""One worker and two on this machine: requests per second, processor time of a request, memory of a worker.

wrk shares the cores with the workers, so on two cores two workers cannot double the rate. The processor time of a
request does not depend on this.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from msgspec import Struct

from benchmarks.answers import check_refusals
from benchmarks.buyers import MIX, asks, post
from benchmarks.dealership import make_dealer
from benchmarks.servers import Memory, dealer_agent
from benchmarks.wire import write_stock
from benchmarks.wrk import Load, measure, median_load, write_requests

CONNECTIONS = 8
"""More at full load, from one address, would be an overload, in which a process refuses some of them."""
WORKERS = (1, 2)


class ScaleRow(Struct, frozen=True):
    """So many workers with a stock of this size under the mix: the medians, the rate relative to one worker, and
    the memory of a worker in MiB after the load."""

    vehicles: int
    workers: int
    load: Load
    times_one: float
    memory: Memory


class ScaleFigures(Struct, frozen=True):
    """By stock and number of workers."""

    rows: list[ScaleRow]


def scale_figures(sizes: tuple[int, ...], rounds: int, seconds: float, progress: Callable[[str], None]) -> ScaleFigures:
    """Measures the mix of requests. Raises WrongAnswerError."""
    rows = []
    for vehicles in sizes:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            progress(f"a dealer with {vehicles:,} vehicles")
            make_dealer(folder, vehicles)
            loads: dict[int, list[Load]] = {workers: [] for workers in WORKERS}
            memory: dict[int, Memory] = {}
            for number in range(1, rounds + 1):
                for workers in WORKERS:
                    progress(f"{vehicles:,} vehicles, round {number}: {workers} workers")
                    with dealer_agent(folder, workers, pinned=False) as server:
                        if number == workers == 1:
                            asked = asks(MIX, write_stock(server, folder))
                            write_requests(folder / "requests", (post(ask.body) for ask in asked))
                        load = measure(
                            server, folder / "requests", seconds=seconds, connections=CONNECTIONS, pinned=False
                        )
                        check_refusals(asked, load, CONNECTIONS)
                        loads[workers].append(load)
                        memory[workers] = server.memory()
            for workers, found in loads.items():
                beside = zip(found, loads[1], strict=True)
                times = median(load.per_second / one.per_second for load, one in beside)
                rows.append(ScaleRow(vehicles, workers, median_load(found), times, memory[workers]))
    return ScaleFigures(rows)
