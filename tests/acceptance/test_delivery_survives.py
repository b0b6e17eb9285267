"""Leads reach their CRMs whatever fails: receivers at random, and the service by SIGKILL (contract, part 10).

A hundred leads on SQLite in a normal run, a thousand on each database in the long one. What is proved: every answered
lead arrives by mail, by HTTP and as a file at least once; every attempt of a delivery has one id, so that each receiver
can drop repeats.
"""

import itertools
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
from lxml import etree
from tests.acceptance.asking import answer, body, lead
from tests.acceptance.dealers import DEALER_TOML, stocked_dealer
from tests.acceptance.running import Running, eventually, start
from tests.delivery.receivers import HttpReceiver, MailReceiver, at_random, receiving_http, receiving_mail

from dealer_agent.config import load_settings
from dealer_agent.storage.store import Store

SOAK = bool(os.environ.get("SOAK"))
LEADS = 1000 if SOAK else 100
DATABASES = ["sqlite", "postgresql"] if SOAK else ["sqlite"]
KILLS = int(os.environ.get("SOAK_KILLS", "4"))
SHARE_OF_FAILURES = 0.35
BEFORE_THE_CHANNELS = '\n[[rooftops]]\nname = "Acceptance Motors South"'

CHANNELS = """
[[rooftops.deliver.smtp]]
name = "crm-mail"
to = ["leads@crm.example.com"]

[[rooftops.deliver.http]]
name = "crm-web"
url = "{url}"
timeout_seconds = 2

[[rooftops.deliver.directory]]
name = "folder"
path = "out"
"""

SETTINGS = """
[mail]
host = "127.0.0.1"
port = {port}
security = "none"
from_address = "leads@acceptance.example.com"
timeout_seconds = 2

[delivery]
first_retry_seconds = 1
longest_retry_minutes = 1
breaker_seconds = 1
lease_seconds = 10
"""


def dealer_with_channels(folder: Path, url: str, port: int, environment: dict[str, str]) -> Path:
    stocked_dealer(folder, "", None, **environment)
    north, south = DEALER_TOML.split(BEFORE_THE_CHANNELS)
    channels, settings = CHANNELS.format(url=url), SETTINGS.format(port=port)
    (folder / "dealer.toml").write_text(north + channels + BEFORE_THE_CHANNELS + south + settings, encoding="utf-8")
    return folder


class Buyers:
    """Two threads that send leads until the service is gone, and note every answer."""

    _numbers = itertools.count(1)

    def __init__(self, url: str) -> None:
        self.answered: list[str] = []
        self._url = url
        self._threads = [threading.Thread(target=self._send, daemon=True) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        with httpx.Client(timeout=120) as client:
            while True:
                try:
                    sent = body("lead.submit", **lead(next(self._numbers)))
                    response = client.post(f"{self._url}/message:send", json=sent)
                except httpx.TransportError:
                    return
                self.answered.append(answer(response, "lead.submit")["lead_id"])

    def wait_for(self, answers: int) -> None:
        eventually("leads are answered", lambda: len(self.answered) >= answers, every=0.005)

    def join(self) -> list[str]:
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive()
        return self.answered


def kill_at_random(running: Running) -> None:
    """SIGKILL: for one worker, which the other one outlives a little, and then for everything there is."""
    os.kill(random.choice(running.workers()), signal.SIGKILL)
    time.sleep(random.uniform(0, 0.5))
    running.kill_all()


def lead_id_in(adf: bytes) -> str:
    found = etree.fromstring(adf).findtext("prospect/id")
    assert found is not None
    return found


def by_delivery(received: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], int]:
    """The lead of each delivery that a receiver got, and how many repeats there were; all of one id are the same."""
    bodies: dict[str, list[bytes]] = defaultdict(list)
    for delivery_id, adf in received:
        bodies[delivery_id].append(adf)
    assert all(len(set(attempts)) == 1 for attempts in bodies.values())
    repeats = sum(len(attempts) - 1 for attempts in bodies.values())
    return {delivery_id: lead_id_in(attempts[0]) for delivery_id, attempts in bodies.items()}, repeats


@pytest.mark.parametrize("database", DATABASES)
def test_every_answered_lead_is_delivered_though_receivers_fail_and_the_service_is_killed(
    tmp_path: Path, record_property: Any, request: pytest.FixtureRequest, database: str
) -> None:
    seed = random.randrange(2**32)
    web = HttpReceiver(at_random(SHARE_OF_FAILURES, seed))
    mail = MailReceiver(at_random(SHARE_OF_FAILURES, seed + 1))
    answered: list[str] = []
    with receiving_http(web), receiving_mail(mail):
        environment = {"DATABASE_URL": request.getfixturevalue(f"{database}_url")}
        folder = dealer_with_channels(tmp_path / "store", web.url, mail.port, environment)
        settings = load_settings(folder, environment)
        running = start(folder, workers=2, **environment)
        try:
            for _ in range(KILLS):
                buyers = Buyers(running.url)
                buyers.wait_for(LEADS // KILLS + random.randint(0, 5))
                kill_at_random(running)
                answered += buyers.join()
                running = start(folder, workers=2, **environment)
            with Store.open(settings.database_url, settings.vault) as store:
                stored = {record.lead_id for record in store.list_leads(settings.dealer.id, 10**6)}

                def nothing_waits() -> bool:
                    return not store.list_deliveries(settings.dealer.id, 1, state="waiting")

                eventually("everything is sent", nothing_waits, seconds=600 + LEADS, every=0.5)
                rows = store.list_deliveries(settings.dealer.id, 10**6)
        finally:
            running.kill_all()
    assert len(answered) >= LEADS
    assert set(answered) <= stored
    assert {row.state for row in rows} == {"sent"}

    mailed, mail_repeats = by_delivery(
        (str(taken.message["Message-ID"]).strip("<>").partition("@")[0], taken.message.get_content().encode())
        for taken in mail.taken
    )
    posted, web_repeats = by_delivery((taken.headers["x-delivery-id"], taken.body) for taken in web.taken)
    filed, _ = by_delivery((file.stem, file.read_bytes()) for file in (folder / "out").glob("*.xml"))
    for channel, arrived in (("crm-mail", mailed), ("crm-web", posted), ("folder", filed)):
        assert {row.delivery_id: row.lead_id for row in rows if row.channel == channel} == arrived
        assert sorted(arrived.values()) == sorted(stored)
    attempts = {row.channel: 0 for row in rows}
    for row in rows:
        attempts[row.channel] += row.attempts
    record_property(
        "figure",
        f"Deliveries, {database}: {len(answered)} leads answered, {len(stored)} stored, {KILLS} times killed; "
        f"receivers (seed {seed}) did {dict(mail.did)} and {dict(web.did)}; attempts {attempts}; "
        f"repeats to be dropped by id: {mail_repeats} by mail, {web_repeats} by HTTP",
    )
