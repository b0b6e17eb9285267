"""Key directories: the public keys of an agent on its origin (docs/protocol.md#signed-requests). Pure.

A directory is a JWK set (RFC 7517) at a well-known path. Its server may sign the response with each key, to show that
it has the private keys. TLS shows whose directory it is, so this signature is optional; a wrong one is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from dealer_agent.http_signatures.content_digest import check_digest, content_digest
from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import Fields, Headers
from dealer_agent.http_signatures.keys import KeyRefused, PrivateKey, PublicKey, read_public_key
from dealer_agent.http_signatures.signature_base import Response, SignableRequest, signature_base
from dealer_agent.http_signatures.signing import signed_fields
from dealer_agent.http_signatures.web_bot_auth import GRACE_SECONDS, check_algorithm, signatures_with_tag

PATH = "/.well-known/http-message-signatures-directory"
MEDIA_TYPE = "application/http-message-signatures-directory+json"
TAG = "http-message-signatures-directory"
MAX_BYTES = 64 * 1024
MAX_KEYS = 100
SHORTEST_SECONDS = 300
"""A directory is fetched again after at least so long, whatever its headers say."""
LONGEST_SECONDS = 24 * 3600
USUAL_SECONDS = 3600
"""How long a directory without a lifetime in its headers is used."""

PUBLISHED_TEST_KEYS = frozenset(
    {
        "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U",
        "oD0HwocPBSfpNy5W3bpJeyFGY_IQ_YpqxSjQ3Yd-CLA",
        "ydQXMtvbsOsZyFir-Y7A8t7fKEM1gbKPvyFkdpu4fvI",
    }
)
"""The thumbprints of the keys in RFC 9421. Everybody has their private halves."""


class DirectoryRefused(Exception):  # noqa: N818 - says what happened.
    """A response that is not a usable key directory. The message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """The keys of a source. `document` is a JWK set with these keys only; `keys` has them by thumbprint.

    Times are in seconds since 1970. A set is the same object until it is fetched again.
    """

    document: bytes
    keys: Mapping[str, PublicKey]
    fetched_at: float
    expires_at: float


def directory_url(origin: str) -> str:
    """The address of the key directory of an origin."""
    return origin + PATH


def directory_document(keys: Iterable[PrivateKey]) -> bytes:
    """The key directory with the public halves of these keys."""
    return msgspec.json.encode({"keys": [{**key.jwk, "kid": key.thumbprint, "use": "sig"} for key in keys]})


def directory_headers(
    keys: Sequence[PrivateKey], document: bytes, authority: str, now: float, seconds: int = LONGEST_SECONDS
) -> dict[str, str]:
    """The headers of a response with a key directory, signed with each of its keys.

    `seconds`: how long the signatures are valid. The directory may be kept for a day at most.
    """
    headers = {"content-type": MEDIA_TYPE, "content-digest": content_digest(document)}
    request = SignableRequest("GET", authority, PATH, "", ())
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    times = {"created": int(now), "expires": int(now) + seconds}
    signatures = [
        (
            f"key{number}",
            key,
            [("@authority", {"req": True}), ("content-digest", {})],
            times | {"keyid": key.thumbprint, "alg": key.algorithm, "tag": TAG},
        )
        for number, key in enumerate(keys)
    ]
    return {
        **headers,
        "cache-control": f"max-age={min(seconds, LONGEST_SECONDS)}",
        **signed_fields(signatures, Response(200, fields, request), fields),
    }


