"""Workers make small snapshots themselves, and map the file of a large one, which a process writes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.patching import replace_in
from tests.server.dealership import LOT, set_up

from dealer_agent.catalogue_loading import child_processes, snapshot_loader, snapshot_process
from dealer_agent.catalogue_loading.child_processes import ChildJob
from dealer_agent.catalogue_loading.listings import listing_policy
from dealer_agent.catalogue_loading.snapshot_loader import FILE, SnapshotError, SnapshotLoader
from dealer_agent.catalogue_loading.snapshot_process import SnapshotJob
from dealer_agent.catalogue_loading.snapshots import SnapshotInputs, write_stock
from dealer_agent.config import Settings, load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.protocol.requests import Filters
from dealer_agent.storage.store import Store

NOW = datetime.now(UTC)
OLD = "catalogue-snapshot.old"


class SampleDealer:
    """A dealer with a store, whose loaders treat any stock as a large one."""

    def __init__(self, folder: Path, stocked: Path) -> None:
        set_up(folder, stocked=stocked)
        self.folder = folder
        self.settings: Settings = load_settings(folder, {})
        self.store = Store.open(self.settings.database_url, self.settings.cipher)

    def loader(self) -> SnapshotLoader:
        return SnapshotLoader(self.store, self.settings.database_url, self.settings.dealer, self.folder / FILE)

    def bring_in(self, count: int) -> None:
        """An import of the first units of the lot."""
        feed = read_feed(json.dumps(LOT[:count]).encode())
        import_feed(self.store, self.settings.dealer, feed, source="lot.json", at=datetime.now(UTC), accept=EVERY_CHECK)


@pytest.fixture
def sample_dealer(tmp_path: Path, stocked: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SampleDealer]:
    monkeypatch.setattr(snapshot_loader, "SMALL", 0)
    monkeypatch.setattr(snapshot_loader, "REST_SECONDS", 0.0)
    made = SampleDealer(tmp_path / "sample_dealer", stocked)
    yield made
    made.store.close()


@pytest.fixture
def snapshot_made_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot is made in this process, for tests of what is done with it. The start of a process takes longer."""

    def run(_: ChildJob, _module: str, job: SnapshotJob, **_more: Any) -> tuple[int, str]:
        snapshot_process.make(job)
        return 0, ""

    monkeypatch.setattr(ChildJob, "run", run)


def files(sample_dealer: SampleDealer) -> set[str]:
    return {path.name for path in sample_dealer.folder.glob("catalogue-snapshot.*")}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """From now on the process that makes a snapshot stops as soon as it is there; answers with its id."""
    started: list[int] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **more: Any) -> Any:
        process = popen(*arguments, **more)
        process.send_signal(signal.SIGSTOP)
        started.append(process.pid)
        return process

    replace_in(monkeypatch, child_processes, "subprocess", Popen=start)

    def the_process() -> int:
        deadline = time.monotonic() + 120
        while not started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return started[-1]

    return the_process


class Loading(threading.Thread):
    """A load under way, and how it ended."""

    def __init__(self, loader: SnapshotLoader) -> None:
        super().__init__(daemon=True)
        self.ended: Any = None
        self._loader = loader
        self.start()

    def run(self) -> None:
        try:
            self.ended = self._loader.load(NOW)
        except Exception as fault:  # noqa: BLE001 - looked at by the test.
            self.ended = fault


