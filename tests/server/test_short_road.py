"""Reading skills are answered by the connection itself: what a client sees is the same as on the long road.

The real application under uvicorn on a real socket; which road was taken is told by the ASGI tasks that were started.
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
from tests.server.dealership import ACCORD, NO_LIMITS, SOLD, message, set_up
from tests.server.sockets import TARGETS, Client, body_of, connected, head, on_a_port, request

from dealer_agent.server.connection import BoundedConnection
from dealer_agent.server.fast_path import SHORT_BODY_BYTES

pytestmark = pytest.mark.outside_protocol("the fast path answers as the normal path does")


class Watched(BoundedConnection):
    """Counts the requests that take the long road, and sees how much waits to be sent, and whether too much does."""

    long_roads = 0
    most_unsent = 0
    held_back = threading.Event()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        Watched.long_roads += 1
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        Watched.held_back.set()
        super().pause_writing()

    def on_response_complete(self) -> None:
        Watched.most_unsent = max(Watched.most_unsent, self.transport.get_write_buffer_size())
        super().on_response_complete()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, stocked: Path) -> Iterator[int]:
    directory = tmp_path_factory.mktemp("short-road")
    set_up(directory, '[auth]\nmode = "bearer"\nskills = ["dealer.information"]\n' + NO_LIMITS, stocked=stocked)
    with on_a_port(directory, Watched) as port:
        yield port


def long_roads_of(port: int, send: Callable[[Client], None]) -> tuple[int, tuple[int, dict[str, str], bytes]]:
    """How many requests of one exchange took the long road, and the exchange's answer."""
    before = Watched.long_roads
    with connected(port) as client:
        send(client)
        answer = client.answer()
    return Watched.long_roads - before, answer


def in_two_pieces(sent: bytes) -> Callable[[Client], None]:
    """A body that is not there at once, so that it is waited for on the long road."""

    def send(client: Client) -> None:
        before = Watched.long_roads
        client.socket.sendall(sent[:-5])
        deadline = time.monotonic() + 120
        while Watched.long_roads == before:
            assert time.monotonic() < deadline, "it is not waited for"
            time.sleep(0.001)
        client.socket.sendall(sent[-5:])

    return send


def told(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, list[tuple[str, str]], bytes]:
    """An answer without what is new in every answer: the date, ids, times."""
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
"""Requests in order, as far as the body goes, and a header line more."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("asked", ASKED)
def test_both_roads_give_the_same_answer(port: int, target: str, asked: str) -> None:
    """Contract 3: one order of checks, one envelope. Only the ids and the date differ."""
    document, lines = ASKED[asked]
    sent = request(target, body_of(target, document), *lines)
    short_roads, answer = long_roads_of(port, lambda client: client.socket.sendall(sent))
    long_roads, other = long_roads_of(port, in_two_pieces(sent))
    assert (short_roads, long_roads) == (0, 1)
    assert told(answer) == told(other)


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
        request("/message:send", body_of("", SEARCH) + b" " * SHORT_BODY_BYTES),
        request("/message:send", body_of("", SEARCH), "Connection: close"),
        request("/message:send", body_of("", SEARCH), version="1.0"),
        request("/rpc", body_of("/message:send", SEARCH)),
    ],
)
def test_whatever_is_unusual_takes_the_long_road(port: int, sent: bytes) -> None:
    before = Watched.long_roads
    with connected(port) as client:
        client.socket.sendall(sent)
        if b"Expect" in sent:
            assert client.socket.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert client.answer()[0] in (200, 422)
    assert Watched.long_roads == before + 1


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("Connection: close", "1.1"),
        ("X: x", "1.0"),
        ("Connection: keep-alive", "1.0"),
        ("Proxy-Connection: keep-alive", "1.0"),
    ],
)
def test_a_connection_that_is_to_close_is_closed_behind_the_answer(port: int, line: str, version: str) -> None:
    with connected(port) as client:
        client.socket.sendall(request("/rpc", body_of("/rpc", SEARCH), line, version=version))
        status, headers, _ = client.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert client.is_closed()


def test_a_chunked_body_that_is_there_is_answered_at_once(port: int) -> None:
    content = body_of("/rpc", SEARCH)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (content[:7], content[7:])) + b"0\r\n\r\n"
    sent = head("/rpc", "Transfer-Encoding: chunked", "Content-Type: application/json") + chunks
    long_roads, answer = long_roads_of(port, lambda client: client.socket.sendall(sent))
    assert (long_roads, answer[0]) == (0, 200)


def test_requests_in_a_row_are_answered_in_order_on_whichever_road(port: int) -> None:
    """A lead waits for the disk; what came behind it on the connection is answered behind it."""
    rpc = {"jsonrpc": "2.0", "method": "SendMessage"}
    asked = [SEARCH, message("lead.submit"), SEARCH, message("inventory.vehicle", vin=ACCORD), {}, SEARCH] * 5
    sent = [json.dumps({**rpc, "id": number, "params": each}).encode() for number, each in enumerate(asked)]
    before = Watched.long_roads
    with connected(port) as client:
        client.socket.sendall(b"".join(request("/rpc", each) for each in sent))
        ids = [json.loads(client.answer()[2])["id"] for _ in sent]
        assert ids == list(range(len(asked)))
        assert Watched.long_roads > before
        before = Watched.long_roads
        client.socket.sendall(request("/rpc", sent[0]))
        assert client.answer()[0] == 200
        assert Watched.long_roads == before, "a connection that has seen the long road finds back"


def test_a_client_that_does_not_read_makes_the_service_keep_little_for_it(port: int) -> None:
    """Spec 8: a buyer's agent must not be able to fill the dealer's memory."""
    one = request("/message:send", body_of("", message("inventory.search", pagination={"limit": 100})))
    count = 2_000
    with connected(port) as client:
        sender = threading.Thread(target=client.socket.sendall, args=(one * count,))
        Watched.held_back.clear()
        sender.start()
        assert Watched.held_back.wait(120), "nothing waits to be read"
        statuses = {client.answer()[0] for _ in range(count)}
        sender.join()
    assert statuses == {200}
    assert Watched.most_unsent < 1_000_000


def test_the_log_has_one_line_a_request_with_the_same_members_on_both_roads(
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
