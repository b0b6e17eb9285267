"""Key directories: what they publish, and which are refused (docs/protocol.md#signed-requests)."""

import random
from typing import Any

import msgspec
import pytest
from tests.http_signatures.signed import KEY, NOW, P256, P384, RSA, key_set
from tests.soak import soak_count, soak_seed

from dealer_agent.http_signatures.directory import (
    MAX_BYTES,
    MEDIA_TYPE,
    DirectoryRefused,
    KeySet,
    directory_document,
    directory_headers,
    lifetime,
    read_directory,
    stored_key_set,
)
from dealer_agent.http_signatures.keys import KeyRefused, PrivateKey, read_private_key, read_public_key

pytestmark = pytest.mark.outside_protocol("key directories")
HOST = "agent.example"
DOCUMENT = directory_document([KEY, P256])
HEADERS = directory_headers([KEY, P256], DOCUMENT, HOST, NOW)
UNSIGNED = {"content-type": MEDIA_TYPE}
ED25519_PEM = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
"""


def read(document: bytes = DOCUMENT, headers: dict[str, str] = HEADERS, host: str = HOST, now: float = NOW) -> KeySet:
    return read_directory(
        [(name.encode(), value.encode("latin-1")) for name, value in headers.items()], document, host, now
    )


def refused(*args: Any, **named: Any) -> str:
    with pytest.raises(DirectoryRefused) as error:
        read(*args, **named)
    return str(error.value)


def test_a_directory_that_we_sign_is_read() -> None:
    found = read()
    assert {*found.keys} == {KEY.thumbprint, P256.thumbprint}
    assert found.expires_at == NOW + 24 * 3600
    again = stored_key_set(found.document, found.fetched_at, found.expires_at)
    assert {*again.keys} == {*found.keys}


def test_a_directory_without_a_signature_is_that_of_its_server() -> None:
    assert {*read(headers=UNSIGNED).keys} == {KEY.thumbprint, P256.thumbprint}


def test_all_hundred_keys_may_sign() -> None:
    keys = [KEY] * 100
    assert read(directory_document(keys), directory_headers(keys, directory_document(keys), HOST, NOW))


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ({"host": "other.example"}, "not that of this response"),
        ({"document": directory_document([KEY, P384])}, "is not that of the body"),
        ({"now": NOW - 61}, "not valid now"),
        ({"now": NOW + 24 * 3600 + 61}, "not valid now"),
        ({"headers": HEADERS | {"content-type": "application/json"}}, "media type"),
        ({"headers": {}}, "media type"),
        ({"document": b"[]", "headers": UNSIGNED}, "not a JWK set"),
        ({"document": b"[" * 10_000, "headers": UNSIGNED}, "not a JWK set"),
        ({"document": b"{}", "headers": UNSIGNED}, "not a JWK set"),
        ({"document": b'{"keys":[]}', "headers": UNSIGNED}, "is empty"),
        ({"document": b'{"keys":[1,null,[]]}', "headers": UNSIGNED}, "is empty"),
        ({"document": b" " * (MAX_BYTES + 1), "headers": UNSIGNED}, "bytes"),
        ({"document": directory_document([KEY] * 101), "headers": UNSIGNED}, "more than 100 keys"),
    ],
)
def test_a_directory_that_is_not_in_order_is_refused(named: dict[str, Any], problem: str) -> None:
    assert problem in refused(**named)


@pytest.mark.parametrize(
    "changes",
    [
        {"kty": "oct", "k": "AAAA"},
        {"kty": "OKP", "crv": "X25519"},
        {"kty": 1},
        {"x": 1},
        {"x": "AAAA"},
        {"x": KEY.jwk["x"] + "="},
        {"x": KEY.jwk["x"][:-1] + "b"},
        {"d": "AAAA"},
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"alg": "HS256"},
        {"alg": "ES256"},
        {"nbf": "now"},
        {"exp": True},
        P256.jwk | {"crv": "P-384"},
        P256.jwk | {"x": P256.jwk["y"]},
        P256.jwk | {"crv": "secp256k1"},
        P256.jwk | {"alg": "ES384"},
        RSA.jwk | {"e": "AQ"},
        RSA.jwk | {"e": "AQAAAAAAAAAB"},
        RSA.jwk | {"n": RSA.jwk["n"][:100]},
        RSA.jwk | {"n": "_" * 800},
        RSA.jwk | {"alg": "RS256"},
    ],
)
def test_a_key_that_cannot_be_used_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(KeyRefused):
        read_public_key(KEY.jwk | changes)


@pytest.mark.parametrize("key", [KEY, P256, P384, RSA], ids=lambda key: key.algorithm)
def test_each_type_of_key_signs_and_verifies(key: PrivateKey) -> None:
    public = read_public_key(key.jwk)
    signature = key.sign(b"text")
    assert public.verifies(signature, b"text")
    assert not public.verifies(signature, b"Text")
    for length in (0, 1, len(signature) - 1, len(signature) + 1):
        assert not public.verifies((signature + b"\0")[:length], b"text")


def test_a_key_is_valid_between_nbf_and_exp() -> None:
    key = read_public_key(KEY.jwk | {"nbf": 10, "exp": 20})
    assert [key.is_valid_at(now) for now in (9, 10, 19.5, 20)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 3600),
        ({"cache-control": "public, max-age=7200"}, 7200),
        ({"cache-control": "MAX-AGE=7200", "age": "200"}, 7000),
        ({"cache-control": "max-age=1"}, 300),
        ({"cache-control": "max-age=99999999999999"}, 24 * 3600),
        ({"cache-control": "no-store, max-age=7200"}, 300),
        ({"cache-control": "no-cache"}, 300),
        ({"cache-control": "max-age=x", "age": "y"}, 3600),
    ],
)
def test_a_directory_is_used_as_long_as_its_headers_say_within_bounds(headers: dict[str, str], seconds: int) -> None:
    assert lifetime([(name.encode(), value.encode()) for name, value in headers.items()]) == seconds


@pytest.mark.parametrize(
    "data",
    [
        ED25519_PEM,
        msgspec.json.encode(KEY.jwk | {"d": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}),
        msgspec.json.encode({"kty": "OKP", "crv": "Ed25519", "d": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}),
    ],
)
def test_a_private_key_is_read_from_pem_and_jwk(data: bytes) -> None:
    assert read_private_key(data).thumbprint == KEY.thumbprint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"-----BEGIN PRIVATE KEY-----\n",
        msgspec.json.encode(P256.jwk | {"d": "AA"}),
        msgspec.json.encode(KEY.jwk),
        msgspec.json.encode(KEY.jwk | {"d": "BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}),
    ],
)
def test_what_is_no_private_key_is_refused(data: bytes) -> None:
    with pytest.raises(KeyRefused):
        read_private_key(data)


def test_no_mutated_directory_is_accepted() -> None:
    """A change of the body, or of a field that the signatures cover or are in."""
    chance = random.Random(soak_seed())
    for _ in range(soak_count("SOAK_SIGNATURES", 2000)):
        document, headers = DOCUMENT, dict(HEADERS)
        if chance.random() < 0.5:
            at = chance.randrange(len(document))
            document = document[:at] + bytes([document[at] ^ (1 << chance.randrange(7))]) + document[at + 1 :]
        else:
            name = chance.choice(["content-digest", "signature-input", "signature"])
            value = headers[name]
            at = chance.randrange(len(value))
            headers[name] = value[:at] + chr(ord(value[at]) ^ (1 << chance.randrange(7))) + value[at + 1 :]
        try:
            found = read(document, headers)
        except DirectoryRefused:
            continue
        # Only a signature that is not one of a key here, or an unused bit of base64, changes nothing.
        assert document == DOCUMENT
        assert {*found.keys} == {KEY.thumbprint, P256.thumbprint}


def test_key_sets_are_the_same_only_if_they_are_the_same_object() -> None:
    assert key_set(KEY) != key_set(KEY)
