"""The fast path gives the same responses as the path over ASGI.

The real application runs under uvicorn on a real socket. The tests count the ASGI tasks to see which path was taken.
"""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.running import eventually
from tests.server.dealership import ACCORD, NO_LIMITS, SOLD, message, set_up
from tests.server.sockets import TARGETS, Client, body_of, connected, head, on_a_port, request

from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.fast_path import FAST_BODY_BYTES

pytestmark = pytest.mark.outside_protocol("the fast path answers as the normal path does")


class Watched(BoundedConnection):
    """Counts the requests that go over ASGI, and the bytes that are not sent yet."""

    over_asgi = 0
    answered = 0
    most_unsent = 0
    held_back = threading.Event()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        Watched.over_asgi += 1
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        Watched.held_back.set()
        super().pause_writing()

    def on_response_complete(self) -> None:
        Watched.most_unsent = max(Watched.most_unsent, self.transport.get_write_buffer_size())
        super().on_response_complete()
        Watched.answered += 1


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("fast-path")
    set_up(folder, '[auth]\nmode = "bearer"\nskills = ["dealer.information"]\n' + NO_LIMITS, stocked=stocked)
    with on_a_port(folder, Watched) as port:
        yield port


def paths_of(port: int, send: Callable[[Client], None]) -> tuple[int, tuple[int, dict[str, str], bytes]]:
    """How many requests went over ASGI, and the response."""
    before = Watched.over_asgi
    with connected(port) as client:
        send(client)
        answer = client.answer()
    return Watched.over_asgi - before, answer


def in_two_pieces(sent: bytes) -> Callable[[Client], None]:
    """Sends a body in two parts, so that the request goes over ASGI and waits there."""

    def send(client: Client) -> None:
        before = Watched.over_asgi
        client.socket.sendall(sent[:-5])
        deadline = time.monotonic() + 120
        while Watched.over_asgi == before:
            assert time.monotonic() < deadline, "the service does not wait for the body"
            time.sleep(0.001)
        client.socket.sendall(sent[-5:])

    return send


def without_ids(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, list[tuple[str, str]], bytes]:
    """A response without its date, ids and times."""
    status, headers, content = answer
    kept = [(name, re.sub(r"[0-9A-Z]{26}", "ID", value)) for name, value in headers.items() if name != "date"]
    content = re.sub(rb"[0-9A-HJKMNP-TV-Z]{26}", b"ID", content)
    return status, kept, re.sub(rb'"created_at":"[^"]+"', b'"created_at":""', content)


SEARCH = message("inventory.search", filters={"make": ["Honda", "Nissan"]})
ASKED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a search": (SEARCH, ()),
    "an empty page": (message("inventory.search", pagination={"skip": 10_000}), ()),
    "facets": (message("inventory.facets"), ()),
    "a vehicle": (message("inventory.vehicle", vin=ACCORD), ()),
    "the other vocabulary": (message("inventory.search", "autoagent"), ()),
    "a context": ({**SEARCH, "message": {**SEARCH["message"], "contextId": "c-1"}}, ()),
    "an extension": (SEARCH, ("A2A-Extensions: https://proto.example/extensions/a2a-automotive-retail/v1.0",)),
    "a vehicle that is gone": (message("inventory.vehicle", vin=SOLD), ()),
    "no vehicle": (message("inventory.vehicle", vin="1HGCY2F57RA999999"), ()),
    "no token": (message("dealer.information"), ()),
    "a wrong token": (SEARCH, ("Authorization: Bearer dat_x_y",)),
    "another version": (SEARCH, ("A2A-Version: 0.3",)),
}
"""Requests with a valid body, and further header lines."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("asked", ASKED)
def test_both_paths_give_the_same_response(port: int, target: str, asked: str) -> None:
    """One order of checks, one envelope. Only the ids and the date differ (docs/protocol.md#order-of-checks)."""
    document, lines = ASKED[asked]
    sent = request(target, body_of(target, document), *lines)
    over_asgi, answer = paths_of(port, lambda client: client.socket.sendall(sent))
    other_over_asgi, other = paths_of(port, in_two_pieces(sent))
    assert (over_asgi, other_over_asgi) == (0, 1)
    assert without_ids(answer) == without_ids(other)


@pytest.mark.parametrize("rule", ["address", "inventory_search"])
def test_both_paths_refuse_at_the_same_rate_with_the_same_response(tmp_path: Path, stocked: Path, rule: str) -> None:
    """The address is counted before the body is read. So its refusal has no call id and the default vocabulary."""
    set_up(tmp_path, NO_LIMITS.replace(f'{rule} = ""', f'{rule} = "1/hour"'), stocked=stocked)
    sent = request("/rpc", body_of("/rpc", message("inventory.search", "autoagent")))
    with on_a_port(tmp_path, Watched) as port:
        first, allowed = paths_of(port, lambda client: client.socket.sendall(sent))
        over_asgi, answer = paths_of(port, lambda client: client.socket.sendall(sent))
        other_over_asgi, other = paths_of(port, in_two_pieces(sent))
    assert (first, over_asgi, other_over_asgi) == (0, 0, 1)
    assert (allowed[0], answer[0], other[0]) == (200, 429, 429)
    assert json.loads(answer[2])["id"] == (None if rule == "address" else "call-1")
    # The seconds to wait may differ by one.
    assert re.sub(r"\d", "", str(without_ids(answer))) == re.sub(r"\d", "", str(without_ids(other)))


@pytest.mark.parametrize(
    "sent",
    [
        request("/message:send", body_of("/message:send", message("lead.submit"))),
        request("/message:send", b'{"message":{}}'),
        request("/message:send", b"not json"),
        request("/message:send", b""),
        request("/message:send/", body_of("", SEARCH)),
        request("/message:send?A2A-Version=1.0", body_of("", SEARCH)),
        request("/message:send", body_of("", SEARCH), "Expect: 100-continue"),
        request("/message:send", body_of("", SEARCH) + b" " * FAST_BODY_BYTES),
        request("/message:send", body_of("", SEARCH), "Connection: close"),
        request("/message:send", body_of("", SEARCH), version="1.0"),
        request("/rpc", body_of("/message:send", SEARCH)),
    ],
)
def test_unusual_requests_go_over_asgi(port: int, sent: bytes) -> None:
    before = Watched.over_asgi
    with connected(port) as client:
        client.socket.sendall(sent)
        if b"Expect" in sent:
            assert client.socket.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert client.answer()[0] in (200, 422)
    assert Watched.over_asgi == before + 1


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("Connection: close", "1.1"),
        ("X: x", "1.0"),
        ("Connection: keep-alive", "1.0"),
        ("Proxy-Connection: keep-alive", "1.0"),
    ],
)
def test_a_connection_that_must_close_closes_after_the_response(port: int, line: str, version: str) -> None:
    with connected(port) as client:
        client.socket.sendall(request("/rpc", body_of("/rpc", SEARCH), line, version=version))
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert client.is_closed()


