"""A process that has the keys leaves no core dump, though the system would write one."""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import COMMAND, environment, eventually, start

pytestmark = pytest.mark.outside_protocol("core dumps")

UNLIMITED = ("sh", "-c", 'ulimit -c unlimited && exec "$@"', "sh")


def leaves_a_dump(program: Sequence[str], folder: Path, ready: str) -> bool:
    """Whether the system dumps the core of a program that aborts once it has printed `ready`."""
    process = subprocess.Popen([*UNLIMITED, *program], cwd=folder, stdout=subprocess.PIPE, env=environment())
    assert process.stdout is not None
    while ready.encode() not in process.stdout.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGABRT)
    _, status = os.waitpid(process.pid, 0)
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == -signal.SIGABRT
    return os.WCOREDUMP(status)


@pytest.fixture
def dumping(tmp_path: Path) -> None:
    """A machine that writes core dumps."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("GAP: core dumps are limited here")
    plain = [sys.executable, "-c", "print('here', flush=True); import time; time.sleep(600)"]
    if not leaves_a_dump(plain, tmp_path, "here"):
        pytest.skip("GAP: this machine writes no core dumps")


@pytest.mark.usefixtures("dumping")
def test_a_command_that_reads_customer_data_leaves_no_core_dump(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    program = "import dealer_agent.cli as c; c.app = lambda: (print('here', flush=True), __import__('time').sleep(600))"
    assert not leaves_a_dump([sys.executable, "-c", f"{program}; c.main()"], folder, "here")
    assert not list(folder.rglob("core*"))


@pytest.mark.usefixtures("dumping")
def test_no_process_of_a_service_leaves_a_core_dump(tmp_path: Path) -> None:
    """The supervisor and its workers are forks of the command."""
    folder = stocked_dealer(tmp_path / "store")
    running = start(folder, workers=2, program=(*UNLIMITED, COMMAND))
    try:
        workers = eventually("two workers", lambda: len(found := running.workers()) == 2 and found)
        for pid in (running.process.pid, *workers):
            limits = Path(f"/proc/{pid}/limits").read_text()
            assert re.search(r"^Max core file size\s+0\s+0\s", limits, re.MULTILINE), limits
            # A process that may be dumped owns its files. A worker may just start.
            eventually("it may not be dumped", lambda: Path(f"/proc/{pid}/mem").stat().st_uid == 0)  # noqa: B023
        os.kill(workers[0], signal.SIGABRT)
        eventually("it is replaced", lambda: workers[0] not in running.workers() and len(running.workers()) == 2)
    finally:
        running.kill_all()
    assert not [path for path in folder.rglob("core*") if path.is_file()]
