"""Finds the caller that an access token of an issuer proves (docs/protocol.md#issued-tokens).

A verified token is kept until it expires, so a repeated one costs a hash and a look-up. It is verified again when the
key set of its issuer or the settings of the dealer have changed.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from dealer_agent.callers.access_token import IssuerKeys, KeyUnknown, TokenRefused, read_keys, read_token, verify
from dealer_agent.callers.caller import Caller
from dealer_agent.callers.issuer import Issuer
from dealer_agent.http_signatures.directory import KeySet
from dealer_agent.known_keys.known import KnownKeys
from dealer_agent.protocol.errors import RateLimited

MOST_KEPT = 4096
"""The verified tokens that a process keeps, for all dealers together."""
RETRY_SECONDS = 5
"""When a client may send its token again after the keys of the issuer were missing."""


class _VerifiedToken(NamedTuple):
    """A verified token, and what it was verified by."""

    caller: Caller
    expires_at: float
    keys: KeySet
    source: str
    by: "AccessTokens"


@dataclass
class VerifiedTokens:
    """The tokens that a process has verified: the most recently used ones."""

    # By the dealer id and the hash of the token.
    _kept: OrderedDict[tuple[str, bytes], _VerifiedToken] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self._kept)

    def find(self, key: tuple[str, bytes]) -> _VerifiedToken | None:
        """A token by its dealer and hash."""
        token = self._kept.get(key)
        if token is not None:
            self._kept.move_to_end(key)
        return token

    def keep(self, key: tuple[str, bytes], token: _VerifiedToken) -> None:
        """Keeps a token. The one that was not used for the longest time makes room."""
        self._kept[key] = token
        self._kept.move_to_end(key)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def drop(self, key: tuple[str, bytes]) -> None:
        """Forgets a token that is no longer valid."""
        self._kept.pop(key, None)


class AccessTokens:
    """The access tokens of one dealer. `issuers` has the source of the keys of each issuer."""

    def __init__(
        self, dealer_id: str, issuers: Iterable[tuple[Issuer, str]], keys: KnownKeys | None, verified: VerifiedTokens
    ) -> None:
        self._dealer_id = dealer_id
        self._issuers: Mapping[str, tuple[Issuer, str]] = {each.url: (each, source) for each, source in issuers}
        self._known = keys
        # By the source of the keys: the key set, and the keys that were read from it.
        self._read: dict[str, tuple[KeySet, IssuerKeys]] = {}
        self._verified = verified

    def caller_of(self, text: str, now: float) -> Caller:
        """The caller that a token proves at a Unix time. Raises TokenRefused, and RateLimited without the keys."""
        key = self._dealer_id, sha256(text.encode()).digest()
        verified = self._verified.find(key)
        if verified is not None:
            if verified.by is self and verified.expires_at > now and verified.keys is self._find(verified.source):
                return verified.caller
            self._verified.drop(key)
        return self._verify(key, text, now)

    def _verify(self, key: tuple[str, bytes], text: str, now: float) -> Caller:
        """The caller of an access token, which it keeps for later requests. Raises TokenRefused and RateLimited."""
        token = read_token(text)
        trusted = self._issuers.get(token.issuer)
        if trusted is None:
            raise TokenRefused(
                "The dealer does not trust the issuer of the token: get one from an issuer that its metadata (RFC 9728)"
                " names."
            )
        issuer, source = trusted
        keys = self._find(source)
        if keys is None or self._known is None:
            raise RateLimited(RETRY_SECONDS, because="The keys of the token's issuer are being fetched.")
        try:
            verified = verify(token, issuer, self._usable(source, keys), now)
        except KeyUnknown:
            self._known.refresh_soon(source)
            raise
        self._verified.keep(key, _VerifiedToken(verified.caller, verified.expires_at, keys, source, self))
        return verified.caller

    def _find(self, source: str) -> KeySet | None:
        return None if self._known is None else self._known.find(source)

    def _usable(self, source: str, keys: KeySet) -> IssuerKeys:
        """The keys of a set, which are read once."""
        read = self._read.get(source)
        if read is None or read[0] is not keys:
            read = self._read[source] = keys, read_keys(keys.document)
        return read[1]
