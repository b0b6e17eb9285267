"""Nothing is written for a dealer that was removed, and a removal that was interrupted can be finished."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.soak import sqlite_first
from tests.storage.calls import read, write
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, import_rows, row, storing

from dealer_agent.open_installation import delete_files_of_removed
from dealer_agent.server.counting import Counting, DayTally, RequestCounts
from dealer_agent.storage.daily_counts import requests_by_day
from dealer_agent.storage.errors import DealerExists, DealerUnknown, TokenRevoked
from dealer_agent.storage.installation import dealer_registry as registry
from dealer_agent.storage.installation.dealer_registry import count_rows, require_removed
from dealer_agent.storage.jobs import add_jobs
from dealer_agent.storage.leads.lead_write import Buyer
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token, revoke_token

pytestmark = pytest.mark.outside_protocol("many dealers in one service")

DEALER, OTHER = "ridgeline", "south"
DAY = date(2026, 3, 2)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An installation with two dealers."""
    make_current(database_url)
    with Store.open(database_url, CIPHER, many_dealers=True) as opened:
        for dealer_id in (DEALER, OTHER):
            add(opened, dealer_id)
        yield opened


def add(store: Store, dealer_id: str) -> None:
    with store.registration(dealer_id) as tx:
        registry.add_dealer(tx, b'name = "Any"', actor="test")


def rows_left(store: Store, dealer_id: str = DEALER) -> dict[str, int]:
    with store.read(dealer_id) as tx:
        return {name: count for name, count in count_rows(tx).items() if count}


def store_lead(store: Store, buyer: Buyer | None = None) -> str:
    with closing(store.lead_writer()) as writer:
        return writer.submit(DEALER, storing("L1"), None, buyer).result(60)


def add_a_host(store: Store) -> None:
    with store.write(DEALER) as tx:
        registry.add_host(tx, "ridgeline.example.com")


def lock_it(store: Store) -> None:
    with store.lock(DEALER) as tx:
        storing("L1")(tx)


LATE_WRITERS: dict[str, Callable[[Store], object]] = {
    "a lead": store_lead,
    "a change of a lead": lock_it,
    "an import": lambda store: import_rows(store, [row("V1")]),
    "a job": lambda store: write(store, DEALER, add_jobs, "disposal"),
    "a token": lambda store: write(store, DEALER, create_token, "Buyer", b"hash"),
    "settings": lambda store: write(store, DEALER, registry.change_settings, b'name = "A"', expected=1, actor="test"),
    "a host": add_a_host,
    "keys": lambda store: store.check_keys(DEALER),
}


@sqlite_first()
@pytest.mark.parametrize("late", LATE_WRITERS.values(), ids=LATE_WRITERS)
def test_a_late_writer_of_a_removed_dealer_writes_nothing(store: Store, late: Callable[[Store], object]) -> None:
    registry.remove_dealer(store, DEALER)
    with pytest.raises(DealerUnknown, match="there is no dealer ridgeline"):
        late(store)
    assert rows_left(store) == {}
    add(store, DEALER)
    late(store)


@sqlite_first()
def test_the_counts_of_a_removed_dealer_are_discarded_and_those_of_others_are_saved(store: Store) -> None:
    counting = Counting(store, RequestCounts(), lambda _: None)
    for dealer_id in (DEALER, OTHER):
        tally = counting._unsaved[dealer_id, DAY] = DayTally()
        tally.add("requests", ["inventory.search ok"])
    registry.remove_dealer(store, DEALER)
    counting._save()
    assert rows_left(store) == {}
    assert read(store, OTHER, requests_by_day, DAY, DAY) == {DAY: 1}


def test_a_group_of_leads_with_one_of_a_removed_dealer_stores_the_others(store: Store) -> None:
    registry.remove_dealer(store, DEALER)
    with closing(store.lead_writer()) as writer:
        done = [writer.submit(dealer_id, storing("L1")) for dealer_id in (DEALER, OTHER, DEALER)]
        assert done[1].result(60) == "L1"
        for late in (done[0], done[2]):
            with pytest.raises(DealerUnknown):
                late.result(60)
    assert rows_left(store) == {}


