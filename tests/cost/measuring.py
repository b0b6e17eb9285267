"""Measures the processor time of a request in the real application, without a network."""

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from benchmarks.stock_maker import stock
from starlette.types import Send
from tests.cost.asking import Sent
from tests.server.dealership import NO_LIMITS, Dealership, run_dealership, set_up

from dealer_agent.inventory.catalogue import Catalogue

# All requests come from a trusted proxy, so that X-Forwarded-For is read.
PROXY = "127.0.0.1"
SETTINGS = f'[service]\ntrusted_proxies = ["{PROXY}", "10.0.0.0/8", "::1"]\n' + NO_LIMITS


# No two requests are equal, because a cached answer costs nothing.
_SEEDS = itertools.count(20_261_122)


@contextmanager
def dealer_with(units: int, folder: Path, stocked: Path) -> Iterator[Dealership]:
    """A dealer with this number of invented vehicles, and without rate limits."""
    set_up(folder, SETTINGS, stocked=stocked)
    catalogue = Catalogue.build(list(stock(units)))
    with run_dealership(folder) as dealership:
        service = dealership.service
        service.dealer = service.dealer.with_stock(catalogue, datetime.now(UTC), 0)
        # The objects of the tests must not make the garbage collection of the service slower.
        gc.collect()
        gc.freeze()
        try:
            yield dealership
        finally:
            # The collected tests are among what was frozen: they stay so.
            gc.unfreeze()
            gc.freeze()


def cost(dealership: Dealership, make: Callable[[random.Random], Sent], repeats: int = 3) -> tuple[float, Sent]:
    """The lowest processor time of several requests of this shape, in milliseconds, and one such request."""
    made = [make(random.Random(next(_SEEDS))) for _ in range(repeats)]
    return min(dealership.portal.call(_milliseconds, dealership, sent) for sent in made), made[-1]


async def _milliseconds(dealership: Dealership, sent: Sent) -> float:
    scope = {
        "type": "http",
        "method": sent.method,
        "path": sent.path,
        "raw_path": sent.path.encode(),
        "query_string": sent.query,
        "headers": [*sent.headers, (b"content-length", b"%d" % len(sent.body))],
        "client": (PROXY, 40_000),
    }
    answered: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": sent.body, "more_body": False}

    async def send(event: dict[str, Any]) -> None:
        answered.append(event)

    started = time.process_time()
    await dealership.app(scope, receive, cast(Send, send))
    took = time.process_time() - started
    assert answered[0]["status"] < 500, (answered, sent.body[:200])
    return took * 1000
