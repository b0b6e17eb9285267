"""What a person at the console costs: the processor time and the size of each page, and searches beside ten people."""

import asyncio
import itertools
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from statistics import median, quantiles

import httpx
from msgspec import Struct

from benchmarks.buyers import post
from benchmarks.dealership import write_settings
from benchmarks.in_process import InProcess, in_process, stocked_dealer
from benchmarks.lead_requests import lead_requests
from dealer_agent.console.cookies import LOOPBACK_COOKIE
from dealer_agent.console.routes import ROUTES
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.console.people import add_person, set_membership
from dealer_agent.storage.console.sign_ins import start_session

SEARCH, VEHICLE = "inventory.search", "inventory.vehicle"
_VIN = re.compile(r'"([A-HJ-NPR-Z0-9]{17})"')
TIMES = 15
"""How often each page is opened. The median counts."""
PEOPLE = 10
PAUSE_SECONDS = 1.0
"""Each person opens a page so often."""
ROUNDS = 6
SEARCHES = 400
DAYS = 1_000
TOGETHER = 64
"""How many leads are sent at once."""
HOST = "localhost:8080"


class PageFigure(Struct, frozen=True):
    """The milliseconds of processor time of a page, and its bytes."""

    path: str
    ms: float
    size: int


class Beside(Struct, frozen=True):
    """The milliseconds of searches, alone and beside people at the console."""

    p50: float
    p99: float
    p50_beside: float
    p99_beside: float
    clicks: int

    @property
    def ratio(self) -> float:
        """How many times as long a search takes beside them."""
        return self.p50_beside / self.p50


class ConsoleFigures(Struct, frozen=True):
    """The pages with so many leads, and searches beside people."""

    leads: int
    pages: list[PageFigure]
    beside: Beside


def console_figures(leads: int, progress: Callable[[str], None]) -> ConsoleFigures:
    """Measures all pages that need no more than the dealer."""
    with stocked_dealer([SEARCH, VEHICLE], progress) as (folder, bodies):
        # Without channels: deliveries would take processor time of the same process.
        write_settings(folder, "")
        with (folder / "dealer.toml").open("a", encoding="utf-8") as settings:
            settings.write('\n[logs]\nlevel = "error"\n')
        vins = [found[1] for body in bodies[VEHICLE] if (found := _VIN.search(body.decode()))]
        return asyncio.run(_measured(folder, bodies[SEARCH][:SEARCHES], vins[:1000], leads, progress))


async def _measured(
    folder: Path, bodies: Sequence[bytes], vins: Sequence[str], leads: int, progress: Callable[[str], None]
) -> ConsoleFigures:
    async with in_process(folder) as running:
        await _send_leads(running, vins, leads, progress)
    _spread(folder)
    async with in_process(folder) as running:
        transport = httpx.ASGITransport(running.app, client=("127.0.0.1", 40_000))
        cookie = {"cookie": f"{LOOPBACK_COOKIE}={_session(running)}"}
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=cookie) as client:
            pages: list[PageFigure] = []
            for path in _paths(running.service.dealer_id):
                progress(path)
                pages += await _page(client, path)
            progress("searches beside people")
            beside = await _beside(running, client, [page.path for page in pages], bodies)
    return ConsoleFigures(leads, pages, beside)


def _paths(dealer_id: str) -> list[str]:
    """The pages of a dealer that name nothing else."""
    pages = (route.path for route in ROUTES if route.method == "GET" and route.path.startswith("/d/{dealer}"))
    return ["/console" + path.replace("{dealer}", dealer_id) for path in pages if path.count("{") == 1]


def _session(running: InProcess) -> str:
    """The secret of a session of an owner."""
    store, owner, secret = running.app.dealers.console.served.store, running.service.dealer_id, new_token()
    with store.write(owner) as tx:
        person = add_person(tx, "owner@example.com")
        set_membership(tx, person.person_id, owner, "owner")
        start_session(tx, person.person_id, secret.secret_hash, address="127.0.0.1", browser="", proved=True)
    return secret.secret


async def _send_leads(running: InProcess, vins: Sequence[str], leads: int, progress: Callable[[str], None]) -> None:
    """Sends leads of different customers, many at once: the writer then commits them together."""
    requests = lead_requests(vins, running.service.opened_at, leads)
    headers = {"content-type": "application/json"}
    for number in range(0, leads, TOGETHER):
        progress(f"{number:,} of {leads:,} leads")
        # An address may send only so many leads a day.
        transport = httpx.ASGITransport(running.app, client=(str(ip_address("198.18.0.0") + number), 40_000))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
            bodies = (request.partition(b"\r\n\r\n")[2] for request in itertools.islice(requests, TOGETHER))
            sent = (client.post("/message:send", content=body, headers=headers) for body in bodies)
            for answer in await asyncio.gather(*sent):
                if answer.status_code != 200:
                    raise RuntimeError(f"the service refused a lead: {answer.text[:200]}")


def _spread(folder: Path) -> None:
    """Gives the leads the ages that they have at a dealer: they came over three years, and not in a minute."""
    with closing(sqlite3.connect(folder / "dealer-agent.db")) as connection:
        for table, column in (("leads", "received_at"), ("appointments", "created_at")):
            connection.execute(f"UPDATE {table} SET {column} = {column} - (rowid % {DAYS}) * 86400000000")
        connection.commit()


async def _page(client: httpx.AsyncClient, path: str) -> list[PageFigure]:
    """The figure of a page. None for a page whose query must name something."""
    spent = []
    for _ in range(TIMES):
        before = time.process_time()
        answer = await client.get(path)
        spent.append(time.process_time() - before)
        if answer.status_code == 404:
            return []
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}")
    return [PageFigure(path, median(spent) * 1000, len(answer.content))]


async def _beside(
    running: InProcess, client: httpx.AsyncClient, paths: Sequence[str], bodies: Sequence[bytes]
) -> Beside:
    """Searches alone and beside people, in turn."""
    alone: list[float] = []
    beside: list[float] = []
    clicks = 0

    async def click(first: int) -> None:
        nonlocal clicks
        for path in itertools.islice(itertools.cycle(paths), first, None):
            await client.get(path)
            clicks += 1
            await asyncio.sleep(PAUSE_SECONDS)

    for _ in range(ROUNDS):
        alone += await _searches(running, bodies)
        people = [asyncio.create_task(click(number)) for number in range(PEOPLE)]
        beside += await _searches(running, bodies)
        for person in people:
            person.cancel()
        await asyncio.gather(*people, return_exceptions=True)
    return Beside(median(alone), _p99(alone), median(beside), _p99(beside), clicks)


async def _searches(running: InProcess, bodies: Sequence[bytes]) -> list[float]:
    """The milliseconds of each of some searches, with pauses between them."""
    connection, sink = running.connect()
    spent = []
    for number, body in enumerate(bodies, 1):
        await asyncio.sleep(0.002)
        before = time.perf_counter()
        connection.data_received(post(body))
        while sink.answers < number:
            await asyncio.sleep(0)
        spent.append((time.perf_counter() - before) * 1000)
    connection.connection_lost(OSError())
    return spent


def _p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100)[98]
