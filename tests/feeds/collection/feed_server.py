"""A real HTTP server that has a feed, with ETag, Last-Modified, gzip and logins."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FeedServer:
    """What the server answers, and the requests that it got: path, and headers in lower case."""

    content: bytes = b""
    modified: str | None = None
    has_etag: bool = True
    compresses: bool = False
    login: str | None = None
    redirects: dict[str, str] = field(default_factory=dict)
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def toml(self, more: str = "", name: str = "main") -> str:
        """The settings of a feed of this server."""
        return f'\n[[feeds]]\nname = "{name}"\n[feeds.url]\naddress = "{self.url}/stock.json"\n{more}'

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append((handler.path, headers))
        if handler.path in self.redirects:
            _send(handler, 302, {"Location": self.redirects[handler.path]})
        elif self.login is not None and headers.get("authorization") != self.login:
            _send(handler, 401, {})
        elif self.answer is not None:
            self.answer(handler)
        else:
            self._send_content(handler, headers)

    def _send_content(self, handler: BaseHTTPRequestHandler, headers: dict[str, str]) -> None:
        validators = {}
        if self.has_etag:
            validators["ETag"] = f'"{sha256(self.content).hexdigest()[:16]}"'
        if self.modified is not None:
            validators["Last-Modified"] = self.modified
        if (self.has_etag and headers.get("if-none-match") == validators["ETag"]) or (
            self.modified is not None and headers.get("if-modified-since") == self.modified
        ):
            _send(handler, 304, validators)
        elif self.compresses:
            _send(handler, 200, {**validators, "Content-Encoding": "gzip"}, gzip.compress(self.content))
        else:
            _send(handler, 200, validators, self.content)


def _send(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def feed_server(content: bytes = b"", **given: Any) -> Iterator[FeedServer]:
    """A server on this machine, for a block."""
    server = FeedServer(content, **given)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.respond(self)

        def log_message(self, *_: object) -> None:
            """Writes nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
