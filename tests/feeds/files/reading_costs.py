"""The memory that reading a file takes."""

import os
import resource
from collections.abc import Callable

from dealer_agent.feeds.files.feed import FeedError


def cost_of(read: Callable[[], object]) -> tuple[str, int]:
    """Why a file is refused, and the MiB that a process takes until then. The process is a copy of this one."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        refusal = "not refused"
        try:
            read()
        except FeedError as problem:
            refusal = str(problem)
        finally:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            os.write(sending, f"{(peak - before) >> 10} {refusal}".encode())
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        taken, _, refusal = pipe.read().partition(" ")
    os.waitpid(child, 0)
    return refusal, int(taken)
