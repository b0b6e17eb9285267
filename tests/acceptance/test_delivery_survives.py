"""An answered lead is delivered, whatever is killed and however the receivers fail (docs/protocol.md#durability).

Buyers send leads to a service with two workers, and repeat each request until it is answered. Meanwhile SIGKILL ends a
worker, the supervisor, every process of the service or, on PostgreSQL, a backend or the whole database server. A normal
run kills each once: the first three on SQLite, the others on PostgreSQL. The long run has 200 kills on each database.
It takes about 15 minutes a database on a free machine with 2 cores.
"""

import itertools
import os
import random
import re
import shutil
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from lxml import etree
from tests.acceptance.asking import answer, body, lead
from tests.acceptance.dealers import DEALER_TOML, stocked_dealer
from tests.acceptance.running import COMMAND, Running, command_here, eventually, start, succeed
from tests.delivery.receivers import HttpReceiver, MailReceiver, always, at_random, receiving_http, receiving_mail
from tests.soak import SOAK
from tests.storage.calls import list_leads, read
from tests.storage.databases import PostgreSQL, fresh_schema, own_postgresql

from dealer_agent.config import load_settings
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.store import Store

KILLS = 200 if SOAK else 0
"""So many on each database in the long run, where each kind is among them on each database."""
LEADS_BETWEEN_KILLS = 5
BUYERS = 3
SHARE_OF_FAILURES = 0.3
REPEATED, DUPLICATE, VISIT = 0.25, 0.15, 0.25
"""The shares of requests that repeat an idempotency key, that repeat a customer without a key, and that ask for a
visit."""
BEFORE_THE_CHANNELS = '\n[[rooftops]]\nname = "Acceptance Motors South"'
CHANNELS = {"crm-mail", "crm-web", "folder"}
CRM = "leads@crm.example.com"

ROOFTOP = f"""
[rooftops.visits.test_drive]
places = 50

[[rooftops.deliver.smtp]]
name = "crm-mail"
to = ["{CRM}"]

[[rooftops.deliver.http]]
name = "crm-web"
url = "{{url}}"
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
    rooftop, settings = ROOFTOP.format(url=url), SETTINGS.format(port=port)
    (folder / "dealer.toml").write_text(north + rooftop + BEFORE_THE_CHANNELS + south + settings, encoding="utf-8")
    return folder


def some_monday(draw: random.Random) -> str:
    """A quarter of an hour within the opening hours of next Monday."""
    now = datetime.now(ZoneInfo("America/New_York"))
    monday = now.replace(hour=10, minute=0, second=0, microsecond=0) + timedelta(days=7 - now.weekday())
    return (monday + timedelta(minutes=15 * draw.randrange(32))).isoformat()


class Buyers:
    """Threads that send leads, and repeat each request until it is answered."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        """Where the service is now."""
        self.lead_ids: set[str] = set()
        """The leads that were answered."""
        self.answers: dict[str, set[bytes]] = defaultdict(set)
        """The different answers to each idempotency key; ids of messages left out."""
        self.statuses: Counter[str] = Counter()
        self.answered = 0
        self.problems: list[str] = []
        self._numbers = itertools.count(1)
        self._sent: list[dict[str, Any]] = []
        self._stops = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(seed + n,), daemon=True) for n in range(BUYERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Waits until every request that was sent is answered."""
        self._stops.set()
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive()
        assert not self.problems, self.problems

    def _request(self, draw: random.Random) -> dict[str, Any]:
        kind = draw.random()
        if self._sent and kind < REPEATED:
            return draw.choice(self._sent[-20:])
        if self._sent and kind < REPEATED + DUPLICATE:
            again = {**draw.choice(self._sent[-5:]), "message": f"One more question {draw.random()}"}
            again.pop("idempotency_key")
            return again
        number = next(self._numbers)
        made = lead(number, idempotency_key=f"key-{number}")
        if draw.random() < VISIT:
            made["appointment"] = {"appointment_type": "test_drive", "appointment_at": some_monday(draw)}
        self._sent.append(made)
        return made

    def _send(self, seed: int) -> None:
        draw = random.Random(seed)
        while not (self._stops.is_set() or self.problems):
            request = self._request(draw)
            response = self._answer(request)
            if response is None:
                return
            told = answer(response, "lead.submit")
            if key := request.get("idempotency_key"):
                self.answers[key].add(re.sub(rb'"messageId":"[0-9A-Z]{26}"', b"", response.content))
            self.lead_ids.add(told["lead_id"])
            self.statuses[told["status"]] += 1
            self.answered += 1
            time.sleep(draw.uniform(0, 0.2))

    def _answer(self, request: dict[str, Any]) -> httpx.Response | None:
        """The response to a request that is repeated until there is one; None after one that nobody expects."""
        until = time.monotonic() + 240
        while time.monotonic() < until:
            try:
                sent = body("lead.submit", **request)
                response = httpx.post(f"{self.url}/message:send", json=sent, timeout=60, verify=False)
            except httpx.TransportError:
                response = None
            if response is not None and response.status_code == 200:
                return response
            if response is not None and response.status_code not in (429, 500, 503):
                self.problems.append(f"{response.status_code} {response.text}")
                return None
            time.sleep(0.1)
        self.problems.append("no answer")
        return None


