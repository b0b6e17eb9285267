"""Runs the process of our SFTP server beside the service, and starts it again when it ends."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from dealer_agent.bootstrap.upload_process import UploadJob
from dealer_agent.cli.terminal import err, out
from dealer_agent.cli.uvicorn_server import listen
from dealer_agent.config.sftp import SftpSettings
from dealer_agent.feeds.collection.host_key import fingerprint, host_key

RESTART_SECONDS = 5.0
STOP_SECONDS = 30.0
_SECRETS = "DEALER_"
"""How the names of the variables with keys and passwords begin. The process needs none of them."""


@contextmanager
def receiving_uploads(directory: Path, database_url: str, settings: SftpSettings) -> Iterator[None]:
    """Receives uploads during a `with` block if the settings say so. Prints what vendors need to know.

    Ends the command if the port cannot be used. Raises HostKeyError.
    """
    if not settings.enabled:
        yield
        return
    key = host_key(directory / settings.host_key_file)
    advice = "Choose another host or port under [sftp]."
    with listen(settings.host, settings.port, advice) as listener:
        out.print(f"Vendors upload feeds by SFTP to port {settings.port}. Its host key: {fingerprint(key)}")
        supervisor = _Supervisor(UploadJob(str(directory.resolve()), listener.fileno()), database_url)
        supervisor.start()
        try:
            yield
        finally:
            supervisor.stop()


class _Supervisor(threading.Thread):
    def __init__(self, job: UploadJob, database_url: str) -> None:
        super().__init__(name="uploads", daemon=True)
        self._job = job
        self._environment = _without_secrets(os.environ) | {"DATABASE_URL": database_url}
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


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_SECRETS)}
