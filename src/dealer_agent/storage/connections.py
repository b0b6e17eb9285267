"""Connects to the database of a URL: one engine reads, one writes durably. All dialect-specific code is here.

SQLite: by default, SQLAlchemy leaves a SELECT outside the transaction, and a plain BEGIN fails with "locked" when a
reader starts to write. So the transaction control of pysqlite is off. Writers begin with BEGIN IMMEDIATE, readers with
BEGIN (a snapshot, in WAL mode). The writer syncs every commit (`synchronous=FULL`) and overwrites deleted data with
zeros (`secure_delete`). A connection never creates the file (`storage.migrate` does). It is closed if the file was
moved, deleted or replaced: data written to such a file is lost.

PostgreSQL: readers are REPEATABLE READ and read-only (a snapshot too). Writers are READ COMMITTED and lock rows. They
turn `synchronous_commit` on if the server has it off: an answered lead survives a power cut
(docs/protocol.md#durable-before-answer).

Both share one pool, whose size is the most connections of the process. A transaction sets all that it needs itself, and
nothing lasts longer. So a pooler such as PgBouncer may give each transaction another session. That session does not
have the statements that the driver prepared in an earlier one. So a connection through a pooler prepares none.
"""

import errno
import fcntl
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from dealer_agent.encryption.file_permissions import advice, open_to_others
from dealer_agent.storage.errors import (
    FULL,
    BadDatabaseUrl,
    DatabaseBusy,
    DatabaseExposed,
    DatabaseUnreachable,
    DiskFull,
)
from dealer_agent.storage.isolation import begin_transaction
from dealer_agent.storage.prepared_statements import write_collected

BUSY_SECONDS = 30
"""How long a writer waits for the lock of another process: longer than the longest import."""

IMPORT_SECONDS = 600
"""How long an import waits for another import of the dealer."""

_LOCK_IMPORTS = text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || :dealer, 0))")

SPACE_BYTES = 256 * 1024
"""The free disk space that a SQLite database needs: more than a usual group of leads."""

MOST_CONNECTIONS = 10
"""The connections of a process to PostgreSQL, if no setting has another number."""

POOL_SECONDS = 10
"""How long a transaction waits for a connection of the pool."""

CONNECT_SECONDS = 10

READ_PROCESS = "SELECT pg_backend_pid()"
"""The server's process of a connection. A pooler has told the driver another one, because it may change."""

TURN_SECONDS = 0.001
"""How often a waiting SQLite writer tries again."""

_DEALER = "dealer_agent_dealer"
"""The execution option with the dealer of a transaction."""

_BEGIN_TO_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_BEGIN_TO_WRITE = (
    f"BEGIN; SELECT set_config('lock_timeout', '{BUSY_SECONDS}s', true), CASE current_setting('synchronous_commit') "
    "WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
)

_POSTGRESQL_SCHEMES = ("postgres", "postgresql", "postgresql+psycopg")


