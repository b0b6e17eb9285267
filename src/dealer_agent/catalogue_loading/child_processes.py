"""The child processes of commands and services: they end with their parent, and an import has limits.

A file whose import needs more than the limits is refused (docs/reference/feeds.md#limits). The reader has a bound for
everything that a file can repeat. The limits are the second line: they hold also for what the reader does not count.
"""

import os
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from dealer_agent.inventory.feeds.feed import FeedError

MOST_MEMORY_MIB = 3_072
"""Address space beyond that at the start, which depends on the machine. The largest file allowed takes a third."""
MOST_PROCESSOR_SECONDS = 1_200
"""The largest file allowed takes a sixth of it, on a slow core."""
MOST_READING_SECONDS = 3_600
"""From the start to the end of reading. Later the import may wait for the database, which is not the file's fault."""

OUT_OF_MEMORY: Final = 3
"""The exit code of a process that has reached its limit of memory."""

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
    # Its thread keeps SIGINT blocked, so that the main thread gets it.
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
    """The child ends and says so. If it cannot, a second SIGINT ends this process, and so the child."""
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
