"""`docs/reference/data-model.md`: the tables and columns of `storage/schema.py`. Its comments explain the tables."""

import inspect
import re

from scripts.reference.markdown import code, page, table
from sqlalchemy import Column, Table

from dealer_agent.storage import schema
from dealer_agent.storage.columns import is_sealed
from dealer_agent.storage.stock import record_tables

INTRODUCTION = """\
The database has {tables} tables, the same on SQLite and PostgreSQL. Every primary key begins with `dealer_id`, so the
rows of a dealer are apart from those of others. On PostgreSQL, [row-level security](../explanation/isolation.md)
enforces it. The newest schema version is {revision}.

A *time* is a 64-bit number of microseconds since 1970 in UTC. *Encrypted* bytes are text of a sender or data about a
person: each value is bound to its table, column and row. *External text* comes from another program or person; U+0000
is replaced in it. JSON documents are bytes. [Privacy](../explanation/privacy.md) says how long rows are kept."""

TYPES = {
    "String": "text",
    "ExternalText": "external text",
    "UtcTime": "time",
    "Integer": "32-bit number",
    "BigInteger": "64-bit number",
    "Boolean": "true or false",
    "LargeBinary": "bytes",
}
_COMMENTED = re.compile(r"((?:^#.*\n)+)^(\w+) = dealer_table\(", re.MULTILINE)


def data_model_page() -> str:
    """`data-model.md`."""
    sources = "\n".join(map(inspect.getsource, (schema, record_tables)))
    comments = {name: _paragraph(comment) for comment, name in _COMMENTED.findall(sources)}
    tables = schema.metadata.tables.values()
    return page(
        "Data model",
        INTRODUCTION.format(tables=len(tables), revision=schema.SCHEMA_VERSION),
        ["\n\n".join(filter(None, (f"## {each.name}", comments.get(each.name), _columns(each)))) for each in tables],
    )


def _paragraph(comment: str) -> str:
    return " ".join(line.removeprefix("#").strip() for line in comment.splitlines())


def _columns(each: Table) -> str:
    return table(
        ("Column", "Type", "Key"), [(code(column.name), _type(column), _key(column)) for column in each.columns]
    )


def _type(column: Column[object]) -> str:
    name = type(column.type).__name__
    return "encrypted bytes" if is_sealed(column) else TYPES.get(name, name)


def _key(column: Column[object]) -> str:
    """Whether the column is in the primary key, and the table to whose rows it points."""
    owners = (f"of [{key.column.table.name}](#{key.column.table.name})" for key in column.foreign_keys)
    return ", ".join((*(["primary"] if column.primary_key else []), *owners))
