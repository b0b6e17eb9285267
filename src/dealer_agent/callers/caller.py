"""Describes and names the sender of a request (docs/protocol.md#callers). Pure.

The guards decide it once for each request. Everything else reads it: limits, the owner of a lead, idempotency keys,
counts and logs. `source_agent` in a payload is only a claim, and decides nothing.
"""

import re
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from dealer_agent.callers.issuer import LONGEST_CLIENT, LONGEST_ISSUER
from dealer_agent.http_signatures.origin import parse_origin

CallerClass = Literal["anonymous", "token", "signed", "issued"]
"""How a caller proves who it is: not at all; with a token of the dealer; with a signature of its requests; with an
access token of an issuer that the dealer trusts."""

TOKEN_PREFIX = "token:"  # noqa: S105 - not a secret.


class Caller(NamedTuple):
    """A sender. `identity` is what its class proves, and is never a claim; it is empty for an anonymous caller.

    - token: `token:` and the id of the token
    - signed: the origin of its key directory, such as `https://agent.example`
    - issued: the issuer, `#` and the client id, such as `https://login.example#shopping-agent`

    `scopes` are the scopes of its access token (`protocol.skill.Skill.scope`). None allows every skill.
    """

    kind: CallerClass
    identity: str = ""
    scopes: frozenset[str] | None = None

    @property
    def is_known(self) -> bool:
        """Whether it has proved who it is."""
        return self.kind != "anonymous"

    @property
    def token_id(self) -> str | None:
        """The id of the dealer's token that it sent."""
        return token_id_of(self.identity)


ANONYMOUS = Caller("anonymous")


def token_caller(token_id: str, scopes: frozenset[str] | None = None) -> Caller:
    """The owner of a token of the dealer."""
    return Caller("token", f"{TOKEN_PREFIX}{token_id}", scopes)


def signed(origin: str) -> Caller:
    """The agent whose keys are at an origin."""
    return Caller("signed", origin)


def issued(issuer: str, client_id: str, scopes: frozenset[str] | None = None) -> Caller:
    """The client to which an issuer has given an access token."""
    return Caller("issued", f"{issuer}#{client_id}", scopes)


def token_id_of(identity: str | None) -> str | None:
    """The id of the token in an identity; None for other identities."""
    if identity is None or not identity.startswith(TOKEN_PREFIX):
        return None
    return identity.removeprefix(TOKEN_PREFIX)


def class_of(identity: str | None) -> CallerClass:
    """The class of a stored identity. None, or an empty one, is anonymous."""
    if not identity:
        return "anonymous"
    if identity.startswith(TOKEN_PREFIX):
        return "token"
    return "issued" if "#" in identity else "signed"


LONGEST_IDENTITY = LONGEST_ISSUER + 1 + LONGEST_CLIENT
"""Characters."""
_ISSUER = re.compile(r"https?://[!-~]+")
"""An issuer of this machine may be without TLS."""
_CLIENT = re.compile(rf"[!-~]{{1,{LONGEST_CLIENT}}}")


def is_identity(text: str) -> bool:
    """Whether a text that the service has counted or stored is the identity of a known caller."""
    return text.startswith((TOKEN_PREFIX, "https://", "http://"))


def read_identity(text: str) -> str:
    """The identity of a known caller, as a person writes it. Raises ValueError with advice for another text."""
    if len(text) > LONGEST_IDENTITY:
        raise ValueError(f"is too long for an agent: write at most {LONGEST_IDENTITY} characters")
    if text.startswith(TOKEN_PREFIX):
        return text
    address, is_issued, client = text.partition("#")
    if is_issued and _ISSUER.fullmatch(address):
        if not _CLIENT.fullmatch(client):
            raise ValueError(f"'{text}' must end with the id of a client: ISSUER#CLIENT")
        return text
    if not address.startswith("https://"):
        raise ValueError(
            f"'{text}' is not an agent: write an origin such as https://agent.example, token:ID, ISSUER#CLIENT, or the "
            "class anonymous, token, signed or issued"
        )
    origin = canonical_origin(address)
    if origin != text:
        raise ValueError(f"'{text}' is not an origin in its canonical form; did you mean {origin}?")
    return text


def read_sender(text: str | None) -> str | None:
    """As `read_identity`, but empty for `anonymous`, as the table of leads has it. None is any sender."""
    if text is None or text == "anonymous":
        return text and ""
    return read_identity(text)


def canonical_origin(address: str) -> str:
    """The origin of an https address: the host in lower case, and the port if it is not 443. Raises ValueError."""
    try:
        parts = urlsplit(address)
        scheme, host, port = parts.scheme, (parts.hostname or "").rstrip("."), parts.port or 443
    except ValueError:
        scheme, host, port = "", "", 0
    origin = parse_origin(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    if scheme != "https" or origin is None:
        raise ValueError(f"'{address}' must be an https origin such as https://agent.example; write the host in ASCII")
    return origin
