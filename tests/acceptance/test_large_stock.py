"""A stock that is too large for a worker to prepare: a process of its own makes it, and every worker shows it."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, serving, start, succeed_here
from tests.acceptance.test_workers import in_every_worker

from dealer_agent.catalogue_loading.snapshot_loader import FILE, SMALL

pytestmark = pytest.mark.outside_protocol("how a large stock is loaded")

MANY = SMALL + 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocked_dealer(tmp_path_factory.mktemp("large"), "", generation(0, MANY))


def import_stock(running: Running, number: int, size: int) -> None:
    feed = write_feed(running.folder / f"{number}.json", generation(number, size))
    succeed_here("inventory", "import", feed, "--dir", running.folder)


HOLDING = """
import os, signal, subprocess, sys
from dealer_agent.cli import main

hold = sys.argv.pop(1)

class Held(subprocess.Popen):
    def __init__(self, command, **more):
        super().__init__(command, **more)
        if command[-1].endswith(".snapshot_process") and os.path.exists(hold):
            self.send_signal(signal.SIGSTOP)

subprocess.Popen = Held
main()
"""
"""The service whose processes that prepare a stock stand still before they know what to do, while a file exists."""


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    return tmp_path / "hold"


def holding(hold: Path) -> tuple[str, ...]:
    return sys.executable, "-c", HOLDING, str(hold)


def builders(running: Running) -> Iterator[int]:
    """The snapshot builders of this service."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            ours = int(parent) in (running.process.pid, *running.workers())
            if ours and b".snapshot_process" in process.joinpath("cmdline").read_bytes():
                yield int(process.name)
        except OSError:
            continue  # It has ended.


def total(running: Running) -> int:
    found: int = asked(running.url, "inventory.search")["total"]
    return found


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("catalogue-snapshot.*")}


@pytest.mark.soak
def test_both_workers_show_it_and_what_an_import_made_of_it(folder: Path) -> None:
    """See docs/protocol.md#listings."""
    with serving(folder, workers=2) as running:
        in_every_worker(running, "the stock", lambda: total(running) == MANY)
        import_stock(running, 1, MANY + 100)
        in_every_worker(running, "the import", lambda: total(running) == MANY + 100)
        assert files(folder) == {FILE, "catalogue-snapshot.lock", "catalogue-snapshot.old"}


@pytest.mark.soak
def test_when_the_process_is_killed_the_old_stock_stays_and_the_new_one_is_made_at_the_next_attempt(
    folder: Path, hold: Path
) -> None:
    with serving(folder, program=holding(hold)) as running:
        before = total(running)
        hold.touch()
        import_stock(running, 2, MANY + 200)
        builder = eventually("a snapshot builder runs", lambda: next(builders(running), None))
        assert total(running) == before
        hold.unlink()
        os.kill(builder, signal.SIGKILL)
        eventually("it is missed", lambda: "ended by signal 9" in running.stderr())
        eventually("the import", lambda: total(running) == MANY + 200)
        assert running.stderr().count('"event":"refresh failed"') == 1


@pytest.mark.soak
def test_a_service_that_was_killed_during_a_snapshot_leaves_no_files_behind(folder: Path, hold: Path) -> None:
    running = start(folder, program=holding(hold))
    hold.touch()
    import_stock(running, 3, MANY + 300)
    builder = eventually("a snapshot builder runs", lambda: next(builders(running), None))
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait(PATIENCE_SECONDS)
    os.kill(builder, signal.SIGCONT)
    eventually("its process has ended", lambda: not Path(f"/proc/{builder}").exists())
    with serving(folder) as again:
        assert total(again) == MANY + 300
        assert files(folder) <= {FILE, "catalogue-snapshot.lock", "catalogue-snapshot.old"}
