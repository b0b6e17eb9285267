"""Connects to the database of a URL. All dialect-specific code is here:

- `open_engines` makes the engine that reads and the one that writes durably, `writer_engine` that of the lead writer;
- `begin` begins a transaction of a dealer, and `replace_connections` leaves a server that is lost;
- `import_lock` makes the imports of a dealer wait for each other;
- for SQLite, `require_private` refuses a file that other users can read, `check_space` looks for free disk space, and
  `truncate_log` shortens the write-ahead log.

SQLite: by default, SQLAlchemy leaves a SELECT outside the transaction, and a plain BEGIN fails with "locked" when a
reader starts to write. So the transaction control of pysqlite is off. Writers begin with BEGIN IMMEDIATE, readers with
BEGIN (a snapshot, in WAL mode). The writer syncs every commit (`synchronous=FULL`) and overwrites deleted data with
zeros (`secure_delete`). A connection never creates the file (`storage.migrate` does). It is closed if the file was
moved, deleted or replaced: data written to such a file is lost.

PostgreSQL: readers are REPEATABLE READ and read-only (a snapshot too). Writers are READ COMMITTED and lock rows. They
turn `synchronous_commit` on if the server has it off: an answered lead survives a power cut
(docs/protocol.md#durable-before-answer). A URL may name several servers, of which one takes writes. When a transaction
finds that its server is lost or takes no writes any more, the pool replaces all its connections.

Both share one pool. The lead writer has a connection of its own: transactions that wait never keep it from the
database. Together they have at most the connections of the process. A transaction sets all that it needs itself, and
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from dealer_agent.encryption.private_files import advice, open_to_others
from dealer_agent.storage.errors import (
    FULL,
    UNREPLICATED,
    DatabaseBusy,
    DatabaseExposed,
    DatabaseUnreachable,
    DiskFull,
    translating,
)
from dealer_agent.storage.installation.registration import (
    HOLD_AND_FIND,
    READ_ENABLED,
    needs_registration,
    not_registered,
)
from dealer_agent.storage.isolation import begin_transaction
from dealer_agent.storage.leads.prepared_statements import write_collected

BUSY_SECONDS = 30
"""How long a writer waits for the lock of another process: longer than the longest import."""

IMPORT_SECONDS = 600
"""How long an import waits for another import of the dealer."""

_LOCK_IMPORTS = text("SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || :dealer, 0))")

SPACE_BYTES = 256 * 1024
"""The free disk space that a SQLite database needs: more than a usual group of leads."""

MOST_CONNECTIONS = 10
"""The connections of a process to PostgreSQL, if no setting has another number."""

LEAD_CONNECTIONS = 1
"""The connections that only the lead writer uses."""

POOL_SECONDS = 10
"""How long a transaction waits for a connection of the pool."""

CONNECT_SECONDS = 4
"""How long a connection to one server of the URL may take. Then the next server is tried."""

TCP = {"keepalives_idle": 5, "keepalives_interval": 1, "keepalives_count": 3, "tcp_user_timeout": 8000}
"""A connection to a machine that is gone ends after 8 seconds. The options of the URL come first."""

IDLE_SECONDS = 15
"""The server ends a transaction that writes, and frees its locks, after it was idle for this long. Its process was
stopped, or its machine is lost. A busy machine delays a process for a shorter time."""

READING_IDLE_SECONDS = 600
"""How long a transaction that only reads may be idle: longer than a process works on what it has read."""

IMPORT_IDLE_SECONDS = 7200
"""How long the lock of an import may be idle: longer than the longest import."""

READ_PROCESS = "SELECT pg_backend_pid()"
"""The server's process of a connection. Behind a pooler, the driver knows another one, because it may change."""

TURN_SECONDS = 0.001
"""How often a waiting SQLite writer tries again."""

_DEALER = "dealer_agent_dealer"
"""The execution option with the dealer of a transaction."""

_LOCK_SECONDS = "dealer_agent_lock_seconds"
"""The execution option with the time that a statement of a transaction waits for a lock. BUSY_SECONDS without it."""

