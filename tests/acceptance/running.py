"""The real command, started and stopped: `dealer-agent serve` in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.launcher import Forked
from typer.testing import CliRunner

from dealer_agent.catalogue_loading import child_processes
from dealer_agent.cli import app

COMMAND = str(Path(sys.executable).with_name("dealer-agent"))
PATIENT_COMMAND = (
    sys.executable,
    "-c",
    "import importlib; from dealer_agent.cli import main;"
    "importlib.import_module('dealer_agent.cli.supervisor').WORKER_START_SECONDS = 3600; main()",
)
"""The command that lets a worker take an hour to start, and to say that it lives."""
PATIENCE_SECONDS = 120.0
"""How long a test waits for what must come, in seconds: it costs nothing when all is well, and a machine that others
use too may stand still for a while."""


def environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment without what would lead the command to another database or to other keys."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DEALER_AGENT_KEYS")}
    return kept | {"COLUMNS": "100"} | dict(more)


def command(
    *arguments: str | Path, cwd: Path | None = None, program: Sequence[str] = (COMMAND,), **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs `dealer-agent` with the arguments to its end. No traceback is ever seen, whatever is asked."""
    done = subprocess.run(
        [*program, *map(str, arguments)],
        cwd=cwd,
        env=environment(more),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def command_here(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, for tables of many calls: a start takes longer than most commands do.

    An import then is not in a child process with limits, whose output would be lost.
    """
    variables: dict[str, str | None] = {"DATABASE_URL": None, "DEALER_AGENT_KEYS": None, "COLUMNS": "100", **more}
    with chdir(cwd or Path.cwd()), pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_processes, "fork_with_limits", lambda: None)
        done = CliRunner().invoke(app, [*map(str, arguments)], env=variables, prog_name="dealer-agent")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess(list(map(str, arguments)), done.exit_code, done.stdout, done.stderr)


def succeed(*arguments: str | Path, cwd: Path | None = None, **more: str) -> str:
    """Runs a command that must work; what it printed."""
    return _printed(command(*arguments, cwd=cwd, **more))


def succeed_here(*arguments: str | Path, cwd: Path | None = None, **more: str) -> str:
    """The same in this process."""
    return _printed(command_here(*arguments, cwd=cwd, **more))


def _printed(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_HELD: deque[socket.socket] = deque(maxlen=100)
"""The sockets that hold the ports of `free_port`. None of them listens."""


def free_port() -> int:
    """A port for a service that is about to start, and that nobody else gets meanwhile.

    A socket of this process stays bound to it, so the kernel gives it to nobody who asks for any port. A service that
    names the port gets it, also when it starts again: Linux lets a socket with SO_REUSEADDR bind beside one that does
    not listen.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port: int = held.getsockname()[1]
    if sys.platform == "linux":
        _HELD.append(held)
    else:
        held.close()
    return port


def eventually(what: str, ask: Callable[[], Any], *, seconds: float = PATIENCE_SECONDS, every: float = 0.05) -> Any:
    """What `ask` answers as soon as that is true; fails when it never is.

    `ask` may raise an error of a connection: a service that starts, stops or is marked down by a proxy may cut one.
    """
    deadline = time.monotonic() + seconds
    while True:
        problem = None
        try:
            answer = ask()
        except httpx.TransportError as error:
            answer, problem = None, error
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s ({problem!r})"
        time.sleep(every)


@dataclass
class Running:
    """A service that answers at `url`; `folder` holds its dealer, `log` what it wrote to stderr."""

    process: subprocess.Popen[bytes]
    folder: Path
    url: str
    log: Path
    said: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stderr(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill_all(self) -> None:
        """SIGKILL for the process and its workers together, as the end of a container or a machine is."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def logged(self) -> list[dict[str, Any]]:
        """The log's lines so far. The last one may be half written: it is left for the next look.

        Before the service starts, the command itself may print a warning in words.
        """
        whole = [line for line in self.stderr().splitlines(keepends=True) if line.endswith("\n") and line[0] == "{"]
        return [json.loads(line) for line in whole]

    def refuses_connections(self) -> bool:
        """Whether nobody new is let in."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=30).close()
        except (ConnectionRefusedError, ConnectionResetError):
            return True
        return False

    def workers(self) -> list[int]:
        """The process ids of the worker processes."""
        if not Path("/proc/self").exists():
            pytest.skip("GAP: no /proc here, so the worker processes cannot be told")
        return [worker for supervisor in _forks(self.process.pid) for worker in _forks(supervisor)]


def memory_mib(running: Running) -> float:
    """The memory of the process, without its workers."""
    status = Path(f"/proc/{running.process.pid}/status")
    if not status.exists():
        pytest.skip("GAP: no /proc here, so the memory of the process cannot be told")
    return int(status.read_text().partition("VmRSS:")[2].split()[0]) / 1024


def _forks(process: int) -> list[int]:
    """The children of a process that run the same program."""
    children = map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())
    return [child for child in children if _command_line(child) == _command_line(process)]


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""  # It has ended since it was listed.


def started(
    words: Sequence[str], out: Path, err: Path, program: Sequence[str] = (), **more: str
) -> "subprocess.Popen[bytes]":
    """The command with these arguments, in a session of its own. Its output is added to the files.

    `program` is for tests of how the process begins, or that change something in it: it is the command, or replaces it.
    Otherwise the launcher forks the process.
    """
    if not program and sys.platform == "linux":
        return Forked(words, environment(more), out, err)
    with out.open("ab") as output, err.open("ab") as errors:
        return subprocess.Popen(
            [*(program or (COMMAND,)), *words],
            env=environment(more),
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )


def start(
    folder: Path,
    *,
    workers: int = 1,
    program: Sequence[str] = (),
    options: Sequence[str] = (),
    **more: str,
) -> Running:
    """Starts the service, with `more` in its environment, and waits until it is ready.

    `options` are further options of the command.
    """
    port = free_port()
    log, said = folder / f"stderr-{port}.log", folder / f"stdout-{port}.log"
    words = ["serve", "--dir", str(folder), "--port", str(port), "--workers", str(workers), *options]
    process = started(words, said, log, program, **more)
    running = Running(process, folder, f"http://127.0.0.1:{port}", log, said)

    def ready() -> bool:
        assert process.poll() is None, running.stderr()
        return httpx.get(f"{running.url}/readyz", timeout=5, verify=False).status_code == 200

    try:
        eventually("the service is ready", ready)
    except AssertionError:
        running.kill_all()
        raise
    return running


@contextmanager
def serving(
    folder: Path,
    *,
    workers: int = 1,
    program: Sequence[str] = (),
    options: Sequence[str] = (),
    **more: str,
) -> Iterator[Running]:
    """A service for a block; stopped in good order at its end, and then with exit code 0 and no fault in its log."""
    running = start(folder, workers=workers, program=program, options=options, **more)
    try:
        yield running
        if running.process.poll() is None:
            running.signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_SECONDS) == 0, running.stderr()
        assert "Traceback" not in running.stderr()
        assert '"event":"fault"' not in running.stderr()
    finally:
        if running.process.poll() is None:
            running.kill_all()
