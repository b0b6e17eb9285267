"""Defines the metrics of a service, and counts them in a worker process (docs/how-to/metrics.md).

Requests add to plain numbers, which costs 0.25 microseconds of processor time a request. A counter and a histogram of
prometheus_client in its multiprocess mode would cost 3.2 microseconds, which is 2 % of a search. When somebody asks for
the metrics, `server.metrics_collector` reads the numbers of all workers, and values of the database.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType

from dealer_agent.callers import CallerClass
from dealer_agent.dealers.routing import CUSTOMER, NOTIFY

Combine = Literal["sum", "max", "min"]

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The upper bounds of the buckets of all histograms, in seconds. A last bucket has everything above."""


class Family(NamedTuple):
    """A metric with all values of its labels.

    `within` combines the dealers of one worker that have the same label, and `across` the workers. Counters and
    histograms are added up.
    """

    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    within: Combine = "sum"
    across: Combine = "sum"


INFO = "dealer_agent_info"
WORKERS = "dealer_agent_workers"
REQUESTS = "dealer_agent_requests_total"
REQUEST_SECONDS = "dealer_agent_request_seconds"
RATE_LIMITED = "dealer_agent_rate_limited_requests_total"
RECORDED = "dealer_agent_recorded_replies_total"
READY = "dealer_agent_ready"
LEADS_AVAILABLE = "dealer_agent_leads_available"
CONNECTIONS = "dealer_agent_connections"
OPENED_DEALERS = "dealer_agent_opened_dealers"
UNITS = "dealer_agent_snapshot_units"
SNAPSHOT_BYTES = "dealer_agent_snapshot_bytes"
SNAPSHOT_REVISION = "dealer_agent_snapshot_revision"
CONFIRMED = "dealer_agent_snapshot_confirmed_timestamp_seconds"
STOCK_REVISION = "dealer_agent_stock_revision"
FEED = "dealer_agent_feed_imported_timestamp_seconds"
LEADS = "dealer_agent_leads_total"
WRITER_WAITING = "dealer_agent_lead_writer_waiting_jobs"
WRITER_SECONDS = "dealer_agent_lead_writer_wait_seconds"
DELIVERIES = "dealer_agent_delivery_results_total"
UNSENT = "dealer_agent_unsent_deliveries"
OLDEST = "dealer_agent_oldest_waiting_delivery_seconds"
DATABASE_READ = "dealer_agent_database_read_timestamp_seconds"

