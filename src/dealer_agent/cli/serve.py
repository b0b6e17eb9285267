"""`dealer-agent serve`: the service on the air, in the foreground."""

import os
import resource
import signal
import socket
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

import typer
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from dealer_agent.bootstrap import ADDRESS_VARIABLE, DIRECTORY_VARIABLE
from dealer_agent.cli.terminal import (
    HERE,
    DirOption,
    customer_store,
    err,
    fail,
    failures_in_plain_words,
    out,
    settings_in,
)
from dealer_agent.config import Settings
from dealer_agent.config.channels import channel_secrets, is_this_machine
from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.open_connections import RESERVED_FILES

HostOption = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every one of this machine's.")]
PortOption = Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")]
WorkersOption = Annotated[int, typer.Option(min=1, max=64, help="Processes that answer; as many as cores, at most.")]

LOOPBACK = "127.0.0.1"
KEEP_ALIVE_SECONDS = 75
"""Longer than the 60 s for which proxies keep an idle connection: they, not we, should close it first."""
WORKER_START_SECONDS = 30
"""How long a worker may be silent before it is replaced. On a busy machine a worker takes longer to start than
uvicorn's default of 5 s, and its replacement would as well."""

SET_PUBLIC_URL = (
    'Set public_url under [service] in dealer.toml to your proxy\'s address, such as "https://agent.example.com".'
)


def serve(
    directory: DirOption = HERE,
    host: HostOption = LOOPBACK,
    port: PortOption = 8080,
    workers: WorkersOption = 1,
) -> None:
    """Answer buyer agents until told to stop (Ctrl-C or SIGTERM); requests under way are answered first."""
    with failures_in_plain_words():
        settings = settings_in(directory)
        channel_secrets(settings, os.environ)  # Every channel has what it needs, or the service does not start.
        with customer_store(settings) as store:
            stocked = store.revision(settings.dealer.id).stock > 0
        listener = listen(host, port)
    address = address_of(host, port)
    base = settings.base_url(address)
    out.print(f"{settings.dealer.name} answers at {base}/", markup=False)
    out.print(f"Its card: {settings.service.public_url or address}/.well-known/agent-card.json", markup=False)
    problems = [problem_of_card(listener.getsockname()[0], settings.service.public_url or address)]
    if settings.mail.confirms_visits:
        problems.append(problem_of_links(base))
    for problem in filter(None, problems):
        err.print(problem, style="yellow", markup=False)
    if not stocked:
        words = f"No stock was ever imported for the dealer {settings.dealer.id}: dealer-agent inventory import FILE"
        err.print(words, style="yellow", markup=False)
    run(settings, listener, address, workers)


def address_of(host: str, port: int) -> str:
    """The address to type, for a host and port to listen on."""
    shown = {"0.0.0.0": LOOPBACK, "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"


def problem_of_card(listening: str, named: str) -> str | None:
    """Why buyers on other machines cannot use the address in the agent card; None when they can.

    `listening` is the IP address of the socket. For a service on a loopback address this is no problem.
    """
    if is_this_machine(listening):
        return None
    parts = urlsplit(named)
    if is_this_machine(parts.hostname or ""):
        problem = (
            f"The service listens on {listening}, but its agent card names {named}: no other machine can reach it."
        )
    elif parts.scheme == "http":
        problem = f"The agent card names {named}: customers' data would travel without encryption."
    else:
        return None
    return f"{problem} {SET_PUBLIC_URL}"


def problem_of_links(begin: str) -> str | None:
    """Why customers cannot safely use the links in their mails; None when they can. `begin` is how the links begin."""
    parts = urlsplit(begin)
    links = f"The links in mails to customers begin with {begin}"
    if is_this_machine(parts.hostname or ""):
        return f"{links}: they work on this machine only. {SET_PUBLIC_URL}"
    if parts.scheme == "http":
        return f"{links}: they would travel without encryption. {SET_PUBLIC_URL}"
    return None


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; ends the command in plain words where that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except UnicodeError:
        fail(f"Cannot listen on {host}:{port}: {host} is no host name. Choose another with --host.")
    except OSError as problem:
        why = "the host name is unknown" if isinstance(problem, socket.gaierror) else os.strerror(problem.errno or 0)
        fail(f"Cannot listen on {host}:{port}: {why}. Choose another with --host and --port.")


def _allow_many_connections(most: int) -> None:
    """Raises the soft limit of open files, commonly 1,024: every connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most + RESERVED_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Supervisor(Multiprocess):
    """Keeps the worker processes."""

    _has_served = False

    def keep_subprocess_alive(self) -> None:
        """Asks the workers whether they live, and replaces those that do not.

        A worker that cannot start stops the service, unless a worker has served: its database may be away for a moment.
        """
        if self.should_exit.is_set():
            return
        # A worker's end of its pipe belongs to it alone: then it is closed when the worker dies. Else one that dies
        # before it has answered would be waited for as long as one that starts may take.
        for process in self.processes:
            process.child_conn.close()
        self._has_served = self._has_served or any(process.is_ready() for process in self.processes)
        super().keep_subprocess_alive()
        if self._has_served and self.should_exit.is_set():
            self.should_exit.clear()
            for index, process in enumerate(self.processes):
                if process.process.exitcode == STARTUP_FAILURE:
                    self.processes[index] = Process(self.config, self.sockets)
                    self.processes[index].start()

    def terminate_all(self) -> None:
        """Lets go of the port first: while the workers finish, new clients are refused, and do not wait for nothing."""
        for listener in self.sockets:
            listener.close()
        super().terminate_all()


def run(settings: Settings, listener: socket.socket, address: str, workers: int) -> None:
    """Serves until SIGINT or SIGTERM. Exits with 1 when the service does not come up."""
    _allow_many_connections(settings.service.max_connections)
    os.environ[DIRECTORY_VARIABLE] = str(settings.directory.resolve())
    os.environ[ADDRESS_VARIABLE] = address
    os.environ["DATABASE_URL"] = settings.database_url
    config = uvicorn.Config(
        "dealer_agent.bootstrap:app",
        factory=True,
        http=BoundedConnection,
        loop="dealer_agent.server.event_loop:AcceptingLoop",
        workers=workers,
        # Its warnings are of requests that are refused, which have a line of their own in the log.
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_worker_healthcheck=WORKER_START_SECONDS,
        timeout_graceful_shutdown=settings.service.request_timeout_seconds + 10,
    )
    if workers > 1:
        supervisor = _Supervisor(config, sockets=[listener])
        supervisor.run()
        failed = any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes)
    else:
        server = uvicorn.Server(config)
        # A server that has stopped raises its signal again, for whoever handled it before: with nobody there, an
        # orderly stop would look like a death by signal.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, server.handle_exit)
        # A terminal that closes is a stop like any other, unless `nohup` says that it is none.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, server.handle_exit)
        with suppress(SystemExit):
            server.run(sockets=[listener])
        failed = not server.started
    if failed:
        fail("The service did not start; the log above says why.")