def database_url(url: str) -> URL:
    """`url` with the driver filled in. Raises BadDatabaseUrl.

    It accepts `sqlite:///relative/path`, `sqlite:////absolute/path`, `postgresql://...` and `postgres://...`.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Both errors may quote the URL, which may contain a password.
        raise BadDatabaseUrl("the database URL cannot be read: postgresql://... or sqlite:///path expected") from None
    if parsed.drivername in _POSTGRESQL_SCHEMES:
        try:
            # The driver raises UnicodeError for an invalid name, which is not a database error.
            (parsed.host or "").encode("idna")
        except UnicodeError:
            raise BadDatabaseUrl("the database URL names a host that can be no host name") from None
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise BadDatabaseUrl("SQLite needs a file (sqlite:///path): processes share it")
        return parsed
    raise BadDatabaseUrl(f"databases of kind {parsed.drivername!r} are not supported: sqlite or postgresql")


def is_sqlite(url: str) -> bool:
    """Whether the URL is that of a SQLite database. Raises BadDatabaseUrl."""
    return database_url(url).get_backend_name() == "sqlite"


def require_private(url: URL) -> None:
    """Raises DatabaseExposed if other users may read a SQLite file, or its `-wal` and `-shm` files."""
    if url.get_backend_name() != "sqlite":
        return
    file = Path(str(url.database)).absolute()
    try:
        exposed = open_to_others([file, *(file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm"))])
    except OSError as error:
        raise DatabaseUnreachable(f"the database file cannot be opened ({error.strerror})") from None
    if exposed:
        raise DatabaseExposed(f"the database {advice('600', exposed)}")


def open_engines(url: URL, most: int = MOST_CONNECTIONS) -> tuple[Engine, Engine]:
    """The engines of the writers and of the readers. On PostgreSQL they have at most `most` connections together."""
    if url.get_backend_name() == "sqlite":
        return writer_engine(url), _sqlite_reader(url)
    pool = _postgresql_engine(url, most)
    reader = pool.execution_options()
    _begin_with_dealer(reader, _BEGIN_TO_READ)
    return _writer_of(pool), reader


def writer_engine(url: URL) -> Engine:
    """Connections whose committed transactions are durable."""
    if url.get_backend_name() == "sqlite":
        engine = _sqlite_engine(url)
        _on_connect(
            engine,
            f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}",
            "PRAGMA foreign_keys=ON",
            "PRAGMA synchronous=FULL",
            "PRAGMA secure_delete=ON",
            # The data that a savepoint restores. In a file, it would cost more than the lead itself.
            "PRAGMA temp_store=MEMORY",
        )
        _queue_writers(engine, Path(f"{Path(str(url.database)).absolute()}-wal"))
        _write_collected_first(engine)
        return engine
    return _writer_of(_postgresql_engine(url, MOST_CONNECTIONS))


def _writer_of(pool: Engine) -> Engine:
    engine = pool.execution_options()
    _begin_with_dealer(engine, _BEGIN_TO_WRITE)
    _write_collected_first(engine)
    return engine


def _write_collected_first(engine: Engine) -> None:
    @event.listens_for(engine, "before_cursor_execute")
    def write_first(connection: Connection, *_: object) -> None:
        write_collected(connection)


def _sqlite_reader(url: URL) -> Engine:
    """Connections whose transactions see one snapshot and cannot write."""
    engine = _sqlite_engine(url)
    _on_connect(engine, f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}", "PRAGMA query_only=ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def begin(engine: Engine, dealer_id: str) -> AbstractContextManager[Connection]:
    """A transaction of a dealer, or of ALL_DEALERS. On PostgreSQL it sees no other rows (`storage.isolation`)."""
    return engine.begin() if engine.dialect.name == "sqlite" else _begin_for(engine, dealer_id)


@contextmanager
def _begin_for(engine: Engine, dealer_id: str) -> Iterator[Connection]:
    with engine.connect() as connection:
        connection.execution_options(**{_DEALER: dealer_id})
        with connection.begin():
            yield connection


def check_space(engine: Engine) -> None:
    """Raises DiskFull if the disk, or its quota, has no space for more leads in a SQLite file.

    It writes a file without a name, and closes it before the kernel flushes it to the disk. It cannot check the disk of
    a PostgreSQL server.
    """
    if engine.dialect.name != "sqlite":
        return
    try:
        with tempfile.TemporaryFile(dir=Path(str(engine.url.database)).absolute().parent, buffering=0) as file:
            written = file.write(bytes(SPACE_BYTES))
    except OSError as problem:
        # The database reports other problems of the folder itself.
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(FULL[1]) from None
    else:
        if written < SPACE_BYTES:
            raise DiskFull(FULL[1])


@contextmanager
def import_lock(engine: Engine, dealer_id: str) -> Iterator[None]:
    """Lets one import of a dealer run at a time, in all processes. The lock ends with its process.

    The lock of a SQLite database is on its folder. Raises DatabaseBusy after `IMPORT_SECONDS`.
    """
    if engine.dialect.name != "sqlite":
        with begin(engine, dealer_id) as connection:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{IMPORT_SECONDS}s'")
            connection.execute(_LOCK_IMPORTS, {"dealer": dealer_id})
            yield
        return
    folder = os.open(Path(str(engine.url.database)).absolute().parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        ends = time.monotonic() + IMPORT_SECONDS
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise DatabaseBusy(
                        "another import has not finished for a long time: stop it, then try again"
                    ) from None
                time.sleep(0.02)
            else:
                break
        yield
    finally:
        os.close(folder)


def truncate_log(engine: Engine) -> None:
    """Empties SQLite's write-ahead log, which contains erased data until it is overwritten.

    It waits a second for other readers and writers. If they do not finish, the next call empties the log.
    """
    if engine.dialect.name != "sqlite":
        return
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=1000")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


def _sqlite_engine(url: URL) -> Engine:
    path = Path(str(url.database)).absolute()
    address = f"{path.as_uri()}?mode=rw"
    engine = create_engine(
        url,
        hide_parameters=True,
        creator=lambda: sqlite3.connect(address, uri=True, check_same_thread=False),
    )

    @event.listens_for(engine, "connect")
    def remember_file(_connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        record.info["file"] = _file_at(path)

    @event.listens_for(engine, "checkout")
    def refuse_other_file(_connection: sqlite3.Connection, record: ConnectionPoolEntry, _fairy: object) -> None:
        if _file_at(path) != record.info["file"]:
            raise DisconnectionError("the database file was moved, deleted or replaced after it was opened")

    return engine


def _file_at(path: Path) -> tuple[int, int] | None:
    """The device and inode of the file at `path`."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _postgresql_engine(url: URL, most: int) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,
        pool_size=most,
        max_overflow=0,
        pool_timeout=POOL_SECONDS,
        connect_args={"connect_timeout": CONNECT_SECONDS},
    )

    @event.listens_for(engine, "connect")
    def prepare_nothing_through_pooler(connection: Any, _record: ConnectionPoolEntry) -> None:
        connection.autocommit = True
        (process,) = connection.execute(READ_PROCESS).fetchone()
        connection.autocommit = False
        if process != connection.info.backend_pid:
            connection.prepare_threshold = None

    return engine


