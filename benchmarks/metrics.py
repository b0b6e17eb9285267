"""What metrics cost: the processor time of a request with metrics and without, measured in turn in one process.

The requests go through the whole service except the network, so the part of the metrics is a little larger here than on
the wire. The ratio is taken within a round, and then the median of the rounds, because other work of the machine
disturbs a round. The time to read all metrics once is measured on its own.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, cast

import uvicorn
from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import Send
from uvicorn.server import ServerState

from benchmarks.buyers import LOADS, asks, post
from benchmarks.dealership import make_dealer
from benchmarks.servers import dealer_agent
from benchmarks.wire import write_stock
from dealer_agent.bootstrap import application
from dealer_agent.config.installation import load_served
from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.metrics import FOLDER_VARIABLE
from dealer_agent.server.metrics_collector import WorkerCollector

SEARCH, VEHICLE = "inventory.search", "inventory.vehicle"
VEHICLES = 1_000
REQUESTS = 800
CONNECTIONS = 16
SCRAPES = 20
SCRAPE_SECONDS = 15
"""How often Prometheus usually reads."""


class MetricsFigure(Struct, frozen=True):
    """One load: microseconds of processor time for a request without and with metrics, and the ratio: its median, and
    the range of the middle half of the rounds."""

    load: str
    off: float
    on: float
    ratio: float
    low: float
    high: float


class MetricsFigures(Struct, frozen=True):
    """By load; and the milliseconds of processor time to read all metrics once."""

    figures: list[MetricsFigure]
    scrape_milliseconds: float

    def figure(self, load: str) -> MetricsFigure:
        """The figure of a load."""
        return next(figure for figure in self.figures if figure.load == load)

    @property
    def scrape_share(self) -> float:
        """The share of one core that reading takes, every SCRAPE_SECONDS."""
        return self.scrape_milliseconds / 1000 / SCRAPE_SECONDS


class _Sink(asyncio.Transport):
    """A transport that takes everything, and counts the responses."""

    answers = 0

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", 80)})

    def write(self, data: Any) -> None:
        self.answers += bytes(data[:7]) == b"HTTP/1."

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def metrics_figures(rounds: int, progress: Callable[[str], None]) -> MetricsFigures:
    """Measures searches and single vehicles."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        progress(f"a dealer with {VEHICLES:,} vehicles")
        make_dealer(folder / "dealer", VEHICLES)
        with (folder / "dealer" / "dealer.toml").open("a", encoding="utf-8") as settings:
            # The log of this process would fill the terminal.
            settings.write('\n[logs]\nlevel = "error"\n')
        with dealer_agent(folder / "dealer") as server:
            stock = write_stock(server, folder)
        requests = {load: [post(ask.body) for ask in asks(LOADS[load], stock)][:REQUESTS] for load in (SEARCH, VEHICLE)}
        sockets = folder / "s"
        sockets.mkdir()
        os.environ[FOLDER_VARIABLE] = str(sockets)
        try:
            return asyncio.run(_measured(folder / "dealer", sockets, requests, rounds, progress))
        finally:
            del os.environ[FOLDER_VARIABLE]


async def _measured(
    folder: Path,
    sockets: Path,
    requests: dict[str, list[bytes]],
    rounds: int,
    progress: Callable[[str], None],
) -> MetricsFigures:
    app = application(load_served(folder, {}, "http://127.0.0.1:8080"))
    state: dict[str, Any] = {}
    started, over = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        if started.is_set():
            await over.wait()
        return {"type": "lifespan"}

    async def send(_: dict[str, Any]) -> None:
        started.set()

    running = asyncio.create_task(app({"type": "lifespan", "state": state}, receive, cast(Send, send)))
    await started.wait()
    (service,) = app.dealers.opened.values()
    counts = service.response_counts
    figures = []
    for load, sent in requests.items():
        measured = []
        for number in range(rounds):
            progress(f"{load}, round {number + 1}")

            def switch(*, on: bool) -> None:
                service.response_counts = counts if on else None

            measured.append(await _round(app, state, sent, switch))
        figures.append(_compared(load, measured))
    progress("reading all metrics")
    registry = CollectorRegistry()
    registry.register(WorkerCollector(sockets, 50))
    before = time.process_time()
    for _ in range(SCRAPES):
        await asyncio.to_thread(generate_latest, registry)
    scrape = (time.process_time() - before) / SCRAPES * 1000
    over.set()
    await running
    return MetricsFigures(figures, scrape)


async def _round(
    app: Any, state: dict[str, Any], requests: Sequence[bytes], switch: Callable[..., None]
) -> tuple[float, float]:
    """Microseconds of processor time for a request without metrics and with them. All requests are sent twice.

    Metrics are switched after every few requests, so that other work of the machine disturbs both alike.
    """
    config = uvicorn.Config(app, http=BoundedConnection, lifespan="off", ws="none", log_level="critical")
    sinks = [_Sink() for _ in range(CONNECTIONS)]
    connections = [BoundedConnection(config, ServerState(), state, asyncio.get_running_loop()) for _ in sinks]
    for connection, sink in zip(connections, sinks, strict=True):
        connection.connection_made(cast(asyncio.Transport, sink))
    spent, answered = [0.0, 0.0], 0
    for is_second in (False, True):
        for number, first in enumerate(range(0, len(requests), CONNECTIONS)):
            part, on = requests[first : first + CONNECTIONS], is_second == bool(number % 2)
            switch(on=on)
            answered += len(part)
            before = time.thread_time()
            for connection, request in zip(connections, part, strict=False):
                connection.data_received(request)
            while _answered(sinks) < answered:
                await asyncio.sleep(0)
            spent[on] += time.thread_time() - before
    for connection in connections:
        connection.connection_lost(OSError())
    return spent[0] / len(requests) * 1e6, spent[1] / len(requests) * 1e6


def _answered(sinks: Iterable[_Sink]) -> int:
    return sum(sink.answers for sink in sinks)


def _compared(load: str, rounds: Sequence[tuple[float, float]]) -> MetricsFigure:
    off, on = zip(*rounds, strict=True)
    ratios = [with_them / without for without, with_them in rounds]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return MetricsFigure(load, median(off), median(on), median(ratios), low, high)