def test_a_removal_waits_for_what_is_being_written(store: Store) -> None:
    """Otherwise the row would be stored after the removal has looked for it."""
    wrote, removed = Event(), Event()

    def remove() -> None:
        assert wrote.wait(60)
        registry.remove_dealer(store, DEALER)
        removed.set()

    removal = Thread(target=remove)
    removal.start()
    with store.write(DEALER) as tx:
        create_token(tx, "Buyer", b"hash")
        wrote.set()
        assert not removed.wait(0.3)
    removal.join(60)
    assert removed.is_set()
    assert rows_left(store) == {}


def test_buyers_of_a_disabled_dealer_store_nothing_and_its_staff_may(store: Store) -> None:
    write(store, DEALER, registry.set_state, enabled=False)
    with pytest.raises(DealerUnknown, match="ridgeline is disabled"):
        store_lead(store, Buyer())
    assert "leads" not in rows_left(store)
    assert store_lead(store) == "L1"


@sqlite_first()
def test_a_lead_with_a_revoked_token_is_not_stored(store: Store) -> None:
    kept, revoked = (write(store, DEALER, create_token, "Buyer", name) for name in (b"one", b"two"))
    assert write(store, DEALER, revoke_token, revoked)
    for token_id in (revoked, "never-there"):
        with pytest.raises(TokenRevoked, match=token_id):
            store_lead(store, Buyer(token_id))
    assert "leads" not in rows_left(store)
    assert store_lead(store, Buyer(kept)) == "L1"


def test_a_removal_that_was_interrupted_is_finished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import_rows_of = [row(f"V{number}") for number in range(5)]
    import_rows(store, import_rows_of)
    store_lead(store)
    monkeypatch.setattr(registry, "MOST_REMOVED", 1)

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        registry.remove_dealer(store, DEALER, stop)
    assert rows_left(store)
    with store.registration(DEALER) as tx, pytest.raises(DealerExists, match="dealers remove ridgeline"):
        require_removed(tx)
    with pytest.raises(DealerUnknown):
        store_lead(store)
    monkeypatch.undo()
    registry.remove_dealer(store, DEALER)
    assert rows_left(store) == {}
    with pytest.raises(DealerUnknown):
        registry.remove_dealer(store, DEALER)
    add(store, DEALER)


def test_a_removal_does_not_touch_a_dealer_that_was_added_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "REMOVALS", dict(list(registry.REMOVALS.items())[:3]))

    def add_again(_: int) -> None:
        monkeypatch.undo()
        registry.remove_dealer(store, DEALER)
        add(store, DEALER)

    with pytest.raises(DealerExists, match="was added again"):
        registry.remove_dealer(store, DEALER, add_again)
    assert rows_left(store)["dealer_keys"] > 0


@sqlite_first()
def test_a_dealer_that_was_never_in_the_installation_cannot_be_removed(store: Store, database_url: str) -> None:
    """The dealer of a folder of its own may share the database."""
    with Store.open(database_url, CIPHER) as of_folder:
        import_rows(of_folder, [row("V1")], dealer="alone")
    with pytest.raises(DealerUnknown):
        registry.remove_dealer(store, "alone")
    assert rows_left(store, "alone")["units"] == 1


@sqlite_first()
def test_files_of_removed_dealers_are_deleted_and_no_others(store: Store, tmp_path: Path) -> None:
    def folder(dealer_id: str) -> Path:
        made = tmp_path / "dealers" / dealer_id
        (made / "feeds").mkdir(parents=True)
        (made / "feeds" / "file.csv").write_text("a")
        return made

    (tmp_path / "snapshots").mkdir()
    kept = [folder(name) for name in (OTHER, "never-there")]
    removed = folder(DEALER)
    snapshot = tmp_path / "snapshots" / f"{DEALER}.bin"
    snapshot.write_bytes(b"")
    write(store, OTHER, registry.set_state, enabled=False)
    delete_files_of_removed(store, tmp_path)
    assert removed.is_dir()
    registry.remove_dealer(store, DEALER)
    delete_files_of_removed(store, tmp_path)
    assert sorted((tmp_path / "dealers").iterdir()) == sorted(kept)
    assert not snapshot.exists()
    folder(DEALER)
    delete_files_of_removed(store, tmp_path)
    assert not removed.exists(), "a process that went on late wrote again"
