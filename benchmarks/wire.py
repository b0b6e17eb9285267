"""The whole service on one worker, beside the bare HTTP server, the SDK's server with the same dealer, and the SDK's
server alone.

Each server has one core, and wrk has the other. They are loaded in turn, round after round. A ratio is taken within a
round, and then the median of the rounds, because other machines on the same host disturb the measurement. The
processor time of a request is reported beside the rates, because they disturb it less.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.answers import Agreement, Reply, agreement, check_refusals, check_replies, replies
from benchmarks.buyers import LOADS, Ask, Unit, asks, post
from benchmarks.dealership import make_dealer
from benchmarks.peers.sdk_dealer import DEALER_FILE, STOCK_FILE
from benchmarks.servers import Server, ask, dealer_agent, peer
from benchmarks.wrk import CONNECTIONS, Load, measure, median_load, write_requests

OURS, BARE, SDK, SDK_ALONE = "dealer-agent", "bare server", "a2a-sdk dealer", "a2a-sdk alone"
SERVERS = {
    OURS: "the service as `dealer-agent serve --workers 1` starts it",
    BARE: "the same uvicorn with a ready reply of the same size",
    SDK: "a dealer on the official SDK's server, the same stock in a list",
    SDK_ALONE: "the SDK's server with a ready message of the same size",
}
COMPARED = 300
"""How many responses of the peer are compared with ours."""


class Plan(Struct, frozen=True):
    """The measurement of a stock of this size: the loads, the rounds, and the seconds of each load.

    Where the SDK's dealer needs almost a second for a request, it gets fewer connections. Otherwise it would answer
    none in time.
    """

    vehicles: int
    loads: tuple[str, ...]
    rounds: int
    seconds: float
    sdk_rounds: int
    sdk_seconds: float
    sdk_connections: int = CONNECTIONS


PLANS = (
    Plan(1_000, tuple(LOADS), rounds=5, seconds=1, sdk_rounds=2, sdk_seconds=2),
    Plan(
        100_000,
        ("mix", "inventory.search", "inventory.vehicle", "facets over everything"),
        rounds=5,
        seconds=1,
        sdk_rounds=1,
        sdk_seconds=8,
        sdk_connections=2,
    ),
)
QUICK_PLANS = (Plan(1_000, ("mix", "inventory.search", "inventory.vehicle"), 2, 1, 1, 1),)


class Row(Struct, frozen=True):
    """One server under one load: the medians, and our rate and our processor time relative to it."""

    server: str
    load: Load
    rate_ratio: float
    cpu_ratio: float


class WireFigure(Struct, frozen=True):
    """One load on a stock: the mean size of a response, and the servers, ours first."""

    load: str
    vehicles: int
    reply_bytes: int
    rows: list[Row]

    def row(self, server: str) -> Row:
        """The row of a server. Raises KeyError."""
        for row in self.rows:
            if row.server == server:
                return row
        raise KeyError(server)


class WireFigures(Struct, frozen=True):
    """All loads, and how often the SDK's dealer found the same as ours. It has no synonyms in free text."""

    figures: list[WireFigure]
    agreements: dict[int, Agreement]

    def figure(self, load: str, vehicles: int) -> WireFigure | None:
        """The figure of a load, if it was measured."""
        found = [figure for figure in self.figures if (figure.load, figure.vehicles) == (load, vehicles)]
        return found[0] if found else None


