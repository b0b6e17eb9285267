"""Signatures of a card: JWS (RFC 7515) over canonical JSON (RFC 8785)."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

import jwt
import rfc8785
from jwt.api_jws import PyJWS

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.cards import CARD_HEADERS, is_absolute, objects, same_origin
from dealer_agent.checker.exchange import Exchange
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
    """The bytes of base64url without padding; None if it is none."""
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


def _entries(target: Target) -> list[dict[str, Any]]:
    """The entries of `signatures`. Skips the check if the card has none."""
    found = objects(target.card.content.get("signatures"))
    if not found:
        raise Skipped("The card is not signed.")
    return found


def _readable(target: Target) -> list[Signature]:
    """The signatures that can be read. Skips the check if there is none: another check fails for that."""
    found = [
        Signature(str(each.get("protected")), str(each.get("signature")), _header(each.get("protected")))
        for each in _entries(target)
    ]
    found = [each for each in found if each.header and _decoded(each.value)]
    if not found:
        raise Skipped("No signature can be read.")
    return found


def _key_urls(target: Target) -> list[str]:
    """The URLs in `jku` on the host of the card. No other host is asked."""
    urls = {each.header.get("jku") for each in _readable(target)}
    found = sorted(url for url in urls if is_absolute(url) and same_origin(url, target.card.url))
    if not found:
        raise Skipped("No signature names a set of keys on the host of the card.")
    return found


async def _key_set(target: Target, url: str) -> Exchange:
    return await target.request("GET", url, headers=CARD_HEADERS, without_token=True)


async def _keys(target: Target, url: str) -> list[dict[str, Any]]:
    document = (await _key_set(target, url)).json
    return objects(document.get("keys")) if isinstance(document, dict) else []


async def _all_keys(target: Target) -> list[dict[str, Any]]:
    found = [key for url in _key_urls(target) for key in await _keys(target, url)]
    if not found:
        raise Skipped("The set of keys cannot be read.")
    return found


async def _signed(target: Target) -> list[tuple[Signature, dict[str, Any]]]:
    """The signatures with their keys. Skips the check if no key is known."""
    keys = {key.get("kid"): key for key in await _all_keys(target)}
    found = [(each, keys[each.header["kid"]]) for each in _readable(target) if each.header.get("kid") in keys]
    if not found:
        raise Skipped("The key of no signature is known.")
    return found


@check("signatures.members")
async def signatures_have_their_members(target: Target) -> None:
    """Looks at the entries."""
    for each in _entries(target):
        for name in ("protected", "signature"):
            expect(_decoded(each.get(name)), f"`{name}` is absent or not base64url.", target.card.exchange)


@check("signatures.header")
async def headers_name_algorithm_and_key(target: Target) -> None:
    """Looks at the protected headers."""
    for each in _entries(target):
        header = _header(each.get("protected"))
        named = isinstance(header.get("alg"), str) and isinstance(header.get("kid"), str)
        expect(named, "The protected header has no `alg` or no `kid`.", target.card.exchange)


@check("signatures.algorithm")
async def algorithms_are_asymmetric(target: Target) -> None:
    """Looks at the protected headers."""
    for each in _readable(target):
        algorithm = each.header.get("alg")
        if isinstance(algorithm, str):
            expect(algorithm in ALGORITHMS, f"The algorithm is {algorithm}.", target.card.exchange)


@check("signatures.es256")
async def one_signature_is_es256(target: Target) -> None:
    """Looks at the protected headers."""
    found = [each.header.get("alg") for each in _readable(target)]
    expect("ES256" in found, f"The algorithms are {', '.join(map(str, found))}.", target.card.exchange)


@check("signatures.typ")
async def headers_have_a_type(target: Target) -> None:
    """Looks at the protected headers."""
    for each in _readable(target):
        expect(each.header.get("typ") == "JOSE", f"`typ` is {each.header.get('typ')!r}.", target.card.exchange)


@check("signatures.jku")
async def headers_name_the_keys(target: Target) -> None:
    """Looks at the protected headers."""
    for each in _readable(target):
        url = each.header.get("jku")
        here = is_absolute(url) and same_origin(url, target.card.url)
        expect(here, f"`jku` is {url!r}, no URL on the host of the card.", target.card.exchange)


@check("signatures.keys")
async def keys_can_be_fetched(target: Target) -> None:
    """Fetches the keys."""
    for url in _key_urls(target):
        exchange = await _key_set(target, url)
        expect(await _keys(target, url), f"{url} answers no JWK set (HTTP {exchange.status}).", exchange)


@check("signatures.key-public")
async def keys_are_public(target: Target) -> None:
    """Looks for private members of keys."""
    for key in await _all_keys(target):
        private = sorted(PRIVATE_MEMBERS & set(key))
        expect(not private, f"A published key has the private member {', '.join(private)}.", target)


@check("signatures.key-known")
async def the_key_is_in_the_set(target: Target) -> None:
    """Looks for the key of each signature."""
    known = {key.get("kid") for key in await _all_keys(target)}
    for each in _readable(target):
        kid = each.header.get("kid")
        if kid is not None:
            expect(kid in known, f"The set has no key with the kid {kid!r}.", target.card.exchange)


@check("signatures.key-use")
async def keys_are_for_signatures(target: Target) -> None:
    """Looks at the use of the keys."""
    for _, key in await _signed(target):
        expect(key.get("use", "sig") == "sig", f"The key is for {key.get('use')!r}, not for signatures.", target)


@check("signatures.verify")
async def signatures_verify(target: Target) -> None:
    """Verifies each signature whose key is known.

    The text that A2A signs leaves out members with their default values. A signature over the card as it is served is
    accepted too.
    """
    content = {name: value for name, value in target.card.content.items() if name != "signatures"}
    forms = [rfc8785.dumps(content), *signed_texts(content)]
    for signature, key in await _signed(target):
        if signature.header.get("alg") not in ALGORITHMS:
            continue
        verified = any(_verifies(signature, key, form) for form in forms)
        expect(verified, f"The signature of {key.get('kid')} does not verify.", target.card.exchange)


def _verifies(signature: Signature, key: dict[str, Any], content: bytes) -> bool:
    payload = base64.urlsafe_b64encode(content).rstrip(b"=").decode()
    token = f"{signature.protected}.{payload}.{signature.value}"
    public = {name: value for name, value in key.items() if name not in PRIVATE_MEMBERS}
    try:
        PyJWS().decode(token, jwt.PyJWK(public), algorithms=ALGORITHMS)
    except jwt.PyJWTError:
        return False
    return True
