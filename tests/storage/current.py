"""Databases with the current schema, made in a few milliseconds instead of by all migrations.

A SQLite database is a copy of a file that `migrate` made. On PostgreSQL, a schema that `migrate` made is emptied after
its test and given to the next one. A schema whose tables a test has changed is dropped.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.schema import metadata

MOST_BYTES = 4_000_000
"""A schema with more data than this is dropped, because it takes longer to empty."""

# A change of a table or an index writes its row of pg_class anew, and that changes `xmin`.
_READ_DEFINITIONS = b"SELECT oid, xmin::text FROM pg_class WHERE relnamespace = %s::text::regnamespace ORDER BY oid"
_READ_SIZE = b"""
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relnamespace = %s::text::regnamespace AND relkind = 'r'
"""


def make_current(url: str) -> None:
    """Does for an empty database what `migrate` does. Any other database is left to `migrate`."""
    schemas = _LENT.get(url)
    if schemas is not None and schemas.make_current(url):
        return
    parsed = database_url(url)
    file = Path(str(parsed.database))
    if parsed.get_backend_name() != "sqlite" or file.exists():
        migrate(url)
        return
    file.touch(0o600, exist_ok=False)
    file.write_bytes(_sqlite_file())


@cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        migrate(f"sqlite:///{folder}/dealer.db")
        (file,) = Path(folder).iterdir()  # It has no WAL beside it: it holds everything.
        return file.read_bytes()


class Schemas:
    """The schemas of one process on one server."""

    def __init__(self, server: str) -> None:
        self._connection = psycopg.connect(server, autocommit=True)
        self._connection.execute("SET lock_timeout = '120s'")
        self._connection.execute("SET client_min_messages = warning")
        self.spare: list[str] = []
        self._definitions: dict[str, list[tuple[int, str]]] = {}
        """The definitions of the tables of each schema that `migrate` made."""

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def lend(self, url: str, name: str) -> Iterator[None]:
        """An empty schema of this name for a block, at `url`."""
        self._run("CREATE SCHEMA {}", name)
        _LENT[url] = self
        yield
        del _LENT[url]
        definitions = self._definitions.pop(name, None)
        if definitions is not None and definitions == self.read_definitions(name) and self.empty(name):
            spare = f"spare_{uuid4().hex}"
            self._run("ALTER SCHEMA {} RENAME TO {}", name, spare)
            self.spare.append(spare)
            self._definitions[spare] = definitions
        else:
            self._run("DROP SCHEMA {} CASCADE", name)

    def make_current(self, url: str) -> bool:
        """Whether the schema at `url` was empty. It is current then."""
        name = url.rpartition("search_path%3D")[2]
        if self.read_definitions(name):
            return False
        if self.spare:
            spare = self.spare.pop()
            self._run("DROP SCHEMA {}", name)
            self._run("ALTER SCHEMA {} RENAME TO {}", spare, name)
            self._definitions[name] = self._definitions.pop(spare)
        else:
            migrate(url)
            self._definitions[name] = self.read_definitions(name)
        return True

    def empty(self, name: str) -> bool:
        """Deletes all rows of a schema. False if there is too much in it."""
        size = self._connection.execute(_READ_SIZE, [name]).fetchone()
        if size is None or size[0] > MOST_BYTES:
            return False
        # Rows that refer to others go first.
        tables = [sql.Identifier(name, table.name) for table in reversed(metadata.sorted_tables)]
        with self._connection.transaction():
            # Nobody else is in the middle of a write.
            self._connection.execute(sql.SQL("LOCK TABLE {}").format(sql.SQL(",").join(tables)))
            self._connection.execute(sql.SQL(";").join(sql.SQL("DELETE FROM {}").format(table) for table in tables))
        return True

    def read_definitions(self, name: str) -> list[tuple[int, str]]:
        """What changes with each change of a table or an index of a schema, or of the rights to a table."""
        return self._connection.execute(_READ_DEFINITIONS, [name]).fetchall()

    def _run(self, statement: str, *names: str) -> None:
        self._connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


_LENT: dict[str, Schemas] = {}
"""Who lends the schema at each URL."""
