"""Defines what the tables are made of: types of columns that the databases do not have, and the key of each table.

A time is an integer: microseconds since 1970 in UTC. SQLite has no type for times, and PostgreSQL returns them in the
zone of the session. An integer compares, sorts and indexes the same on both, in a third of the size of ISO text.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Any, overload

from sqlalchemy import (
    BigInteger,
    Column,
    Constraint,
    Dialect,
    ForeignKeyConstraint,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

SEALED = "sealed"
"""The comment of an encrypted column."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # An import gives thousands of units one and the same time.
def _from_microseconds(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def time_of(value: int | None) -> datetime | None:
    """The time of a number of microseconds since 1970."""
    return None if value is None else _from_microseconds(value)


@overload
def microseconds(value: datetime) -> int: ...


@overload
def microseconds(value: datetime | None) -> int | None: ...


def microseconds(value: datetime | None) -> int | None:
    """The microseconds since 1970. Raises ValueError for a time without an offset."""
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError("a time without an offset")
    return (value - _EPOCH) // _MICROSECOND


class UtcTime(TypeDecorator[datetime]):
    """An aware datetime, stored as microseconds since 1970, and read in UTC. Raises ValueError for a naive one."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """Converts a time to the stored number."""
        return microseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Converts a stored number to a time."""
        return time_of(value)


def as_stored(words: str) -> str:
    """Text as it is stored: U+0000, which PostgreSQL cannot store, becomes U+FFFD."""
    return words.replace("\0", "\N{REPLACEMENT CHARACTER}")


class ExternalText(TypeDecorator[str]):
    """Text of another program or person. It is stored as `as_stored` changes it, so that both databases accept it."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Converts a text to its stored form."""
        return None if value is None else as_stored(value)


def columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Columns of one type."""
    return [Column(name, kind) for name in names]


def sealed(*names: str) -> list[Column[Any]]:
    """Encrypted columns. Code finds them by `is_sealed`, and a person by the comment in the database."""
    return [Column(name, LargeBinary, comment=SEALED) for name in names]


def is_sealed(column: Column[Any]) -> bool:
    """Whether the values of a column are encrypted."""
    return column.comment == SEALED


metadata = MetaData()


def dealer_table(name: str, *groups: Iterable[Column[Any]], key: Sequence[str] = (), of: Table | None = None) -> Table:
    """A table with these columns and the column `dealer_id`, with which the primary key begins. `key` is its rest.

    `of` is the table to whose rows the rows belong.
    """
    constraints: list[Constraint] = [PrimaryKeyConstraint("dealer_id", *key)]
    if of is not None:
        owner = of.primary_key.columns
        constraints.append(ForeignKeyConstraint(owner.keys(), list(owner)))
    return Table(name, metadata, Column("dealer_id", String), *chain(*groups), *constraints)
