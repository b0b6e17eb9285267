"""Prevents core dumps, which would write keys and customer data into a file."""

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Call it at the start of every process: a child process does not inherit all of it."""
    if sys.platform == "win32":
        return  # Only a buyer's commands run there.
    import resource

    # The limit does not stop Linux from sending a dump to a program, so the process is also made not dumpable.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
