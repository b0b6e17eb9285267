"""All that a database holds, as anybody who has its files or its tables would find it."""

from pathlib import Path

from sqlalchemy import select
from tests.storage.samples import DEALER

from dealer_agent.storage.columns import is_sealed
from dealer_agent.storage.schema import metadata
from dealer_agent.storage.store import Store


def everything(store: Store) -> bytes:
    """The bytes of the SQLite file and of what stands beside it, or every column of every row of PostgreSQL."""
    if store._writer.dialect.name == "sqlite":
        file = Path(str(store._writer.url.database))
        return b"\n".join(part.read_bytes() for part in sorted(file.parent.glob(f"{file.name}*")))
    return b"\n".join(_told(value) for value in values(store))


def values(store: Store) -> list[object]:
    """Every value of every row of every table."""
    with store.read(DEALER) as tx:
        return [
            value
            for table in metadata.sorted_tables
            for row in tx.connection.execute(select(table))
            for value in row
            if value is not None
        ]


def sealed_values(store: Store) -> set[bytes]:
    """What stands in the columns that are said to be sealed."""
    with store.read(DEALER) as tx:
        return {
            bytes(value)
            for table in metadata.sorted_tables
            for column in table.columns
            if is_sealed(column)
            for value in tx.connection.execute(select(column).where(column.is_not(None))).scalars()
        }


def _told(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
