"""A client can read the response to its request, and no client keeps a connection forever (docs/protocol.md#http).

The real application on a real socket.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.server.dealership import NO_LIMITS, message, set_up
from tests.server.sockets import TARGETS, Client, body_of, connected, head, on_a_port, request

from dealer_agent.server.client_transport import ClientTransport
from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.open_connections import OpenConnections

SEARCH = message("inventory.search")
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
AT_ONCE = request("/message:send", body_of("/message:send", SEARCH))
LEAD = request("/message:send", body_of("/message:send", message("lead.submit")))
LARGE = 3_000_000
"""More than the buffers of both kernels hold."""


class Sweeping(OpenConnections):
    sweep_seconds = 0.05


class Swept(BoundedConnection):
    connections_type = Sweeping
    newest: "Swept"
    answers = 0
    gone = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        Swept.newest = self

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone = True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.answers += 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Path:
    folder = tmp_path_factory.mktemp("closing")
    set_up(folder, NO_LIMITS, stocked=stocked)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    with on_a_port(folder, Swept) as port:
        yield port


def chunked(size: int, step: int = 60_000) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in [b" " * step] * (size // step)) + b"0\r\n\r\n"


JSON = "Content-Type: application/json"
REFUSED = {
    "413, declared": (413, head("/message:send", JSON, f"Content-Length: {LARGE}") + b" " * LARGE),
    "413, declared, json-rpc": (413, head("/rpc", JSON, f"Content-Length: {LARGE}") + b" " * LARGE),
    "413, in chunks": (413, head("/message:send", JSON, "Transfer-Encoding: chunked") + chunked(LARGE)),
    "413, in chunks, json-rpc": (413, head("/rpc", JSON, "Transfer-Encoding: chunked") + chunked(LARGE)),
    "413, close": (413, head("/rpc", JSON, f"Content-Length: {LARGE}", "Connection: close") + b" " * LARGE),
    "415": (415, head("/rpc", "Content-Type: a/b", "Content-Length: 200000") + b" " * 200_000),
    "401": (401, head("/rpc", JSON, "Authorization: Bearer dat_x_y", "Content-Length: 200000") + b" " * 200_000),
    "404": (404, head("/nosuch", JSON, f"Content-Length: {LARGE}") + b" " * LARGE),
    "405": (405, head("/healthz", JSON, f"Content-Length: {LARGE}") + b" " * LARGE),
    "400, a large head": (400, head("/rpc", "X: " + "a" * LARGE)),
    "400, two hosts": (400, head("/rpc", JSON, "Host: y", f"Content-Length: {LARGE}") + b" " * LARGE),
    "400, no HTTP": (400, b"NO HTTP\r\n" * (LARGE // 9)),
    "413, for an upgrade": (
        413,
        head("/rpc", JSON, "Connection: Upgrade", "Upgrade: h2c", f"Content-Length: {LARGE}") + b" " * LARGE,
    ),
}


@pytest.mark.requirement("connection-refusal-is-read")
@pytest.mark.parametrize("case", REFUSED)
def test_a_client_that_sends_all_before_it_reads_gets_its_refusal(port: int, case: str) -> None:
    expected, sent = REFUSED[case]
    statuses = []
    for _ in range(5):
        with connected(port) as client:
            client.socket.sendall(sent)
            status, headers, content = client.answer()
            assert "error" in json.loads(content)
            if headers.get("connection") == "close":
                assert client.is_closed()
            else:
                client.socket.sendall(HEALTH)
                assert client.answer()[0] == 200, "the connection serves the next request"
            statuses.append(status)
    assert statuses == [expected] * 5


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    """A service for bodies that do not come: a busy machine may take longer than this to store a lead."""
    folder = tmp_path_factory.mktemp("hurried")
    set_up(folder, "[service]\nrequest_timeout_seconds = 1\n" + NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Swept) as port:
        yield port


@pytest.mark.requirement("connection-refusal-is-read")
@pytest.mark.parametrize("target", TARGETS)
def test_a_body_that_comes_too_slowly_is_408(hurried: int, target: str) -> None:
    with connected(hurried) as client:
        client.socket.sendall(head(target, JSON, "Content-Length: 100") + b"{")
        assert client.answer()[0] == 408
        client.socket.sendall(b" ")
        assert client.is_closed()


@pytest.mark.requirement("connection-half-closed")
@pytest.mark.parametrize(
    "sent", [[AT_ONCE], [LEAD], [HEALTH], [LEAD, HEALTH, AT_ONCE, AT_ONCE] * 2], ids=["read", "lead", "get", "many"]
)
def test_a_client_that_closes_its_sending_direction_gets_all_responses(port: int, sent: list[bytes]) -> None:
    with connected(port) as client:
        client.socket.sendall(b"".join(sent))
        client.socket.shutdown(socket.SHUT_WR)
        answers = [client.answer() for _ in sent]
        assert [status for status, _, _ in answers] == [200] * len(sent), answers
        assert client.is_closed()


@pytest.mark.requirement("connection-half-closed")
@pytest.mark.parametrize("rest", [AT_ONCE[:30], AT_ONCE[:-1], LEAD[:-1]])
def test_an_incomplete_request_is_not_answered(hurried: int, rest: bytes) -> None:
    with connected(hurried) as client:
        client.socket.sendall(AT_ONCE + rest)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer()[0] == 200
        client.socket.settimeout(120)
        assert not client.socket.recv(1000).startswith(b"HTTP/1.1 200")


def closed_by_server(client: Client) -> bool:
    """Waits until the server has closed or reset the connection."""
    try:
        while client.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return True


PAGE = request("/message:send", body_of("", message("inventory.search", pagination={"limit": 100})))


@pytest.mark.requirement("connection-stalled")
@pytest.mark.parametrize("last", ["", "Connection: close"])
def test_a_client_that_does_not_read_its_last_response_is_disconnected(
    port: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed transport waits until its buffer is sent, without a limit."""
    monkeypatch.setattr(ClientTransport, "stall_seconds", 0.5)
    with connected(port) as client:
        client.socket.sendall(PAGE)
        client.answer()
        connection = Swept.newest
        answered = 1
        while not connection.transport.get_write_buffer_size():
            client.socket.sendall(PAGE)
            answered += 1
            eventually("it is answered", lambda: connection.answers >= answered, every=0.001)  # noqa: B023
        if last:
            client.socket.sendall(head("/nosuch", last, "Content-Length: 0"))
        eventually("the connection is gone", lambda: connection.gone)


