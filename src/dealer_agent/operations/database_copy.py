"""Copies the rows of a database into the files of a backup while the service uses it, and into a new database.

A restore executes nothing of a backup. The migrations of this program make the tables. Then the rows are inserted as
parameters, into columns that the migrations have made.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, inspect, text

from dealer_agent.operations.backup_file import Manifest, Progress, TableRows
from dealer_agent.operations.errors import BackupUnreadable, OperationError
from dealer_agent.operations.table_rows import insert_rows, write_rows
from dealer_agent.storage.connections import open_engines, require_private, writer_engine
from dealer_agent.storage.database_roles import ADMIN_VARIABLE, inserting_only, require_same_database
from dealer_agent.storage.database_url import database_url, is_sqlite
from dealer_agent.storage.errors import BadDatabaseUrl, translating
from dealer_agent.storage.migrate import REVISION_TABLE, known_revisions, migrate_connection, prepare_file
from dealer_agent.storage.schema import FIRST_REVISION, SCHEMA_REVISION, metadata

LOGIN_ADVICE = f"set {ADMIN_VARIABLE} to the address that `dealer-agent database prepare` shows for commands"

READ_REVISION = f"SELECT version_num FROM {REVISION_TABLE}"  # noqa: S608
FIND_HIDDEN = text(
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(:tables)"
    " AND (row_security_active(oid) OR NOT has_table_privilege(oid, 'SELECT')) LIMIT 1"
)

_COUNT = "SELECT count(*) FROM {}"


def copy_database(
    url: str, admin_url: str | None, folder: Path, on_progress: Progress
) -> tuple[str, tuple[TableRows, ...]]:
    """Writes the rows of all tables to files below `folder`, as they are at one moment. Returns the schema too.

    `url` is that of the service. `admin_url` is the same PostgreSQL database with another role (`ADMIN_VARIABLE`).
    Other processes continue to read and write. Raises OperationError, OSError and any StorageError.
    """
    parsed = database_url(url if is_sqlite(url) else admin_url or url)
    require_private(parsed)
    if is_sqlite(url) and not (source := Path(str(parsed.database)).absolute()).exists():
        raise OperationError(f"there is no database {source} yet: start the service once, or import the inventory")
    if not is_sqlite(url) and admin_url is not None:
        require_same_database(url, admin_url)
    with _connected(open_engines(parsed, 1)) as connection:
        return _copy(connection, folder, on_progress)


def _copy(connection: Connection, folder: Path, on_progress: Progress) -> tuple[str, tuple[TableRows, ...]]:
    found = inspect(connection)
    if not found.has_table(REVISION_TABLE):
        raise OperationError("the database is empty: start the service once, or import the inventory")
    revision = str(connection.exec_driver_sql(READ_REVISION).scalar_one())
    if revision not in known_revisions():
        # Columns that this version does not know would be missing in the backup.
        raise OperationError(
            f"the database has schema {revision}, and this version knows {FIRST_REVISION} to {SCHEMA_REVISION}: make "
            "the backup with the version of the service"
        )
    there = set(found.get_table_names())
    # An older database lacks some tables and columns. Those of other programs are not copied.
    tables = [table for table in metadata.sorted_tables if table.name in there]
    if connection.dialect.name == "sqlite":
        if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
            raise OperationError("the database is damaged: keep it, and restore your last backup elsewhere")
    else:
        hidden = connection.execute(FIND_HIDDEN, {"tables": [table.name for table in tables]}).scalar()
        if hidden is not None:
            raise OperationError(f"this role may not read all rows of the table {hidden}; {LOGIN_ADVICE}")
    total = sum(int(connection.exec_driver_sql(_COUNT.format(table.name)).scalar_one()) for table in tables)
    count = _counter(on_progress, total)
    copied = []
    for table in tables:
        columns = {column["name"] for column in found.get_columns(table.name)}
        names = [column.name for column in table.columns if column.name in columns]
        copied.append(write_rows(connection, table, names, folder, count))
    return revision, tuple(copied)


def restore_database(
    url: str,
    manifest: Manifest,
    folder: Path,
    on_progress: Progress,
    and_then: Callable[[Connection], int | None] = lambda _: None,
) -> int | None:
    """Makes the tables of a backup in an empty database, and inserts the rows from the files below `folder`.

    `url` is that of a file that does not exist, or of a PostgreSQL database with a role that may create roles. All is
    one transaction: if it fails, the database stays as it was. `and_then` runs at its end, and its value is returned.
    Raises BackupUnreadable, OperationError, OSError and any StorageError.
    """
    parsed = database_url(url)
    if (parsed.get_backend_name() == "sqlite") != (manifest.database == "sqlite"):
        raise BadDatabaseUrl(f"{ADMIN_VARIABLE}: postgresql://... expected")
    if manifest.database == "sqlite":
        prepare_file(parsed)
    with _connected((writer_engine(parsed),)) as connection:
        if inspect(connection).has_table(REVISION_TABLE):
            raise OperationError(
                f"the database of {ADMIN_VARIABLE} has tables already: create an empty one with createdb"
            )
        migrate_connection(connection, manifest.schema)
        _insert(connection, manifest.tables, folder, on_progress)
        return and_then(connection)


def _insert(connection: Connection, tables: Sequence[TableRows], folder: Path, on_progress: Progress) -> None:
    known = _columns_by_table(connection)
    for table in tables:
        if not set(table.columns) <= known.get(table.name, {}).keys() or len(set(table.columns)) < len(table.columns):
            raise BackupUnreadable(
                f"the backup has a table or a column that dealer-agent does not have ({table.name!a}): use another "
                "backup"
            )
    count = _counter(on_progress, sum(table.rows for table in tables))
    is_postgresql = connection.dialect.name == "postgresql"
    with inserting_only(connection, list(known)) if is_postgresql else nullcontext():
        for table in tables:
            insert_rows(connection, table, known[table.name], folder, count)


def _columns_by_table(connection: Connection) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """The columns of the tables that the migrations have made."""
    found = inspect(connection)
    return {
        name: {column["name"]: column for column in found.get_columns(name)}
        for name in found.get_table_names()
        if name in metadata.tables
    }


def _counter(on_progress: Progress, total: int) -> Callable[[int], None]:
    done = 0

    def count(number: int) -> None:
        nonlocal done
        done += number
        on_progress(done, total)

    return count


@contextmanager
def _connected(engines: Sequence[Engine]) -> Iterator[Connection]:
    """A transaction of the last engine. All are closed at its end."""
    try:
        with translating(), engines[-1].begin() as connection:
            yield connection
    finally:
        for engine in engines:
            engine.dispose()
