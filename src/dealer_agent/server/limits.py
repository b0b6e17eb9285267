"""Rate limits per client and rule, held together by all worker processes of one machine (specification, part 8).

Limits are written in the notation of the library `limits` (`"120/minute; 10/second"`), whose parser reads them. Its
strategies are not used: they judge one limit at a time and count a refused hit, while here all limits of a rule hold
together, atomically, and a refused hit costs the client nothing.

A window is fixed and starts with the client's first hit, so the wait that a refusal names is exact. The counters live
in one memory-mapped file of fixed size. The file is a table of blocks of sets; all counters of a client are in one
block, those under one rule in one set of it, and whoever touches a block holds the kernel's lock on its bytes, which
the kernel frees when a worker dies. Where a set is full the counter that expires first makes room: a flood of addresses
costs no memory, and short windows go before long ones. The file holds keyed hashes, never an address or a token, and
its owner alone may read it.
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

from limits import parse_many

_MAGIC = b"ratelim1"
_KEY_BYTES = 16
_HEADER_BYTES = 64
# One counter: hash of rule and client, the window's length in seconds, when it ends (epoch seconds), hits in it.
_COUNTER = struct.Struct("<16sdQ")
_OWNER = struct.Struct("<12sI")
_COUNTED = struct.Struct("<dQ")
_COUNTER_BYTES = _COUNTER.size
_OWNER_BYTES = _OWNER.size
_WAYS = 8
_SET_BYTES = _WAYS * _COUNTER_BYTES
_BLOCK_SETS = 8
_BLOCK_BYTES = _BLOCK_SETS * _SET_BYTES
_BLOCKS = 1024
_TABLE_BYTES = _HEADER_BYTES + _BLOCKS * _BLOCK_BYTES
_LONGEST_WINDOW = 2**32 - 1
_MOST_HITS = 2**64 - 1
# A window that ends later than one that starts now belongs to a clock that was set back since, unless by little.
_CLOCK_GRACE_SECONDS = 1.0


class Refused(NamedTuple):
    """The rule that refuses a request, and for how many whole seconds."""

    rule: str
    wait: int


class _Limit(NamedTuple):
    """At most `amount` hits in `window` seconds; `owner` is what a client's counter of them begins with."""

    amount: int
    window: int
    owner: bytes


