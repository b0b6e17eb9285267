"""Access tokens of an issuer: what is accepted, and why others are refused (docs/protocol.md#issued-tokens)."""

import hmac
import json
import random
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm
from tests.callers.issuing import AUDIENCE, CLAIMS, CLIENT, ISSUER, NOW, jwk, key_set, private_key, signed, token
from tests.soak import SOAK, soak_seed

from dealer_agent.callers import issued
from dealer_agent.callers.access_token import LONGEST_TOKEN, IssuedToken, TokenRefused, read_keys, read_token, verify
from dealer_agent.callers.issuer import ALGORITHMS, Issuer

TRUSTED = Issuer(ISSUER, frozenset({AUDIENCE}))
ALL_SCOPES = frozenset({"inventory:read", "leads:write"})


def check(text: str, keys: bytes | None = None, issuer: Issuer = TRUSTED, now: float = NOW) -> IssuedToken:
    return verify(read_token(text), issuer, read_keys(keys or key_set()), now)


@pytest.mark.requirement("issued-tokens")
@pytest.mark.parametrize("algorithm", [name for names in ALGORITHMS.values() for name in names])
def test_a_token_of_each_algorithm_proves_its_client(algorithm: str) -> None:
    expected = IssuedToken(issued(ISSUER, CLIENT, ALL_SCOPES), NOW + 360)
    assert check(token(algorithm), key_set(jwk(algorithm))) == expected


ACCEPTED = {
    "one of several audiences": token(aud=["https://other.example", AUDIENCE]),
    "the long type": token(header={"typ": "application/at+jwt"}),
    "the type in capitals": token(header={"typ": "AT+JWT"}),
    "no key id, and one key": token(header={"kid": None}),
    "an expiry within the skew of clocks": token(exp=NOW - 59),
    "a beginning within the skew of clocks": token(iat=NOW + 59, nbf=NOW + 59),
    "a fraction of a second": token(exp=NOW + 300.5),
    "neither sub nor jti, and unknown claims": token(sub=None, jti=None, more={"a": [1, {"b": []}]}),
}


@pytest.mark.requirement("issued-tokens")
@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_an_unusual_token_that_follows_the_rules_proves_its_caller(text: str) -> None:
    assert check(text).caller.identity == f"{ISSUER}#{CLIENT}"


@pytest.mark.requirement("scopes")
@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("inventory:read", {"inventory:read"}),
        ("openid leads:write", {"leads:write"}),
        ("Leads:write", set()),
        ("", set()),
        (None, set()),
    ],
)
def test_only_scopes_of_this_service_are_read(scope: str | None, expected: set[str]) -> None:
    assert check(token(scope=scope)).caller.scopes == frozenset(expected)


def hmac_token(secret: bytes) -> str:
    head = urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "at+jwt", "kid": "RS256-1"}).encode()).rstrip(b"=")
    text = head + b"." + token().split(".")[1].encode()
    mac = urlsafe_b64encode(hmac.digest(secret, text, sha256)).rstrip(b"=")
    return (text + b"." + mac).decode()


def pem() -> bytes:
    return private_key("RS256").public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[no-any-return]


def without_signature() -> str:
    head = urlsafe_b64encode(b'{"alg":"none","typ":"at+jwt"}').decode().rstrip("=")
    return f"{head}.{token().split('.')[1]}"


