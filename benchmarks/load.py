"""A load of POST requests over keep-alive connections, from a process of its own.

Each connection sends its next request when it has the whole answer to the last. Requests are bytes made beforehand, so
that the client costs little: it runs on the same machine as what it measures.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from statistics import quantiles
from typing import NamedTuple, cast

import uvloop


class Load(NamedTuple):
    """What one run found: requests per second, how many were not answered with 200, and what half and what 99 of a
    hundred waited at most, in milliseconds."""

    per_second: float
    failed: int
    answered: int
    p50: float
    p99: float


def load_of(waited: Sequence[float], took: float, failed: int) -> Load:
    """The figures of a run that `took` seconds, in which each request `waited` so long."""
    hundredths = quantiles(waited, n=100)
    return Load(len(waited) / took, failed, len(waited), hundredths[49] * 1000, hundredths[98] * 1000)


def post(path: str, body: bytes) -> bytes:
    """A whole HTTP/1.1 request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class _Connection(asyncio.Protocol):
    def __init__(self, next_request: Callable[[], bytes | None], done: asyncio.Future[None]) -> None:
        self._next = next_request
        self._done = done
        self._missing = -1
        self._head = b""
        self._sent = 0.0
        self.waited: list[float] = []
        self.failed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's by shape, not by class.
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._head[:end].lower()
            self.failed += not head.startswith(b"http/1.1 200")
            start = head.index(b"content-length:") + 15
            length = int(head[start:].split(b"\r\n", 1)[0])
            self._missing = length - (len(self._head) - end - 4)
            self._head = b""
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self._missing = -1
            self.waited.append(time.perf_counter() - self._sent)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))

    def _send(self) -> None:
        request = self._next()
        if request is None:
            if not self._done.done():
                self._done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)


def _run(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    async def load() -> Load:
        loop = asyncio.get_running_loop()
        ends = time.perf_counter() + seconds
        count = 0

        def next_request() -> bytes | None:
            nonlocal count
            if time.perf_counter() >= ends:
                return None
            count += 1
            return requests[count % len(requests)]

        started = time.perf_counter()
        made: list[_Connection] = []
        waiting: list[asyncio.Future[None]] = []
        for _ in range(connections):
            done = loop.create_future()
            _, protocol = await loop.create_connection(partial(_Connection, next_request, done), "127.0.0.1", port)
            made.append(protocol)
            waiting.append(done)
        await asyncio.gather(*waiting)
        took = time.perf_counter() - started
        waited = [seconds for connection in made for seconds in connection.waited]
        return load_of(waited, took, sum(connection.failed for connection in made))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(load())


def measure(port: int, requests: Sequence[bytes], *, connections: int = 16, seconds: float = 3) -> Load:
    """Loads the server at a port of this machine, from a fresh process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (port, requests, connections, seconds))
