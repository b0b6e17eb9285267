"""The rate of `dealer-agent inventory import` into SQLite, beside Polars with the same file.

    python -m benchmarks.imports [ROWS ...]

Polars splits lines and reads numbers on all cores. The import also interprets and checks every cell, reports problems,
finds the changes, and stores the units in one durable transaction.
"""

import argparse
import csv
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from benchmarks.stock_maker import ROOFTOPS, units
from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.migrate import migrate

SIZES = (1_000_000,)
_COLUMNS = (
    "vin", "stock", "status", "condition", "year", "make", "model", "trim", "msrp", "mileage", "body", "transmission",
    "driveline", "engine", "fuel", "electric_range_mi", "dc_fast_charge", "exterior_color", "interior_color", "vdp_url",
    "description",
)  # fmt: skip
_POLARS = "import sys, polars; print(polars.read_csv(sys.argv[1]).height)"


@dataclass(frozen=True)
class ImportFigure:
    """One reading of a file: rows per second, and the largest memory of its process in MiB."""

    name: str
    rows: int
    seconds: float
    per_second: float
    peak_memory: float
    file_size: float


def import_figures(sizes: Sequence[int] = SIZES) -> list[ImportFigure]:
    """Measures both at all sizes. A million rows take minutes."""
    figures = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            feed = folder / "feed.csv"
            write_feed(feed, size)
            make_dealer(folder)
            ours = [sys.executable, "-m", "dealer_agent.cli", "inventory", "import", str(feed), "--dir", name]
            for title, command in (
                ("dealer-agent inventory import", ours),
                ("Polars reads the file", [sys.executable, "-c", _POLARS, str(feed)]),
            ):
                seconds, peak = measured(command)
                figures.append(ImportFigure(title, size, seconds, size / seconds, peak, feed.stat().st_size / 2**20))
    return figures


def write_feed(path: Path, rows: int) -> None:
    """A generated stock as a file in the canonical layout."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*_COLUMNS, "price", "rooftop", "features", "photos", "feed_updated_at"))
        for unit in map(_plausible, (unit for unit, _ in units(rows))):
            cells = ["" if (value := getattr(unit, name)) is UNSET else value for name in _COLUMNS]
            writer.writerow(
                (
                    *cells,
                    "" if unit.selling_price is UNSET else unit.selling_price,
                    unit.rooftop_hints[0],
                    "|".join(unit.features or ()),
                    "|".join(unit.photos or ()),
                    "" if unit.feed_updated_at is UNSET else unit.feed_updated_at.isoformat(),
                )
            )


def _plausible(unit: Unit) -> Unit:
    """The unit with a price near those of its like, and with a few miles: an import holds others back."""
    assert isinstance(unit.msrp, int)
    assert isinstance(unit.mileage, int)
    msrp = 20_000 + unit.msrp // 2
    price = UNSET if unit.selling_price is UNSET else msrp - 900
    return replace(unit, selling_price=price, msrp=msrp, mileage=unit.mileage // 8 + 200)


def make_dealer(folder: Path, env: Mapping[str, str] | None = None) -> None:
    """Makes a dealer with an empty database. `env` may name another one than the folder's."""
    rooftops = "".join(f'[[rooftops]]\nname = "{name}"\ntimezone = "America/Chicago"\n' for name in ROOFTOPS)
    toml = f'id = "bench"\nname = "Bench Motors"\nfeed_price = "advertised"\n{rooftops}'
    (folder / "dealer.toml").write_text(toml, encoding="utf-8")
    create_key_file(folder)
    settings = load_settings(folder, env or {})
    migrate(settings.database_url)


def measured(command: list[str], env: Mapping[str, str] = os.environ) -> tuple[float, float]:
    """Seconds and peak memory (MiB) of a process, with its start."""
    begun = time.perf_counter()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(command[0], command, env, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, 1)])
    os.close(nowhere)
    _, status, used = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    in_mib = 2**20 if sys.platform == "darwin" else 1024
    return time.perf_counter() - begun, used.ru_maxrss / in_mib


def print_figures(figures: Sequence[ImportFigure], console: Console) -> None:
    """A line for each reading."""
    table = Table("", "Rows", "File MiB", "Seconds", "Rows/s", "Peak memory MiB")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.rows:,}",
            f"{figure.file_size:,.0f}",
            f"{figure.seconds:,.1f}",
            f"{figure.per_second:,.0f}",
            f"{figure.peak_memory:,.0f}",
        )
    console.print(table)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int, default=SIZES)
    print_figures(import_figures(parser.parse_args().rows), Console())


if __name__ == "__main__":
    main()
