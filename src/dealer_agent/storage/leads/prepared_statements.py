"""Prepares the statements that store leads: they are compiled once, and executed by the driver.

SQLAlchemy, with its cache of compiled statements, executes 1,450 to 1,750 Python instructions (18 to 20 µs) for a
statement on SQLite, and this module 280 to 310 (4 to 5 µs). A lead adds six rows or more, and every other lead waits
meanwhile. SQLAlchemy still provides the statement, the conversions and the transaction.

A group of writes collects the rows that it adds (`collect_rows`). They are stored together, with one statement for each
table and one round trip, before any statement that could find them or depends on them. `Prepared.read` and `write`
execute a statement at once. `add` and `move` collect rows.

Most leads are of new customers. So a group looks for the keys of all its writes first (`find_absent_keys`). A
statement that reads rows by keys that are absent finds nothing, and is not executed.
"""

from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import islice, repeat
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Dialect,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Table,
    Update,
    bindparam,
    literal_column,
    select,
    values,
)
from sqlalchemy import column as sql_column
from sqlalchemy.sql.util import find_tables
from sqlalchemy.types import TypeEngine

from dealer_agent.storage.columns import UtcTime, microseconds, time_of
from dealer_agent.storage.errors import AlreadyStored, translated_driver_error
from dealer_agent.storage.isolation import current_dealer, must_set_dealer, set_dealer
from dealer_agent.storage.schema import metadata
from dealer_agent.storage.transaction import Transaction, dealer_parameter

_ROWS = "rows to write"
"""The key of the collected rows in the `info` of a connection."""


class _Compiled(NamedTuple):
    """A statement for one database.

    `names` are its parameters in order, for a driver that needs them by position. `defaults` has the values that the
    statement itself gives its parameters.
    """

    sql: str
    dealer: str
    names: tuple[str, ...] | None
    defaults: dict[str, Any]
    converts: tuple[tuple[str, Callable[[Any], Any]], ...]
    columns: tuple[tuple[int, Callable[[Any], Any]], ...]
    named: Callable[[Iterable[Any]], Any]

    def parameters(self, dealer_id: str, values: Mapping[str, Any]) -> Any:
        """The values in the form that the driver needs. A column without a value gets NULL."""
        parameters = {**self.defaults, self.dealer: dealer_id, **values}
        for name, convert in self.converts:
            parameters[name] = convert(parameters[name])
        return parameters if self.names is None else [parameters[name] for name in self.names]

    def row(self, values: Sequence[Any]) -> Any:
        """A row of the driver as SQLAlchemy returns it: a named tuple."""
        if not self.columns:
            return self.named(values)
        row = list(values)
        for position, convert in self.columns:
            row[position] = convert(row[position])
        return self.named(row)


