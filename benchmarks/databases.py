"""The two databases on one disk, and the rate of a single writer that commits row by row in each."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import psycopg
from tests.storage.databases import fresh_schema, own_postgresql, with_system_folders

from benchmarks.servers import cpu_seconds
from benchmarks.wrk import Load

SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
BODY = b"x" * 1000


class OpenDatabase(NamedTuple):
    """An empty database. `env` is the environment of the service; `main` is the process of the database server, if
    any."""

    env: Mapping[str, str]
    main: int | None

    def cpu_seconds(self) -> float:
        """Processor time of the database server so far. That of SQLite is part of the service's own."""
        return 0.0 if self.main is None else cpu_seconds(self.main)[0]


class DatabaseKind(NamedTuple):
    """Opens an empty database for a dealer's folder, and commits rows in one for so many seconds."""

    name: str
    opened: Callable[[Path], AbstractContextManager[OpenDatabase]]
    bare_commits: Callable[[Path, float], Load]


@contextmanager
def both() -> Iterator[tuple[DatabaseKind, DatabaseKind]]:
    """SQLite, and a PostgreSQL server that runs during the block."""
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    with own_postgresql() as server:

        @contextmanager
        def opened(_: Path) -> Iterator[OpenDatabase]:
            with fresh_schema(server.url) as url:
                yield OpenDatabase({"DATABASE_URL": url}, server.pid)

        yield (
            DatabaseKind(SQLITE, _sqlite, _bare_sqlite),
            DatabaseKind(POSTGRESQL, opened, lambda _, seconds: _bare_postgresql(server.url, seconds)),
        )


@contextmanager
def _sqlite(folder: Path) -> Iterator[OpenDatabase]:
    yield OpenDatabase({"DATABASE_URL": f"sqlite:///{folder / 'dealer.db'}"}, None)


def _bare_sqlite(folder: Path, seconds: float) -> Load:
    with closing(sqlite3.connect(folder / "bare.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body BLOB)")
        return _commits(lambda: connection.execute("INSERT INTO bare (body) VALUES (?)", (BODY,)), seconds)


def _bare_postgresql(server: str, seconds: float) -> Load:
    with fresh_schema(server) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY, body BYTEA)")
        return _commits(lambda: connection.execute("INSERT INTO bare (body) VALUES (%s)", (BODY,)), seconds)


def _commits(commit: Callable[[], object], seconds: float) -> Load:
    """One connection that repeats: commit a row, wait for the disk."""
    waited = []
    cpu = time.process_time()
    started = sent = time.perf_counter()
    while sent - started < seconds:
        commit()
        done = time.perf_counter()
        waited.append(done - sent)
        sent = done
    hundredths = quantiles(waited, n=100)
    count = len(waited)
    used = (time.process_time() - cpu) / count * 1e6
    return Load(count / (sent - started), count, 0, 0, hundredths[49] * 1000, hundredths[98] * 1000, used, 0.0)
