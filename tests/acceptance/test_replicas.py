"""Three replicas of an installation behind a real HAProxy: one is stopped, one is killed, one is added, under load.

They share a PostgreSQL server.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.acceptance.asking import body, error_payload, lead
from tests.acceptance.replicas import CLIENTS, loaded, platform
from tests.acceptance.running import PATIENCE_SECONDS
from tests.installation.marked_dealers import INSTALLATION, MarkedDealer
from tests.servers.haproxy import StartBalancer
from tests.servers.valkey import Valkey
from tests.soak import SOAK
from tests.storage.service_role import prepared_schema

pytestmark = pytest.mark.outside_protocol("replicas of a service")

ROUNDS = 10 if SOAK else 1
SEARCHES, LEADS = 40, 6


@pytest.fixture
def database(postgresql_server: str) -> Iterator[tuple[str, str]]:
    """A prepared database: the URL of a superuser, and that of the service role."""
    with prepared_schema(postgresql_server) as urls:
        yield urls


@pytest.mark.soak
def test_replicas_stop_die_and_join_under_load(
    tmp_path: Path, database: tuple[str, str], load_balancer: StartBalancer, record_property: Any
) -> None:
    """A clean stop loses no request, a kill at most those in progress. Every lead is stored once."""
    stopped = killed = lost = 0
    with platform(tmp_path, *database) as service:
        running = [service.add_replica() for _ in range(3)]
        balancer = load_balancer([replica.port for replica in running])
        with loaded(balancer.url, service.dealers) as load:
            load.wait_for_answers()
            for _ in range(ROUNDS):
                leaving = running.pop(0)
                leaving.signal(signal.SIGTERM)
                assert leaving.process.wait(PATIENCE_SECONDS) == 0, leaving.stderr()
                load.wait_for_answers()
                stopped += 1
                assert load.lost[lost:] == [], "a clean stop loses no request"

                running.pop(0).kill_all()
                load.wait_for_answers()
                killed += 1
                assert len(load.lost) - lost <= CLIENTS, load.lost[lost:]
                lost = len(load.lost)

                running += [service.add_replica() for _ in range(2)]
                balancer.configure([replica.port for replica in running])
                load.wait_for_answers()
                assert load.lost[lost:] == [], "a new replica loses no request"
        answered = Counter(load.leads.values())
        assert set(answered.values()) == {1}, "each lead has its own id"
        assert service.stored_leads() == answered
        for replica in running:
            assert '"event":"fault"' not in replica.stderr()
    figure = f"{load.answered:,} requests, {len(answered):,} leads: {stopped} replicas stopped, {killed} killed, "
    record_property("figure", f"{figure}{2 * ROUNDS} added; {len(load.lost)} requests lost at kills")


@pytest.mark.soak
def test_limits_hold_across_replicas(
    tmp_path: Path, database: tuple[str, str], load_balancer: StartBalancer, valkey_server: Valkey
) -> None:
    toml = INSTALLATION.replace('inventory_search = ""', f'inventory_search = "{SEARCHES}/hour"')
    toml = toml.replace('lead_submit = ""', f'lead_submit = "{LEADS}/hour"')
    with ExitStack() as stack:
        service = stack.enter_context(platform(tmp_path, *database, toml, RATE_LIMIT_URL=valkey_server.patient_url))
        balancer = load_balancer([service.add_replica().port for _ in range(3)])
        threads = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        first, second = (dealer for dealer in service.dealers if not dealer.needs_token)

        def statuses(dealer: MarkedDealer, skill: str, times: int) -> Counter[int]:
            def one(number: int) -> int:
                members = lead(number) if skill == "lead.submit" else {}
                url = f"{balancer.url}/d/{dealer.dealer_id}/message:send"
                got = httpx.post(url, json=body(skill, **members), timeout=PATIENCE_SECONDS)
                if got.status_code == 429:
                    assert error_payload(got)["code"] == "RATE_LIMITED"
                return got.status_code

            return Counter(threads.map(one, range(times)))

        # The limits of a dealer are its own.
        for dealer in (first, second):
            assert statuses(dealer, "inventory.search", 60) == {200: SEARCHES, 429: 60 - SEARCHES}
            assert statuses(dealer, "lead.submit", 15) == {200: LEADS, 429: 15 - LEADS}
