"""Prepared statements for the path of a lead: compiled once for each database, and executed by the driver itself.

SQLAlchemy's own execution costs several times what SQLite does for the statement, and every other lead waits meanwhile.
Statement, conversions and transaction are still SQLAlchemy's; only the execution is not.

A group of jobs collects the rows that it adds (`collect_rows`). They are written together, with one statement for each
table and one round trip, before any statement that could see them or depends on them.
"""

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Delete, Dialect, Insert, LargeBinary, Select, Table, TextClause, Update
from sqlalchemy.sql.util import find_tables
from sqlalchemy.types import TypeEngine

from dealer_agent.storage.errors import AlreadyStored, translated_postgresql, translated_sqlite
from dealer_agent.storage.schema import UtcTime, metadata, microseconds, time_of

_ROWS = "rows to write"
"""Where a connection keeps the rows that it collects."""


class _Ready(NamedTuple):
    """A statement for one database. `names` are its parameters in order, where the driver wants them so; `defaults`
    has all of them, with the values that the statement itself gives them."""

    sql: str
    names: tuple[str, ...] | None
    defaults: dict[str, Any]
    times: tuple[str, ...]
    converts: tuple[tuple[str, Callable[[Any], Any]], ...]
    columns: tuple[tuple[int, Callable[[Any], Any]], ...]
    named: Callable[[Iterable[Any]], Any]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """What the driver takes. A column that has no value here gets none."""
        given = {**self.defaults, **values}
        for name in self.times:
            if given[name] is not None:
                given[name] = microseconds(given[name])
        for name, convert in self.converts:
            given[name] = convert(given[name])
        return given if self.names is None else [given[name] for name in self.names]

    def row(self, found: Sequence[Any]) -> Any:
        """A row that the driver found, as SQLAlchemy would have it: a tuple with the names of the columns."""
        if not self.columns:
            return self.named(found)
        row = list(found)
        for place, convert in self.columns:
            row[place] = convert(row[place])
        return self.named(row)


