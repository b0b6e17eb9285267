"""The child processes of commands and services: they end with their parent, and an import has limits.

A `ChildJob` is done by a process whose main function is `run_job`.
A file whose import needs more than the limits is refused (docs/reference/feeds.md#limits). The reader has a bound for
everything that a file can repeat. The limits are the second line: they hold also for what the reader does not count.
"""

import os
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from dealer_agent.core_dumps import forbid_core_dumps
from dealer_agent.feeds.files.feed import FeedError

_Job = TypeVar("_Job", bound=Struct)
_NICE = 10

MOST_MEMORY_MIB = 3_072
"""Address space beyond that at the start, which depends on the machine. The largest file allowed takes a third."""
MOST_PROCESSOR_SECONDS = 1_200
"""The largest file allowed takes a sixth of it, on a slow core."""
MOST_READING_SECONDS = 3_600
"""From the start to the end of reading. Later the import may wait for the database, which is not the file's fault."""

OUT_OF_MEMORY: Final = 3
"""The exit code of a process that has reached its limit of memory."""
UNEXPECTED: Final = 4
"""The exit code after an exception that the program does not expect. The job may be its reason."""

_MEMORY = (
    f"The file needs more than {MOST_MEMORY_MIB:,} MiB of memory, or it ended the program that reads it. Export the"
    " units for sale only, as CSV."
)
_REFUSALS = {
    OUT_OF_MEMORY: _MEMORY,
    # What libraries and the kernel do if no memory is left for them.
    -signal.SIGABRT: _MEMORY,
    -signal.SIGSEGV: _MEMORY,
    -signal.SIGXCPU: (
        f"The import of the file takes more than {MOST_PROCESSOR_SECONDS // 60} minutes of processor time. Export the"
        " units for sale only, as CSV."
    ),
    -signal.SIGALRM: (
        f"It takes more than {MOST_READING_SECONDS // 60} minutes to read the file. Export the units for sale only, as"
        " CSV."
    ),
}


class ChildJob:
    """A job in a process of its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def run(self, module: str, job: Struct, *, pass_fds: Sequence[int] = ()) -> tuple[int, str]:
        """Starts `python -m module` and waits for its end. Returns its exit code, and what it says about a failure.

        The process gets the job on its standard input, and the open files `pass_fds`.
        """
        process = subprocess.Popen(  # noqa: S603 - our own command.
            # `-P` keeps the current folder out of the import path.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=pass_fds,
            # Ctrl-C reaches only the service.
            start_new_session=True,
        )
        self._process = process
        if self._has_ended:
            # `end` was called while the process started.
            process.kill()
        assert process.stdin is not None
        assert process.stderr is not None
        # A process that ends early closes the pipe. Else it stays open: when it closes, the process ends.
        with suppress(BrokenPipeError), process:
            with suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(job) + b"\n")
                process.stdin.flush()
            said = process.stderr.read().decode(errors="replace").strip()
        return process.returncode, said.rpartition("\n")[2]

    def end(self) -> None:
        """Kills the process. Can be called from any thread, and before the start."""
        self._has_ended = True
        if self._process is not None:
            self._process.kill()


def run_job(
    kind: type[_Job],
    do: Callable[[_Job], object],
    expected: type[Exception] | tuple[type[Exception], ...],
    words_of: Callable[[Exception], str] = str,
) -> None:
    """Does the job on the first line of stdin. Exits at once if stdin is closed: the parent is gone.

    Reports a failure on stderr. For an `expected` error this is the text that `words_of` returns, and for any other its
    type and its line of code: the message of a foreign error may contain anything.
    """
    forbid_core_dumps()  # The environment may hold keys.
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=kind)
    exit_with_parent(sys.stdin.fileno())
    # The processes that answer requests have priority.
    os.nice(_NICE)
    try:
        do(job)
    except expected as problem:
        sys.exit(words_of(problem))
    except Exception as fault:  # noqa: BLE001 - the boundary of the process. The parent shows the message.
        frame = traceback.extract_tb(fault.__traceback__)[-1]
        print(f"{type(fault).__qualname__} at {Path(frame.filename).name}:{frame.lineno}", file=sys.stderr)  # noqa: T201
        sys.exit(UNEXPECTED)


def refusal_of(code: int) -> FeedError | None:
    """Why a file is refused, by the exit code of its import, as `subprocess` gives it. Else None."""
    words = _REFUSALS.get(code)
    return None if words is None else FeedError(words)


def limit_process() -> None:
    """Limits memory, processor time and, until `end_reading`, time. The process dies at a limit, or gets MemoryError.

    The signals keep their default actions: they end also native code, and no cleanup can swallow them.
    """
    _lower(resource.RLIMIT_CPU, MOST_PROCESSOR_SECONDS)
    if sys.platform == "linux":  # macOS does not limit address space.
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + (MOST_MEMORY_MIB << 20))
    signal.setitimer(signal.ITIMER_REAL, MOST_READING_SECONDS)


def end_reading() -> None:
    """Ends the limit of time."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _lower(kind: int, most: int) -> None:
    soft, hard = resource.getrlimit(kind)
    limits = [each for each in (soft, hard, most) if each != resource.RLIM_INFINITY]
    resource.setrlimit(kind, (min(limits), hard))


@contextmanager
def memory_limit_ends_process() -> Iterator[None]:
    """Ends the process with OUT_OF_MEMORY at a MemoryError. Nothing runs after it that would need memory itself."""
    try:
        yield
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def fork_with_limits() -> int | None:
    """Forks a command. Returns None in the child, which has the limits, and then in the parent its exit code.

    For commands that have one thread. The child has the terminal and the arguments of the command. Ctrl-C, or SIGINT
    to one of the two, raises KeyboardInterrupt once, in the child. A second SIGINT raises it in the parent, too.
    """
    ends, parent = os.pipe()
    # Blocked until both have their handlers: a SIGINT in between would end only one of them.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child:
        os.close(ends)
        _handle_interrupts(partial(_pass_on, child))
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        return _exit_code(child)
    os.close(parent)
    # Called before SIGINT is unblocked: its thread keeps the signal blocked, so that the main thread gets it.
    exit_with_parent(ends)
    _handle_interrupts(_interrupt_once)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    limit_process()
    return None


def _handle_interrupts(handler: Callable[[int, FrameType | None], None]) -> None:
    # A command in the background of a shell ignores SIGINT, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    """The terminal and the parent may both send SIGINT. The second must not interrupt what the first one began."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _pass_on(child: int, number: int, _frame: FrameType | None) -> None:
    """Passes SIGINT to the child, which ends and says so. If it does not, a second SIGINT ends this process, and so the
    child."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(ProcessLookupError):  # It has just ended.
        os.kill(child, number)


def _exit_code(child: int) -> int:
    _, status = os.waitpid(child, 0)
    _handle_interrupts(signal.default_int_handler)
    return os.waitstatus_to_exitcode(status)


def exit_with_parent(pipe: int) -> None:
    """Ends this process at once when the parent closes its end of a pipe, in which it writes nothing, or dies."""

    def wait() -> None:
        # Not through a file object such as `sys.stdin`: a normal exit could not take its lock.
        os.read(pipe, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
