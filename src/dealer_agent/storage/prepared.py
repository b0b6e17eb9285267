"""Statements that every lead needs, made ready once for each database and run by the driver itself.

What SQLAlchemy does anew at each execution costs several times what SQLite does, and everybody else's lead waits
meanwhile. Statement, conversions and transaction are SQLAlchemy's still; only the running is not.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import Connection, Delete, Dialect, Insert, Select, TextClause, Update

from dealer_agent.storage.errors import translated_postgresql, translated_sqlite


class _Ready(NamedTuple):
    """A statement for one database. `names` are its parameters in order, where the driver wants them so; `defaults`
    has all of them, with the values that the statement itself gives them."""

    sql: str
    names: tuple[str, ...] | None
    defaults: dict[str, Any]
    converts: tuple[tuple[str, Callable[[Any], Any]], ...]
    columns: tuple[tuple[int, Callable[[Any], Any]], ...]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        """What the driver takes. A column that has no value here gets none."""
        given = {**self.defaults, **values}
        for name, convert in self.converts:
            given[name] = convert(given[name])
        return given if self.names is None else [given[name] for name in self.names]

    def row(self, found: Sequence[Any]) -> tuple[Any, ...]:
        """A row that the driver found, as SQLAlchemy would have it."""
        row = list(found)
        for place, convert in self.columns:
            row[place] = convert(row[place])
        return tuple(row)


class Prepared:
    """A statement without expanding parameters. Threads may share it."""

    def __init__(self, statement: Select[Any] | Insert | Update | Delete | TextClause) -> None:
        self.statement = statement
        self._ready: dict[str, _Ready] = {}

    def read(self, connection: Connection, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows of a SELECT. Raises StorageError."""
        ready = self._for(connection.dialect)
        found = _run(connection, lambda cursor: cursor.execute(ready.sql, ready.parameters(values)).fetchall())
        return [ready.row(row) for row in found] if ready.columns else found

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
        columns = self.statement.selected_columns if isinstance(self.statement, Select) else ()
        into = {
            name: parameter.type.dialect_impl(dialect).bind_processor(dialect)
            for parameter, name in compiled.bind_names.items()
        }
        back = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
        return _Ready(
            sql=compiled.string,
            names=tuple(compiled.positiontup) if compiled.positional else None,
            defaults=compiled.params,
            converts=tuple((name, convert) for name, convert in into.items() if convert),
            columns=tuple((place, convert) for place, convert in enumerate(back) if convert),
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
