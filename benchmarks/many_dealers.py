"""An installation of many generated dealers on PostgreSQL, the same in every run.

The stock of all dealers is made of one pool of units. It is copied to the server once, and each dealer's stock is a
part of it: the server copies a million units in a minute or two. Then each dealer gets its keys.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from msgspec import Struct

from benchmarks.dealership import RATE, RATES
from benchmarks.stock_maker import listed, units
from dealer_agent.config.installation import Installation, load_installation
from dealer_agent.config.keys import create_key_file
from dealer_agent.inventory.listing import document_of, listing_digest, vehicle_id_for
from dealer_agent.server.dealer_opener import note_first_time
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.privacy.dealer_keys import create_keys
from dealer_agent.storage.stock.stock_import import document_hash
from dealer_agent.storage.store import Store

USUAL = 290
"""The units of a usual dealer: 1,000,000 units of 3,500 dealers."""
COLD = (300, 3_000)
"""The sizes of the dealers whose first answer is measured."""
_LARGEST = 20_000

_DEALER = """id = "{id}"
name = "{id}"
feed_price = "advertised"

[[rooftops]]
name = "{id}"
timezone = "America/Chicago"
"""


class Dealers(NamedTuple):
    """The dealers of the installation and their units, by what they are for.

    `warm` and `further` are usual dealers. `cold` has dealers of each size of COLD. `fed` get imports. `others` have
    log-normal sizes.
    """

    warm: dict[str, int]
    cold: dict[int, list[str]]
    further: dict[str, int]
    fed: dict[str, int]
    others: dict[str, int]

    def sizes(self) -> dict[str, int]:
        """The units of each dealer."""
        cold = {dealer_id: size for size, dealers in self.cold.items() for dealer_id in dealers}
        return self.warm | cold | self.further | self.fed | self.others


class Prepared(Struct, frozen=True):
    """The size of the installation, and the seconds that its preparation took."""

    dealers: int
    units: int
    largest: int
    seconds: float


def dealers_of(count: int) -> Dealers:
    """So many dealers with 1,000,000 / 3,500 units each on average, or a few more."""
    warm = _named("warm", min(500, count // 3), USUAL)
    cold = {size: list(_named(f"cold{size}", most, size)) for size, most in zip(COLD, _cold(count), strict=True)}
    further = _named("further", min(20, count // 15), USUAL)
    fed = _named("fed", min(20, count // 15), COLD[0])
    made = sum(map(len, (warm, further, fed, *cold.values())))
    taken = sum((*warm.values(), *further.values(), *fed.values())) + sum(map(_units_of, cold.items()))
    rest = max(1, count - made)
    dice = random.Random(3)
    drawn = [dice.lognormvariate(0, 1.1) for _ in range(rest)]
    scale = max(1_000_000 * count // 3_500 - taken, 100 * rest) / sum(drawn)
    others = {f"dealer-{number:05d}": min(_LARGEST, max(1, round(each * scale))) for number, each in enumerate(drawn)}
    return Dealers(warm, cold, further, fed, others)


def _cold(count: int) -> tuple[int, int]:
    return min(100, count // 6), min(40, max(1, count // 40))


def _named(kind: str, count: int, size: int) -> dict[str, int]:
    return {f"{kind}-{number:05d}": size for number in range(count)}


def _units_of(cold: tuple[int, list[str]]) -> int:
    return cold[0] * len(cold[1])


def write_installation(folder: Path, *, snapshot_memory_mib: int, workers: int) -> None:
    """installation.toml with raised rate limits. All else is default."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    rates = "\n".join(f'{name} = "{RATE}"' for name in (*RATES, "health"))
    (folder / "installation.toml").write_text(
        f'[installation]\npublic_url = "https://agents.example.com"\nworkers = {workers}\n'
        f"snapshot_memory_mib = {snapshot_memory_mib}\n\n[rate_limits]\n{rates}\n",
        encoding="utf-8",
    )


