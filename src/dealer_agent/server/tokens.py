"""Bearer tokens (specification, part 5). A token is `dat_<id>_<secret>`; only the secret's hash is ever stored."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import NamedTuple

PREFIX = "dat"
_NO_HASH = bytes(32)


class NewToken(NamedTuple):
    """The secret half of a token that is about to be stored."""

    secret: str
    secret_hash: bytes

    def text(self, token_id: str) -> str:
        """The whole token, to be shown once."""
        return f"{PREFIX}_{token_id}_{self.secret}"


def new_token() -> NewToken:
    """A fresh secret of 256 random bits, and its hash."""
    secret = secrets.token_urlsafe(32)
    return NewToken(secret, hashed(secret))


def hashed(secret: str) -> bytes:
    """What is kept of a secret."""
    # 256 random bits need no slow hash: there is nothing to guess.
    return hashlib.sha256(secret.encode()).digest()


class TokenRegistry:
    """The tokens that open the door now."""

    def __init__(self, active: Iterable[tuple[str, bytes]]) -> None:
        """`active` are token ids and the hashes of their secrets."""
        self._hash_by_id = dict(active)

    def owner(self, token: str) -> str | None:
        """The id of a token that is valid, else None. The secret is compared in constant time, found or not."""
        prefix, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        expected = self._hash_by_id.get(token_id)
        matches = hmac.compare_digest(hashed(secret), expected or _NO_HASH)
        return token_id if matches and expected is not None and prefix == PREFIX else None


def bearer_token(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header; None when there is none."""
    if authorization is None:
        return None
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
