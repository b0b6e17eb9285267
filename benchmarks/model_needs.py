"""What an installation of so many dealers needs, from measured costs and assumptions. Pure."""

from dataclasses import dataclass, field
from math import ceil
from typing import Any

from msgspec import Struct

from benchmarks.costs import Costs
from benchmarks.installation_points import OPENED_MIB, most_opened
from benchmarks.servers import OPEN_FILES
from dealer_agent.server.refresh import LISTENING_POLL_SECONDS
from dealer_agent.storage.connections import MOST_CONNECTIONS

NOTICED_SECONDS = 9.0
"""How long HAProxy sends requests to a machine that does not answer (docs/how-to/production.md)."""
DAYS = 365
"""Days of a year."""


def _assumed(default: float, what: str) -> Any:
    return field(default=default, metadata={"what": what})


@dataclass(frozen=True)
class Assumptions:
    """What nobody has measured. Each is an option."""

    units: float = _assumed(375, "units of a dealer")
    requests_a_day: float = _assumed(1_000, "requests to a dealer in a day")
    leads_a_day: float = _assumed(5, "leads of a dealer in a day")
    deliveries_a_lead: float = _assumed(1, "receivers of a lead")
    feeds_a_day: float = _assumed(4, "feeds of a dealer in a day")
    changed_rows: float = _assumed(0.02, "share of the rows of a feed that changed since the last one")
    busiest_hour: float = _assumed(0.1, "share of a day's requests, leads and feeds in the busiest hour")
    years: float = _assumed(2, "years that leads and earlier versions are kept")
    cores: int = _assumed(8, "cores of a machine")
    memory_gib: float = _assumed(32, "memory of a machine in GiB")
    full: float = _assumed(0.6, "how full a core may be in the busiest hour, and the memory at any time")
    lost: int = _assumed(1, "how many machines may be lost in the busiest hour")
    open_files: int = _assumed(OPEN_FILES, "LimitNOFILE: half of them are for loaded dealers")
    server_connections: int = _assumed(100, "max_connections of PostgreSQL")
    process_connections: int = _assumed(MOST_CONNECTIONS, "database_connections: the most of a worker")


class Needs(Struct, frozen=True):
    """What so many dealers need. Processor time is in cores in the busiest hour, memory in MiB of a machine.

    `machines` are those of the service, with those that may be lost. It is 0 if no number is enough. `lost_requests`:
    those that HAProxy sends to a machine that does not answer any more. `cold_dealers`: dealers of a lost machine that
    another one must load, with routing by name. `warm_seconds`: until the others have loaded them all.
    `returned_seconds`: until a machine that comes back has loaded its dealers. `snapshots`: the setting
    `snapshot_memory_mib` with which a worker keeps its dealers loaded, with routing by name.
    """

    dealers: int
    requests: float
    leads: float
    deliveries: float
    imports: float
    idle: float
    database: float
    machines: int
    workers: int
    snapshots: float
    memory_round_robin: float
    memory_routed: float
    connections: int
    idle_connections: float
    pooler: bool
    stored_gb: float
    growth_gb: float
    lost_requests: float
    cold_dealers: float
    warm_seconds: float
    returned_seconds: float
    first_limit: str


def needs(costs: Costs, assumed: Assumptions, dealers: int) -> Needs:
    """What so many dealers need."""
    work = _Work(costs, assumed, dealers)
    left, workers = work.fewest()
    machines = left + assumed.lost if left else 0
    everywhere = machines * workers
    database = work.database(everywhere)
    memory = work.memory(workers, dealers)
    connections = everywhere * assumed.process_connections
    # The dealers of one machine: those that another one must load when it is lost.
    cold = dealers / max(1, machines)
    a_load = costs.first_answer_ms / 1000
    growth = work.growth_gb()
    return Needs(
        dealers=dealers,
        requests=work.requests,
        leads=work.leads,
        deliveries=work.deliveries,
        imports=work.imports,
        idle=work.idle(everywhere),
        database=database,
        machines=machines,
        workers=workers,
        snapshots=work.snapshots(dealers / max(1, left)),
        memory_round_robin=memory,
        memory_routed=work.memory(workers, dealers / max(1, left)),
        connections=connections,
        idle_connections=everywhere * costs.connections,
        pooler=connections > assumed.server_connections,
        stored_gb=work.stock_gb() + growth * assumed.years,
        growth_gb=growth,
        lost_requests=work.a_second / max(1, machines) * NOTICED_SECONDS,
        cold_dealers=cold,
        warm_seconds=cold / max(1, left) * a_load,
        returned_seconds=costs.ready_seconds + cold * a_load,
        first_limit=work.first_limit(everywhere, database, memory, connections),
    )


