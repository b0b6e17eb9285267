"""The digest of a body in the header `content-digest` (RFC 9530). Pure."""

import hashlib
from base64 import b64encode

from dealer_agent.http_signatures.errors import SignatureRefused
from dealer_agent.http_signatures.fields import parse_dictionary

_HASHES = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


def content_digest(body: bytes) -> str:
    """The value of the header for a body, with SHA-256."""
    return f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"


def check_digest(value: str, body: bytes) -> None:
    """Raises SignatureRefused if the header has no digest of the body with SHA-256 or SHA-512, or a wrong one."""
    if value == content_digest(body):  # As nearly all signers write it: nothing is parsed.
        return
    known = [(name, member[0]) for name, member in parse_dictionary("content-digest", value).items() if name in _HASHES]
    if not known:
        raise SignatureRefused(
            "unsupported", "The header content-digest has neither sha-256 nor sha-512: send one of them."
        )
    if any(_HASHES[name](body).digest() != digest for name, digest in known):
        raise SignatureRefused(
            "wrong_digest", "The header content-digest is not that of the body: make it from the bytes sent."
        )
