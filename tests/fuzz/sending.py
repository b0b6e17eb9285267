"""Requests as bytes on a socket, without an HTTP library that could change them."""

import socket
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple

from tests.soak import soak_count

REQUESTS = soak_count("SOAK_REQUESTS", 500)
"""The least number of requests that the tests of this folder send together. Each test sends a share of it."""

Headers = Sequence[tuple[bytes, bytes]]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def request(method: str, target: str, headers: Headers, body: bytes = b"", *, declared: bool = True) -> bytes:
    """An HTTP/1.1 request. With `declared`, it has the right Content-Length."""
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1"), b"Host: dealer.example.com", b"Connection: close"]
    lines += [name + b": " + value for name, value in headers]
    if declared:
        lines.append(b"Content-Length: " + str(len(body)).encode())
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def send_raw(port: int, raw: bytes, *, method: str = "POST", leave: bool = False) -> Answer | None:
    """Sends bytes and reads the whole response; None when the service closed without one. `leave`: says at once that
    nothing more will come."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        try:
            connection.sendall(raw)
            if leave:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # A service may refuse a body before all of it came; its response is there to read.
        response = HTTPResponse(connection, method=method)
        try:
            response.begin()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        except (HTTPException, ConnectionResetError):
            return None


JSON_HEADERS: Headers = [(b"Content-Type", b"application/json")]


def post(port: int, target: str, body: bytes, headers: Headers = JSON_HEADERS) -> Answer:
    """The response to a well-formed POST of any body. There must be one."""
    answer = send_raw(port, request("POST", target, headers, body))
    assert answer is not None, "no answer"
    return answer
