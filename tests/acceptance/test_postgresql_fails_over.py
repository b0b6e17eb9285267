"""A service on two PostgreSQL servers: no answered lead is lost when the standby takes over, and the start waits."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.acceptance.dealers import write_dealer
from tests.acceptance.replicas import loaded, platform
from tests.acceptance.running import Running, command_here, eventually, free_port, start
from tests.servers.replication import Replicated, replicated_postgresql
from tests.soak import SOAK
from tests.storage.calls import list_leads, read
from tests.storage.samples import CIPHER, DEALER, storing
from tests.storage.service_role import prepare

from dealer_agent.storage.database_roles import Roles
from dealer_agent.storage.errors import DatabaseFailure, DatabaseUnreachable
from dealer_agent.storage.migrate import wait_for_server
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.store import Store

pytestmark = pytest.mark.outside_protocol("failover of PostgreSQL")

ROLES = Roles("owner", "service", "admin")
ROUNDS = 20 if SOAK else 2
"""Each second one is a switchover, the others are kills."""
APPLIED = "SELECT bool_and(replay_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication"
WAITS_FOR_STANDBY = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def cluster() -> Iterator[Replicated]:
    """Two servers with a prepared database."""
    with replicated_postgresql() as cluster:
        prepare(address_of_service(cluster), cluster.url, ROLES)
        # The standby has stored the roles. Until it has also applied them, it refuses a login.
        cluster.primary.wait_for("the standby knows the roles", APPLIED)
        yield cluster


@pytest.fixture
def service_url(cluster: Replicated) -> str:
    return address_of_service(cluster)


def address_of_service(cluster: Replicated) -> str:
    return f"postgresql://{ROLES.service}@{cluster.servers}/postgres"


@pytest.mark.soak
def test_no_answered_lead_is_lost_when_the_standby_takes_over(
    tmp_path: Path, cluster: Replicated, service_url: str, record_property: Any
) -> None:
    """The primary is killed or stopped under load, and the standby promoted. Then they change roles."""
    gaps: dict[str, float] = {"kill": 0, "switchover": 0}
    with platform(tmp_path, cluster.url, service_url) as service:
        replica = service.add_replica()
        with loaded(replica.url, service.dealers, most_lost=1000 * ROUNDS) as load:
            for number in range(ROUNDS):
                load.wait_for_answers()
                kind = "switchover" if number % 2 else "kill"
                load.longest_gap = 0
                if kind == "kill":
                    cluster.primary.kill()
                else:
                    cluster.primary.shut_down()
                cluster.promote()
                load.wait_for_answers()
                gaps[kind] = max(gaps[kind], load.longest_gap)
                cluster.rebuild()
        answered = Counter(load.leads.values())
        assert set(answered.values()) == {1}, "each lead has its own id"
        assert service.stored_leads() == answered
    figure = ", ".join(f"{gap:.1f} s without an answered lead at a {kind}" for kind, gap in gaps.items())
    record_property(
        "figure", f"{ROUNDS} failovers, {len(answered):,} leads, {len(load.lost)} refused or cut: at most {figure}"
    )


@contextmanager
def opened(url: str) -> Iterator[Store]:
    with Store.open(url, CIPHER) as store:
        yield store


def test_a_lead_waits_for_the_standby_and_a_cancelled_wait_is_no_answer(cluster: Replicated, service_url: str) -> None:
    """PostgreSQL reports success when the wait is cancelled. Only the primary has the lead then."""
    with opened(service_url) as store, closing(store.lead_writer()) as writer:
        writer.submit(DEALER, storing("answered")).result(120)
        cluster.standby.freeze()
        try:
            waiting = writer.submit(DEALER, storing("waits"))
            cluster.primary.wait_for("the lead waits", WAITS_FOR_STANDBY)
            assert read(store, DEALER, list_leads, 10)[0].lead_id == "answered", "reading goes on"
            with psycopg.connect(cluster.primary.url, autocommit=True) as other:
                other.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            with pytest.raises(DatabaseFailure, match="standby"):
                waiting.result(120)
            again = writer.submit(DEALER, read_revision)
            cluster.primary.wait_for("a job that only reads waits, too", WAITS_FOR_STANDBY)
            assert not again.done()
        finally:
            cluster.standby.resume()
        again.result(120)


def listening(store: Store, listens: threading.Event) -> None:
    async def listen() -> None:
        async for _ in store.announcements():
            listens.set()

    asyncio.run(asyncio.wait_for(listen(), 240))


@pytest.mark.soak
def test_a_server_that_takes_no_writes_any_more_is_left_by_all_connections(
    cluster: Replicated, service_url: str
) -> None:
    """The server goes on to run. It refuses writes, and its connections stay open."""
    old, listens = cluster.primary, threading.Event()

    def server_port(tx: Any) -> int:
        return int(tx.connection.exec_driver_sql("SELECT inet_server_port()").scalar_one())

    with ExitStack() as stack:
        store = stack.enter_context(opened(service_url))
        writer = stack.enter_context(closing(store.lead_writer()))
        listener = stack.enter_context(ThreadPoolExecutor()).submit(listening, store, listens)
        assert listens.wait(120)

        def ports() -> set[int]:
            # Until the standby is promoted, no server takes writes.
            with suppress(DatabaseUnreachable):
                writer.submit(DEALER, read_revision).result(120)
            with suppress(DatabaseUnreachable), ExitStack() as reads:
                three = [reads.enter_context(store.read(DEALER)) for _ in range(3)]
                return {server_port(tx) for tx in three}
            return set()

        assert ports() == {old.port}
        old.configure(synchronous_standby_names="", default_transaction_read_only="on")
        cluster.promote()
        eventually("all connections are to the new primary", lambda: ports() == {cluster.primary.port})
        writer.submit(DEALER, storing("stored")).result(120)
        with pytest.raises(DatabaseUnreachable):
            listener.result(120)


@pytest.mark.soak
def test_the_service_starts_when_the_database_does(tmp_path: Path, cluster: Replicated, service_url: str) -> None:
    """The port of the database refuses connections, then the server is starting."""
    folder = write_dealer(tmp_path / "store")
    cluster.primary.configure(synchronous_standby_names="")
    cluster.standby.kill()
    cluster.primary.kill()
    with ThreadPoolExecutor() as threads:
        starting = threads.submit(start, folder, DATABASE_URL=service_url)
        try:
            said = "Waiting for up to 120 seconds, because the database server does not answer."
            eventually("it waits", lambda: any(said in log.read_text() for log in folder.glob("stderr-*.log")))
        finally:
            cluster.primary.start()
        running: Running = starting.result(240)
        running.kill_all()


@pytest.mark.soak
def test_the_start_waits_for_a_server_that_is_starting_or_not_promoted_yet(
    cluster: Replicated, service_url: str
) -> None:
    reasons: list[str] = []

    def wait(url: str, release: Callable[[], None]) -> None:
        def on_wait(reason: str) -> None:
            reasons.append(reason)
            release()

        wait_for_server(url, on_wait)

    def promote() -> None:
        cluster.primary.shut_down()
        cluster.promote()

    cluster.primary.shut_down()
    wait(service_url, cluster.promote)
    assert reasons == ["no database server takes writes yet"]

    cluster.rebuild()
    cluster.standby.shut_down()
    # A standby with this setting tells its clients the same as a server that is starting.
    with (cluster.standby.data / "postgresql.auto.conf").open("a") as file:
        file.write("hot_standby = off\n")
    cluster.standby.start()
    wait(f"postgresql://postgres@127.0.0.1:{cluster.standby.port}/postgres", promote)
    assert reasons[1:] == ["the database server is starting or stopping"]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1"])
def test_the_wait_for_a_server_ends(host: str) -> None:
    reasons: list[str] = []
    with pytest.raises(DatabaseUnreachable, match="does not answer, for 0 seconds: check the host name"):
        wait_for_server(f"postgresql://nobody@{host}:{free_port()}/none", reasons.append, seconds=0)
    assert reasons == []


def test_a_refused_login_ends_the_start_at_once(tmp_path: Path, cluster: Replicated) -> None:
    folder = write_dealer(tmp_path / "store")
    rules = cluster.primary.data / "pg_hba.conf"
    rules.write_text("host all walled 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    cluster.primary.configure()
    with psycopg.connect(cluster.primary.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE walled LOGIN PASSWORD 'another-one'")
    for login in ("walled:secret-word@{}/postgres", "service@{}/no_such_database", "nobody@{}/postgres"):
        url = f"postgresql://{login.format(cluster.servers)}"
        done = command_here("serve", "--dir", folder, "--port", str(free_port()), DATABASE_URL=url)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: the database server refuses the connection ("), done.stderr
        assert "check the database's name, user and password" in done.stderr
        assert "secret-word" not in done.stderr