def prepare(folder: Path, admin_url: str, service_url: str, sizes: dict[str, int]) -> Prepared:
    """Makes keys, dealers and stock. `admin_url` is that of a superuser. The database has its tables already."""
    started = time.perf_counter()
    create_key_file(folder)
    with psycopg.connect(admin_url) as connection:
        _write(connection, sizes)
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    _make_keys(load_installation(folder, {"DATABASE_URL": service_url}), list(sizes))
    return Prepared(len(sizes), sum(sizes.values()), max(sizes.values()), time.perf_counter() - started)


def dealer_document(dealer_id: str) -> bytes:
    """The settings of a generated dealer."""
    return _DEALER.format(id=dealer_id).encode()


def _write(connection: psycopg.Connection, sizes: dict[str, int]) -> None:
    now = microseconds(datetime.now(UTC))
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE sizes (dealer_id text, units int, document bytea)")
        with cursor.copy("COPY sizes FROM STDIN") as copy:
            for dealer_id, count in sizes.items():
                copy.write_row((dealer_id, count, dealer_document(dealer_id)))
        cursor.execute(
            "CREATE TEMP TABLE pool"
            " (number int, vehicle_id text, vin text, stock text, digest text, document_hash bytea, unit bytea)"
        )
        with cursor.copy("COPY pool FROM STDIN") as copy:
            for row in _pool(max(sizes.values())):
                copy.write_row(row)
        for statement in (
            "INSERT INTO registered_dealers (dealer_id, enabled, listed, name, settings_number, added_at, changed_at)"
            " SELECT dealer_id, true, true, dealer_id, 1, {now}, {now} FROM sizes",
            "INSERT INTO dealer_settings (dealer_id, number, at, actor, note, document)"
            " SELECT dealer_id, 1, {now}, 'benchmark', '', document FROM sizes",
            "INSERT INTO units (dealer_id, vehicle_id, vin, stock, digest, action, revision, document_hash, first_seen,"
            " changed_at, updated_at) SELECT dealer_id, vehicle_id, vin, stock, digest, 'added', 1, document_hash,"
            " {now}, {now}, {now} FROM sizes JOIN pool ON number < units ORDER BY dealer_id, vehicle_id",
            "INSERT INTO unit_documents (dealer_id, vehicle_id, unit) SELECT dealer_id, vehicle_id, unit"
            " FROM sizes JOIN pool ON number < units ORDER BY dealer_id, vehicle_id",
            "INSERT INTO imports (dealer_id, revision, at, current_at, source, kind, layout, full_file, added, changed,"
            " unchanged, sold, back) SELECT dealer_id, 1, {now}, {now}, 'benchmark', 'import', 'canonical', true,"
            " units, 0, 0, 0, 0 FROM sizes",
            "INSERT INTO revisions (dealer_id, stock_counter, token_counter, settings_counter)"
            " SELECT dealer_id, 1, 0, 1 FROM sizes",
        ):
            cursor.execute(statement.format(now=now).encode())


def _pool(count: int) -> Iterator[tuple[object, ...]]:
    for number, (unit, changed_at) in enumerate(units(count)):
        plain = msgspec.structs.replace(unit, rooftop_hints=())
        digest = listing_digest(listed(plain, changed_at), plain.extras)
        document = document_of(plain)
        vin, stock = plain.vin or None, plain.stock or None
        yield number, vehicle_id_for(plain), vin, stock, digest, document_hash(document), document


def _make_keys(installation: Installation, dealers: list[str]) -> None:
    with (
        Store.open(installation.database_url, installation.cipher, many_dealers=True) as store,
        ThreadPoolExecutor(4) as threads,
    ):

        def once(dealer_id: str) -> None:
            with store.write(dealer_id) as tx:
                create_keys(tx)
            store.check_keys(dealer_id)
            note_first_time(store, dealer_id, datetime.now(UTC))

        list(threads.map(once, dealers))
