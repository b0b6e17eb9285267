"""Replicas of an installation: real commands, each with its own copy of the folder, and clients that load them.

A client whose request is not answered sends it again with the same idempotency key.
"""

import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from tests.acceptance.asking import body, lead
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, start
from tests.installation.marked_dealers import INSTALLATION, SHARED_VIN, MarkedDealer, make_marked, marked_dealers
from tests.soak import SOAK

ANSWERS = 400 if SOAK else 40
"""How many requests are answered between two changes of the replicas."""
CLIENTS = 6


@dataclass
class Platform:
    """An installation on PostgreSQL. Its replicas run until the end of the test."""

    folder: Path
    admin_url: str
    env: dict[str, str]
    dealers: list[MarkedDealer]
    replicas: list[Running] = field(default_factory=list)

    def add_replica(self) -> Running:
        """Starts a replica with a copy of the folder, as another machine has it."""
        folder = self.folder.with_name(f"replica-{len(self.replicas)}")
        shutil.copytree(self.folder, folder)
        self.replicas.append(start(folder, workers=1, **self.env))
        return self.replicas[-1]

    def stored_leads(self) -> Counter[tuple[str, str]]:
        """How many leads the database has, by dealer and lead id."""
        with psycopg.connect(self.admin_url) as connection:
            return Counter(connection.execute("SELECT dealer_id, lead_id FROM leads").fetchall())


@contextmanager
def platform(
    tmp_path: Path, admin_url: str, service_url: str, toml: str = INSTALLATION, **env: str
) -> Iterator[Platform]:
    """An installation with stock and without replicas, in a prepared database."""
    dealers = marked_dealers()
    given = {"DATABASE_URL": service_url, **env}
    installation = make_marked(tmp_path / "installation", dealers, given, toml)
    made = Platform(installation.folder, admin_url, given, dealers)
    try:
        yield made
    finally:
        for replica in made.replicas:
            replica.kill_all()


@dataclass
class Load:
    """Clients that submit leads and read, until they are stopped. `lost` are requests without a response.

    `leads` has the dealer and the lead id of each answered lead, by idempotency key. `longest_gap` is the longest time
    in seconds without an answered lead.
    """

    url: str
    dealers: list[MarkedDealer]
    answered: int = 0
    leads: dict[str, tuple[str, str]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    most_lost: int = 1000
    longest_gap: float = 0
    _last_lead: float = field(default_factory=time.monotonic)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, number: int) -> None:
        """One client: a lead, then two reads, and again."""
        with httpx.Client(timeout=PATIENCE_SECONDS) as client:
            turn = 0
            while not self._stopped.is_set():
                turn += 1
                dealer = self.dealers[(number + turn) % len(self.dealers)]
                key = f"client-{number}-{turn}"
                lead_id = self._ask(client, dealer, "lead.submit", **_members(key, number * 100_000 + turn))["lead_id"]
                with self._lock:
                    self.leads[key] = dealer.dealer_id, lead_id
                    now = time.monotonic()
                    self.longest_gap = max(self.longest_gap, now - self._last_lead)
                    self._last_lead = now
                self._ask(client, dealer, "inventory.search")
                self._ask(client, dealer, "inventory.vehicle", vin=SHARED_VIN)

    def _ask(self, client: httpx.Client, dealer: MarkedDealer, skill: str, **members: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {dealer.token}"} if dealer.needs_token else {}
        while True:
            try:
                got = client.post(
                    f"{self.url}/d/{dealer.dealer_id}/message:send", json=body(skill, **members), headers=headers
                )
            except httpx.TransportError as problem:
                self._lose(f"{skill}: {problem!r}")
                continue
            if got.status_code == 200:
                with self._lock:
                    self.answered += 1
                data: dict[str, Any] = got.json()["message"]["parts"][0]["data"]["data"]
                return data
            self._lose(f"{skill}: {got.status_code} {got.text[:200]}")

    def _lose(self, what: str) -> None:
        with self._lock:
            self.lost.append(what)
        assert len(self.lost) < self.most_lost, self.lost[-5:]
        time.sleep(0.05)

    def stop(self) -> None:
        """Each client ends after its current turn."""
        self._stopped.set()

    def wait_for_answers(self) -> None:
        """Waits until more requests are answered."""
        wanted = self.answered + ANSWERS
        eventually("requests are answered", lambda: self.answered >= wanted)


def _members(key: str, number: int) -> dict[str, Any]:
    return lead(number, idempotency_key=key)


@contextmanager
def loaded(url: str, dealers: list[MarkedDealer], most_lost: int = 1000) -> Iterator[Load]:
    """Clients during a block. A client that fails, or too many requests without a response, make the block fail."""
    load = Load(url, dealers, most_lost=most_lost)
    with ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(load.run, number) for number in range(CLIENTS)]
        try:
            yield load
        finally:
            load.stop()
        for client in clients:
            client.result()
