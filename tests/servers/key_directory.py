"""The https server of an agent: its key directory, which counts how often it is fetched."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.delivery.certificates import server_certificate

from dealer_agent.http_signatures.directory import PATH, directory_document, directory_headers
from dealer_agent.http_signatures.keys import PrivateKey, private_key_of
from dealer_agent.http_signatures.signing import RequestSigner


def new_key() -> PrivateKey:
    return private_key_of(Ed25519PrivateKey.generate())


@dataclass
class KeyDirectory:
    """The directory at `origin`, with `keys`. `trusted` is the file of the authority that its clients need."""

    origin: str
    trusted: Path
    keys: list[PrivateKey]
    fetches: list[float] = field(default_factory=list)

    @property
    def signer(self) -> RequestSigner:
        return RequestSigner(self.keys[0], self.origin)


@contextmanager
def key_directory(folder: Path) -> Iterator[KeyDirectory]:
    """A directory with one key on this machine, for the length of the block."""
    context, trusted = server_certificate(folder, host="localhost")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.fetches.append(time())
            if self.path != PATH:
                self.send_error(404)
                return
            document = directory_document(made.keys)
            authority = made.origin.removeprefix("https://")
            self.send_response(200)
            for name, value in directory_headers(made.keys, document, authority, time()).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("localhost", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        made = KeyDirectory(f"https://localhost:{server.server_port}", trusted, [new_key()])
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()