@dataclass(frozen=True)
class _Work:
    """The work of so many dealers."""

    costs: Costs
    assumed: Assumptions
    dealers: int

    @property
    def a_second(self) -> float:
        """Requests a second in the busiest hour."""
        return self._in_busiest_second(self.assumed.requests_a_day)

    @property
    def requests(self) -> float:
        return self.a_second * self.costs.request / 1e6

    @property
    def leads(self) -> float:
        return self._in_busiest_second(self.assumed.leads_a_day) * self.costs.lead / 1e6

    @property
    def deliveries(self) -> float:
        return self._delivered_a_second * self.costs.delivery / 1e6

    @property
    def imports(self) -> float:
        return self._rows(self.costs.changed_row, self.costs.unchanged_row)

    def idle(self, workers: int) -> float:
        """The service without requests."""
        return workers * self.costs.idle_worker + self.dealers * self.costs.idle_dealer

    def database(self, workers: int) -> float:
        """Processor time of PostgreSQL. Requests need none: they are answered from memory."""
        polls = workers * self.dealers * self.costs.poll / LISTENING_POLL_SECONDS / 1e6
        leads = self._in_busiest_second(self.assumed.leads_a_day) * self.costs.lead_database / 1e6
        deliveries = self._delivered_a_second * self.costs.delivery_database / 1e6
        rows = self._rows(self.costs.changed_row_database, self.costs.unchanged_row_database)
        return polls + leads + deliveries + rows + workers * self.costs.idle_worker_database

    def memory(self, workers: int, loaded: float) -> float:
        """MiB of a machine with so many workers, each of which has loaded so many dealers. They map the same files."""
        of_worker = self.costs.worker_mib + self.dealers * self.costs.registered_mib + loaded * self.costs.loaded_mib
        return workers * of_worker + loaded * self.assumed.units * self.costs.unit_mib

    def snapshots(self, loaded: float) -> float:
        """The least `snapshot_memory_mib` with which a worker keeps so many dealers loaded."""
        return loaded * (OPENED_MIB + self.assumed.units * self.costs.file_mib)

    def fewest(self) -> tuple[int, int]:
        """The fewest machines that are enough after the loss, with routing by name, and the workers of each. Both are
        0 if no number is enough."""
        assumed = self.assumed
        room, memory = assumed.full - self.costs.idle_worker, assumed.memory_gib * 1024 * assumed.full
        opened = most_opened(assumed.open_files)
        if room <= 0 or self.memory(1, 0) >= memory or not opened:
            return 0, 0
        needed = max(1, ceil((self.requests + self.leads + self.deliveries + self.imports + self.idle(0)) / room))
        machines = ceil(needed / assumed.cores)
        while (
            self.memory(ceil(needed / machines), self.dealers / machines) > memory
            or self.snapshots(self.dealers / machines) > opened
        ):
            machines += 1
        return machines, ceil(needed / machines)

    def stock_gb(self) -> float:
        """The database without what grows."""
        return self.dealers * (self.assumed.units * self.costs.unit_bytes + self.costs.dealer_bytes) / 1e9

    def growth_gb(self) -> float:
        """Growth of the database in a year, until the oldest is deleted."""
        assumed, costs = self.assumed, self.costs
        lead = costs.lead_bytes + assumed.deliveries_a_lead * costs.delivery_bytes
        feed = costs.feed_bytes + assumed.units * assumed.changed_rows * costs.version_bytes
        return self.dealers * DAYS * (assumed.leads_a_day * lead + assumed.feeds_a_day * feed) / 1e9

    def first_limit(self, workers: int, database: float, memory: float, connections: int) -> str:
        """What one machine of the service, or one PostgreSQL server with default settings, has too little of most."""
        assumed = self.assumed
        room = assumed.cores * assumed.full
        cores = self.requests + self.leads + self.deliveries + self.imports + self.idle(workers)
        shares = {
            "processor time": cores / room,
            "memory without routing": memory / (assumed.memory_gib * 1024 * assumed.full),
            "open files without routing": self.snapshots(self.dealers) / most_opened(assumed.open_files),
            "connections": connections / assumed.server_connections,
            "processor time of the database": database / room,
        }
        limit = max(shares, key=shares.__getitem__)
        return limit if shares[limit] > 1 else "none"

    @property
    def _delivered_a_second(self) -> float:
        return self._in_busiest_second(self.assumed.leads_a_day * self.assumed.deliveries_a_lead)

    def _in_busiest_second(self, a_day: float) -> float:
        return self.dealers * a_day * self.assumed.busiest_hour / 3600

    def _rows(self, changed: float, unchanged: float) -> float:
        share = self.assumed.changed_rows
        rows = self._in_busiest_second(self.assumed.feeds_a_day * self.assumed.units)
        return rows * (share * changed + (1 - share) * unchanged) / 1e6
