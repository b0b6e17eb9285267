"""A quote is the dealer's or it is not: every change of it is found without the service."""

import json
import random
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from tests.soak import SOAK

from dealer_agent.client.errors import QuoteNotVerified
from dealer_agent.client.quotes import read_quote, verify_quote
from dealer_agent.encryption.card_signer import CardSigner
from dealer_agent.protocol.offers import QUOTE_TYPE

KEYS_URL = "https://dealer.example/.well-known/offer-keys.json"
SIGNER, OTHER = (CardSigner(secret * 32, "https://dealer.example/jwks.json") for secret in (b"1", b"2"))
KEYS = {"keys": [SIGNER.public_key]}
QUOTE: dict[str, Any] = {
    "quote_id": "01KE7ASD3R5T7V9X2Z4B6D8F1H",
    "vehicle": {"vehicle_id": "vin-1", "year": 2024, "make": "Citro\u00ebn", "mileage": 12_400},
    "lines": [
        {"label": "Vehicle price", "kind": "vehicle_price", "payee": "dealer", "amount": 28_151, "firm": True},
        {"label": "Sales tax", "kind": "tax", "payee": "government", "amount": 2040.95, "firm": False},
    ],
    "price": 28_151,
    "total": 30_191.95,
    "complete": False,
    "missing": ["title"],
    "currency": "USD",
    "valid_until": "2026-01-05T15:30:00Z",
}
SIGNED = QUOTE | {"signature": SIGNER.signature_of(QUOTE, KEYS_URL)}
MUTATIONS = 10_000 if SOAK else 500


@pytest.mark.requirement("offer-signature")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SIGNED),
        json.dumps(SIGNED, indent=2, sort_keys=True),
        json.dumps(
            {"message": {"parts": [{"text": "hello"}, {"data": {"type": "offer.quote.response", "data": SIGNED}}]}}
        ),
        json.dumps({"jsonrpc": "2.0", "result": {"message": {"parts": [{"data": {"data": SIGNED}}]}}}),
    ],
    ids=["the quote", "other spaces and order", "a response", "a JSON-RPC response"],
)
def test_a_quote_that_is_unchanged_is_proved(text: str) -> None:
    assert verify_quote(read_quote(text.encode()), KEYS) == SIGNER.public_key["kid"]


def signed_with(typ: str, alg: str, key: Any = b"0" * 32, **more: str) -> str:
    header = {"typ": typ, "kid": SIGNER.public_key["kid"], **more}
    return jwt.api_jws.PyJWS().encode(b"{}", key, alg, header)


@pytest.mark.requirement("offer-signature")
@pytest.mark.parametrize(
    ("quote", "keys", "words"),
    [
        ({}, KEYS, "no quote"),
        (QUOTE, KEYS, "no quote"),
        (QUOTE | {"signature": "x"}, KEYS, "cannot be read"),
        (QUOTE | {"signature": SIGNER.signed(QUOTE)["signatures"][0]["protected"] + "..eA"}, KEYS, "its typ is not"),
        (QUOTE | {"signature": OTHER.signature_of(QUOTE, KEYS_URL)}, KEYS, "No key of the dealer has the id"),
        (SIGNED, {"keys": [OTHER.public_key]}, "No key of the dealer has the id"),
        (SIGNED, {"keys": [OTHER.public_key | {"kid": SIGNER.public_key["kid"]}]}, "is not valid"),
        (SIGNED, {"keys": []}, "keys cannot be read"),
        (SIGNED, {"keys": "none"}, "keys cannot be read"),
        (QUOTE | {"signature": signed_with(QUOTE_TYPE, "HS256")}, KEYS, "is not valid"),
        (SIGNED | {"price": 28_151.01}, KEYS, "not the one that was signed"),
        (SIGNED | {"discount": 5000}, KEYS, "not the one that was signed"),
        ({name: SIGNED[name] for name in SIGNED if name != "missing"}, KEYS, "not the one that was signed"),
    ],
)
def test_what_is_no_quote_of_the_dealer(quote: dict[str, Any], keys: dict[str, Any], words: str) -> None:
    with pytest.raises(QuoteNotVerified, match=words):
        verify_quote(read_quote(json.dumps(quote).encode()), keys)


@pytest.mark.parametrize("text", [b"", b"\xff", b"[", b"[]", b"5", b'"' + b"x" * 2_000_000 + b'"', b"[" * 100_000])
def test_a_file_of_any_form_is_refused_in_words(text: bytes) -> None:
    with pytest.raises(QuoteNotVerified):
        read_quote(text)


def test_another_base64url_spelling_of_the_same_signature_is_refused() -> None:
    # 64 bytes are 86 characters, and the last one has 2 bits of the signature and 4 unused ones. The 15 other
    # characters with these 2 bits decode to the same bytes.
    last = SIGNED["signature"][-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    bits = alphabet.index(last) // 16
    same_bytes = [other for other in alphabet if alphabet.index(other) // 16 == bits and other != last]
    for other in same_bytes:
        with pytest.raises(QuoteNotVerified):
            verify_quote(SIGNED | {"signature": SIGNED["signature"][:-1] + other}, KEYS)


def mutations(seed: int) -> Iterator[bytes]:
    """The text of the quote with one to three characters changed, so that it is still JSON of another content."""
    chance, text = random.Random(seed), json.dumps(SIGNED)
    while True:
        changed = [*text]
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(changed))
            kind = chance.choice(("replace", "remove", "add"))
            changed[place] = {
                "replace": chance.choice('0123456789abcdefXYZ-_."{}[],: '),
                "remove": "",
                "add": changed[place] + chance.choice("0123456789ab "),
            }[kind]
        try:
            if json.loads("".join(changed)) != SIGNED:
                yield "".join(changed).encode()
        except ValueError:
            continue


@pytest.mark.requirement("offer-signature")
def test_no_changed_quote_is_proved(record_property: Any) -> None:
    found = mutations(7)
    for _ in range(MUTATIONS):
        text = next(found)
        with pytest.raises(QuoteNotVerified):
            verify_quote(read_quote(text), KEYS)
    record_property("figure", f"{MUTATIONS:,} changed quotes, none of them proved")
