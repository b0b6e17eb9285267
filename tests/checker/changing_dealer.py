"""A dealer whose data changes from second to second: a feed is imported again and again, and buyers send leads.

All is in one process. `changes` says how often something changed.
"""

import asyncio
import csv
import io
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from tests.installation.platform import PUBLIC_URL, make_installation, run_installation
from tests.server.dealership import NO_LIMITS, Dealership, message

from dealer_agent.config.installation import Installation
from dealer_agent.demo import demo_dealer_toml
from dealer_agent.feeds.files.checks import EVERY_CHECK
from dealer_agent.feeds.files.reader import read_feed
from dealer_agent.feeds.importing import import_feed
from dealer_agent.self_test.stock import small_stock
from dealer_agent.storage.installation.dealer_registry import add_dealer, change_settings
from dealer_agent.storage.store import Store

DEALER = "juniper-hollow"
URL = f"{PUBLIC_URL}/d/{DEALER}"
SETTINGS = demo_dealer_toml().replace("[service]\nopen = true\n", "") + NO_LIMITS
OTHER_HOURS = SETTINGS.replace('"09:00-20:00"', '"10:00-18:00"').replace('"09:00-19:00"', '"11:00-17:00"')


class ChangingFeed:
    """A feed of which units are sold, arrive again and get other prices. Some units do not say when they changed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._rows = list(csv.DictReader(io.StringIO(small_stock().decode())))
        self._away: list[dict[str, str]] = []

    def next(self) -> bytes:
        """The feed after some changes."""
        for _ in range(2):
            self._away.append(self._rows.pop(self._random.randrange(len(self._rows))))
        if len(self._away) > 6:
            self._rows.insert(self._random.randrange(len(self._rows)), self._away.pop(0))
            self._rows.append(self._away.pop(0))
        for row in self._random.sample(self._rows, 5):
            if row["price"]:
                row["price"] = str(int(row["price"]) + self._random.choice((-500, -100, 100, 500)))
            if self._random.random() < 0.5:
                row["updated_at"] = datetime.now(UTC).isoformat()
        text = io.StringIO()
        writer = csv.DictWriter(text, self._rows[0].keys())
        writer.writeheader()
        writer.writerows(self._rows)
        return text.getvalue().encode()


class ChangingDealer:
    """The running dealer. `imports` and `leads` count what happened so far."""

    def __init__(self, installation: Installation, dealership: Dealership, *, seed: int, pause: float) -> None:
        self.dealership = dealership
        self.imports = self.leads = 0
        self._installation, self._pause = installation, pause
        self._feed = ChangingFeed(seed)
        self._end = threading.Event()

    def transport(self, address: str) -> httpx.ASGITransport:
        """A connection from an address."""
        return httpx.ASGITransport(self.dealership.app, client=(address, 40_000))

    def change_hours(self) -> None:
        """The dealer opens later and closes earlier from now on."""
        with self._store() as store, store.write(DEALER) as tx:
            change_settings(tx, OTHER_HOURS.encode(), expected=1, actor="test")

    @contextmanager
    def changing(self, buyers: int) -> Iterator[None]:
        """Within it, the feed is imported once in a pause, and buyers search and send leads."""
        importer = threading.Thread(target=self._import)
        importer.start()
        tasks = [self.dealership.portal.start_task_soon(self._buy, number) for number in range(buyers)]
        try:
            yield
        finally:
            self._end.set()
            importer.join()
            for each in tasks:
                each.result()

    def _store(self) -> Any:
        return Store.open(self._installation.database_url, self._installation.cipher, many_dealers=True)

    def _import(self) -> None:
        dealer = self._installation.dealer_settings(SETTINGS).dealer
        with self._store() as store:
            while not self._end.wait(self._pause):
                feed = read_feed(self._feed.next())
                import_feed(store, dealer, feed, source="feed", at=datetime.now(UTC), accept=EVERY_CHECK)
                self.imports += 1

    async def _buy(self, number: int) -> None:
        chance = random.Random(number)
        async with httpx.AsyncClient(transport=self.transport(f"203.0.113.{number}"), base_url=URL) as client:
            while not self._end.is_set():
                await asyncio.sleep(chance.uniform(0.5, 1.5))
                found = await client.post("/message:send", json=message("inventory.search"))
                if found.status_code == 429:
                    # A busy machine.
                    continue
                vehicle = chance.choice(found.json()["message"]["parts"][0]["data"]["data"]["vehicles"])
                sent = await client.post("/message:send", json=self._lead(number, chance, vehicle))
                self.leads += sent.status_code == 200

    def _lead(self, number: int, chance: random.Random, vehicle: dict[str, Any]) -> dict[str, Any]:
        when = datetime.now(UTC).replace(hour=15, minute=0, second=0) + timedelta(days=chance.randrange(2, 12))
        visit = {
            "appointment_type": chance.choice(("sales", "test_drive")),
            "appointment_at": (when + timedelta(hours=chance.randrange(9))).isoformat(),
        }
        customer = {"first_name": "Ann", "last_name": "Lee", "email": f"ann.{number}.{chance.random()}@example.org"}
        wanted = {"vin": vehicle["vin"]} if "vin" in vehicle else {}
        return message("lead.submit", customer=customer, vehicle_of_interest=wanted, appointment=visit)


@contextmanager
def changing_dealer(folder: Path, *, seed: int, pause: float) -> Iterator[ChangingDealer]:
    """The dealer with its first stock. Nothing changes yet."""
    installation = make_installation(folder)
    with Store.open(installation.database_url, installation.cipher, many_dealers=True) as store:
        with store.registration(DEALER) as tx:
            add_dealer(tx, SETTINGS.encode(), actor="test", listed=True)
        dealer = installation.dealer_settings(SETTINGS).dealer
        import_feed(store, dealer, read_feed(small_stock()), source="feed", at=datetime.now(UTC), accept=EVERY_CHECK)
    with run_installation(installation) as dealership:
        yield ChangingDealer(installation, dealership, seed=seed, pause=pause)
