"""The bytes of incomplete and waiting requests have one budget, and each client has a share of it
(docs/protocol.md#request-memory). The application on a real socket has a small budget."""

import gc
import json
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.acceptance.running import eventually
from tests.server.dealership import NO_LIMITS, message, set_up
from tests.server.sockets import TARGETS, Client, body_of, connected, head, on_a_port, request

from dealer_agent.protocol.errors import RateLimited
from dealer_agent.server import request_memory
from dealer_agent.server.connection import MOST_HEADERS, BoundedConnection
from dealer_agent.server.fast_path import REQUEST_BYTES
from dealer_agent.server.request_memory import CONNECTION_BYTES, RETURNED_BYTES, HeldBytes

pytestmark = pytest.mark.requirement("request-memory")

JSON = "Content-Type: application/json"
MEBIBYTE = 1024 * 1024
SETTINGS = """
[service]
request_memory_mib = 4
request_memory_mib_per_address = 1
trusted_proxies = ["127.0.0.1"]

[mcp]
allowed_hosts = ["dealer.example"]
"""
BUDGET, SHARE = 4 * MEBIBYTE, MEBIBYTE


class Held:
    """A connection, as the budget sees it."""

    def __init__(self) -> None:
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True


def test_the_unfinished_request_that_began_first_is_given_up() -> None:
    memory = HeldBytes(100, 100)
    waiting, first, second, third = Held(), Held(), Held(), Held()
    assert memory.hold(waiting, 30, None, is_unfinished=False)
    assert memory.hold(first, 10, None, is_unfinished=True)
    assert memory.hold(second, 30, None, is_unfinished=True)
    assert memory.hold(first, 30, None, is_unfinished=True), "a slow sender keeps its place in the order"
    assert memory.hold(third, 20, None, is_unfinished=True)
    assert (waiting.given_up, first.given_up, second.given_up) == (False, True, False)
    assert memory.held == 80


def test_without_unfinished_requests_of_others_a_new_one_is_refused() -> None:
    memory = HeldBytes(100, 100)
    waiting, new = Held(), Held()
    assert memory.hold(waiting, 80, None, is_unfinished=False)
    assert not memory.hold(new, 30, None, is_unfinished=True)
    assert (memory.held, memory.refused, waiting.given_up) == (80, 1, False)
    memory.release(waiting)
    assert memory.hold(new, 30, None, is_unfinished=True)
    assert memory.held == 30


