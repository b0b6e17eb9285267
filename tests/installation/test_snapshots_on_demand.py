"""Dealers are loaded at their first request, closed by least recent use, and opened again after a restart."""

import gc
import json
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import INSTALLATION_TOML, add, make_installation, run_installation

from dealer_agent.bootstrap.composition import BUSIEST_FILE
from dealer_agent.catalogue_loading import snapshot_loader
from dealer_agent.config.installation import SNAPSHOTS, Installation, load_installation
from dealer_agent.server import dealer_memory

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

DEALERS = [f"dealer-{number}" for number in range(10)]


def feed(count: int) -> bytes:
    units = [{"stock": f"N{number}", "year": 2020, "make": "Honda", "condition": "used"} for number in range(count)]
    return json.dumps(units).encode()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an installation, which tests copy."""
    made = make_installation(tmp_path_factory.mktemp("made"), INSTALLATION_TOML + "snapshot_memory_mib = 1\n")
    for number, dealer in enumerate(DEALERS, 1):
        add(made, dealer, feed(number))
    yield made.folder
    # A service has excluded its dealers from garbage collection. What lives longer stays excluded.
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture
def installation(made_once: Path, tmp_path: Path) -> Installation:
    return load_installation(shutil.copytree(made_once, tmp_path / "platform"), {})


def test_dealers_are_closed_when_the_budget_is_exceeded(installation: Installation) -> None:
    with run_installation(installation) as running:
        dealers = running.app.dealers
        most = 0
        for _ in range(2):
            for number, dealer in enumerate(DEALERS, 1):
                assert running.get(f"/d/{dealer}/readyz").json()["vehicles"] == number
                most = max(most, len(dealers.opened))
        assert 1 < most < len(DEALERS)
        sizes = [service.stock_bytes + dealer_memory.OPENED_BYTES for service in dealers.opened.values()]
        assert sum(sizes) <= 1024 * 1024


def test_a_closed_dealer_is_freed_without_the_garbage_collector(installation: Installation) -> None:
    with run_installation(installation) as running:
        dealers = running.app.dealers
        for path in ("/readyz", "/docs", "/.well-known/agent-card.json"):
            assert running.get(f"/d/{DEALERS[0]}{path}").status_code == 200
        gc.collect()
        gc.disable()
        try:
            service = weakref.ref(dealers.opened[DEALERS[0]])
            dealers.close(DEALERS[0])
            eventually("it happens", lambda: service() is None)
        finally:
            gc.enable()


def test_files_are_used_after_a_restart(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with run_installation(installation) as running:
            for dealer in DEALERS:
                assert running.get(f"/d/{dealer}/readyz").status_code == 200
        monkeypatch.setattr(snapshot_loader, "write_stock", None)
    folder = installation.folder / SNAPSHOTS
    assert {file.stem for file in folder.glob("*.bin")} == set(DEALERS)


def test_the_busiest_dealers_are_opened_after_a_restart(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dealer_memory, "NOTE_SECONDS", 0.05)
    monkeypatch.setattr(dealer_memory, "WRITE_SECONDS", 0.05)
    busiest, other = DEALERS[3], DEALERS[1]
    file = installation.folder / SNAPSHOTS / BUSIEST_FILE

    def use(dealer: str) -> float:
        return dealer_memory.read_uses(file).get(dealer, 0.0)

    with run_installation(installation) as running:
        running.get(f"/d/{other}/readyz")
        eventually(
            "it happens", lambda: bool(running.get(f"/d/{busiest}/readyz")) and use(busiest) > 3 > use(other) > 0
        )
    with run_installation(installation) as running:
        eventually("it happens", lambda: list(running.app.dealers.opened) == [busiest, other])
        # The least busy one is closed first, once both are known not to be used yet.
        opened = running.app.dealers.opened
        eventually("it happens", lambda: opened[other].used_at < opened[busiest].used_at)
        assert running.get(f"/d/{busiest}/readyz").json()["vehicles"] == 4
