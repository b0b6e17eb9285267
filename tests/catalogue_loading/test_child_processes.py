"""A process that imports a file dies at each of its limits, and the file is refused then."""

import signal
import subprocess
import sys

import pytest

from dealer_agent.catalogue_loading.child_processes import OUT_OF_MEMORY, refusal_of

pytestmark = pytest.mark.outside_protocol("feeds")

LIMITED = """
import time
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


def test_the_time_for_reading_ends_with_the_reading() -> None:
    assert end_of("MOST_READING_SECONDS = 0.1", "end_reading(); time.sleep(0.5)") == 0


def test_a_lower_limit_of_the_operating_system_counts() -> None:
    lower = "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))\n"
    assert end_of("MOST_PROCESSOR_SECONDS = 300", NATIVE, before=lower) == -signal.SIGXCPU


@pytest.mark.parametrize("code", [0, 1, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT])
def test_an_end_from_outside_refuses_nothing(code: int) -> None:
    assert refusal_of(code) is None
