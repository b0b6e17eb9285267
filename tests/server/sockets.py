"""The real application under uvicorn on a real socket, and a client that sends bytes to it."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any

import uvicorn
from tests.logs import in_background
from tests.server.dealership import LISTENS_AT

from dealer_agent.bootstrap import application
from dealer_agent.config.installation import load_served
from dealer_agent.server.connection import BoundedConnection

TARGETS = ("/message:send", "/rpc")


@contextmanager
def on_a_port(folder: Path, protocol: type[BoundedConnection] = BoundedConnection, **options: Any) -> Iterator[int]:
    """Runs the dealer or the installation in a folder under uvicorn. Yields the port. `options` are uvicorn's."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = application(load_served(folder, {}, LISTENS_AT))
    options = {"loop": "dealer_agent.server.event_loop:AcceptingLoop", **options}
    config = uvicorn.Config(app, http=protocol, log_level="critical", ws="none", server_header=False, **options)
    server = uvicorn.Server(config)
    with in_background():
        thread = threading.Thread(target=copy_context().run, args=(server.run, [listener]))
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def body_of(target: str, document: dict[str, Any]) -> bytes:
    call = {"jsonrpc": "2.0", "id": "call-1", "method": "SendMessage", "params": document}
    return json.dumps(call if target == "/rpc" else document).encode()


def head(target: str, *lines: str, version: str = "1.1") -> bytes:
    fixed = (f"POST {target} HTTP/{version}", "Host: dealer.example")
    return "\r\n".join([*fixed, *lines, "", ""]).encode()


def request(target: str, content: bytes, *lines: str, version: str = "1.1") -> bytes:
    headers = (f"Content-Length: {len(content)}", "Content-Type: application/json", *lines)
    return head(target, *headers, version=version) + content


class Client:
    """One connection."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(120)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self._unread = b""

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        while b"\r\n\r\n" not in self._unread:
            self._receive()
        received, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *lines = received.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        while len(self._unread) < length:
            self._receive()
        content, self._unread = self._unread[:length], self._unread[length:]
        return int(first.split()[1]), headers, content

    def answers(self, sent: Sequence[bytes], ahead: int = 8) -> Iterator[tuple[int, dict[str, str], bytes]]:
        """The answers to these requests. At most `ahead` of them wait, which a service allows."""
        for number in range(len(sent)):
            first = number + ahead - 1 if number else 0
            self.socket.sendall(b"".join(sent[first : number + ahead]))
            yield self.answer()

    def is_closed(self) -> bool:
        return not self._unread and self.socket.recv(1) == b""

    def _receive(self) -> None:
        part = self.socket.recv(1 << 20)
        assert part, "the server closed the connection"
        self._unread += part


@contextmanager
def connected(port: int, receive_buffer: int | None = None) -> Iterator[Client]:
    client = Client(port, receive_buffer)
    with closing(client.socket):
        yield client
