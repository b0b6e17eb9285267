"""The consent of a person reaches the call that waits for it, at any worker and any machine, also after a kill."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp_types as types
import pytest
from mcp.client.client import Client
from tests.acceptance.dealers import stocked_dealer
from tests.acceptance.replicas import platform
from tests.acceptance.running import PATIENCE_SECONDS, Running, eventually, serving, succeed_here
from tests.server.mcp_calls import OLD
from tests.server.mcp_streams import answer_to, initialize, lead_call
from tests.servers.haproxy import StartBalancer
from tests.storage.service_role import prepared_schema

pytestmark = pytest.mark.outside_protocol("MCP")

ACCEPT = {"accept": "application/json, text/event-stream", "mcp-protocol-version": OLD}


def lead_of(email: str) -> dict[str, Any]:
    """The call of `lead_submit` for a person."""
    return lead_call({"customer": {"first_name": "Jo", "last_name": "Doe", "email": email}})


class Host:
    """A host at one address, with a session that may come from another one. Each request has a new connection."""

    def __init__(self, url: str, session: str | None = None) -> None:
        self.url = url
        self.session = session or str(self._post(initialize()).headers["mcp-session-id"])

    def answer(self, question: dict[str, Any], **ticks: bool) -> None:
        """Sends the answer of the person."""
        assert self._post(answer_to(question, "accept", **ticks)).status_code == 202

    @contextmanager
    def stream(self, body: dict[str, Any] | None = None, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
        """The events of a call; without a body, of a stream that broke."""
        sent = ACCEPT | {"mcp-session-id": self.session}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        method = "GET" if body is None else "POST"
        with httpx.stream(method, self.url, json=body, headers=sent, timeout=PATIENCE_SECONDS) as response:
            assert response.status_code == 200, response.read()
            yield events(response)

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        headers = ACCEPT | ({"mcp-session-id": self.session} if hasattr(self, "session") else {})
        return httpx.post(self.url, json=body, headers=headers, timeout=PATIENCE_SECONDS)


def events(response: httpx.Response) -> Iterator[dict[str, str]]:
    """The events that have a message, as their fields."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                yield fields
            fields = {}


def result_of(event: dict[str, str]) -> dict[str, Any]:
    """The structured result of a call."""
    found: dict[str, Any] = json.loads(event["data"])["result"]["structuredContent"]
    return found


def test_any_worker_takes_the_answer(served: Running) -> None:
    # The kernel gives a new connection to either worker.
    host = Host(f"{served.url}/mcp")
    for number in range(3):
        with host.stream(lead_of(f"worker-{number}@example.com")) as stream:
            host.answer(json.loads(next(stream)["data"]), email=True)
            assert result_of(next(stream))["status"] == "received"


@pytest.mark.soak
def test_a_lead_survives_the_death_of_the_worker_that_asks(tmp_path: Path) -> None:
    folder = stocked_dealer(tmp_path / "dealer")
    with serving(folder, workers=2) as running:
        host = Host(f"{running.url}/mcp")
        with host.stream(lead_of("killed@example.com")) as stream:
            asked = next(stream)
            dead = running.workers()
            for worker in dead:
                os.kill(worker, signal.SIGKILL)
            with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                next(stream)
        eventually("others serve", lambda: not set(running.workers()) & set(dead) and _is_ready(running))
        host.answer(json.loads(asked["data"]), email=True)
        with host.stream(last_event_id=asked["id"]) as stream:
            lead_id = result_of(next(stream))["lead_id"]
        assert lead_id in succeed_here("leads", "list", "--json", "--dir", folder)


def test_a_stop_of_the_service_does_not_wait_for_a_person(tmp_path: Path) -> None:
    with serving(stocked_dealer(tmp_path / "dealer")) as running:
        host = Host(f"{running.url}/mcp")
        with host.stream(lead_of("stopped@example.com")) as stream:
            next(stream)
            running.signal(signal.SIGTERM)
            # The stream ends in good order: the host continues it elsewhere.
            assert next(stream, None) is None


@pytest.mark.soak
def test_any_machine_takes_the_answer_and_continues_for_one_that_died(
    tmp_path: Path, postgresql_server: str, load_balancer: StartBalancer
) -> None:
    with prepared_schema(postgresql_server) as urls, platform(tmp_path, *urls) as service:
        first, second = service.add_replica(), service.add_replica()
        (dealer, *_) = (each for each in service.dealers if not each.needs_token)
        path = f"/d/{dealer.dealer_id}/mcp"
        here = Host(first.url + path)
        there = Host(second.url + path, here.session)
        with here.stream(lead_of("elsewhere@example.com")) as stream:
            there.answer(json.loads(next(stream)["data"]), email=True)
            assert result_of(next(stream))["status"] == "received"
        balancer = load_balancer([first.port, second.port])
        _ask_through(balancer.url + path, "balanced@example.com", [])
        with here.stream(lead_of("machine@example.com")) as stream:
            asked = next(stream)
            first.kill_all()
        there.answer(json.loads(asked["data"]), email=True)
        with there.stream(last_event_id=asked["id"]) as stream:
            assert result_of(next(stream))["status"] == "received"
        third = service.add_replica()
        balancer.configure([second.port, third.port])
        # The official client continues its stream by itself.
        _ask_through(balancer.url + path, "continued@example.com", [second])
        assert sum(service.stored_leads().values()) == 4


def _ask_through(url: str, email: str, killed: list[Running]) -> None:
    """The official client sends a lead. While the person decides, these machines die."""

    async def person(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
        for machine in killed:
            machine.kill_all()
        return types.ElicitResult(action="accept", content={"email": True})

    asks: Any = person

    async def send() -> str:
        async with Client(url, mode="legacy", elicitation_callback=asks) as client:
            result = await client.call_tool("lead_submit", lead_of(email)["params"]["arguments"])
        assert result.structured_content is not None, result
        status: str = result.structured_content["status"]
        return status

    assert anyio.run(send) == "received"


def _is_ready(running: Running) -> bool:
    try:
        return httpx.get(f"{running.url}/readyz", timeout=PATIENCE_SECONDS).status_code == 200
    except httpx.TransportError:
        return False