class Machine:
    """A service with two workers, what it runs on, and ways to kill parts of it."""

    def __init__(self, folder: Path, environment: dict[str, str], server: PostgreSQL | None) -> None:
        self._folder = folder
        self._environment = environment
        self._server = server
        self.running = self._start()

    def kinds(self) -> list[Callable[[], None]]:
        """What can be killed. Each of them starts again what does not start by itself."""
        of_the_service = [self.kill_worker, self.kill_supervisor, self.kill_service]
        if self._server is None:
            return of_the_service
        of_the_database = [self.kill_backend, self.kill_server]
        return [*of_the_service, *of_the_database] if SOAK else of_the_database

    def kill_worker(self) -> None:
        workers = eventually("a worker", self.running.workers)
        os.kill(random.choice(workers), signal.SIGKILL)

    def kill_supervisor(self) -> None:
        orphans = self.running.workers()
        self.running.process.kill()
        self.running.process.wait()
        self.running = self._start()
        eventually("the workers are gone", lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))

    def kill_service(self) -> None:
        self.running.kill_all()
        self.running = self._start()

    def kill_backend(self) -> None:
        assert self._server is not None
        self._server.kill_backend()

    def kill_server(self) -> None:
        assert self._server is not None
        self._server.kill()
        self._server.start()

    def wait_for(self, buyers: Buyers) -> None:
        """Waits until some more leads are answered."""

        def answered() -> bool:
            assert self.running.process.poll() is None, "the service stopped by itself"
            return buyers.answered >= wanted or bool(buyers.problems)

        wanted = buyers.answered + LEADS_BETWEEN_KILLS
        eventually("leads are answered", answered, every=0.005)
        assert not buyers.problems, buyers.problems

    def _start(self) -> Running:
        return start(self._folder, workers=2, program=(COMMAND,), **self._environment)


def lead_id_in(adf: bytes) -> str:
    found = etree.fromstring(adf).findtext("prospect/id")
    assert found is not None
    return found


def by_delivery(received: Iterable[tuple[str, bytes]]) -> tuple[dict[str, str], int]:
    """The lead of each delivery that a receiver got, and how many repeats there were; all of one id are the same."""
    bodies: dict[str, list[bytes]] = defaultdict(list)
    for delivery_id, adf in received:
        bodies[delivery_id].append(adf)
    different = {delivery_id: set(attempts) for delivery_id, attempts in bodies.items() if len(set(attempts)) > 1}
    assert different == {}
    repeats = sum(len(attempts) - 1 for attempts in bodies.values())
    return {delivery_id: lead_id_in(attempts[0]) for delivery_id, attempts in bodies.items()}, repeats


def mails_to_the_crm(mail: MailReceiver) -> Iterator[tuple[str, bytes]]:
    """Delivery id and document of each. Customers get mails too."""
    for taken in mail.taken:
        if taken.recipients == [CRM]:
            message = taken.message
            yield str(message["Message-ID"]).strip("<>").partition("@")[0], message.get_content().encode()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, PostgreSQL | None]]:
    """A database, and its server where it has one. Other tests need their server alive, so this one is apart."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url"), None
        return
    with own_postgresql() as server, fresh_schema(server.url) as url:
        yield url, server


PAUSED_LEADS = 12
PAUSED = f"""
import asyncio, os, signal
from dealer_agent.cli import main
from dealer_agent.delivery.outlets.http import HttpOutlet
from dealer_agent.delivery.outlets.mail import CrmMailOutlet

go, begun = asyncio.Event(), []

def gated(send):
    async def wait(*given):
        begun.append(1)
        if len(begun) == {2 * PAUSED_LEADS}:
            await asyncio.sleep(1)  # No transaction is open then.
            os.kill(os.getpid(), signal.SIGSTOP)
            go.set()
        await go.wait()
        return await send(*given)
    return wait

for outlet in (HttpOutlet, CrmMailOutlet):
    outlet.send = gated(outlet.send)
