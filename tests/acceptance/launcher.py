"""Starts services fast: a process that has imported the program forks them. The imports take most of a start.

A service inherits nothing from the test but its environment: no limits, no umask and no ignored signals. A test of
these starts the command itself, with `program=(COMMAND,)`.
"""

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

IMPORTED = (
    "dealer_agent.alerts.watches",
    "dealer_agent.bootstrap.composition",
    "dealer_agent.cli.serve",
    "dealer_agent.cli.processes",
)
"""What `dealer-agent serve` imports."""


class Forked(subprocess.Popen[bytes]):
    """A command that the launcher of this process runs, in a session of its own. It writes to the ends of two files."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], out: Path, err: Path) -> None:
        self._child_created = False  # `subprocess` has nothing to clean up.
        self.args, self.returncode = words, None
        launcher, folder = _launcher()
        self._ended = folder / f"{time.monotonic_ns()}"
        request = {"words": words, "env": dict(env), "out": str(out), "err": str(err), "ended": str(self._ended)}
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        launcher.stdin.write(f"{json.dumps(request)}\n")
        launcher.stdin.flush()
        self.pid = int(launcher.stdout.readline())

    def poll(self) -> int | None:
        """The exit code, as soon as the process has ended."""
        if self.returncode is None and self._ended.exists():
            self.returncode = int(self._ended.read_text("ascii"))
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end. Raises TimeoutExpired after this many seconds."""
        ends = time.monotonic() + (timeout or 600)
        while (code := self.poll()) is None:
            if time.monotonic() > ends:
                raise subprocess.TimeoutExpired(self.args, timeout or 600)
            time.sleep(0.01)
        return code


@cache
def _launcher() -> "tuple[subprocess.Popen[str], Path]":
    """The launcher of this process, which ends with it, and the folder for exit codes."""
    folder = tempfile.mkdtemp(prefix="dealer-agent-launcher-")
    launcher = subprocess.Popen(
        [sys.executable, "-m", __name__, folder],
        cwd=Path(__file__).parents[2],
        # A second thread of numpy would not be there after a fork.
        env=os.environ | {"COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    return launcher, Path(folder)


def main() -> None:
    """Starts a command for each line of the input. Returns at its end, and raises SystemExit in a command."""
    for name in IMPORTED:
        import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, _collect)
    for line in sys.stdin:
        if os.fork():
            continue
        # A process of its own waits for each command.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request = json.loads(line)
        command = os.fork()
        if not command:
            _run(request)
        print(command, flush=True)
        _, status = os.waitpid(command, 0)
        unfinished = Path(f"{request['ended']}.part")
        unfinished.write_text(str(os.waitstatus_to_exitcode(status)), "ascii")
        unfinished.rename(request["ended"])
        os._exit(0)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


def _collect(*_: object) -> None:
    """Collects the processes that have ended, so that their processor time counts."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(request: dict[str, object]) -> None:
    """Becomes the command. Raises SystemExit at its end."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, name in enumerate((os.devnull, str(request["out"]), str(request["err"]))):
        os.dup2(os.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), stream)
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    sys.argv = ["dealer-agent", *request["words"]]  # type: ignore[misc]
    import_module("dealer_agent.cli").main()
    sys.exit(0)


if __name__ == "__main__":
    main()
