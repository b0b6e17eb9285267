"""Counts in Valkey or Redis for the library `limits`. One batch has the counts of many requests.

The library sends a command for each count. With many requests at once, most of the time would go into sending and
receiving. Here, counts wait while a batch is on its way, and then go together. Only services with a shared store import
this module, because the library and its client take 0.4 s.
"""

import asyncio
from typing import NamedTuple

from limits.aio.storage import RedisStorage
from limits.aio.storage.redis.bridge import RedisBridge
from valkey import ValkeyError
from valkey.asyncio import Valkey


class _Count(NamedTuple):
    key: str
    expiry: int
    amount: int
    result: asyncio.Future[int]


class BatchedCounters(RedisStorage):
    """The library's storage at `url`, with its own script for each count. Errors are StorageError."""

    STORAGE_SCHEME = None  # type: ignore[assignment]  # No URL makes the library choose this class.

    def __init__(self, url: str, client: Valkey, key_prefix: str) -> None:
        super().__init__(
            f"async+{url}",
            wrap_exceptions=True,
            implementation="valkey",
            key_prefix=key_prefix,
            connection_pool=client.connection_pool,  # type: ignore[arg-type]  # Its documentation names it.
        )
        self._client = client
        self._waiting: list[_Count] = []
        self._sending: asyncio.Task[None] | None = None

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Adds to a counter, which expires so many seconds after its first count. Returns its new value."""
        count = _Count(self.bridge.prefixed_key(key), expiry, amount, asyncio.get_running_loop().create_future())
        self._waiting.append(count)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_waiting())
        return await count.result

    async def _send_waiting(self) -> None:
        """Sends the counts that wait, in batches, until none is left."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._send(batch)
        finally:
            self._sending = None

    async def _send(self, batch: list[_Count]) -> None:
        """Sends all counts of a batch in one round trip, and gives each request its result or its error."""
        script = RedisBridge.SCRIPT_INCR_EXPIRE.decode()
        results: list[int | ValkeyError]
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for count in batch:
                    pipeline.eval(script, 1, count.key, str(count.expiry), str(count.amount))
                results = await pipeline.execute(raise_on_error=False)
        except ValkeyError as failure:
            results = [failure] * len(batch)
        for count, result in zip(batch, results, strict=True):
            # The request may have stopped waiting.
            if count.result.done():
                continue
            if isinstance(result, ValkeyError):
                count.result.set_exception(result)
            else:
                count.result.set_result(result)
