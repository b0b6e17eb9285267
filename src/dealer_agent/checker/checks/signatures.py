"""Checks the signatures of a card: JWS (RFC 7515) over canonical JSON (RFC 8785)."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import jwt
import rfc8785
from jwt.api_jws import PyJWS

from dealer_agent.checker import forms
from dealer_agent.checker.check import check, judge_each
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Failed, expect, has, skip_unless
from dealer_agent.checker.target import Target
from dealer_agent.protocol.card_signature import signed_texts

ALGORITHMS = ["ES256", "ES384", "ES512", "EdDSA", "Ed25519", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
"""Asymmetric algorithms."""
PRIVATE_MEMBERS = {"d", "p", "q", "dp", "dq", "qi", "k"}


@dataclass(frozen=True)
class Signature:
    """One entry of `signatures`. `header` is the protected header, empty if it cannot be read."""

    protected: str
    value: str
    header: dict[str, Any]


def _decoded(text: object) -> bytes | None:
    """Decodes base64url without padding. None if the text is not base64url."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None


def _header(protected: object) -> dict[str, Any]:
    try:
        header = json.loads(_decoded(protected) or b"")
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}


async def _entries(target: Target) -> list[dict[str, Any]]:
    """The entries of `signatures`. Skips the check if the card has none."""
    return skip_unless(dicts(target.card.content.get("signatures")), "The card is not signed.")


async def _readable(target: Target) -> list[Signature]:
    """The signatures that can be read. Skips the check if there is none: another check fails for that."""
    readable = [
        Signature(str(each.get("protected")), str(each.get("signature")), _header(each.get("protected")))
        for each in await _entries(target)
    ]
    return skip_unless([each for each in readable if each.header and _decoded(each.value)], "No signature can be read.")


async def _key_sets(target: Target) -> list[Exchange]:
    """The set of keys at each URL in `jku` on the host of the card. No other host is asked."""
    named = [each.header.get("jku") for each in await _readable(target)]
    urls = sorted({url for url in named if isinstance(url, str) and forms.url(url) and target.card.is_at_home(url)})
    return [
        await target.fetch(url)
        for url in skip_unless(urls, "No signature names a set of keys on the host of the card.")
    ]


async def _keys(target: Target) -> list[dict[str, Any]]:
    keys = [key for exchange in await _key_sets(target) for key in dicts(at(exchange.json, "keys"))]
    return skip_unless(keys, "The set of keys cannot be read.")


async def _signed(target: Target) -> list[tuple[Signature, dict[str, Any]]]:
    """The signatures with their keys. Skips the check if no key is known."""
    keys = {key["kid"]: key for key in await _keys(target) if isinstance(key.get("kid"), str)}
    named = [(each, str(each.header.get("kid"))) for each in await _readable(target)]
    signed = [(each, keys[kid]) for each, kid in named if kid in keys]
    return skip_unless(signed, "The key of no signature is known.")


def _has_members(entry: dict[str, Any]) -> bool | str:
    missing = [name for name in ("protected", "signature") if not _decoded(entry.get(name))]
    return not missing or f"`{missing[0]}` is absent or not base64url."


def _names_algorithm_and_key(entry: dict[str, Any]) -> bool | str:
    header = _header(entry.get("protected"))
    named = isinstance(header.get("alg"), str) and isinstance(header.get("kid"), str)
    return named or "The protected header has no `alg` or no `kid`."


def _is_asymmetric(signature: Signature) -> bool | str:
    algorithm = signature.header.get("alg")
    return not isinstance(algorithm, str) or algorithm in ALGORITHMS or f"The algorithm is {algorithm}."


def _has_no_private_members(key: dict[str, Any]) -> bool | str:
    private = sorted(PRIVATE_MEMBERS & set(key))
    return not private or f"A published key has the private member {', '.join(private)}."


judge_each(
    {
        "signatures.members": (_entries, _has_members),
        "signatures.header": (_entries, _names_algorithm_and_key),
        "signatures.algorithm": (_readable, _is_asymmetric),
        "signatures.typ": (_readable, lambda each: has("typ", forms.one_of("JOSE"))(each.header)),
        "signatures.keys": (
            _key_sets,
            lambda exchange: has("keys", lambda found: bool(dicts(found)))(exchange.json),
        ),
        "signatures.key-public": (_keys, _has_no_private_members),
        "signatures.key-use": (_signed, lambda signed: has("use", forms.one_of("sig", None))(signed[1])),
    }
)


@check("signatures.es256")
async def _(target: Target) -> None:
    algorithms = [each.header.get("alg") for each in await _readable(target)]
    expect("ES256" in algorithms, f"The algorithms are {', '.join(map(str, algorithms))}.")


@check("signatures.jku")
async def _(target: Target) -> None:
    for each in await _readable(target):
        url = each.header.get("jku")
        expect(forms.url(url) and target.card.is_at_home(url), f"`jku` is {url!r}, no URL on the host of the card.")


@check("signatures.key-known")
async def _(target: Target) -> None:
    known = [None, *(key.get("kid") for key in await _keys(target))]
    for each in await _readable(target):
        kid = each.header.get("kid")
        expect(kid in known, f"The set has no key with the kid {kid!r}.", target.card.exchange)


@check("signatures.verify")
async def _(target: Target) -> None:
    """One of the texts that may be signed verifies with the key."""
    content = {name: value for name, value in target.card.content.items() if name != "signatures"}
    # The text that A2A signs leaves out members with their default values. A signature over the card as it is served
    # is accepted too.
    try:
        texts = [rfc8785.dumps(content), *signed_texts(content)]
    except rfc8785.CanonicalizationError as problem:
        raise Failed(f"The card has no canonical form: {problem}.", target.card.exchange) from None
    for signature, key in await _signed(target):
        if signature.header.get("alg") in ALGORITHMS:
            verified = any(_verifies(signature, key, text) for text in texts)
            expect(verified, f"The signature of {key.get('kid')} does not verify.", target.card.exchange)


def _verifies(signature: Signature, key: dict[str, Any], content: bytes) -> bool:
    payload = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    token = f"{signature.protected}.{payload}.{signature.value}"
    public = {name: value for name, value in key.items() if name not in PRIVATE_MEMBERS}
    try:
        PyJWS().decode(token, jwt.PyJWK(public), algorithms=ALGORITHMS)
    # The library raises the others if a member of the key or the header is absent, or has another type, such as a list.
    except (jwt.PyJWTError, TypeError, ValueError, KeyError, AttributeError):
        return False
    return True
