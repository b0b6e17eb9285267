"""The rows of a table in a backup: a line of JSON for each row, the same for both databases.

A row is an array with the value of each column, in the order of the manifest. Text is a string, a number or a time (in
microseconds since 1970) is an integer, a flag is true or false, bytes are a string in base64, and NULL is null. A
backup contains no SQL: the reader accepts only values of the types that the columns have.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from sqlalchemy import BigInteger, Boolean, Connection, Integer, LargeBinary, String, Table
from sqlalchemy.exc import DataError, IntegrityError

from dealer_agent.operations.backup_file import TableRows
from dealer_agent.operations.errors import BackupUnreadable, OperationError

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
    flags = [place for place, name in enumerate(columns) if isinstance(table.c[name].type, Boolean)]
    found = connection.execution_options(yield_per=ROWS).exec_driver_sql(f"SELECT {names} FROM {table.name}")  # noqa: S608
    with (folder / written.file).open("xb") as file:
        for part in found.partitions():
            lines = []
            for row in part:
                values = list(row)
                for place in flags:
                    values[place] = None if values[place] is None else bool(values[place])
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
        raise BackupUnreadable(f"the backup has other rows of the table {table.name} than it says: use another backup")


def _parts(path: Path, name: str) -> Iterator[list[bytes]]:
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
    return BackupUnreadable(
        f"one of the rows {before + 1:,} to {before + number:,} of the table {name} in the backup does not fit this "
        "table: use another backup"
    )
