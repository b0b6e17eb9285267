"""An open-loop load: requests are sent when they are due, whether or not earlier ones are answered, as many
independent buyers do.

It runs in a process of its own: `python -m tests.acceptance.open_loop PORT REQUESTS RATE SECONDS CONNECTIONS`. A rate
of 0 is a closed loop: each connection sends its next request when it has the whole answer to the last. A time counts
from the moment at which the request was due to the last byte of its response. When this process itself is late, it says
how often, and leaves the times of those requests out.
"""

import asyncio
import gc
import json
import random
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import uvloop

CONNECTIONS = 512
"""Of an open loop: more than wait at any moment when a request is answered or refused within 50 ms."""
LATE_SECONDS = 0.003
TICK_SECONDS = 0.001
FIRST_SECONDS = 1.0
"""The beginning of a run counts for nothing: the service finds out that it is overloaded."""


@dataclass
class Run:
    """What one run saw. Times are in seconds."""

    requests: Sequence[bytes]
    rate: float
    seconds: float
    connections: int
    statuses: Counter[int] = field(default_factory=Counter)
    early: Counter[int] = field(default_factory=Counter)
    times: dict[int, list[float]] = field(default_factory=dict)
    sent: int = 0
    late: int = 0
    broken: int = 0
    idle: deque["Connection"] = field(default_factory=deque)
    waiting: deque[float] = field(default_factory=deque)
    last_tick: float = 0.0
    began: float = 0.0
    over: bool = False

    def next_request(self) -> bytes:
        self.sent += 1
        return self.requests[self.sent % len(self.requests)]

    def send(self, due: float) -> None:
        """Sends the next request on a connection that is idle; else as soon as one is."""
        if self.idle:
            self.idle.popleft().send(self.next_request(), due)
        else:
            self.waiting.append(due)

    def answered(self, connection: "Connection", status: int, due: float, sent: float) -> None:
        now = perf_counter()
        self.statuses[status] += 1
        if due < self.began + FIRST_SECONDS:
            self.early[status] += 1
        elif (sent - due > LATE_SECONDS and self.idle) or now - self.last_tick > LATE_SECONDS + TICK_SECONDS:
            self.late += 1
        else:
            self.times.setdefault(status, []).append(now - due)
        if self.waiting:
            connection.send(self.next_request(), self.waiting.popleft())
        elif not self.rate and not self.over:
            connection.send(self.next_request(), now)
        else:
            self.idle.append(connection)


class Connection(asyncio.Protocol):
    """One connection; at most one request is under way on it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._missing = 0
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, due: float) -> None:
        self._due, self._sent = due, perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            self._head += data
            ends = self._head.find(b"\r\n\r\n")
            if ends < 0:
                return
            at = self._head.index(b"content-length: ") + 16
            length = int(self._head[at : self._head.index(b"\r", at)])
            self._status = int(self._head[9:12])
            self._missing = length - (len(self._head) - ends - 4)
            self._head = b""
        if not self._missing:
            self._run.answered(self, self._status, self._due, self._sent)

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.broken += not self._run.over


async def load(port: int, run: Run) -> float:
    """Runs the load; how long it took until the last answer or the end of patience."""
    loop = asyncio.get_running_loop()
    for _ in range(run.connections):
        _, connection = await loop.create_connection(lambda: Connection(run), "127.0.0.1", port)
        run.idle.append(connection)
    began = run.began = run.last_tick = perf_counter()
    ends = began + run.seconds
    if not run.rate:
        while run.idle:
            run.idle.popleft().send(run.next_request(), perf_counter())
    dice = random.Random(1)
    due = began
    while run.last_tick < ends:
        while run.rate and due <= run.last_tick:
            run.send(due)
            due += dice.expovariate(run.rate)
        await asyncio.sleep(TICK_SECONDS)
        run.last_tick = perf_counter()
    took = perf_counter() - began
    run.over = True
    patience = perf_counter() + 60
    while (run.waiting or sum(run.statuses.values()) < run.sent) and perf_counter() < patience:
        await asyncio.sleep(TICK_SECONDS)
        run.last_tick = perf_counter()
    return took


def share(times: Iterable[float], part: float) -> float:
    """The time, in milliseconds, within which this part of the requests was answered; 0 of none."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000 if ordered else 0.0


def main() -> None:
    port, path, rate, seconds, connections = sys.argv[1:]
    requests = [bytes(request, "latin-1") for request in json.loads(Path(path).read_text())]
    run = Run(requests, float(rate), float(seconds), int(connections))
    gc.disable()
    took = uvloop.run(load(int(port), run))
    accepted = [time for status, times in run.times.items() if status != 429 for time in times]
    refused = run.times.get(429, [])
    answered = sum(run.statuses.values())
    found = {
        "statuses": run.statuses,
        "offered_per_second": (run.sent + len(run.waiting)) / took,
        "accepted_per_second": (answered - run.statuses[429]) / took,
        "unanswered": run.sent - answered + len(run.waiting),
        "broken": run.broken,
        "late": run.late,
        "accepted_ms": {name: round(share(accepted, part), 2) for name, part in PARTS.items()},
        "refused_ms": {name: round(share(refused, part), 2) for name, part in PARTS.items()},
    }
    print(json.dumps(found))


PARTS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def started(port: int, requests: Path, *, rate: float, seconds: float, connections: int) -> "subprocess.Popen[str]":
    """A run in a process of its own; its figures are what it prints."""
    arguments = [str(part) for part in (port, requests, rate, seconds, connections)]
    return subprocess.Popen([sys.executable, "-m", __name__, *arguments], stdout=subprocess.PIPE, text=True)


def figures_of(run: "subprocess.Popen[str]") -> dict[str, Any]:
    """The figures of a run, at its end."""
    printed, _ = run.communicate()
    assert run.returncode == 0
    return cast(dict[str, Any], json.loads(printed))


if __name__ == "__main__":
    main()
