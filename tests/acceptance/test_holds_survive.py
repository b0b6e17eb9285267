"""Holds on real machines: one of many agents gets a vehicle, and no kill loses an answer (docs/protocol.md#offers).

A machine is a service with a folder and processes of its own. Two share a PostgreSQL database. A SQLite database has
one machine, with two workers. The long run has 20 rounds and 200 kills on each database.
"""

import os
import random
import shutil
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.running import Running, start
from tests.soak import SOAK
from tests.storage.databases import fresh_schema

from dealer_agent.config import load_settings
from dealer_agent.server.tokens import new_token
from dealer_agent.storage.offers import find_quotes, hold_of_vehicle, list_holds
from dealer_agent.storage.store import Store
from dealer_agent.storage.tokens import create_token

ROUNDS = 20 if SOAK else 1
KILLS = 200 if SOAK else 3
AGENTS = 64
VEHICLES = 200
BUYERS = 4
TRIES = 60
HOLD_MINUTES = 1

SETTINGS = f"""
offer_quote = ""
offer_hold = ""
offer_release = ""

[offers]
enabled = true
hold_minutes = {HOLD_MINUTES}
holds_a_day = 1000
most_held_percent = 100
"""
UNITS = [
    {"stock": f"S{number}", "dealer_id": "NORTH", "condition": "used", "year": 2020, "make": "Honda", "model": "Fit",
     "price": 9_000 + number}
    for number in range(VEHICLES)
]  # fmt: skip

MEDIA = {"offer.quote": "offer-quote", "offer.hold": "offer-hold", "offer.release": "offer-release"}


class Machines:
    """The machines of one dealer. `tokens` are those of the agents."""

    def __init__(self, folders: list[Path], environment: dict[str, str]) -> None:
        self.folders, self.environment = folders, environment
        settings = load_settings(folders[0], environment)
        self.dealer_id, self.store = settings.dealer.id, Store.open(settings.database_url, settings.cipher)
        self.tokens = [self._token() for _ in range(AGENTS)]
        self.running: list[Running] = []

    def _token(self) -> str:
        fresh = new_token()
        with self.store.write(self.dealer_id) as tx:
            return fresh.text(create_token(tx, "Agent", fresh.secret_hash))

    def start(self, number: int) -> Running:
        """Starts a machine."""
        return start(self.folders[number], workers=1 if len(self.folders) > 1 else 2, **self.environment)

    def url(self, number: int) -> str:
        """The address of one of the machines."""
        return self.running[number % len(self.running)].url


@contextmanager
def machines_on(database: str, tmp_path: Path, server: str | None) -> Iterator[Machines]:
    """One machine on SQLite, two on PostgreSQL."""
    if database == "sqlite":
        yield from _machines([tmp_path / "one"], {})
        return
    assert server is not None
    with fresh_schema(server) as url:
        yield from _machines([tmp_path / "one", tmp_path / "two"], {"DATABASE_URL": url})


def _machines(folders: list[Path], environment: dict[str, str]) -> Iterator[Machines]:
    first, *others = folders
    stocked_dealer(first, SETTINGS, UNITS, **environment)
    for folder in others:
        folder.mkdir(mode=0o700)
        for file in first.iterdir():
            shutil.copy(file, folder / file.name)
    machines = Machines(folders, environment)
    try:
        machines.running = [machines.start(number) for number in range(len(folders))]
        yield machines
    finally:
        for running in machines.running:
            running.kill_all()
        machines.store.close()


DATABASES = pytest.mark.parametrize("database", ["sqlite", "postgresql"])


