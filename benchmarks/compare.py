"""The cost of a request of this tree beside that of an earlier one, in one run: `python -m benchmarks.compare`.

Both services have one worker, on the same core. They are loaded in turn, round after round. The ratio of processor time
is taken within a round, and then the median of the rounds: other work of the machine disturbs both alike.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.buyers import LOADS, asks, post
from benchmarks.lead_requests import lead_requests
from benchmarks.machine import measured_commits
from benchmarks.servers import Server, dealer_agent
from benchmarks.wire import write_stock
from benchmarks.wrk import measure, require_wrk, write_requests

LEAD = "lead.submit"
COMPARED = ("inventory.search", "inventory.vehicle", "inventory.facets", LEAD)
VEHICLES = 1_000
ROUNDS, SECONDS = 6, 1
LEADS_A_SECOND = 4_000
"""More than a worker takes."""
MOST = 1.3
"""The highest ratio that passes. Two processes of one tree differ by up to a tenth."""
ROOT = Path(__file__).parents[1]
_MAKE = "import sys, pathlib, benchmarks.dealership as d; d.make_dealer(pathlib.Path(sys.argv[1]), int(sys.argv[2]))"


def main() -> None:
    """Prints the ratios. Exits with 1 if one is above MOST, and with 0 if there is nothing to compare with."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--before", help="a commit; by default the one in which the leads of the README were measured")
    before = parser.parse_args().before or measured_commits()["leads"]
    require_wrk()
    with tempfile.TemporaryDirectory() as folder:
        try:
            earlier = unpacked(before, Path(folder) / "earlier")
        except LookupError as problem:
            print(f"Nothing to compare with: {problem}")
            return
        ratios = _ratios({before: earlier, "this tree": ROOT}, Path(folder))
    table = Table("Request", f"Processor time, of that of {before}", "Lowest and highest round")
    for name, found in ratios.items():
        table.add_row(name, f"{median(found):.2f}", f"{min(found):.2f} to {max(found):.2f}")
    Console().print(table)
    if slower := [name for name, found in ratios.items() if median(found) > MOST]:
        sys.exit(f"More than {MOST} times as dear as in {before}: {', '.join(slower)}. Find the commit with --before.")


def unpacked(commit: str, folder: Path) -> Path:
    """The sources and benchmarks of a commit. Raises LookupError if the history does not have it."""
    packed = subprocess.run(["git", "archive", commit, "src", "benchmarks"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise LookupError(f"this history has no commit {commit}")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _ratios(trees: Mapping[str, Path], folder: Path) -> dict[str, list[float]]:
    """By request, this tree's processor time over that of the earlier one, in each round."""
    ratios: dict[str, list[float]] = {name: [] for name in COMPARED}
    with ExitStack() as running:
        servers = []
        for number, tree in enumerate(trees.values()):
            # `-P` keeps the current folder, which has the benchmarks of this tree, out of the import path.
            env, dealer = {"PYTHONPATH": f"{tree / 'src'}:{tree}"}, folder / f"dealer-{number}"
            subprocess.run([sys.executable, "-P", "-c", _MAKE, str(dealer), str(VEHICLES)], env=env, check=True)
            servers.append(running.enter_context(dealer_agent(dealer, env=env)))
        requests = _requests(servers[-1], folder)
        for number in range(ROUNDS):
            for name in COMPARED:
                sent = requests[name][number % len(requests[name])]
                write_requests(folder / "requests", sent)
                # In turn, as the second load may find a warmer machine.
                turns = servers if number % 2 else servers[::-1]
                costs = {each.port: measure(each, folder / "requests", seconds=SECONDS).cpu for each in turns}
                ratios[name].append(costs[servers[1].port] / costs[servers[0].port])
    return ratios


def _requests(server: Server, folder: Path) -> dict[str, list[Sequence[bytes]]]:
    """By request, what is sent in each round. Each round of leads has other customers."""
    stock = write_stock(server, folder)
    found: dict[str, list[Sequence[bytes]]] = {
        name: [[post(ask.body) for ask in asks(LOADS[name], stock)]] for name in COMPARED if name != LEAD
    }
    vins = [str(unit["vin"]) for unit in stock if "vin" in unit]
    leads = list(lead_requests(vins, datetime.now(UTC), ROUNDS * SECONDS * LEADS_A_SECOND))
    size = len(leads) // ROUNDS
    return {**found, LEAD: [leads[number * size :][:size] for number in range(ROUNDS)]}


if __name__ == "__main__":
    main()
