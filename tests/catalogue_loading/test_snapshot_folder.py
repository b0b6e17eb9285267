"""In an installation every snapshot is a file, which the processes of a machine share."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.logs import captured_logs
from tests.server.dealership import LOT, set_up

from dealer_agent.catalogue_loading import snapshot_loader
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotError, SnapshotLoader
from dealer_agent.config import load_settings
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.protocol.requests import Filters
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NOW = datetime.now(UTC)

OTHER_PROCESS = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from dealer_agent.catalogue_loading.snapshot_folder import SnapshotFolder
from dealer_agent.catalogue_loading.snapshot_loader import SnapshotLoader
from dealer_agent.config import load_settings
from dealer_agent.storage.store import Store

settings = load_settings(Path(sys.argv[1]), {})
folder = SnapshotFolder(Path(sys.argv[1]) / "snapshots")
file = folder.file_of(settings.dealer.id)
if len(sys.argv) > 2:
    Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Store.open(settings.database_url, settings.cipher) as store:
    loader = SnapshotLoader(store, settings.database_url, settings.dealer, file, folder)
    loaded = loader.load(datetime.now(UTC))
mapped = [line.split()[4] for line in open("/proc/self/maps") if line.rstrip().endswith(str(file))]
print(len(loaded.catalogue), *mapped)
"""


class SampleDealer:
    """The dealer of a folder, with snapshots as in an installation."""

    def __init__(self, folder: Path) -> None:
        self.settings = load_settings(folder, {})
        self.store = Store.open(self.settings.database_url, self.settings.cipher)
        self.path = folder / "snapshots"
        self.folder = SnapshotFolder(self.path)
        self.file = self.folder.file_of(self.settings.dealer.id)

    def loader(self) -> SnapshotLoader:
        return SnapshotLoader(self.store, self.settings.database_url, self.settings.dealer, self.file, self.folder)

    def bring_in(self, count: int) -> None:
        feed = read_feed(json.dumps(LOT[:count]).encode())
        import_feed(self.store, self.settings.dealer, feed, source="lot.json", at=datetime.now(UTC), accept=EVERY_CHECK)

    def suffixes(self) -> set[str]:
        return {path.suffix for path in self.path.iterdir()}


@pytest.fixture
def sample_dealer(tmp_path: Path, stocked: Path) -> Iterator[SampleDealer]:
    set_up(tmp_path / "sample_dealer", stocked=stocked)
    made = SampleDealer(tmp_path / "sample_dealer")
    yield made
    made.store.close()


def load_in_other_process(sample_dealer: SampleDealer, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", OTHER_PROCESS, str(sample_dealer.path.parent), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@contextmanager
def writing_at_most(size: int) -> Iterator[None]:
    """As on a full disk: the system refuses to write more bytes to a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_loader, "write_stock", None)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="GAP: this system does not list mapped files")
def test_processes_map_one_file(sample_dealer: SampleDealer) -> None:
    loaded = sample_dealer.loader().load(NOW)
    inode = str(sample_dealer.file.stat().st_ino)
    other = load_in_other_process(sample_dealer)
    assert other.stdout.split() == [str(len(loaded.catalogue)), inode], other.stderr
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert [line.split()[4] for line in maps if line.endswith(str(sample_dealer.file))] == [inode]


def test_a_current_file_is_only_mapped(sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch) -> None:
    built = sample_dealer.loader().load(NOW)
    no_build(monkeypatch)
    mapped = sample_dealer.loader().load(NOW)
    assert (mapped.revision, mapped.at, mapped.size) == (built.revision, built.at, sample_dealer.file.stat().st_size)
    for filters in (Filters(), Filters(query="honda accord"), Filters(price_min=3050)):
        assert mapped.catalogue.search(filters, 0, 200) == built.catalogue.search(filters, 0, 200)
        assert mapped.catalogue.facets(filters) == built.catalogue.facets(filters)
    assert sample_dealer.suffixes() == {".bin", ".lock"}


def test_a_new_stock_replaces_the_file(sample_dealer: SampleDealer) -> None:
    old = sample_dealer.loader().load(NOW)
    before = old.catalogue.search(Filters(), 0, 200)
    sample_dealer.bring_in(20)
    assert len(sample_dealer.loader().load(NOW).catalogue) == 20
    assert old.catalogue.search(Filters(), 0, 200) == before


def test_a_killed_build_leaves_nothing_that_is_used(sample_dealer: SampleDealer) -> None:
    killed = load_in_other_process(sample_dealer, "killed")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert sample_dealer.suffixes() == {".part", ".lock"}
    assert len(sample_dealer.loader().load(NOW).catalogue) == len(LOT)
    assert sample_dealer.suffixes() == {".bin", ".lock"}


def test_a_small_file_is_not_used_after_the_next_boot(
    sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be incomplete after a boot: nothing waited for the disk."""
    sample_dealer.loader().load(NOW)
    before = sample_dealer.file.stat().st_ino
    kept = sample_dealer.file.open("rb")
    monkeypatch.setattr(snapshot_loader, "boot_id", lambda: "another boot")
    sample_dealer.loader().load(NOW)
    assert sample_dealer.file.stat().st_ino != before
    kept.close()


def test_on_a_full_disk_the_snapshot_is_in_memory(sample_dealer: SampleDealer) -> None:
    with captured_logs() as lines:
        with writing_at_most(1000):
            loaded = [sample_dealer.loader().load(NOW) for _ in range(3)]
        sample_dealer.loader().load(NOW)
    assert [len(each.catalogue) for each in loaded] == [len(LOT)] * 3
    assert [line["event"] for line in lines] == [
        "snapshots are kept in the memory of each process",
        "snapshots are files again",
    ]
    assert ".bin" in sample_dealer.suffixes()


def test_without_a_folder_the_snapshot_is_in_memory(sample_dealer: SampleDealer) -> None:
    sample_dealer.path.write_text("a file")
    with captured_logs() as lines:
        assert len(sample_dealer.loader().load(NOW).catalogue) == len(LOT)
    assert [line["log_level"] for line in lines] == ["error"]


def test_a_large_snapshot_needs_a_file(sample_dealer: SampleDealer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_loader, "SMALL_SHARED", 0)
    sample_dealer.loader().load(NOW)
    assert sample_dealer.suffixes() == {".bin", ".lock"}
    sample_dealer.file.unlink()
    (sample_dealer.path / f"{sample_dealer.settings.dealer.id}.lock").unlink()
    sample_dealer.path.rmdir()
    sample_dealer.path.write_text("a file")
    with captured_logs(), pytest.raises(SnapshotError, match="cannot be written"):
        sample_dealer.loader().load(NOW)


def test_files_of_removed_dealers_are_deleted(sample_dealer: SampleDealer) -> None:
    sample_dealer.loader().load(NOW)
    for name in ("gone.bin", "gone.old", "gone.part", "gone.lock", "busiest.json"):
        (sample_dealer.path / name).touch()
    sample_dealer.folder.delete_except({sample_dealer.settings.dealer.id})
    dealer = sample_dealer.settings.dealer.id
    assert {path.name for path in sample_dealer.path.iterdir()} == {f"{dealer}.bin", f"{dealer}.lock", "busiest.json"}
