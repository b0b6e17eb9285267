"""What metrics cost: the processor time of a request with metrics and without, measured in turn in one process.

The requests go through the whole service except the network, so the part of the metrics is a little larger here than on
the wire. The time to read all metrics once is measured on its own.
"""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.buyers import post
from benchmarks.in_process import Compared, compared, in_process, stocked_dealer
from dealer_agent.server.metrics import FOLDER_VARIABLE
from dealer_agent.server.metrics_collector import WorkerCollector

SEARCH, VEHICLE = "inventory.search", "inventory.vehicle"
REQUESTS = 800
CONNECTIONS = 16
SCRAPES = 20
SCRAPE_SECONDS = 15
"""How often Prometheus usually reads."""


class MetricsFigures(Struct, frozen=True):
    """By load; and the milliseconds of processor time to read all metrics once."""

    figures: list[Compared]
    scrape_milliseconds: float

    def figure(self, load: str) -> Compared:
        """The figure of a load."""
        return next(figure for figure in self.figures if figure.load == load)

    @property
    def scrape_share(self) -> float:
        """The share of one core that reading takes, every SCRAPE_SECONDS."""
        return self.scrape_milliseconds / 1000 / SCRAPE_SECONDS


def metrics_figures(rounds: int, progress: Callable[[str], None]) -> MetricsFigures:
    """Measures searches and single vehicles."""
    with stocked_dealer([SEARCH, VEHICLE], progress) as (folder, bodies):
        requests = {load: [post(body) for body in of][:REQUESTS] for load, of in bodies.items()}
        sockets = folder.parent / "s"
        sockets.mkdir()
        os.environ[FOLDER_VARIABLE] = str(sockets)
        try:
            return asyncio.run(_measured(folder, sockets, requests, rounds, progress))
        finally:
            del os.environ[FOLDER_VARIABLE]


async def _measured(
    folder: Path,
    sockets: Path,
    requests: dict[str, list[bytes]],
    rounds: int,
    progress: Callable[[str], None],
) -> MetricsFigures:
    figures = []
    async with in_process(folder) as running:
        service = running.service
        counts = service.response_counts

        def switch(on: bool) -> None:
            service.response_counts = counts if on else None

        for load, sent in requests.items():
            measured = []
            for number in range(rounds):
                progress(f"{load}, round {number + 1}")
                measured.append(await running.round(sent, sent, switch))
            figures.append(compared(load, measured))
        progress("reading all metrics")
        registry = CollectorRegistry()
        registry.register(WorkerCollector(sockets, 50))
        before = time.process_time()
        for _ in range(SCRAPES):
            await asyncio.to_thread(generate_latest, registry)
        scrape = (time.process_time() - before) / SCRAPES * 1000
    return MetricsFigures(figures, scrape)
