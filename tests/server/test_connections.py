"""Limits hold while reading: a head that is too large or too slow ends its connection. uvicorn on a real socket."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from dealer_agent.server.connection import BoundedConnection

pytestmark = pytest.mark.requirement("request-bounds")

REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


SOON, LATE = 0.3, 120.0


class Impatient(BoundedConnection):
    """Each test sets how long a head may take."""

    head_seconds = LATE


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * SOON)
        # The next head has enough time. No timer may run for this request or for what follows it.
        Impatient.head_seconds = LATE
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(answer, http=Impatient, lifespan="off", log_level="critical", timeout_keep_alive=60)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Impatient, "head_seconds", SOON)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=LATE)


def sent_in_time(port: int, request: bytes) -> socket.socket:
    """A connection to an impatient server on which a request was sent in time. On a busy machine this may need several
    attempts."""
    while True:
        begun = time.monotonic()
        connection = connected(port)
        try:
            connection.sendall(request)
        except ConnectionError:
            connection.close()
            continue
        if time.monotonic() - begun < SOON:
            return connection
        connection.close()


def answered(connection: socket.socket) -> bool:
    """Whether the next response is a success. It may arrive in parts."""
    received = b""
    while not received.endswith(b"\r\n\r\nok"):
        part = connection.recv(1)
        assert part, received
        received += part
    return received.startswith(b"HTTP/1.1 200")


def all_received(connection: socket.socket) -> bytes:
    """All bytes until the server closes the connection. Raises TimeoutError if it does not."""
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def test_endless_headers_are_refused(port: int) -> None:
    with closing(connected(port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with pytest.raises(ConnectionError):  # noqa: PT012 - some of it is sent before the server has closed.
            for number in range(1000):
                connection.sendall(b"X-%d: " % number + b"a" * 60_000 + b"\r\n")
            raise AssertionError("60 MB of headers were taken")


def test_one_endless_header_is_refused(port: int) -> None:
    with closing(connected(port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(ConnectionError):  # noqa: PT012 - as above.
            for _ in range(1000):
                connection.sendall(b"a" * 60_000)
            raise AssertionError("a header of 60 MB was taken")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET / HTTP/1.1\r\nHost:", REQUEST[:40]])
def test_a_client_that_does_not_complete_its_head_is_disconnected(port: int, begun: bytes) -> None:
    with closing(sent_in_time(port, begun)) as connection:
        assert all_received(connection) == b""


@pytest.mark.usefixtures("impatient")
def test_a_client_that_does_not_complete_a_later_head_is_disconnected(port: int) -> None:
    with closing(sent_in_time(port, REQUEST)) as connection:
        assert answered(connection)
        connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert all_received(connection) == b""


@pytest.mark.usefixtures("impatient")
def test_a_connection_between_two_requests_is_kept(port: int) -> None:
    with closing(sent_in_time(port, REQUEST)) as connection:
        assert answered(connection)
        time.sleep(2 * SOON)
        connection.sendall(REQUEST)
        assert answered(connection)
        time.sleep(2 * SOON)
        connection.sendall(REQUEST)
        assert answered(connection)


@pytest.mark.usefixtures("impatient")
def test_a_large_body_and_a_slow_response_do_not_count_as_a_slow_head(port: int) -> None:
    head = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    with closing(sent_in_time(port, head)) as connection:
        connection.sendall(b"x" * 200_000 + REQUEST[:30])
        assert answered(connection)
        connection.sendall(REQUEST[30:])
        assert answered(connection)
