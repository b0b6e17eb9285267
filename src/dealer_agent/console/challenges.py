"""The challenges of passkeys: each is made by this service, for one purpose, for five minutes, and works once. Pure.

A challenge needs no storage: it has its time, and a MAC over time, purpose and random bytes. That it works once is
decided by the table of nonces.
"""

import hmac
import secrets
from hashlib import sha256

SECONDS = 300
_RANDOM, _TIME, _MAC = 16, 8, 32


def new_challenge(key: bytes, purpose: str, now: float) -> bytes:
    """A new challenge. `purpose` says for whom and for what."""
    begun = secrets.token_bytes(_RANDOM) + int(now).to_bytes(_TIME)
    return begun + _mac(key, purpose, begun)


def is_challenge(key: bytes, purpose: str, challenge: bytes, now: float) -> bool:
    """Whether this service made the challenge, for this purpose, within the last minutes."""
    begun, mac = challenge[: _RANDOM + _TIME], challenge[_RANDOM + _TIME :]
    if len(mac) != _MAC or not hmac.compare_digest(mac, _mac(key, purpose, begun)):
        return False
    return 0 <= now - int.from_bytes(begun[_RANDOM:]) <= SECONDS


def _mac(key: bytes, purpose: str, begun: bytes) -> bytes:
    return hmac.digest(key, begun + purpose.encode(), sha256)