class RateLimits:
    """The counters in the file at `path`, which is made when absent, and the rules by name.

    An empty rule is no limit. Of two limits over the same time the stricter one counts. A rule has at most 8 different
    times. Raises ValueError for a rule that cannot be read, and for a file that is something else. One object per
    process and path: the kernel's locks are between processes, and closing one object would free the locks of another.
    """

    def __init__(self, path: Path, rules: Mapping[str, str], *, clock: Callable[[], float] = time.time) -> None:
        self._limits = {name: _read_rule(name, rule) for name, rule in rules.items()}
        self._clock = clock
        self._threads = threading.Lock()
        # Through a descriptor: no mode of `open` makes a file that its owner alone reads, and keeps what is in it.
        self._open_file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b", buffering=0)
        self._file = self._open_file.fileno()
        try:
            self._table = self._open_table(path)
        except (OSError, ValueError):
            self._open_file.close()
            raise
        self._key = bytes(self._table[len(_MAGIC) : len(_MAGIC) + _KEY_BYTES])
        self._block_of = lru_cache(maxsize=4096)(self._hashed)

    def close(self) -> None:
        """Let go of the file; the counters stay in it."""
        self._table.close()
        self._open_file.close()

    def hit(self, rule: str, client: str, cost: int = 1) -> int | None:
        """Count a request of `client` under `rule` as `cost` hits; None when it is allowed.

        Else nothing is counted, and the answer is the whole seconds (at least 1) after which the limits that refuse it
        are over: `Retry-After` (contract, part 3). A cost above a limit's amount counts as that amount, so that the
        request is allowed when the wait is over. Raises KeyError for a rule that was not given.
        """
        refused = self.hit_in_turn((rule,), client, cost)
        return None if refused is None else refused.wait

    def give_back(self, rule: str, client: str) -> None:
        """Remove one hit that was counted."""
        self.hit(rule, client, -1)

    def hit_in_turn(self, rules: tuple[str, ...], client: str, cost: int = 1) -> Refused | None:
        """The same under one rule after the other, as far as the first that refuses, which is named; one lock does for
        all."""
        block, counters = self._block_of(rules, client)
        with self._threads:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _BLOCK_BYTES, block)
            try:
                # Read with the lock held: who waited for it must not judge by an older time than who came before.
                now = self._clock()
                for rule, start, limits in counters:
                    wait = self._judge(start, limits, now, cost)
                    if wait is not None:
                        return Refused(rule, wait)
                return None
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _BLOCK_BYTES, block)

    def _hashed(self, rules: tuple[str, ...], client: str) -> tuple[int, list[tuple[str, int, list[_Limit]]]]:
        """Where a client's block is; and of each rule that has limits its set, and the limits."""
        place = blake2b(client.encode(errors="surrogatepass"), digest_size=4, key=self._key).digest()
        block = _HEADER_BYTES + int.from_bytes(place) % _BLOCKS * _BLOCK_BYTES
        counters = []
        for rule in rules:
            if self._limits[rule]:
                name = f"{rule}\0{client}".encode(errors="surrogatepass")
                digest = blake2b(name, digest_size=12, key=self._key).digest()
                limits = [_Limit(amount, window, _OWNER.pack(digest, window)) for amount, window in self._limits[rule]]
                counters.append((rule, block + digest[0] % _BLOCK_SETS * _SET_BYTES, limits))
        return block, counters

    def _judge(self, start: int, limits: list[_Limit], now: float, cost: int) -> int | None:
        # Conditions in place of min() and max(): every request comes here twice.
        table, wait = self._table, 0.0
        taken: list[tuple[int, bytes, float, int]] = []
        for amount, window, owner in limits:
            place, hits, ends = self._place_of(start, owner), 0, now + window
            if place >= 0:
                counted_until, counted = _COUNTED.unpack_from(table, place + _OWNER_BYTES)
                if now < counted_until <= ends + _CLOCK_GRACE_SECONDS:
                    hits, ends = counted, counted_until
            after = hits + (cost if cost <= amount else amount or 1)
            if after > amount and ends - now > wait:
                wait = ends - now
            taken.append((place, owner, ends, after if after > 0 else 0))
        if wait:
            return max(1, math.ceil(wait))
        for index, (place, owner, ends, hits) in enumerate(taken):
            at = place
            if place < 0:
                at = self._first_to_expire(start, {held for held, _, _, _ in taken})
                taken[index] = at, owner, ends, hits
            _COUNTER.pack_into(table, at, owner, ends, hits)
        return None

    def _place_of(self, start: int, owner: bytes) -> int:
        """Where in the file the set holds this counter; -1 where it does not."""
        place = self._table.find(owner, start, start + _SET_BYTES)
        while place >= 0 and (place - start) % _COUNTER_BYTES:
            # The same bytes across two counters, by chance.
            place = self._table.find(owner, place + 1, start + _SET_BYTES)
        return place

    def _first_to_expire(self, start: int, held: set[int]) -> int:
        places = range(start, start + _SET_BYTES, _COUNTER_BYTES)
        free = (place for place in places if place not in held)
        return min(free, key=lambda place: _COUNTED.unpack_from(self._table, place + _OWNER_BYTES)[0])

    def _open_table(self, path: Path) -> mmap.mmap:
        fcntl.lockf(self._file, fcntl.LOCK_EX, _HEADER_BYTES)
        try:
            magic = os.pread(self._file, len(_MAGIC), 0)
            if magic != _MAGIC:
                # Zeros are a table that a killed worker began: the magic is written last.
                if any(magic):
                    raise ValueError(f"{path} is not a table of rate limits of this version; delete or move it")
                # Written, not only extended: a hole in the file would kill the worker when the disk is full.
                os.pwrite(self._file, bytes(_TABLE_BYTES), 0)
                os.pwrite(self._file, secrets.token_bytes(_KEY_BYTES), len(_MAGIC))
                os.pwrite(self._file, _MAGIC, 0)
            return mmap.mmap(self._file, _TABLE_BYTES)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _HEADER_BYTES)


def _read_rule(name: str, rule: str) -> list[tuple[int, int]]:
    """The limits of one rule as (hits, seconds), one for each length of time."""
    if not rule.strip():
        return []
    try:
        items = parse_many(rule)
    except ValueError as problem:
        raise ValueError(f"rate limit of {name}: {problem}") from problem
    strictest: dict[int, int] = {}
    for item in items:
        window = item.get_expiry()
        strictest[window] = min(item.amount, strictest.get(window, item.amount))
    if max(strictest) > _LONGEST_WINDOW or max(strictest.values()) > _MOST_HITS:
        raise ValueError(f"rate limit of {name}: a number in {rule!r} is too large")
    if len(strictest) > _WAYS:
        raise ValueError(f"rate limit of {name}: more than {_WAYS} different times in {rule!r}")
    return [(amount, window) for window, amount in strictest.items()]