class Prepared:
    """A statement without expanding parameters. Threads may share it."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self.statement = statement
        tables = find_tables(statement, include_selects=True, include_crud=True, check_columns=True)
        self.tables = frozenset(each.name for each in tables if isinstance(each, Table))
        # By the name of the dialect.
        self._compiled: dict[str, _Compiled] = {}

    def read(self, tx: Transaction, values: Mapping[str, Any], keys: Collection[bytes] | None = None) -> list[Any]:
        """All rows of a SELECT, as named tuples. Raises StorageError.

        Collected rows are written first if the SELECT could find them. With `keys`, it could find only rows with one of
        these keys.
        """
        rows = _collected(tx.connection)
        if rows is not None:
            if keys and rows.absent.issuperset(keys):
                return []
            if rows.may_be_found(self.tables, keys):
                rows.write()
        if must_set_dealer(tx.connection, tx.dealer_id):
            # PostgreSQL, and the connection is set to another dealer: `read_all` sets this one first.
            return read_all(tx, [(self, values)])[0]
        compiled = self.compiled(tx.connection)
        parameters = compiled.parameters(tx.dealer_id, values)
        found = _run_with_cursor(tx.connection, lambda cursor: cursor.execute(compiled.sql, parameters).fetchall())
        return [compiled.row(row) for row in found]

    def write(self, tx: Transaction, values: Mapping[str, Any]) -> int:
        """Executes the statement at once. Returns how many rows were written. Raises StorageError."""
        write_collected(tx.connection)
        set_dealer(tx.connection, tx.dealer_id)
        compiled = self.compiled(tx.connection)
        parameters = compiled.parameters(tx.dealer_id, values)
        count: int = _run_with_cursor(tx.connection, lambda cursor: cursor.execute(compiled.sql, parameters).rowcount)
        return count

    def write_each(self, tx: Transaction, rows: Iterable[Mapping[str, Any]]) -> None:
        """Executes the statement at once for each of the rows. Raises StorageError."""
        write_collected(tx.connection)
        compiled = self.compiled(tx.connection)
        _run_all(tx.connection, [((tx.dealer_id, self), [compiled.parameters(tx.dealer_id, row) for row in rows])])

    def add(
        self, tx: Transaction, values: Mapping[str, Any], *, keys: Iterable[bytes] = (), conflict: str | None = None
    ) -> None:
        """Adds or changes a row, now or with the other rows that the connection collects.

        A later `read` with one of these `keys` writes the collected rows first. With `conflict`, a row that was not
        written raises AlreadyStored with this message. Raises StorageError, also later, when collected rows are
        written.
        """
        rows = _collected(tx.connection)
        if rows is not None:
            rows.add(self, tx.dealer_id, self.compiled(tx.connection).parameters(tx.dealer_id, values), keys, conflict)
        elif self.write(tx, values) == 0 and conflict is not None:
            raise AlreadyStored(conflict)

    def replace_if_unchanged(self, tx: Transaction, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Changes the dealer's row from `before` to `after`, unless it is no longer `before`. Returns whether it did.

        If the connection collects rows, the result is always True, and several changes of one row become one. If
        another transaction changed the row, AlreadyStored is raised later, when the rows are written.
        """
        rows = _collected(tx.connection)
        if rows is None:
            return self.write(tx, {**before, **after}) == 1
        rows.replace(self, tx.dealer_id, before, after)
        return True

    def compiled(self, connection: Connection) -> _Compiled:
        """The statement for the connection's database."""
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name)
        if compiled is None:
            compiled = self._compiled[dialect.name] = self._compile(dialect)
        return compiled

    def _compile(self, dialect: Dialect) -> _Compiled:
        """The SQL of a statement, with what converts its parameters and columns."""
        compiled: Any = self.statement.compile(dialect=dialect)
        columns = self.statement.selected_columns if isinstance(self.statement, Select) else ()
        # A parameter that a statement uses twice is in `bind_names` twice.
        into = {name: _to_driver(parameter.type, dialect) for parameter, name in compiled.bind_names.items()}
        back = [_from_driver(column.type, dialect) for column in columns]
        names = [column.name for column in columns]
        return _Compiled(
            sql=compiled.string,
            dealer=dealer_parameter(self.statement),
            names=tuple(compiled.positiontup) if compiled.positional else None,
            defaults=compiled.params,
            converts=tuple((name, convert) for name, convert in into.items() if convert),
            columns=tuple((position, convert) for position, convert in enumerate(back) if convert),
            named=_row_maker(names),
        )


def _row_maker(columns: list[str]) -> Callable[[Iterable[Any]], Any]:
    """A function that makes a named tuple of a row."""
    if not columns:
        return tuple
    row: Any = namedtuple("row", columns, rename=True)  # type: ignore[misc]  # The statement names the columns.
    make: Callable[[Iterable[Any]], Any] = row._make
    return make


