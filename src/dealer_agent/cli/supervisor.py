"""The supervisor of several workers: a process that has imported the service and opened nothing, and forks the workers.

The command forks it before it reads settings and keys. So a worker starts without the imports, shares their memory, and
inherits no key, no connection and no thread.
"""

import asyncio
import gc
import multiprocessing
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import FrameType
from typing import Any, Self

import msgspec
import uvicorn
from msgspec import Struct
from uvicorn._subprocess import subprocess_started
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import multiprocess

from dealer_agent.bootstrap import prepare_message_types
from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.open_connections import RESERVED_FILES
from dealer_agent.storage.database_url import database_url

KEEP_ALIVE_SECONDS = 75
"""Longer than the usual 60 s of a proxy, so that the proxy closes an idle connection first."""
DATE_SECONDS = 1.0
WORKER_START_SECONDS = 30
"""The time after which a silent worker is replaced. On a busy machine a worker takes longer to start than uvicorn's
default of 5 s."""
_LOOP = "dealer_agent.server.event_loop:AcceptingLoop"
_NEEDED_LATER = ("email_validator", "limits", "phonenumbers")
"""Modules that the program imports only when it needs them, and every worker does."""
_MOST_BYTES = 1 << 16
_FORK = multiprocessing.get_context("fork")


class ServiceProcesses(Struct, frozen=True):
    """What the workers need. `environment` has the variables that they read."""

    environment: dict[str, str]
    workers: int
    max_connections: int
    stop_seconds: int

    def prepare(self) -> uvicorn.Config:
        """Prepares this process: its environment and its limit of open files. Returns the settings of uvicorn."""
        os.environ.update(self.environment)
        _allow_many_connections(self.max_connections)
        return uvicorn.Config(
            "dealer_agent.bootstrap:app",
            factory=True,
            http=BoundedConnection,
            loop=_LOOP,
            workers=self.workers,
            # uvicorn's warnings are about refused requests, which our own log has.
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_worker_healthcheck=WORKER_START_SECONDS,
            timeout_graceful_shutdown=self.stop_seconds,
        )