_REGISTERED = "dealer_agent_registered"
"""The execution option of a transaction whose dealer must be registered."""

_IDLE = "SET LOCAL idle_in_transaction_session_timeout = '{}s'"

_BEGIN_TO_READ = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_IDLE.format(READING_IDLE_SECONDS)}"

_BEGIN_ANY = (
    "BEGIN; SELECT set_config('lock_timeout', '{lock_milliseconds:.0f}ms', true), "
    "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
)
"""Any transaction that writes. Those of commands that make or copy a database may stand idle for long."""

_BEGIN_TO_WRITE = f"{_BEGIN_ANY}; {_IDLE.format(IDLE_SECONDS)}"

_LOSSES = "dealer_agent_losses"
"""The execution option with the `_ServerLosses` of a store."""

_UNREPLICATED = "dealer_agent_unreplicated"
"""The key, in the `info` of a connection, of whether the server has not waited for its synchronous standby."""


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


@dataclass(slots=True)
class _ServerLosses:
    """How often a transaction of a store has lost its server. Each pool then replaces its connections."""

    count: int = 0


class Engines(NamedTuple):
    """The engines of a store: of the lead writer, of the other writers, and of the readers."""

    leads: Engine
    writer: Engine
    reader: Engine


def open_engines(url: URL, most: int = MOST_CONNECTIONS) -> Engines:
    """The engines of a store. On PostgreSQL they have at most `most` connections together, and at least two."""
    if url.get_backend_name() == "sqlite":
        writer = writer_engine(url)
        return Engines(writer, writer, _sqlite_reader(url))
    losses = _ServerLosses()
    pool = _postgresql_engine(url, max(1, most - LEAD_CONNECTIONS), losses)
    reader = pool.execution_options()
    _begin_with_dealer(reader, _BEGIN_TO_READ)
    leads = _postgresql_engine(url, LEAD_CONNECTIONS, losses)
    return Engines(_writer_of(leads, _BEGIN_TO_WRITE), _writer_of(pool, _BEGIN_TO_WRITE), reader)


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
    return _writer_of(_postgresql_engine(url, MOST_CONNECTIONS, _ServerLosses()), _BEGIN_ANY)


def _writer_of(pool: Engine, statements: str) -> Engine:
    engine = pool.execution_options()
    _begin_with_dealer(engine, statements)
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


def begin(
    engine: Engine, dealer_id: str, lock_seconds: float = BUSY_SECONDS, *, registered: bool = False
) -> AbstractContextManager[Connection]:
    """A transaction of a dealer, or of ALL_DEALERS. On PostgreSQL it sees no other rows (`storage.isolation`).

    On PostgreSQL, a statement that waits for a lock for longer than `lock_seconds` raises DatabaseBusy. `registered`:
    the dealer of an installation cannot be removed until the transaction ends (`storage.installation.registration`).
    It then raises DealerUnknown for a dealer that was removed.
    """
    if engine.dialect.name == "sqlite":
        return _begin_on_sqlite(engine, dealer_id, registered=registered)
    return _begin_on_postgresql(engine, dealer_id, lock_seconds, registered=registered)


@contextmanager
def _begin_on_sqlite(engine: Engine, dealer_id: str, *, registered: bool) -> Iterator[Connection]:
    """`begin` on SQLite, where the one lock for writers also prevents a removal of the dealer."""
    with engine.begin() as connection:
        if registered and needs_registration(connection, dealer_id):
            rows = connection.execute(READ_ENABLED.statement, {"dealer": dealer_id})
            if rows.one_or_none() is None:
                raise not_registered(dealer_id)
        yield connection