def test_a_client_has_a_share_and_no_other_client_pays_for_it() -> None:
    memory = HeldBytes(100, 40)
    others = Held()
    assert memory.hold(others, 40, "203.0.113.1", is_unfinished=True)
    assert memory.hold(Held(), 40, "203.0.113.2", is_unfinished=True)
    assert not memory.hold(Held(), 1, "203.0.113.2", is_unfinished=True)
    assert not others.given_up
    assert memory.hold(others, 0, "203.0.113.1", is_unfinished=False)
    assert memory.held == 40


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("memory")
    set_up(folder, SETTINGS + NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        with connected(port) as client:
            client.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.answer()[0] == 200
        yield port


class Watched(BoundedConnection):
    """Exposes the budget of the server."""

    memory: HeldBytes
    alive: ClassVar[weakref.WeakSet["Watched"]] = weakref.WeakSet()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        Watched.memory = self._memory
        Watched.alive.add(self)


def begun_lead(size: int = 200_000) -> bytes:
    return body_of("", message("lead.submit"))[:-1] + b" " * size


def from_client(number: int) -> str:
    return f"X-Forwarded-For: 203.0.113.{number}"


def slow_bodies(stack: ExitStack, port: int, count: int, client: Callable[[int], str]) -> list[Client]:
    """Clients that each have sent a part of a lead."""
    content = begun_lead()
    clients = []
    for number in range(count):
        clients.append(stack.enter_context(connected(port)))
        declared = f"Content-Length: {len(content) + 1}"
        clients[-1].socket.sendall(head("/message:send", JSON, declared, client(number)) + content)
    return clients


def test_more_unfinished_bodies_than_the_budget_are_refused_and_leads_are_taken(port: int) -> None:
    with ExitStack() as stack:
        slow = slow_bodies(stack, port, 40, from_client)
        eventually("the budget is used up", lambda: Watched.memory.refused > 0)
        for target in TARGETS:
            with connected(port) as client:
                client.socket.sendall(request(target, body_of(target, message("lead.submit"))))
                assert client.answer()[0] == 200
        assert BUDGET - SHARE < Watched.memory.held <= BUDGET
        status, headers, content = slow[0].answer()
        assert (status, headers["connection"]) == (429, "close")
        assert int(headers["retry-after"]) > 0
        assert json.loads(content)["error"]["details"][1]["code"] == "RATE_LIMITED"
    eventually("everything is released", lambda: Watched.memory.held == 0)


@pytest.mark.parametrize("path", ["/message:send", "/rpc", "/mcp", "/aap/1.3/rpc"])
def test_a_client_that_a_proxy_names_has_a_share(port: int, path: str) -> None:
    """The share of one client is refused in the form of each route, and others are not affected."""
    with ExitStack() as stack:
        content = begun_lead()
        slow_bodies(stack, port, 4, lambda _: from_client(1))
        eventually("the share is used up", lambda: Watched.memory.held == 4 * (len(content) + REQUEST_BYTES))
        declared = f"Content-Length: {len(content) + 1}"
        with connected(port) as client:
            client.socket.sendall(head(path, JSON, declared, from_client(1)) + content)
            status, headers, _ = client.answer()
            assert (status, headers["connection"]) == (429, "close")
        with connected(port) as client:
            sent = head(path, JSON, f"Content-Length: {len(content)}", from_client(2)) + content
            client.socket.sendall(sent)
            assert client.answer()[0] != 429
    eventually("everything is released", lambda: Watched.memory.held == 0)


@pytest.mark.parametrize(
    "begun",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Long: " + b"a" * 50_000,
        b"GET /" + b"a" * 50_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * (MOST_HEADERS - 2),
    ],
    ids=["a field", "the path", "fields"],
)
def test_unfinished_heads_count(port: int, begun: bytes) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(4)]
        for client in clients:
            client.socket.sendall(begun)
        eventually("they count", lambda: Watched.memory.held >= len(clients) * min(len(begun), 10_000))
    eventually("everything is released", lambda: Watched.memory.held == 0)


def test_a_closed_connection_is_freed_without_the_garbage_collector(port: int) -> None:
    """A full collection looks at every open connection. That takes long when there are thousands."""
    sent_before = {
        "nothing": b"",
        "half a head": b"GET / HTTP/1.1\r\nHo",
        "health": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "search": request("/message:send", body_of("", message("inventory.search"))),
        "lead": request("/message:send", body_of("", message("lead.submit"))),
        "half a body": head("/message:send", JSON, "Content-Length: 100") + b"{",
    }
    gc.collect()
    gc.disable()
    try:
        for name, sent in sent_before.items():
            with connected(port) as client:
                client.socket.sendall(sent)
                if sent.endswith((b"\r\n\r\n", b"}")):
                    assert client.answer()[0] == 200
                eventually(f"{name}: the connection is open", lambda: len(Watched.alive) > 0)
            eventually(f"{name}: it is freed", lambda: len(Watched.alive) == 0)
    finally:
        gc.enable()


def test_a_head_with_too_many_fields_is_refused_before_its_end(port: int) -> None:
    """A field of four bytes takes 40 times as much memory."""
    with connected(port) as client:
        client.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * 10_000)
        assert client.answer()[0] == 400
    with connected(port) as client:
        client.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * (MOST_HEADERS - 1) + b"\r\n")
        assert client.answer()[0] == 200
        client.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:b\r\n" * MOST_HEADERS + b"\r\n")
        assert client.answer()[0] == 400


