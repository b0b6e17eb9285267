"""Makes the keys and the access tokens of an issuer, valid ones and wrong ones."""

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt import api_jws
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER, CLIENT, AUDIENCE = "https://login.example", "shopping-agent", "https://dealer.example"
NOW = 1_800_000_000.0
CLAIMS: dict[str, Any] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": CLIENT,
    "client_id": CLIENT,
    "jti": "1",
    "iat": NOW,
    "exp": NOW + 300,
    "scope": "inventory:read leads:write",
}
CURVES: dict[str, type[Any]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


@cache
def private_key(algorithm: str = "ES256", number: int = 1) -> Any:
    """The same key for the same arguments in a run."""
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm]())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048) if algorithm == "RS256" else private_key("RS256", number)


def jwk(algorithm: str = "ES256", number: int = 1, **more: Any) -> dict[str, Any]:
    """The public key, as an issuer publishes it."""
    kind = ECAlgorithm if algorithm in CURVES else OKPAlgorithm if algorithm == "EdDSA" else RSAAlgorithm
    public = kind.to_jwk(private_key(algorithm, number).public_key(), as_dict=True)
    return {**{k: v for k, v in public.items() if k != "key_ops"}, "kid": f"{algorithm}-{number}", **more}


def key_set(*keys: dict[str, Any]) -> bytes:
    """A key set. Without arguments, that of the issuer of `token`."""
    return json.dumps({"keys": keys or [jwk()]}).encode()


def token(
    algorithm: str = "ES256", number: int = 1, header: dict[str, Any] | None = None, key: Any = None, **claims: Any
) -> str:
    """An access token. A header or claim with the value None is left out."""
    content = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    head = {"typ": "at+jwt", "kid": f"{algorithm}-{number}", **(header or {})}
    head = {name: value for name, value in head.items() if value is not None}
    return signed(json.dumps(content).encode(), head, algorithm, number, key)


def signed(payload: bytes, header: dict[str, Any], algorithm: str = "ES256", number: int = 1, key: Any = None) -> str:
    """A signed payload. pyjwt adds `typ` to a header without one; here it stays absent."""
    head = json.dumps({"alg": algorithm, **header}).encode()
    text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (head, payload))
    how = api_jws.PyJWS().get_algorithm_by_name(algorithm)
    signature = how.sign(text, how.prepare_key(private_key(algorithm, number) if key is None else key))
    return (text + b"." + urlsafe_b64encode(signature).rstrip(b"=")).decode()
