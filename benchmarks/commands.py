"""What the start of a command and of a worker costs: processor time from the outside, and the memory of a service."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from benchmarks.dealership import make_dealer
from benchmarks.servers import dealer_agent

COMMANDS = ("--version", "--help", "tokens list", "leads list", "inventory list", "price UNIT", "record history UNIT")
WORKERS = 4
_TICKS = os.sysconf("SC_CLK_TCK")


class CommandFigure(Struct, frozen=True):
    """Seconds of processor time of a command: the least of several runs, which other work disturbs the least."""

    command: str
    seconds: float


class CommandFigures(Struct, frozen=True):
    """The commands; and of a service with WORKERS, seconds of processor time until a worker serves, and MiB."""

    commands: list[CommandFigure]
    worker_seconds: float
    worker_mib: float


def command_figures(rounds: int, progress: Callable[[str], None]) -> CommandFigures:
    """Measures the commands on the stock of a dealer, and then its service."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        make_dealer(folder, 1_000)
        unit = subprocess.check_output([*_words("inventory list --limit 1 --json", folder)], text=True)
        stock = unit.partition('"stock": "')[2].partition('"')[0]
        commands = []
        for command in COMMANDS:
            progress(command)
            words = _words(command.replace("UNIT", shlex.quote(stock)), folder)
            commands.append(CommandFigure(command, min(_seconds(words) for _ in range(rounds))))
        progress(f"{WORKERS} workers")
        with dealer_agent(folder, WORKERS, pinned=False) as server:
            costs = [_seconds_of(pid) for pid in server.workers]
            memory = [_mib_of(pid) for pid in server.workers]
    return CommandFigures(commands, sum(costs) / WORKERS, sum(memory) / WORKERS)


def _words(command: str, folder: Path) -> list[str]:
    where = [] if command.startswith("--") else ["--dir", str(folder)]
    return [sys.executable, "-m", "dealer_agent.cli", *shlex.split(command), *where]


def _seconds(words: list[str]) -> float:
    """The processor time of a program that succeeds."""
    null = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=null), 0)
    if status:
        raise RuntimeError(f"{shlex.join(words)} failed")
    return usage.ru_utime + usage.ru_stime


def _seconds_of(pid: int) -> float:
    """The processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mib_of(pid: int) -> float:
    """The memory of a process. What it shares is divided among those that share it."""
    return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0]) / 1024
