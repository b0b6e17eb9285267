"""Copies the rows of a database into the files of a backup while the service uses it, and into a new database.

A restore executes nothing of a backup. The migrations of this program make the tables. Then the rows are inserted as
parameters, into columns that the migrations have made.

A table in a backup is a file with a line of JSON for each row, the same for both databases. A row is an array with the
value of each column, in the order of the manifest. Text is a string, a number or a time (in microseconds since 1970) is
an integer, a flag is true or false, bytes are a string in base64, and NULL is null. A backup contains no SQL: the
reader accepts only values of the types that the columns have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import BigInteger, Boolean, Connection, Engine, Integer, LargeBinary, String, Table, inspect, text
from sqlalchemy.exc import DataError, IntegrityError

from dealer_agent.operations import BackupUnreadable, OperationError
from dealer_agent.operations.backup_file import Manifest, Progress, TableRows, counter
from dealer_agent.storage.connections import open_engines, require_private, writer_engine
from dealer_agent.storage.database_roles import ADMIN_VARIABLE, inserting_only, require_same_database
from dealer_agent.storage.database_url import database_url, is_sqlite
from dealer_agent.storage.errors import BadDatabaseUrl, translating
from dealer_agent.storage.migrate import REVISION_TABLE, known_revisions, migrate_connection, prepare_file
from dealer_agent.storage.schema import FIRST_SCHEMA_VERSION, SCHEMA_VERSION, metadata

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
    """Writes the rows of all tables to files below `folder`, as they are at one moment.

    `url` is that of the service. `admin_url` is the same PostgreSQL database with another role (`ADMIN_VARIABLE`).
    Other processes continue to read and write. Returns the revision of the schema and the rows of each table. Raises
    OperationError, OSError and any StorageError.
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
    """Writes all tables into files of `folder`. Returns the revision of the schema and the rows of each table."""
    found = inspect(connection)
    if not found.has_table(REVISION_TABLE):
        raise OperationError("the database is empty: start the service once, or import the inventory")
    revision = str(connection.exec_driver_sql(READ_REVISION).scalar_one())
    if revision not in known_revisions():
        # Columns that this version does not know would be missing in the backup.
        raise OperationError(
            f"the database has schema {revision}, and this version knows {FIRST_SCHEMA_VERSION} to {SCHEMA_VERSION}: "
            "make the backup with the version of the service"
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
    count = counter(on_progress, total)
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
    and_then: Callable[[Connection], int | None],
) -> int | None:
    """Makes the tables of a backup in an empty database, and inserts the rows from the files below `folder`.

    `url` is that of a file that does not exist, or of a PostgreSQL database with a role that may create roles. All is
    one transaction: if it fails, the database stays as it was. `and_then` runs at its end, and its value is returned.
    Raises BackupUnreadable, OperationError, OSError and any StorageError.
    """
    parsed = database_url(url)
    if (parsed.get_backend_name() == "sqlite") != (manifest.database == "sqlite"):
        raise BadDatabaseUrl(f"{ADMIN_VARIABLE}: write a URL such as postgresql://postgres@HOST/NAME")
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
    """Inserts the rows of a backup. First refuses tables and columns that this version does not have."""
    known = _columns_by_table(connection)
    for table in tables:
        if not set(table.columns) <= known.get(table.name, {}).keys() or len(set(table.columns)) < len(table.columns):
            raise BackupUnreadable(
                f"the backup has a table or a column that dealer-agent does not have ({table.name!a}): use another "
                "backup"
            )
    count = counter(on_progress, sum(table.rows for table in tables))
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


@contextmanager
def _connected(engines: Sequence[Engine]) -> Iterator[Connection]:
    """A transaction of the last engine. All are closed at its end."""
    try:
        with translating(), engines[-1].begin() as connection:
            yield connection
    finally:
        for engine in engines:
            engine.dispose()


MOST_ROW_BYTES = 32 * 2**20
"""The most bytes of a line. The largest document in a row has a few megabytes."""
ROWS = 500
"""The most rows in memory."""
BATCH_BYTES = 4 * 2**20
"""So many bytes of lines, and the last one, are in memory."""

