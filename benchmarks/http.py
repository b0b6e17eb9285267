"""Requests per second of one worker, validation, limits and logs on, beside a static reply and the SDK's server.

All servers run on the same machine in turn, round after round, and the medians are compared: the machine's own speed
drifts, the ratios less so. All are uvicorn with uvloop and httptools. The static reply is a plain ASGI callable; ours
answers reading skills in the connection, without ASGI, which is why it can come near at all.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.load import Load, measure, post
from benchmarks.peers import REPLY_FILE, STOCK_FILE
from dealer_agent.config import load_settings
from dealer_agent.config.keys import create_key_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.inventory.feeds import read_feed
from dealer_agent.protocol.examples import example_body
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto
from dealer_agent.stock_room import import_feed
from dealer_agent.storage.migrate import migrate
from dealer_agent.storage.store import Store

VEHICLES = 1000
ROUNDS = 3
UNLIMITED = "1000000000/minute"
"""Limits are on and counted; nobody meets them."""

RATES = ("inventory_search", "inventory_vehicle", "lead_submit", "address")


class Figure(NamedTuple):
    """Medians over the rounds: requests per second, the time within which half and 99 of a hundred were answered (ms),
    and the latter over the former."""

    name: str
    per_second: float
    failed: int
    p50: float
    p99: float
    tail: float


def figure_of(name: str, loads: Sequence[Load]) -> Figure:
    """The medians of several rounds."""
    return Figure(
        name,
        median(load.per_second for load in loads),
        sum(load.failed for load in loads),
        median(load.p50 for load in loads),
        median(load.p99 for load in loads),
        median(load.p99 / load.p50 for load in loads),
    )


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: Sequence[str], port: int, path: str, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A server in a process of its own, until it answers GET `path` with anything."""
    process = subprocess.Popen(
        command, env={**os.environ, **(env or {})}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}")
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.1)
            else:
                break
        yield
    finally:
        process.terminate()
        process.wait()


def make_dealer(directory: Path) -> None:
    """A dealer with VEHICLES units in a folder, stored, its limits out of the way."""
    rates = "\n".join(f'{name} = "{UNLIMITED}"' for name in RATES)
    (directory / "dealer.toml").write_text(f"{demo_dealer_toml()}\n[rate_limits]\n{rates}\n", encoding="utf-8")
    create_key_file(directory)
    settings = load_settings(directory, {})
    migrate(settings.database_url, settings.vault)
    feed = read_feed(json.dumps(_stock()).encode())
    with Store.open(settings.database_url, settings.vault) as store:
        import_feed(store, settings.dealer, feed, source="benchmark", at=datetime.now(UTC))


def _stock() -> list[dict[str, Any]]:
    units = json.loads(demo_inventory())
    units = units if isinstance(units, list) else units["vehicles"]
    stock = []
    for number in range(VEHICLES):
        unit = units[number % len(units)]
        stock.append({**unit, "vin": unit["vin"][:-4] + f"{number:04d}", "stock": f"B{number:05d}"})
    return stock


def searches() -> list[bytes]:
    """Searches that differ: every price from 15,000 upwards."""
    skill = SKILL_BY_ID["inventory.search"]
    body = example_body(skill, proto())
    made = []
    for number in range(5000):
        payload = body["message"]["parts"][0]["data"]
        payload["filters"] = {"condition": ["used", "cpo"], "price_max": 15000 + 10 * number}
        payload["pagination"] = {"limit": 20}
        made.append(post("/message:send", json.dumps(body).encode()))
    return made


def details(vins: Sequence[str]) -> list[bytes]:
    """One detail request for each vehicle."""
    skill = SKILL_BY_ID["inventory.vehicle"]
    made = []
    for vin in vins:
        body = example_body(skill, proto(), vin=vin)
        body["message"]["parts"][0]["data"].pop("zip", None)
        made.append(post("/message:send", json.dumps(body).encode()))
    return made


def _ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer.partition(b"\r\n\r\n")[2]


def http_figures() -> list[tuple[str, list[Figure], str]]:
    """For search and vehicle: the service, the static reply of the same bytes, and the SDK's server."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        make_dealer(directory)
        ours = free_port()
        serve = [sys.executable, "-m", "dealer_agent.cli", "serve", "--dir", folder, "--port", str(ours)]
        with running(serve, ours, "/readyz"):
            page = json.loads(_ask(ours, post("/message:send", _everything())))
            stock = page["message"]["parts"][0]["data"]["data"]["vehicles"]
            while len(stock) < VEHICLES:
                more = json.loads(_ask(ours, post("/message:send", _everything(len(stock)))))
                stock += more["message"]["parts"][0]["data"]["data"]["vehicles"]
            (directory / "stock.json").write_text(json.dumps(stock))
            kinds = {"inventory.search": searches(), "inventory.vehicle": details([unit["vin"] for unit in stock])}
            replies = {name: _ask(ours, requests[len(requests) // 2]) for name, requests in kinds.items()}
        return [_compared(name, requests, replies[name], directory, serve, ours) for name, requests in kinds.items()]


def _everything(skip: int = 0) -> bytes:
    body = example_body(SKILL_BY_ID["inventory.search"], proto())
    payload = body["message"]["parts"][0]["data"]
    payload.pop("filters")
    payload["pagination"] = {"skip": skip, "limit": 100}
    return json.dumps(body).encode()


def _compared(
    name: str, requests: list[bytes], reply: bytes, directory: Path, serve: list[str], ours: int
) -> tuple[str, list[Figure], str]:
    (directory / "reply").write_bytes(reply)
    env = {REPLY_FILE: str(directory / "reply"), STOCK_FILE: str(directory / "stock.json")}
    loads: dict[str, list[Load]] = {"dealer-agent": [], "a static reply of the same bytes": [], "a2a-sdk's server": []}
    for _ in range(ROUNDS):
        with running(serve, ours, "/readyz"):
            loads["dealer-agent"].append(measure(ours, requests))
        for peer, title in (("static", "a static reply of the same bytes"), ("sdk", "a2a-sdk's server")):
            port = free_port()
            with running(_uvicorn(peer, port), port, "/", env):
                loads[title].append(measure(port, requests))
    figures = [figure_of(title, runs) for title, runs in loads.items()]
    return name, figures, f"{len(reply):,} bytes a reply"


def _uvicorn(peer: str, port: int) -> list[str]:
    options = ["--factory", "--port", str(port), "--no-access-log", "--log-level", "warning", "--lifespan", "off"]
    return [sys.executable, "-m", "uvicorn", f"benchmarks.peers:{peer}", *options]