def _on_connect(engine: Engine, *pragmas: str) -> None:
    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma)


def _queue_writers(engine: Engine, log: Path) -> None:
    """Makes the writers of all processes begin one after the other.

    SQLite has no queue. A writer that finds it locked sleeps longer and longer, up to 0.1 s, and a writer that has
    committed begins again at once. So one of two busy processes starves. Here one writer at a time tries, often, and
    the others wait for a lock on the write-ahead log. SQLite itself does not lock this file, so closing it releases
    nothing else.
    """

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        ends = time.monotonic() + BUSY_SECONDS
        driver = connection.connection.driver_connection
        assert driver is not None, "a connection that begins is open"
        with _log_lock(log, ends):
            driver.execute("PRAGMA busy_timeout=0")
            try:
                while time.monotonic() < ends:
                    try:
                        driver.execute("BEGIN IMMEDIATE")
                    except sqlite3.OperationalError as problem:
                        if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                            break
                        time.sleep(TURN_SECONDS)
                    else:
                        return
                # It fails again, with an error of SQLAlchemy.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            finally:
                driver.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


@contextmanager
def _log_lock(log: Path, ends: float) -> Iterator[None]:
    """Holds the lock on the write-ahead log. Continues without it after `ends`: the database has its own lock."""
    try:
        file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        while time.monotonic() < ends:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(TURN_SECONDS)
            except OSError:
                break
            else:
                break
        yield
    finally:
        os.close(file)


def _begin_with_dealer(engine: Engine, statements: str) -> None:
    """Begins each transaction with these statements, and sets its dealer, in one round trip."""

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        begin_transaction(connection, statements, connection.get_execution_options().get(_DEALER))
