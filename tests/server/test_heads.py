"""The service and a proxy in front of it read a head in the same way: single fields are not repeated, trailers are no
fields, and a request for an upgrade is an ordinary request. The real application on a real socket."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.dealership import ACCORD, NO_LIMITS, message, set_up
from tests.server.sockets import TARGETS, body_of, connected, head, on_a_port, request

SEARCH = message("inventory.search")
VEHICLE = message("inventory.vehicle", vin=ACCORD)
LIMITED = NO_LIMITS.replace('inventory_vehicle = ""', 'inventory_vehicle = "1/minute"')


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("heads")
    set_up(folder, '[service]\ntrusted_proxies = ["127.0.0.1"]\n' + LIMITED, stocked=stocked)
    with on_a_port(folder) as port:
        yield port


def chunked(content: bytes, trailers: bytes = b"") -> bytes:
    return b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(content), content, trailers)


def with_line(sent: bytes, line: bytes) -> bytes:
    """The request with another header line."""
    first, _, rest = sent.partition(b"\r\n")
    return first + b"\r\n" + line + b"\r\n" + rest


ROUTES = {
    "fast path": request("/message:send", body_of("/message:send", SEARCH)),
    "json-rpc": request("/rpc", body_of("/rpc", SEARCH)),
    "a lead": request("/message:send", body_of("/message:send", message("lead.submit"))),
    "a page": b"GET / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\r\n",
    "health": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\r\n",
    "nothing": b"DELETE /nosuch HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\r\n",
    "a body that comes later": head("/rpc", "Content-Type: application/json", "Content-Length: 9"),
}


@pytest.mark.requirement("http-single-fields")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (b"Host: other.example", "more than one Host"),
        (b"Host: other.example\r\nConnection: Upgrade\r\nUpgrade: h2c", "more than one Host"),
        (b"Authorization: Bearer a\r\nauthorization: Bearer b", "more than one Authorization"),
        (b"content-type: application/json", "more than one Content-Type"),
        (b"A2A-Version: 1.0\r\nA2A-Version: 0.3", "more than one A2A-Version"),
    ],
)
def test_a_repeated_single_header_is_refused(port: int, route: str, lines: bytes, says: str) -> None:
    """RFC 9112, 3.2: a request with two Host fields is refused with 400. The other headers have one value."""
    with connected(port) as client:
        client.socket.sendall(with_line(ROUTES[route], lines))
        status, headers, content = client.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert says.lower() in json.loads(content)["error"]["message"].lower()
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


@pytest.mark.requirement("http-single-fields")
@pytest.mark.parametrize("route", ROUTES)
def test_http_1_1_without_a_host_field_is_refused(port: int, route: str) -> None:
    sent = ROUTES[route].replace(b"Host: x\r\n", b"").replace(b"Host: dealer.example\r\n", b"")
    with connected(port) as client:
        client.socket.sendall(sent)
        status, _, content = client.answer()
        assert status == 400
        assert "Host" in json.loads(content)["error"]["message"]
    with connected(port) as client:
        client.socket.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert client.answer()[0] == 200


@pytest.mark.requirement("http-version")
@pytest.mark.parametrize("version", [b"", b" HTTP/0.9", b" HTTP/2.0", b" HTTP/3.0"])
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("before", ["", "health"])
def test_a_request_line_without_a_supported_version_is_refused(
    port: int, route: str, version: bytes, before: str
) -> None:
    """Also as the second request of a connection, and with fields that HTTP/0.9 does not have."""
    sent = ROUTES[route].replace(b" HTTP/1.1", version)
    for more in (b"", b"Connection: keep-alive\r\n"):
        with connected(port) as client:
            if before:
                client.socket.sendall(ROUTES[before])
                assert client.answer()[0] == 200
            client.socket.sendall(sent.replace(b"\r\n", b"\r\n" + more, 1))
            status, headers, content = client.answer()
            assert (status, headers["connection"]) == (400, "close")
            assert json.loads(content)["error"]["details"][1]["code"] == "SCHEMA_VALIDATION_FAILED"
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed()


@pytest.mark.requirement("http-version")
@pytest.mark.parametrize("line", [b"GET /healthz\r\n\r\n", b"GET /healthz\n\n", b"GET /healthz \r\n\r\n"])
def test_a_request_line_of_http_0_9_is_refused(port: int, line: bytes) -> None:
    """At once, with or without an empty line after it: the timeout of a head would close without a response."""
    for sent in (line, line[: line.index(b"\n") + 1], line[:6], line[:1]):
        with connected(port) as client:
            client.socket.sendall(sent)
            for number in range(len(sent), line.index(b"\n") + 1):
                # Each byte arrives on its own.
                time.sleep(0.001)
                client.socket.sendall(line[number : number + 1])
            status, headers, _ = client.answer()
            assert (status, headers["connection"]) == (400, "close")
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed()


@pytest.mark.requirement("http-version")
def test_a_request_that_arrives_byte_by_byte_has_its_version(port: int) -> None:
    """Also after a request of the same connection."""
    with connected(port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for version in (b"1.1", b"1.0"):
            for byte in b"GET /healthz HTTP/%b\r\nHost: x\r\n\r\n" % version:
                client.socket.sendall(bytes([byte]))
                time.sleep(0.001)
            assert client.answer()[0] == 200


@pytest.mark.requirement("http-single-fields")
def test_other_headers_may_repeat(port: int) -> None:
    lines = b"X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-For: 203.0.113.2\r\nAccept: a\r\nAccept: b"
    with connected(port) as client:
        for route in ("fast path", "json-rpc", "health"):
            client.socket.sendall(with_line(ROUTES[route], lines))
            assert client.answer()[0] == 200


@pytest.mark.parametrize("first", ["a lead", "fast path", "health"])
def test_requests_before_a_refused_one_are_answered_before_the_refusal(port: int, first: str) -> None:
    """Clients and proxies assign responses to requests by their order."""
    for refused in (
        with_line(ROUTES["health"], b"Host: y"),
        b"NO HTTP\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        with connected(port) as client:
            client.socket.sendall(ROUTES[first] * 3 + refused + ROUTES["health"])
            assert [client.answer()[0] for _ in range(4)] == [200, 200, 200, 400]
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed()


@pytest.mark.parametrize("before", ["", "a lead"])
def test_a_broken_body_is_refused_once(port: int, before: str) -> None:
    sent = head("/message:send", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"2\r\n{}\r\nzz\r\n"
    with connected(port) as client:
        client.socket.sendall(ROUTES.get(before, b"") + sent)
        assert [client.answer()[0] for _ in range(2 if before else 1)][-1] == 400
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_closed()


@pytest.mark.requirement("connection-trailers")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_trailer_is_no_header_field(port: int, target: str, pieces: int) -> None:
    """The first request of an address in a minute is answered, each later one is 429: a trailer that named another
    address would get around that. On the fast path and, with a body in two pieces, on the ASGI path."""
    counted = f"203.0.113.{10 * pieces + TARGETS.index(target)}"
    statuses = []
    for number in range(3):
        said = f"X-Forwarded-For: 198.51.100.{number}\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nX:\r\n"
        lines = (f"X-Forwarded-For: {counted}", "Transfer-Encoding: chunked", "Content-Type: application/json")
        sent = head(target, *lines) + chunked(body_of(target, VEHICLE), said.encode())
        with connected(port) as client:
            if pieces == 1:
                client.socket.sendall(sent)
            else:
                client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for part in (sent[:-90], sent[-90:]):
                    client.socket.sendall(part)
            statuses.append(client.answer()[0])
            client.socket.sendall(ROUTES["health"])
            assert client.answer()[0] == 200, "the next request is itself"
    assert statuses == [200, 429, 429]


UPGRADES = {
    "java's h2c": (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk",
    ),
    "a web socket": ("Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "anything": ("connection: upgrade", "upgrade: x", "Upgrade: y"),
}


@pytest.mark.requirement("connection-upgrade")
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 50, 5000])
def test_a_request_for_an_upgrade_is_an_ordinary_request(port: int, upgrade: str, target: str, size: int) -> None:
    """RFC 9110, 7.8: a server may ignore Upgrade. The request has its body, and the next one is the next one."""
    lines, content = UPGRADES[upgrade], body_of(target, SEARCH)
    declared = request(target, content, *lines)
    in_chunks = head(target, *lines, "Content-Type: application/json", "Transfer-Encoding: chunked") + chunked(content)
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"
    lead = request("/message:send", body_of("/message:send", message("lead.submit")), *lines)
    sent = [declared, in_chunks, get, lead, get, declared]
    raw = b"".join(sent)
    with connected(port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(raw), size):
            client.socket.sendall(raw[start : start + size])
        for _ in sent:
            status, headers, _ = client.answer()
            assert (status, headers.get("connection")) == (200, None)


@pytest.mark.requirement("connection-upgrade")
def test_an_upgrade_request_with_connection_close_closes(port: int) -> None:
    with connected(port) as client:
        client.socket.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\n")
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert client.is_closed()
