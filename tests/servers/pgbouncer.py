"""A real PgBouncer in transaction mode for tests: a pytest plugin. PyPI has no wheel with its binary."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.acceptance.running import free_port
from tests.servers.programs import ServerProcess, installed_program
from tests.storage.databases import SERVER_USER

SERVER_CONNECTIONS = 4
"""Connections to PostgreSQL that all clients share."""


class PgBouncer(ServerProcess):
    """A pooler before one database. `direct_url` is the database without it."""

    def __init__(self, folder: Path, direct_url: str, user: str | None) -> None:
        port = free_port()
        program = installed_program("pgbouncer", "pgbouncer")
        self._settings = settings = folder / "pgbouncer.ini"
        settings.write_text(_settings(direct_url, port), "utf-8")
        settings.chmod(0o600)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(settings, user)
        as_user = [] if user is None else ["--user", user]
        super().__init__([program, *as_user, settings], folder, port)
        self.direct_url = direct_url
        given = conninfo_to_dict(direct_url)
        self.url = f"postgresql://{given.get('user', 'postgres')}@127.0.0.1:{port}/{given['dbname']}"

    def log_in_as(self, role: str) -> None:
        """Restarts the pooler. It uses PostgreSQL as this role from now on, for all clients."""
        self.kill()
        self._settings.write_text(_settings(self.direct_url, self.port, user=role), "utf-8")
        self.start()


def _settings(direct_url: str, port: int, **other: str) -> str:
    server = conninfo_to_dict(direct_url) | other
    names = ("host", "port", "user", "password", "dbname")
    target = " ".join(f"{name}='{server[name]}'" for name in names if server.get(name))
    return f"""
[databases]
{server["dbname"]} = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
"""


def _unprivileged_user() -> str | None:
    """The user to run as when the tests run as root, because PgBouncer refuses to run as root.

    Only the user of the test run's PostgreSQL has access to the folder with its socket.
    """
    if os.geteuid() != 0:
        return None
    return "nobody" if os.environ.get("TEST_DATABASE_URL") else SERVER_USER


@pytest.fixture
def pgbouncer_server(request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """A pooler before an empty database of its own. It takes no `options` in a URL, so a schema would not do."""
    installed_program("pgbouncer", "pgbouncer")  # Skip before PostgreSQL starts.
    server: str = request.getfixturevalue("postgresql_server")
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        host = connection.info
        direct_url = psycopg.conninfo.make_conninfo(server, dbname=name, user=host.user, host=host.host, port=host.port)
    folder = Path(tempfile.mkdtemp(prefix="dealer-agent-pgbouncer-"))
    pooler = PgBouncer(folder, direct_url, _unprivileged_user())
    try:
        yield pooler
    finally:
        pooler.kill()
        shutil.rmtree(folder)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
