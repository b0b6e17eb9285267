"""The type of `[[auth.issuers]]` in `dealer.toml`: who may give access tokens for this service. Pure.

docs/reference/settings.md has the meaning of each key.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from dealer_agent.callers.issuer import LONGEST_CLIENT, LONGEST_ISSUER, Algorithm
from dealer_agent.dealers.profile_checks import is_this_machine, read_by, read_web_address
from dealer_agent.protocol.problems import Problem

MOST_ISSUERS = 10
MOST_CLIENTS = 1000
KEY_SET_AT, METADATA_OF = "jwks:", "issuer:"
"""The kinds of sources of keys."""
LONGEST_URL = LONGEST_ISSUER
USUAL_ALGORITHMS: tuple[Algorithm, ...] = ("RS256", "PS256", "ES256", "ES384", "EdDSA")


def read_secure_address(value: str) -> str:
    """An https URL, or an http URL of this machine, without a fragment."""
    parts = urlsplit(read_web_address(value))
    if parts.scheme == "http" and not is_this_machine(parts.hostname or ""):
        raise ValueError("is not encrypted; write https:// (http:// is for this machine only)")
    if "#" in value or not value.isascii() or len(value) > LONGEST_URL:
        raise ValueError(f"must have at most {LONGEST_URL} ASCII characters and no #")
    return value


def read_issuer(value: str) -> str:
    """The URL of an issuer (RFC 8414): secure, without a query."""
    if "?" in read_secure_address(value):
        raise ValueError("has a query; leave out what begins with ?: an issuer is what its tokens have as `iss`")
    return value


def read_client(value: str) -> str:
    """The id of a client at an issuer."""
    if not (value.isascii() and value.isprintable() and " " not in value and 1 <= len(value) <= LONGEST_CLIENT):
        raise ValueError(
            f"'{value}' is not the id of a client; write 1 to {LONGEST_CLIENT} ASCII characters without spaces"
        )
    return value


def issuers_differ(issuers: list[Any]) -> Iterator[Problem]:
    """Each issuer is named once."""
    seen: set[str] = set()
    for index, issuer in enumerate(issuers):
        match issuer:
            case {"issuer": str(url)} if url in seen:
                yield Problem((index, "issuer"), "is named twice; put both into one [[auth.issuers]] section")
            case {"issuer": str(url)}:
                seen.add(url)


SecureAddress = Annotated[str, read_by(lambda value: read_secure_address(value) if value else value)]


class IssuerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of access tokens (docs/how-to/access-tokens.md). Without `jwks_url`, its metadata names its keys.

    An empty `audience` is the URL of the service. Without `clients`, every client of the issuer is accepted.
    """

    issuer: Annotated[str, read_by(read_issuer)]
    jwks_url: SecureAddress = ""
    token_url: SecureAddress = ""
    audience: Annotated[str, Meta(max_length=LONGEST_URL)] = ""
    algorithms: Annotated[tuple[Algorithm, ...], Meta(min_length=1, max_length=10)] = USUAL_ALGORITHMS
    clients: Annotated[tuple[Annotated[str, read_by(read_client)], ...], Meta(max_length=MOST_CLIENTS)] = ()
    client_claim: Literal["client_id", "azp"] = "client_id"

    @property
    def key_source(self) -> str:
        """Where its keys come from: a key set, or the metadata that names one."""
        return f"{KEY_SET_AT}{self.jwks_url}" if self.jwks_url else f"{METADATA_OF}{self.issuer}"