main()
"""
"""The command that stops when it is about to send all leads by HTTP and by mail, and goes on with SIGCONT."""


def is_stopped(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.mark.soak
@pytest.mark.outside_protocol("deliveries of several processes")
def test_a_sender_that_was_paused_for_longer_than_its_lease_sends_nothing_again(
    tmp_path: Path, postgresql_url: str
) -> None:
    web, mail = HttpReceiver(always("take")), MailReceiver(always("take"))
    with ExitStack() as stack:
        stack.enter_context(receiving_http(web))
        stack.enter_context(receiving_mail(mail))
        folder = dealer_with_channels(tmp_path / "store", web.url, mail.port, {"DATABASE_URL": postgresql_url})
        other_folder = shutil.copytree(folder, tmp_path / "other")
        paused = start(folder, program=(sys.executable, "-c", PAUSED), DATABASE_URL=postgresql_url)
        stack.callback(paused.kill_all)
        threads = stack.enter_context(ThreadPoolExecutor(PAUSED_LEADS))
        sent = [body("lead.submit", **lead(number)) for number in range(PAUSED_LEADS)]
        answers = [threads.submit(httpx.post, f"{paused.url}/message:send", json=each, timeout=240) for each in sent]
        eventually("it stops", lambda: is_stopped(paused.process.pid))
        stack.callback(paused.signal, signal.SIGCONT)
        other = start(other_folder, DATABASE_URL=postgresql_url)
        stack.callback(other.kill_all)

        def arrived() -> list[int]:
            return [len(web.taken), len(list(mails_to_the_crm(mail)))]

        eventually("the other process sends them", lambda: arrived() == [PAUSED_LEADS] * 2)
        paused.signal(signal.SIGCONT)
        assert {answer.result().status_code for answer in answers} == {200}

        def attempts() -> list[str]:
            return [line["event"] for line in paused.logged() if line.get("channel") in ("crm-web", "crm-mail")]

        eventually("it gives up its attempts", lambda: len(attempts()) == 2 * PAUSED_LEADS)
        assert set(attempts()) == {"delivery not sent"}
        assert arrived() == [PAUSED_LEADS] * 2


@pytest.mark.soak
@pytest.mark.requirement("durable-before-answer")
def test_every_answered_lead_is_delivered_though_receivers_fail_and_processes_are_killed(
    tmp_path: Path, record_property: Any, database: tuple[str, PostgreSQL | None]
) -> None:
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    web = HttpReceiver(at_random(SHARE_OF_FAILURES, seed))
    mail = MailReceiver(at_random(SHARE_OF_FAILURES, seed + 1))
    url, server = database
    environment = {"DATABASE_URL": url}
    with receiving_http(web), receiving_mail(mail):
        folder = dealer_with_channels(tmp_path / "store", web.url, mail.port, environment)
        settings = load_settings(folder, environment)
        machine = Machine(folder, environment, server)
        try:
            buyers = Buyers(machine.running.url, seed)
            kinds = machine.kinds()
            # A worker most often: it is replaced soon, and everything else takes seconds to start.
            weights = [3, *[1] * (len(kinds) - 1)]
            kills = [*kinds, *draw.choices(kinds, weights, k=max(0, KILLS - len(kinds)))]
            draw.shuffle(kills)
            for kill in kills:
                machine.wait_for(buyers)
                time.sleep(draw.uniform(0, 0.3))
                kill()
                buyers.url = machine.running.url
            machine.wait_for(buyers)
            buyers.stop()
            web.behaviour = mail.behaviour = always("take")
            eventually("two workers", lambda: len(machine.running.workers()) == 2)
            with Store.open(settings.database_url, settings.cipher) as store:
                stored = {record.lead_id for record in read(store, settings.dealer.id, list_leads, 10**6)}

                def nothing_waits() -> bool:
                    command_here("deliveries", "retry", "--all", "--dir", folder, DATABASE_URL=url)
                    return not read(store, settings.dealer.id, list_deliveries, 1, state="waiting")

                eventually("everything is sent", nothing_waits, seconds=1200, every=1)
                rows = [
                    row for row in read(store, settings.dealer.id, list_deliveries, 10**6) if row.channel in CHANNELS
                ]
            succeed("consent", "verify", "--dir", folder, DATABASE_URL=url)
        finally:
            machine.running.kill_all()
    assert buyers.lead_ids <= stored
    assert {key: told for key, told in buyers.answers.items() if len(told) > 1} == {}
    assert {row.state for row in rows} == {"sent"}

    mailed, mail_repeats = by_delivery(mails_to_the_crm(mail))
    posted, web_repeats = by_delivery((taken.headers["x-delivery-id"], taken.body) for taken in web.taken)
    filed, _ = by_delivery((file.stem, file.read_bytes()) for file in (folder / "out").glob("*.xml"))
    for channel, arrived in (("crm-mail", mailed), ("crm-web", posted), ("folder", filed)):
        assert {row.delivery_id: row.lead_id for row in rows if row.channel == channel} == arrived
        assert set(arrived.values()) == stored
    killed = Counter(kill.__name__ for kill in kills)
    record_property(
        "figure",
        f"Deliveries, {url.partition(':')[0]} (seed {seed}): {buyers.answered} requests answered "
        f"{dict(buyers.statuses)}, {len(buyers.lead_ids)} leads answered, {len(stored)} stored; kills {dict(killed)}; "
        f"receivers did {dict(mail.did)} and {dict(web.did)}; "
        f"repeats to be dropped by id: {mail_repeats} by mail, {web_repeats} by HTTP",
    )
