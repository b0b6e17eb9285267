"""Limits the rate of each client and rule, for all worker processes of a machine (docs/protocol.md#rate-limits).

The library `limits` parses the rules. Its strategies check one limit at a time and count a refused request. Here all
limits of a rule are checked in one step, and a refused request is not counted. A window has a fixed length and starts
with the client's first request, so the wait that a refusal names is exact.

The counters are in one memory-mapped file of fixed size: a table of blocks, each with several sets. All counters of a
client are in one block, and its counters for one rule are in one set of it. A process uses a block under the kernel's
lock on its bytes. When a set is full, the new counter replaces the one that expires first. So very many IP
addresses need no more memory. Known callers have blocks of their own, because anybody with an IPv6 network has enough
addresses to replace all counters in the others. So have the counters of leads in a day, which would otherwise fill sets
for a day. The file holds keyed hashes, never an IP address or a token.

In an installation, each dealer has its own rules and its own counters (`RateLimits.of_dealer`), in a block for each
dealer and client. The rule of IP addresses also applies to all dealers together. Otherwise a client could multiply its
rate by the number of dealers.
"""

import errno
import fcntl
import math
import mmap
import os
import secrets
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from dealer_agent.callers.policy import LEADS_A_DAY
from dealer_agent.config.rates import MOST_WINDOWS, windows_of

_MAGIC = b"ratelim1"
_KEY_BYTES = 16
_HEADER_BYTES = 64
# A counter: hash of rule and client, length of the window in seconds, its end (epoch seconds), requests in it.
_COUNTER = struct.Struct("<16sdQ")
_OWNER = struct.Struct("<12sI")
_COUNTED = struct.Struct("<dQ")
_COUNTER_BYTES = _COUNTER.size
_OWNER_BYTES = _OWNER.size
_SET_BYTES = MOST_WINDOWS * _COUNTER_BYTES
_BLOCK_SETS = 8
_BLOCK_BYTES = _BLOCK_SETS * _SET_BYTES
BLOCKS = 1024
INSTALLATION_BLOCKS = 8192
"""The blocks of a table of 16 MiB, because each dealer counts the same clients again."""
# A window that ends later than a new one would was started before the clock was set back. Smaller differences are
# corrections of the clock.
_CLOCK_GRACE_SECONDS = 1.0


KNOWN_CLIENT = "known:"
"""The beginning of the name of a client that has proved who it is. It is not an IP address."""
ADDRESS_RULE = "address"
"""The rule that counts every request for the address of its client."""


class LimitExceeded(NamedTuple):
    """The rule that refuses a request, and after how many whole seconds the client may retry."""

    rule: str
    wait: int


class _Limit(NamedTuple):
    """At most `amount` requests in `window` seconds. `owner` is the beginning of the client's counter for it."""

    amount: int
    window: int
    owner: bytes


@dataclass(frozen=True, eq=False, slots=True)
class _Rules:
    """The rules of a dealer by name. `owner` is part of the names of its counters."""

    owner: str
    windows: dict[str, list[tuple[int, int]]]


def _rules(owner: str, rules: Mapping[str, str]) -> _Rules:
    return _Rules(owner, {name: _windows_of(rule) for name, rule in rules.items()})


_windows_of = lru_cache(maxsize=1024)(windows_of)


