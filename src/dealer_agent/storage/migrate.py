"""Waits for a database that is starting, brings it to this program's schema, and refuses one that does not fit.

Several processes may start at once. The migration is one transaction under a lock (SQLite's write lock, an advisory
lock on PostgreSQL), so one of them does the work, and the others find it done.
"""

import errno
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, inspect, text
from sqlalchemy.exc import OperationalError

from dealer_agent.storage.connections import BUSY_SECONDS, CONNECT_SECONDS, require_private, writer_engine
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import (
    BUSY,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseReadOnly,
    DatabaseUnreachable,
    SchemaOutdated,
    SchemaTooNew,
    translating,
)
from dealer_agent.storage.schema import FIRST_SCHEMA_VERSION, SCHEMA_VERSION

START_SECONDS = 120
"""How long a service that starts waits for its PostgreSQL server."""

PAUSE_SECONDS = 0.5


def wait_for_server(url: str, on_wait: Callable[[str], None], seconds: float = START_SECONDS) -> None:
    """Waits until a PostgreSQL server of `url` takes writes. Returns at once for SQLite.

    The server may be starting, its port may refuse connections, its host name may be unknown, or it may be a standby
    that is not promoted yet. `on_wait` gets the reason, once. Raises DatabaseUnreachable if a server refuses the login,
    and after `seconds`, and other StorageErrors.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return
    ends = time.monotonic() + seconds
    is_waiting = False
    engine = writer_engine(parsed)
    try:
        with translating():
            while (reason := _reason_to_wait(engine)) is not None:
                if time.monotonic() > ends:
                    raise DatabaseUnreachable(
                        f"{reason}, for {seconds:g} seconds: check the host name and the port in DATABASE_URL, and "
                        "that the server runs"
                    )
                if not is_waiting:
                    on_wait(reason)
                is_waiting = True
                time.sleep(PAUSE_SECONDS)
    finally:
        engine.dispose()


def _reason_to_wait(engine: Engine) -> str | None:
    """Why no connection is possible now, but may be later. None if it is possible. Raises DatabaseUnreachable."""
    try:
        engine.connect().close()
    except OperationalError:
        return _state_of_servers(engine)
    return None


def _state_of_servers(engine: Engine) -> str:
    """Says why no server takes writes: called when the connection has failed, to choose the message."""
    # Imported here: SQLite does not need the driver.
    import psycopg
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn, Ping

    _, arguments = engine.dialect.create_connect_args(engine.url)
    options = {"connect_timeout": CONNECT_SECONDS, **arguments, "target_session_attrs": "any", "context": None}
    hosts, ports = (str(options.get(name) or "").split(",") for name in ("host", "port"))
    states = set()
    # Each host has its own port, or one port is for all hosts.
    for host, port in zip(hosts, ports * (len(hosts) // len(ports)), strict=True):
        server = make_conninfo("", **{**options, "host": host or None, "port": port or None})
        # The error of a connection that fails has no SQLSTATE. Only libpq sees it, and PQping tells what it means.
        state = PGconn.ping(server.encode())
        states.add(state)
        if state == Ping.OK:
            try:
                psycopg.connect(server).close()
            except psycopg.OperationalError as error:
                raise _refusal(str(error)) from None
    if Ping.OK in states:
        return "no database server takes writes yet"
    return f"the database server {'is starting or stopping' if Ping.REJECT in states else 'does not answer'}"


def _refusal(error: str) -> DatabaseUnreachable:
    """The error if the server of the database refuses the login."""
    said = re.search(r"FATAL: +([^\n]{1,200})", error)
    return DatabaseUnreachable(
        f"the database server refuses the connection{f' ({said[1]})' if said else ''}: check the database's name, user "
        "and password in DATABASE_URL"
    )


REVISION_TABLE = "alembic_version"

READ_REVISION = text(f"SELECT version_num FROM {REVISION_TABLE}")  # noqa: S608

LOCK_SCHEMA = text("SELECT pg_advisory_xact_lock(4919150214103305)")
"""Any number works if it never changes: it names the lock within the PostgreSQL database."""

_MIGRATIONS = Path(__file__).with_name("migrations")

MAY_MIGRATE = text("SELECT has_schema_privilege(current_schema(), 'CREATE')")


def migrate(url: str) -> str | None:
    """Brings the database at `url` to the newest schema, and returns the revision that it had (None: empty).

    It does nothing to a current database. Raises SchemaOutdated for a database that is too old, SchemaTooNew for one
    that a newer program wrote, and any StorageError.
    """
    parsed = database_url(url)
    require_private(parsed)
    if parsed.get_backend_name() == "sqlite":
        prepare_file(parsed)
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            return migrate_connection(connection)
    finally:
        engine.dispose()


def known_revisions() -> frozenset[str]:
    """The schema versions that migrations of this program make."""
    return frozenset(path.stem[1:5] for path in (_MIGRATIONS / "versions").glob("r*.py"))


def migrate_connection(connection: Connection, revision: str = "head") -> str | None:
    """`migrate` in a transaction of the caller. An empty or older database gets the schema `revision`: the newest."""
    if connection.dialect.name == "postgresql":
        connection.execute(LOCK_SCHEMA)
    version = _schema_revision(connection)
    if version is None or FIRST_SCHEMA_VERSION <= version < SCHEMA_VERSION:
        if connection.dialect.name == "postgresql" and not connection.execute(MAY_MIGRATE).scalar():
            raise SchemaOutdated(
                f"the database has {'no schema' if version is None else f'schema {version}'}, this program needs "
                f"{SCHEMA_VERSION}, and this role may not change it: type dealer-agent database prepare"
            )
        _upgrade(connection, revision)
    else:
        check_schema(connection)
    return version


def check_schema(connection: Connection) -> None:
    """Raises SchemaOutdated or SchemaTooNew unless the database has exactly this program's schema."""
    version = _schema_revision(connection)
    if version is None:
        raise SchemaOutdated("the database is empty: start the service once, or import the inventory")
    if version < FIRST_SCHEMA_VERSION:
        raise SchemaOutdated(
            f"the database has schema {version}, from before the first release, which this version cannot upgrade: "
            "start with a new database"
        )
    if version < SCHEMA_VERSION:
        raise SchemaOutdated(
            f"the database has schema {version}, this program needs {SCHEMA_VERSION}: start the service once, which "
            "upgrades it, or type dealer-agent database prepare"
        )
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"the database has schema {version}, written by a newer version; this version knows up to {SCHEMA_VERSION}"
            ": upgrade the program"
        )


