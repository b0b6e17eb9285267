"""Limits rates across several machines, in Valkey or Redis (docs/how-to/production.md#share-the-rate-limits).

Each counted request waits for the store, so the limits are exact: all machines together answer at most the limit. To
count on each machine and add up later would cost less, but a burst could then use the whole limit on every machine. The
fast path cannot wait. With a shared store all requests take the path over ASGI.

A count takes one round trip for each window of its rule. A reading request has two counts, or three in an
installation. All counts of a process that wait at the same time are sent in one batch (`server.batched_counters`). A
refusal is remembered until its wait is over, so a client over its limit causes no further round trips. With 16 requests
at once, a search takes 320 µs of processor time. On the fast path with the machine's own table it takes 60 to 90 µs.

The store counts with the strategy `FixedWindowRateLimiter` of the library `limits`. Its windows are those of
`server.limits`: of fixed length, from the client's first request. The clock is the store's.

If the store fails or takes longer than its timeout, this machine counts in its own table (`server.limits`), which
starts empty. One request every `RETRY_SECONDS` then tries the store again, and the others do not wait for it.

A key in the store is `dealer-agent:limits/{dealer}/{rule}/{hash}/{limit}`. The hash is of the client's address or token
id. It is keyed with a secret that is derived from the dealer's permanent secret, which all machines of the dealer have.
So the store contains no address, and nobody who reads it can look one up.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

import structlog

from dealer_agent.config.rates import windows_of
from dealer_agent.server.limits import ADDRESS_RULE, DealerLimits, PolicyLimits, RateLimits

if TYPE_CHECKING:
    from limits import RateLimitItem

TIMEOUT_SECONDS = 0.5
"""How long a request waits for the store, unless the URL ends with another time, such as `?socket_timeout=2`."""
RETRY_SECONDS = 1.0
KEY_PREFIX = "dealer-agent"
MOST_REFUSALS = 4096
"""The refusals that a process remembers."""

log = structlog.get_logger()


class StoreUnavailable(Exception):  # noqa: N818 - a state of the store, which the caller handles
    """The store did not count a request: it failed, was too slow, or has just failed."""


class LimitStore:
    """A process's connections to the store at `url`: `redis`, `rediss`, `valkey` or `valkeys`.

    Opens a connection when it first counts. Use it in one event loop.
    """

    def __init__(self, url: str) -> None:
        # Imported here: the library and its client take 0.4 s, and most services have no shared store.
        from limits.aio.strategies import FixedWindowRateLimiter
        from limits.errors import StorageError
        from valkey.asyncio import Valkey

        from dealer_agent.server.batched_counters import BatchedCounters

        self._client = Valkey.from_url(url, socket_timeout=TIMEOUT_SECONDS)
        self._timeout: float = self._client.connection_pool.connection_kwargs["socket_timeout"]
        self._storage = BatchedCounters(url, self._client, KEY_PREFIX)
        self._strategy = FixedWindowRateLimiter(self._storage)
        self._failures = (StorageError, TimeoutError)
        # Whether the store has failed, and the time before which it is not asked again.
        self._has_failed = False
        self._retry_at = 0.0
        # By client, the time until which the shared store need not be asked again.
        self._refused_until: dict[tuple[str, ...], float] = {}

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    async def acquire(self, limits: list["RateLimitItem"], client: tuple[str, ...], cost: int) -> int | None:
        """Counts a request `cost` times against all limits, or against none if one refuses it. Below 0: takes it back.

        Returns None if it is allowed, else the seconds until it may be repeated. Raises StoreUnavailable.
        """
        now = time.monotonic()
        remaining = self._refused_until.get(client, 0.0) - now
        if remaining > 0 and cost > 0:
            return math.ceil(remaining)
        was_failing = self._has_failed
        if was_failing:
            if now < self._retry_at:
                raise StoreUnavailable
            self._retry_at = now + RETRY_SECONDS
        try:
            async with asyncio.timeout(self._timeout):
                wait = await self._acquire(limits, client, cost)
        except self._failures as failure:
            self._note_failure(failure)
            raise StoreUnavailable from failure
        if was_failing and self._has_failed:
            self._has_failed = False
            log.info("rate limits are shared again")
        # A cheaper request might still be allowed, so only the refusal of the cheapest counts for all.
        if wait is not None and cost == 1:
            self._remember(client, now + wait)
        return wait

    async def _acquire(self, limits: list["RateLimitItem"], client: tuple[str, ...], cost: int) -> int | None:
        """`acquire` without the timeout and the memory of refusals."""
        if cost < 0:
            self._refused_until.pop(client, None)
            for limit in limits:
                await self._take_back(limit, client, -cost)
            return None
        # A cost above a limit counts as the limit, so that the request is allowed after the wait.
        costs = [min(cost, limit.amount) for limit in limits]
        hits = [await self._strategy.hit(limit, *client, cost=each) for limit, each in zip(limits, costs, strict=True)]
        if all(hits):
            return None
        wait = max([await self._wait(limit, client) for limit, hit in zip(limits, hits, strict=True) if not hit])
        for limit, each in zip(limits, costs, strict=True):
            await self._take_back(limit, client, each)
        return wait

    async def _take_back(self, limit: "RateLimitItem", client: tuple[str, ...], cost: int) -> None:
        """Undoes a count: another window has refused the request, or the caller gives its cost back."""
        key = limit.key_for(*client)
        if await self._storage.incr(key, limit.get_expiry(), -cost) < 0:
            # The window has just ended. A count below 0 would allow more than the limit in the next one.
            await self._storage.clear(key)

    async def _wait(self, limit: "RateLimitItem", client: tuple[str, ...]) -> int:
        """The seconds until a window ends. The store rounds them to the nearest second, so one is added."""
        ends = await self._storage.get_expiry(limit.key_for(*client))
        return min(math.ceil(ends - time.time()) + 1, limit.get_expiry())

    def _note_failure(self, failure: BaseException) -> None:
        """Uses the limits of this machine for RETRY_SECONDS. Logs the first failure."""
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if not self._has_failed:
            self._has_failed = True
            log.warning(
                "rate limits hold for this machine only, the shared store does not answer",
                error="TimeoutError" if isinstance(failure, TimeoutError) else type(failure.__cause__).__qualname__,
            )

    def _remember(self, client: tuple[str, ...], until: float) -> None:
        """Remembers until when a client is over its limit. The oldest entry makes room."""
        if len(self._refused_until) >= MOST_REFUSALS:
            del self._refused_until[next(iter(self._refused_until))]
        # At the end of the dictionary, so that the oldest one goes first.
        self._refused_until.pop(client, None)
        self._refused_until[client] = until


class SharedLimits:
    """One dealer's limits in the store. `local_limits` count while the store is away.

    `key` is the same on all machines. `installation_limits` hold for all dealers of the installation together.
    """

    def __init__(
        self,
        store: LimitStore,
        local_limits: RateLimits | DealerLimits | PolicyLimits,
        dealer_id: str,
        rules: Mapping[str, str],
        key: bytes,
        installation_limits: "SharedLimits | None" = None,
    ) -> None:
        from limits import RateLimitItemPerSecond

        self._store = store
        self._local_limits = local_limits
        self._dealer_id = dealer_id
        self._key = key
        self._installation_limits = installation_limits
        self._limits: dict[str, list[RateLimitItem]] = {
            name: [RateLimitItemPerSecond(amount, window, namespace="limits") for amount, window in windows_of(rule)]
            for name, rule in rules.items()
        }

    def of_policy(self, local_limits: PolicyLimits, rules: Mapping[str, str]) -> "SharedLimits":
        """As `RateLimits.of_policy`, for all machines together."""
        return SharedLimits(self._store, local_limits, self._dealer_id, rules, self._key)

    async def acquire(self, rule: str, client: str, cost: int = 1) -> int | None:
        """As `RateLimits.acquire`, for all machines together."""
        try:
            if rule == ADDRESS_RULE and self._installation_limits is not None:
                wait = await self._installation_limits.acquire_in_store(rule, client, cost)
                if wait is not None:
                    return wait
            return await self.acquire_in_store(rule, client, cost)
        except StoreUnavailable:
            return self._local_limits.acquire(rule, client, cost)

    async def acquire_in_store(self, rule: str, client: str, cost: int) -> int | None:
        """`acquire` for these limits alone. Raises StoreUnavailable."""
        limits = self._limits[rule]
        if not limits:
            return None
        digest = blake2b(client.encode(errors="surrogatepass"), digest_size=16, key=self._key).hexdigest()
        return await self._store.acquire(limits, (self._dealer_id, rule, digest), cost)