def test_a_complete_chunked_body_takes_the_fast_path(port: int) -> None:
    content = body_of("/rpc", SEARCH)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (content[:7], content[7:])) + b"0\r\n\r\n"
    sent = head("/rpc", "Transfer-Encoding: chunked", "Content-Type: application/json") + chunks
    over_asgi, answer = paths_of(port, lambda client: client.socket.sendall(sent))
    assert (over_asgi, answer[0]) == (0, 200)


def test_pipelined_requests_are_answered_in_order_on_both_paths(port: int) -> None:
    """A lead waits for the disk. Later requests of its connection are answered after it."""
    rpc = {"jsonrpc": "2.0", "method": "SendMessage"}
    asked = [SEARCH, message("lead.submit"), SEARCH, message("inventory.vehicle", vin=ACCORD), {}, SEARCH]
    sent = [json.dumps({**rpc, "id": number, "params": each}).encode() for number, each in enumerate(asked)]
    before = Watched.over_asgi
    with connected(port) as client:
        client.socket.sendall(b"".join(request("/rpc", each) for each in sent))
        ids = [json.loads(client.answer()[2])["id"] for _ in sent]
        assert ids == list(range(len(asked)))
        assert Watched.over_asgi > before
        before = Watched.over_asgi
        client.socket.sendall(request("/rpc", sent[0]))
        assert client.answer()[0] == 200
        assert Watched.over_asgi == before, "a connection returns to the fast path"


def test_a_client_that_does_not_read_responses_takes_little_memory(port: int) -> None:
    """A buyer's agent must not be able to fill the dealer's memory (docs/protocol.md#bounds)."""
    one = request("/message:send", body_of("", message("inventory.search", pagination={"limit": 100})))
    count = 20_000
    with connected(port, receive_buffer=4096) as client:
        Watched.held_back.clear()
        sent, before = 0, Watched.answered
        while not Watched.held_back.is_set():
            assert sent < count, "no response waits to be read"
            client.socket.sendall(one)
            sent += 1
            eventually("it is answered", lambda: Watched.answered == before + sent, every=0.001)  # noqa: B023
        statuses = {client.answer()[0] for _ in range(sent)}
    assert statuses == {200}
    assert Watched.most_unsent < 1_000_000


def test_the_log_has_one_line_for_each_request_with_the_same_members_on_both_paths(
    tmp_path: Path, stocked: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_up(tmp_path, NO_LIMITS, stocked=stocked)
    sent = request("/message:send", body_of("", SEARCH))
    missing = request("/message:send", body_of("", message("inventory.vehicle", vin=SOLD)))
    with on_a_port(tmp_path, Watched) as port, connected(port) as client:
        answers = []
        for each in (sent, missing):
            client.socket.sendall(each)
            answers.append(client.answer())
            in_two_pieces(each)(client)
            answers.append(client.answer())
    lines = [json.loads(line) for line in capfdbinary.readouterr().err.splitlines() if b'"event":"request"' in line]
    assert [line["request_id"] for line in lines] == [headers["x-request-id"] for _, headers, _ in answers]
    found = ["request_id", "binding", "status", "ms", "skill", "event", "level", "at"]
    refused = [*found[:5], "code", "error_id", *found[5:]]
    assert [list(line) for line in lines] == [found, found, refused, refused]
    assert [line["status"] for line in lines] == [200, 200, 409, 409]
    assert lines[2]["error_id"] in answers[2][2].decode()