class RateLimits:
    """The counters in the file at `path`, and the rules by name. The file is created when it does not exist.

    If it `forgets`, a new counter replaces another one when a set is full; else the request is refused. Then a counter
    also holds if the clock was set back by up to the length of the longest window.

    An empty rule has no limit. Of two limits with the same window the lower one applies. A rule has at most 8 windows.
    Use one object per process and path: closing one would release the locks of another. Raises ValueError for an
    invalid rule, and for a file with other content.
    """

    def __init__(
        self,
        path: Path,
        rules: Mapping[str, str],
        *,
        blocks: int = BLOCKS,
        forgets: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._rules = _rules("", rules)
        self._blocks = blocks
        self._forgets = forgets
        # How far the clock may be set back: a stored end of a window that is later is not valid.
        windows = (window for rule in rules.values() for _, window in _windows_of(rule))
        self._grace = _CLOCK_GRACE_SECONDS if forgets else max(windows, default=0)
        self._clock = clock
        self._threads = threading.Lock()
        # No mode of `open` sets the permissions of a new file and keeps the content of an existing one.
        self._open_file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
        self._file = self._open_file.fileno()
        try:
            self._table = self._open_table(path)
        except (OSError, ValueError):
            self._open_file.close()
            raise
        # The key of the hashes of clients.
        self._key = bytes(self._table[len(_MAGIC) : len(_MAGIC) + _KEY_BYTES])
        self._block_of = lru_cache(maxsize=4096)(self._locate_block)

    def close(self) -> None:
        """Closes the file. The counters stay in it."""
        self._table.close()
        self._open_file.close()

    def acquire(self, rule: str, client: str, cost: int = 1) -> int | None:
        """Counts a request `cost` times. Returns None if it is allowed, else the seconds for `Retry-After`, at least 1.

        A cost of -1 removes a counted request. A refused request is not counted. A cost above a limit counts as the
        limit. Raises KeyError for an unknown rule.
        """
        exceeded = self.acquire_in_order((rule,), client, cost)
        return None if exceeded is None else exceeded.wait

    def acquire_in_order(self, rules: tuple[str, ...], client: str, cost: int = 1) -> LimitExceeded | None:
        """Counts a request under each rule until one refuses it, all under one lock."""
        return self.acquire_for(self._rules, rules, client, cost)

    def of_dealer(self, dealer_id: str, rules: Mapping[str, str]) -> "DealerLimits":
        """The limits of a dealer of an installation, in the same file."""
        return DealerLimits(self, _rules(dealer_id, rules))

    def of_policy(self, rules: Mapping[str, str]) -> "PolicyLimits":
        """The limits of a caller with rates of its own: `rules` are only those. They count in the same counters."""
        return PolicyLimits(self, _rules(self._rules.owner, rules))

    def acquire_for(self, owner: _Rules, rules: tuple[str, ...], client: str, cost: int) -> LimitExceeded | None:
        """`acquire_in_order` with the rules and the counters of an owner."""
        block, counters = self._block_of(owner, rules, client)
        with self._threads:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _BLOCK_BYTES, block)
            try:
                # Read the time under the lock, so that a request never uses an older time than the one before it.
                now = self._clock()
                for rule, start, limits in counters:
                    wait = self._acquire_rule(start, limits, now, cost)
                    if wait is not None:
                        return LimitExceeded(rule, wait)
                return None
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _BLOCK_BYTES, block)

    def _locate_block(
        self, owner: _Rules, rules: tuple[str, ...], client: str
    ) -> tuple[int, list[tuple[str, int, list[_Limit]]]]:
        """The offset of a client's block; for each rule with limits: its name, the offset of its set, its limits."""
        part = self._blocks // 8
        if client.startswith(KNOWN_CLIENT) and part:
            first, last = 0, part
        elif rules == (LEADS_A_DAY,) and part:
            first, last = part, 2 * part
        else:
            first, last = 2 * part, self._blocks
        client = f"{owner.owner}\0{client}"
        digest = blake2b(client.encode(errors="surrogatepass"), digest_size=4, key=self._key).digest()
        block = _HEADER_BYTES + (first + int.from_bytes(digest) % (last - first)) * _BLOCK_BYTES
        counters = []
        for rule in rules:
            windows = owner.windows[rule]
            if windows:
                name = f"{rule}\0{client}".encode(errors="surrogatepass")
                digest = blake2b(name, digest_size=12, key=self._key).digest()
                limits = [_Limit(amount, window, _OWNER.pack(digest, window)) for amount, window in windows]
                counters.append((rule, block + digest[0] % _BLOCK_SETS * _SET_BYTES, limits))
        return block, counters

    def _acquire_rule(self, start: int, limits: list[_Limit], now: float, cost: int) -> int | None:
        """Counts a request in all windows of a rule, or in none. Returns the seconds to wait; None if it is allowed."""
        # Conditional expressions are faster than min() and max(): every request calls this twice.
        table, wait = self._table, 0.0
        updates: list[tuple[int, bytes, float, int]] = []
        for amount, window, owner in limits:
            offset, count, ends = table.find(owner, start, start + _SET_BYTES), 0, now + window
            if (offset - start) % _COUNTER_BYTES:
                offset = self._find_later(owner, offset, start)
            if offset >= 0:
                stored_end, stored_count = _COUNTED.unpack_from(table, offset + _OWNER_BYTES)
                if now < stored_end <= ends + self._grace:
                    count, ends = stored_count, stored_end
            # A cost above the limit counts as the whole limit, so that such a request can be allowed at all.
            after = count + (cost if cost <= amount else amount or 1)
            if after > amount and ends - now > wait:
                wait = ends - now
            updates.append((offset, owner, ends, after if after > 0 else 0))
        if wait:
            return max(1, math.ceil(wait))
        if not self._forgets and updates[0][0] < 0 and (wait := self._first_to_expire(start, limits)[1] - now) > 0:
            return max(1, math.ceil(wait))
        for offset, owner, ends, count in updates:
            at = offset if offset >= 0 else self._first_to_expire(start, limits)[0]
            _COUNTER.pack_into(table, at, owner, ends, count)
        return None

    def _find_later(self, owner: bytes, offset: int, start: int) -> int:
        """The offset of a counter in the set at `start`; -1 without one. By chance, two neighbours have its bytes at
        `offset`."""
        while offset >= 0 and (offset - start) % _COUNTER_BYTES:
            offset = self._table.find(owner, offset + 1, start + _SET_BYTES)
        return offset

    def _first_to_expire(self, start: int, limits: list[_Limit]) -> tuple[int, float]:
        """Returns the offset and the end of the counter in the set at `start` that a new counter replaces.

        It is the one that expires first: an unused one has the end 0. The counters of `limits` are left out, because
        the same request counts in them.
        """
        owners = {owner for _, _, owner in limits}
        counters = _COUNTER.iter_unpack(self._table[start : start + _SET_BYTES])
        first, first_end = -1, math.inf
        for offset, (owner, ends, _) in zip(range(start, start + _SET_BYTES, _COUNTER_BYTES), counters, strict=True):
            if ends < first_end and owner not in owners:
                first, first_end = offset, ends
        return first, first_end

    def _open_table(self, path: Path) -> mmap.mmap:
        """Maps the shared table of counters. The first worker creates it, while the lock keeps the others out."""
        size = _HEADER_BYTES + self._blocks * _BLOCK_BYTES
        fcntl.lockf(self._file, fcntl.LOCK_EX, _HEADER_BYTES)
        try:
            magic = os.pread(self._file, len(_MAGIC), 0)
            if magic != _MAGIC:
                # A table of zeros is one that a killed worker started: the magic number is written last.
                if any(magic):
                    raise ValueError(f"{path} is not a table of rate limits of this version; delete or move it")
                # Write the zeros: in a file with a hole, a full disk would kill the worker at its first access.
                if os.pwrite(self._file, bytes(size), 0) < size:
                    raise OSError(errno.ENOSPC, f"there is no room for {path}: make room on its disk")
                os.pwrite(self._file, secrets.token_bytes(_KEY_BYTES), len(_MAGIC))
                os.pwrite(self._file, _MAGIC, 0)
            return mmap.mmap(self._file, size)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _HEADER_BYTES)


