"""A connection may pipeline a few requests. One that pipelines more gets a response and closes, and connections that
pipeline take turns (docs/protocol.md#connection-pipelining). The real application on a real socket."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.server.dealership import NO_LIMITS, message, set_up
from tests.server.sockets import Client, body_of, connected, on_a_port, request

from dealer_agent.server import admission
from dealer_agent.server.admission import Admission
from dealer_agent.server.connection import MOST_WAITING, BoundedConnection

pytestmark = pytest.mark.requirement("connection-pipelining")

SEARCH = request("/message:send", body_of("", message("inventory.search")))
LEAD = request("/message:send", body_of("", message("lead.submit")))
RPC = request("/rpc", body_of("/rpc", message("dealer.information")))
NOWHERE = b"GET /nosuch HTTP/1.1\r\nHost: x\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
INVALID = request("/rpc", b"{")


class Watched(BoundedConnection):
    """Counts the requests that are answered."""

    answered: ClassVar[list[int]] = []

    def on_response_complete(self) -> None:
        assert self.client
        Watched.answered.append(self.client[1])
        super().on_response_complete()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("pipelining")
    set_up(folder, NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        yield port


@pytest.fixture(scope="module")
def strict_port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    """Of a dealer with low rates."""
    folder = tmp_path_factory.mktemp("strict")
    rates = '\n[rate_limits]\ninventory_search = "2/hour"\nlead_submit = "1/hour"\nhealth = "2/hour"\n'
    set_up(folder, rates, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        yield port


def all_answers(client: Client) -> list[tuple[int, dict[str, str], bytes]]:
    """The answers until the server closes the connection."""
    answers = []
    while not client.is_closed():
        answers.append(client.answer())
    return answers


@pytest.mark.parametrize("one", [SEARCH, RPC, NOWHERE, HEALTH, INVALID])
def test_a_connection_on_which_too_many_requests_wait_answers_one_and_closes(port: int, one: bytes) -> None:
    with connected(port) as client:
        client.socket.sendall(HEALTH)
        assert client.answer()[0] == 200
        before = len(Watched.answered)
        client.socket.sendall(one * (60 * 1024 // len(one)))
        ((status, headers, _),) = all_answers(client)
    assert status in (200, 404, 422)
    assert headers["connection"] == "close"
    assert len(Watched.answered) == before + 1


@pytest.mark.parametrize("one", [SEARCH, LEAD, RPC, NOWHERE, HEALTH, INVALID])
def test_a_few_pipelined_requests_are_all_answered_and_the_connection_stays(port: int, one: bytes) -> None:
    with connected(port) as client:
        for _ in range(3):
            client.socket.sendall(one * MOST_WAITING)
            answers = [client.answer() for _ in range(MOST_WAITING)]
            assert not any("connection" in headers for _, headers, _ in answers)


def test_no_request_after_the_last_response_is_processed(port: int) -> None:
    """A lead that is stored without a response would be sent again by its client."""
    with connected(port) as client:
        before = len(Watched.answered)
        client.socket.sendall(HEALTH * (MOST_WAITING + 1) + LEAD)
        assert len(all_answers(client)) == 1
    with connected(port) as client:
        client.socket.sendall(HEALTH)
        client.answer()
    assert len(Watched.answered) == before + 2


def test_the_text_of_a_body_is_no_request(port: int) -> None:
    """A body may contain the words of a request line, also more often than requests may wait."""
    text = message("inventory.search") | {"metadata": {"note": "GET / HTTP/1.1 " * 3000}}
    with connected(port) as client:
        client.socket.sendall(request("/message:send", body_of("", text)) + HEALTH)
        assert client.answer()[0] == 413
    lead: dict[str, Any] = message("lead.submit") | {"metadata": {"note": "GET / HTTP/1.1 " * 3000}}
    with connected(port) as client:
        sent = request("/message:send", body_of("", lead))
        client.socket.sendall(sent[:300])
        client.socket.sendall(sent[300:])
        assert client.answer()[0] == 200
        client.socket.sendall(HEALTH)
        assert client.answer()[0] == 200


@pytest.mark.parametrize("one", [SEARCH, LEAD, HEALTH])
def test_a_connection_that_pipelines_closes_after_a_refusal_for_its_rate(strict_port: int, one: bytes) -> None:
    with connected(strict_port) as client:
        client.socket.sendall(one * MOST_WAITING)
        answers = all_answers(client)
    assert [status for status, _, _ in answers[:-1]] == [200] * (len(answers) - 1)
    assert answers[-1][0] == 429
    assert answers[-1][1]["connection"] == "close"
    assert len(answers) <= 3
    with connected(strict_port) as client:
        for _ in range(3):
            client.socket.sendall(one)
            status, headers, _ = client.answer()
            assert status == 429, "a client that does not pipeline keeps its connection"
            assert "connection" not in headers


def test_connections_that_pipeline_take_turns_and_a_new_one_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that is over parses one connection, and the others in later turns."""
    monkeypatch.setattr(admission, "TURN_SECONDS", 0.0)
    seen: list[str] = []

    async def see() -> None:
        load = Admission()

        def parse(name: str, times: int) -> None:
            seen.append(name)
            if times > 1:
                load.parse_later(lambda: parse(name, times - 1))

        for name in "ab":
            load.parse_later(lambda name=name: parse(name, 3))  # type: ignore[misc]
        for turn in range(10):
            # What the loop does between two turns: it accepts and reads from other connections.
            seen.append(str(turn))
            await asyncio.sleep(0)

    asyncio.run(see())
    parsed = [each for each in seen if each in "ab"]
    assert parsed == ["a", "b"] * 3
    places = [seen.index(str(turn)) for turn in range(10)]
    assert max(later - before for before, later in pairwise(places)) <= 2


def test_many_connections_that_pipeline_are_each_answered_once(port: int) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(100)]
        for client in clients:
            client.socket.sendall(NOWHERE * 2000)
        with connected(port) as newcomer:
            newcomer.socket.sendall(HEALTH)
            assert newcomer.answer()[0] == 200
        for client in clients:
            ((status, headers, content),) = all_answers(client)
            assert (status, headers["connection"]) in ((404, "close"), (429, "close"))
            assert json.loads(content)["error"]
