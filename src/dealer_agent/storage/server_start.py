"""Waits for a PostgreSQL server that accepts no connections yet: after a restart of its machine, or in a failover."""

import re
import time
from collections.abc import Callable

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from dealer_agent.storage.connections import CONNECT_SECONDS, writer_engine
from dealer_agent.storage.database_url import database_url
from dealer_agent.storage.errors import DatabaseUnreachable, translating

START_SECONDS = 120
"""How long a service that starts waits for its PostgreSQL server."""

PAUSE_SECONDS = 0.5


def wait_for_server(url: str, on_wait: Callable[[str], None], seconds: float = START_SECONDS) -> None:
    """Waits until a PostgreSQL server of `url` takes writes. Returns at once for SQLite.

    The server may be starting, its port may refuse connections, its host name may be unknown, or it may be a standby
    that is not promoted yet. `on_wait` gets the reason, once. Raises DatabaseUnreachable if a server refuses the login,
    and after `seconds`, and other StorageErrors.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        return
    ends = time.monotonic() + seconds
    is_waiting = False
    engine = writer_engine(parsed)
    try:
        with translating():
            while (reason := _reason_to_wait(engine)) is not None:
                if time.monotonic() > ends:
                    raise DatabaseUnreachable(
                        f"{reason}, for {seconds:g} seconds: check the host name and the port in DATABASE_URL, and "
                        "that the server runs"
                    )
                if not is_waiting:
                    on_wait(reason)
                is_waiting = True
                time.sleep(PAUSE_SECONDS)
    finally:
        engine.dispose()


def _reason_to_wait(engine: Engine) -> str | None:
    """Why no connection is possible now, but may be later. None if it is possible. Raises DatabaseUnreachable."""
    try:
        engine.connect().close()
    except OperationalError:
        return _state_of_servers(engine)
    return None


def _state_of_servers(engine: Engine) -> str:
    # Imported here: SQLite does not need the driver.
    import psycopg
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import PGconn, Ping

    _, given = engine.dialect.create_connect_args(engine.url)
    options = {"connect_timeout": CONNECT_SECONDS, **given, "target_session_attrs": "any", "context": None}
    hosts, ports = (str(options.get(name) or "").split(",") for name in ("host", "port"))
    states = set()
    for host, port in zip(hosts, ports * (len(hosts) // len(ports)), strict=True):
        server = make_conninfo("", **{**options, "host": host or None, "port": port or None})
        # The error of a connection that fails has no SQLSTATE. Only libpq sees it, and PQping tells what it means.
        state = PGconn.ping(server.encode())
        states.add(state)
        if state == Ping.OK:
            try:
                psycopg.connect(server).close()
            except psycopg.OperationalError as error:
                raise _refusal(str(error)) from None
    if Ping.OK in states:
        return "no database server takes writes yet"
    return f"the database server {'is starting or stopping' if Ping.REJECT in states else 'does not answer'}"


def _refusal(error: str) -> DatabaseUnreachable:
    said = re.search(r"FATAL: +([^\n]{1,200})", error)
    return DatabaseUnreachable(
        f"the database server refuses the connection{f' ({said[1]})' if said else ''}: check the database's name, user "
        "and password in DATABASE_URL"
    )
