"""Makes and checks bearer tokens, `dat_<id>_<secret>` (docs/protocol.md#authentication). Only hashes are stored."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from dealer_agent.callers import Caller, token_caller

PREFIX = "dat"
_NO_HASH = bytes(32)


class NewToken(NamedTuple):
    """The secret of a new token, and the hash to store."""

    secret: str
    secret_hash: bytes

    def text(self, token_id: str) -> str:
        """The whole token, which is shown once."""
        return f"{PREFIX}_{token_id}_{self.secret}"


def new_token() -> NewToken:
    """A new secret of 256 random bits, and its hash."""
    secret = secrets.token_urlsafe(32)
    return NewToken(secret, hash_secret(secret))


def hash_secret(secret: str) -> bytes:
    """The hash of a secret. A fast hash is safe here, because nobody can guess 256 random bits."""
    return hashlib.sha256(secret.encode()).digest()


class TokenRegistry:
    """The valid tokens."""

    def __init__(
        self,
        active: Iterable[tuple[str, bytes]],
        expiries: Mapping[str, float],
        scopes: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        """`active` are token ids and the hashes of their secrets. `expiries` has the Unix time of those that expire.

        A token without `scopes` opens all skills.
        """
        self._hash_by_id = dict(active)
        self._expiries = expiries
        self._scopes = scopes

    def owner(self, token: str) -> Caller | None:
        """The owner of a valid token, else None. The secret is compared in constant time, also for an unknown id."""
        prefix, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        expected = self._hash_by_id.get(token_id)
        matches = hmac.compare_digest(hash_secret(secret), expected or _NO_HASH)
        if token_id in self._expiries and self._expiries[token_id] <= time.time():
            return None
        if not matches or expected is None or prefix != PREFIX:
            return None
        return token_caller(token_id, self._scopes.get(token_id))


def bearer_token(authorization: str) -> str | None:
    """The token in an `Authorization` header, or None for another scheme."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
