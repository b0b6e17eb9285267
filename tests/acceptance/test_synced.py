"""A lead is answered after an fsync, seen in the system calls of the service (docs/protocol.md#durable-before-answer).

Of a test that only kills processes the page cache is the accomplice: it keeps what was written and never synced.
"""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.asking import asked, lead
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import start

LEADS = 20
DATABASE = "dealer-agent.db"

# A call that another thread interrupts is written in two lines: where it begins, and where it is resumed and ends.
_EVENTS = {
    "asked": re.compile(r'"POST /message:send .*= [1-9][0-9]*$'),
    "synced": re.compile(rf"(fsync|fdatasync)(\([0-9]+<[^>]*{DATABASE}(-wal)?>| resumed>).*= 0$"),
    "answered": re.compile(r'(write|writev|send\w+)\(.*"HTTP/1\.1 200 '),
}


@contextmanager
def traced(process: int, log: Path) -> Iterator[None]:
    """Notes every system call that reads, writes or syncs, of all threads of a process."""
    calls = "trace=read,write,writev,recvfrom,sendto,recvmsg,sendmsg,fsync,fdatasync"
    command = ["strace", "-f", "-y", "-s", "64", "-e", calls, "-o", str(log), "-p", str(process)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if b"attached" not in said:
            tracer.kill()
            pytest.skip(f"GAP: strace may not attach here, so no sync was seen: {said.decode().strip()}")
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)


def events(log: str) -> list[str]:
    """What happened, in the order of time."""
    return [event for line in log.splitlines() for event, pattern in _EVENTS.items() if pattern.search(line)]


@pytest.mark.requirement("durable-before-answer")
@pytest.mark.skipif(shutil.which("strace") is None, reason="GAP: no strace here (package strace), so no sync was seen")
def test_between_the_request_of_a_lead_and_its_answer_lies_a_sync_of_the_database(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "store")
    log = tmp_path / "calls.log"
    running = start(folder)
    try:
        with traced(running.process.pid, log):
            for number in range(LEADS):
                assert asked(running.url, "lead.submit", **lead(number))["status"] == "received"
    finally:
        running.kill_all()
    seen = events(log.read_text(encoding="utf-8", errors="replace"))
    assert seen.count("asked") == seen.count("answered") == LEADS, seen
    told = " ".join(seen)
    assert len(re.findall(r"asked( synced)+ answered", told)) == LEADS, told
    assert seen.count("synced") < 3 * LEADS, "no more than a commit needs"
