"""`verify_signature` accepts only a card that a key on its own origin has signed."""

import asyncio
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import jwt
import msgspec
import pytest
from tests.client.dealers import card, interfaces
from tests.servers.misbehaving import Asked, misbehaving

from dealer_agent.client import Card, DealerAgent, Retries, errors
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.protocol.card_signature import signed_texts

pytestmark = pytest.mark.outside_protocol("the client library")

Json = dict[str, Any]


def with_signatures(document: Json, *signatures: Json) -> Json:
    return document | {"signatures": list(signatures)}


def header_of(signature: Json, **changes: Any) -> Json:
    """The same signature under another header."""
    header = jwt.get_unverified_header(f"{signature['protected']}..{signature['signature']}") | changes
    protected = urlsafe_b64encode(msgspec.json.encode(header)).rstrip(b"=").decode()
    return signature | {"protected": protected}


def read(served: Callable[[Json, CardSigner], object], keys: object = None) -> Card:
    """The card that the client reads from what a server makes of a signed card. `keys` replaces the key set."""

    async def discover() -> Card:
        async def serve(asked: Asked) -> None:
            signer = CardSigner(b"s" * 32, f"{url}/.well-known/jwks.json")
            if asked.path == "/.well-known/jwks.json":
                await asked.answer({"keys": [signer.public_key]} if keys is None else keys)
            else:
                await asked.answer(served(signer.signed(card(url)), signer))

        options: Any = {"verify_signature": True, "retries": Retries(most=0)}
        async with misbehaving(serve) as url, DealerAgent.discover(url, **options) as agent:
            return agent.card

    return asyncio.run(discover())


def test_the_cards_of_the_demo_are_verified(demo: str) -> None:
    async def discover() -> None:
        for place in ("", "/cards/0.1.0.json"):
            async with DealerAgent.discover(f"{demo}{place}", verify_signature=True) as agent:
                assert len((await agent.search(limit=1)).vehicles) == 1

    asyncio.run(discover())


def test_a_signed_card_is_accepted_also_beside_signatures_that_are_not_valid() -> None:
    assert read(lambda signed, _: signed).name == "Test Motors"
    other = {"protected": "eyJhbGciOiJub25lIn0", "signature": ""}
    assert read(lambda signed, _: with_signatures(signed, other, *signed["signatures"])).name == "Test Motors"


def test_only_what_is_signed_is_used() -> None:
    assert "auth_type" not in read(lambda signed, _: signed | {"auth_type": "bearer"}).document


REFUSED: dict[str, tuple[Callable[[Json, CardSigner], object], object, str]] = {
    "no signature": (lambda signed, _: {k: v for k, v in signed.items() if k != "signatures"}, None, "is not signed"),
    "an empty list": (lambda signed, _: with_signatures(signed), None, "is not signed"),
    "another name": (lambda signed, _: signed | {"name": "Another"}, None, "verification failed"),
    "another address": (
        lambda signed, _: signed | {"supportedInterfaces": interfaces("https://thief.example/rpc")},
        None,
        "verification failed",
    ),
    "keys of another origin": (
        lambda signed, _: with_signatures(
            signed, header_of(signed["signatures"][0], jku="https://thief.example/jwks.json")
        ),
        None,
        "not on the origin of the card",
    ),
    "keys of another dealer on the host": (
        lambda signed, _: with_signatures(
            signed,
            header_of(
                signed["signatures"][0], jku=f"{signed['documentationUrl'][:-5]}/dealers/b/.well-known/jwks.json"
            ),
        ),
        None,
        "in a folder above it",
    ),
    "keys of another dealer by a detour": (
        lambda signed, _: with_signatures(
            signed,
            header_of(signed["signatures"][0], jku=f"{signed['documentationUrl'][:-5]}/.well-known/%2e%2e/b/jwks.json"),
        ),
        None,
        "in a folder above it",
    ),
    "no address of keys": (
        lambda signed, _: with_signatures(signed, header_of(signed["signatures"][0], jku=None)),
        None,
        "not on the origin of the card",
    ),
    "another key": (
        lambda signed, signer: CardSigner(b"t" * 32, f"{signed['documentationUrl'][:-5]}/.well-known/jwks.json").signed(
            signed
        ),
        None,
        "its key is not in the key set",
    ),
    "no algorithm": (
        lambda signed, _: with_signatures(signed, header_of(signed["signatures"][0], alg="none")),
        None,
        "alg value is not allowed",
    ),
    "no objects": (lambda signed, _: with_signatures(signed, 7, "x", {}, {"protected": []}), None, "is valid"),  # type: ignore[arg-type]
    "no JSON": (lambda signed, _: b"<html>", None, "is not a card that can be verified"),
    "too deep": (lambda signed, _: b'{"a":' * 100_000, None, "is not a card that can be verified"),
    "a document that is not a key set": (lambda signed, _: signed, [1], "its key set cannot be read"),
    "an empty key set": (lambda signed, _: signed, {"keys": []}, "its key set cannot be read"),
    "a key set without end": (lambda signed, _: signed, b" " * 70_000, "sent more than 65,536 bytes"),
}


@pytest.mark.parametrize(("served", "keys", "said"), REFUSED.values(), ids=REFUSED)
def test_any_other_card_is_refused(served: Callable[[Json, CardSigner], object], keys: object, said: str) -> None:
    with pytest.raises((errors.CardNotVerified, errors.MalformedResponse), match=said):
        read(served, keys)


def test_a_public_key_is_no_shared_secret() -> None:
    def served(signed: Json, signer: CardSigner) -> Json:
        protected = header_of(signed["signatures"][0], alg="HS256")["protected"]
        payload = urlsafe_b64encode(signed_texts(signed)[0]).rstrip(b"=").decode()
        secret = msgspec.json.encode(signer.public_key)
        digest = hmac.digest(secret, f"{protected}.{payload}".encode(), "sha256")
        signature = urlsafe_b64encode(digest).rstrip(b"=").decode()
        return with_signatures(signed, {"protected": protected, "signature": signature})

    with pytest.raises(errors.CardNotVerified, match="alg value is not allowed"):
        read(served)
