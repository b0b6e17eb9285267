"""Listens to the changes that triggers announce on PostgreSQL (migration 0011)."""

from collections.abc import AsyncIterator

from sqlalchemy import Engine

from dealer_agent.storage.connections import CONNECT_SECONDS, READ_PROCESS, TCP
from dealer_agent.storage.errors import translated_driver_error

CHANNEL = "dealer_agent_changes"

LISTENING_CONNECTIONS = 1
"""The connections of a listener. They are not in the pool of the store."""


async def listen(engine: Engine) -> AsyncIterator[None]:
    """Yields once when it listens, and then after each announced change.

    Ends at once on SQLite, and behind a pooler, which forwards no announcements. Raises DatabaseUnreachable when the
    connection breaks, and other StorageErrors.
    """
    if engine.dialect.name != "postgresql":
        return
    # Imported here: SQLite does not need the driver.
    import psycopg

    _, given = engine.dialect.create_connect_args(engine.url)
    options = {"connect_timeout": CONNECT_SECONDS, **TCP, **given}
    try:
        async with await psycopg.AsyncConnection.connect(autocommit=True, **options) as connection:
            process = await (await connection.execute(READ_PROCESS)).fetchone()
            if process != (connection.info.backend_pid,):
                return
            await connection.execute(f"LISTEN {CHANNEL}")
            yield
            async for _ in connection.notifies():
                yield
    except psycopg.Error as error:
        raise translated_driver_error(error) from None
