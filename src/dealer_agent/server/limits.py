"""Rate limits for each client and rule, shared by the worker processes of one machine (docs/protocol.md#rate-limits).

The library `limits` parses the rules. Its strategies check one limit at a time and count a refused request. Here all
limits of a rule are checked in one step, and a refused request is not counted. A window has a fixed length and starts
with the client's first request, so the wait that a refusal names is exact.

The counters are in one memory-mapped file of fixed size: a table of blocks, each with several sets. All counters of a
client are in one block, and its counters for one rule are in one set of it. A process uses a block under the kernel's
lock on its bytes. When a set is full, the new counter replaces the one that expires first. So very many IP
addresses need no more memory. The file holds keyed hashes, never an IP address or a token.
"""

import fcntl
import math
import mmap
import os
import secrets
import struct
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

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
_BLOCKS = 1024
_TABLE_BYTES = _HEADER_BYTES + _BLOCKS * _BLOCK_BYTES
# A window that ends later than a new one would was started before the clock was set back. Smaller differences are
# corrections of the clock.
_CLOCK_GRACE_SECONDS = 1.0


class Refusal(NamedTuple):
    """The rule that refuses a request, and after how many whole seconds the client may retry."""

    rule: str
    wait: int


class _Limit(NamedTuple):
    """At most `amount` requests in `window` seconds. `owner` is the beginning of the client's counter for it."""

    amount: int
    window: int
    owner: bytes


class RateLimits:
    """The counters in the file at `path`, and the rules by name. The file is created when it does not exist.

    An empty rule has no limit. Of two limits with the same window the lower one applies. A rule has at most 8 windows.
    Use one object per process and path: closing one would release the locks of another. Raises ValueError for an
    invalid rule, and for a file with other content.
    """

    def __init__(self, path: Path, rules: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> None:
        self._limits = {name: windows_of(rule) for name, rule in rules.items()}
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
        self._key = bytes(self._table[len(_MAGIC) : len(_MAGIC) + _KEY_BYTES])
        self._block_of = lru_cache(maxsize=4096)(self._located)

    def close(self) -> None:
        """Closes the file. The counters stay in it."""
        self._table.close()
        self._open_file.close()

    def acquire(self, rule: str, client: str, cost: int = 1) -> int | None:
        """Counts a request `cost` times. Returns None if it is allowed, else the seconds for `Retry-After`, at least 1.

        A cost of -1 removes a counted request. A refused request is not counted. A cost above a limit counts as the
        limit. Raises KeyError for an unknown rule.
        """
        refusal = self.acquire_in_order((rule,), client, cost)
        return None if refusal is None else refusal.wait

    def acquire_in_order(self, rules: tuple[str, ...], client: str, cost: int = 1) -> Refusal | None:
        """Counts a request under each rule until one refuses it, all under one lock."""
        block, counters = self._block_of(rules, client)
        with self._threads:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _BLOCK_BYTES, block)
            try:
                # Read the time under the lock, so that a request never uses an older time than the one before it.
                now = self._clock()
                for rule, start, limits in counters:
                    wait = self._acquire_rule(start, limits, now, cost)
                    if wait is not None:
                        return Refusal(rule, wait)
                return None
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _BLOCK_BYTES, block)

    def _located(self, rules: tuple[str, ...], client: str) -> tuple[int, list[tuple[str, int, list[_Limit]]]]:
        """The offset of a client's block; for each rule with limits: its name, the offset of its set, its limits."""
        digest = blake2b(client.encode(errors="surrogatepass"), digest_size=4, key=self._key).digest()
        block = _HEADER_BYTES + int.from_bytes(digest) % _BLOCKS * _BLOCK_BYTES
        counters = []
        for rule in rules:
            if self._limits[rule]:
                name = f"{rule}\0{client}".encode(errors="surrogatepass")
                digest = blake2b(name, digest_size=12, key=self._key).digest()
                limits = [_Limit(amount, window, _OWNER.pack(digest, window)) for amount, window in self._limits[rule]]
                counters.append((rule, block + digest[0] % _BLOCK_SETS * _SET_BYTES, limits))
        return block, counters

    def _acquire_rule(self, start: int, limits: list[_Limit], now: float, cost: int) -> int | None:
        # Conditional expressions are faster than min() and max(): every request calls this twice.
        table, wait = self._table, 0.0
        updates: list[tuple[int, bytes, float, int]] = []
        for amount, window, owner in limits:
            offset, count, ends = self._find(start, owner), 0, now + window
            if offset >= 0:
                stored_end, stored_count = _COUNTED.unpack_from(table, offset + _OWNER_BYTES)
                if now < stored_end <= ends + _CLOCK_GRACE_SECONDS:
                    count, ends = stored_count, stored_end
            after = count + (cost if cost <= amount else amount or 1)
            if after > amount and ends - now > wait:
                wait = ends - now
            updates.append((offset, owner, ends, after if after > 0 else 0))
        if wait:
            return max(1, math.ceil(wait))
        for index, (offset, owner, ends, count) in enumerate(updates):
            at = offset
            if offset < 0:
                at = self._first_to_expire(start, {used for used, _, _, _ in updates})
                updates[index] = at, owner, ends, count
            _COUNTER.pack_into(table, at, owner, ends, count)
        return None

    def _find(self, start: int, owner: bytes) -> int:
        """The offset of the counter of `owner` in the set of counters at `start`; -1 without one."""
        offset = self._table.find(owner, start, start + _SET_BYTES)
        while offset >= 0 and (offset - start) % _COUNTER_BYTES:
            # By chance, two neighbours contain the same bytes.
            offset = self._table.find(owner, offset + 1, start + _SET_BYTES)
        return offset

    def _first_to_expire(self, start: int, used: set[int]) -> int:
        offsets = (offset for offset in range(start, start + _SET_BYTES, _COUNTER_BYTES) if offset not in used)
        return min(offsets, key=lambda offset: _COUNTED.unpack_from(self._table, offset + _OWNER_BYTES)[0])

    def _open_table(self, path: Path) -> mmap.mmap:
        fcntl.lockf(self._file, fcntl.LOCK_EX, _HEADER_BYTES)
        try:
            magic = os.pread(self._file, len(_MAGIC), 0)
            if magic != _MAGIC:
                # A table of zeros is one that a killed worker started: the magic number is written last.
                if any(magic):
                    raise ValueError(f"{path} is not a table of rate limits of this version; delete or move it")
                # Write the zeros: in a file with a hole, a full disk would kill the worker at its first access.
                os.pwrite(self._file, bytes(_TABLE_BYTES), 0)
                os.pwrite(self._file, secrets.token_bytes(_KEY_BYTES), len(_MAGIC))
                os.pwrite(self._file, _MAGIC, 0)
            return mmap.mmap(self._file, _TABLE_BYTES)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _HEADER_BYTES)