_KINDS: tuple[tuple[type[Any], Any], ...] = (
    (Boolean, bool),
    (BigInteger, Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]),
    (Integer, Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]),
    (String, str),
    (LargeBinary, bytes),
)
"""The type of a value in a row, by the type of the column. The first that fits counts."""


def write_rows(
    connection: Connection, table: Table, columns: Sequence[str], folder: Path, count: Callable[[int], object]
) -> TableRows:
    """Writes all rows of a table to its file below `folder`. `count` gets the number of rows of each part.

    Raises OperationError for a row that is too large, SQLAlchemyError and OSError.
    """
    written = TableRows(str(table.name), tuple(map(str, columns)), 0)
    encoder, names, number = msgspec.json.Encoder(), _quoted(connection, columns), 0
    # SQLite has no flags: they are 0 and 1.
    flags = [position for position, name in enumerate(columns) if isinstance(table.c[name].type, Boolean)]
    found = connection.execution_options(yield_per=ROWS).exec_driver_sql(f"SELECT {names} FROM {table.name}")  # noqa: S608
    with (folder / written.file).open("xb") as file:
        for part in found.partitions():
            lines = []
            for row in part:
                values = list(row)
                for position in flags:
                    values[position] = None if values[position] is None else bool(values[position])
                lines.append(encoder.encode(values))
            if max(map(len, lines)) >= MOST_ROW_BYTES:
                raise OperationError(
                    f"a row of the table {table.name} is larger than {MOST_ROW_BYTES:,} bytes: delete it, and try again"
                )
            file.write(b"\n".join(lines) + b"\n")
            number += len(lines)
            count(len(lines))
    return msgspec.structs.replace(written, rows=number)


def insert_rows(
    connection: Connection, table: TableRows, known: Mapping[str, Any], folder: Path, count: Callable[[int], object]
) -> None:
    """Inserts the rows of a file below `folder` into a table of this program.

    `known` are the columns of the table, as SQLAlchemy inspects them. `count` gets the number of rows of each part.
    Raises BackupUnreadable for a row that does not fit the table, SQLAlchemyError and OSError.
    """
    row_type = GenericAlias(tuple, tuple(_type_of(known[name]) for name in table.columns))
    decoder: msgspec.json.Decoder[tuple[Any, ...]] = msgspec.json.Decoder(row_type)
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    marks = ", ".join([mark] * len(table.columns))
    statement = f"INSERT INTO {table.name} ({_quoted(connection, table.columns)}) VALUES ({marks})"  # noqa: S608
    number = 0
    for lines in _parts(folder / table.file, table.name):
        try:
            rows = [decoder.decode(line) for line in lines]
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _unreadable(table.name, number, len(lines)) from None
        number += len(rows)
        if number > table.rows:
            break
        try:
            connection.exec_driver_sql(statement, rows)
        except (IntegrityError, DataError):
            raise _unreadable(table.name, number - len(rows), len(rows)) from None
        count(len(rows))
    if number != table.rows:
        raise BackupUnreadable(
            f"the table {table.name} has another number of rows in the backup than its manifest says: the backup is "
            "damaged, use another one"
        )


def _parts(path: Path, name: str) -> Iterator[list[bytes]]:
    """The lines of a table's file in parts that fit into memory."""
    lines: list[bytes] = []
    size = 0
    with path.open("rb") as file:
        while line := file.readline(MOST_ROW_BYTES + 1):
            if len(line) > MOST_ROW_BYTES:
                raise BackupUnreadable(f"the backup has a too large row of the table {name}: use another backup")
            lines.append(line)
            size += len(line)
            if len(lines) == ROWS or size >= BATCH_BYTES:
                yield lines
                lines, size = [], 0
    if lines:
        yield lines


def _type_of(column: Mapping[str, Any]) -> Any:
    kind = next(value for column_type, value in _KINDS if isinstance(column["type"], column_type))
    return kind | None if column["nullable"] else kind


def _quoted(connection: Connection, names: Sequence[str]) -> str:
    return ", ".join(map(connection.dialect.identifier_preparer.quote_identifier, names))


def _unreadable(name: str, before: int, number: int) -> BackupUnreadable:
    """The error about rows of a backup that do not fit their table."""
    return BackupUnreadable(
        f"one of the rows {before + 1:,} to {before + number:,} of the table {name} in the backup does not fit this "
        "table: use another backup"
    )