@pytest.mark.requirement("connection-stalled")
def test_a_client_that_reads_slowly_is_kept(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientTransport, "stall_seconds", 2.0)
    count = 400
    with connected(port) as client:
        assert {status for status, _, _ in client.answers([PAGE] * count)} == {200}


@pytest.mark.requirement("connection-refusal-is-read")
@pytest.mark.parametrize("case", ["413, declared", "404", "400, no HTTP"])
@pytest.mark.parametrize("limit", ["discard_seconds", "silence_seconds", "discard_bytes"])
def test_a_closing_connection_discards_a_bounded_number_of_bytes(
    port: int, case: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClientTransport, limit, {"discard_bytes": 500_000}.get(limit, 0.3))
    declared = head("/message:send", JSON, "Content-Length: 90000000")
    sent = {"404": declared.replace(b"/message:send", b"/nosuch"), "413, declared": declared}.get(case, b"NO HTTP\r\n")
    with connected(port) as client:
        client.socket.sendall(sent)
        if limit == "silence_seconds":
            assert closed_by_server(client)
        else:
            with pytest.raises(ConnectionError):  # noqa: PT012 - some of it is sent before.
                while True:
                    client.socket.sendall(b" " * 1000)


def test_an_idle_connection_is_closed(folder: Path) -> None:
    with on_a_port(folder, Swept, timeout_keep_alive=1) as port, connected(port) as client:
        client.socket.sendall(AT_ONCE + HEALTH)
        assert [client.answer()[0] for _ in range(2)] == [200, 200]
        with suppress(ConnectionError):  # It may be closed already.
            client.socket.sendall(b"\r\n")
        assert closed_by_server(client)


@pytest.mark.requirement("connection-pipelining")
def test_hundreds_of_pipelined_requests_are_answered_in_order(port: int) -> None:
    """On the fast path and on the ASGI path, mixed. At most eight of them wait."""
    rpc: dict[str, Any] = {"jsonrpc": "2.0", "method": "SendMessage"}
    asked = [message("lead.submit"), SEARCH, SEARCH, {}, message("inventory.facets")] * 40
    sent = [
        request("/rpc", json.dumps({**rpc, "id": number, "params": each}).encode()) for number, each in enumerate(asked)
    ]
    with connected(port) as client:
        answers = list(client.answers(sent))
    assert [json.loads(body)["id"] for _, _, body in answers] == list(range(len(sent)))
    assert not any("connection" in headers for _, headers, _ in answers)
