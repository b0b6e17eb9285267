"""The feeds of the dealers of an installation: each is bounded by its dealer, and follows changed settings."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.acceptance.running import eventually
from tests.feeds.collection.feed_server import feed_server
from tests.feeds.collection.feeding import feed_bytes
from tests.installation.platform import INSTALLATION_TOML, LOCAL, add, dealer_toml, make_installation, run_installation
from tests.soak import sqlite_first
from tests.storage.calls import read, write
from tests.storage.service_role import admin_of, prepared_schema

from dealer_agent.config import SettingsError
from dealer_agent.config.installation import Installation
from dealer_agent.jobs import loop
from dealer_agent.storage.installation.dealer_registry import change_settings
from dealer_agent.storage.jobs import SETTINGS
from dealer_agent.storage.schema import jobs
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.stock.feeds import FeedState, feed_states
from dealer_agent.storage.stock.reading import count_for_sale, list_imports
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

NORTH, SOUTH = "north-motors", "south-motors"
FOLDER = '\n[[feeds]]\nname = "main"\n[feeds.folder]\npath = "drop"\nsettle_seconds = 1\n'


@pytest.fixture(params=["sqlite", "postgresql"])
def environment(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    with ExitStack() as closing:
        env = {}
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, env["DATABASE_URL"] = closing.enter_context(schemas)
        yield env


def drop(installation: Installation, dealer_id: str, content: bytes) -> None:
    folder = installation.folder_of(dealer_id) / "drop"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "stock.json").write_bytes(content)


def states(store: Store, dealer_id: str) -> dict[str, FeedState]:
    return {state.name: state for state in read(store, dealer_id, feed_states)}


def failures_of_settings_job(tx: Transaction) -> int | None:
    """How often the job that reads new settings has failed; None without such a job."""
    row = tx.execute(
        select(jobs.c.attempts, jobs.c.lease).where(of_dealer(jobs), jobs.c.kind == SETTINGS)
    ).one_or_none()
    return None if row is None else row.attempts - (row.lease is not None)


@sqlite_first("environment")
def test_each_dealer_has_its_feeds_and_replaced_settings_replace_them(
    environment: dict[str, str], tmp_path: Path
) -> None:
    installation = make_installation(tmp_path / "installation", env=environment)
    unit_counts = {NORTH: 3, SOUTH: 4}
    for dealer_id, count in unit_counts.items():
        add(installation, dealer_id, more=FOLDER)
        drop(installation, dealer_id, feed_bytes(count))
    with (
        feed_server(feed_bytes(6)) as server,
        Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store,
        run_installation(installation),
    ):
        eventually(
            "both are imported",
            lambda: {each: read(store, each, count_for_sale) for each in unit_counts} == unit_counts,
        )
        text = dealer_toml(NORTH, server.toml(name="new"))
        write(store, NORTH, change_settings, text.encode(), expected=1, actor="test")
        eventually("the new feed is there", lambda: "new" in states(store, NORTH))
        refused = eventually("its address is refused", lambda: states(store, NORTH)["new"].problem)
        assert "has an address that is not public" in refused
        assert server.requests == []
        assert list(states(store, NORTH)) == ["new"]
        assert list(states(store, SOUTH)) == ["main"]
        assert [len(read(store, each, list_imports, 9)) for each in (NORTH, SOUTH)] == [1, 1]


def test_feeds_keep_what_they_remember_while_new_settings_cannot_be_read(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, this machine has an older program than the one that stored the settings."""
    monkeypatch.setattr(loop, "pause_after", lambda *_: timedelta(seconds=1))
    installation = make_installation(tmp_path / "installation", env=environment)
    add(installation, NORTH, more=FOLDER)
    drop(installation, NORTH, feed_bytes(3))
    with (
        Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store,
        run_installation(installation),
    ):
        eventually("the file is imported", lambda: read(store, NORTH, count_for_sale) == 3)
        before = states(store, NORTH)["main"]
        unreadable = dealer_toml(NORTH, "setting_of_a_newer_program = 1\n" + FOLDER)
        write(store, NORTH, change_settings, unreadable.encode(), expected=1, actor="test")
        eventually("the settings were read in vain", lambda: read(store, NORTH, failures_of_settings_job))
        assert states(store, NORTH)["main"].imported_at == before.imported_at
        write(store, NORTH, change_settings, dealer_toml(NORTH, FOLDER).encode(), expected=2, actor="test")
        eventually("the settings are read", lambda: read(store, NORTH, failures_of_settings_job) is None)
        assert states(store, NORTH)["main"].imported_at == before.imported_at


def test_the_operator_can_allow_addresses_that_are_not_public(tmp_path: Path) -> None:
    toml = INSTALLATION_TOML + LOCAL
    installation = make_installation(tmp_path / "installation", toml)
    with feed_server(feed_bytes(6)) as server:
        add(installation, NORTH, more=server.toml())
        with (
            Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store,
            run_installation(installation),
        ):
            eventually("the file is imported", lambda: read(store, NORTH, count_for_sale) == 6)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (FOLDER.replace('"drop"', '"/etc"'), "is outside the dealer's own folder"),
        (FOLDER.replace('"drop"', '"../south-motors/drop"'), "is outside the dealer's own folder"),
        (
            '[[feeds]]\nname = "a"\n[feeds.url]\naddress = "https://example.com"\ntoken_env = "DEALER_AGENT_KEYS"\n',
            "DEALER_AGENT_KEYS is for the service itself, and is never sent; name another variable",
        ),
        (
            '[[feeds]]\nname = "a"\n[feeds.url]\naddress = "https://example.com"\n'
            'user_env = "DEALER_NORTH_MOTORS__USER"\npassword_env = "DEALER_SOUTH_MOTORS__SECRET"\n',
            "'DEALER_SOUTH_MOTORS__SECRET' is not a variable of this dealer; write a name such as",
        ),
    ],
)
def test_a_dealer_reads_no_folder_and_no_variable_of_others(more: str, words: str, tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "installation")
    with pytest.raises(SettingsError) as refused:
        installation.dealer_settings(dealer_toml(NORTH, more))
    assert words in str(refused.value)


def test_a_link_to_a_folder_outside_is_not_followed(tmp_path: Path) -> None:
    installation = make_installation(tmp_path / "installation")
    add(installation, NORTH, more=FOLDER)
    drop(installation, SOUTH, feed_bytes(3))
    installation.folder_of(NORTH).mkdir(mode=0o700)
    (installation.folder_of(NORTH) / "drop").symlink_to(installation.folder_of(SOUTH) / "drop")
    with (
        Store.open(admin_of(installation.database_url), installation.cipher, many_dealers=True) as store,
        run_installation(installation),
    ):
        problem = eventually("it is refused", lambda: (found := states(store, NORTH).get("main")) and found.problem)
    assert "outside the dealer's own folder" in problem
