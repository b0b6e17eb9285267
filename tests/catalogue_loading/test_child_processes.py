"""A process that imports a file dies at each of its limits, and the file is refused then."""

import signal
import subprocess
import sys

import pytest

from dealer_agent.catalogue_loading.child_processes import MOST_PROCESSOR_SECONDS, OUT_OF_MEMORY, refusal_of

pytestmark = pytest.mark.outside_protocol("feeds")

LIMITED = """
import resource, signal, time
from dealer_agent.catalogue_loading import child_processes
from dealer_agent.catalogue_loading.child_processes import *

child_processes.{limit}
with memory_limit_ends_process():
    limit_process()
    {work}
"""
NATIVE = "sum(range(10**15))"
"""Work that does not return to the interpreter, so no handler of a signal could run."""


def end_of(limit: str, work: str, before: str = "") -> int:
    """The exit code of a process that sets a limit, such as `MOST_READING_SECONDS = 1`, and then runs `work`."""
    program = before + LIMITED.format(limit=limit, work=work)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300).returncode


@pytest.mark.parametrize(
    ("limit", "work", "code", "words"),
    [
        ("MOST_PROCESSOR_SECONDS = 1", NATIVE, -signal.SIGXCPU, "processor time"),
        ("MOST_READING_SECONDS = 0.1", "time.sleep(600)", -signal.SIGALRM, "minutes to read"),
        ("MOST_MEMORY_MIB = 64", "bytes(1 << 28)", OUT_OF_MEMORY, "MiB of memory"),
    ],
)
def test_a_process_at_a_limit_ends_in_a_way_that_refuses_the_file(limit: str, work: str, code: int, words: str) -> None:
    assert end_of(limit, work) == code
    assert words in str(refusal_of(code))


def test_the_limit_of_the_time_for_reading_is_removed_when_the_file_is_read() -> None:
    # The seconds until SIGALRM; 0 if there is no timer.
    left = "signal.getitimer(signal.ITIMER_REAL)[0]"
    assert end_of("MOST_READING_SECONDS = 600", f"assert {left} > 0; end_reading(); assert {left} == 0") == 0


def test_a_lower_limit_of_the_operating_system_counts() -> None:
    lower = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (60, resource.RLIM_INFINITY))\n"
    is_kept = "assert resource.getrlimit(resource.RLIMIT_CPU)[0] == 60"
    assert end_of("MOST_PROCESSOR_SECONDS = 300", is_kept, before=lower) == 0


FORKED = """
import os, resource, signal, sys, time
from dealer_agent.catalogue_loading.child_processes import fork_with_limits

code = fork_with_limits()
if code is not None:
    sys.exit(code)
timer = signal.getitimer(signal.ITIMER_REAL)[0]
print(os.getpid(), resource.getrlimit(resource.RLIMIT_CPU)[0], timer > 3000, flush=True)
time.sleep({seconds})
sys.exit(7)
"""


def test_a_command_goes_on_in_a_child_with_limits_and_ends_with_its_code() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED.format(seconds=0)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[1:]) == (7, [str(MOST_PROCESSOR_SECONDS), "True"])


def test_the_child_of_a_command_ends_with_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKED.format(seconds=600)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline().split()[0]) != parent.pid
        parent.kill()
        # The child has the other end of the pipe, so this waits for its end.
        assert parent.stdout.read() == b""


@pytest.mark.parametrize("code", [0, 1, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT])
def test_an_end_from_outside_refuses_nothing(code: int) -> None:
    assert refusal_of(code) is None
