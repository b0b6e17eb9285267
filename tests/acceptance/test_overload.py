"""Overload: accepted requests are answered soon, the rest is refused at once, and new connections and health checks do
not wait. The load comes from a process of its own, `tests.acceptance.open_loop`.

`make soak` loads a stock of 100,000 vehicles for a minute and compares times. Its short form compares none: it shares
its processors with other tests. tests/server/test_load.py proves the rules in `make test`.
"""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from benchmarks.buyers import MIX, asks, post
from benchmarks.dealership import make_dealer
from tests.acceptance.asking import asked
from tests.acceptance.open_loop import CONNECTIONS, figures_of, started
from tests.acceptance.raw import connect, head, search_body
from tests.acceptance.running import PATIENCE_SECONDS, Running, serving
from tests.soak import SOAK

VEHICLES, SECONDS = (100_000, 60.0) if SOAK else (1_000, 1.5)
IDLE, SLOW_SENDERS = (2_000, 50) if SOAK else (200, 10)
BUSY = (512, 2_000) if SOAK else (256,)
EXPECTED = {"200", "404", "422", "429"}
"""Some of the buyers ask for what is not there, or wrongly."""
MOST_GROWTH_KIB = 32 * 1024


class Loaded(NamedTuple):
    """A running service, and the file of what buyers send to it."""

    running: Running
    requests: Path

    def run(self, *, rate: float, seconds: float, connections: int = CONNECTIONS) -> Any:
        port = self.running.port
        return figures_of(started(port, self.requests, rate=rate, seconds=seconds, connections=connections))

    def capacity(self) -> float:
        """Requests a second of a closed loop."""
        return float(self.run(rate=0, seconds=min(SECONDS, 10), connections=16)["accepted_per_second"])

    def memory_kib(self) -> int:
        lines = Path(f"/proc/{self.running.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    if not Path("/proc/self/status").exists():
        pytest.skip("GAP: no /proc here, so the memory of a process cannot be told")
    folder = tmp_path_factory.mktemp("loaded") / "dealer"
    make_dealer(folder, VEHICLES)
    with serving(folder) as running:
        stock: list[Any] = []
        for skip in range(0, VEHICLES, VEHICLES // 10):
            stock += asked(running.url, "inventory.search", pagination={"skip": skip, "limit": 100})["vehicles"]
        requests = folder / "requests.json"
        requests.write_text(json.dumps([post(each.body).decode("latin-1") for each in asks(MIX, stock, 5_000)]))
        yield Loaded(running, requests)


@contextmanager
def crowd(url: str) -> Iterator[None]:
    """Connections that send nothing, and others that send a byte of their body now and then."""
    over = threading.Event()
    with ExitStack() as closing:
        slow = [closing.enter_context(connect(url)) for _ in range(SLOW_SENDERS)]

        def send_slowly() -> None:
            with ExitStack() as renewed:
                while not over.wait(2):
                    for number, client in enumerate(slow):
                        try:
                            client.sendall(b" ")
                        except OSError:
                            # The service has closed it, because its body took too long. The next one does the same.
                            slow[number] = renewed.enter_context(connect(url))
                            slow[number].sendall(head("Content-Length: 5000"))

        for client in slow:
            client.sendall(head("Content-Length: 5000"))
        for _ in range(IDLE):
            closing.enter_context(connect(url))
        sender = threading.Thread(target=send_slowly)
        sender.start()
        try:
            yield
        finally:
            over.set()
            sender.join()


@pytest.mark.soak
@pytest.mark.requirement("overload")
def test_three_times_the_capacity_is_answered_soon_or_refused_at_once(
    loaded: Loaded, record_property: Callable[[str, object], None]
) -> None:
    capacity = loaded.capacity()
    calm = [loaded.run(rate=0.25 * capacity, seconds=min(SECONDS, 15))]
    with crowd(loaded.running.url):
        loaded.run(rate=3 * capacity, seconds=SECONDS / 4)
        before = loaded.memory_kib()
        found = loaded.run(rate=3 * capacity, seconds=SECONDS)
        growth = loaded.memory_kib() - before
    calm.append(loaded.run(rate=0.25 * capacity, seconds=min(SECONDS, 15)))
    told = {"capacity": round(capacity), "growth_kib": growth, "calm": calm, "overload": found}
    record_property("figure", f"overload: {json.dumps(told)}")
    assert set(found["statuses"]) <= EXPECTED
    assert (found["unanswered"], found["broken"]) == (0, 0)
    assert found["accepted_per_second"] > 0
    assert growth < MOST_GROWTH_KIB
    if SOAK:
        assert found["statuses"]["429"] > found["statuses"]["200"], "the generator could not send enough"
        assert found["accepted_per_second"] > capacity / 4
        assert found["accepted_ms"]["p99"] <= 5 * max(run["accepted_ms"]["p99"] for run in calm)
        assert found["refused_ms"]["p99"] <= found["accepted_ms"]["p99"]


@pytest.mark.soak
@pytest.mark.parametrize("connections", BUSY)
@pytest.mark.requirement("overload")
def test_new_connections_are_answered_beside_busy_ones(
    loaded: Loaded, connections: int, record_property: Callable[[str, object], None]
) -> None:
    """The busy ones send their next request as soon as they have a response, also when it is a refusal."""
    running, seconds = loaded.running, min(2 * SECONDS, 20)
    body = search_body()
    search = head(f"Content-Length: {len(body)}") + body
    health = b"GET /healthz HTTP/1.1\r\nHost: dealer.example\r\n\r\n"
    times: dict[str, list[float]] = {"search": [], "health": []}
    seen: Counter[str] = Counter()
    busy = started(running.port, loaded.requests, rate=0, seconds=seconds, connections=connections)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while busy.poll() is None:
        assert time.monotonic() < deadline
        for kind, sent in (("search", search), ("health", health)):
            begun = time.monotonic()
            with connect(running.url) as client:
                client.sendall(sent)
                status = client.recv(15, socket.MSG_WAITALL)[9:12].decode()
            times[kind].append(time.monotonic() - begun)
            seen[f"{kind} {status}"] += 1
        time.sleep(0.05)
    found = figures_of(busy)
    worst = {kind: f"p50 {median(took) * 1000:.0f} ms, max {max(took) * 1000:.0f} ms" for kind, took in times.items()}
    record_property("figure", f"beside {connections} busy connections: {worst}, {dict(seen)}, {found['statuses']}")
    assert found["broken"] == 0
    assert set(seen) <= {"search 200", "search 429", "health 200"}
    assert seen["search 200"] > 0
    # Two seconds are promised; a machine that runs other tests beside may take longer, a service that serves the busy
    # ones first takes for ever.
    assert max(max(took) for took in times.values()) < (2 if SOAK else 30)
