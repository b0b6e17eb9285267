"""A transaction that stays open on one dealer's rows holds up the leads of this dealer only (on PostgreSQL)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import event
from tests.storage.calls import list_leads, read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, storing
from tests.storage.test_lead_writer import Guard

from dealer_agent.storage.database_url import database_url as parsed_url
from dealer_agent.storage.errors import DatabaseUnreachable, DealerBlocked
from dealer_agent.storage.leads.lead_queue import SHARED_GROUP
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.requirement("refused-in-time")

PATIENCE = 300.0
BLOCKED = "blocked"
LOCK_ROW = f"SELECT 1 FROM dealers WHERE dealer_id = '{BLOCKED}' FOR UPDATE"


@pytest.fixture
def store(postgresql_url: str) -> Iterator[Store]:
    make_current(postgresql_url)
    with Store.open(postgresql_url, CIPHER) as opened:
        yield opened


@contextmanager
def holding(url: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """Another connection executes these statements, and leaves its transaction open."""
    plain = parsed_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection
        connection.rollback()


def known(store: Store, *dealers: str) -> None:
    """Makes the rows of dealers."""
    for dealer_id in dealers:
        with store.lock(dealer_id):
            pass


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param([LOCK_ROW], id="the dealer's row"),
        pytest.param([f"DELETE FROM dealers WHERE dealer_id = '{BLOCKED}'"], id="a removal of the dealer"),
        pytest.param([f"UPDATE leads SET rooftop = rooftop WHERE dealer_id = '{BLOCKED}'"], id="a lead of the dealer"),
    ],
)
def test_leads_of_other_dealers_are_stored_while_one_dealer_is_blocked(
    postgresql_url: str, store: Store, statements: list[str]
) -> None:
    writer = store.lead_writer()
    known(store, "a", BLOCKED, "z")
    writer.submit(BLOCKED, storing("FIRST")).result(PATIENCE)

    def change(tx: Transaction) -> str:
        tx.connection.exec_driver_sql("UPDATE leads SET rooftop = rooftop WHERE lead_id = 'FIRST'")
        return storing("LATER")(tx)

    with holding(postgresql_url, *statements):
        waiting = writer.submit(BLOCKED, change, seconds=PATIENCE)
        for number in range(3):
            others = [writer.submit(dealer_id, storing(f"L{number}")) for dealer_id in ("a", "z")]
            assert [future.result(PATIENCE) for future in others] == [f"L{number}"] * 2
        assert not waiting.done()
    writer.close()
    assert waiting.result(0) == "LATER"
    assert {each.lead_id for each in read(store, BLOCKED, list_leads, 10)} == {"FIRST", "LATER"}


def test_a_lead_of_a_blocked_dealer_is_refused_after_its_time_and_is_not_stored_later(
    postgresql_url: str, store: Store
) -> None:
    writer = store.lead_writer()
    known(store, BLOCKED)
    with holding(postgresql_url, LOCK_ROW):
        refused = [writer.submit(BLOCKED, storing(f"L{number}"), seconds=0.0) for number in range(100)]
        for future in refused:
            with pytest.raises(DealerBlocked, match="pg_stat_activity"):
                future.result(PATIENCE)
    assert writer.submit(BLOCKED, storing("LATER")).result(PATIENCE) == "LATER"
    assert [each.lead_id for each in read(store, BLOCKED, list_leads, 10)] == ["LATER"]
    writer.close()


def test_leads_of_a_blocked_dealer_are_stored_in_their_order_as_soon_as_the_lock_is_gone(
    postgresql_url: str, store: Store
) -> None:
    writer = store.lead_writer()
    known(store, BLOCKED)
    stored: list[int] = []
    with holding(postgresql_url, LOCK_ROW):
        futures = [
            writer.submit(BLOCKED, lambda _, number=number: stored.append(number), seconds=PATIENCE)  # type: ignore[misc]
            for number in range(2 * SHARED_GROUP)
        ]
        assert writer.submit("other", lambda _: "stored").result(PATIENCE) == "stored"
    for future in futures:
        future.result(PATIENCE)
    assert stored == list(range(2 * SHARED_GROUP))
    writer.close()


def test_many_blocked_dealers_need_one_thread_and_one_connection_and_hold_up_no_other(
    postgresql_url: str, store: Store
) -> None:
    dealers = [f"dealer-{number:03d}" for number in range(100)]
    writer = store.lead_writer()
    known(store, "free", *dealers)
    threads = threading.active_count()
    with holding(postgresql_url, "SELECT 1 FROM dealers WHERE dealer_id <> 'free' FOR UPDATE") as holder:
        waiting = [writer.submit(dealer_id, lambda _: "stored", seconds=PATIENCE) for dealer_id in dealers]
        for number in range(20):
            assert writer.submit("free", storing(f"L{number}")).result(PATIENCE) == f"L{number}"
        assert not any(future.done() for future in waiting)
        assert threading.active_count() == threads
        assert store._leads.pool.checkedout() <= 1  # type: ignore[attr-defined]
        holder.rollback()
        assert [future.result(PATIENCE) for future in waiting] == ["stored"] * len(dealers)
    writer.close()


def test_the_lead_writer_has_a_connection_when_all_others_wait(postgresql_url: str) -> None:
    make_current(postgresql_url)
    with Store.open(postgresql_url, CIPHER, most_connections=2) as store:
        writer = store.lead_writer()
        known(store, BLOCKED)
        with store.write("other"):
            assert writer.submit("other", storing("L1")).result(PATIENCE) == "L1"
        writer.close()


def test_a_dealer_without_a_row_is_added_beside_others(store: Store) -> None:
    writer = store.lead_writer()
    guard = Guard(writer, "guard")
    futures = [writer.submit(dealer_id, storing("L1")) for dealer_id in ("new", "newer", "new")]
    guard.open()
    assert [future.result(PATIENCE) for future in futures[:2]] == ["L1", "L1"]
    writer.close()


def test_the_server_ends_a_transaction_that_stands_idle_with_its_locks(store: Store) -> None:
    """As one of a process that was stopped. The error says so, and the next transaction has another connection."""
    with pytest.raises(DatabaseUnreachable, match="25P03"):
        stand_idle(store)
    known(store, "a")


def stand_idle(store: Store) -> None:
    with store.lock("a") as tx:
        assert idle_limit(tx) == "15s"
        tx.connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = '10ms'")
        known(store, "a")  # It waits until the server has ended the other transaction.
        tx.connection.exec_driver_sql("SELECT 1")


def test_a_transaction_that_reads_and_the_lock_of_an_import_may_stand_idle_for_longer(store: Store) -> None:
    with store.read("a") as tx:
        assert idle_limit(tx) == "10min"
    executed: list[str] = []
    event.listen(store._writer, "before_cursor_execute", lambda *given: executed.append(given[2]))
    with store.import_lock("a"):
        assert executed[0] == "SET LOCAL idle_in_transaction_session_timeout = '7200s'"


def idle_limit(tx: Transaction) -> Any:
    return tx.connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar()


def test_connections_find_a_lost_server_and_options_of_the_url_come_first(postgresql_url: str) -> None:
    make_current(postgresql_url)
    with Store.open(f"{postgresql_url}&keepalives_idle=7", CIPHER) as store, store.read("a") as tx:
        driver: Any = tx.connection.connection.driver_connection
        chosen = driver.info.get_parameters()
    assert (chosen["keepalives_idle"], chosen["keepalives_count"], chosen["tcp_user_timeout"]) == ("7", "3", "8000")