@dataclass(frozen=True, slots=True)
class DealerLimits:
    """The limits of one dealer of an installation. A request also counts for all dealers, by the rule of addresses."""

    all_dealers: RateLimits
    rules: _Rules

    def acquire(self, rule: str, client: str, cost: int = 1) -> int | None:
        """As `RateLimits.acquire`."""
        exceeded = self.acquire_in_order((rule,), client, cost)
        return None if exceeded is None else exceeded.wait

    def acquire_in_order(self, rules: tuple[str, ...], client: str, cost: int = 1) -> LimitExceeded | None:
        """As `RateLimits.acquire_in_order`. The rule of addresses counts for all dealers first, under its own lock."""
        if ADDRESS_RULE in rules:
            exceeded = self.all_dealers.acquire_in_order((ADDRESS_RULE,), client, cost)
            if exceeded is not None:
                return exceeded
        return self.all_dealers.acquire_for(self.rules, rules, client, cost)

    def of_policy(self, rules: Mapping[str, str]) -> "PolicyLimits":
        """As `RateLimits.of_policy`, with the counters of the dealer."""
        return PolicyLimits(self.all_dealers, _rules(self.rules.owner, rules))


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """The limits that the policy of a caller sets in place of those of the dealer."""

    counters: RateLimits
    rules: _Rules

    def __contains__(self, rule: str) -> bool:
        return rule in self.rules.windows

    def acquire(self, rule: str, client: str, cost: int = 1) -> int | None:
        """As `RateLimits.acquire`."""
        exceeded = self.counters.acquire_for(self.rules, (rule,), client, cost)
        return None if exceeded is None else exceeded.wait
