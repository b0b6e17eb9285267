"""Verifies the signature of an agent card (docs/protocol.md#card-signatures). It needs the extra `signatures`."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import httpx
import jwt
import msgspec

from dealer_agent.client.card import origin, parse_url
from dealer_agent.client.errors import CardNotVerified
from dealer_agent.client.transport import Received, Transport
from dealer_agent.protocol.card_signature import signed_texts

ALGORITHMS = ("ES256", "ES384", "ES512", "EdDSA", "PS256", "RS256")
"""The accepted algorithms: all are of public keys."""
MOST_KEYS_BYTES = 64 * 1024
"""The most bytes of a key set."""
MOST_SIGNATURES = 10
"""The most signatures of a card that are tried."""


async def verified(pool: Transport, received: Received) -> bytes:
    """The text of the card that was signed: its JSON without what the signature does not cover.

    One valid signature is enough. Its key must come from a key set on the origin of the card, in a folder above it. So
    it shows that the owner of this address made the card, and not who that is. Raises CardNotVerified and Unreachable.
    """
    try:
        card = msgspec.json.decode(received.body, type=dict[str, Any])
        texts = signed_texts(card)
    except (ValueError, RecursionError) as error:
        raise CardNotVerified(f"{received.url} is not a card that can be verified: {str(error)[:200]}") from None
    signatures = card.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise CardNotVerified(f"The card at {received.url} is not signed.")
    reason = ""
    for signature in signatures[:MOST_SIGNATURES]:
        try:
            protected, value = str(signature["protected"]), str(signature["signature"])
            header = jwt.get_unverified_header(f"{protected}..{value}")
            key = await _key(pool, received.url, header)
        except (TypeError, KeyError, jwt.PyJWTError, NoKey) as error:
            reason = str(error)
            continue
        for text in texts:
            payload = urlsafe_b64encode(text).rstrip(b"=").decode()
            try:
                jwt.PyJWS().decode(f"{protected}.{payload}.{value}", key, algorithms=list(ALGORITHMS))
            except jwt.PyJWTError as error:
                reason = str(error)
            else:
                return text
    raise CardNotVerified(f"No signature of the card at {received.url} is valid: {reason[:200]}")


class NoKey(Exception):  # noqa: N818 - it only ends the look at one signature
    """A signature whose key cannot be read. The message says why."""


async def key_set(pool: Transport, card_url: httpx.URL, header: Mapping[str, Any]) -> dict[str, Any]:
    """The key set that the header of a signature names, on the origin of the card, in a folder above it.

    Raises NoKey and Unreachable.
    """
    jku = parse_url(str(header.get("jku", "")))
    if jku is None or not _is_above(jku, card_url):
        raise NoKey("its key set (jku) is not on the origin of the card, in a folder above it")
    received = await pool.send("GET", jku, most=MOST_KEYS_BYTES, headers={"Accept": "application/json"})
    if received.status != 200:
        raise NoKey(f"its key set answered {received.status}")
    try:
        return msgspec.json.decode(received.body, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise NoKey(f"its key set cannot be read: {error}") from None


async def _key(pool: Transport, card_url: httpx.URL, header: Mapping[str, Any]) -> jwt.PyJWK:
    """The public key of a signature, from the key set that its header names. Raises NoKey."""
    document = await key_set(pool, card_url, header)
    try:
        keys = jwt.PyJWKSet.from_dict(document).keys
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        raise NoKey(f"its key set cannot be read: {error}") from None
    found = next((key for key in keys if key.key_id == header.get("kid")), None)
    if found is None:
        raise NoKey("its key is not in the key set")
    return found


def _is_above(key_set: httpx.URL, card: httpx.URL) -> bool:
    """Whether a key set belongs to the place of a card. Dealers of one service can share a host: so the folder of the
    key set, without `.well-known`, must be above the card."""
    path = key_set.raw_path.partition(b"?")[0]
    folder = path[: path.rindex(b"/") + 1].removesuffix(b".well-known/")
    # An encoded `..` may lead a server elsewhere.
    is_plain = ".." not in key_set.path.split("/")
    return origin(key_set) == origin(card) and is_plain and card.raw_path.startswith(folder)
