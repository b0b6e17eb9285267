"""Signed requests for tests, and parts of them."""

from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from dealer_agent.http_signatures.directory import KeySet, directory_document, stored_key_set
from dealer_agent.http_signatures.keys import PrivateKey, private_key_of
from dealer_agent.http_signatures.signature_base import Component, SignableRequest
from dealer_agent.http_signatures.signing import RequestSigner, signed_fields
from dealer_agent.http_signatures.web_bot_auth import TAG

NOW = 1_800_000_000.0
ORIGIN = "https://agent.example"
BODY = b'{"message":{"role":"ROLE_USER"}}'
KEY = private_key_of(ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
P256 = private_key_of(ec.derive_private_key(7, ec.SECP256R1()))
P384 = private_key_of(ec.derive_private_key(7, ec.SECP384R1()))
RSA = private_key_of(rsa.generate_private_key(65537, 2048))
SIGNER = RequestSigner(KEY, ORIGIN)


def key_set(*keys: PrivateKey, fetched_at: float = NOW) -> KeySet:
    """The keys of a directory."""
    return stored_key_set(directory_document(keys), fetched_at, fetched_at + 3600)


def known(origin: str) -> KeySet | None:
    """The keys of ORIGIN."""
    return key_set(KEY, P256, P384, RSA) if origin == ORIGIN else None


def with_headers(headers: dict[str, str], **parts: Any) -> SignableRequest:
    """A request of a buyer with these headers."""
    lines = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    request = SignableRequest("POST", "dealer.example", "/v1/message:send", "", [(b"host", b"dealer.example"), *lines])
    return request._replace(**parts)


def lead(**parts: Any) -> SignableRequest:
    """A request that covers all that a lead needs."""
    return with_headers(SIGNER.sign("POST", "dealer.example", "/v1/message:send", "", BODY, NOW), **parts)


USUAL: list[Component] = [("@authority", {}), ("signature-agent", {"key": "agent"})]


def signed(
    components: list[Component] | None = None,
    key: PrivateKey = KEY,
    agent: str | None = f'agent="{ORIGIN}"',
    label: str = "agent",
    without: tuple[str, ...] = (),
    **parameters: Any,
) -> SignableRequest:
    """A request with a signature of these parts. It is valid if they are."""
    usual = {"created": int(NOW), "expires": int(NOW) + 60, "keyid": key.thumbprint, "tag": TAG}
    used = {name: value for name, value in (usual | parameters).items() if name not in without}
    unsigned = with_headers({} if agent is None else {"signature-agent": agent})
    fields = signed_fields([(label, key, components or USUAL, used)], unsigned, unsigned.headers)
    return with_headers(({} if agent is None else {"signature-agent": agent}) | fields)