def test_a_process_makes_the_same_snapshot_as_the_worker(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = sample_dealer.loader().load(NOW)
    monkeypatch.setattr(snapshot_loader, "SMALL", 1000)
    here = sample_dealer.loader().load(NOW)
    assert (mapped.revision, mapped.at, len(mapped.catalogue)) == (here.revision, here.at, len(LOT))
    for filters in (Filters(), Filters(query="honda accord"), Filters(price_min=3050), Filters(vin=LOT[0]["vin"])):
        assert mapped.catalogue.search(filters, 0, 200) == here.catalogue.search(filters, 0, 200)
        assert mapped.catalogue.facets(filters) == here.catalogue.facets(filters)
    gone = {"vin": "1FTEW1EP0LFA00001"}
    assert mapped.catalogue.find(**gone) == here.catalogue.find(**gone) is not None


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_a_small_stock_needs_no_file_and_takes_away_that_of_a_larger_one(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_loader, "SMALL", 10)
    loader = sample_dealer.loader()
    loader.load(NOW)
    assert FILE in files(sample_dealer)
    sample_dealer.bring_in(11)
    loader.load(NOW)
    assert OLD in files(sample_dealer)
    sample_dealer.bring_in(10)
    assert len(loader.load(NOW).catalogue) == 10
    assert not {FILE, OLD} & files(sample_dealer)


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_the_file_before_keeps_a_name_as_long_as_anybody_may_look_at_it(sample_dealer: SampleDealer) -> None:
    """Else who looks at it last would give its gigabyte back to the system, instead of answering."""
    loader = sample_dealer.loader()
    loader.load(NOW)
    assert OLD not in files(sample_dealer)
    for count in (20, 10, 5):
        before = (sample_dealer.folder / FILE).stat()
        sample_dealer.bring_in(count)
        assert len(loader.load(NOW).catalogue) == count
        assert (sample_dealer.folder / OLD).stat().st_ino == before.st_ino


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_the_file_is_its_owners_alone(sample_dealer: SampleDealer) -> None:
    sample_dealer.loader().load(NOW)
    assert {(sample_dealer.folder / name).stat().st_mode & 0o777 for name in files(sample_dealer)} == {0o600}


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_a_second_worker_maps_what_the_first_one_had_made(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sample_dealer.loader().load(NOW)
    monkeypatch.setattr(ChildJob, "run", None)
    second = sample_dealer.loader().load(NOW)
    assert second.revision == first.revision
    assert second.catalogue.search(Filters(), 0, 5) == first.catalogue.search(Filters(), 0, 5)


def test_two_workers_that_want_one_stock_have_it_made_once(
    sample_dealer: SampleDealer, held: Callable[[], int]
) -> None:
    first = Loading(sample_dealer.loader())
    maker = held()
    second = Loading(sample_dealer.loader())
    time.sleep(0.2)
    assert held() == maker
    os.kill(maker, signal.SIGCONT)
    first.join(120)
    second.join(120)
    assert held() == maker
    assert first.ended.revision == second.ended.revision == 2


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_a_worker_keeps_the_old_snapshot_until_it_loads_the_new_one(sample_dealer: SampleDealer) -> None:
    loader = sample_dealer.loader()
    old = loader.load(NOW)
    before = old.catalogue.search(Filters(), 0, 200)
    sample_dealer.bring_in(60)
    new = loader.load(NOW)
    assert (new.revision, len(new.catalogue)) == (old.revision + 1, 60)
    assert old.catalogue.search(Filters(), 0, 200) == before
    assert files(sample_dealer) == {FILE, OLD, "catalogue-snapshot.lock"}


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_written_goes_to_the_disk_meanwhile_and_not_all_at_the_end(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Else the commits of leads would wait behind a gigabyte."""
    synced = threading.Event()

    def sync(_file: int) -> None:
        synced.set()
        if fails:
            raise OSError(5, "Input/output error")

    def written(*given: Any) -> None:
        assert synced.wait(60)
        write_stock(*given)

    monkeypatch.setattr(snapshot_process, "_SYNC_SECONDS", 0.0)
    replace_in(monkeypatch, snapshot_process, "os", fdatasync=sync)
    monkeypatch.setattr("dealer_agent.catalogue_loading.snapshot_process.write_stock", written)
    inputs = SnapshotInputs(listing_policy(sample_dealer.settings.dealer), 30)
    file = sample_dealer.folder / FILE
    snapshot_process.make(
        SnapshotJob(sample_dealer.settings.database_url, inputs, NOW, str(file.with_suffix(".part")), str(file))
    )
    assert file.stat().st_size > 1000


@pytest.mark.usefixtures("snapshot_made_in_this_process")
@pytest.mark.parametrize("change", ["inputs", "age", "cut off", "something else"])
def test_a_file_that_is_not_of_this_stock_under_this_policy_is_made_anew(
    sample_dealer: SampleDealer, change: str
) -> None:
    sample_dealer.loader().load(NOW)
    file = sample_dealer.folder / FILE
    made = file.stat().st_ino
    later = NOW
    if change == "inputs":
        toml = sample_dealer.folder / "dealer.toml"
        toml.write_text(toml.read_text().replace('feed_price = "advertised"', 'feed_price = "before_fees"'))
        sample_dealer.settings = load_settings(sample_dealer.folder, {})
    elif change == "age":
        later = NOW + timedelta(days=1)
    elif change == "cut off":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        file.write_bytes(b"x" * 5000)
    assert len(sample_dealer.loader().load(later).catalogue) == len(LOT)
    assert file.stat().st_ino != made


def test_a_process_that_is_killed_leaves_the_old_stock_and_the_next_attempt_makes_the_new(
    sample_dealer: SampleDealer, held: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_dealer.bring_in(50)
    loader = sample_dealer.loader()
    loading = Loading(loader)
    os.kill(held(), signal.SIGKILL)
    loading.join(120)
    assert isinstance(loading.ended, SnapshotError)
    assert str(loading.ended) == "the snapshot of the stock was not made: its process was ended by signal 9"
    monkeypatch.undo()
    assert len(loader.load(NOW).catalogue) == 50


def test_a_failure_has_a_safe_message_and_delays_the_next_attempt(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_loader, "REST_SECONDS", 60.0)
    loader = sample_dealer.loader()
    loader._database_url = f"sqlite:///{sample_dealer.folder}/nowhere.db"
    with pytest.raises(SnapshotError, match="not made: "):
        loader.load(NOW)
    with pytest.raises(SnapshotError, match="a moment ago"):
        loader.load(NOW)


@pytest.mark.usefixtures("snapshot_made_in_this_process")
def test_what_a_killed_service_left_unfinished_is_gone_with_the_next_load(sample_dealer: SampleDealer) -> None:
    sample_dealer.loader().load(NOW)
    (sample_dealer.folder / "catalogue-snapshot.part").write_bytes(b"half")
    sample_dealer.loader().load(NOW)
    assert files(sample_dealer) == {FILE, "catalogue-snapshot.lock"}


def test_a_service_that_stops_does_not_wait_for_the_stock(sample_dealer: SampleDealer, held: Callable[[], int]) -> None:
    loader, other = sample_dealer.loader(), sample_dealer.loader()
    loading = Loading(loader)
    maker = held()
    waiting = Loading(other)
    other.close()
    waiting.join(120)
    assert isinstance(waiting.ended, SnapshotError)
    loader.close()
    os.kill(maker, signal.SIGCONT)
    loading.join(120)
    assert isinstance(loading.ended, SnapshotError)
    assert files(sample_dealer) == {"catalogue-snapshot.lock"}


def test_the_process_ends_with_the_service_that_started_it(sample_dealer: SampleDealer) -> None:
    """Also when that was killed: its end of the pipe is closed by the kernel. The job waits for a reader, for ever."""
    loader = sample_dealer.loader()
    unfinished = sample_dealer.folder / "catalogue-snapshot.part"
    os.mkfifo(unfinished)
    job = SnapshotJob(
        sample_dealer.settings.database_url, loader._inputs, NOW, str(unfinished), str(sample_dealer.folder / FILE)
    )
    command = [sys.executable, "-P", "-m", "dealer_agent.catalogue_loading.snapshot_process"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as maker:
        assert maker.stdin is not None
        maker.stdin.write(msgspec.json.encode(job) + b"\n")
        maker.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            maker.wait(1)
        maker.stdin.close()
        assert maker.wait(120) == 1
