"""Checks access tokens of an issuer: JSON Web Tokens of RFC 9068 (docs/protocol.md#issued-tokens). Pure.

Nothing in a token chooses how it is checked. Its issuer must be one of the settings. Only a key of this issuer's key
set verifies it, and the key says which algorithms are possible.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from jwt import PyJWK
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError
from jwt.utils import base64url_decode
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.callers.caller import Caller, issued
from dealer_agent.callers.issuer import ALGORITHMS, LONGEST_CLIENT, Issuer
from dealer_agent.protocol.json_body import NOT_DECODED, is_sound
from dealer_agent.protocol.skill import DMC12_SCOPES, SCOPES

LONGEST_TOKEN: Final = 8 * 1024
"""Characters."""
CLOCK_SKEW_SECONDS: Final = 60
"""How far the clock of an issuer may be from ours."""
MOST_KEYS: Final = 100
"""The keys of a key set that are read."""
RSA_BITS: Final = range(2048, 8192 + 1)
"""A larger key takes too long."""
LONGEST_EXPONENT: Final = 2**32

_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_CLIENT = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_CLIENT}}}")
_TYPES = frozenset({"at+jwt", "application/at+jwt"})
_REFUSED_HEADERS = frozenset({"b64", "crit", "jku", "jwk", "x5c", "x5u"})
"""A token with one of these brings its own key, or demands what this service does not know."""
_SCOPES = {scope: scope for scope in SCOPES} | DMC12_SCOPES
"""The scopes that a token may have, each with the one of this service that it means."""
_jws = PyJWS(algorithms=[name for names in ALGORITHMS.values() for name in names])

Seconds = int | float


class TokenRefused(Exception):  # noqa: N818 - says what happened.
    """A token that is not valid here. The message says why. It has no word of the token."""


class KeyUnknown(TokenRefused):
    """The key set of the issuer has no key for the token. A newer key set may have one."""


class IssuedToken(NamedTuple):
    """A valid token: its client, and the Unix time from which it is no longer valid."""

    caller: Caller
    expires_at: float


class _Header(Struct):
    alg: str
    typ: str
    kid: str | UnsetType = UNSET


class _Claims(Struct):
    iss: str
    aud: str | Annotated[list[str], msgspec.Meta(max_length=100)]
    exp: Seconds
    iat: Seconds
    nbf: Seconds | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    azp: str | UnsetType = UNSET
    scope: str | UnsetType = UNSET


_NOT_READABLE = (
    "This is neither a token of the dealer nor an access token (RFC 9068): get a token from the dealer, or from an "
    "issuer that it trusts."
)
_names = msgspec.json.Decoder(dict[str, msgspec.Raw])
_header, _claims = msgspec.json.Decoder(_Header), msgspec.json.Decoder(_Claims)


class IssuerKeys:
    """The keys of a key set (RFC 7517) that can verify signatures. Keys of other kinds are left out."""

    def __init__(self, keys: Iterable[Mapping[str, Any]]) -> None:
        self._keys = [key for jwk in keys for key in _verification_keys(jwk)]

    def __len__(self) -> int:
        """The number of keys."""
        return len({key.key_id for key in self._keys})

    @property
    def algorithms(self) -> frozenset[str]:
        """The algorithms that the keys can verify."""
        return frozenset(key.algorithm_name for key in self._keys)

    def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """The only key with this id for an algorithm. Without an id, the only key. Raises KeyUnknown."""
        found = [
            key for key in self._keys if key.algorithm_name == algorithm and (key_id is None or key_id == key.key_id)
        ]
        if len(found) != 1:
            raise KeyUnknown(
                "The issuer of the token publishes no key that can verify it: repeat the request after a minute."
            )
        return found[0]


def read_keys(document: bytes) -> IssuerKeys:
    """The keys in a key set. Raises ValueError with advice if it has none that can be used."""
    try:
        found = msgspec.json.decode(document) if is_sound(document) else None
    except NOT_DECODED:
        found = None
    match found:
        case {"keys": [*keys]}:
            usable = IssuerKeys(key for key in keys[:MOST_KEYS] if isinstance(key, dict))
        case _:
            raise ValueError("is not a JSON Web Key Set (RFC 7517): check jwks_url")
    if not usable:
        raise ValueError(
            "has no public key for signatures: the issuer must publish an RSA key of at least 2,048 bits, an EC key or "
            "an Ed25519 key"
        )
    return usable


def _verification_keys(jwk: Mapping[str, Any]) -> list[PyJWK]:
    """A key once for each algorithm that it can verify; empty for a key that must not be used."""
    kind, curve, key_id = jwk.get("kty"), jwk.get("crv"), jwk.get("kid")
    # A private key that is published proves nothing: anybody can sign with it.
    if "d" in jwk or jwk.get("use", "sig") != "sig" or not isinstance(key_id, str | None):
        return []
    operations = jwk.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return []
    possible = ALGORITHMS.get((str(kind), None if kind == "RSA" else str(curve)), ())
    try:
        made = [PyJWK(dict(jwk), name) for name in possible if jwk.get("alg", name) == name]
    except (PyJWTError, ValueError, TypeError):
        return []
    return [key for key in made if kind != "RSA" or _is_sound_rsa(key)]


def _is_sound_rsa(key: PyJWK) -> bool:
    numbers = key.key.public_numbers()
    return key.key.key_size in RSA_BITS and numbers.e < LONGEST_EXPONENT


class UnverifiedToken(NamedTuple):
    """What a token says, before anything of it is verified."""

    text: str
    header: _Header
    claims: _Claims

    @property
    def issuer(self) -> str:
        """The issuer that it names."""
        return self.claims.iss


def read_token(text: str) -> UnverifiedToken:
    """Reads a token within bounds. Raises TokenRefused."""
    if len(text) > LONGEST_TOKEN:
        raise TokenRefused(f"The token has more than {LONGEST_TOKEN} characters: get a shorter one.")
    if not _TOKEN.fullmatch(text):
        raise TokenRefused(_NOT_READABLE)
    try:
        head, body = map(base64url_decode, text.split(".")[:2])
        if not (is_sound(head) and is_sound(body)):
            raise TokenRefused(_NOT_READABLE)
        names = _names.decode(head)
        token = UnverifiedToken(text, _header.decode(head), _claims.decode(body))
    except (*NOT_DECODED, ValueError):
        raise TokenRefused(_NOT_READABLE) from None
    if not names.keys().isdisjoint(_REFUSED_HEADERS):
        raise TokenRefused(
            f"The token has a header parameter that is not accepted ({', '.join(sorted(_REFUSED_HEADERS))}): "
            "the issuer must leave it out."
        )
    return token


def verify(token: UnverifiedToken, issuer: Issuer, keys: IssuerKeys, now: float) -> IssuedToken:
    """The caller that a token of this issuer proves at the Unix time `now`. Raises TokenRefused."""
    header, claims = token.header, token.claims
    if header.typ.lower() not in _TYPES:
        raise TokenRefused("The token is not an access token: its typ must be at+jwt (RFC 9068).")
    if header.alg not in issuer.algorithms:
        accepted = ", ".join(sorted(issuer.algorithms))
        raise TokenRefused(f"The algorithm of the token is not accepted: the issuer must sign with {accepted}.")
    key = keys.find(None if header.kid is UNSET else header.kid, header.alg)
    try:
        _jws.decode_complete(token.text, key, algorithms=[header.alg])
    except (PyJWTError, ValueError):
        # A token that names no key may be signed with a newer one.
        kind = KeyUnknown if header.kid is UNSET else TokenRefused
        raise kind("The signature of the token is not valid: get another token.") from None
    if claims.iss != issuer.url:
        raise TokenRefused(
            "The dealer does not trust the issuer (iss) of the token: get a token of an issuer that it trusts."
        )
    named = {claims.aud} if isinstance(claims.aud, str) else set(claims.aud)
    if not named & issuer.audiences:
        raise TokenRefused(
            "The token is for another service: its audience (aud) must be the address of this dealer agent."
        )
    _check_times(claims, now)
    return IssuedToken(
        issued(issuer.url, _client_of(claims, issuer), _scopes_of(claims)), claims.exp + CLOCK_SKEW_SECONDS
    )


def _check_times(claims: _Claims, now: float) -> None:
    if claims.exp + CLOCK_SKEW_SECONDS <= now:
        raise TokenRefused("The token has expired: get another one.")
    begins = max(claims.iat, claims.iat if claims.nbf is UNSET else claims.nbf)
    if begins - CLOCK_SKEW_SECONDS > now:
        raise TokenRefused("The token is not valid yet: repeat the request later.")


def _client_of(claims: _Claims, issuer: Issuer) -> str:
    """The id of the client. Raises TokenRefused.

    RFC 9068 has it in the claim `client_id`. Tokens of some issuers have no such claim, and name the client in `azp`.
    """
    client = claims.client_id if issuer.client_claim == "client_id" else claims.azp
    if client is UNSET or not _CLIENT.fullmatch(client):
        raise TokenRefused(f"The token does not name its client: it needs the claim {issuer.client_claim}.")
    if issuer.clients and client not in issuer.clients:
        raise TokenRefused("The dealer does not accept this client of the issuer: ask the dealer.")
    return client


def _scopes_of(claims: _Claims) -> frozenset[str]:
    """The scopes that this service knows. A token without any may use no skill."""
    named = () if claims.scope is UNSET else claims.scope.split(" ")
    return frozenset(_SCOPES[name] for name in named if name in _SCOPES)
