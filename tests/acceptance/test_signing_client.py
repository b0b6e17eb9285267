"""The buyer's side signs: the client library, `ask --sign`, and any program that uses httpx, with the real service."""

import asyncio
import json
from functools import partial
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.acceptance.asking import body
from tests.acceptance.known_agent import Known
from tests.acceptance.running import COMMAND, command_here, eventually
from tests.client.dealers import CONSENT, CUSTOMER
from tests.servers.key_directory import new_key

from dealer_agent.client import DealerAgent, Signer, SyncDealerAgent, errors


@pytest.mark.requirement("signed-requests")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("path", ["", "/aap/1.3"])
def test_the_service_knows_who_calls_with_the_library(known: Known, binding: Any, path: str) -> None:
    async def search() -> None:
        async with DealerAgent.discover(known.url + path, signer=known.signer, binding=binding) as agent:
            assert (await agent.search(make=["Honda"])).total == 1

    if path and binding == "HTTP+JSON":
        pytest.skip("This version has one binding.")
    assert known.caller_of(lambda: asyncio.run(search())) == known.directory.origin


@pytest.mark.requirement("signed-leads")
def test_a_lead_of_the_library_is_that_of_its_origin(known: Known) -> None:
    lead: dict[str, Any] = {"customer": CUSTOMER, "consent": CONSENT, "source_agent": "Somebody Else"}
    with SyncDealerAgent.discover(known.url, signer=known.signer) as agent:
        receipt = agent.submit_lead(**lead)
    assert known.lead(receipt.lead_id)["caller"] == known.directory.origin


@pytest.mark.requirement("wrong-signature")
def test_a_wrong_signature_is_an_error_with_a_reason_and_advice(known: Known) -> None:
    found: list[errors.AuthRequired] = []

    def is_refused() -> bool:
        stranger = Signer(new_key(), known.directory.origin)
        with SyncDealerAgent.discover(known.url, signer=stranger) as agent:
            try:
                agent.search()
            except errors.AuthRequired as error:
                found.append(error)
        return bool(found)

    eventually("the key is known to be wrong", is_refused)
    assert (found[0].reason, found[0].http_status) == ("unknown_key", 401)
    assert "keys directory --check" in found[0].advice


@pytest.mark.requirement("signed-requests")
def test_any_program_that_uses_httpx_can_sign(known: Known) -> None:
    def post(auth: httpx.Auth | None) -> int:
        with httpx.Client(auth=auth) as client:
            return client.post(f"{known.url}/message:send?a=%20b", json=body("inventory.search")).status_code

    assert known.caller_of(lambda: post(known.signer)) == known.directory.origin
    assert known.caller_of(lambda: post(None)) is None


@pytest.mark.requirement("signed-requests")
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_official_a2a_client_signs_with_our_hook(known: Known, binding: str) -> None:
    async def search() -> None:
        async with httpx.AsyncClient(auth=known.signer, timeout=60) as http:
            card = await A2ACardResolver(http, known.url).get_agent_card()
            config = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=[binding],
                streaming=False,
                accepted_output_modes=["application/json"],
            )
            client = ClientFactory(config).create(card)
            request = ParseDict(body("inventory.search"), SendMessageRequest())
            events = [event async for event in client.send_message(request)]
        (part,) = events[0].message.parts
        assert MessageToDict(part.data)["data"]["total"] == 3

    assert known.caller_of(lambda: asyncio.run(search())) == known.directory.origin


@pytest.mark.outside_protocol("checker")
def test_the_checker_calls_as_a_signed_agent(known: Known) -> None:
    options = ("--only", "signed", "--profile", "dealer-agent", "--leads", "--revision", "1.0.0", "--json")
    done = command_here("check", known.url, *options, *known.options, cwd=None)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert {each["outcome"] for each in found["verdicts"]} == {"pass"}


@pytest.mark.outside_protocol("the command mcp")
def test_the_tools_of_a_host_sign(known: Known) -> None:
    async def search() -> None:
        program = StdioServerParameters(command=COMMAND, args=["mcp", known.url, *known.options])
        async with stdio_client(program) as streams, ClientSession(*streams) as session:
            await session.initialize()
            answer = await session.call_tool("inventory_search", {})
            assert not answer.is_error

    assert known.caller_of(lambda: asyncio.run(search())) == known.directory.origin


@pytest.mark.requirement("signed-requests")
def test_ask_signs_its_requests_if_a_key_is_given(known: Known) -> None:
    def ask(*options: str) -> None:
        done = command_here("ask", known.url, "search", "--json", *options, cwd=None)
        assert (done.returncode, json.loads(done.stdout)["total"]) == (0, 3)

    assert known.caller_of(partial(ask, *known.options)) == known.directory.origin
    assert known.caller_of(ask) is None


@pytest.mark.requirement("signed-requests")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sign", "KEY"], "go together"),
        (["--as", "https://agent.example"], "go together"),
        (["--sign", "KEY", "--as", "http://agent.example"], "is not the origin of an agent"),
        (["--sign", "none.pem", "--as", "https://agent.example"], "cannot be read"),
        (["--sign", "TRUSTED", "--as", "https://agent.example"], "is not a private key"),
    ],
)
def test_ask_says_what_is_wrong_with_the_options_of_a_signature(known: Known, options: list[str], message: str) -> None:
    files = {"KEY": str(known.file), "TRUSTED": str(known.directory.trusted)}
    done = command_here("ask", known.url, "search", *(files.get(each, each) for each in options), cwd=None)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", " ").split())
