"""What an installation costs besides requests: memory, idle time, connections, rows of feeds, and bytes in PostgreSQL.

The model (`benchmarks.model`) needs these figures. Bytes, memory and connections hardly depend on other work of the
machine. The points of 1 and 300 dealers give the costs, and larger ones check the model.
"""

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psycopg
from tests.storage.databases import fresh_schema, own_postgresql, with_system_folders
from tests.storage.service_role import admin_of, prepared_schema

from benchmarks.dealership import feed_units, make_dealer, write_settings
from benchmarks.installation_points import FITTED, InstallationCosts, Loaded, Point, RowCost, StoredBytes
from benchmarks.lead_requests import lead_requests
from benchmarks.leads import CHANNEL, CRM_CHANNEL
from benchmarks.many_dealers import USUAL, dealer_document, dealers_of, prepare, write_installation
from benchmarks.platform_clients import WorkerClient, a_client_of_each_worker, load_all
from benchmarks.servers import Server, allow_open_files, ask, cpu_seconds, dealer_agent, installation, peer
from benchmarks.steady import send_steadily
from dealer_agent.config.installation import load_installation
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.installation.dealer_registry import count_changes
from dealer_agent.storage.store import Store

WORKERS = 2
ROOMY_MIB = 8_192
FED = 20
"""The most dealers that get feeds."""
LEADS = 400
LEADS_PER_SECOND = 40
POLLS = 1_000
PATIENCE_SECONDS = 120
SETTLED_SECONDS = 0.2
"""Processor time of a service in two seconds that does not load dealers any more."""

Say = Callable[[str], None]


