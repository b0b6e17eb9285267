"""What a worker process counts for `/metrics`: plain numbers, because a metrics library would cost as much as a search.

`server.metrics_collector` reads the numbers of all workers when somebody asks for them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType

from dealer_agent.dealers.routing import CUSTOMER, NOTIFY
from dealer_agent.server.metric_families import (
    BUCKETS,
    DELIVERIES,
    FAMILIES,
    LEADS,
    REQUEST_SECONDS,
    REQUESTS,
    WRITER_SECONDS,
    Combine,
)

FOLDER_VARIABLE = "DEALER_AGENT_METRICS"
"""The folder of the workers' sockets, which the command line passes to them. Without it, nothing is counted."""

OTHER = "other"
"""The label of all dealers without a label of their own."""
OK = "OK"
LEAD_RESULTS = ("accepted", "duplicate", "repeated", "refused", "failed")
CHANNEL_KINDS = ("smtp", "http", "directory", NOTIFY, CUSTOMER)
DELIVERY_RESULTS = ("sent", "failed", "parked", "dropped")
UNKNOWN_SKILL = "unknown"

COMBINE: dict[Combine, Callable[[tuple[float, float]], float]] = {"sum": sum, "max": max, "min": min}


class Series(NamedTuple):
    """The name of a metric, and the values of its labels."""

    name: str
    labels: tuple[str, ...] = ()


class Reading(Struct, array_like=True):
    """The values of a series: one number; for a histogram, the number of each bucket and the sum of all seconds."""

    name: str
    labels: tuple[str, ...]
    values: list[float]


Readings = dict[Series, list[float]]


def empty_histogram() -> list[float]:
    """The values of a histogram in which nothing was counted."""
    return [0.0] * (len(BUCKETS) + 2)


def observe(histogram: list[float], seconds: float) -> None:
    """Counts a duration."""
    histogram[bisect_left(BUCKETS, seconds)] += 1
    histogram[-1] += seconds


def add_to(readings: Readings, series: Series, values: list[float], combine: Combine = "sum") -> None:
    """Combines values with those that the series has already."""
    known = readings.get(series)
    if known is None:
        readings[series] = values
    else:
        readings[series] = [COMBINE[combine](pair) for pair in zip(known, values, strict=True)]


@dataclass(slots=True)
class ReplyCounts:
    """The replies to requests for a dealer, or for all dealers that share a label. The hot path calls `count`."""

    _counted: dict[tuple[str | UnsetType, str | UnsetType], list[float]] = field(default_factory=dict)

    def count(self, skill: str | UnsetType, code: str | UnsetType, started: float) -> None:
        """Counts a reply to a request that began at `started`, by `perf_counter`. `code` is UNSET for a success."""
        seconds = perf_counter() - started
        histogram = self._counted.get((skill, code))
        if histogram is None:
            histogram = self._counted[skill, code] = empty_histogram()
        histogram[bisect_left(BUCKETS, seconds)] += 1
        histogram[-1] += seconds

    def counted(self) -> Iterable[tuple[str, str, list[float]]]:
        """The skill, the code and the histogram of all replies so far."""
        for (skill, code), histogram in self._counted.items():
            yield UNKNOWN_SKILL if skill is UNSET else skill, OK if code is UNSET else code, histogram


@dataclass
class WorkerMetrics:
    """The counters of a worker process. Up to `most_dealers` dealers get a label of their own: those opened first."""

    most_dealers: int
    writer_wait: list[float] = field(default_factory=empty_histogram)
    _replies: dict[str, ReplyCounts] = field(default_factory=dict)
    _counters: Readings = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A counter that begins with its first event hides this event from Prometheus.
        for channel, result in product(CHANNEL_KINDS, DELIVERY_RESULTS):
            self._counters[Series(DELIVERIES, (channel, result))] = [0.0]

    def label_of(self, dealer_id: str) -> str:
        """The label of a dealer. It is empty if no dealer gets one."""
        if not self.most_dealers:
            return ""
        return dealer_id if dealer_id in self._replies else OTHER

    def of_dealer(self, dealer_id: str) -> ReplyCounts:
        """The counts for a dealer that is opened."""
        own = len(self._replies.keys() - {OTHER}) < self.most_dealers
        label = dealer_id if self.most_dealers and own else self.label_of(dealer_id)
        for result in LEAD_RESULTS:
            self._counters.setdefault(Series(LEADS, (label, result)), [0.0])
        return self._replies.setdefault(label, ReplyCounts())

    def count_lead(self, dealer_id: str, result: str) -> None:
        """Counts a lead."""
        self.count(LEADS, self.label_of(dealer_id), result)

    def count(self, name: str, *labels: str) -> None:
        """Adds one to a counter."""
        self._counters.setdefault(Series(name, labels), [0.0])[0] += 1

    def note_wait(self, seconds: float) -> None:
        """Counts a job of the lead writer, which calls this in its thread. No other thread may."""
        observe(self.writer_wait, seconds)

    def readings(self) -> Readings:
        """All counters."""
        found: Readings = {series: list(values) for series, values in self._counters.items()}
        found[Series(WRITER_SECONDS)] = list(self.writer_wait)
        for label, replies in self._replies.items():
            for skill, code, histogram in replies.counted():
                add_to(found, Series(REQUESTS, (label, skill, code)), [sum(histogram[:-1])])
                add_to(found, Series(REQUEST_SECONDS, (skill,)), list(histogram))
        return found


def combined(readings: Iterable[tuple[Series, list[float]]]) -> Readings:
    """Readings of one worker. Those of one series are combined as its family says."""
    found: Readings = {}
    for series, values in readings:
        add_to(found, series, values, FAMILIES[series.name].within)
    return found
