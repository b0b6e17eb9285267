"""The measured costs of an installation, from the stored figures. Pure.

Each cost says where it comes from. A cost that the figures do not have is 0, and `missing` names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import msgspec

from benchmarks.installation_points import InstallationCosts

Figures = Mapping[str, Any]
"""The content of figures.json: parts by name, each with `circumstances` and `figures`."""

INSTALLATION, LEADS, PLATFORM = "installation", "leads", "platform"
"""The parts of the benchmark that have the costs."""


class Source(NamedTuple):
    """What a cost is, its unit, the part that measures it, and how to read it from the figures of the part."""

    what: str
    unit: str
    part: str
    read: Callable[[Any], float]


def _measured(what: str, unit: str, part: str, read: Callable[[Any], float]) -> Any:
    return field(default=0.0, metadata={"source": Source(what, unit, part, read)})


def _of_leads(what: str, read: Callable[[Any], float]) -> Any:
    def of_postgresql(found: Any) -> float:
        return read(next(each for each in found["databases"] if each["database"] == "PostgreSQL"))

    return _measured(what, "µs", LEADS, of_postgresql)


def _of_installation(what: str, unit: str, read: Callable[[InstallationCosts], float]) -> Any:
    return _measured(what, unit, INSTALLATION, lambda found: read(msgspec.convert(found, InstallationCosts)))


@dataclass(frozen=True)
class Costs:
    """Processor time in microseconds or cores, memory in MiB, and bytes in the database."""

    request: float = _measured(
        "processor time of a request to warm dealers", "µs", PLATFORM, lambda found: found["warm"][-1]["load"]["cpu"]
    )
    lead: float = _of_leads("processor time of a lead", lambda found: found["leads"]["cpu"])
    lead_database: float = _of_leads("the database's for a lead", lambda found: found["database_cpu"])
    delivery: float = _of_leads("processor time of a delivery", lambda found: found["deliveries"]["cpu"])
    delivery_database: float = _of_leads("the database's for it", lambda found: found["deliveries"]["database_cpu"])
    changed_row: float = _of_installation(
        "processor time of a changed row of a feed", "µs", lambda found: found.changed_row.service
    )
    changed_row_database: float = _of_installation(
        "the database's for it", "µs", lambda found: found.changed_row.database
    )
    unchanged_row: float = _of_installation(
        "processor time of an unchanged row", "µs", lambda found: found.unchanged_row.service
    )
    unchanged_row_database: float = _of_installation(
        "the database's for it", "µs", lambda found: found.unchanged_row.database
    )
    idle_worker: float = _of_installation(
        "a worker without requests", "cores", lambda found: found.of_process(lambda point: point.idle_service)
    )
    idle_dealer: float = _of_installation(
        "a registered dealer without requests", "cores", lambda found: found.of_dealer(lambda point: point.idle_service)
    )
    idle_worker_database: float = _of_installation(
        "the database's for an idle worker", "cores", lambda found: found.of_process(lambda point: point.idle_database)
    )
    poll: float = _of_installation(
        "the database's for a poll, for each registered dealer",
        "µs",
        lambda found: found.of_dealer(lambda point: point.poll),
    )
    worker_mib: float = _of_installation(
        "memory of a worker with its first dealer",
        "MiB",
        lambda found: found.of_process(lambda point: point.loaded[-1].mib),
    )
    registered_mib: float = _of_installation(
        "memory of a dealer that is not loaded, in a worker",
        "MiB",
        lambda found: found.of_dealer(lambda point: point.registered_mib) / found.workers,
    )
    loaded_mib: float = _of_installation("memory of a loaded dealer, in a worker", "MiB", lambda found: found.loaded[0])
    unit_mib: float = _of_installation(
        "memory of a unit, in all workers of a machine together", "MiB", lambda found: found.loaded[1]
    )
    file_mib: float = _of_installation("a unit in the file of its stock", "MiB", lambda found: found.file_of_unit)
    connections: float = _of_installation(
        "connections of an idle worker to the database",
        "",
        lambda found: max(point.connections for point in found.points) / found.workers,
    )
    ready_seconds: float = _of_installation(
        "start until the service is ready, the longest",
        "s",
        lambda found: max(point.ready_seconds for point in found.points),
    )
    ready_cpu: float = _of_installation(
        "processor time of a start with two workers", "s", lambda found: found.fitted[0].ready_cpu
    )
    ready_dealer: float = _of_installation(
        "the same for each registered dealer", "s", lambda found: found.of_dealer(lambda point: point.ready_cpu)
    )
    first_answer_ms: float = _measured(
        "first response of a dealer with 300 units, p50", "ms", PLATFORM, lambda found: found["cold"][0]["p50"]
    )
    unit_bytes: float = _of_installation("a unit in the database", "bytes", lambda found: found.stored.unit)
    dealer_bytes: float = _of_installation("a dealer without its units", "bytes", lambda found: found.stored.dealer)
    version_bytes: float = _of_installation("an earlier version of a unit", "bytes", lambda found: found.stored.version)
    feed_bytes: float = _of_installation("an import besides its versions", "bytes", lambda found: found.stored.feed)
    lead_bytes: float = _of_installation("a lead with its events", "bytes", lambda found: found.stored.lead)
    delivery_bytes: float = _of_installation("a delivery", "bytes", lambda found: found.stored.delivery)

    @classmethod
    def of(cls, figures: Figures) -> "Costs":
        """The costs that these figures have."""
        found = {}
        for name, source in cls.sources().items():
            part = figures.get(source.part)
            if part is not None:
                found[name] = source.read(part["figures"])
        return cls(**found)

    @classmethod
    def sources(cls) -> dict[str, Source]:
        """Where each cost comes from, by its name."""
        return {each.name: each.metadata["source"] for each in fields(cls)}


def missing(figures: Figures) -> list[Source]:
    """The costs that these figures do not have."""
    return [source for source in Costs.sources().values() if source.part not in figures]