FAMILIES: dict[str, Family] = {
    INFO: Family("gauge", "Always 1. The labels name the version of the service and of Python.", ("version", "python")),
    WORKERS: Family("gauge", "The worker processes that run."),
    REQUESTS: Family(
        "counter",
        "Answered requests of the bindings. code is OK or the code of the error; skill is unknown for a request that "
        "was refused before its skill was known; caller is the sender's class: anonymous, token, signed or issued.",
        ("dealer", "skill", "code", "caller"),
    ),
    REQUEST_SECONDS: Family(
        "histogram", "The time from the head of a request to the end of its response, in seconds.", ("skill",)
    ),
    RATE_LIMITED: Family(
        "counter",
        "Requests refused with RATE_LIMITED, by the rate limit that refused them. overload: the process had no time.",
        ("rule",),
    ),
    RECORDED: Family(
        "counter",
        "Replies for the record of replies. result is kept, or dropped: the day was full, or too many waited.",
        ("result",),
    ),
    READY: Family("gauge", "1 if all workers have current stock and tokens, else 0.", (), "min", "min"),
    LEADS_AVAILABLE: Family("gauge", "1 if all workers can store leads, else 0.", (), "min", "min"),
    CONNECTIONS: Family("gauge", "The open connections of clients."),
    OPENED_DEALERS: Family("gauge", "The dealers that a worker has loaded.", (), "max", "max"),
    UNITS: Family("gauge", "The vehicles for sale in the loaded snapshot.", ("dealer",), "sum", "max"),
    SNAPSHOT_BYTES: Family("gauge", "The size of the loaded snapshot, in bytes.", ("dealer",), "sum", "max"),
    SNAPSHOT_REVISION: Family(
        "gauge", "The revision of the loaded snapshot; the oldest of all workers.", ("dealer",), "min", "min"
    ),
    CONFIRMED: Family(
        "gauge",
        "When an import last confirmed all vehicles of the loaded snapshot, as Unix time.",
        ("dealer",),
        "min",
        "min",
    ),
    STOCK_REVISION: Family("gauge", "The revision of the stock in the database.", ("dealer",), "max", "max"),
    FEED: Family(
        "gauge",
        "When the last import of a feed succeeded, as Unix time; the oldest of the dealers with this label.",
        ("dealer",),
        "min",
        "max",
    ),
    LEADS: Family(
        "counter",
        "Leads by result: accepted (a new lead), duplicate (added to an earlier lead), repeated (the stored response "
        "of an idempotency key), refused, failed (it could not be stored).",
        ("dealer", "result"),
    ),
    WRITER_WAITING: Family("gauge", "The writes that wait for the lead writer."),
    WRITER_SECONDS: Family("histogram", "How long a write waited for the lead writer, in seconds."),
    DELIVERIES: Family(
        "counter",
        "Attempts to deliver a lead or a notice, by kind of channel. result is sent, failed (it is tried again), "
        "undeliverable (given up) or dropped (it must not be sent any more, such as after an erasure).",
        ("channel", "result"),
    ),
    UNSENT: Family(
        "gauge",
        "The deliveries that are waiting or undeliverable, by kind of channel.",
        ("dealer", "channel", "state"),
        "sum",
        "max",
    ),
    OLDEST: Family(
        "gauge", "The age of the oldest delivery that waits, in seconds; 0 without one.", ("dealer",), "max", "max"
    ),
    DATABASE_READ: Family(
        "gauge", "When the values that come from the database were last read, as Unix time.", (), "max", "max"
    ),
    "process_cpu_seconds_total": Family("counter", "The processor time of all processes, in seconds."),
    "process_resident_memory_bytes": Family(
        "gauge", "The resident memory of all processes, in bytes. Pages that they share count in each."
    ),
    "process_open_fds": Family("gauge", "The open files of the process that has most.", (), "max", "max"),
    "process_max_fds": Family("gauge", "The limit of open files of a process.", (), "min", "min"),
    "process_start_time_seconds": Family("gauge", "When the oldest process started, as Unix time.", (), "min", "min"),
}

FOLDER_VARIABLE = "DEALER_AGENT_METRICS"
"""The folder of the workers' sockets, which the command line passes to them. Without it, nothing is counted."""

OTHER = "other"
"""The label of all dealers without a label of their own."""
OK = "OK"
LEAD_RESULTS = ("accepted", "duplicate", "repeated", "refused", "failed")
CHANNEL_KINDS = ("smtp", "http", "directory", NOTIFY, CUSTOMER)
DELIVERY_RESULTS = ("sent", "failed", "undeliverable", "dropped")
UNKNOWN_SKILL = "unknown"

COMBINE: dict[Combine, Callable[[tuple[float, float]], float]] = {"sum": sum, "max": max, "min": min}


class Series(NamedTuple):
    """The name of a metric, and the values of its labels."""

    name: str
    labels: tuple[str, ...] = ()


Readings = dict[Series, list[float]]
"""The values of each series: one number; for a histogram, the number of each bucket and the sum of all seconds."""


def empty_histogram() -> list[float]:
    """The values of a histogram in which nothing was counted."""
    return [0.0] * (len(BUCKETS) + 2)


def observe(histogram: list[float], seconds: float) -> None:
    """Counts a duration."""
    histogram[bisect_left(BUCKETS, seconds)] += 1
    histogram[-1] += seconds


