"""The checks of processes: of several that run at once, and of one whose database goes away."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.alerts.watched import DAY, MINUTE, Watched, do_jobs, watching
from tests.servers.small_disk import fill, small_disk
from tests.storage.calls import write_at
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER

from dealer_agent.alerts.machine import MachineAlerts
from dealer_agent.storage.alerts import count_failed_leads
from dealer_agent.storage.errors import DatabaseFailure
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
OFF = ("clock_wrong", "disk_low", "key_copy_unknown", "database_slow")


def test_of_three_processes_that_check_at_once_one_sends(dealer: Watched) -> None:
    write_at(NOW, dealer.store, DEALER, count_failed_leads, 1, DAY)
    with ExitStack() as closing, ThreadPoolExecutor(3) as threads:
        stores = [closing.enter_context(Store.open(dealer.url, CIPHER)) for _ in range(3)]
        watch = dealer.watch(machine=True, off=OFF)

        for minute in range(5):
            for _ in threads.map(do_jobs, stores, [watch] * 3, [NOW + minute * MINUTE] * 3):
                pass
    assert len(dealer.subjects()) == len(dealer.posted()) == 1


@pytest.fixture
def on_sqlite(tmp_path: Path, sqlite_url: str) -> Iterator[Watched]:
    make_current(sqlite_url)
    with Store.open(sqlite_url, CIPHER) as store:
        store.check_keys(DEALER)
        with watching(sqlite_url, store, tmp_path) as watched:
            yield watched


def test_a_process_whose_database_goes_away_says_so_and_loses_no_failed_lead(
    on_sqlite: Watched, tmp_path: Path
) -> None:
    dealer, failed = on_sqlite, Counter[str]()
    watch = dealer.watch(machine=True, off=OFF)
    machine = MachineAlerts(dealer.store, failed, watch)
    asyncio.run(machine.note(NOW))
    file = Path(dealer.url.removeprefix("sqlite:///"))
    file.rename(tmp_path / "away.db")
    for minute in range(1, 5):
        failed[DEALER] += 1
        with pytest.raises(DatabaseFailure):
            asyncio.run(machine.note(NOW + minute * MINUTE))
    assert dealer.subjects() == ["The database does not answer since Monday, March 2, 2026, 10:01 AM CST"]
    (tmp_path / "away.db").rename(file)
    for minute in range(5, 9):
        asyncio.run(machine.note(NOW + minute * MINUTE))
        do_jobs(dealer.store, watch, NOW + minute * MINUTE)
    assert failed == {}
    assert dealer.subjects()[1:] == [
        "4 leads could not be stored, the last one at Monday, March 2, 2026, 10:05 AM CST",
        "The database answers again",
    ]


def test_on_a_full_disk_the_loop_goes_on_and_its_mail_names_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as folder, ExitStack() as closing:
        url = f"sqlite:///{folder}/dealer.db"
        make_current(url)
        store = closing.enter_context(Store.open(url, CIPHER))
        store.check_keys(DEALER)
        dealer = closing.enter_context(watching(url, store, folder))
        failed = Counter({DEALER: 1})
        # Two processes of the machine.
        watch = dealer.watch(machine=True, off=OFF)
        processes = [MachineAlerts(store, failed, watch) for _ in range(2)]
        fill(folder / "filler")
        for minute in range(5):
            for process in processes:
                with pytest.raises(DatabaseFailure):
                    asyncio.run(process.note(NOW + minute * MINUTE))
        (subject,) = dealer.subjects()
        assert subject.startswith(f"The disk of {folder} is full since ")
        assert "Delete what is not needed on this disk, or enlarge it" in " ".join(dealer.text().split())
        (folder / "filler").unlink()
        for minute in range(5, 9):
            for process in processes:
                asyncio.run(process.note(NOW + minute * MINUTE))
            do_jobs(store, watch, NOW + minute * MINUTE)
        assert failed == {}
        assert sorted(dealer.subjects()[1:]) == [
            "1 lead could not be stored, the last one at Monday, March 2, 2026, 10:05 AM CST",
            f"The disk of {folder} has space again",
        ]
        assert "disk_full" in {state.condition for state in dealer.states()}
