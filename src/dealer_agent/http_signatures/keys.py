"""Keys of signatures: JWKs (RFC 7517), their thumbprints (RFC 7638), and the one algorithm of each. Pure.

The algorithm follows from the key. So a sender cannot choose another one for it, and a public key is never the secret
of an HMAC. Algorithms: ed25519, ecdsa-p256-sha256, ecdsa-p384-sha384 and rsa-pss-sha512 (RFC 9421, section 3.3).
"""

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_pem_private_key

SHORTEST_RSA_BITS = 2048
LONGEST_RSA_BITS = 4096
"""Longer keys are refused: they make each verification slow."""
LARGEST_RSA_EXPONENT = 2**32

_REQUIRED = {"OKP": ("crv", "kty", "x"), "EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n")}
"""The members of a JWK that its thumbprint covers, in order."""
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA512()), salt_length=64)


class KeyRefused(ValueError):  # noqa: N818 - says what happened.
    """A key that cannot be used. The message says why."""


class _Curve(NamedTuple):
    algorithm: str
    jose: str
    curve: ec.EllipticCurve
    hash: hashes.HashAlgorithm
    size: int


_CURVES = {
    "P-256": _Curve("ecdsa-p256-sha256", "ES256", ec.SECP256R1(), hashes.SHA256(), 32),
    "P-384": _Curve("ecdsa-p384-sha384", "ES384", ec.SECP384R1(), hashes.SHA384(), 48),
}
_OTHER_CURVE = f"has a curve that is not supported: use {' or '.join(_CURVES)}"
_ED25519_NAMES = ("ed25519", "EdDSA", "Ed25519")
_PSS_NAMES = ("rsa-pss-sha512", "PS512")

_Public = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey
_Private = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key. `not_before` and `not_after` are seconds since 1970: `nbf` and `exp` of the JWK."""

    thumbprint: str
    algorithm: str
    key: _Public
    not_before: float | None = None
    not_after: float | None = None

    def verifies(self, signature: bytes, text: bytes) -> bool:
        """Whether this key has signed the text."""
        try:
            match self.key:
                case ed25519.Ed25519PublicKey():
                    self.key.verify(signature, text)
                case rsa.RSAPublicKey():
                    self.key.verify(signature, text, _PSS, hashes.SHA512())
                case _:
                    curve = _CURVES[_curve_name(self.key)]
                    if len(signature) != 2 * curve.size:
                        return False
                    r, s = (int.from_bytes(half) for half in (signature[: curve.size], signature[curve.size :]))
                    self.key.verify(encode_dss_signature(r, s), text, ec.ECDSA(curve.hash))
        except InvalidSignature:
            return False
        return True

    def is_valid_at(self, now: float) -> bool:
        """Whether the key may be used at a time."""
        return (self.not_before is None or self.not_before <= now) and (self.not_after is None or now < self.not_after)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key. `jwk` is its public half, without `kid`."""

    thumbprint: str
    algorithm: str
    jwk: dict[str, str]
    key: _Private

    def sign(self, text: bytes) -> bytes:
        """The signature of a text."""
        match self.key:
            case ed25519.Ed25519PrivateKey():
                return self.key.sign(text)
            case rsa.RSAPrivateKey():
                return self.key.sign(text, _PSS, hashes.SHA512())
            case _:
                curve = _CURVES[_curve_name(self.key)]
                r, s = decode_dss_signature(self.key.sign(text, ec.ECDSA(curve.hash)))
                return r.to_bytes(curve.size) + s.to_bytes(curve.size)


def thumbprint_of(jwk: Mapping[str, Any]) -> str:
    """The thumbprint of a JWK with SHA-256, as base64url. Raises KeyRefused."""
    members = _REQUIRED.get(str(jwk.get("kty")))
    if members is None or not all(isinstance(jwk.get(name), str) for name in members):
        raise KeyRefused("is not a public key of a supported type: publish a JWK with the `kty` OKP, EC or RSA")
    text = msgspec.json.encode({name: jwk[name] for name in members})
    return encode(hashlib.sha256(text).digest())


def read_public_key(jwk: Mapping[str, Any]) -> PublicKey:
    """The key of a JWK. Raises KeyRefused."""
    if "d" in jwk or "k" in jwk:
        raise KeyRefused("is a private key: publish only public ones, and replace this one")
    if jwk.get("use", "sig") != "sig" or "verify" not in _names(jwk.get("key_ops", ["verify"])):
        raise KeyRefused("is not for signatures: its `use` must be sig, and its `key_ops` must contain verify")
    thumbprint = thumbprint_of(jwk)
    try:
        algorithm, names, key = _public_key(jwk)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise (
            error if isinstance(error, KeyRefused) else KeyRefused("is not a valid key: export it as a JWK again")
        ) from None
    if jwk.get("alg", algorithm) not in names:
        raise KeyRefused(f"has an `alg` that does not belong to its type: write {algorithm}, or omit it")
    return PublicKey(thumbprint, algorithm, key, _time(jwk, "nbf"), _time(jwk, "exp"))


