"""What `installation_costs` measures of an installation, and the costs of a process and of a dealer in it. Pure.

A cost is fitted to the points of at most FITTED dealers. Larger points are for the check of the model.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from msgspec import Struct

from dealer_agent.server.dealer_memory import OPENED_BYTES

FITTED = 300


class Loaded(Struct, frozen=True):
    """The memory of all processes in MiB when each worker has loaded so many dealers with so many units, and the MiB of
    the files of their stock, which all workers map."""

    dealers: int
    units: int
    mib: float
    files_mib: float

    def fits(self, open_files: int) -> bool:
        """Whether a process with so many open files keeps all these dealers loaded."""
        return self.dealers * OPENED_MIB + self.files_mib < most_opened(open_files) * 15 / 16


OPENED_MIB = OPENED_BYTES / 2**20


def most_opened(open_files: int) -> float:
    """The largest memory of loaded dealers, in MiB as the service counts it, with so many open files."""
    return open_files // 2 * OPENED_MIB


class Point(Struct, frozen=True):
    """An installation with so many registered dealers: seconds until it is ready and their processor time; memory of
    all its processes in MiB before it loads a dealer; then memory by loaded dealers, from small to large ones; shares
    of a core of the service and of the database without requests; connections to the database; and microseconds of
    the database for one poll of the changes."""

    dealers: int
    units: int
    ready_seconds: float
    ready_cpu: float
    registered_mib: float
    loaded: list[Loaded]
    idle_service: float
    idle_database: float
    connections: int
    poll: float


class RowCost(Struct, frozen=True):
    """Microseconds of processor time for a row of a feed: of the import with the service, and of the database."""

    service: float
    database: float


class StoredBytes(Struct, frozen=True):
    """Bytes in the database with indexes: of a unit, of a dealer without its units, of an earlier version of a unit, of
    an import besides its versions, of a lead with its events, and of a delivery."""

    unit: float
    dealer: float
    version: float
    feed: float
    lead: float
    delivery: float


class InstallationCosts(Struct, frozen=True, dict=True):
    """The figures of the part `installation`, with so many workers. `open_files` is the limit of a process."""

    workers: int
    open_files: int
    points: list[Point]
    changed_row: RowCost
    unchanged_row: RowCost
    stored: StoredBytes

    @cached_property
    def fitted(self) -> list[Point]:
        """The points to which costs are fitted: those of at most FITTED dealers, by size."""
        return sorted((point for point in self.points if point.dealers <= FITTED), key=lambda point: point.dealers)

    def of_process(self, read: Callable[[Point], float]) -> float:
        """What a worker needs without dealers, with its share of the supervisor."""
        return max(0.0, read(self.fitted[0]) / self.workers)

    def of_dealer(self, read: Callable[[Point], float]) -> float:
        """How much a figure grows with each registered dealer, from the smallest to the largest installation."""
        first, last = self.fitted[0], max(self.points, key=lambda point: point.dealers)
        if first.dealers == last.dealers:
            return 0.0
        return max(0.0, (read(last) - read(first)) / (last.dealers - first.dealers))

    @cached_property
    def loaded(self) -> tuple[float, float]:
        """MiB of a loaded dealer in each worker, and of a unit in all of them, which map the same files. What the
        first dealer of a worker needs is not in them."""
        first, rows = self._first_loaded, []
        for point in self.fitted:
            for each in point.loaded:
                mib = each.mib - point.registered_mib - self.of_first_dealer
                rows.append((self.workers * (each.dealers - first.dealers), each.units - first.units, mib))
        return two_costs(rows)

    @property
    def file_of_unit(self) -> float:
        """MiB of a unit in the file of its stock."""
        largest = self.fitted[-1].loaded[-1]
        return largest.files_mib / largest.units

    @property
    def of_first_dealer(self) -> float:
        """MiB of all workers together for the first dealer that they load: caches are made then."""
        return self._first_loaded.mib - self.fitted[0].registered_mib

    @property
    def _first_loaded(self) -> Loaded:
        return self.fitted[0].loaded[-1]


def two_costs(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """The costs x and y that fit a * x + b * y = c best, for rows of a, b and c. None is negative."""
    aa, ab, bb = (sum(a * a for a, _, _ in rows), sum(a * b for a, b, _ in rows), sum(b * b for _, b, _ in rows))
    ac, bc = sum(a * c for a, _, c in rows), sum(b * c for _, b, c in rows)
    determinant = aa * bb - ab * ab
    if determinant > 1e-9 * aa * bb:
        x, y = (ac * bb - bc * ab) / determinant, (bc * aa - ac * ab) / determinant
        if x >= 0 and y >= 0:
            return x, y
    only_x, only_y = (max(0.0, ac / aa) if aa else 0.0), (max(0.0, bc / bb) if bb else 0.0)
    error_x = sum((a * only_x - c) ** 2 for a, _, c in rows)
    error_y = sum((b * only_y - c) ** 2 for _, b, c in rows)
    return (only_x, 0.0) if error_x < error_y else (0.0, only_y)
