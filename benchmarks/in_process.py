"""Requests to the whole service except the network, in this process, in two forms in turn.

The forms are sent after every few requests in turn, so that other work of the machine disturbs both alike. The ratio is
taken within a round, and then the median of the rounds.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple, cast

import uvicorn
from msgspec import Struct
from starlette.types import Send
from uvicorn.server import ServerState

from benchmarks.buyers import LOADS, asks
from benchmarks.dealership import make_dealer
from benchmarks.servers import dealer_agent
from benchmarks.wire import write_stock
from dealer_agent.bootstrap import application
from dealer_agent.config.installation import load_served
from dealer_agent.server.connection import BoundedConnection

CONNECTIONS = 16
VEHICLES = 1_000


class Compared(Struct, frozen=True):
    """One load: microseconds of processor time for a request without and with something, and the ratio: its median, and
    the range of the middle half of the rounds. `more` is the median of what a request with it costs more."""

    load: str
    off: float
    on: float
    ratio: float
    low: float
    high: float
    more: float


class InProcess(NamedTuple):
    """The service in this process."""

    app: Any
    state: dict[str, Any]

    @property
    def service(self) -> Any:
        """The service of the only dealer."""
        (service,) = self.app.dealers.opened.values()
        return service

    def connect(self) -> "tuple[BoundedConnection, _Sink]":
        """A connection to the service, and what takes its responses."""
        config = uvicorn.Config(self.app, http=BoundedConnection, lifespan="off", ws="none", log_level="critical")
        connection, sink = BoundedConnection(config, ServerState(), self.state, asyncio.get_running_loop()), _Sink()
        connection.connection_made(cast(asyncio.Transport, sink))
        return connection, sink

    async def round(
        self, without: Sequence[bytes], with_it: Sequence[bytes], switch: Callable[[bool], None] = lambda _: None
    ) -> tuple[float, float]:
        """Microseconds of processor time for a request without something and with it, which `switch` turns on."""
        connections, sinks = zip(*(self.connect() for _ in range(CONNECTIONS)), strict=True)
        spent, answered = [0.0, 0.0], 0
        for is_second in (False, True):
            for number, first in enumerate(range(0, len(without), CONNECTIONS)):
                on = is_second == bool(number % 2)
                part = (with_it if on else without)[first : first + CONNECTIONS]
                switch(on)
                answered += len(part)
                before = time.thread_time()
                for connection, request in zip(connections, part, strict=False):
                    connection.data_received(request)
                while sum(sink.answers for sink in sinks) < answered:
                    if refused := next((sink.refused for sink in sinks if sink.refused), b""):
                        raise RuntimeError(f"the service refused a request: {refused!r}")
                    await asyncio.sleep(0)
                spent[on] += time.thread_time() - before
        for connection in connections:
            connection.connection_lost(OSError())
        return spent[0] / len(without) * 1e6, spent[1] / len(without) * 1e6


@contextmanager
def stocked_dealer(
    loads: Collection[str], progress: Callable[[str], None]
) -> Iterator[tuple[Path, dict[str, list[bytes]]]]:
    """The folder of a dealer with vehicles, and the bodies of requests to it by load."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        progress(f"a dealer with {VEHICLES:,} vehicles")
        make_dealer(folder / "dealer", VEHICLES)
        with (folder / "dealer" / "dealer.toml").open("a", encoding="utf-8") as settings:
            # The log of this process would fill the terminal.
            settings.write('\n[logs]\nlevel = "error"\n')
        with dealer_agent(folder / "dealer") as server:
            stock = write_stock(server, folder)
        yield folder / "dealer", {load: [ask.body for ask in asks(LOADS[load], stock)] for load in loads}


@asynccontextmanager
async def in_process(folder: Path) -> AsyncIterator[InProcess]:
    """Starts the service of a dealer's folder."""
    app = application(load_served(folder, {}, "http://127.0.0.1:8080"))
    state: dict[str, Any] = {}
    started, over = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, str]:
        if started.is_set():
            await over.wait()
        return {"type": "lifespan"}

    async def send(_: dict[str, Any]) -> None:
        started.set()

    running = asyncio.create_task(app({"type": "lifespan", "state": state}, receive, cast(Send, send)))
    await started.wait()
    try:
        yield InProcess(app, state)
    finally:
        over.set()
        await running


def compared(load: str, rounds: Sequence[tuple[float, float]]) -> Compared:
    """The figure of several rounds."""
    off, on = zip(*rounds, strict=True)
    ratios = [with_it / without for without, with_it in rounds]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    more = median(with_it - without for without, with_it in rounds)
    return Compared(load, median(off), median(on), median(ratios), low, high, more)


class _Sink(asyncio.Transport):
    """A transport that takes everything, and counts the responses. `refused` is one without the status 200."""

    answers = 0
    refused = b""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", 80)})

    def write(self, data: Any) -> None:
        if data[:7] == b"HTTP/1.":
            self.answers += 1
            if data[9:12] != b"200":
                self.refused = bytes(data[:500])

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0
