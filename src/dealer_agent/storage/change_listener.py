"""Listens to the changes that triggers announce on PostgreSQL (migration 0011)."""

from collections.abc import AsyncIterator

from sqlalchemy import Engine

from dealer_agent.storage.connections import CONNECT_SECONDS, READ_PROCESS, TCP, replace_connections
from dealer_agent.storage.errors import NOT_PRIMARY, translated_driver_error

CHANNEL = "dealer_agent_changes"

LISTENING_CONNECTIONS = 1
"""The connections of a listener. They are not in the pool of the store."""

CHECK_SECONDS = 10
"""How often the listener checks that its server is still the one that takes writes, and so makes announcements."""

READ_ONLY_STATE = "SHOW transaction_read_only"


async def listen(engine: Engine) -> AsyncIterator[None]:
    """Yields once when it listens, and then after each announced change.

    Ends at once on SQLite, and behind a pooler, which forwards no announcements. Raises DatabaseUnreachable when the
    connection breaks or its server takes no writes any more, and other StorageErrors.
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
            while (await (await connection.execute(READ_ONLY_STATE)).fetchone()) == ("off",):
                async for _ in connection.notifies(timeout=CHECK_SECONDS):
                    yield
            # Those that only read do not notice it.
            replace_connections(engine)
            kind, words = NOT_PRIMARY
            raise kind(words)
    except psycopg.Error as error:
        raise translated_driver_error(error) from None
