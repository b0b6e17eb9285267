"""No core dump of a process that has the keys: it would hold them, and customers' data, in a file."""

import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """To be called at the start of every process; a program that a process executes does not inherit all of it.

    A limit of 0 is for files. On Linux a dump may also go to a program, whatever the limit: then only a process that
    is not dumpable has none. Nor can other processes of the same user read its memory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
