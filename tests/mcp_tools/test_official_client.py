"""The official Python client over HTTP and over stdio, in every revision that it negotiates."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from tests.acceptance.dealers import HONDA_VIN
from tests.acceptance.running import COMMAND, Running, command_here, environment, free_port, succeed_here

pytestmark = [pytest.mark.outside_protocol("MCP"), pytest.mark.anyio]

TRANSPORTS = pytest.mark.parametrize("transport", ["http", "stdio"])
NEW = "2026-07-28"
"""The client does not probe for it: a probe has a timeout, and the first request of a worker imports the SDK."""
JO = {"first_name": "Jo", "last_name": "Doe", "email": "jo@example.com"}


class Person:
    """A person who answers the questions of a host in one way, and remembers them."""

    def __init__(self, action: Any = "accept", **ticks: bool) -> None:
        self._answer = types.ElicitResult(action=action, content={**ticks} if action == "accept" else None)
        self.asked: list[str] = []

    async def answer(self, _: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        return self._answer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def client(
    served: Running, transport: str, mode: str = NEW, person: Person | None = None
) -> AsyncIterator[Client]:
    command = StdioServerParameters(command=COMMAND, args=["mcp", served.url], env=environment())
    asks: Any = None if person is None else person.answer
    server: Any = f"{served.url}/mcp" if transport == "http" else stdio_client(command)
    async with Client(server, mode=mode, elicitation_callback=asks) as opened:
        yield opened


def words(result: Any) -> str:
    text: str = result.content[0].text
    return text


@TRANSPORTS
@pytest.mark.parametrize(("mode", "revision"), [(NEW, NEW), ("legacy", "2025-11-25")])
async def test_the_client_uses_all_tools(served: Running, transport: str, mode: str, revision: str) -> None:
    person = Person(email=True)
    async with client(served, transport, mode, person) as host:
        assert host.protocol_version == revision
        assert mode == NEW or "Acceptance Motors" in (host.instructions or "")
        tools = {tool.name: tool for tool in (await host.list_tools()).tools}
        # The client checks each structured result against the output schema.
        assert (await host.call_tool("dealer_information", {})).structured_content["name"] == "Acceptance Motors"
        assert "Honda (1)" in words(await host.call_tool("inventory_facets", {}))
        found = await host.call_tool("inventory_search", {"filters": {"price_max": 30_000}})
        assert [vehicle["vehicle_id"] for vehicle in found.structured_content["vehicles"]] == [f"vin-{HONDA_VIN}"]
        assert (await host.call_tool("inventory_vehicle", {"vin": HONDA_VIN})).structured_content["price"] == 28_040
        wrong = await host.call_tool("inventory_search", {"filters": {"price_max": "low"}})
        assert wrong.is_error
        assert "/filters/price_max: must be an integer" in words(wrong)
        sent = await host.call_tool("lead_submit", {"customer": JO, "vehicle_of_interest": {"vin": HONDA_VIN}})
    assert tools["lead_submit"].annotations is not None
    assert tools["lead_submit"].annotations.read_only_hint is False
    assert sent.structured_content["status"] in ("received", "duplicate")
    assert [question.partition("\n")[0] for question in person.asked] == ["Call me, Acceptance Motors."]


async def test_a_person_who_declines_sends_nothing(served: Running) -> None:
    person, before = Person("decline"), succeed_here("leads", "list", "--json", "--dir", served.folder)
    async with client(served, "http", person=person) as host:
        result = await host.call_tool("lead_submit", {"customer": JO | {"email": "declined@example.com"}})
    assert words(result).startswith("NOT SENT: The person declined.")
    assert len(person.asked) == 1
    assert succeed_here("leads", "list", "--json", "--dir", served.folder) == before


async def test_a_lead_is_not_sent_from_a_host_that_cannot_show_a_form_and_the_result_says_why(served: Running) -> None:
    async with client(served, "http") as host:
        result = await host.call_tool("lead_submit", {"customer": JO})
    assert words(result).startswith("NOT SENT: Acceptance Motors needs the person's own consent")


@pytest.mark.parametrize("revision", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_the_client_calls_a_tool_in_every_older_revision(served: Running, revision: str) -> None:
    host = types.Implementation(name="old", version="1")
    params = types.InitializeRequestParams(
        protocol_version=revision, capabilities=types.ClientCapabilities(), client_info=host
    )
    async with (
        streamable_http_client(f"{served.url}/mcp") as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        # The client's own `initialize` names only the newest of them.
        answer = await session.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        assert answer.protocol_version == revision
        session.adopt(answer)
        found = await session.call_tool("inventory_search", {"filters": {"make": ["Honda"]}})
    assert words(found).startswith("1 vehicles match.")


async def test_a_lead_of_a_person_has_the_text_that_was_shown(served: Running) -> None:
    person = Person(email=True, sms=True)
    customer = JO | {"email": "shown@example.com", "phone": "+12025550177"}
    async with client(served, "http", person=person) as host:
        sent = await host.call_tool("lead_submit", {"customer": customer})
    shown = succeed_here("leads", "show", sent.structured_content["lead_id"], "--dir", served.folder)
    assert "Call me, Acceptance Motors." in shown
    assert "mcp (MCP)" in shown


def test_the_bridge_says_when_there_is_no_dealer_agent() -> None:
    done = command_here("mcp", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("path", ["/.well-known/agent-card.json"])
def test_the_card_has_the_consent_text_for_bridges(served: Running, path: str) -> None:
    extensions = httpx.get(served.url + path).json()["capabilities"]["extensions"]
    assert {extension["params"]["consent_text"] for extension in extensions} == {"Call me, Acceptance Motors."}