# Both drivers accept and return bytes. Times are converted without SQLAlchemy, which takes longer.
def _to_driver(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """A function that converts a value for the driver; None if it needs no conversion."""
    if isinstance(kind, LargeBinary):
        return None
    if isinstance(kind, UtcTime):
        return microseconds
    return kind.dialect_impl(dialect).bind_processor(dialect)


def _from_driver(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """A function that converts a value of the driver; None if it needs no conversion."""
    if isinstance(kind, LargeBinary):
        return None
    if isinstance(kind, UtcTime):
        return time_of
    return kind.dialect_impl(dialect).result_processor(dialect, None)


Read = tuple[Prepared, Mapping[str, Any]]
"""A SELECT and its values."""


def read_all(tx: Transaction, reads: Sequence[Read]) -> list[list[Any]]:
    """The rows of each SELECT, in one round trip. Raises StorageError."""
    return read_of_each([(tx, reads)])[0]


def read_of_each(wanted: Sequence[tuple[Transaction, Sequence[Read]]]) -> list[list[list[Any]]]:
    """The rows of each SELECT, for the dealers of transactions that share a connection, in one round trip.

    Raises StorageError.
    """
    first, reads = wanted[0]
    connection = first.connection
    if len(wanted) == len(reads) == 1 and not must_set_dealer(connection, first.dealer_id):
        # The usual case: a lead in a folder reads with one statement.
        ((statement, values),) = reads
        return [[statement.read(first, values)]]
    all_reads = [(tx, statement, values) for tx, reads in wanted for statement, values in reads]
    rows = _collected(connection)
    if rows is not None and any(rows.may_be_found(statement.tables, None) for _, statement, _ in all_reads):
        rows.write()
    compiled = [statement.compiled(connection) for _, statement, _ in all_reads]

    def work(cursors: Sequence[Any]) -> None:
        for cursor, each, (tx, _, values) in zip(cursors, compiled, all_reads, strict=True):
            set_dealer(connection, tx.dealer_id)
            cursor.execute(each.sql, each.parameters(tx.dealer_id, values))

    results = _run_together(connection, len(all_reads), work, lambda cursor: cursor.fetchall())
    rows_of = iter([[each.row(row) for row in rows] for each, rows in zip(compiled, results, strict=True)])
    return [list(islice(rows_of, len(reads))) for _, reads in wanted]


MOST_SOUGHT = 256
"""The most keys of one statement."""

_SIZES = (1, 4, 16, 64, MOST_SOUGHT)
"""The numbers of keys of the statements, so that few are compiled. The last key fills the places that are left."""


def _padded_keys(keys: Sequence[Any]) -> dict[str, Any]:
    """The parameters `key_0`, `key_1`, ... of a statement with one of the _SIZES."""
    number = next(size for size in _SIZES if size >= len(keys))
    return {f"key_{position}": key for position, key in enumerate([*keys, *repeat(keys[-1], number - len(keys))])}


@cache
def _rows_of_keys(statement: Select[Any], column: Column[Any], number: int) -> Prepared:
    return Prepared(statement.where(column.in_([bindparam(f"key_{position}") for position in range(number)])))


def read_of_keys(statement: Select[Any], column: Column[Any], keys: Sequence[Any]) -> Read:
    """A statement for the rows with one of at least one and at most MOST_SOUGHT keys, in no order."""
    parameters = _padded_keys(keys)
    return _rows_of_keys(statement, column, len(parameters)), parameters


@cache
def _find_keys(column: Column[Any], number: int) -> Prepared:
    """A statement that finds which of so many keys a row has."""
    keys = values(sql_column("sought", LargeBinary), name="keys")
    keys = keys.data([(bindparam(f"key_{position}", type_=LargeBinary),) for position in range(number)])
    sought = keys.cte("keys").c.sought
    of_key = (column.table.c.dealer_id == bindparam("dealer"), column == sought)
    # With LIMIT, PostgreSQL looks into the index for each key, however many rows have it.
    row = select(literal_column("1", Integer)).where(*of_key).limit(1)
    return Prepared(select(sought).where(row.scalar_subquery().is_not(None)))


Sought = Mapping[Column[Any], Sequence[bytes]]
"""Keys by the columns that have them."""


def find_absent_keys(tx: Transaction, sought: Sought) -> None:
    """Finds which of these keys no row has, in one round trip. The caller holds the dealer's lock."""
    rows = _collected(tx.connection)
    assert rows is not None, "without a group, to look twice takes longer"
    reads: list[Read] = []
    absent: set[bytes] = set()
    for column, keys in sought.items():
        for first in range(0, len(keys), MOST_SOUGHT):
            parameters = _padded_keys(keys[first : first + MOST_SOUGHT])
            reads.append((_find_keys(column, len(parameters)), parameters))
        absent.update(keys)
    if reads:
        absent.difference_update(key for result in read_all(tx, reads) for (key,) in result)
        rows.absent |= absent


class CollectedRows:
    """Rows that are written together. `touched` counts the rows, and other statements that may write."""

    def __init__(self, connection: Connection) -> None:
        self.touched = 0
        self.connection = connection
        self.absent: set[bytes] = set()
        """Keys that no row has (`find_absent_keys`). A key is a hash of a value with its dealer and its use, so those
        of several dealers do not meet."""
        self.discard()

    def discard(self) -> None:
        """Discards the rows."""
        # By dealer and statement, the parameters of the rows to write.
        self._rows: dict[tuple[str, Prepared], list[Any]] = {}
        # By statement and dealer, the dealer's row before the first change and after the last one.
        self._replaced: dict[tuple[Prepared, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        # By statement, what a conflict of one of its rows means.
        self._conflicts: dict[Prepared, str] = {}
        self._tables: set[str] = set()
        self._keys: set[bytes] = set()

    def add(
        self, statement: Prepared, dealer_id: str, parameters: Any, keys: Iterable[bytes], conflict: str | None
    ) -> None:
        """Collects a row."""
        self.touched += 1
        self._rows.setdefault((dealer_id, statement), []).append(parameters)
        self._tables |= statement.tables
        self._keys.update(keys)
        self.absent.difference_update(keys)
        if conflict is not None:
            self._conflicts[statement] = conflict

    def replace(self, statement: Prepared, dealer_id: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Collects a change of the one row that a table has for a dealer.

        Several changes become one, from the row before the first: the write checks that nobody has changed that one.
        """
        self.touched += 1
        before_first, _ = self._replaced.get((statement, dealer_id), (before, after))
        self._replaced[statement, dealer_id] = before_first, after
        self._tables |= statement.tables

    def may_be_found(self, tables: frozenset[str], keys: Collection[bytes] | None) -> bool:
        """Whether a SELECT from these tables, or one for some keys, could find a collected row."""
        return not tables.isdisjoint(self._tables) and (keys is None or not self._keys.isdisjoint(keys))

    def write(self) -> None:
        """Writes the rows in one round trip. Raises StorageError."""
        if not self._tables:
            return
        rows, conflicts = self._rows, self._conflicts
        for (statement, dealer_id), (before, after) in self._replaced.items():
            compiled = statement.compiled(self.connection)
            rows.setdefault((dealer_id, statement), []).append(compiled.parameters(dealer_id, {**before, **after}))
            conflicts[statement] = "another transaction changed the row"
        self.discard()
        # Each dealer's rows together, and a table after those that it refers to.
        ordered = sorted(rows.items(), key=lambda item: (item[0][0], min(map(_RANKS.__getitem__, item[0][1].tables))))
        written = _run_all(self.connection, ordered)
        for ((_, statement), parameters), count in zip(ordered, written, strict=True):
            if statement in conflicts and count != len(parameters):
                raise AlreadyStored(conflicts[statement])


_RANKS = {table.name: rank for rank, table in enumerate(metadata.sorted_tables)}


@contextmanager
def collect_rows(connection: Connection) -> Iterator[CollectedRows]:
    """Collects the rows that are added on a connection in a `with` block. The caller writes them in this block."""
    rows = connection.info[_ROWS] = CollectedRows(connection)
    try:
        yield rows
    finally:
        del connection.info[_ROWS]


def write_collected(connection: Connection) -> None:
    """Call it before a statement that may write or find any row. Raises StorageError."""
    rows = _collected(connection)
    if rows is not None:
        rows.touched += 1
        rows.absent.clear()  # The statement may add rows with any keys.
        rows.write()


def _collected(connection: Connection) -> CollectedRows | None:
    rows: CollectedRows | None = connection.info.get(_ROWS)
    return rows


def run_without_parameters(connection: Connection, sql: str) -> None:
    """Runs SQL that has no parameters and no result. Raises StorageError."""
    _run_with_cursor(connection, lambda cursor: cursor.execute(sql))


def _run_all(connection: Connection, statements: Sequence[tuple[tuple[str, Prepared], list[Any]]]) -> list[int]:
    """Executes each statement of a dealer once for each of its rows. Returns how many rows each wrote."""
    before = current_dealer(connection)

    def work(cursors: Sequence[Any]) -> None:
        """Sends the rows of each statement, as the dealer to whom they belong."""
        for cursor, ((dealer_id, statement), rows) in zip(cursors, statements, strict=True):
            set_dealer(connection, dealer_id)
            sql = statement.compiled(connection).sql
            if len(rows) == 1:
                cursor.execute(sql, rows[0])  # psycopg takes much longer for executemany.
            else:
                cursor.executemany(sql, rows)
        # The caller may run a statement of the dealer from before next, so that dealer is set again.
        if before is not None:
            set_dealer(connection, before)

    return _run_together(connection, len(statements), work, lambda cursor: cursor.rowcount)


def _run_together(
    connection: Connection, count: int, work: Callable[[Sequence[Any]], None], result: Callable[[Any], Any]
) -> list[Any]:
    """Runs `work` with `count` cursors of the driver, and returns the result of each cursor.

    On PostgreSQL several statements are sent in a pipeline, which takes one round trip. For one statement, a pipeline
    would cost more.
    """
    driver: Any = connection.connection.driver_connection

    def all_work(_: Any) -> list[Any]:
        cursors = [driver.cursor() for _ in range(count)]
        with driver.pipeline() if connection.dialect.name == "postgresql" and count > 1 else nullcontext():
            work(cursors)
        return [result(cursor) for cursor in cursors]

    results: list[Any] = _run_with_cursor(connection, all_work)
    return results


def _run_with_cursor(connection: Connection, work: Callable[[Any], Any]) -> Any:
    """Does work with a cursor of the driver. Raises StorageError."""
    cursor = connection.connection.cursor()
    try:
        return work(cursor)
    except connection.dialect.loaded_dbapi.Error as error:
        raise translated_driver_error(error) from None
    finally:
        cursor.close()
