"""Dealer agents in this process: the honest one, and the checker's connection to it, with a control between."""

import csv
import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
from tests.checker.breaking import Agent, Answer, Breaking, Call
from tests.server.dealership import LISTENS_AT, NO_LIMITS, Dealership, run_dealership
from tests.storage.calls import write_at
from tests.storage.current import make_current

from dealer_agent.checker.events import Event, Verdict
from dealer_agent.checker.requirement import PROFILES
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

QUIET = "[logs]\naccess = false\n"
STOCK_SIZE = 60
VARIED = ("vehicle_type", "body", "fuel", "condition", "transmission", "driveline", "charge_port", "rooftop", "status")


def small_stock() -> bytes:
    """A feed with some vehicles of the demo dealer: all values of the members in VARIED,
    two without a price, and two without mileage and type.
    """
    rows = list(csv.DictReader(io.StringIO(demo_inventory().decode())))
    chosen: dict[str, dict[str, str]] = {}
    seen: set[tuple[str, str]] = set()
    for row in rows:
        fresh = {(name, row[name]) for name in VARIED} - seen
        if fresh:
            chosen[row["stock"]] = row
            seen |= fresh
    for row in rows:
        if len(chosen) < STOCK_SIZE:
            chosen.setdefault(row["stock"], row)
    for row in list(chosen.values())[:2]:
        row["price"] = row["list_price"] = ""
    for row in list(chosen.values())[2:4]:
        row["mileage"] = row["vehicle_type"] = ""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows(chosen.values())
    return text.getvalue().encode()


SMALL_STOCK = small_stock()


def make_dealer(folder: Path, *, tables: str = "", dealer: str | None = None, feed: bytes | None = SMALL_STOCK) -> None:
    """Writes a dealer's folder and imports its stock. `tables` are added to dealer.toml, instead of its own service."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = dealer or demo_dealer_toml().replace("[service]\nopen = true\n", "")
    (folder / "dealer.toml").write_text(settings + NO_LIMITS + QUIET + tables, "utf-8")
    create_key_file(folder)
    loaded = load_settings(folder, {})
    make_current(loaded.database_url)
    if feed is None:
        return
    units = read_feed(feed)
    with Store.open(loaded.database_url, loaded.cipher) as store:
        import_feed(store, loaded.dealer, units, source="inventory.csv", at=datetime.now(UTC), accept=EVERY_CHECK)


class HonestAgent:
    """A running dealer. Its answers are remembered from run to run, because only leads change something.

    `token` is a bearer token, if the agent asks for tokens.
    """

    def __init__(self, dealership: Dealership, token: str | None = None) -> None:
        self.dealership = dealership
        self.token = token
        self._known: dict[tuple[Call, int], Answer] = {}
        self._transport = httpx.ASGITransport(dealership.app, client=("198.51.100.7", 40_000))

    def for_one_run(self) -> Agent:
        """Answers the requests of one run. A repeated request is answered again."""
        times: Counter[Call] = Counter()

        async def answer(call: Call) -> Answer:
            times[call] += 1
            key = (call, times[call])
            if key not in self._known:
                fresh = await self._answer(call)
                if call.skill == "lead.submit" and fresh.error is None:
                    return fresh
                self._known[key] = fresh
            return self._known[key]

        return answer

    async def _answer(self, call: Call) -> Answer:
        request = httpx.Request(call.method, call.url, headers=list(call.headers), content=call.body)
        response = await self._transport.handle_async_request(request)
        body = await response.aread()
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)
        return Answer(response.status_code, headers, body)


class Between(httpx.AsyncBaseTransport):
    """The checker's connection to an agent, with a control between."""

    def __init__(self, agent: Agent, control: Breaking | None) -> None:
        self._agent = agent
        self._control = control

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """httpx."""
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw)
        call = Call(request.method, str(request.url), headers, await request.aread())
        answer = await (self._agent(call) if self._control is None else self._control(call, self._agent))
        return httpx.Response(answer.status, headers=list(answer.headers), stream=httpx.ByteStream(answer.body))


@contextmanager
def running(folder: Path, *, tokens: bool = False) -> Iterator[HonestAgent]:
    """The honest agent of a dealer's folder. With `tokens`, a token is created for the checker."""
    token = _new_token(folder) if tokens else None
    with run_dealership(folder) as dealership:
        yield HonestAgent(dealership, token)


def _new_token(folder: Path) -> str:
    fresh, settings = new_token(), load_settings(folder, {})
    with Store.open(settings.database_url, settings.cipher) as store:
        return fresh.text(
            write_at(datetime.now(UTC), store, settings.dealer.id, create_token, "Checker", fresh.secret_hash)
        )


def check_agent(
    agent: HonestAgent, options: Options, control: Breaking | None = None, url: str = LISTENS_AT
) -> list[Verdict]:
    """The verdicts of a whole run on the agent, with a control between. All profiles are checked."""
    options = replace(options, profiles=PROFILES)

    async def run() -> list[Verdict]:
        async with httpx.AsyncClient(transport=Between(agent.for_one_run(), control)) as client:
            return await run_checks(url, options, client, _ignore)

    verdicts: list[Verdict] = agent.dealership.portal.call(run)
    return verdicts


def _ignore(_: Event) -> None:
    """The tests look at the verdicts only."""
