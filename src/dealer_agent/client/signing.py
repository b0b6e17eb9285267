"""Signs requests, so that a dealer knows who calls (docs/how-to/client-library.md). It needs the extra `signatures`."""

import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx

from dealer_agent.client.errors import InvalidRequest

if TYPE_CHECKING:
    from dealer_agent.http_signatures.keys import PrivateKey


class Signer(httpx.Auth):
    """An agent that signs its requests. `origin` is where it publishes its key directory: `https://agent.example`.

    `DealerAgent.discover(url, signer=...)` takes it. It is a value for `auth` of any httpx client, too::

        httpx.AsyncClient(auth=Signer.from_file("agent.pem", "https://agent.example"))

    Each request that is sent has a signature of its own, with a new nonce, over method, authority, path, query and body
    (RFC 9421, with the profile of Web Bot Auth).
    """

    requires_request_body = True

    def __init__(self, key: "PrivateKey", origin: str) -> None:
        """Raises InvalidRequest for an origin that is not `https://` with a host."""
        try:
            from dealer_agent.http_signatures.origin import parse_origin
            from dealer_agent.http_signatures.signing import RequestSigner as RequestSigner
        except ModuleNotFoundError:
            raise _needs_packages() from None
        parsed = parse_origin(origin)
        if parsed is None:
            raise InvalidRequest(f"{origin!r} is not the origin of an agent: give one like https://agent.example.")
        self.origin = parsed
        self._signer = RequestSigner(key, parsed)

    @classmethod
    def from_file(cls, path: str | Path, origin: str) -> Self:
        """The signer with the private key in a file: PEM (PKCS #8, without a password), or a JWK of an Ed25519 key.

        Raises InvalidRequest for a file without such a key, and without the extra `signatures`.
        """
        try:
            from dealer_agent.http_signatures.keys import KeyRefused, read_private_key
        except ModuleNotFoundError:
            raise _needs_packages() from None
        try:
            return cls(read_private_key(Path(path).read_bytes()), origin)
        except KeyRefused as refused:
            raise InvalidRequest(f"The key in {path} {refused}.") from None
        except OSError as error:
            raise InvalidRequest(f"The key {path} cannot be read: {error.strerror}.") from None

    @property
    def key(self) -> "PrivateKey":
        """The key."""
        return self._signer.key

    @property
    def thumbprint(self) -> str:
        """The name of the key in signatures and in the key directory (RFC 7638)."""
        return self.key.thumbprint

    def sign(self, request: httpx.Request, *, shift: float = 0.0) -> None:
        """Adds the headers of a signature to a request whose body is read. Earlier ones are replaced.

        The signature is made `shift` seconds after now: for tests of others.
        """
        path, _, query = request.url.raw_path.decode("ascii").partition("?")
        # httpx writes the host of a URL in lower case, and leaves out the default port.
        authority = request.headers["host"].lower()
        request.headers.update(
            self._signer.sign(request.method, authority, path, query, request.content, time.time() + shift)
        )

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Signs each request of an httpx client."""
        self.sign(request)
        yield request


def _needs_packages() -> InvalidRequest:
    return InvalidRequest("Signed requests need more packages: pip install 'dealer-agent[signatures]'")