def wire_figures(plans: Sequence[Plan], progress: Callable[[str], None]) -> WireFigures:
    """Measures every plan. Raises WrongAnswerError when a response does not fit its request."""
    figures: list[WireFigure] = []
    agreements: dict[int, Agreement] = {}
    for plan in plans:
        progress(f"a dealer with {plan.vehicles:,} vehicles")
        with tempfile.TemporaryDirectory() as made, ExitStack() as running:
            folder = Path(made)
            make_dealer(folder / "dealer", plan.vehicles)
            servers = {OURS: running.enter_context(dealer_agent(folder / "dealer"))}
            stock = write_stock(servers[OURS], folder)
            env = {STOCK_FILE: str(folder / "stock.json"), DEALER_FILE: str(folder / "dealer.json")}
            servers[BARE] = running.enter_context(peer("static"))
            servers[SDK] = running.enter_context(peer("sdk_dealer", env))
            servers[SDK_ALONE] = running.enter_context(peer("sdk_constant"))
            for load in plan.loads:
                asked = asks(LOADS[load], stock)
                write_requests(folder / "requests", (post(request.body) for request in asked))
                got = replies(servers[OURS], asked)
                check_replies(asked, got)
                size = sum(len(reply.body) for reply in got) // len(got)
                _make_ready(servers, size, asked, got)
                if load == "mix":
                    few = COMPARED if plan.vehicles < 10_000 else COMPARED // 5
                    agreements[plan.vehicles] = agreement(asked[:few], got[:few], replies(servers[SDK], asked[:few]))
                figures.append(
                    _compared(plan, load, size, asked, servers, folder / "requests", progress),
                )
    return WireFigures(figures, agreements)


def write_stock(server: Server, folder: Path) -> list[Unit]:
    """Reads the whole stock and the dealer's information over HTTP, for the peer and for the requests."""
    stock: list[Unit] = []
    while page := _data(server, "inventory.search", pagination={"skip": len(stock), "limit": 100})["vehicles"]:
        stock += page
    (folder / "stock.json").write_bytes(msgspec.json.encode(stock))
    (folder / "dealer.json").write_bytes(msgspec.json.encode(_data(server, "dealer.information")))
    return stock


def _data(server: Server, skill: str, **payload: Any) -> Any:
    stem = skill.replace(".", "-")
    part = {
        "data": {"type": f"{skill}.request", **payload},
        "mediaType": f"application/vnd.proto.{stem}-request+json",
    }
    body = {
        "message": {"messageId": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA", "role": "ROLE_USER", "parts": [part]},
        "configuration": {"acceptedOutputModes": ["application/json"]},
    }
    return Reply(*ask(server.port, "POST", "/message:send", msgspec.json.encode(body))).data


def _make_ready(servers: Mapping[str, Server], size: int, asked: Sequence[Ask], got: Sequence[Reply]) -> None:
    """Gives the two servers that search nothing our response of about the mean size."""
    good = [reply.body for ask, reply in zip(asked, got, strict=True) if ask.status == 200]
    nearest = min(good, key=lambda body: abs(len(body) - size))
    for server, path, body in ((BARE, "/", nearest.ljust(size)[:size]), (SDK_ALONE, "/reply", nearest)):
        status, answer = ask(servers[server].port, "PUT", path, body)
        if status != 200:
            raise RuntimeError(f"{server} did not take its reply: {answer!r}")


def _compared(
    plan: Plan,
    load: str,
    size: int,
    asked: Sequence[Ask],
    servers: Mapping[str, Server],
    requests: Path,
    progress: Callable[[str], None],
) -> WireFigure:
    loads: dict[str, list[Load]] = {name: [] for name in servers}
    for number, name in _turns(plan):
        progress(f"{load}, {plan.vehicles:,} vehicles, round {number}: {name}")
        if name in (SDK, SDK_ALONE):
            seconds, connections = plan.sdk_seconds, plan.sdk_connections
            measured = measure(servers[name], requests, seconds=seconds, connections=connections)
        else:
            measured = measure(servers[name], requests, seconds=plan.seconds)
        if name in (OURS, SDK):
            check_refusals(asked, measured, CONNECTIONS)
        loads[name].append(measured)
    rows = [
        Row(
            name,
            median_load(found),
            median(our.per_second / other.per_second for our, other in zip(loads[OURS], found, strict=False)),
            median(our.cpu / other.cpu for our, other in zip(loads[OURS], found, strict=False)),
        )
        for name, found in loads.items()
    ]
    return WireFigure(load, plan.vehicles, size, rows)


def _turns(plan: Plan) -> Iterator[tuple[int, str]]:
    """Measures round by round, ours directly beside each of the others."""
    for number in range(1, plan.rounds + 1):
        yield number, OURS
        yield number, BARE
        if number <= plan.sdk_rounds:
            yield number, SDK
            yield number, SDK_ALONE
