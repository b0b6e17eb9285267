"""A changed feed during a load: the time until it is visible, and the longest time of a request."""

import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from pathlib import Path

from msgspec.structs import replace

from benchmarks.engine_store import bring_in, rows
from benchmarks.engines.catalogue_engine import CatalogueEngine
from benchmarks.questions import mixed

CHANGED = 1_000
_QUIET_SECONDS = 10.0


@dataclass(frozen=True)
class Update:
    """Milliseconds from the commit of the import until it is visible; the longest request in that time; the longest
    request without an import."""

    listings: int
    seconds: float
    longest_ms: float
    longest_quiet_ms: float


def measured_update(folder: Path, size: int) -> Update:
    """Imports other prices for some units and loads them during a stream of searches, as a worker does."""
    engine = CatalogueEngine(folder)
    changed = [
        row._replace(unit=replace(row.unit, selling_price=1_000 + number), digest=f"changed-{number}")
        for number, row in enumerate(islice(rows(size), CHANGED))
    ]
    bring_in(engine.store, changed, datetime.now(UTC))
    # As in a worker: a garbage collection over the loaded stock would be a pause.
    gc.collect()
    gc.freeze()
    begun = time.perf_counter()
    done = threading.Event()

    def load() -> None:
        engine.catalogue = engine.room.load(datetime.now(UTC)).catalogue
        done.set()

    loader = threading.Thread(target=load)
    loader.start()
    longest = _longest(engine, done.is_set)
    seconds = time.perf_counter() - begun
    loader.join()
    ends = time.perf_counter() + min(seconds, _QUIET_SECONDS)
    return Update(size, seconds, longest, _longest(engine, lambda: time.perf_counter() > ends))


def _longest(engine: CatalogueEngine, over: Callable[[], bool]) -> float:
    """Milliseconds of the longest search in a row of searches."""
    longest = 0
    for question in cycle(mixed(500)):
        begun = time.perf_counter_ns()
        engine.search(question)
        longest = max(longest, time.perf_counter_ns() - begun)
        if over():
            return longest / 1e6
    raise AssertionError("the cycle of questions has no end")
