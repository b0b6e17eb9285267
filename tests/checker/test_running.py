"""How a run goes: what it sends, how fast, and what it says if it cannot decide."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from dealer_agent.checker.check import Check
from dealer_agent.checker.events import CheckStarted, Event, RunEnded, RunStarted, Verdict
from dealer_agent.checker.exchange import read_json
from dealer_agent.checker.outcome import Failed, NotChecked, Skipped
from dealer_agent.checker.requirement import PROFILES, requirements
from dealer_agent.checker.runner import Options, run_checks
from dealer_agent.checker.target import Target
from dealer_agent.checker.wire import TargetConnection

pytestmark = pytest.mark.outside_protocol("checker")

URL = "https://dealer.example"
CARD = {
    "name": "A dealer",
    "supportedInterfaces": [{"url": f"{URL}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["application/vnd.proto.inventory-search-request+json"],
    "skills": [{"id": "dealer.information"}],
}

Respond = Callable[[httpx.Request], httpx.Response]


class Endless(httpx.AsyncByteStream):
    """A body without end."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" " * 2**20


class Dealer(httpx.AsyncBaseTransport):
    """A dealer agent that answers as a function says."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        response = self._respond(request)
        if not isinstance(response.stream, Endless):
            response = httpx.Response(
                response.status_code, headers=response.headers, stream=httpx.ByteStream(response.content)
            )
        return response


def run(
    respond: Respond, only: str | list[str] = "envelope.reply.role", **options: object
) -> tuple[list[Verdict], list[Event]]:
    events: list[Event] = []

    async def go() -> list[Verdict]:
        async with httpx.AsyncClient(transport=Dealer(respond)) as client:
            settings = Options(**{"only": [only] if isinstance(only, str) else only, "rate": 1e6, **options})  # type: ignore[arg-type]
            return await run_checks(URL, settings, client, events.append)

    return asyncio.run(go()), events


def dealer(answer: Respond) -> Respond:
    """Serves the card, and answers everything else so."""

    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/.well-known/agent-card.json":
            return httpx.Response(200, json=CARD)
        if request.method == "GET":
            return httpx.Response(404)
        return answer(request)

    return respond


@pytest.mark.parametrize("requirement_id", ["cards.description", "cards.skill-members"])
def test_a_failure_of_the_card_shows_the_card(requirement_id: str) -> None:
    [verdict], _ = run(dealer(lambda _: httpx.Response(404)), requirement_id)
    assert verdict.outcome == "fail"
    assert verdict.exchange is not None
    assert verdict.exchange.url.endswith("/.well-known/agent-card.json")


@pytest.mark.parametrize("requirement_id", ["cards.same-host", "information.name"])
def test_decisions_of_this_project_are_checked_on_demand_only(requirement_id: str) -> None:
    assert run(dealer(lambda _: httpx.Response(404)), requirement_id)[0] == []
    assert len(run(dealer(lambda _: httpx.Response(404)), requirement_id, profiles=PROFILES)[0]) == 1


def test_a_lost_connection_is_not_the_fault_of_the_target() -> None:
    def lose(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset")

    verdicts, _ = run(dealer(lose))
    assert [each.outcome for each in verdicts] == ["could not check"]
    assert "connection reset" in verdicts[0].sentence


def test_without_a_card_nothing_is_checked() -> None:
    with pytest.raises(NotChecked, match=r"no agent card at https://dealer.example/.well-known/agent-card.json"):
        run(lambda _: httpx.Response(404))


def test_the_address_of_many_dealers_is_answered_with_one_of_them() -> None:
    def many(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/.well-known/ai-catalog.json":
            return httpx.Response(404)
        card = {"type": "application/a2a-agent-card+json", "url": f"{URL}/d/one/.well-known/agent-card.json"}
        return httpx.Response(200, json={"entries": [card]})

    with pytest.raises(NotChecked, match=r"for example https://dealer.example/d/one/"):
        run(many)


def test_a_response_without_end_is_not_read_to_its_end() -> None:
    verdicts, _ = run(dealer(lambda _: httpx.Response(200, stream=Endless())))
    assert [(each.outcome, each.sentence) for each in verdicts] == [
        ("could not check", "The response is larger than 16 MiB.")
    ]


@pytest.mark.parametrize("wait", ["60", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_the_run_ends_when_its_time_is_over(wait: str) -> None:
    verdicts, _ = run(dealer(lambda _: httpx.Response(429, headers={"Retry-After": wait})), seconds=30)
    assert verdicts[0].outcome == "could not check"
    assert "--time" in verdicts[0].sentence


def test_it_waits_as_long_as_the_target_asks() -> None:
    seen: list[float] = []

    def busy_once(request: httpx.Request) -> httpx.Response:
        seen.append(time.monotonic())
        if len(seen) == 1:
            return httpx.Response(429, headers={"Retry-After": "1"})
        message = {"role": "ROLE_AGENT", "parts": [{"data": {}}]}
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    verdicts, _ = run(dealer(busy_once))
    assert verdicts[0].outcome == "pass"
    assert seen[1] - seen[0] >= 1


def test_requests_are_not_sent_faster_than_the_rate() -> None:
    async def go() -> float:
        async with httpx.AsyncClient(transport=Dealer(lambda _: httpx.Response(200))) as client:
            wire = TargetConnection(client, rate=50, deadline=time.monotonic() + 60)
            began = time.monotonic()
            for number in range(11):
                await wire.request("GET", f"{URL}/{number}")
            return time.monotonic() - began

    assert asyncio.run(go()) >= 0.2


def test_equal_requests_are_sent_once_unless_they_must_be_fresh() -> None:
    async def go() -> int:
        async with httpx.AsyncClient(transport=Dealer(lambda _: httpx.Response(200))) as client:
            wire = TargetConnection(client, rate=1e6, deadline=time.monotonic() + 60)
            for fresh in (False, False, True):
                await wire.request("GET", URL, fresh=fresh)
            return wire.sent

    assert asyncio.run(go()) == 2


def test_only_the_headers_of_a_check_are_sent() -> None:
    seen: list[list[str]] = []

    def keep(request: httpx.Request) -> httpx.Response:
        seen.append(sorted(request.headers))
        return httpx.Response(200)

    run(dealer(keep))
    assert seen[0] == ["a2a-version", "accept", "content-length", "content-type", "host"]


def test_no_lead_is_sent_without_leave() -> None:
    bodies: list[bytes] = []

    def keep(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(200, json={})

    card = CARD | {"skills": [{"id": skill} for skill in ("lead.submit", "inventory.search", "dealer.information")]}
    respond = dealer(keep)
    subjects = {each.subject for each in requirements().values()}
    for subject in sorted(subjects):
        run(lambda request: httpx.Response(200, json=card) if "card" in str(request.url) else respond(request), subject)
    assert len(bodies) > 50
    assert not any(b"lead.submit.request" in body for body in bodies)


def test_an_interface_on_another_host_gets_no_token() -> None:
    seen: list[tuple[str, str | None]] = []

    def keep(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, request.headers.get("authorization")))
        return httpx.Response(401)

    elsewhere = {"url": "https://elsewhere.example/rpc", "protocolBinding": "JSONRPC"}
    here = {"url": f"{URL}/agent", "protocolBinding": "HTTP+JSON"}
    respond = dealer(keep)
    card = CARD | {"supportedInterfaces": [elsewhere, here]}
    _, events = run(
        lambda request: httpx.Response(200, json=card) if "card" in str(request.url) else respond(request),
        token="secret",
    )
    assert {("elsewhere.example", None), ("dealer.example", "Bearer secret")} == set(seen)
    (started,) = [each for each in events if isinstance(each, RunStarted)]
    assert started.notes == ("https://elsewhere.example/rpc is on another host than its card, so it gets no token.",)


def test_a_card_without_media_types_is_checked_in_the_vocabulary_that_is_answered() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        vendor = "autoagent" if b"vnd.autoagent." in request.content else "nobody"
        part = {"mediaType": f"application/vnd.{vendor}.dealer-information-response+json", "data": {}}
        message = {"role": "ROLE_AGENT", "parts": [part]}
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    card = {name: value for name, value in CARD.items() if name != "defaultInputModes"}
    respond = dealer(answer)
    verdicts, _ = run(lambda each: httpx.Response(200, json=card) if "card" in str(each.url) else respond(each))
    assert [each.variant.vocabulary for each in verdicts] == ["autoagent"]


@pytest.mark.parametrize(
    "document", [b"{", b"[]", b'{"supportedInterfaces": 7}', b'{"supportedInterfaces": [null, {}]}']
)
def test_no_card_of_a_hostile_target_breaks_the_run(document: bytes) -> None:
    try:
        verdicts, _ = run(lambda _: httpx.Response(200, content=document))
    except NotChecked:
        return
    assert verdicts == []


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (Failed("Wrong."), "fail"),
        (Skipped("Nothing there."), "skipped"),
        (NotChecked("Lost."), "could not check"),
        (KeyError("a defect"), "could not check"),
        (None, "pass"),
    ],
)
def test_each_end_of_a_check_has_a_verdict(
    problem: Exception | None, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(_: Target) -> None:
        if problem is not None:
            raise problem

    function: Callable[[Target], Awaitable[None]] = end
    planned = {"envelope.reply.role": Check("envelope.reply.role", function, last=False)}
    monkeypatch.setattr("dealer_agent.checker.runner.checks", lambda: planned)
    verdicts, events = run(dealer(lambda _: httpx.Response(200)))
    assert [each.outcome for each in verdicts] == [outcome]
    assert [type(each) for each in events] == [RunStarted, CheckStarted, Verdict, RunEnded]


@pytest.mark.parametrize(
    ("body", "defect"),
    [
        (b'{"a": 1}', None),
        (b'\xef\xbb\xbf{"a": 1}', "byte order mark"),
        (b'{"a": 1, "a": 2}', "'a' twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "-Infinity"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (rb'{"a": "\ud800"}', "surrogate"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_json_is_judged_strictly_and_read_leniently(body: bytes, defect: str | None) -> None:
    value, defects = read_json(body)
    assert bool(defects) is (defect is not None)
    if defect is not None:
        assert any(defect in each for each in defects)
    assert value is None or "a" in json.loads(json.dumps(value))
