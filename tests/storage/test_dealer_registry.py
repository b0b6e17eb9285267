"""The dealers of an installation: settings with history, state, host names, and the removal of a dealer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import func, select
from tests.soak import sqlite_first
from tests.storage.calls import read, write
from tests.storage.samples import MONDAY, import_rows, row, storing

from dealer_agent.dealers.profile_checks import canonical_host
from dealer_agent.storage.errors import DealerExists, DealerUnknown, HostTaken, SettingsConflict
from dealer_agent.storage.installation import dealer_registry as registry
from dealer_agent.storage.schema import metadata, revisions
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

FIRST, SECOND, THIRD = (f'name = "{word}"'.encode() for word in ("first", "second", "third"))
EARLY = datetime(2000, 1, 1, tzinfo=UTC)


def add(store: Store, dealer_id: str, document: bytes = FIRST) -> None:
    write(store, dealer_id, registry.add_dealer, document, actor="Pat", note="new")


def changes(store: Store, since: datetime = EARLY) -> list[registry.DealerChange]:
    with store.installation() as tx:
        return registry.changed_dealers(tx, since)


def test_a_dealer_is_added_once_with_its_settings(store: Store) -> None:
    add(store, "north")
    with pytest.raises(DealerExists, match="north is registered already"):
        add(store, "north", SECOND)
    assert read(store, "north", registry.find_dealer) == registry.RegisteredDealer(
        "north", enabled=True, listed=False, settings_number=1, name="first"
    )
    assert read(store, "north", registry.read_settings, 1) == FIRST
    (record,) = read(store, "north", registry.list_settings)
    assert (record.number, record.actor, record.note) == (1, "Pat", "new")


@sqlite_first()
def test_new_settings_get_a_number_and_the_old_ones_stay(store: Store) -> None:
    add(store, "north")
    number = write(store, "north", registry.change_settings, SECOND, expected=1, actor="Sam")
    assert read(store, "north", registry.find_dealer) == registry.RegisteredDealer(
        "north", enabled=True, listed=False, settings_number=number, name="second"
    )
    assert number == 2
    assert [record.number for record in read(store, "north", registry.list_settings)] == [2, 1]
    assert [read(store, "north", registry.read_settings, each) for each in (1, 2)] == [FIRST, SECOND]
    with pytest.raises(DealerUnknown, match="no settings with the number 3"):
        read(store, "north", registry.read_settings, 3)


@sqlite_first()
def test_settings_that_somebody_else_has_changed_are_not_overwritten(store: Store) -> None:
    add(store, "north")
    write(store, "north", registry.change_settings, SECOND, expected=1, actor="Sam")
    with pytest.raises(SettingsConflict, match="number 2 is current, and number 1 was edited"):
        write(store, "north", registry.change_settings, THIRD, expected=1, actor="Pat")
    assert len(read(store, "north", registry.list_settings)) == 2


@sqlite_first()
def test_a_dealer_is_enabled_and_listed_separately(store: Store) -> None:
    add(store, "north")
    write(store, "north", registry.set_state, listed=True)
    write(store, "north", registry.set_state, enabled=False)
    assert read(store, "north", registry.find_dealer) == registry.RegisteredDealer(
        "north", enabled=False, listed=True, settings_number=1, name="first"
    )


@sqlite_first()
def test_an_unknown_dealer_cannot_be_changed(store: Store) -> None:
    with pytest.raises(DealerUnknown, match="there is no dealer north in this installation"):
        read(store, "north", registry.find_dealer)
    with pytest.raises(DealerUnknown):
        write(store, "north", registry.set_state, enabled=False)
    with pytest.raises(DealerUnknown):
        write(store, "north", registry.change_settings, SECOND, expected=1, actor="Pat")
    with pytest.raises(DealerUnknown):
        write(store, "north", registry.add_host, "north.example.com")


def test_an_installation_lists_its_dealers_and_hosts(store: Store) -> None:
    for dealer_id in ("south", "north"):
        add(store, dealer_id)
    assert write(store, "north", registry.add_host, "Cars.Example.com:443") == "cars.example.com"
    write(store, "north", registry.add_host, "cars.example.com.")
    write(store, "south", registry.add_host, "south.example.com")
    with store.installation() as tx:
        assert [dealer.dealer_id for dealer in registry.all_dealers(tx)] == ["north", "south"]
        assert registry.all_hosts(tx) == {"cars.example.com": "north", "south.example.com": "south"}
    assert read(store, "north", registry.list_hosts) == ["cars.example.com"]
    assert write(store, "north", registry.remove_host, "CARS.example.com")
    assert not write(store, "north", registry.remove_host, "south.example.com")
    assert read(store, "south", registry.list_hosts) == ["south.example.com"]


@sqlite_first()
def test_a_host_belongs_to_one_dealer_also_when_many_want_it_at_once(store: Store) -> None:
    dealer_ids = [f"dealer-{number}" for number in range(6)]
    for dealer_id in dealer_ids:
        add(store, dealer_id)

    def want(dealer_id: str) -> bool:
        try:
            write(store, dealer_id, registry.add_host, "wanted.example.com")
        except HostTaken:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sorted(threads.map(want, dealer_ids)) == [False] * 5 + [True]


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("Example.COM", "example.com"),
        (" example.com.:8080 ", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("localhost", "localhost"),
    ],
)
def test_a_host_has_one_form(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "*.example.com", "192.0.2.1", "127.1", "0x7f.1", "[::1]", "::1", "[::1]:80", "a b.example"),
        *("a..example", "-a.example", "a-.example", "a_b.example", "https://a.example", "a.example/b", "u@a.example"),
        *("a" * 64 + ".com", ".".join(["abcdefgh"] * 32)),
    ],
)
def test_what_is_no_host_name_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="host name"):
        canonical_host(host)


@sqlite_first()
def test_every_change_is_found_by_its_time_and_its_counter(store: Store) -> None:
    add(store, "north")
    add(store, "south")
    seen = {change.dealer_id: change for change in changes(store)}
    assert list(seen) == ["north", "south"]
    newest = max(change.changed_at for change in seen.values())
    assert abs(datetime.now(UTC) - newest) < timedelta(minutes=5)

    def next_change() -> registry.DealerChange:
        (found,) = (each for each in changes(store, seen["north"].changed_at) if each.dealer_id == "north")
        before, seen["north"] = seen["north"], found
        assert found.changed_at >= before.changed_at
        assert found != before
        return found

    write(store, "north", registry.set_state, listed=True)
    assert next_change().settings == 2
    write(store, "north", registry.change_settings, SECOND, expected=1, actor="Pat")
    assert next_change().settings == 3
    write(store, "north", create_token, "a buyer", b"hash")
    assert next_change().tokens == 1
    assert changes(store, datetime.now(UTC) + timedelta(hours=1)) == []


@sqlite_first()
def test_an_import_is_found_by_the_time_of_the_database(store: Store) -> None:
    import_rows(store, [row("V1")], at=MONDAY)
    (change,) = changes(store)
    assert change.stock == 1
    assert abs(datetime.now(UTC) - change.changed_at) < timedelta(minutes=5)


@pytest.fixture
def listening(store: Store, database_url: str) -> Iterator[psycopg.Connection]:
    if store._writer.dialect.name != "postgresql":
        pytest.skip("SQLite announces nothing")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("LISTEN dealer_agent_changes")
        yield connection


@sqlite_first()
def test_postgresql_announces_every_change(store: Store, listening: psycopg.Connection) -> None:
    def announces(dealer_id: str) -> bool:
        # Other tests change their dealers in the same database.
        return any(each.payload == dealer_id for each in listening.notifies(timeout=60))

    add(store, "north")
    assert announces("north")
    import_rows(store, [row("V1")])
    assert announces("ridgeline")


def test_a_removal_deletes_every_row_of_one_dealer_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import_rows(store, [row(f"V{number}") for number in range(5)])
    with store.lock("ridgeline", MONDAY) as tx:
        storing("L1")(tx)
    add(store, "ridgeline")
    add(store, "south")
    write(store, "ridgeline", registry.add_host, "ridgeline.example.com")
    before = changes(store)[0]
    monkeypatch.setattr(registry, "MOST_REMOVED", 2)
    monkeypatch.setattr(
        registry, "REMOVALS", {name: registry._delete_some(metadata.tables[name]) for name in registry.REMOVALS}
    )
    removed = registry.remove_dealer(store, "ridgeline")
    assert removed["units"] == removed["unit_documents"] == 5
    assert removed["leads"] == removed["dealer_hosts"] == removed["registered_dealers"] == 1
    with store.read("ridgeline") as tx:
        for table in metadata.tables.values():
            found = tx.connection.execute(
                select(func.count()).select_from(table).where(table.c.dealer_id == "ridgeline")
            ).scalar_one()
            assert found == (1 if table is revisions else 0), table.name
    assert read(store, "south", registry.find_dealer).enabled
    with pytest.raises(DealerUnknown):
        registry.remove_dealer(store, "ridgeline")
    after = {change.dealer_id: change for change in changes(store)}["ridgeline"]
    assert after.settings > before.settings
