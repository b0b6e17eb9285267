"""The clients of the benchmark of many dealers: a connection to each worker, and requests for many dealers."""

import http.client
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from statistics import quantiles

from benchmarks.buyers import Ask, post
from benchmarks.servers import Server

_ATTEMPTS = 200


def post_to(dealer_id: str, body: bytes) -> bytes:
    """A whole request of the HTTP+JSON binding to a dealer of an installation."""
    return post(body).replace(b" /message:send ", f" /d/{dealer_id}/message:send ".encode(), 1)


def posts(asked: Sequence[Ask], dealers: Sequence[str]) -> list[bytes]:
    """The requests, each to the next dealer."""
    return [post_to(dealer_id, ask.body) for ask, dealer_id in zip(asked, cycle(dealers), strict=False)]


class WorkerClient:
    """A connection to one worker. The service keeps it open."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        self.connection.request("GET", path)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    @property
    def port(self) -> int:
        """The port of this side."""
        port: int = self.connection.sock.getsockname()[1]
        return port


@contextmanager
def a_client_of_each_worker(server: Server) -> Iterator[list[WorkerClient]]:
    """Opens connections until each worker has one. The kernel chooses the worker of a connection."""
    opened: list[WorkerClient] = []
    found: dict[int, WorkerClient] = {}
    try:
        for _ in range(_ATTEMPTS):
            client = WorkerClient(server.port)
            opened.append(client)
            client.get("/healthz")
            found.setdefault(_worker_of(server, client.port), client)
            if len(found) == len(server.workers):
                break
        assert len(found) == len(server.workers), "no connection reached one of the workers"
        yield list(found.values())
    finally:
        for client in opened:
            client.connection.close()


def _worker_of(server: Server, port: int) -> int:
    """The worker that has the other side of the connection from this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = (f":{server.port:04X}", f":{port:04X}")
    inode = next(row[9] for row in rows if row[1].endswith(ends[0]) and row[2].endswith(ends[1]))
    for worker in server.workers:
        for file in Path(f"/proc/{worker}/fd").iterdir():
            with suppress(FileNotFoundError):
                if str(file.readlink()) == f"socket:[{inode}]":
                    return worker
    raise AssertionError("no worker has the connection")


def load_all(clients: Sequence[WorkerClient], dealers: Sequence[str]) -> None:
    """Makes each worker load each dealer."""
    for dealer_id in dealers:
        for client in clients:
            status, body = client.get(f"/d/{dealer_id}/readyz")
            assert status == 200, (dealer_id, status, body)


def first_answers(port: int, dealers: Sequence[str], body: bytes, per_second: float) -> list[float]:
    """Milliseconds until the answer to the first request to each dealer, at most so many a second, one by one."""
    taken = []
    for dealer_id in dealers:
        begun = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        connection.request("POST", f"/d/{dealer_id}/message:send", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        taken.append((time.perf_counter() - begun) * 1000)
        connection.close()
        assert answer.status == 200, (dealer_id, answer.status, text[:300])
        time.sleep(max(0.0, 1 / per_second - (time.perf_counter() - begun)))
    return taken


def median_and_p99(values: Sequence[float]) -> tuple[float, float]:
    """p50 and p99. Of fewer than a hundred values, the p99 is close to the largest."""
    hundredths = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return hundredths[49], hundredths[98]