def read_private_key(data: bytes) -> PrivateKey:
    """The private key in a PEM file without a password (PKCS #8), or in a JWK. Raises KeyRefused."""
    if b"-----BEGIN" in data:
        try:
            return private_key_of(load_pem_private_key(data, password=None))
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise (
                error
                if isinstance(error, KeyRefused)
                else KeyRefused("is not a private key in PEM without a password: make a new one")
            ) from None
    try:
        jwk = msgspec.json.decode(data, type=dict[str, Any])
        if (jwk.get("kty"), jwk.get("crv")) != ("OKP", "Ed25519"):
            raise KeyRefused(
                "is not a JWK of an Ed25519 key (`kty` OKP, `crv` Ed25519): correct it, or use a PEM file for a key of"
                " another type"
            )
        key = private_key_of(ed25519.Ed25519PrivateKey.from_private_bytes(decode(jwk.get("d"))))
    except (ValueError, RecursionError) as error:
        raise error if isinstance(error, KeyRefused) else KeyRefused("is not a private JWK: make a new key") from None
    if "x" in jwk and jwk["x"] != key.jwk["x"]:
        raise KeyRefused("is a JWK whose `x` and `d` do not belong together: make a new key")
    return key


def private_key_of(key: object) -> PrivateKey:
    """A private key of the package `cryptography`. Raises KeyRefused."""
    match key:
        case ed25519.Ed25519PrivateKey():
            jwk = {"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().public_bytes_raw())}
        case ec.EllipticCurvePrivateKey():
            name, numbers = _curve_name(key), key.public_key().public_numbers()
            size = _CURVES[name].size
            jwk = {
                "kty": "EC",
                "crv": name,
                "x": encode(numbers.x.to_bytes(size)),
                "y": encode(numbers.y.to_bytes(size)),
            }
        case rsa.RSAPrivateKey():
            rsa_numbers = key.public_key().public_numbers()
            jwk = {"kty": "RSA", "n": encode(_shortest(rsa_numbers.n)), "e": encode(_shortest(rsa_numbers.e))}
        case _:
            raise KeyRefused("has a type that is not supported: use an Ed25519, P-256, P-384 or RSA key")
    public = read_public_key(jwk)
    return PrivateKey(public.thumbprint, public.algorithm, jwk, key)


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: object) -> bytes:
    """The bytes of base64url without padding. Other spellings of the same bytes are refused. Raises KeyRefused."""
    if isinstance(text, str) and text.isascii():
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if len(text) % 4 != 1 else b""
        if data and encode(data) == text:
            return data
    raise KeyRefused("has a member that is not base64url without padding: export the key as a JWK again")


def _public_key(jwk: Mapping[str, Any]) -> tuple[str, tuple[str, ...], _Public]:
    """The algorithm, its names in a JWK, and the key. Raises ValueError and UnsupportedAlgorithm."""
    if jwk["kty"] == "OKP":
        if jwk["crv"] != "Ed25519":
            raise KeyRefused("has a curve that is not supported: use Ed25519")
        return "ed25519", _ED25519_NAMES, ed25519.Ed25519PublicKey.from_public_bytes(decode(jwk["x"]))
    if jwk["kty"] == "EC":
        curve = _CURVES.get(jwk["crv"])
        if curve is None:
            raise KeyRefused(_OTHER_CURVE)
        x, y = decode(jwk["x"]), decode(jwk["y"])
        if not len(x) == len(y) == curve.size:
            raise KeyRefused("has a coordinate of another length than its curve: write it with all its leading zeros")
        key = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve.curve).public_key()
        return curve.algorithm, (curve.algorithm, curve.jose), key
    n, e = int.from_bytes(decode(jwk["n"])), int.from_bytes(decode(jwk["e"]))
    if not (SHORTEST_RSA_BITS <= n.bit_length() <= LONGEST_RSA_BITS and 3 <= e < LARGEST_RSA_EXPONENT):
        raise KeyRefused(
            f"is an RSA key of another size or with an unusual exponent: use {SHORTEST_RSA_BITS} to "
            f"{LONGEST_RSA_BITS} bits and the exponent 65537"
        )
    return "rsa-pss-sha512", _PSS_NAMES, rsa.RSAPublicNumbers(e, n).public_key()


def _curve_name(key: ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) -> str:
    for name, curve in _CURVES.items():
        if isinstance(key.curve, type(curve.curve)):
            return name
    raise KeyRefused(_OTHER_CURVE)


def _shortest(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8)


def _names(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _time(jwk: Mapping[str, Any], name: str) -> float | None:
    """The Unix time in a member of a JWK; None if it is absent. Raises KeyRefused."""
    value = jwk.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise KeyRefused(f"has a member `{name}` that is not a number of seconds: write a Unix time")
    try:
        return float(value)
    except OverflowError:
        raise KeyRefused(f"has a member `{name}` that is too large: write a Unix time") from None