@contextmanager
def _begin_on_postgresql(
    engine: Engine, dealer_id: str, lock_seconds: float, *, registered: bool
) -> Iterator[Connection]:
    """`begin` on PostgreSQL. The event handler of `_begin_with_dealer` reads what is set here.

    So BEGIN, the choice of the dealer and the hold on its registration are one round trip. If the server is lost, all
    connections are replaced. A commit that no standby has confirmed raises the error in UNREPLICATED.
    """
    with engine.connect() as connection:
        registered = registered and needs_registration(connection, dealer_id)
        connection.execution_options(**{_DEALER: dealer_id, _LOCK_SECONDS: lock_seconds, _REGISTERED: registered})
        try:
            with translating(), connection.begin():
                yield connection
                connection.info[_UNREPLICATED] = False
        except DatabaseUnreachable:
            replace_connections(engine)
            raise
        if connection.info[_UNREPLICATED]:
            # Somebody, or a timeout of the server, has ended the wait for the standby. The server then reports success.
            kind, words = UNREPLICATED
            raise kind(words)


def replace_connections(engine: Engine) -> None:
    """Replaces all connections of a store to PostgreSQL before their next use: their server takes no writes."""
    engine.get_execution_options()[_LOSSES].count += 1


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
        with begin(engine, dealer_id, IMPORT_SECONDS) as connection:
            connection.exec_driver_sql(_IDLE.format(IMPORT_IDLE_SECONDS))
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
    """An engine that refuses to work on a database file that was moved or replaced after it was opened."""
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
            raise DisconnectionError(
                "the database file was moved, deleted or replaced after it was opened: restart the program"
            )

    return engine


def _file_at(path: Path) -> tuple[int, int] | None:
    """The device and inode of the file at `path`."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _postgresql_engine(url: URL, most: int, losses: _ServerLosses) -> Engine:
    """An engine whose pool replaces its connections when the server is lost or becomes a standby."""
    known_losses = 0
    engine = create_engine(
        url,
        hide_parameters=True,
        execution_options={_LOSSES: losses},
        pool_pre_ping=True,
        pool_size=most,
        max_overflow=0,
        pool_timeout=POOL_SECONDS,
        connect_args={"connect_timeout": CONNECT_SECONDS}
        | {name: value for name, value in TCP.items() if name not in url.query},
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, record: ConnectionPoolEntry) -> None:
        """Prepares a new connection: finds out whether a pooler is between, and makes it note unreplicated commits."""
        # A connection through a pooler prepares no statements.
        connection.autocommit = True
        (process,) = connection.execute(READ_PROCESS).fetchone()
        connection.autocommit = False
        if process != connection.info.backend_pid:
            connection.prepare_threshold = None
        info = record.info

        def note_cancelled_wait(message: Any) -> None:
            # PostgreSQL warns when it stops waiting for the standby: then a commit is only on this server. The text is
            # in the language of the server, and the SQLSTATE is that of every warning.
            if message.source_function == "SyncRepWaitForLSN":
                info[_UNREPLICATED] = True

        connection.add_notice_handler(note_cancelled_wait)

    @event.listens_for(engine, "checkout")
    def leave_lost_server(*_: object) -> None:
        nonlocal known_losses
        if known_losses != losses.count:
            known_losses = losses.count
            raise InvalidatePoolError("the server of these connections is lost, or takes no writes any more")

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
        """Begins a transaction as soon as no other one writes. Raises OperationalError after BUSY_SECONDS."""
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
                # The same statement again: it fails with an error of SQLAlchemy, which callers expect.
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
    """Begins each transaction with these statements, sets its dealer and holds its registration, in one round trip.

    The transaction has its dealer and its limit for locks in the options of its connection (`_begin_on_postgresql`).
    """

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """Begins a transaction with its dealer and limits. Raises DealerUnknown for a dealer that is not registered."""
        options = connection.get_execution_options()
        milliseconds = options.get(_LOCK_SECONDS, BUSY_SECONDS) * 1000
        dealer_id, registered = options.get(_DEALER), options.get(_REGISTERED, False)
        begun = statements.format(lock_milliseconds=milliseconds)
        # HOLD_AND_FIND locks the registration of the dealer, and returns its row, if there is one.
        rows = begin_transaction(connection, begun, dealer_id, HOLD_AND_FIND if registered else "")
        if registered and dealer_id is not None and rows == 0:
            raise not_registered(dealer_id)
