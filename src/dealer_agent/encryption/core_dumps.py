"""Prevents core dumps, which would write keys and customer data into a file."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """Call it at the start of every process: a child process does not inherit all of it.

    The limit of 0 prevents core files. On Linux the kernel may also send a dump to a program, which the limit does not
    prevent. So the process is also made not dumpable. Other processes of its user cannot read its memory then.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
