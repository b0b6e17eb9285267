"""Signs a dealer's cards and quotes with a key derived from its permanent secret (docs/protocol.md#card-signatures).

Every worker and every machine with the dealer's keys derives the same key. Signatures are deterministic (RFC 6979), so
all of them serve the same bytes.
"""

from base64 import urlsafe_b64encode
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.algorithms import ECAlgorithm
from jwt.api_jws import PyJWS
from jwt.utils import der_to_raw_signature

from dealer_agent.protocol.card_signature import signed_texts
from dealer_agent.protocol.offers import QUOTE_TYPE

ALGORITHM: Final = "ES256"
# 128 bits more than the order of the curve, so that no key is more likely than another (FIPS 186-5, A.2.1).
_WIDE_BYTES = 48
_THUMBPRINT_MEMBERS = ("crv", "kty", "x", "y")


class _DeterministicES256(ECAlgorithm):
    """ES256 without random numbers."""

    def sign(self, msg: bytes, key: EllipticCurvePrivateKey) -> bytes:
        return der_to_raw_signature(key.sign(msg, ECDSA(SHA256(), deterministic_signing=True)), key.curve)


_jws = PyJWS(algorithms=[])
_jws.register_algorithm(ALGORITHM, _DeterministicES256(ECAlgorithm.SHA256, SECP256R1))


class CardSigner:
    """Signs the cards and quotes of one dealer. `secret` are 32 secret bytes. The key is at `keys_url`."""

    def __init__(self, secret: bytes, keys_url: str) -> None:
        self._secret = secret
        self._keys_url = keys_url

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        wide = HKDF(SHA256(), _WIDE_BYTES, salt=None, info=b"dealer-agent card signatures 1").derive(self._secret)
        curve = SECP256R1()
        return derive_private_key(int.from_bytes(wide) % (curve.group_order - 1) + 1, curve)

    @cached_property
    def public_key(self) -> dict[str, str]:
        """The public key as a JWK. Its `kid` is its thumbprint (RFC 7638)."""
        key = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        named = {name: key[name] for name in _THUMBPRINT_MEMBERS}
        thumbprint = urlsafe_b64encode(sha256(rfc8785.dumps(named)).digest()).decode().rstrip("=")
        return {**named, "kid": thumbprint, "use": "sig", "alg": ALGORITHM}

    def signed(self, card: dict[str, Any]) -> dict[str, Any]:
        """The card with its `signatures`. All routes of cards call this function."""
        return card | {"signatures": [self._signature(text) for text in signed_texts(card)]}

    def signature_of(self, quote: dict[str, Any], keys_url: str) -> str:
        """The JWS of a quote, whose payload is the quote by RFC 8785. Its key is also at `keys_url`."""
        header = {"typ": QUOTE_TYPE, "kid": self.public_key["kid"], "jku": keys_url}
        return _jws.encode(rfc8785.dumps(quote), self._key, ALGORITHM, header)

    def _signature(self, text: bytes) -> dict[str, str]:
        header = {"typ": "JOSE", "kid": self.public_key["kid"], "jku": self._keys_url}
        protected, _, signature = _jws.encode(text, self._key, ALGORITHM, header).split(".")
        return {"protected": protected, "signature": signature}
