"""An issuer of access tokens: the authorization server of Authlib as a real server, with tokens as in RFC 9068."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from authlib.oauth2 import AuthorizationServer, OAuth2Request
from authlib.oauth2.rfc6749 import ClientCredentialsGrant, ClientMixin
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from joserfc.jwk import ECKey, KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

SCOPES = ("inventory:read", "leads:write", "openid")


@dataclass
class Client(ClientMixin):  # type: ignore[misc]
    """A client of the issuer. Its secret is its id in reverse order."""

    client_id: str
    scopes: frozenset[str] = frozenset(SCOPES)

    @property
    def secret(self) -> str:
        return self.client_id[::-1]

    def get_client_id(self) -> str:
        return self.client_id

    def get_allowed_scope(self, scope: str | None) -> str:
        return " ".join(name for name in (scope or "").split() if name in self.scopes)

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "client_secret_basic"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == "client_credentials"


class _Tokens(JWTBearerTokenGenerator):  # type: ignore[misc]
    def __init__(self, issuer: "Issuer") -> None:
        super().__init__(issuer.url, alg=issuer.algorithm, expires_generator=lambda *_: issuer.seconds)
        self._issuer = issuer

    def get_jwks(self) -> Any:
        return self._issuer.key

    def get_audiences(self, client: Client, user: None, scope: str) -> Any:
        return self._issuer.resource


class _Server(AuthorizationServer):  # type: ignore[misc]
    def __init__(self, issuer: "Issuer") -> None:
        super().__init__(scopes_supported=[*SCOPES])
        self._issuer = issuer
        self.register_grant(ClientCredentialsGrant)
        self.register_token_generator("default", _Tokens(issuer))

    def query_client(self, client_id: str) -> Client | None:
        return self._issuer.clients.get(client_id)

    def save_token(self, token: Any, request: Any) -> None:
        """The tokens carry all that is known of them."""

    def create_oauth2_request(self, request: OAuth2Request) -> OAuth2Request:
        return request

    def send_signal(self, name: str, *args: Any, **more: Any) -> None:
        """Nobody listens."""

    def handle_response(self, status: int, body: Any, headers: Any) -> Response:
        return JSONResponse(body, status, dict(headers))


def _key(algorithm: str, number: int) -> Any:
    options: Any = {"kid": f"key-{number}", "use": "sig", "alg": algorithm}
    return RSAKey.generate_key(2048, options) if algorithm[:2] in ("RS", "PS") else ECKey.generate_key("P-256", options)


@dataclass
class Issuer:
    """A running issuer. `resource` is the audience of the next token; a request that names one replaces it."""

    url: str
    algorithm: str = "RS256"
    seconds: int = 300
    resource: str = ""
    clients: dict[str, Client] = field(default_factory=dict)
    fetched: int = 0
    key: Any = None

    def __post_init__(self) -> None:
        self.rotate(1)
        for client in (Client("shopping-agent"), Client("reader", frozenset({"inventory:read"}))):
            self.clients[client.client_id] = client

    def rotate(self, number: int) -> None:
        """Signs with another key, and publishes only this one."""
        self.key = _key(self.algorithm, number)

    def token(self, client_id: str, resource: str, scope: str = "inventory:read leads:write") -> str:
        """An access token of a client for a resource, from the token endpoint."""
        form = {"grant_type": "client_credentials", "scope": scope, "resource": resource}
        answer = httpx.post(f"{self.url}/token", data=form, auth=(client_id, client_id[::-1]), timeout=60)
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["access_token"]
        return found

    def app(self) -> Starlette:
        server = _Server(self)

        async def token(request: Request) -> Response:
            form = {name: str(value) for name, value in (await request.form()).items()}
            self.resource = form.get("resource", self.resource)
            # Authlib accepts https only. This server is on the machine of the test.
            login = {"Authorization": request.headers.get("authorization", "")}
            asked = OAuth2Request("POST", "https://issuer.example/token", headers=login)
            asked.payload = BasicOAuth2Payload(form)
            response: Response = server.create_token_response(asked)
            return response

        async def metadata(_: Request) -> Response:
            return JSONResponse(
                {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    "jwks_uri": f"{self.url}/keys.json",
                    "scopes_supported": SCOPES,
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["client_credentials"],
                    "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                }
            )

        async def keys(_: Request) -> Response:
            self.fetched += 1
            return JSONResponse(KeySet([self.key]).as_dict(private=False), headers={"cache-control": "max-age=600"})

        return Starlette(
            routes=[
                Route("/token", token, methods=["POST"]),
                Route("/.well-known/oauth-authorization-server", metadata),
                Route("/keys.json", keys),
            ]
        )


@contextmanager
def running_issuer(**options: Any) -> Iterator[Issuer]:
    """An issuer that answers at a port of its own until the end of the block."""
    # The socket listens before the server starts, so that early connections wait.
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = Issuer(f"http://127.0.0.1:{listener.getsockname()[1]}", **options)
    server = uvicorn.Server(uvicorn.Config(issuer.app(), log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.should_exit = True
        thread.join(60)
