"""A stock that is too large for a worker to prepare: a process of its own makes it, and every worker shows it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import generation, stocked_dealer, write_feed
from tests.acceptance.running import Running, eventually, serving, start, succeed
from tests.acceptance.test_workers import in_every_worker

from dealer_agent.stock_room import FILE
from dealer_agent.stock_room.show_room import SMALL

MANY = SMALL + 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stocked_dealer(tmp_path_factory.mktemp("large"), "", generation(0, MANY))


def bring_in(running: Running, number: int, size: int) -> None:
    feed = write_feed(running.folder / f"{number}.json", generation(number, size))
    succeed("inventory", "import", feed, "--dir", running.folder)


def makers(running: Running) -> Iterator[int]:
    """The processes that prepare a stock of this service."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = process.joinpath("stat").read_text().rpartition(")")[2].split()[1]
            ours = int(parent) in (running.process.pid, *running.workers())
            if ours and b"dealer_agent.stock_room" in process.joinpath("cmdline").read_bytes():
                yield int(process.name)
        except OSError:
            continue  # It has ended.


def total(running: Running) -> int:
    found: int = asked(running.url, "inventory.search")["total"]
    return found


def test_both_workers_show_it_and_what_an_import_made_of_it(folder: Path) -> None:
    """Contract 6."""
    with serving(folder, workers=2) as running:
        in_every_worker(running, "the stock", lambda: total(running) == MANY)
        bring_in(running, 1, MANY + 100)
        in_every_worker(running, "the import", lambda: total(running) == MANY + 100)
        assert sorted(path.name for path in folder.glob("stock-on-show.*")) == [FILE, "stock-on-show.lock"]


def test_when_the_process_is_killed_the_old_stock_stays_and_the_new_one_is_made_at_the_next_attempt(
    folder: Path,
) -> None:
    with serving(folder) as running:
        before = total(running)
        bring_in(running, 2, MANY + 200)
        os.kill(eventually("the process is there", lambda: next(makers(running), None), every=0.005), signal.SIGKILL)
        eventually("it is missed", lambda: "ended by signal 9" in running.stderr())
        assert total(running) == before
        eventually("the import", lambda: total(running) == MANY + 200, seconds=60)
        assert running.stderr().count('"event":"refresh failed"') == 1


def test_a_service_that_was_killed_while_its_stock_was_made_leaves_nothing_behind(folder: Path) -> None:
    running = start(folder)
    bring_in(running, 3, MANY + 300)
    maker = eventually("the process is there", lambda: next(makers(running), None), every=0.005)
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait(30)
    eventually("its process has ended", lambda: not Path(f"/proc/{maker}").exists())
    with serving(folder) as again:
        assert total(again) == MANY + 300
        assert sorted(path.name for path in folder.glob("stock-on-show.*")) == [FILE, "stock-on-show.lock"]
