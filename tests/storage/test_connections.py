"""The connections of a process to PostgreSQL: one bounded pool, and transactions that a pooler may spread."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import psycopg
import pytest
from sqlalchemy import create_engine, make_url
from tests.acceptance.running import eventually
from tests.servers.pgbouncer import SERVER_CONNECTIONS, PgBouncer
from tests.storage.calls import read
from tests.storage.samples import CIPHER, DEALER, import_rows, row

from dealer_agent.storage import connections
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import BadDatabaseUrl, DatabaseBusy, DatabaseUnreachable
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("connections to PostgreSQL")

MOST = 3
OTHER = "other-motors"
SESSION = """
    SELECT pg_backend_pid(), current_setting('default_transaction_read_only'),
        current_setting('default_transaction_isolation'), coalesce(current_setting('dealer_agent.dealer', true), ''),
        current_setting('lock_timeout'), (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_listening_channels()),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture
def pooled(pgbouncer_server: PgBouncer) -> Iterator[Store]:
    migrate(pgbouncer_server.url)
    with Store.open(pgbouncer_server.url, CIPHER) as store:
        yield store


def named(url: str, name: str) -> str:
    """The URL of connections with a name in `pg_stat_activity`."""
    return f"{url}{'&' if '?' in url else '?'}application_name={name}"


def open_connections(url: str, name: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [name])
        (count,) = found.fetchone() or (0,)
    return int(count)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("postgresql://u:p@one:5433,two:5434/db", "one,two", "5433,5434"),
        ("postgres://u:p@one,[::1]:5434/db", "one,::1", "5432,5434"),
        ("postgresql+psycopg://u:p@/db?host=one:5433&host=two", "one,two", "5433,5432"),
        ("postgresql://u:p@/db?host=one,two&port=5433,5434", "one,two", "5433,5434"),
    ],
)
def test_a_url_may_name_several_servers(url: str, host: str, port: str) -> None:
    """In the forms of libpq and of SQLAlchemy. The service needs the one that takes writes."""
    parsed = database_url(url)
    shown = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    assert database_url(shown) == parsed, "a command may print the URL for another one"
    for given in (parsed, make_url(shown)):
        _, options = create_engine(given.set(drivername="postgresql+psycopg")).dialect.create_connect_args(given)
        del options["context"]
        assert options == {
            "user": "u",
            "password": "p",
            "dbname": "db",
            "host": host,
            "port": port,
            "target_session_attrs": "read-write",
        }


def test_a_url_with_one_server_stays_as_it_is() -> None:
    for url in ("postgresql://u:a,b@one/db", "postgresql://u@one:5433/db?options=-c%20search_path%3Da,b"):
        assert database_url(url) == make_url(url).set(drivername="postgresql+psycopg")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://one,,two/db",
        "postgresql://one,two:port/db",
        "postgresql://one,two/db?host=three",
        "postgresql://one,a..b/db",
        "postgresql://one,two/db?target_session_attrs=any",
        "postgresql://one,two/db?target_session_attrs=standby",
    ],
    ids=["an empty host", "a bad port", "a host twice", "a bad host", "any server", "a standby"],
)
def test_a_url_whose_servers_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl):
        database_url(url)


def test_readers_and_writers_share_one_bounded_pool(postgresql_url: str) -> None:
    """The lead writer has a connection of its own."""
    migrate(postgresql_url)
    everyone_reads = threading.Barrier(MOST - connections.LEAD_CONNECTIONS)

    def work(store: Store, number: int) -> None:
        use = (store.read, store.write)[number % 2]
        with use(DEALER) as tx:
            read_revision(tx)
            everyone_reads.wait(120)
        with store.read(OTHER):
            pass
        with store.installation():
            pass

    with Store.open(named(postgresql_url, "bounded"), CIPHER, most_connections=MOST) as store:
        with ThreadPoolExecutor(4 * MOST) as threads:
            list(threads.map(lambda number: work(store, number), range(4 * (MOST - connections.LEAD_CONNECTIONS))))
        with closing(store.lead_writer()) as writer:
            writer.submit(DEALER, read_revision).result(120)
        assert open_connections(postgresql_url, "bounded") == MOST
    # The server notices the end of a connection a moment later.
    eventually("no connection is open", lambda: open_connections(postgresql_url, "bounded") == 0)


