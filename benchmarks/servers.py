"""The measured servers, each on one core that wrk does not use, and their cost as the kernel counts it."""

import http.client
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 180
OPEN_FILES = 65_536
"""The limit of the units in deploy/systemd. Each loaded stock is an open file."""


class Memory(NamedTuple):
    """Memory of the workers, in MiB for each: resident, and with shared pages counted in part."""

    rss: float
    pss: float


def allow_open_files() -> int:
    """Gives the processes that are started later the limit of a service, if this process may. Returns their limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < OPEN_FILES:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def cpu_seconds(main: int) -> tuple[float, float]:
    """Processor time so far of a process and all its descendants: the total, and the kernel's part."""
    user = system = 0
    for pid in _family(main):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            user, system = user + int(fields[11]), system + int(fields[12])
    return (user + system) / TICKS, system / TICKS


def _family(pid: int) -> Iterator[int]:
    yield pid
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _family(int(child))


class Server(NamedTuple):
    """A running server: its address, the started process, and the processes that answer."""

    port: int
    main: int
    workers: tuple[int, ...]

    def cpu_seconds(self) -> tuple[float, float]:
        """Processor time of all its processes so far: the total, and the kernel's part."""
        return cpu_seconds(self.main)

    def memory(self) -> Memory:
        """The current memory of the workers."""
        found = [_memory_of(pid) for pid in self.workers]
        return Memory(*(sum(each) / len(self.workers) for each in zip(*found, strict=True)))

    def whole_memory(self) -> float:
        """The current memory of all its processes together, in MiB, with shared pages counted once (PSS)."""
        whole = 0.0
        for pid in _family(self.main):
            with suppress(FileNotFoundError, ProcessLookupError):
                whole += _memory_of(pid).pss
        return whole


def _memory_of(pid: int) -> Memory:
    lines = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    sizes = {words[0]: int(words[1]) / 1024 for words in lines if words[0] in ("Rss:", "Pss:")}
    return Memory(sizes["Rss:"], sizes["Pss:"])


def cores() -> tuple[int, int]:
    """The core for servers and the core for wrk. They are the same on a machine with one core."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[1 % len(usable)]


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """One request on its own connection: status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json", "A2A-Version": "1.0"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@contextmanager
def dealer_agent(
    folder: Path, workers: int = 1, *, pinned: bool = True, env: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Our service as a user starts it. Its log goes to a file beside the stock."""
    serve = ["-m", "dealer_agent.cli", "serve", "--dir", str(folder), "--workers", str(workers)]
    with _running(serve, "/readyz", env or {}, folder / "serve.log", pinned=pinned) as (port, pid):
        yield Server(port, pid, _workers_of(pid, workers))


@contextmanager
def installation(folder: Path, workers: int, env: Mapping[str, str]) -> Iterator[Server]:
    """The service of an installation. Its log goes to a file in the folder."""
    serve = ["-m", "dealer_agent.cli", "serve", "--dir", str(folder), "--workers", str(workers)]
    with _running(serve, "/readyz", env, folder / "serve.log", pinned=False) as (port, pid):
        yield Server(port, pid, _workers_of(pid, workers))


@contextmanager
def peer(module: str, env: Mapping[str, str] | None = None, *, pinned: bool = True) -> Iterator[Server]:
    """A peer on uvicorn with uvloop and httptools. Its access log is off, ours is on."""
    options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    command = ["-m", "uvicorn", "--factory", f"benchmarks.peers.{module}:app", "--lifespan", "off", *options]
    with _running(command, "/", env or {}, Path(os.devnull), pinned=pinned) as (port, pid):
        yield Server(port, pid, (pid,))


@contextmanager
def _running(
    command: Sequence[str], path: str, env: Mapping[str, str], log: Path, *, pinned: bool
) -> Iterator[tuple[int, int]]:
    """Port and process of a server, as soon as it answers `path`."""
    port = _free_port()
    core = ["taskset", "-c", str(cores()[0])] if pinned else []
    with log.open("ab") as lines:
        process = subprocess.Popen(
            [*core, sys.executable, *command, "--port", str(port)],
            env={**os.environ, **env},
            stdout=lines,
            stderr=lines,
        )
    try:
        ends = time.monotonic() + START_SECONDS
        while not _answers(port, path):
            if process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{' '.join(command)} did not start; its log: {log}")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(port: int, path: str) -> bool:
    try:
        return ask(port, "GET", path)[0] > 0
    except OSError:
        return False


def _workers_of(pid: int, workers: int) -> tuple[int, ...]:
    """The processes that answer: with several workers, the children of the command's child, the supervisor."""
    if workers == 1:
        return (pid,)
    forks = tuple(worker for supervisor in _children(pid) for worker in _children(supervisor))
    if len(forks) != workers:
        raise RuntimeError(f"{workers} workers were asked for, {len(forks)} run")
    return forks


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
