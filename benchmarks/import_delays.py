"""How long leads wait while a large feed is imported into the same SQLite file.

    python -m benchmarks.import_delays [ROWS]

One process stores a lead every 20 ms. Another process imports a feed: first into an empty stock, then the same feed,
then the feed with other prices, then the feed without a tenth of its units.
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.storage.samples import storing
from ulid import ULID

from benchmarks.imports import make_dealer, write_feed
from dealer_agent.config import load_settings
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.store import Store

ROWS = 100_000
_BETWEEN_SECONDS = 0.02
_QUIET_SECONDS = 5.0


@dataclass(frozen=True)
class Delays:
    """Milliseconds until leads were stored, sorted, during `seconds` of one import."""

    name: str
    seconds: float
    sorted_ms: list[float]

    def share(self, share: float) -> float:
        """The delay that this share of the leads does not exceed."""
        return self.sorted_ms[min(len(self.sorted_ms) - 1, int(len(self.sorted_ms) * share))]


def measured_delays(rows: int) -> list[Delays]:
    """Measures all imports."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dealer(folder)
        feed = folder / "feed.csv"
        write_feed(feed, rows)
        settings = load_settings(folder, {})
        with Store.open(settings.database_url, settings.cipher) as store:
            writer = store.lead_writer()
            ends = time.monotonic() + _QUIET_SECONDS
            found = [_measure("no import", writer, settings.dealer.id, lambda: time.monotonic() > ends)]
            for what, prepare in (
                ("into an empty stock", None),
                ("the same feed", None),
                ("other prices", _with_other_prices),
                ("a tenth sold", _without_a_tenth),
            ):
                if prepare is not None:
                    prepare(feed)
                command = [sys.executable, "-m", "dealer_agent.cli", "inventory", "import", str(feed), "--dir", name]
                command += ["--accept=price_jumps"]  # The prices of the third feed are other ones.
                with subprocess.Popen(command, stdout=subprocess.DEVNULL) as importing:
                    found.append(_measure(what, writer, settings.dealer.id, lambda: importing.poll() is not None))
                assert importing.returncode == 0, what
            writer.close()
    return found


def _measure(name: str, writer: LeadWriter, dealer_id: str, over: Callable[[], bool]) -> Delays:
    begun = time.perf_counter()
    found = []
    while not over():
        lead_id = str(ULID())
        at = time.perf_counter()
        writer.submit(dealer_id, storing(lead_id, datetime.now(UTC), contacts=[f"{lead_id}@example.com"])).result(60)
        taken = time.perf_counter() - at
        found.append(taken * 1000)
        time.sleep(max(0.0, _BETWEEN_SECONDS - taken))
    return Delays(name, time.perf_counter() - begun, sorted(found))


def _rewrite(feed: Path, change: Callable[[int, dict[str, str]], bool]) -> None:
    changed = feed.with_suffix(".new")
    with feed.open(encoding="utf-8", newline="") as old, changed.open("w", encoding="utf-8", newline="") as new:
        rows = csv.DictReader(old)
        assert rows.fieldnames is not None
        writer = csv.DictWriter(new, rows.fieldnames)
        writer.writeheader()
        writer.writerows(row for number, row in enumerate(rows) if change(number, row))
    changed.replace(feed)


def _with_other_prices(feed: Path) -> None:
    def change(number: int, row: dict[str, str]) -> bool:
        row["price"] = str(5_000 + number % 1_000)
        return True

    _rewrite(feed, change)


def _without_a_tenth(feed: Path) -> None:
    _rewrite(feed, lambda number, _: number % 10 != 0)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    rows = parser.parse_args().rows
    table = Table("Import", "Seconds", "Rows/s", "Leads", "Median ms", "p99 ms", "Longest ms")
    for delays in measured_delays(rows):
        rate = "" if delays.name == "no import" else f"{rows / delays.seconds:,.0f}"
        figures = (f"{value:,.1f}" for value in (delays.share(0.5), delays.share(0.99), delays.sorted_ms[-1]))
        table.add_row(delays.name, f"{delays.seconds:,.1f}", rate, f"{len(delays.sorted_ms):,}", *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
