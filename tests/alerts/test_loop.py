"""The checks of processes: of several that run at once, and of one whose database goes away."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.alerts.watched import DAY, MINUTE, Watched, watching
from tests.storage.calls import write_at
from tests.storage.current import make_current
from tests.storage.samples import DEALER, VAULT

from dealer_agent.alerts.checking import run_check, send_due
from dealer_agent.alerts.loop import AlertLoop
from dealer_agent.storage.alerts import count_failed_leads
from dealer_agent.storage.errors import DatabaseFailure
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("alerts")

NOW = datetime(2026, 3, 2, 16, 0, tzinfo=UTC)
OFF = ("clock_wrong", "disk_low", "key_copy_unknown", "database_slow")


def test_of_three_processes_that_check_at_once_one_sends(dealer: Watched) -> None:
    write_at(NOW, dealer.store, DEALER, count_failed_leads, 1, DAY)
    with ExitStack() as closing, ThreadPoolExecutor(3) as threads:
        stores = [closing.enter_context(Store.open(dealer.url, VAULT)) for _ in range(3)]
        watch = dealer.watch(machine=True, off=OFF)

        def step(process: int, now: datetime) -> bool:
            done = run_check(stores[process], watch, now, now + MINUTE)
            asyncio.run(send_due(stores[process], watch, now))
            return done

        for minute in range(5):
            now = NOW + minute * MINUTE
            assert sum(threads.map(lambda process, now=now: step(process, now), range(3))) == 1
    assert len(dealer.subjects()) == len(dealer.posted()) == 1


@pytest.fixture
def on_sqlite(tmp_path: Path, sqlite_url: str) -> Iterator[Watched]:
    make_current(sqlite_url)
    with Store.open(sqlite_url, VAULT) as store:
        store.check_keys(DEALER)
        with watching(sqlite_url, store, tmp_path) as watched:
            yield watched


def test_a_process_whose_database_goes_away_says_so_and_loses_no_failed_lead(
    on_sqlite: Watched, tmp_path: Path
) -> None:
    dealer, failed = on_sqlite, Counter[str]()
    loop = AlertLoop(dealer.store, failed, dealer.watch(machine=True, off=OFF))
    asyncio.run(loop.run_due(NOW))
    file = Path(dealer.url.removeprefix("sqlite:///"))
    file.rename(tmp_path / "away.db")
    for minute in range(1, 5):
        failed[DEALER] += 1
        with pytest.raises(DatabaseFailure):
            asyncio.run(loop.run_due(NOW + minute * MINUTE))
    assert dealer.subjects() == ["The database does not answer since Monday, March 2, 2026, 10:01 AM CST"]
    (tmp_path / "away.db").rename(file)
    for minute in range(5, 9):
        asyncio.run(loop.run_due(NOW + minute * MINUTE))
    assert failed == {}
    assert dealer.subjects()[1:] == [
        "4 leads could not be stored, the last one at Monday, March 2, 2026, 10:05 AM CST",
        "The database answers again",
    ]
