"""A pytest plugin: all engines of a test process share what SQLAlchemy has compiled.

A running service compiles a statement once. A test process opens thousands of stores, and each would compile all its
statements again: a third of what the start of an application costs.
"""

from collections.abc import Hashable
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache


class _Compiled(LRUCache[Hashable, Any]):
    """The compiled statements of one kind of database. SQLAlchemy's key begins with the dialect of the engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(key[1:], compiled)


_OF_DIALECTS: dict[str, _Compiled] = {}


@event.listens_for(Engine, "engine_connect")
def _share(connection: Connection) -> None:
    compiled = _OF_DIALECTS.setdefault(connection.dialect.name, _Compiled(2000))
    connection.execution_options(compiled_cache=compiled)