def read_directory(headers: Headers, body: bytes, authority: str, now: float) -> KeySet:
    """The keys of a directory that the server of `authority` sent with the status 200. Raises DirectoryRefused."""
    fields = Fields(headers, MAX_BYTES)
    if (fields.value("content-type") or "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise DirectoryRefused(f"the key directory has another media type: send Content-Type: {MEDIA_TYPE}")
    found = [jwk for jwk in read_jwks(body) if isinstance(jwk, dict)]
    keys: dict[str, PublicKey] = {}
    kept, problem = [], "is empty: publish a key"
    for jwk in found:
        try:
            key = read_public_key(jwk)
        except KeyRefused as refused:
            problem = f"has no usable key: the last one {refused}"
            continue
        if key.thumbprint in PUBLISHED_TEST_KEYS:
            problem = "has only keys whose private halves are published in RFC 9421: make a new key"
            continue
        if key.thumbprint not in keys:
            kept.append({name: value for name, value in jwk.items() if name in _KEPT})
        keys[key.thumbprint] = key
    if not keys:
        raise DirectoryRefused(f"the key directory {problem}")
    try:
        _check_proofs(fields, headers, body, authority, keys, now)
    except SignatureRefused as refused:
        raise DirectoryRefused(f"the signature of the key directory is wrong: {refused}") from None
    return KeySet(msgspec.json.encode({"keys": kept}), keys, now, now + lifetime(headers))


def stored_key_set(document: bytes, fetched_at: float, expires_at: float) -> KeySet:
    """A key set from its stored document. Raises KeyRefused and ValueError."""
    keys = (read_public_key(jwk) for jwk in msgspec.json.decode(document)["keys"])
    return KeySet(document, {key.thumbprint: key for key in keys}, fetched_at, expires_at)


def read_jwks(body: bytes) -> list[Any]:
    """The members of a JWK set. Raises DirectoryRefused."""
    if len(body) > MAX_BYTES:
        raise DirectoryRefused(f"the key set has more than {MAX_BYTES} bytes: publish fewer keys")
    try:
        found = msgspec.json.decode(body, type=dict[str, Any]).get("keys")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise DirectoryRefused("the key set is not a JWK set: publish a JSON object with a list `keys`")
    if len(found) > MAX_KEYS:
        raise DirectoryRefused(f"the key set has more than {MAX_KEYS} keys: publish fewer")
    return found


def lifetime(headers: Headers) -> int:
    """How many seconds a response may be used: by Cache-Control and Age (RFC 9111), within our bounds."""
    fields = Fields(headers)
    control = (fields.value("cache-control") or "").lower()
    if re.search(r"\bno-(?:store|cache)\b", control):
        return SHORTEST_SECONDS
    match = re.search(r"\bmax-age=\"?(\d{1,10})", control, re.ASCII)
    age = fields.value("age") or ""
    seconds = (
        USUAL_SECONDS if match is None else int(match[1]) - (int(age[:10]) if age.isascii() and age.isdecimal() else 0)
    )
    return min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS)


_KEPT = ("kty", "crv", "x", "y", "n", "e", "alg", "nbf", "exp")


def _check_proofs(
    fields: Fields, headers: Headers, body: bytes, authority: str, keys: Mapping[str, PublicKey], now: float
) -> None:
    """Checks the signatures of the response with its own keys. Raises SignatureRefused for a wrong one."""
    if TAG not in (fields.value("signature-input") or ""):
        return
    response = Response(200, headers, SignableRequest("GET", authority, PATH, "", ()))
    for _, components, parameters, signature in signatures_with_tag(fields, TAG, MAX_KEYS):
        if ("@authority", {"req": True}) not in components:
            raise SignatureRefused("not_covered", 'it does not cover "@authority";req: cover it')
        created, expires, keyid = (parameters.get(name) for name in ("created", "expires", "keyid"))
        if (
            type(created) is not int
            or type(expires) is not int
            or not created - GRACE_SECONDS <= now <= expires + GRACE_SECONDS
        ):
            raise SignatureRefused("expired", "it is not valid now: check `created`, `expires` and the clock")
        key = keys.get(keyid) if isinstance(keyid, str) else None
        if key is None:
            continue  # Of a key that is not used here, such as one of another type.
        check_algorithm(key, parameters)
        if not key.verifies(signature, signature_base(components, parameters, response, fields)):
            raise SignatureRefused("wrong_signature", "it is not that of this response: sign exactly what is sent")
        # The first drafts do not cover the body.
        if ("content-digest", {}) in components:
            check_digest(fields.value("content-digest") or "", body)
