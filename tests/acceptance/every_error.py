"""A server that answers each message with one error of the service, encoded by the service's own code.

Some errors are hard to get from a running service: that one of its own fault, for example.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

from tests.protocol.bodies import body, refused
from tests.server.pages.samples import card_facts

from dealer_agent.protocol.card import card_1_0_0
from dealer_agent.protocol.errors import ERRORS, ProtocolError
from dealer_agent.protocol.vocabulary import AUTOAGENT, proto, vocabularies_of
from dealer_agent.server.bindings import HTTP_JSON, JSON_RPC

VOCABULARIES = {"proto": proto(), "autoagent": AUTOAGENT}


def example(code: str) -> ProtocolError:
    """An error with this code. SCHEMA_VALIDATION_FAILED has two problems."""
    if code == "SCHEMA_VALIDATION_FAILED":
        return refused(body(filters={"make": 7, "year_min": 1}))
    return ERRORS[code](*ERRORS[code].example)


class _Handler(BaseHTTPRequestHandler):
    """The path is /VOCABULARY/CODE, then that of a card or of a binding."""

    def do_GET(self) -> None:
        base = f"http://{self.headers['host']}"
        below = self.path.removesuffix("/.well-known/agent-card.json")
        card = card_1_0_0(card_facts(base, below), vocabularies_of("proto", proto()))
        self._send(200, json.dumps(card).encode(), ())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        _, vocabulary, code, *rest = urlsplit(self.path).path.split("/")
        binding = JSON_RPC if rest == ["rpc"] else HTTP_JSON
        error = example(code)
        at = datetime.now(UTC)
        status, answer = binding.encode_error(error, VOCABULARIES[vocabulary], "err_1", at, binding.call_id(sent))
        self._send(status, answer, error.headers)

    def _send(self, status: int, answer: bytes, headers: tuple[tuple[str, str], ...]) -> None:
        self.send_response(status)
        for name, value in (("content-type", "application/json"), ("content-length", str(len(answer))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@contextmanager
def serving_errors() -> Iterator[str]:
    """The URL of a server that runs for the length of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
