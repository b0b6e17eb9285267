"""The real command, started and stopped: `dealer-agent serve` in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from dealer_agent.cli import app

COMMAND = str(Path(sys.executable).with_name("dealer-agent"))
START_SECONDS = 60.0


def environment(more: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment without what would lead the command to another database or to other keys."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DEALER_AGENT_KEYS")}
    return kept | {"COLUMNS": "100"} | dict(more)


def command(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs `dealer-agent` with the arguments to its end. No traceback is ever seen, whatever is asked."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(more),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


def command_here(*arguments: str | Path, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, for tables of many calls: a start takes longer than most commands do."""
    variables: dict[str, str | None] = {"DATABASE_URL": None, "DEALER_AGENT_KEYS": None, **more}
    with chdir(cwd or Path.cwd()):
        done = CliRunner().invoke(app, [*map(str, arguments)], env=variables, prog_name="dealer-agent")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return subprocess.CompletedProcess(list(map(str, arguments)), done.exit_code, done.stdout, done.stderr)


def succeed(*arguments: str | Path, cwd: Path | None = None, **more: str) -> str:
    """Runs a command that must work; what it printed."""
    done = command(*arguments, cwd=cwd, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def eventually(what: str, ask: Callable[[], Any], *, seconds: float = 30.0, every: float = 0.05) -> Any:
    """What `ask` answers as soon as that is true; fails when it never is."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
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
        self.process.wait(30)

    def workers(self) -> list[int]:
        """The process ids of the worker processes; the resource tracker of Python is none."""
        if not Path("/proc/self").exists():
            pytest.skip("GAP: no /proc here, so the worker processes cannot be told")
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def start(folder: Path, *, workers: int = 1, **more: str) -> Running:
    """Starts the service, with `more` in its environment, and waits until it is ready."""
    port = free_port()
    log, said = folder / f"stderr-{port}.log", folder / f"stdout-{port}.log"
    with log.open("ab") as err, said.open("ab") as out:
        process = subprocess.Popen(
            [COMMAND, "serve", "--dir", str(folder), "--port", str(port), "--workers", str(workers)],
            env=environment(more),
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    running = Running(process, folder, f"http://127.0.0.1:{port}", log, said)

    def ready() -> bool:
        assert process.poll() is None, running.stderr()
        try:
            return httpx.get(f"{running.url}/readyz", timeout=5, verify=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        eventually("the service is ready", ready, seconds=START_SECONDS)
    except AssertionError:
        running.kill_all()
        raise
    return running


@contextmanager
def serving(folder: Path, *, workers: int = 1, **more: str) -> Iterator[Running]:
    """A service for a block; stopped in good order at its end, and then with exit code 0 and no fault in its log."""
    running = start(folder, workers=workers, **more)
    try:
        yield running
        if running.process.poll() is None:
            running.signal(signal.SIGTERM)
        assert running.process.wait(60) == 0, running.stderr()
        assert "Traceback" not in running.stderr()
        assert '"event":"fault"' not in running.stderr()
    finally:
        if running.process.poll() is None:
            running.kill_all()
