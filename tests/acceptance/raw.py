"""Requests by the byte, for what no client library would send."""

import json
import socket
from typing import Any

from tests.acceptance.asking import body


def connect(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=120)


def head(*lines: str) -> bytes:
    fixed = ("POST /message:send HTTP/1.1", "Host: dealer.example", "Content-Type: application/json")
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def begun_upload(url: str, content: bytes, *lines: str) -> socket.socket:
    """A request whose head the service has read, and for whose body it waits: it said so."""
    connection = connect(url)
    connection.sendall(head(f"Content-Length: {len(content)}", "Expect: 100-continue", *lines))
    said = b"HTTP/1.1 100 Continue\r\n\r\n"
    assert connection.recv(len(said), socket.MSG_WAITALL) == said
    return connection


def search_body() -> bytes:
    return json.dumps(body("inventory.search")).encode()


def read_to_the_end(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON body of the one response, after which the server closes the connection."""
    received = b""
    while True:
        part = connection.recv(65536)
        if not part:
            break
        received += part
    headers, _, content = received.partition(b"\r\n\r\n")
    first, *lines = headers.decode("latin-1").split("\r\n")
    told = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert len(content) == int(told["content-length"]), "half an answer, or more than one"
    return int(first.split()[1]), told, json.loads(content)
