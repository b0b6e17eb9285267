"""Many small things at once, each of which is within its own bound (docs/explanation/attacks.md)."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.server.conftest import OpenDealership
from tests.server.dealership import NO_LIMITS, message, set_up
from tests.server.sockets import Client, body_of, connected, head, on_a_port, request

from dealer_agent.server import log, mcp
from dealer_agent.server.admission import Admission
from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.open_connections import OpenConnections
from dealer_agent.server.routes import RENDER_COST

JSON = "Content-Type: application/json"
SETTINGS = """
[service]
request_memory_mib = 4
trusted_proxies = ["127.0.0.1"]
max_connections = 64
max_connections_per_address = 16

[mcp]
allowed_hosts = ["dealer.example"]
"""
BUDGET = 4 << 20
SMALL_SEGMENT = 536
"""With small segments, the kernel keeps few bytes of a response that the client does not read."""

LARGE_DOCUMENT = b"GET /openapi.json HTTP/1.1\r\nHost: dealer.example\r\n\r\n"
_LIST_TOOLS = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
LIST_TOOLS = request("/mcp", _LIST_TOOLS, "Accept: application/json, text/event-stream")


class Watched(BoundedConnection):
    """Exposes the connections of the server, and its queue."""

    found: OpenConnections
    load: Admission

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        Watched.found, Watched.load = self._connections, self._load


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("sums")
    set_up(folder, SETTINGS + NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        yield port


@pytest.fixture(autouse=True)
def all_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "port" in request.fixturenames:
        eventually("the server has closed all connections", lambda: len(Watched.found) == 0)


def deaf_client(stack: ExitStack, port: int, sent: bytes) -> socket.socket:
    """A client that sends requests and reads nothing."""
    client = stack.enter_context(socket.socket())
    client.settimeout(120)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SMALL_SEGMENT)
    client.connect(("127.0.0.1", port))
    client.sendall(sent)
    return client


def received(client: socket.socket) -> int:
    """How many bytes a client gets until its connection ends."""
    size = 0
    with suppress(ConnectionError):
        while part := client.recv(1 << 20):
            size += len(part)
    return size


@pytest.mark.requirement("unread-responses")
def test_the_responses_that_clients_do_not_read_have_a_budget(port: int) -> None:
    with connected(port) as client:
        client.socket.sendall(LARGE_DOCUMENT)
        size = len(client.answer()[2])
    asked = LARGE_DOCUMENT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with ExitStack() as stack:
        deaf = [deaf_client(stack, port, asked) for _ in range(48)]
        unread = Watched.found._unread_responses
        eventually("the budget is used up", lambda: unread.refused > 0 and len(Watched.found) == len(unread._sizes))
        assert BUDGET - size < unread.held <= BUDGET
        kept = len(unread._sizes)
        assert kept < len(deaf)
        with connected(port) as client:
            client.socket.sendall(request("/message:send", body_of("", message("inventory.search"))))
            assert client.answer()[0] == 200
        got = [received(client) for client in deaf]
    # The clients that have read nothing for the longest time lose their responses.
    whole = [number for number, count in enumerate(got) if count > size]
    assert whole == list(range(len(deaf) - kept, len(deaf)))
    eventually("everything is released", lambda: unread.held == 0)


@pytest.mark.outside_protocol("MCP")
def test_calls_of_mcp_whose_responses_are_not_read_take_no_place(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[int] = []

    async def serve(*arguments: Any) -> None:
        await serve_one(*arguments)
        answered.append(Watched.load._in_progress)

    serve_one = mcp._serve
    monkeypatch.setattr(mcp, "_serve", serve)
    with ExitStack() as stack:
        for _ in range(20):
            deaf_client(stack, port, LARGE_DOCUMENT + LIST_TOOLS)

        def enough_are_answered() -> bool:
            if len(answered) < 20:
                deaf_client(stack, port, LARGE_DOCUMENT + LIST_TOOLS)  # A busy machine may refuse some.
            return len(answered) >= 20

        eventually("enough calls are answered", enough_are_answered, every=0.1)
        eventually("no call is in progress", lambda: Watched.load._in_progress == 0)


@pytest.mark.requirement("request-memory")
@pytest.mark.parametrize("begun", [b"", b'{"message"'], ids=["no body", "a part of a body"])
def test_a_client_of_a_proxy_leaves_connections_to_others(port: int, begun: bytes) -> None:
    with ExitStack() as stack:
        half = head("/message:send", JSON, "Content-Length: 1000", "X-Forwarded-For: 203.0.113.1") + begun
        clients = []
        for _ in range(64):
            clients.append(stack.enter_context(connected(port)))
            clients[-1].socket.sendall(half)
        assert [client.answer()[0] for client in clients[16:]] == [429] * 48
        for _ in range(3):
            with connected(port) as client:
                sent = request("/message:send", body_of("", message("lead.submit")), "X-Forwarded-For: 203.0.113.2")
                client.socket.sendall(sent)
                assert client.answer()[0] == 200
        clients[0].socket.sendall(b" " * (1000 - len(begun)))
        assert clients[0].answer()[0] == 422, "the first ones may be completed"
        with connected(port) as client:
            client.socket.sendall(half)
            eventually("there is a place again", lambda: len(Watched.found.memory._clients) == 16)


@pytest.mark.outside_protocol("HTTP")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_many_requests_for_an_upgrade_in_one_piece_are_answered_once(port: int, version: str) -> None:
    """Each of them is parsed twice."""
    lines = ("Host: dealer.example", "Connection: keep-alive, Upgrade", "Upgrade: websocket", "", "")
    one = "\r\n".join((f"GET /healthz HTTP/{version}", *lines)).encode()
    with ExitStack() as stack:
        clients: list[Client] = [stack.enter_context(connected(port)) for _ in range(40)]
        for client in clients:
            client.socket.sendall(one * 400)
        for client in clients:
            status, headers, _ = client.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert client.is_closed()


@pytest.mark.requirement("every-request-counts")
@pytest.mark.parametrize(("first", "second"), [("/docs", "/openapi.json"), ("/openapi.json", "/docs")])
def test_documentation_that_must_be_made_counts_for_many_requests(
    open_dealership: OpenDealership, first: str, second: str
) -> None:
    """One client could otherwise have that of thousands of dealers made, at up to 60 ms each."""
    limit = 2 * RENDER_COST - 1
    dealership = open_dealership(NO_LIMITS.replace('address = ""', f'address = "{limit}/hour"'))
    assert dealership.get(first).status_code == 200
    for _ in range(limit - RENDER_COST - 1):
        assert dealership.get(first).status_code == 200, "it exists now"
    assert dealership.get(second).status_code == 429
    assert dealership.request("GET", second, address="203.0.113.9").status_code == 200
    assert dealership.get(second).status_code == 200
    assert dealership.get(second).status_code == 429


@pytest.mark.requirement("every-request-counts")
def test_documentation_is_served_under_a_low_limit(open_dealership: OpenDealership) -> None:
    dealership = open_dealership(NO_LIMITS.replace('address = ""', 'address = "5/hour"'))
    assert dealership.get("/docs").status_code == 200


@pytest.mark.outside_protocol("many dealers in one service")
def test_the_documents_of_a_dealer_count_as_its_memory(open_dealership: OpenDealership) -> None:
    dealership = open_dealership()
    for _ in range(2):
        size = sum(len(dealership.get(path).content) for path in ("/docs", "/openapi.json", "/llms.txt"))
    assert dealership.service.document_bytes == size > 200_000


@pytest.mark.outside_protocol("logs")
def test_strangers_choose_no_kind_of_line_and_no_document(open_dealership: OpenDealership) -> None:
    """Hosts, paths, methods, agents, ids and skills of strangers: memory keeps nothing of them."""
    dealership = open_dealership()

    def send_round(number: int) -> None:
        name = f"stranger-{number}"
        headers = {
            "host": f"{name}.example",
            "user-agent": name,
            "authorization": f"Bearer {name}",
            "a2a-version": name,
        }
        for path in (f"/{name}", f"/aap/{name}/rpc", f"/schemas/{name}", f"/visit/{name}", f"/d/{name}/rpc"):
            dealership.request("GET", path, headers=headers, address=f"203.0.113.{number}")
        sent = message("inventory.search") | {"tenant": name}
        for path in ("/message:send", "/rpc", "/aap/1.3/rpc", "/mcp"):
            dealership.post(sent, path, headers=headers | {"content-type": f"application/{name}"})
            dealership.post(sent, path, headers={"host": f"{name}.example"})
            dealership.post(sent, path, headers={"user-agent": name})

    def kept() -> tuple[int, ...]:
        service = dealership.service
        return len(log._requests._counts), len(log._events._counts), len(service.documents), service.document_bytes

    log.end_interval()
    send_round(0)
    once = kept()
    for number in range(1, 40):
        send_round(number)
    # Another service of this process may log an event meanwhile. 39 strangers would leave more.
    assert all(now < before + 10 for now, before in zip(kept(), once, strict=True))
