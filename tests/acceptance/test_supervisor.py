"""The supervisor imports the service and opens nothing, and a worker is a fork of it that shares nothing but memory."""

import multiprocessing
import os
import random
import secrets
import signal
import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.acceptance.dealers import generation, stocked_dealer
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, start

from dealer_agent.cli import supervisor
from dealer_agent.config import load_settings
from dealer_agent.protocol.ids import new_ulid

pytestmark = pytest.mark.outside_protocol("processes")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = start(stocked_dealer(tmp_path / "store", units=generation(0, 3)), workers=2)
    try:
        eventually("two workers", lambda: len(running.workers()) == 2)
        yield running
    finally:
        running.kill_all()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def memory_of(pid: int) -> Iterator[bytes]:
    """The readable and writable memory of a process, by areas."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            bounds, rights, *_ = line.split()
            if rights.startswith("rw"):
                first, last = (int(bound, 16) for bound in bounds.split("-"))
                memory.seek(first)
                with suppress(OSError):
                    yield memory.read(last - first)


@pytest.mark.skipif(os.getuid() != 0, reason="GAP: the memory of such a process is for root only")
def test_the_supervisor_has_no_key_no_database_and_no_thread(running: Running) -> None:
    """So no worker inherits them, and a key that was destroyed is in no process."""
    worker, other = running.workers()
    parent = parent_of(worker)
    assert parent == parent_of(other) != running.process.pid
    cipher = load_settings(running.folder, {}).cipher
    assert cipher is not None
    ((_, key),) = cipher.keyring.keys
    assert any(key in area for area in memory_of(worker))
    assert not any(key in area for area in memory_of(parent))
    files = [str(file.readlink()) for file in Path(f"/proc/{parent}/fd").iterdir()]
    assert not any("dealer-agent.db" in file or "anon_inode" in file for file in files), files
    assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1


@pytest.mark.parametrize("which", ["command", "supervisor"])
def test_a_part_of_the_service_that_is_killed_ends_the_others(running: Running, which: str) -> None:
    """What runs a service starts it again, and the port must be free then."""
    workers = running.workers()
    parent = parent_of(workers[0])
    os.kill(running.process.pid if which == "command" else parent, signal.SIGKILL)
    assert running.process.wait(PATIENCE_SECONDS) in (1, -signal.SIGKILL)
    eventually("all have ended", lambda: all(map(is_gone, [parent, *workers])))


def test_a_worker_handles_signals_as_a_program_of_its_own(running: Running) -> None:
    """The supervisor's handlers would swallow them."""
    first, second = running.workers()
    os.kill(first, signal.SIGUSR1)
    eventually("it has ended", lambda: is_gone(first))
    eventually("it is replaced", lambda: len(set(running.workers()) - {first}) == 2)
    assert second in running.workers()


def draw(_: int) -> list[object]:
    """An id or a number of each source. The pause lets each process of a pool draw."""
    time.sleep(0.1)
    key = Ed25519PrivateKey.generate().private_bytes_raw()
    return [new_ulid(), secrets.token_hex(), random.random(), uuid.uuid4(), ssl.RAND_bytes(16), key]


def test_forked_workers_draw_different_ids() -> None:
    """Of every source that the service uses, although each fork has the same memory."""
    assert supervisor
    mine = draw(0)
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as pool:
        drawn = [value for values in [mine, *pool.map(draw, range(8))] for value in values]
    assert len(set(drawn)) == len(drawn) == 9 * len(mine)