RSA_SET = key_set(jwk("RS256"))
REFUSED: dict[str, tuple[str, bytes | None, str]] = {
    "expired": (token(exp=NOW - 60), None, "expired"),
    "not valid yet (nbf)": (token(nbf=NOW + 61), None, "not valid yet"),
    "issued in the future": (token(iat=NOW + 61), None, "not valid yet"),
    "another audience": (token(aud="https://other.example"), None, "audience"),
    "an audience that begins with ours": (token(aud=AUDIENCE + ".evil.example"), None, "audience"),
    "no audience in the list": (token(aud=[]), None, "audience"),
    "another issuer": (token(iss="https://evil.example"), None, "issuer"),
    "the issuer with a slash": (token(iss=ISSUER + "/"), None, "issuer"),
    "another key with the same id": (token(number=2, header={"kid": "ES256-1"}), None, "signature"),
    "a key that was removed": (token(), key_set(jwk(number=2)), "no key that can verify it"),
    "an id of no key": (token(header={"kid": "x"}), None, "no key that can verify it"),
    "no id, and two keys": (token(header={"kid": None}), key_set(jwk(), jwk(number=2)), "no key that can verify it"),
    "two keys with one id": (token(), key_set(jwk(), jwk(number=2, kid="ES256-1")), "no key that can verify it"),
    "alg none": (without_signature() + ".AA", None, "algorithm"),
    "alg none without signature": (without_signature() + ".", None, "neither"),
    "HS256 with the public key as PEM": (hmac_token(pem()), RSA_SET, "algorithm"),
    "HS256 with the public key as JSON": (hmac_token(json.dumps(jwk("RS256")).encode()), RSA_SET, "algorithm"),
    "PS256 with a key for RS256": (
        token("PS256", header={"kid": "RS256-1"}),
        key_set(jwk("RS256", alg="RS256")),
        "no key that can verify it",
    ),
    "ES256 with the id of an RSA key": (token(header={"kid": "RS256-1"}), RSA_SET, "no key that can verify it"),
    "a key for encryption": (token(), key_set(jwk(use="enc"), jwk("RS256")), "no key that can verify it"),
    "a key for something else": (token(), key_set(jwk(key_ops=["sign"]), jwk("RS256")), "no key that can verify it"),
    **{
        f"a header {name}": (token(header={name: value}), None, "header parameter that is not accepted")
        for name, value in {
            "jku": "https://evil.example/jwks.json",
            "jwk": jwk(number=2),
            "x5u": "https://evil.example/cert.pem",
            "x5c": ["MII"],
            "crit": ["exp"],
            "b64": False,
        }.items()
    },
    "an ID token": (token(header={"typ": "JWT"}), None, "typ"),
    "no typ": (token(header={"typ": None}), None, "neither"),
    "a typ that is a list": (token(header={"typ": ["at+jwt"]}), None, "neither"),
    "an id that is a number": (token(header={"kid": 1}), None, "neither"),
    "no expiry": (token(exp=None), None, "neither"),
    "an expiry in text": (token(exp=str(NOW + 300)), None, "neither"),
    "an expiry that is true": (token(exp=True), None, "neither"),
    "no iat": (token(iat=None), None, "neither"),
    "no issuer": (token(iss=None), None, "neither"),
    "no client": (token(client_id=None), None, "client"),
    "an empty client": (token(client_id=""), None, "client"),
    "a client with a line break": (token(client_id="a\nb"), None, "client"),
    "a client that is too long": (token(client_id="a" * 201), None, "client"),
    "a client that is a list": (token(client_id=[CLIENT]), None, "neither"),
    "scopes in a list": (token(scope=["leads:write"]), None, "neither"),
    "claims that are a list": (signed(b"[]", {"typ": "at+jwt"}), None, "neither"),
    "claims that are not JSON": (signed(b"x", {"typ": "at+jwt"}), None, "neither"),
    "deep nesting": (signed(b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", {"typ": "at+jwt"}), None, "neither"),
    "too long": (token(filler="x" * LONGEST_TOKEN), None, "more than"),
    "encrypted (five parts)": (f"{token()}.AA.AA", None, "neither"),
    "two parts": (".".join(token().split(".")[:2]), None, "neither"),
    "padded": (f"{token()}=", None, "neither"),
    "with a space": (f"{token()} ", None, "neither"),
    "not ASCII": (f"{token()}é", None, "neither"),
    "empty": ("", None, "neither"),
    "signature of another token": (
        ".".join((*token(jti="2").split(".")[:2], token().split(".")[2])),
        None,
        "signature",
    ),
}


@pytest.mark.requirement("issued-token-refused")
@pytest.mark.parametrize(("text", "keys", "words"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_token_is_refused_with_a_reason(text: str, keys: bytes | None, words: str) -> None:
    with pytest.raises(TokenRefused, match=words) as refused:
        check(text, keys)
    # The reason goes into a header, and has no word of the token.
    assert '"' not in str(refused.value)
    assert str(refused.value).isascii()
    assert "evil" not in str(refused.value)


@pytest.mark.requirement("issued-token-refused")
@pytest.mark.parametrize(
    ("issuer", "text", "words"),
    [
        (Issuer(ISSUER, frozenset({AUDIENCE}), frozenset({"EdDSA"})), token(), "algorithm"),
        (Issuer(ISSUER, frozenset({AUDIENCE}), clients=frozenset({"other"})), token(), "client"),
        (Issuer(ISSUER, frozenset({AUDIENCE}), client_claim="azp"), token(), "azp"),
    ],
)
def test_the_settings_of_an_issuer_narrow_its_tokens(issuer: Issuer, text: str, words: str) -> None:
    assert check(text).caller.is_known
    with pytest.raises(TokenRefused, match=words):
        check(text, issuer=issuer)


@pytest.mark.requirement("issued-tokens")
def test_the_client_may_be_in_azp() -> None:
    issuer = Issuer(ISSUER, frozenset({AUDIENCE}), clients=frozenset({"app"}), client_claim="azp")
    assert check(token(client_id=None, azp="app"), issuer=issuer).caller.identity == f"{ISSUER}#app"


def weak_rsa(bits: int) -> dict[str, Any]:
    public = rsa.generate_private_key(65537, bits).public_key()
    return {**RSAAlgorithm.to_jwk(public, as_dict=True), "key_ops": ["verify"]}


UNUSABLE = {
    "nothing": b"",
    "a list": b"[]",
    "no keys": b"{}",
    "keys in an object": b'{"keys": {}}',
    "an empty list": b'{"keys": []}',
    "no objects": b'{"keys": [1, null, [], {}]}',
    "deep nesting": b'{"keys": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a secret key": key_set({"kty": "oct", "k": "AAAA", "kid": "a"}),
    "no point of the curve": key_set({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}),
    "members of wrong types": key_set({"kty": "EC", "crv": ["P-256"], "x": 1}),
    "a key for encryption by its curve": key_set({"kty": "OKP", "crv": "X25519", "x": jwk("EdDSA")["x"]}),
    "an id that is a number": key_set(jwk(kid=1)),
    "a secret algorithm": key_set(jwk(alg="HS256")),
    "the algorithm of another curve": key_set(jwk(alg="ES384")),
    "a key for encryption": key_set(jwk(use="enc")),
    "a private key": key_set(jwk(d="AAAA")),
    "a short RSA key": key_set(weak_rsa(1024)),
    "a large exponent": key_set(jwk("RS256", e=urlsafe_b64encode((2**64 + 13).to_bytes(9)).decode().rstrip("="))),
}


@pytest.mark.requirement("issued-token-keys")
@pytest.mark.parametrize("document", UNUSABLE.values(), ids=UNUSABLE)
def test_a_key_set_without_a_usable_key_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"is not a JSON Web Key Set|has no public key"):
        read_keys(document)


def mutated(text: str, randomly: random.Random) -> str:
    """The token with one to three changes: characters replaced, inserted, removed, doubled or swapped."""
    characters = list(text)
    for _ in range(randomly.randint(1, 3)):
        at = randomly.randrange(len(characters))
        other = randomly.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ é\0")
        match randomly.randrange(5):
            case 0:
                characters[at] = other
            case 1:
                characters.insert(at, other)
            case 2:
                del characters[at]
            case 3:
                characters[at:at] = characters[at : at + randomly.randint(1, 40)]
            case _:
                to = randomly.randrange(len(characters))
                characters[at], characters[to] = characters[to], characters[at]
    return "".join(characters)


@pytest.mark.requirement("issued-token-refused")
def test_no_mutated_token_is_accepted() -> None:
    randomly = random.Random(soak_seed())
    for algorithm in ("ES256", "EdDSA", "RS256"):
        valid, keys = token(algorithm), read_keys(key_set(jwk(algorithm)))
        assert verify(read_token(valid), TRUSTED, keys, NOW).caller.is_known
        tried = 0
        while tried < (10_000 if SOAK else 1_000):
            text = mutated(valid, randomly)
            if text == valid:
                continue
            tried += 1
            with pytest.raises(TokenRefused):
                verify(read_token(text), TRUSTED, keys, NOW)


@pytest.mark.requirement("issued-token-refused")
def test_no_signed_token_with_claims_of_any_type_fails_otherwise() -> None:
    """A trusted issuer may sign anything: each token is accepted or refused, with no other error."""
    randomly, keys = random.Random(soak_seed()), read_keys(key_set(jwk("EdDSA")))
    values: list[Any] = [None, True, -1, 0, 2**64, 10**400, 1e308, "", "\0", "é", [], {}, [None], {"a": 1}, NOW]
    for _ in range(500):
        claims = {name: randomly.choice(values) for name in randomly.sample(sorted(CLAIMS), randomly.randint(1, 3))}
        text = signed(json.dumps(CLAIMS | claims).encode(), {"typ": "at+jwt", "kid": "EdDSA-1"}, "EdDSA")
        with suppress(TokenRefused):
            verify(read_token(text), TRUSTED, keys, NOW)
