"""A change of stock, tokens, settings or hosts is visible in a running installation without a restart."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.acceptance.running import eventually
from tests.installation.platform import DEALERS, add, dealer_toml, make_installation, run_installation
from tests.server.dealership import Dealership, message
from tests.storage.service_role import admin_of

from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.installation.dealer_registry import (
    add_host,
    change_settings,
    remove_dealer,
    remove_host,
    set_state,
)
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = DEALERS


def feed(*numbers: str) -> bytes:
    units = [{"stock": number, "year": 2020, "make": "Honda", "condition": "used"} for number in numbers]
    return json.dumps(units).encode()


@pytest.fixture
def platform(tmp_path: Path, environment: dict[str, str]) -> Iterator[Dealership]:
    installation = make_installation(tmp_path / "installation", env=environment)
    add(installation, NORTH, feed("N1"))
    with run_installation(installation) as running:
        assert running.get(f"/d/{NORTH}/readyz").json()["vehicles"] == 1
        yield running


@pytest.fixture
def installation(platform: Dealership, environment: dict[str, str]) -> Installation:
    return load_installation(platform.folder, environment)


@pytest.fixture
def store(installation: Installation) -> Iterator[Store]:
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        yield store


def test_a_new_dealer_answers(platform: Dealership, installation: Installation) -> None:
    assert platform.get(f"/d/{SOUTH}/docs").status_code == 404
    add(installation, SOUTH, feed("S1", "S2"))
    eventually("the change is seen", lambda: platform.get(f"/d/{SOUTH}/docs").status_code == 200)
    assert platform.get(f"/d/{SOUTH}/readyz").json()["vehicles"] == 2


def test_an_import_changes_the_stock(platform: Dealership, installation: Installation, store: Store) -> None:
    profile = installation.dealer_settings(dealer_toml(NORTH)).dealer
    import_feed(store, profile, read_feed(feed("N1", "N2", "N3")), source="new.csv", at=datetime.now(UTC))
    eventually("the change is seen", lambda: platform.get(f"/d/{NORTH}/readyz").json()["vehicles"] == 3)


def test_new_settings_change_the_card(platform: Dealership, store: Store) -> None:
    new = dealer_toml(NORTH).replace("North Motors", "Polar Motors").encode()
    with store.write(NORTH) as tx:
        change_settings(tx, new, expected=1, actor="test")
    eventually(
        "the change is seen", lambda: "Polar" in platform.get(f"/d/{NORTH}/.well-known/agent-card.json").json()["name"]
    )
    assert platform.get(f"/d/{NORTH}/readyz").json()["vehicles"] == 1


def test_a_disabled_dealer_is_gone_until_it_is_enabled(platform: Dealership, store: Store) -> None:
    for enabled, status in ((False, 404), (True, 200), (False, 404)):
        with store.write(NORTH) as tx:
            set_state(tx, enabled=enabled)
        eventually("the change is seen", lambda status=status: platform.get(f"/d/{NORTH}/docs").status_code == status)  # type: ignore[misc]
        posted = platform.post(message("inventory.search"), f"/d/{NORTH}/message:send")
        assert posted.status_code == status


def test_a_removed_dealer_is_gone(platform: Dealership, store: Store) -> None:
    remove_dealer(store, NORTH)
    eventually("the change is seen", lambda: platform.get(f"/d/{NORTH}/docs").status_code == 404)


def test_a_host_is_added_and_removed(platform: Dealership, store: Store) -> None:
    def answers() -> bool:
        return platform.request("GET", "/docs", headers={"host": "north.example"}).status_code == 200

    assert not answers()
    with store.write(NORTH) as tx:
        add_host(tx, "north.example")
    eventually("the host answers", answers)
    with store.write(NORTH) as tx:
        remove_host(tx, "north.example")
    eventually("the change is seen", lambda: not answers())
    assert platform.get(f"/d/{NORTH}/docs").status_code == 200