class Prepared:
    """A statement without expanding parameters. Threads may share it. A statement of text names its `tables`."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete | TextClause, *tables: Table) -> None:
        self.statement = statement
        found: Collection[Any] = ()
        if not isinstance(statement, TextClause):
            found = find_tables(statement, include_selects=True, include_crud=True, check_columns=True)
        self.tables = frozenset(each.name for each in (*found, *tables) if isinstance(each, Table))
        assert self.tables, "a statement of text names its tables"
        self._ready: dict[str, _Ready] = {}

    def read(
        self, connection: Connection, values: Mapping[str, Any], keys: Collection[bytes] | None = None
    ) -> list[Any]:
        """All rows of a SELECT, as named tuples. Raises StorageError.

        With `keys`, of collected rows only those that were added under one of them can be among them.
        """
        rows = _collected(connection)
        if rows is not None and rows.may_be_found(self.tables, keys):
            rows.write()
        ready = self._for(connection.dialect)
        found = _run(connection, lambda cursor: cursor.execute(ready.sql, ready.parameters(values)).fetchall())
        return [ready.row(row) for row in found]

    def rows(self, connection: Connection, found: Iterable[Sequence[Any]]) -> list[Any]:
        """Rows that the driver found, as `read` gives them."""
        ready = self._for(connection.dialect)
        return [ready.row(row) for row in found]

    def write(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """How many rows were written. Raises StorageError."""
        write_collected(connection)
        ready = self._for(connection.dialect)
        count: int = _run(connection, lambda cursor: cursor.execute(ready.sql, ready.parameters(values)).rowcount)
        return count

    def write_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes once for each of `rows`. Raises StorageError."""
        write_collected(connection)
        ready = self._for(connection.dialect)
        parameters = [ready.parameters(values) for values in rows]
        _run(connection, lambda cursor: cursor.executemany(ready.sql, parameters))

    def add(
        self,
        connection: Connection,
        values: Mapping[str, Any],
        *,
        key: bytes | None = None,
        conflict: str | None = None,
    ) -> None:
        """Adds or changes a row, now or with the other rows that the connection collects.

        `key` is one of those that a `read` by keys looks for. With `conflict`, a row that was not written raises
        AlreadyStored with these words. Raises StorageError, also later, when the collected rows are written.
        """
        rows = _collected(connection)
        if rows is not None:
            rows.add(self, self.parameters(connection, values), key, conflict)
        elif self.write(connection, values) == 0 and conflict is not None:
            raise AlreadyStored(conflict)

    def move(self, connection: Connection, row: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Changes a row from `before` to `after`, unless it is another one by now. Returns whether it was changed.

        Where the connection collects rows, the result is always True, and moves of the same `row` become one: a row
        that is another one by then raises AlreadyStored when they are written.
        """
        rows = _collected(connection)
        if rows is None:
            return self.write(connection, {**before, **after}) == 1
        rows.move(self, row, before, after)
        return True

    def sql(self, connection: Connection) -> str:
        """The statement as the driver takes it."""
        return self._for(connection.dialect).sql

    def parameters(self, connection: Connection, values: Mapping[str, Any]) -> Any:
        """The values as the driver takes them."""
        return self._for(connection.dialect).parameters(values)

    def _for(self, dialect: Dialect) -> _Ready:
        ready = self._ready.get(dialect.name)
        if ready is None:
            ready = self._ready[dialect.name] = self._made_ready(dialect)
        return ready

    def _made_ready(self, dialect: Dialect) -> _Ready:
        compiled: Any = self.statement.compile(dialect=dialect)
        columns = self.statement.selected_columns if isinstance(self.statement, Select) else ()
        into = {
            name: parameter.type.dialect_impl(dialect).bind_processor(dialect)
            for parameter, name in compiled.bind_names.items()
            # Both drivers take and return bytes as they are.
            if not isinstance(parameter.type, UtcTime | LargeBinary)
        }
        back = [_from_driver(column.type, dialect) for column in columns]
        names = [column.name for column in columns]
        return _Ready(
            sql=compiled.string,
            names=tuple(compiled.positiontup) if compiled.positional else None,
            defaults=compiled.params,
            # A parameter that stands in a statement twice is in this list twice.
            times=tuple({name for each, name in compiled.bind_names.items() if isinstance(each.type, UtcTime)}),
            converts=tuple((name, convert) for name, convert in into.items() if convert),
            columns=tuple((place, convert) for place, convert in enumerate(back) if convert),
            named=_named(names),
        )


def _named(columns: list[str]) -> Callable[[Iterable[Any]], Any]:
    """What makes a named tuple of a row. A statement of text names no columns."""
    if not columns:
        return tuple
    row: Any = namedtuple("row", columns, rename=True)  # type: ignore[misc]  # The statement names the columns.
    make: Callable[[Iterable[Any]], Any] = row._make
    return make


def _from_driver(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """What makes a column's value of the driver's."""
    if isinstance(kind, LargeBinary):
        return None
    if isinstance(kind, UtcTime):
        return time_of
    return kind.dialect_impl(dialect).result_processor(dialect, None)


Read = tuple[Prepared, Mapping[str, Any]]
"""A SELECT and its values."""


def read_all(connection: Connection, reads: Sequence[Read]) -> list[list[Any]]:
    """The rows of each SELECT, in one round trip. Raises StorageError."""
    rows = _collected(connection)
    if rows is not None and any(rows.may_be_found(statement.tables, None) for statement, _ in reads):
        rows.write()

    def work(cursors: Sequence[Any]) -> None:
        for cursor, (statement, values) in zip(cursors, reads, strict=True):
            cursor.execute(statement.sql(connection), statement.parameters(connection, values))

    found = _run_together(connection, len(reads), work, lambda cursor: cursor.fetchall())
    return [statement.rows(connection, rows) for (statement, _), rows in zip(reads, found, strict=True)]


class CollectedRows:
    """Rows that are added together. `touched` grows with each row, and with each other statement that may write."""

    def __init__(self, connection: Connection) -> None:
        self.touched = 0
        self._connection = connection
        self.discard()

    def discard(self) -> None:
        """Forgets the rows."""
        self._rows: dict[Prepared, list[Any]] = {}
        self._moves: dict[tuple[Prepared, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._conflicts: dict[Prepared, str] = {}
        self._tables: set[str] = set()
        self._keys: set[bytes] = set()

    def add(self, statement: Prepared, parameters: Any, key: bytes | None, conflict: str | None) -> None:
        """Collects a row."""
        self.touched += 1
        self._rows.setdefault(statement, []).append(parameters)
        self._tables |= statement.tables
        if key is not None:
            self._keys.add(key)
        if conflict is not None:
            self._conflicts[statement] = conflict

    def move(self, statement: Prepared, row: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Collects the change of a row."""
        self.touched += 1
        first, _ = self._moves.get((statement, row), (before, after))
        self._moves[statement, row] = first, after
        self._tables |= statement.tables

    def may_be_found(self, tables: frozenset[str], keys: Collection[bytes] | None) -> bool:
        """Whether a SELECT from these tables, or one for some keys, could find what is collected."""
        return not tables.isdisjoint(self._tables) and (keys is None or not self._keys.isdisjoint(keys))

    def write(self) -> None:
        """Writes the rows in one round trip. Raises StorageError."""
        if not self._tables:
            return
        rows, conflicts = self._rows, self._conflicts
        for (statement, _), (before, after) in self._moves.items():
            rows.setdefault(statement, []).append(statement.parameters(self._connection, {**before, **after}))
            conflicts[statement] = "another transaction changed the row"
        self.discard()
        # A table comes after those that it refers to.
        ordered = sorted(rows.items(), key=lambda item: min(map(_RANKS.__getitem__, item[0].tables)))
        written = _run_all(self._connection, ordered)
        for (statement, given), count in zip(ordered, written, strict=True):
            if statement in conflicts and count != len(given):
                raise AlreadyStored(conflicts[statement])


_RANKS = {table.name: rank for rank, table in enumerate(metadata.sorted_tables)}


@contextmanager
def collect_rows(connection: Connection) -> Iterator[CollectedRows]:
    """Has a connection collect the rows that are added in a block. The caller writes them before its end."""
    rows = connection.info[_ROWS] = CollectedRows(connection)
    try:
        yield rows
    finally:
        del connection.info[_ROWS]


def write_collected(connection: Connection) -> None:
    """To be called before a statement that may write or see any row. Raises StorageError."""
    rows = _collected(connection)
    if rows is not None:
        rows.touched += 1
        rows.write()


def _collected(connection: Connection) -> CollectedRows | None:
    rows: CollectedRows | None = connection.info.get(_ROWS)
    return rows


def run_plainly(connection: Connection, sql: str) -> None:
    """Runs SQL that has no parameters and no result. Raises StorageError."""
    _run(connection, lambda cursor: cursor.execute(sql))


def _run_all(connection: Connection, statements: Sequence[tuple[Prepared, list[Any]]]) -> list[int]:
    """Executes each statement once for each of its rows. Returns how many rows each wrote."""

    def work(cursors: Sequence[Any]) -> None:
        for cursor, (statement, rows) in zip(cursors, statements, strict=True):
            cursor.executemany(statement.sql(connection), rows)

    return _run_together(connection, len(statements), work, lambda cursor: cursor.rowcount)


def _run_together(
    connection: Connection, count: int, work: Callable[[Sequence[Any]], None], result: Callable[[Any], Any]
) -> list[Any]:
    """Executes on so many cursors, and returns the result of each.

    PostgreSQL gets everything before the first result is awaited.
    """
    driver: Any = connection.connection.driver_connection

    def all_work(_: Any) -> list[Any]:
        cursors = [driver.cursor() for _ in range(count)]
        with driver.pipeline() if isinstance(driver, psycopg.Connection) else nullcontext():
            work(cursors)
        return [result(cursor) for cursor in cursors]

    results: list[Any] = _run(connection, all_work)
    return results


def _run(connection: Connection, work: Callable[[Any], Any]) -> Any:
    cursor = connection.connection.cursor()
    try:
        return work(cursor)
    except sqlite3.Error as error:
        raise translated_sqlite(error) from None
    except psycopg.Error as error:
        raise translated_postgresql(error) from None
    finally:
        cursor.close()