def installation_costs(sizes: Sequence[int], seconds: float, say: Say) -> InstallationCosts:
    """Measures installations with so many dealers, each idle for these seconds, and then feeds and leads."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    open_files = allow_open_files()
    with tempfile.TemporaryDirectory() as name, own_postgresql() as server:
        stored = _lead_bytes(Path(name) / "leads", server.url, say)
        points = []
        for count in sorted(sizes):
            say(f"{count:,} dealers are made")
            dealers = {"only": USUAL} if count == 1 else dealers_of(count).sizes()
            with _prepared(Path(name) / str(count), server.url, dealers) as run:
                stored |= run.stored_bytes()
                points.append(run.point(server.pid, seconds, say))
                if count <= FITTED:
                    changed, unchanged = run.feeds(server.pid, points[-1], say)
                    stored |= run.version_bytes()
    return InstallationCosts(WORKERS, open_files, points, changed, unchanged, msgspec.convert(stored, StoredBytes))


@contextmanager
def _prepared(folder: Path, server: str, sizes: dict[str, int]) -> Iterator["_Run"]:
    with prepared_schema(server) as (admin_url, service_url):
        # The tables may have had other dealers.
        with psycopg.connect(admin_url, autocommit=True) as connection:
            connection.execute("VACUUM FULL")
        empty = _table_bytes(admin_url)
        write_installation(folder, snapshot_memory_mib=ROOMY_MIB, workers=WORKERS)
        prepare(folder, admin_url, service_url, sizes)
        yield _Run(folder, {"DATABASE_URL": service_url}, admin_url, sizes, empty)


@dataclass
class _Run:
    """An installation with dealers of these sizes. `empty` has the bytes of each table before them."""

    folder: Path
    env: Mapping[str, str]
    admin_url: str
    sizes: dict[str, int]
    empty: dict[str, int]

    def stored_bytes(self) -> dict[str, float]:
        """Bytes of a unit, and of a dealer without its units."""
        grown = _grown(self.empty, _table_bytes(self.admin_url))
        of_units = sum(grown[table] for table in ("units", "unit_documents"))
        return {
            "unit": of_units / sum(self.sizes.values()),
            "dealer": (sum(grown.values()) - of_units) / len(self.sizes),
        }

    def version_bytes(self) -> dict[str, float]:
        """Bytes of an earlier version of a unit and of an import, after feeds."""
        grown = _grown(self.empty, _table_bytes(self.admin_url))
        with psycopg.connect(self.admin_url) as connection:
            versions, imports = (
                connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0]
                for table in ("recorded_units", "imports")
            )
        return {"version": grown["recorded_units"] / max(1, versions), "feed": grown["imports"] / max(1, imports)}

    def point(self, database: int, seconds: float, say: Say) -> Point:
        """Start, memory, idle time, connections and polls."""
        say(f"{len(self.sizes):,} dealers: the service starts")
        begun = time.perf_counter()
        with installation(self.folder, WORKERS, self.env) as server:
            ready_seconds, ready_cpu = time.perf_counter() - begun, server.cpu_seconds()[0]
            with a_client_of_each_worker(server) as clients:
                registered_mib = server.whole_memory()
                loaded = self._load(server, clients, say)
                say(f"{len(self.sizes):,} dealers: nothing happens")
                time.sleep(5)
                before = server.cpu_seconds()[0], cpu_seconds(database)[0]
                time.sleep(seconds)
                after = server.cpu_seconds()[0], cpu_seconds(database)[0]
                connections = self._connections()
        idle_service, idle_database = ((now - then) / seconds for now, then in zip(after, before, strict=True))
        return Point(
            dealers=len(self.sizes),
            units=sum(self.sizes.values()),
            ready_seconds=ready_seconds,
            ready_cpu=ready_cpu,
            registered_mib=registered_mib,
            loaded=loaded,
            idle_service=idle_service,
            idle_database=idle_database,
            connections=connections,
            poll=self._poll(database),
        )

    def _load(self, server: Server, clients: Sequence[WorkerClient], say: Say) -> list[Loaded]:
        """Loads the dealers in steps, until the workers begin to close some."""
        # In a small installation, dealers of a size together tell apart what a dealer and what a unit needs.
        order = list(self.sizes)
        random.Random(7).shuffle(order)
        if len(order) <= FITTED:
            order.sort(key=self.sizes.__getitem__)
        found: list[Loaded] = []
        step = -(-len(order) // (2 if len(order) <= FITTED else 8))
        for begin in range(0, len(order), step):
            end = min(begin + step, len(order))
            say(f"{len(order):,} dealers: each worker loads dealer {begin:,} to {end:,}")
            load_all(clients, order[begin:end])
            units = sum(self.sizes[dealer_id] for dealer_id in order[:end])
            files = sum(file.stat().st_size for file in self.folder.rglob("*.bin")) / 2**20
            found.append(Loaded(end, units, server.whole_memory(), files))
            if not found[-1].fits(allow_open_files()):
                break
        return found

    def feeds(self, database: int, point: Point, say: Say) -> tuple[RowCost, RowCost]:
        """Microseconds for a row of a feed that has another price, and for one that is the same.

        The service has loaded the dealers, and loads their new stock.
        """
        fed = list(self.sizes)[:FED]
        loaded = load_installation(self.folder, self.env)
        records = [{name: value for name, value in unit.items() if name != "rooftop"} for unit in feed_units(USUAL)]
        with (
            installation(self.folder, WORKERS, self.env) as server,
            a_client_of_each_worker(server) as clients,
            Store.open(loaded.database_url, loaded.cipher, many_dealers=True) as store,
        ):
            load_all(clients, fed)
            _settle(server)

            def import_all(price: int) -> RowCost:
                say(f"{len(self.sizes):,} dealers: {len(fed)} of them get a feed")
                for place, record in enumerate(records):
                    record["price"] = price + place
                content = msgspec.json.encode(records)
                begun = time.perf_counter()
                ours, service, theirs = time.process_time(), server.cpu_seconds()[0], cpu_seconds(database)[0]
                for dealer_id in fed:
                    profile = loaded.dealer_settings(dealer_document(dealer_id).decode()).dealer
                    feed, at = read_feed(content), datetime.now(UTC)
                    import_feed(store, profile, feed, source="feed.json", at=at, accept=EVERY_CHECK)
                ours = time.process_time() - ours
                # Every worker loads the new stock within two seconds.
                time.sleep(4)
                elapsed = time.perf_counter() - begun
                service = server.cpu_seconds()[0] - service - point.idle_service * elapsed
                theirs = cpu_seconds(database)[0] - theirs - point.idle_database * elapsed
                rows = len(fed) * len(records)
                return RowCost((ours + max(0.0, service)) / rows * 1e6, max(0.0, theirs) / rows * 1e6)

            import_all(20_000)
            return import_all(21_000), import_all(21_000)

    def _connections(self) -> int:
        """The connections of the service to the database."""
        role = database_url(self.env["DATABASE_URL"]).username
        with psycopg.connect(self.admin_url) as connection:
            found = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", (role,)).fetchone()
        assert found is not None
        return int(found[0])

    def _poll(self, database: int) -> float:
        loaded = load_installation(self.folder, self.env)
        with Store.open(admin_of(loaded.database_url), loaded.cipher, many_dealers=True) as store:
            before = cpu_seconds(database)[0]
            for _ in range(POLLS):
                with store.installation() as everything:
                    count_changes(everything)
            return (cpu_seconds(database)[0] - before) / POLLS * 1e6


def _settle(server: Server) -> None:
    """Waits until the service has loaded the dealers that were used before its start."""
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends:
        before = server.cpu_seconds()[0]
        time.sleep(2)
        if server.cpu_seconds()[0] - before < SETTLED_SECONDS:
            return


def _lead_bytes(folder: Path, server: str, say: Say) -> dict[str, float]:
    """Bytes of a lead, and of its delivery to a CRM over HTTP."""
    say("leads and their deliveries")
    with fresh_schema(server) as url, peer("crm", pinned=False) as crm:
        env = {"DATABASE_URL": url}
        make_dealer(folder, USUAL, env)
        vins = [unit["vin"] for unit in feed_units(USUAL) if "vin" in unit]
        requests = list(lead_requests(vins, datetime.now(UTC), 2 * LEADS))
        grown = []
        for channel, sent in (("", requests[:LEADS]), (CRM_CHANNEL % crm.port, requests[LEADS:])):
            write_settings(folder, channel)
            before = sum(_table_bytes(url).values())
            with dealer_agent(folder, WORKERS, pinned=False, env=env) as service:
                answered = send_steadily(service.port, sent, LEADS_PER_SECOND)
                if channel:
                    _wait_for(crm, answered.answered - answered.refused)
            grown.append((sum(_table_bytes(url).values()) - before) / (answered.answered - answered.refused))
    without, delivered = grown
    return {"lead": without, "delivery": max(0.0, delivered - without)}


def _wait_for(crm: Server, count: int) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while (taken := int(ask(crm.port, "GET", "/")[1])) < count:
        assert time.monotonic() < ends, f"{taken} of {count} leads arrived at {CHANNEL}"
        time.sleep(0.1)


def _table_bytes(url: str) -> dict[str, int]:
    """The bytes of each table with its indexes."""
    with psycopg.connect(url) as connection:
        return dict(
            connection.execute(
                "SELECT relname::text, pg_total_relation_size(oid)::bigint FROM pg_class"
                " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
            ).fetchall()
        )


def _grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {table: size - before.get(table, 0) for table, size in after.items()}