class WaitingServer(uvicorn.Server):
    """uvicorn's server, which wakes once a second and at a signal. uvicorn's own wakes ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signalled = asyncio.Event()

    async def main_loop(self) -> None:
        """Keeps the Date header current until a signal ends the server."""
        self._loop = asyncio.get_running_loop()
        # uvicorn makes the header at the ticks 0, 10, 20 and so on.
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(DATE_SECONDS):
                    await self._signalled.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles a signal, and ends the wait of `main_loop`."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)


def _allow_many_connections(most: int) -> None:
    """Raises the soft limit of open files, often 1,024: every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + RESERVED_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class SupervisorProcess:
    """The process of the supervisor, as the command sees it. It ends with the command, and so do the workers."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair()
        # Blocked until the supervisor handles them. One that comes earlier ends the command, and so the supervisor.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, multiprocess.SIGNALS)
        self._process = _FORK.Process(target=_supervise, args=(self._connection, theirs))
        self._process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, service: ServiceProcesses, listener: socket.socket) -> bool:
        """Serves until a signal ends the supervisor. Returns whether the service started and stopped in good order.

        It closes the listener, which belongs to the supervisor then.
        """
        for number in multiprocess.SIGNALS:
            signal.signal(number, self._pass_on)
        socket.send_fds(self._connection, [msgspec.json.encode(service)], [listener.fileno()])
        listener.close()
        self._process.join()
        return self._process.exitcode == 0

    def close(self) -> None:
        """Ends a supervisor that does not serve, and waits for its end."""
        self._connection.close()
        self._process.join()

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        # `multiprocessing` keeps the pid until `join` has returned, so it is never that of another process.
        if self._process.pid is not None and self._process.exitcode is None:
            os.kill(self._process.pid, number)


def _supervise(of_command: socket.socket, connection: socket.socket) -> None:
    """The supervisor. It waits for the message of the command: the settings of the service and its listener.

    If the command ends before, the supervisor ends too. Before it waits, it prepares and imports what each worker
    would. The driver of PostgreSQL takes most of that time.
    """
    # Only the command has its end of the connection, so that the connection closes when the command ends.
    of_command.close()
    prepare_message_types(msgspec.Struct)
    for name in (*_NEEDED_LATER, _LOOP.partition(":")[0]):
        import_module(name)
    content, listeners, *_ = socket.recv_fds(connection, _MOST_BYTES, maxfds=1)
    if not content:
        return
    config = msgspec.json.decode(content, type=ServiceProcesses).prepare()
    database_url(os.environ["DATABASE_URL"]).get_dialect().import_dbapi()
    # A garbage collection in a worker would write to the memory that the workers share.
    gc.collect()
    gc.freeze()
    supervisor = _Supervisor(config, socket.socket(fileno=listeners[0]), connection)
    # Blocked since the fork: `_Supervisor` handles them from here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, multiprocess.SIGNALS)
    supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        sys.exit(STARTUP_FAILURE)


class _Supervisor(multiprocess.Multiprocess):
    """Supervises the worker processes."""

    _has_served = False

    def __init__(self, config: uvicorn.Config, listener: socket.socket, connection: socket.socket) -> None:
        before = {number: signal.getsignal(number) for number in multiprocess.SIGNALS}
        super().__init__(config, sockets=[listener])
        self._connection = connection
        # uvicorn's supervisor starts its workers with this class. Without it, a worker would start the program again.
        multiprocess.Process = partial(_Worker, before, connection)  # type: ignore[misc, assignment]

    def keep_subprocess_alive(self) -> None:
        """Replaces the workers that have died.

        A worker that cannot start stops the service, unless a worker has served before: the database may be down for a
        moment.
        """
        if _has_ended(self._connection, seconds=0):
            self.should_exit.set()
        if self.should_exit.is_set():
            return
        self._has_served = self._has_served or any(process.is_ready() for process in self.processes)
        super().keep_subprocess_alive()
        if self._has_served and self.should_exit.is_set():
            self.should_exit.clear()
            for index, process in enumerate(self.processes):
                if process.process.exitcode == STARTUP_FAILURE:
                    self.processes[index] = multiprocess.Process(self.config, self.sockets)
                    self.processes[index].start()

    def terminate_all(self) -> None:
        """Closes the port first: new clients are refused at once while the workers finish."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


class _Worker(multiprocess.Process):
    """A worker process: a fork of the supervisor."""

    def __init__(
        self,
        handlers: Mapping[int, Any],
        connection: socket.socket,
        config: uvicorn.Config,
        sockets: list[socket.socket],
    ) -> None:
        super().__init__(config, sockets)
        self._server = WaitingServer(config)
        self._handlers = handlers
        self._connection = connection
        self.process = _FORK.Process(target=self._work, args=(sockets,))  # type: ignore[assignment]

    def start(self) -> None:
        """Forks the process."""
        # Blocked until the worker has its own handlers. Else a handler of the supervisor could get a signal to it.
        signal.pthread_sigmask(signal.SIG_BLOCK, multiprocess.SIGNALS)
        super().start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, multiprocess.SIGNALS)
        # Only the worker keeps its end of the pipe open, so that it closes when the worker dies. Otherwise the
        # supervisor would wait WORKER_START_SECONDS for a worker that dies before its first response.
        self.child_conn.close()

    def _work(self, sockets: list[socket.socket]) -> None:
        """The worker process: sets the handlers that signals had before the supervisor, and serves."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, multiprocess.SIGNALS)
        threading.Thread(target=_stop_with_command, args=(self._connection,), name="command-watch", daemon=True).start()
        subprocess_started(self.config, self.target, sockets, stdin_fileno=None)


def _stop_with_command(connection: socket.socket) -> None:
    """Stops a worker when the command has ended. Otherwise it would keep the port for ever."""
    _has_ended(connection, seconds=None)
    os.kill(os.getpid(), signal.SIGTERM)


def _has_ended(connection: socket.socket, seconds: float | None) -> bool:
    """Whether the command ends within some seconds. It sends nothing more, so what can be read is the end."""
    return bool(select.select([connection], [], [], seconds)[0])