def test_a_full_pool_is_a_busy_database(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(postgresql_url)
    monkeypatch.setattr(connections, "POOL_SECONDS", 0.1)
    with Store.open(postgresql_url, CIPHER, most_connections=MOST) as store:
        with ExitStack() as stack:
            for _ in range(MOST - connections.LEAD_CONNECTIONS):
                stack.enter_context(store.read(DEALER))
            for full in (store.read, store.write, store.lock):
                with pytest.raises(DatabaseBusy, match="allow more of them"), full(DEALER):
                    pass
            with closing(store.lead_writer()) as writer:
                assert writer.submit(DEALER, read_revision).result(120).stock == 0
        assert read(store, DEALER, read_revision).stock == 0


def test_threads_work_through_a_pooler(pooled: Store) -> None:
    """More clients than sessions: each transaction may have another session than the one before it."""
    with closing(pooled.lead_writer()) as writer:

        def work(number: int) -> None:
            dealer_id = f"dealer-{number % 3}"
            for _ in range(20):
                # More often than a driver needs to prepare a statement.
                with pooled.read(dealer_id) as tx:
                    read_revision(tx)
                writer.submit(dealer_id, read_revision).result(120)
                with pooled.lock(dealer_id) as tx:
                    read_revision(tx)

        with ThreadPoolExecutor(3 * SERVER_CONNECTIONS) as threads:
            list(threads.map(work, range(3 * SERVER_CONNECTIONS)))
        import_rows(pooled, [row("V1")])
        assert read(pooled, DEALER, read_revision).stock == 1


def test_nothing_remains_in_the_sessions_of_a_pooler(pooled: Store, pgbouncer_server: PgBouncer) -> None:
    with pooled.read(DEALER) as tx:
        read_revision(tx)
    import_rows(pooled, [row("V1")])
    sessions = {}
    with ExitStack() as stack:
        for _ in range(SERVER_CONNECTIONS):
            client = stack.enter_context(psycopg.connect(pgbouncer_server.url, prepare_threshold=None))
            process, *state = client.execute(SESSION).fetchone() or ()
            sessions[process] = state
    assert len(sessions) == SERVER_CONNECTIONS
    assert {tuple(state) for state in sessions.values()} == {("off", "read committed", "", "0", 0, 0, 0)}


def first_announcements(store: Store, count: int, change: threading.Event) -> list[int]:
    """Waits for announcements. Sets `change` after the first one, which says that the store listens."""

    async def wait() -> list[int]:
        found: list[int] = []
        async for _ in store.announcements():
            found.append(len(found))
            change.set()
            if len(found) == count:
                break
        return found

    return asyncio.run(asyncio.wait_for(wait(), 120))


def test_postgresql_announces_an_import_to_other_processes(postgresql_url: str) -> None:
    migrate(postgresql_url)
    listens = threading.Event()
    with Store.open(postgresql_url, CIPHER) as store, ThreadPoolExecutor() as threads:
        found = threads.submit(first_announcements, store, 2, listens)
        assert listens.wait(120)
        import_rows(store, [row("V1")])
        assert found.result() == [0, 1]


def test_a_pooler_and_sqlite_announce_nothing(pooled: Store, sqlite_url: str) -> None:
    migrate(sqlite_url)
    with Store.open(sqlite_url, CIPHER) as on_sqlite:
        for store in (pooled, on_sqlite):
            assert first_announcements(store, 1, threading.Event()) == []


def test_a_listener_that_loses_its_connection_reports_it(postgresql_url: str) -> None:
    migrate(postgresql_url)
    listens = threading.Event()
    with Store.open(named(postgresql_url, "breaks"), CIPHER) as store, ThreadPoolExecutor() as threads:
        # Tests in other schemas of this database make announcements, too.
        found = threads.submit(first_announcements, store, 10**6, listens)
        assert listens.wait(120)
        with psycopg.connect(postgresql_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'breaks'")
        with pytest.raises(DatabaseUnreachable):
            found.result()
