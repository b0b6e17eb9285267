"""The client works with asyncio and with trio, and in programs without an event loop: `SyncDealerAgent`."""

import asyncio
import inspect
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.client.dealers import CONSENT, CUSTOMER, PAGE, application, card, result

from dealer_agent.client import DealerAgent, Retries, SyncDealerAgent, errors
from dealer_agent.client.arguments import Consent
from dealer_agent.protocol.skill import SKILLS

pytestmark = pytest.mark.outside_protocol("the client library")

ROOT = Path(__file__).parents[2]
URL = "http://dealer.test"


def consent() -> Consent:
    return {**CONSENT, "granted_at": datetime.now(UTC)}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_finds_a_vehicle_and_sends_a_lead_with_each_event_loop(demo: str, backend: str) -> None:
    async def shop() -> None:
        async with DealerAgent.discover(demo, verify_signature=True) as agent:
            every = [vehicle async for vehicle in agent.search_all(make=["Honda"], page_size=10)]
            assert len(every) == (await agent.search(make=["Honda"])).total
            vehicle = await agent.vehicle(vin=every[0].vin, timeout=60)
            receipt = await agent.submit_lead(
                customer=CUSTOMER,
                consent=consent(),
                source_agent="Test Agent",
                vehicle_of_interest={"vehicle_id": vehicle.vehicle_id},
            )
            assert receipt.status in ("received", "duplicate")

    anyio.run(shop, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_waits_before_a_retry_with_each_event_loop(backend: str) -> None:
    answers = iter([503, 200])

    def respond(body: bytes) -> tuple[int, object, dict[str, str]]:
        return next(answers), result(body, PAGE), {"retry-after": "0"}

    async def search() -> int:
        app = application(card(URL), respond)
        async with DealerAgent.discover(URL, app=app, retries=Retries(first_pause_seconds=0.0)) as agent:
            return (await agent.search()).total

    assert anyio.run(search, backend=backend) == 1


def test_a_program_without_an_event_loop_makes_the_same_calls(demo: str) -> None:
    with SyncDealerAgent.discover(demo) as agent:
        assert {skill.id for skill in SKILLS} <= agent.card.skills
        page = agent.search(make=["Honda"], sort="-price", limit=5)
        assert agent.facets(make=["Honda"]).makes is not None
        vehicles = agent.search_all(make=["Honda"], page_size=10)
        assert len([vehicle.vehicle_id for vehicle in vehicles]) == page.total
        assert vehicles.skipped == []
        vehicle = agent.vehicle(vin=page.vehicles[0].vin, zip="37201", timeout=60)
        assert vehicle.zip == "37201"
        assert agent.information().rooftops
        receipt = agent.submit_lead(customer=CUSTOMER, consent=consent(), source_agent="Test Agent")
        assert receipt.status in ("received", "duplicate")
        with pytest.raises(errors.VehicleNotFound):
            agent.vehicle(vin="1HGCM82633A004352")
        with pytest.raises(errors.InvalidRequest, match="did you mean make"):
            agent.search_all(makes=["Honda"])  # type: ignore[call-arg]
    agent.close()


def test_every_method_of_the_client_is_one_of_the_synchronous_client_too() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(DealerAgent) - {"aclose"} == public(SyncDealerAgent) - {"card", "close"}
    with sync() as agent:
        for name in ("ask", "search", "submit_lead"):
            assert inspect.getdoc(getattr(agent, name)) == inspect.getdoc(getattr(DealerAgent, name))


def sync(**options: Any) -> SyncDealerAgent:
    app = application(card(URL), lambda body: (200, result(body, PAGE), {}))
    return SyncDealerAgent.discover(URL, app=app, **options)


def test_it_works_inside_a_running_event_loop_and_in_several_threads() -> None:
    async def inside() -> int:
        with sync() as agent:
            return agent.search().total

    assert asyncio.run(inside()) == 1
    totals: list[int] = []
    with sync() as agent:
        threads = [threading.Thread(target=lambda: totals.append(agent.search().total)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert totals == [1, 1, 1, 1]


def test_a_failed_discovery_leaves_no_thread() -> None:
    with pytest.raises(errors.NotADealerAgent):
        SyncDealerAgent.discover(URL, app=application({}, lambda _: (200, b"", {})))
    assert "dealer-agent client" not in [thread.name for thread in threading.enumerate()]


def test_a_program_that_does_not_close_the_client_ends() -> None:
    program = "from tests.client.test_ways_to_run import sync\nagent = sync()\nprint(agent.search().total)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout == "1\n"