def add_to(readings: Readings, series: Series, values: list[float], combine: Combine = "sum") -> None:
    """Combines values with those that the series has already."""
    earlier = readings.get(series)
    if earlier is None:
        readings[series] = values
    else:
        readings[series] = [COMBINE[combine](pair) for pair in zip(earlier, values, strict=True)]


@dataclass(slots=True)
class ResponseCounts:
    """The responses to requests for a dealer, or for all dealers that share a label. The hot path calls `count`."""

    # By skill, code and class of the caller, the histogram of the seconds.
    _counted: dict[tuple[str | UnsetType, str | UnsetType, CallerClass], list[float]] = field(default_factory=dict)

    def count(self, skill: str | UnsetType, code: str | UnsetType, caller: CallerClass, started: float) -> None:
        """Counts a response to a request that began at `started`, by `perf_counter`. `code` is UNSET for a success."""
        seconds = perf_counter() - started
        histogram = self._counted.get((skill, code, caller))
        if histogram is None:
            histogram = self._counted[skill, code, caller] = empty_histogram()
        histogram[bisect_left(BUCKETS, seconds)] += 1
        histogram[-1] += seconds

    def counted(self) -> Iterable[tuple[str, str, CallerClass, list[float]]]:
        """The skill, the code, the class of the caller and the histogram of all responses so far."""
        for (skill, code, caller), histogram in self._counted.items():
            yield UNKNOWN_SKILL if skill is UNSET else skill, OK if code is UNSET else code, caller, histogram


@dataclass
class WorkerMetrics:
    """The counters of a worker process. Up to `most_dealers` dealers get a label of their own: those opened first."""

    most_dealers: int
    writer_wait: list[float] = field(default_factory=empty_histogram)
    _of_dealers: dict[str, ResponseCounts] = field(default_factory=dict)
    _counters: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A counter that begins with its first event hides this event from Prometheus.
        for channel, result in product(CHANNEL_KINDS, DELIVERY_RESULTS):
            self._counters[Series(DELIVERIES, (channel, result))] = [0.0]

    def label_of(self, dealer_id: str) -> str:
        """The label of a dealer. It is empty if no dealer gets one."""
        if not self.most_dealers:
            return ""
        return dealer_id if dealer_id in self._of_dealers else OTHER

    def of_dealer(self, dealer_id: str) -> ResponseCounts:
        """The counts for a dealer that is opened."""
        own = len(self._of_dealers.keys() - {OTHER}) < self.most_dealers
        label = dealer_id if self.most_dealers and own else self.label_of(dealer_id)
        for result in LEAD_RESULTS:
            self._counters.setdefault(Series(LEADS, (label, result)), [0.0])
        return self._of_dealers.setdefault(label, ResponseCounts())

    def count_lead(self, dealer_id: str, result: str) -> None:
        """Counts a lead."""
        self.count(LEADS, self.label_of(dealer_id), result)

    def count(self, name: str, *labels: str) -> None:
        """Adds one to a counter."""
        self._counters.setdefault(Series(name, labels), [0.0])[0] += 1

    def note_wait(self, seconds: float) -> None:
        """Counts a write of the lead writer, which calls this in its thread. No other thread may."""
        observe(self.writer_wait, seconds)

    def readings(self) -> Readings:
        """All counters."""
        readings: Readings = {series: list(values) for series, values in self._counters.items()}
        readings[Series(WRITER_SECONDS)] = list(self.writer_wait)
        for label, counts in self._of_dealers.items():
            for skill, code, caller, histogram in counts.counted():
                add_to(readings, Series(REQUESTS, (label, skill, code, caller)), [sum(histogram[:-1])])
                add_to(readings, Series(REQUEST_SECONDS, (skill,)), list(histogram))
        return readings


def combined(readings: Iterable[tuple[Series, list[float]]]) -> Readings:
    """Readings of one worker. Those of one series are combined as its family says."""
    series_values: Readings = {}
    for series, values in readings:
        add_to(series_values, series, values, FAMILIES[series.name].within)
    return series_values