@pytest.mark.requirement("body-limits")
@pytest.mark.parametrize("path", ["/message:send", "/rpc", "/mcp"])
def test_a_body_that_names_another_skill_is_refused_at_the_limit_of_that_skill(port: int, path: str) -> None:
    content = body_of(path, message("inventory.search"))[:-1] + b" " * 40_000
    with connected(port) as client:
        client.socket.sendall(head(path, JSON, "Content-Length: 200000") + content)
        status, headers, _ = client.answer()
    assert (status, headers["connection"]) == (413, "close")


@pytest.mark.requirement("body-limits")
@pytest.mark.parametrize("target", TARGETS)
def test_a_lead_may_have_its_type_after_everything_else(
    port: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON has no order. While few such bodies arrive at once, each is read."""
    lead = message("lead.submit")
    part = lead["message"]["parts"][0]
    part["data"] = {"x_note": "x" * 100_000} | part["data"]
    lead["message"]["parts"] = [{"data": part["data"]} | part]
    content = body_of(target, lead)
    assert b"lead.submit" not in content[: 32 * 1024]

    def status() -> int:
        with connected(port) as client:
            client.socket.sendall(head(target, JSON, f"Content-Length: {len(content)}") + content[:-1])
            client.socket.sendall(content[-1:])
            return client.answer()[0]

    assert status() not in (413, 429)
    monkeypatch.setattr(request_memory, "MOST_UNKNOWN", 0)
    assert status() == 429


def test_only_a_few_large_bodies_may_arrive_before_their_skill_is_known() -> None:
    memory = HeldBytes(MEBIBYTE, MEBIBYTE)
    with ExitStack() as stack:
        for _ in range(request_memory.MOST_UNKNOWN):
            stack.enter_context(memory.of_unknown_type(None))
        with pytest.raises(RateLimited), memory.of_unknown_type(None):
            pass
    with memory.of_unknown_type(None):
        pass


def test_a_client_has_a_share_of_the_large_bodies_of_unknown_type() -> None:
    memory = HeldBytes(MEBIBYTE, MEBIBYTE)
    with ExitStack() as stack:
        for _ in range(request_memory.UNKNOWN_PER_CLIENT):
            stack.enter_context(memory.of_unknown_type("203.0.113.1"))
        with pytest.raises(RateLimited), memory.of_unknown_type("203.0.113.1"):
            pass
        with memory.of_unknown_type("203.0.113.2"):
            pass
    with memory.of_unknown_type("203.0.113.1"):
        pass


def test_a_client_has_a_number_of_unfinished_requests() -> None:
    memory = HeldBytes(100, 100, most_requests=2)
    first, second, third = Held(), Held(), Held()
    for holder in (first, second, first):
        assert memory.hold(holder, 1, "203.0.113.1", is_unfinished=True), "the same request does not count twice"
    assert not memory.hold(third, 1, "203.0.113.1", is_unfinished=True)
    assert memory.hold(third, 1, "203.0.113.1", is_unfinished=False), "a complete request is not one of them"
    assert memory.hold(first, 1, "203.0.113.1", is_unfinished=False)
    assert memory.hold(Held(), 1, "203.0.113.1", is_unfinished=True)
    memory.release(second)
    assert memory.hold(Held(), 1, "203.0.113.1", is_unfinished=True)
    assert not memory.hold(Held(), 1, "203.0.113.1", is_unfinished=True)


def test_memory_is_returned_to_the_system_once_after_a_flood() -> None:
    many_connections, few_connections = 3_000, 1
    assert many_connections * CONNECTION_BYTES >= RETURNED_BYTES
    memory = HeldBytes(100 * MEBIBYTE, 100 * MEBIBYTE)
    trims: list[int] = []
    memory._trim = trims.append
    holder = Held()
    memory.hold(holder, RETURNED_BYTES, None, is_unfinished=True)
    memory.return_unused(many_connections)
    assert len(trims) == 0
    memory.release(holder)
    for _ in range(3):
        memory.return_unused(many_connections)
    assert len(trims) == 1
    for _ in range(3):
        memory.return_unused(few_connections)
    assert len(trims) == 2, "connections without requests take memory too"
