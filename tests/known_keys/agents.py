"""A server of an agent with a key directory, over HTTPS."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.http_signatures.signed import KEY

from dealer_agent.http_signatures.directory import directory_document, directory_headers


@dataclass
class Agent:
    """What the server answers. `asked` has the paths of its requests. `delay` and `slowly` are in seconds: before the
    response, and after each of its bytes."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    slowly: float = 0.0
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def origin(self) -> str:
        """The origin, which requests name."""
        return f"https://127.0.0.1:{self.port}"

    def publish(self, *keys: object, seconds: int = 3600) -> None:
        """Publishes these keys in a signed directory."""
        self.status, self.body = 200, directory_document(keys)  # type: ignore[arg-type]
        self.headers = directory_headers(keys, self.body, f"127.0.0.1:{self.port}", time.time(), seconds)  # type: ignore[arg-type]


@contextmanager
def agent(context: ssl.SSLContext) -> Iterator[Agent]:
    """A running server, which publishes KEY."""
    of = Agent()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            of.asked.append(self.path)
            stopped.wait(of.delay)
            self.send_response(of.status)
            for name, value in of.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in [of.body] if not of.slowly else [of.body[n : n + 1] for n in range(len(of.body))]:
                self.wfile.write(part)
                if of.slowly and stopped.wait(of.slowly):
                    return

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class.
            pass

    stopped = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    of.port = server.server_address[1]
    of.publish(KEY)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield of
    finally:
        stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()
