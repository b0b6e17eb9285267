"""The processes of the service: uvicorn in this process or in several workers, and our SFTP server beside it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from dealer_agent.bootstrap import ADDRESS_VARIABLE, SERVED_FOLDER_VARIABLE
from dealer_agent.cli.supervisor import ServiceProcesses, SupervisorProcess, WaitingServer
from dealer_agent.cli.terminal import err, fail, out
from dealer_agent.config.installation import Installation
from dealer_agent.config.settings import MetricsSettings
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.server.metrics import FOLDER_VARIABLE

if TYPE_CHECKING:
    from dealer_agent.bootstrap.upload_process import UploadJob


def listen(host: str, port: int, advice: str = "Choose another with --host and --port.") -> socket.socket:
    """A listening socket. Ends the command with a message and the advice if the address and port cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except UnicodeError:
        fail(f"Cannot listen on {host}:{port}: {host} is not a host name. {advice}")
    except OSError as problem:
        why = "the host name is unknown" if isinstance(problem, socket.gaierror) else os.strerror(problem.errno or 0)
        fail(f"Cannot listen on {host}:{port}: {why}. {advice}")


def run(
    served: Installation,
    metrics: MetricsSettings,
    listener: socket.socket,
    address: str,
    supervisor: SupervisorProcess | None = None,
    workers: int = 1,
) -> None:
    """Serves until SIGINT or SIGTERM. Ends the command with exit code 1 if the service does not start.

    `address` is the URL at which it listens. A single worker is this process.
    """
    if supervisor is not None and workers == 1:
        supervisor.close()
    with _metrics(metrics) as folder:
        variables = {
            SERVED_FOLDER_VARIABLE: str(served.folder.resolve()),
            ADDRESS_VARIABLE: address,
            FOLDER_VARIABLE: folder,
            "DATABASE_URL": served.database_url,
        }
        settings = served.file.service
        service = ServiceProcesses(variables, workers, settings.max_connections, settings.request_timeout_seconds + 10)
        started = _serve(service, listener) if supervisor is None or workers == 1 else supervisor.run(service, listener)
    if not started:
        fail("The service did not start; the log above says why.")


@contextmanager
def _metrics(settings: MetricsSettings) -> Iterator[str]:
    """Serves metrics during a `with` block, if they are on. Yields the folder of the workers' sockets, or nothing."""
    if not settings.enabled:
        yield ""
        return
    # Imported here: most services have no metrics, and the library takes a twentieth of a second.
    from dealer_agent.server.metrics_collector import MetricsServer

    with TemporaryDirectory(prefix="dealer-agent-") as folder:
        try:
            server = MetricsServer(settings.host, settings.port, Path(folder), settings.dealers)
        except OSError as problem:
            fail(
                f"Cannot listen for metrics on {settings.host}:{settings.port}: {os.strerror(problem.errno or 0)}. "
                "Change host or port under [metrics], or set enabled = false there."
            )
        with server:
            threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            yield folder
            server.shutdown()


def _serve(service: ServiceProcesses, listener: socket.socket) -> bool:
    """Serves in this process until a signal ends it. Returns whether the service started."""
    server = WaitingServer(service.prepare())
    # A stopped server raises its signal again for the earlier handler. Without a handler, an orderly stop would look
    # like a death by signal.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    # A terminal that closes stops the service, except under `nohup`.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, server.handle_exit)
    with suppress(SystemExit):
        server.run(sockets=[listener])
    return server.started


RESTART_SECONDS = 5.0
STOP_SECONDS = 30.0
_SECRETS = "DEALER_"
"""How the names of the variables with keys and passwords begin. The process needs none of them."""


@contextmanager
def receiving_uploads(folder: Path, database_url: str, settings: SftpSettings) -> Iterator[None]:
    """Receives uploads during a `with` block if the settings say so. Prints what vendors need to know.

    Ends the command if the port cannot be used. Raises HostKeyError.
    """
    if not settings.enabled:
        yield
        return
    # Imported here: most services receive no uploads, and asyncssh takes a moment.
    from dealer_agent.bootstrap.upload_process import UploadJob
    from dealer_agent.feeds.collection.host_key import fingerprint, host_key

    key = host_key(folder / settings.host_key_file)
    advice = "Choose another host or port under [sftp]."
    with listen(settings.host, settings.port, advice) as listener:
        out.print(f"Vendors upload feeds by SFTP to port {settings.port}. Its host key: {fingerprint(key)}")
        supervisor = _UploadSupervisor(UploadJob(str(folder.resolve()), listener.fileno()), database_url)
        supervisor.start()
        try:
            yield
        finally:
            supervisor.stop()


class _UploadSupervisor(threading.Thread):
    def __init__(self, job: "UploadJob", database_url: str) -> None:
        super().__init__(name="uploads", daemon=True)
        self._job = job
        safe = {name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)}
        self._environment = safe | {"DATABASE_URL": database_url}
        self._stopped = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Runs the process again and again."""
        # A new session, so that Ctrl-C reaches only the service. `-P` keeps the current folder out of the import path.
        command = [sys.executable, "-P", "-m", "dealer_agent.bootstrap.upload_process"]
        while True:
            with subprocess.Popen(  # noqa: S603 - our own command.
                command,
                stdin=subprocess.PIPE,
                env=self._environment,
                pass_fds=(self._job.listener,),
                start_new_session=True,
            ) as process:
                self._process = process
                assert process.stdin is not None
                with suppress(BrokenPipeError):
                    process.stdin.write(msgspec.json.encode(self._job) + b"\n")
                    process.stdin.flush()
                if self._stopped.is_set():
                    process.terminate()
                process.wait()
            if self._stopped.wait(RESTART_SECONDS):
                return
            err.print(f"The SFTP server ended with code {process.returncode} and starts again.", style="yellow")

    def stop(self) -> None:
        """Stops the process, and waits for its end."""
        self._stopped.set()
        if self._process is not None:
            self._process.terminate()
            self.join(STOP_SECONDS)
            if self.is_alive():
                self._process.kill()
        self.join()
