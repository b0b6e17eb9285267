"""Refuses a signed request that is sent again, at every worker and machine (docs/protocol.md#replayed-signatures).

A nonce is remembered as long as a signature with it is accepted, at most NONCE_SECONDS. The processes of one machine
share a file. With PostgreSQL, machines share a table: then a signed request with a nonce waits for a transaction. If
the service cannot find out whether a nonce is new, it refuses the request.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from dealer_agent.http_signatures.web_bot_auth import GRACE_SECONDS, MAX_AGE_SECONDS, VerifiedRequest
from dealer_agent.server.limits import RateLimits
from dealer_agent.storage.nonces import add_nonces, delete_expired_nonces
from dealer_agent.storage.store import Store

NONCE_SECONDS = round(MAX_AGE_SECONDS + 2 * GRACE_SECONDS)
"""A signature is accepted so long: from the grace before `created` to the grace after its greatest age."""
NONCE_RULE = "nonce"
BLOCKS = 4096
"""A file of 8 MiB, with sets of 8 nonces. With 50 signed requests a second, three in a million meet a full set, and are
refused; with 100, four in ten thousand."""
MAX_TOGETHER = 200
"""The most nonces of one transaction."""
CLEAN_SECONDS = 60.0


def key_of(verified: VerifiedRequest) -> bytes | None:
    """A hash of the key and the nonce of a signature; None without a nonce. Two agents may use the same nonce."""
    if verified.nonce is None:
        return None
    return sha256(f"{verified.thumbprint} {verified.nonce}".encode()).digest()[:16]


class FileNonces:
    """The nonces of one machine. Only one process of a machine remembers a nonce."""

    def __init__(self, path: Path) -> None:
        rules = {NONCE_RULE: f"1 per {NONCE_SECONDS} second"}
        self._used = RateLimits(path, rules, blocks=BLOCKS, forgets=False)

    def close(self) -> None:
        """Closes the file."""
        self._used.close()

    def remember(self, key: bytes) -> bool:
        """Whether a nonce is new. It is not new the next time."""
        return self._used.acquire(NONCE_RULE, key.hex()) is None


@dataclass
class StoredNonces:
    """The nonces of an installation on PostgreSQL. Those that wait are added together. `owner` has the rows."""

    store: Store
    owner: str
    # By the key of the nonce: until when it is stored, and whether it was new.
    _waiting: dict[bytes, tuple[datetime, asyncio.Future[bool]]] = field(default_factory=dict)
    _adding: asyncio.Task[None] | None = None

    async def remember(self, key: bytes, until: float) -> bool:
        """Whether a nonce is new. Raises StorageError."""
        if key in self._waiting:
            return False
        is_new: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        # The clocks of machines differ, and the clock of one may be set back.
        self._waiting[key] = datetime.fromtimestamp(until + NONCE_SECONDS, UTC), is_new
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add_waiting())
        return await is_new

    async def clean(self) -> None:
        """Deletes nonces that have expired. Raises StorageError."""
        await asyncio.to_thread(self._clean)

    async def _add_waiting(self) -> None:
        """Stores the nonces that wait, many in one transaction. Each future then says whether its nonce is new."""
        while self._waiting:
            keys = list(self._waiting)[:MAX_TOGETHER]
            group = {key: self._waiting[key] for key in keys}
            try:
                new = await asyncio.to_thread(self._add, {key: until for key, (until, _) in group.items()})
            except Exception as failure:  # noqa: BLE001 - each request raises it.
                for key, (_, is_new) in group.items():
                    del self._waiting[key]
                    if not is_new.cancelled():
                        is_new.set_exception(failure)
                continue
            for key, (_, is_new) in group.items():
                del self._waiting[key]
                if not is_new.cancelled():
                    is_new.set_result(key in new)

    def _add(self, nonces: Mapping[bytes, datetime]) -> set[bytes]:
        with self.store.write(self.owner) as tx:
            return add_nonces(tx, nonces)

    def _clean(self) -> None:
        with self.store.write(self.owner) as tx:
            delete_expired_nonces(tx)
