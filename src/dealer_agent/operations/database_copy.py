"""Copies a database while the service uses it: SQLite through its backup interface, PostgreSQL with `pg_dump`."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import URL, text

from dealer_agent.operations.backup_file import Progress
from dealer_agent.operations.errors import OperationError
from dealer_agent.storage.connections import BUSY_SECONDS, database_url, require_private, writer_engine
from dealer_agent.storage.errors import BadDatabaseUrl, translating

ADMIN_VARIABLE = "DATABASE_ADMIN_URL"
"""The database with a role that row-level security does not apply to: the owner of the tables, or a superuser."""

PAGES = 1000
"""The pages of a SQLite database that are copied at a time."""

LOGIN_ADVICE = f"set {ADMIN_VARIABLE} to the address of the database with a user such as postgres"

READ_PLACE = text(
    "SELECT current_database(), current_schema(), oid FROM pg_database WHERE datname = current_database()"
)
READ_REVISION = "SELECT version_num FROM alembic_version"
FIND_SCHEMA = text("SELECT to_regclass('alembic_version')")


def is_sqlite(url: str) -> bool:
    """Whether the URL is that of a SQLite database. Raises BadDatabaseUrl."""
    return database_url(url).get_backend_name() == "sqlite"


def copy_sqlite(url: str, target: Path, on_progress: Progress) -> str:
    """Copies a SQLite database as it is at one moment, and checks the copy. Returns its schema revision.

    Other processes continue to read and write. Raises OperationError, and any StorageError.
    """
    parsed = database_url(url)
    require_private(parsed)
    source = Path(str(parsed.database)).absolute()
    if not source.exists():
        raise OperationError(f"there is no database {source} yet: start the service once, or import the inventory")
    target.touch(0o600, exist_ok=False)
    try:
        with (
            closing(_connected(source)) as reading,
            closing(sqlite3.connect(target, isolation_level=None)) as writing,
        ):
            # An open transaction keeps its snapshot. Otherwise each write of another process starts the copy again.
            reading.execute("BEGIN")
            revision = str(reading.execute(READ_REVISION).fetchone()[0])
            reading.backup(
                writing, pages=PAGES, progress=lambda _, remaining, total: on_progress(total - remaining, total)
            )
            (checked,) = writing.execute("PRAGMA quick_check(1)").fetchone()
    except (sqlite3.Error, TypeError) as error:
        why = getattr(error, "sqlite_errorname", "it has no schema")
        raise OperationError(f"the database {source} cannot be copied ({why})") from None
    if checked != "ok":
        raise OperationError(f"the database {source} is damaged: keep it, and restore your last backup elsewhere")
    return revision


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def dump_postgresql(url: str, admin_url: str | None, target: Path) -> str:
    """Writes a PostgreSQL database to a file, in the custom format of `pg_dump`. Returns its schema revision.

    `url` is that of the service. `admin_url` is the same database with another role (`ADMIN_VARIABLE`). Raises
    OperationError if `pg_dump` is missing or fails, and any StorageError.
    """
    parsed = database_url(admin_url or url)
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            database, schema, number = connection.execute(READ_PLACE).one()
            if connection.execute(FIND_SCHEMA).scalar() is None:
                raise OperationError("the database is empty: start the service once, or import the inventory")
            revision = str(connection.exec_driver_sql(READ_REVISION).scalar_one())
    finally:
        engine.dispose()
    if admin_url is not None:
        _require_same_place(url, (database, schema, number))
    # A database of its own has the schema `public`. `pg_restore` would try to make a schema that is named here.
    chosen = [] if schema == "public" else [f"--schema={schema}"]
    _run(["pg_dump", "--format=custom", f"--file={target}", *chosen, f"--dbname={_without_password(parsed)}"], parsed)
    return revision


def _require_same_place(url: str, place: tuple[str, str, int]) -> None:
    engine = writer_engine(database_url(url))
    try:
        with translating(), engine.begin() as connection:
            if tuple(connection.execute(READ_PLACE).one()) != place:
                raise OperationError(f"{ADMIN_VARIABLE} and DATABASE_URL name different databases: correct one of them")
    finally:
        engine.dispose()


def restore_postgresql(admin_url: str, dump: Path) -> None:
    """Writes a dump into an empty database, in one transaction. Raises OperationError and any StorageError."""
    parsed = database_url(admin_url)
    if parsed.get_backend_name() != "postgresql":
        raise BadDatabaseUrl(f"{ADMIN_VARIABLE}: postgresql://... expected")
    engine = writer_engine(parsed)
    try:
        with translating(), engine.begin() as connection:
            if connection.execute(FIND_SCHEMA).scalar() is not None:
                raise OperationError(
                    f"the database of {ADMIN_VARIABLE} has tables already: create an empty one with createdb"
                )
    finally:
        engine.dispose()
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    _run(["pg_restore", *options, f"--dbname={_without_password(parsed)}", str(dump)], parsed)


def has_pg_restore() -> bool:
    """Whether `pg_restore` is installed."""
    return shutil.which("pg_restore") is not None


def _without_password(url: URL) -> str:
    """The URL for libpq. Other users of the machine can see arguments, so the password goes into the environment."""
    shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    return shown.render_as_string(hide_password=False)


def _run(command: list[str], url: URL) -> None:
    """Runs a program of PostgreSQL. Raises OperationError with the first line of what it said."""
    program = command[0]
    env = dict(os.environ) if url.password is None else os.environ | {"PGPASSWORD": str(url.password)}
    try:
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        raise OperationError(
            f"{program} is not installed: install the client programs of PostgreSQL (on Debian and Ubuntu: "
            "apt-get install postgresql-client), in the version of the server or a newer one"
        ) from None
    if done.returncode != 0:
        said = next((line for line in done.stderr.splitlines() if "error:" in line), f"code {done.returncode}")
        advice = f"; {LOGIN_ADVICE}" if "row-level security" in said or "permission denied" in said else ""
        raise OperationError(f"{said[:300]}{advice}")
