"""The maintenance of the dealers of an installation: old data is deleted, and heads are recorded, for each dealer."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.acceptance.running import eventually
from tests.installation.platform import add, dealer_toml, make_installation, run_installation
from tests.storage.calls import write, write_at
from tests.storage.service_role import admin_of, prepared_schema

from dealer_agent.config.installation import Installation
from dealer_agent.jobs import loop
from dealer_agent.privacy.chain_heads import read_heads
from dealer_agent.storage.installation.dealer_registry import change_settings, set_state
from dealer_agent.storage.leads.stored_leads import record_refusal
from dealer_agent.storage.schema import refusals
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH, WEST = "north-motors", "south-motors", "west-motors"


@pytest.fixture(params=["sqlite", "postgresql"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """Three dealers on each database. The last one is disabled."""
    with ExitStack() as closing:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing.enter_context(schemas)
        made = make_installation(tmp_path / "installation", env=env)
        for dealer_id in (NORTH, SOUTH, WEST):
            add(made, dealer_id)
        write_as_platform(made, WEST, set_state, enabled=False)
        yield made


def write_as_platform(installation: Installation, *arguments: Any, **more: Any) -> None:
    """Runs a function in a transaction of the role for commands about dealers."""
    with Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store:
        write(store, *arguments, **more)


def open_store(installation: Installation) -> Store:
    return Store.open(installation.database_url, installation.cipher, many_dealers=True)


@pytest.fixture
def store(installation: Installation) -> Iterator[Store]:
    with open_store(installation) as opened:
        yield opened


def refusals_of(store: Store, dealer_id: str) -> int:
    with store.read(dealer_id) as tx:
        return len(tx.connection.execute(select(refusals).where(refusals.c.dealer_id == dealer_id)).all())


def test_old_data_of_each_dealer_is_deleted_and_heads_are_recorded(
    installation: Installation, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.05)
    years_ago = datetime.now(UTC) - timedelta(days=3000)
    for dealer_id in (NORTH, SOUTH, WEST):
        write(store, dealer_id, record_refusal, "INVALID_REQUEST")
        write_at(years_ago, store, dealer_id, record_refusal, "INVALID_REQUEST")
    with run_installation(installation) as platform:
        eventually("the old refusals are deleted", lambda: refusals_of(store, NORTH) == refusals_of(store, SOUTH) == 1)
        files = [installation.folder_of(dealer_id) / "consent-heads.log" for dealer_id in (NORTH, SOUTH)]
        eventually("heads are recorded", lambda: all(file.exists() and list(read_heads(file)) for file in files))
        assert platform.app.dealers.opened == {}
    # A disabled dealer has no maintenance.
    assert refusals_of(store, WEST) == 2
    assert not installation.folder_of(WEST).exists()


def test_a_dealer_whose_maintenance_fails_does_not_stop_that_of_others(
    installation: Installation, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "LOOK_SECONDS", 0.05)
    wrong = dealer_toml(NORTH) + '\n[unknown]\nkey = "value"\n'
    write_as_platform(installation, NORTH, change_settings, wrong.encode(), expected=1, actor="test")
    with run_installation(installation):
        file = installation.folder_of(SOUTH) / "consent-heads.log"
        eventually("heads of the other dealer are recorded", lambda: file.exists() and list(read_heads(file)))
    assert not (installation.folder_of(NORTH) / "consent-heads.log").exists()
