"""Describes an issuer of access tokens that a dealer trusts (docs/protocol.md#issued-tokens). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]

ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[Algorithm, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""The algorithms that a key can verify, by its `kty` and `crv`. None has a secret key: HMAC is not among them."""
ALL_ALGORITHMS: Final = frozenset(name for names in ALGORITHMS.values() for name in names)

LONGEST_ISSUER: Final = 500
"""The characters of the URL of an issuer."""
LONGEST_CLIENT: Final = 200
"""The characters of the id of a client."""


@dataclass(frozen=True)
class Issuer:
    """An issuer that the dealer trusts. A token is for this service if one of `audiences` is in its `aud`.

    `client_claim` names the claim with the id of the client. Without `clients`, every client of the issuer is accepted.
    """

    url: str
    audiences: frozenset[str]
    algorithms: frozenset[str] = ALL_ALGORITHMS
    clients: frozenset[str] = frozenset()
    client_claim: Literal["client_id", "azp"] = "client_id"
