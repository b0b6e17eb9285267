"""Two real PostgreSQL servers for tests, a primary and its synchronous standby, and their changes of roles."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from tests.acceptance.running import PATIENCE_SECONDS, eventually, free_port
from tests.servers.programs import ServerProcess
from tests.storage.databases import SERVER_USER, library

psutil: Any = import_module("psutil")
"""It has no type stubs here."""

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # The servers die, and their machine does not.
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "32MB",
    # A standby finds all that the primary has written since its base backup.
    "wal_keep_size": "1GB",
}


class Node(ServerProcess):
    """One of two servers. `make_primary` or `copy` makes its data before it starts."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._server = library().PostgresServer(self.data, cleanup_mode=None)
        self.folder = folder
        self.port = free_port()
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        # PostgreSQL refuses to run as root.
        as_user = ["setpriv", f"--reuid={SERVER_USER}", "--clear-groups"] if os.geteuid() == 0 else []
        program = self._server.bin_path / "postgres"
        self._command = [*as_user, str(program), f"--port={self.port}", "-D", str(self.data), *settings]

    @property
    def url(self) -> str:
        """The address for a superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def make_primary(self) -> None:
        """Makes an empty database."""
        self.data.mkdir(mode=0o700)
        self._server.ensure_pgdata_inited()

    def copy(self, primary: "Node") -> None:
        """Makes this server a new standby of a primary. What it had is gone."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby"
        library().pgexec(
            "pg_basebackup",
            ("--dbname", source, "--pgdata", str(self.data), "--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=PATIENCE_SECONDS,
        )
        # Otherwise it would wait for a standby of its own as soon as it is the primary.
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write("synchronous_standby_names = ''\n")

    def wait_for(self, what: str, query: str) -> None:
        """Waits until the query returns true."""

        def ask() -> bool:
            try:
                with psycopg.connect(self.url, autocommit=True) as connection:
                    return connection.execute(query.encode()).fetchone() == (True,)
            except psycopg.OperationalError:
                return False

        eventually(what, ask)

    def configure(self, **settings: str) -> None:
        """Changes settings of the running server."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for name, value in settings.items():
                change = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
                connection.execute(change)
            connection.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Makes this standby the primary. It need not accept connections."""
        library().pgexec(
            "pg_ctl",
            ("--pgdata", str(self.data), "--no-wait", "promote"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def _send(self, number: signal.Signals) -> None:
        """Sends a signal to all processes of the server. One of them may end meanwhile."""
        processes = []
        with suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.pid)
            processes = [main, *main.children(recursive=True)]
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def freeze(self) -> None:
        """Stops every process. The kernel keeps the connections open."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues every process."""
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """Ends all processes at once with SIGKILL, as the end of the machine does."""
        self._send(signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def shut_down(self) -> None:
        """Ends the server in good order: its standby has received everything."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(PATIENCE_SECONDS) == 0


class Replicated:
    """A primary and a standby. A commit waits until the standby has it."""

    def __init__(self, folder: Path) -> None:
        nodes = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            nodes.append(Node(folder / name))
            if os.geteuid() == 0:
                shutil.chown(folder / name, SERVER_USER)
        self.primary, self.standby = nodes
        self.servers = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        """The part of a URL with both servers."""
        self.primary.make_primary()
        self.primary.start()
        self.rebuild()

    @property
    def url(self) -> str:
        """The address of the primary for a superuser, whichever server it is."""
        return f"postgresql://postgres@{self.servers}/postgres?target_session_attrs=read-write"

    def rebuild(self) -> None:
        """Makes the standby anew from the primary, and then lets commits wait for it."""
        self.primary.wait_for("the primary takes writes", "SELECT NOT pg_is_in_recovery()")
        self.standby.copy(self.primary)
        self.standby.start()
        self.require_standby()

    def require_standby(self) -> None:
        """Lets commits wait for the standby."""
        self.primary.configure(synchronous_standby_names="standby")
        self.primary.wait_for(
            "the standby is synchronous", "SELECT 'sync' IN (SELECT sync_state FROM pg_stat_replication)"
        )

    def promote(self) -> None:
        """Makes the standby the primary. The other server must be down, or take no writes."""
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def kill(self) -> None:
        """Ends both servers."""
        for node in (self.primary, self.standby):
            node.resume()
            node.kill()


@contextmanager
def replicated_postgresql() -> Iterator[Replicated]:
    """Two servers for a block."""
    folder = Path(tempfile.mkdtemp(prefix="dealer-agent-replicated-", dir="/tmp"))
    folder.chmod(0o755)
    cluster = None
    try:
        cluster = Replicated(folder)
        yield cluster
    finally:
        if cluster is not None:
            cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)
