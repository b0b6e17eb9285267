"""The processor time of an import beside that of an earlier tree, in one run: `python -m benchmarks.import_costs`.

Three imports of a dealer: the first, the same file again, and the file with other prices of 5 % of the units. Each tree
is measured in turn, round after round, with SQLite and with PostgreSQL. The time of PostgreSQL's server is not counted.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.compare import ROOT, unpacked
from benchmarks.databases import both
from benchmarks.imports import write_feed

ROWS, ROUNDS = 100_000, 3
_CHANGED = 20
"""One price in so many is another one in the changed file."""
_MAKE = "import sys, os, pathlib, benchmarks.imports as i; i.make_dealer(pathlib.Path(sys.argv[1]), os.environ)"
_IMPORTS = {"first": "feed.csv", "the same file": "feed.csv", "5 % changed": "changed.csv"}


def main() -> None:
    """Prints the medians."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.import_costs", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("before", help="a commit")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    # By database, import and tree: the microseconds of each round.
    found: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name, both() as databases:
        folder = Path(name)
        trees = {asked.before: unpacked(asked.before, folder / "earlier"), "this tree": ROOT}
        _write_feeds(folder, asked.rows)
        for database in databases:
            for number in range(asked.rounds):
                # In turn, as the second may find a warmer machine.
                for tree, place in list(trees.items())[:: 1 if number % 2 else -1]:
                    dealer = folder / f"{database.name}-{number}-{tree}"
                    dealer.mkdir(mode=0o700)
                    with database.opened(dealer) as opened:
                        env = {**os.environ, "PYTHONPATH": f"{place / 'src'}:{place}", **opened.env}
                        subprocess.run([sys.executable, "-P", "-c", _MAKE, str(dealer)], env=env, check=True)
                        for what, file in _IMPORTS.items():
                            micros = _cpu_seconds(folder / file, dealer, env) * 1e6 / asked.rows
                            found.setdefault((database.name, what, tree), []).append(micros)
    table = Table("Database", "Import", "Tree", "Processor time of a row, µs", "Lowest and highest round")
    for key, rounds in found.items():
        table.add_row(*key, f"{median(rounds):.0f}", f"{min(rounds):.0f} to {max(rounds):.0f}")
    Console().print(table)


def _write_feeds(folder: Path, rows: int) -> None:
    write_feed(folder / "feed.csv", rows)
    with (folder / "feed.csv").open(newline="") as before, (folder / "changed.csv").open("w", newline="") as after:
        reader, writer = csv.DictReader(before), csv.writer(after)
        writer.writerow(reader.fieldnames or ())
        for number, row in enumerate(reader):
            if row["price"] and number % _CHANGED == 0:
                row["price"] = str(int(row["price"]) - 500)
            writer.writerow(row.values())


def _cpu_seconds(feed: Path, dealer: Path, env: dict[str, str]) -> float:
    """The processor seconds of an import, with its start."""
    command = [sys.executable, "-P", "-m", "dealer_agent.cli", "inventory", "import", str(feed), "--dir", str(dealer)]
    with Path(os.devnull).open("wb") as nowhere:
        output = [(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        _, status, used = os.wait4(os.posix_spawn(command[0], command, env, file_actions=output), 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
