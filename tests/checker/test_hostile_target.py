"""A target that attacks the checker: with its card, its bodies, and the time that it takes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from dealer_agent.checker.events import Verdict
from dealer_agent.checker.exchange import read_json
from dealer_agent.checker.outcome import NotChecked
from dealer_agent.checker.reports import body_text
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.checker.wire import RUN_BYTES, TargetConnection

pytestmark = pytest.mark.outside_protocol("checker")

URL = "https://dealer.example"
TOKEN = "a-secret-token"


class Drops(httpx.AsyncByteStream):
    """A body that comes slowly and never ends."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)


class Large(httpx.AsyncByteStream):
    """A body of 15 MiB."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(15):
            yield b" " * 2**20


class Target(httpx.AsyncBaseTransport):
    """Serves a card, and notes the requests that are no GET of a document at its own address."""

    def __init__(self, card: dict[str, Any], catalog: dict[str, Any] | None = None, status: int = 200) -> None:
        self.documents = {"/.well-known/agent-card.json": card, "/.well-known/ai-catalog.json": catalog}
        self.status = status
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        document = self.documents.get(request.url.path) if request.url.host == "dealer.example" else None
        if request.method == "GET" and document is not None:
            return httpx.Response(200, stream=httpx.ByteStream(json.dumps(document).encode()))
        self.asked.append(request)
        return httpx.Response(self.status, stream=httpx.ByteStream(b"{}"))


def card(endpoint: str, **members: object) -> dict[str, Any]:
    interface = {"url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    modes = ["application/vnd.proto.inventory-search-request+json"]
    skills = [{"id": "dealer.information"}]
    return {"name": "x", "supportedInterfaces": [interface], "defaultInputModes": modes, "skills": skills} | members


def run(target: Target, token: str | None = None) -> list[Verdict]:
    async def go() -> list[Verdict]:
        async with httpx.AsyncClient(transport=target) as client:
            options = Options(only=("envelope.reply.role",), token=token, rate=10_000)
            return await run_checks(URL, options, client, lambda _: None)

    return asyncio.run(go())


def test_the_token_goes_to_the_origin_of_the_card_only() -> None:
    own, foreign = Target(card(f"{URL}/rpc")), Target(card("https://elsewhere.example/rpc"))
    run(own, TOKEN)
    assert {each.headers["authorization"] for each in own.asked if each.method == "POST"} == {f"Bearer {TOKEN}"}
    run(foreign, TOKEN)
    assert {each.url.host for each in foreign.asked if each.method == "POST"} == {"elsewhere.example"}
    assert not [each for each in foreign.asked if "authorization" in each.headers]


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:5000/admin", "http://169.254.169.254/latest", "http://[::1"])
@pytest.mark.parametrize("modes", [["application/vnd.proto.inventory-search-request+json"], []])
def test_a_card_that_names_a_service_without_tls_elsewhere_is_not_followed(endpoint: str, modes: list[str]) -> None:
    target = Target(card(endpoint, defaultInputModes=modes))
    assert {verdict.outcome for verdict in run(target)} <= {"could not check"}
    assert not [each for each in target.asked if each.url.host != "dealer.example"]


def test_a_card_without_vocabulary_whose_agent_wants_a_token_ends_no_run() -> None:
    [verdict] = run(Target(card(f"{URL}/rpc", defaultInputModes=[]), status=401))
    assert verdict.outcome == "skipped"


def test_a_catalog_with_broken_urls_ends_no_run() -> None:
    kind = "application/a2a-agent-card+json"
    urls = ["http://[", f"{URL}/\u0000", f"{URL}/\ud800"]
    catalog = {"entries": [{"type": kind, "url": url} for url in urls]}
    assert len(run(Target(card(f"{URL}/rpc"), catalog))) == 1


def _wire_error(stream: httpx.AsyncByteStream, seconds: float, requests: int) -> str:
    async def go() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))
        async with httpx.AsyncClient(transport=transport) as client:
            wire = TargetConnection(client, rate=10_000, deadline=time.monotonic() + seconds)
            for _ in range(requests):
                await wire.request("GET", URL, fresh=True)

    with pytest.raises(NotChecked) as caught:
        asyncio.run(go())
    return str(caught.value)


def test_a_response_that_never_ends_is_given_up_at_the_end_of_the_run() -> None:
    assert "No complete response" in _wire_error(Drops(), seconds=2, requests=1)


def test_the_responses_of_a_run_have_a_bound_together() -> None:
    requests = RUN_BYTES // (15 * 2**20) + 2
    assert "MiB together" in _wire_error(Large(), seconds=60, requests=requests)


def test_json_with_very_many_levels_is_read_and_shown_without_a_failure() -> None:
    for levels in range(300, 1_100, 50):
        body = b'{"x":' + b"[" * levels + b"]" * levels + b',"y":"\\u0041"}'
        read_json(body)
        assert body_text(body)


def test_a_large_object_with_a_name_twice_is_read_in_linear_time() -> None:
    names = [f'"{number}":0' for number in range(200_000)]
    body = ("{" + ",".join([*names, names[-1]]) + "}").encode()
    _, defects = read_json(body)
    assert defects == ["An object has the member '199999' twice."]
