"""Statements that every lead needs, made ready once for each database and run by the driver itself.

What SQLAlchemy does anew at each execution costs several times what SQLite does, and everybody else's lead waits
meanwhile. Statement, conversions and transaction are SQLAlchemy's still; only the running is not.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Delete, Dialect, Insert, Select, TextClause, Update

from dealer_agent.storage.errors import translated_postgresql, translated_sqlite

Convert = Callable[[Any], Any] | None


class _Ready(NamedTuple):
    """A statement for one database. `names` are its parameters, in their order where the driver wants them so, each
    with the value that the statement itself gives it."""

    sql: str
    positional: bool
    names: tuple[tuple[str, Any, Convert], ...]
    columns: tuple[Convert, ...]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """What the driver takes. A column that has no value here gets none."""
        given = [(name, values.get(name, default), convert) for name, default, convert in self.names]
        if self.positional:
            return tuple(convert(value) if convert else value for _, value, convert in given)
        return {name: convert(value) if convert else value for name, value, convert in given}


class Prepared:
    """A statement without expanding parameters. Threads may share it."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete | TextClause) -> None:
        self.statement = statement
        self._ready: dict[str, _Ready] = {}

    def read(self, connection: Connection, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows of a SELECT. Raises StorageError."""
        ready = self._for(connection.dialect)
        found = _run(connection, lambda cursor: cursor.execute(ready.sql, ready.parameters(values)).fetchall())
        return [
            tuple(convert(value) if convert else value for convert, value in zip(ready.columns, row, strict=True))
            for row in found
        ]

    def write(self, connection: Connection, values: Mapping[str, Any]) -> int:
        """How many rows were written. Raises StorageError."""
        ready = self._for(connection.dialect)
        count: int = _run(connection, lambda cursor: cursor.execute(ready.sql, ready.parameters(values)).rowcount)
        return count

    def write_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes once for each of `rows`. Raises StorageError."""
        ready = self._for(connection.dialect)
        parameters = [ready.parameters(values) for values in rows]
        _run(connection, lambda cursor: cursor.executemany(ready.sql, parameters))

    def _for(self, dialect: Dialect) -> _Ready:
        ready = self._ready.get(dialect.name)
        if ready is None:
            ready = self._ready[dialect.name] = self._made_ready(dialect)
        return ready

    def _made_ready(self, dialect: Dialect) -> _Ready:
        compiled: Any = self.statement.compile(dialect=dialect)
        converts = {
            name: parameter.type.dialect_impl(dialect).bind_processor(dialect)
            for parameter, name in compiled.bind_names.items()
        }
        defaults = compiled.params
        columns = self.statement.selected_columns if isinstance(self.statement, Select) else ()
        return _Ready(
            sql=compiled.string,
            positional=compiled.positional,
            names=tuple((name, defaults[name], converts[name]) for name in (compiled.positiontup or converts)),
            columns=tuple(column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns),
        )


def run_plainly(connection: Connection, sql: str) -> None:
    """Runs SQL that has no parameters and no result. Raises StorageError."""
    _run(connection, lambda cursor: cursor.execute(sql))


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