def _schema_revision(connection: Connection) -> str | None:
    """The schema version; None for an empty database."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return None
    revision: str | None = connection.execute(READ_REVISION).scalar()
    return revision


def _upgrade(connection: Connection, revision: str) -> None:
    """Runs the migrations up to a revision on this connection."""
    # Imported here: Alembic takes a third of a second, and almost every start finds the schema current.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("path_separator", "os")
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def prepare_file(url: URL) -> None:
    """Makes the file in WAL mode, readable by its owner only: it will hold customer data."""
    path = str(url.database)
    try:
        # Never open a file that exists: to close it again would end the locks that SQLite has on it in this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not os.access(path, os.W_OK):
            raise DatabaseReadOnly(f"the database file cannot be written ({os.strerror(errno.EACCES)})") from None
    except FileNotFoundError:
        advised = "make the folder, or correct DATABASE_URL"
        raise DatabaseUnreachable(f"the database file cannot be made: its folder does not exist; {advised}") from None
    except OSError as error:
        raise DatabaseReadOnly(f"the database file cannot be written ({error.strerror})") from None
    deadline = time.monotonic() + BUSY_SECONDS
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        while True:
            try:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                # The timeout does not apply while another process changes the mode too.
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise DatabaseBusy(BUSY[1]) from None
                time.sleep(0.02)
            except sqlite3.DatabaseError as error:
                raise DatabaseDamaged(f"the file is not a SQLite database ({error.sqlite_errorname})") from None
            else:
                break
    if mode != "wal":
        raise DatabaseUnreachable("this file system does not support SQLite's WAL mode, which several processes need")