def server_of(database: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgresql_server") if database == "postgresql" else None


def ask(url: str, token: str, skill: str, **members: Any) -> httpx.Response:
    """The response of a skill of the offers extension. As any buyer, it waits where the service is too busy."""
    kind = f"application/vnd.proto.{MEDIA[skill]}"
    body = {
        "message": {
            "messageId": uuid4().hex,
            "role": "ROLE_USER",
            "parts": [{"data": {"type": f"{skill}.request"} | members, "mediaType": f"{kind}-request+json"}],
        },
        "configuration": {"acceptedOutputModes": [f"{kind}-response+json"]},
    }
    headers = {"authorization": f"Bearer {token}"}
    for _ in range(TRIES):
        response = httpx.post(f"{url}/message:send", json=body, headers=headers, timeout=60, verify=False)
        if response.status_code != 429 or refusal_of(response)["code"] != "RATE_LIMITED":
            break
        time.sleep(refusal_of(response)["details"]["retry_after_seconds"])
    return response


def data_of(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["message"]["parts"][0]["data"]["data"]
    return data


def refusal_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]["details"][-1]
    return error


@DATABASES
@pytest.mark.requirement("offer-hold")
def test_of_64_agents_one_gets_the_vehicle(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, record_property: Any
) -> None:
    with machines_on(database, tmp_path, server_of(database, request)) as machines, ThreadPoolExecutor(AGENTS) as pool:
        for turn in range(ROUNDS):

            def quote(number: int, unit: str = f"S{turn}") -> str:
                asked = ask(machines.url(number), machines.tokens[number], "offer.quote", stock=unit)
                return str(data_of(asked)["quote_id"])

            quotes = list(pool.map(quote, range(AGENTS)))
            together = threading.Barrier(AGENTS)

            def hold(number: int, quote_id: str, together: threading.Barrier = together) -> httpx.Response:
                together.wait()
                token, named = machines.tokens[number], {"quote_id": quote_id, "idempotency_key": quote_id}
                return ask(machines.url(number), token, "offer.hold", **named)

            answers = list(pool.map(hold, range(AGENTS), quotes))
            held = [answer for answer in answers if answer.status_code == 200]
            refused = [refusal_of(answer) for answer in answers if answer.status_code != 200]
            assert (len(held), len(refused)) == (1, AGENTS - 1)
            assert {each["code"] for each in refused} == {"HOLD_CONFLICT"}
            until = data_of(held[0])["expires_at"]
            assert {each["details"]["until"] for each in refused} == {until}
    record_property("figure", f"{database}: {ROUNDS} rounds of {AGENTS} agents, one hold and 63 refusals in each")


class Buyers:
    """Threads that ask for quotes and holds, and repeat each request until it is answered."""

    def __init__(self, machines: Machines, seed: int) -> None:
        self.machines = machines
        self.quotes: set[str] = set()
        self.holds: dict[str, dict[str, Any]] = {}
        self.released: set[str] = set()
        self.faults: list[str] = []
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._buy, args=(random.Random(seed + n),)) for n in range(BUYERS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _answered(self, draw: random.Random, token: str, skill: str, **members: Any) -> httpx.Response | None:
        """The response; None if the test ends before there is one."""
        while not self._ending.is_set():
            try:
                response = ask(self.machines.url(draw.randrange(2)), token, skill, **members)
            except httpx.TransportError:
                self._ending.wait(0.05)
                continue
            if response.status_code < 500:
                return response
        return None

    def _buy(self, draw: random.Random) -> None:
        while not self._ending.is_set():
            token, unit = draw.choice(self.machines.tokens), f"S{draw.randrange(VEHICLES)}"
            quoted = self._answered(draw, token, "offer.quote", stock=unit)
            if quoted is None:
                return
            quote_id = str(data_of(quoted)["quote_id"])
            self.quotes.add(quote_id)
            named = {"quote_id": quote_id, "idempotency_key": uuid4().hex}
            held = self._answered(draw, token, "offer.hold", **named)
            if held is None:
                return
            if held.status_code != 200:
                if refusal_of(held)["code"] not in ("HOLD_CONFLICT", "HOLD_LIMIT"):
                    self.faults.append(held.text)
                continue
            hold = data_of(held)
            self.holds[hold["hold_id"]] = hold
            again = self._answered(draw, token, "offer.hold", **named)
            if again is not None and data_of(again)["hold_id"] != hold["hold_id"]:
                self.faults.append(f"{named} made two holds")
            if draw.random() < 0.5:
                released = self._answered(draw, token, "offer.release", hold_id=hold["hold_id"])
                if released is not None and released.status_code == 200:
                    self.released.add(hold["hold_id"])


def kill(machines: Machines, number: int, *, whole: bool) -> None:
    """Kills a worker, or a machine, which is started again."""
    running = machines.running[number]
    if whole or not (workers := running.workers()):
        running.kill_all()
        machines.running[number] = machines.start(number)
    else:
        os.kill(workers[0], signal.SIGKILL)


@DATABASES
@pytest.mark.requirement("offer-hold")
def test_no_kill_loses_an_answer_or_holds_a_vehicle_twice_or_for_ever(
    database: str, tmp_path: Path, request: pytest.FixtureRequest, record_property: Any
) -> None:
    draw = random.Random(11)
    with machines_on(database, tmp_path, server_of(database, request)) as machines:
        buyers = Buyers(machines, 11)
        buyers.start()
        try:
            for turn in range(KILLS):
                wanted = len(buyers.holds) + 3
                while len(buyers.holds) < wanted and not buyers.faults:
                    threading.Event().wait(draw.uniform(0, 0.1))
                kill(machines, draw.randrange(len(machines.running)), whole=turn % 3 == 0)
        finally:
            buyers.end()
        assert buyers.faults == []
        with machines.store.read(machines.dealer_id) as tx:
            stored = list_holds(tx, 100_000)
            kept = find_quotes(tx, buyers.quotes)
        assert set(kept) == buyers.quotes
        assert set(buyers.holds) <= {hold.hold_id for hold in stored}
        assert buyers.released <= {hold.hold_id for hold in stored if hold.status == "released"}
        of_vehicle = defaultdict(list)
        for hold in stored:
            of_vehicle[hold.vehicle_id].append(
                (hold.created_at, min(hold.ended_at or hold.expires_at, hold.expires_at))
            )
        assert all(end <= begin for spans in of_vehicle.values() for (_, end), (begin, _) in pairwise(sorted(spans))), (
            "a vehicle was held twice"
        )
        later = datetime.now(UTC) + timedelta(minutes=HOLD_MINUTES, seconds=1)
        with machines.store.read(machines.dealer_id, later) as tx:
            assert [hold_of_vehicle(tx, vehicle_id) for vehicle_id in of_vehicle] == [None] * len(of_vehicle)
    record_property(
        "figure", f"{database}: {KILLS} kills, {len(buyers.quotes)} quotes and {len(buyers.holds)} holds, none lost"
    )
