"""Serves `/metrics` of a machine: one response for all its worker processes, on an address of its own.

It runs in threads of the main process. It asks each worker over its Unix socket. The last values of a worker that has
ended stay part of the totals, so a total never goes down. A worker that does not answer in time keeps its last values.
"""

import os
import platform
import socket
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import MetricsHandler
from prometheus_client.registry import Collector

from dealer_agent import __version__
from dealer_agent.server.metrics import BUCKETS, FAMILIES, INFO, OTHER, WORKERS, Family, Readings, Series, add_to
from dealer_agent.server.worker_metrics import OWN, SUFFIX, WITH_STORED, process_readings

WORKER_SECONDS = 2.0
"""How long a scrape waits for a worker."""
MOST_CLIENTS = 16
"""The most connections to the address of the metrics. Others are closed."""
CLIENT_SECONDS = 10.0
MOST_ASKED_AT_ONCE = 16

_decode = msgspec.json.Decoder(list[tuple[Series, list[float]]]).decode


@dataclass(eq=False)
class WorkerCollector(Collector):
    """The metrics of all workers whose sockets are in the folder, for prometheus_client.

    At most `most_dealers` dealers have a label of their own, whichever labels the workers use.
    """

    folder: Path
    most_dealers: int
    # By the name of the socket, the last answer of the worker.
    _last: dict[str, Readings] = field(default_factory=dict)
    _ended: Readings = field(default_factory=dict)
    _labelled: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def collect(self) -> Iterator[Metric]:
        """All metrics now."""
        with self._lock:
            self._ask_all()
            readings = self._sum_of_workers()
        for name, family in FAMILIES.items():
            yield _metric(name, family, ((series.labels, values) for series, values in readings if series.name == name))

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry would collect at its start."""
        return ()

    def _ask_all(self) -> None:
        """Asks all workers at the same time, the first one also for the values of the database."""
        paths = sorted(self.folder.glob(f"*{SUFFIX}"))
        wanted = [WITH_STORED, *[OWN] * len(paths)]
        with ThreadPoolExecutor(MOST_ASKED_AT_ONCE) as threads:
            answers = dict(zip((path.name for path in paths), threads.map(_read_worker, paths, wanted), strict=True))
        for name, answer in answers.items():
            if answer is not None:
                self._last[name] = answer
        for name in self._last.keys() - {path.name for path in paths if path.exists()}:
            for series, values in self._last.pop(name).items():
                if FAMILIES[series.name].kind != "gauge":
                    add_to(self._ended, self._with_few_dealers(series), values)

    def _sum_of_workers(self) -> list[tuple[Series, list[float]]]:
        """The values of all workers, also of those that have ended. First the dealers of a worker are combined."""
        total: Readings = dict(self._ended)
        main = {} if any(name.startswith(f"{os.getpid()}-") for name in self._last) else process_readings()
        for readings in (main, *self._last.values()):
            of_worker: Readings = {}
            for series, values in readings.items():
                add_to(of_worker, self._with_few_dealers(series), values, FAMILIES[series.name].within)
            for series, values in of_worker.items():
                add_to(total, series, values, FAMILIES[series.name].across)
        total[Series(WORKERS)] = [float(len(self._last))]
        total[Series(INFO, (__version__, platform.python_version()))] = [1.0]
        return sorted(total.items())

    def _with_few_dealers(self, series: Series) -> Series:
        """The series, with the label OTHER for dealers beyond `most_dealers`."""
        if FAMILIES[series.name].labels[:1] != ("dealer",):
            return series
        dealer, *others = series.labels
        if dealer not in self._labelled and dealer not in ("", OTHER):
            if len(self._labelled) >= self.most_dealers:
                return Series(series.name, (OTHER, *others))
            self._labelled.add(dealer)
        return series


def _read_worker(path: Path, wanted: bytes) -> Readings | None:
    """The readings of a worker. None if it does not answer. Deletes the socket of a worker that has ended."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as worker:
            worker.settimeout(WORKER_SECONDS)
            worker.connect(str(path))
            worker.sendall(wanted)
            with worker.makefile("rb") as answer:
                return dict(_decode(answer.read()))
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
    except (OSError, msgspec.DecodeError):
        # The worker is busy, or it ended during the response.
        pass
    return None


def _metric(name: str, family: Family, readings: Iterable[tuple[tuple[str, ...], list[float]]]) -> Metric:
    """One metric in the form that prometheus_client writes."""
    labels = list(family.labels)
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, family.meaning, labels=labels)
        for values, (*counts, total) in readings:
            histogram.add_metric(values, list(_buckets(counts)), total)
        return histogram
    numbers = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        name, family.meaning, labels=labels
    )
    for values, (number,) in readings:
        numbers.add_metric(values, number)
    return numbers


def _buckets(counts: Iterable[float]) -> Iterator[tuple[str, float]]:
    """The upper bound of each bucket, and the number of values up to it."""
    below = 0.0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        below += count
        yield bound, below


class MetricsServer(ThreadingHTTPServer):
    """Answers `GET /metrics` on an address. Raises OSError if the address cannot be used."""

    daemon_threads = True

    def __init__(self, host: str, port: int, folder: Path, most_dealers: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        registry = CollectorRegistry()
        registry.register(WorkerCollector(folder, most_dealers))

        class Handler(MetricsHandler.factory(registry)):  # type: ignore[misc]  # It is made at run time.
            timeout = CLIENT_SECONDS

            def do_GET(self) -> None:  # noqa: N802 - the name of the base class.
                if urlsplit(self.path).path == "/metrics":
                    super().do_GET()
                else:
                    self.send_error(404, "The metrics are at /metrics.")

        super().__init__((host, port), Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002
        """Whether a connection is free. A client that is refused sees its connection close."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers a client, in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Called when a response fails. A client that has gone, or sends nothing, is not an error of the service."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
