"""Queues the writes of the lead writer: in turn between dealers, and apart while a dealer is blocked.

A dealer is blocked while another transaction holds its lock, or another lock that its writes need. Then its writes wait
apart. They are tried again after a pause, until they are too old. The writes of other dealers go on.
"""

import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import perf_counter
from typing import Any

from dealer_agent.dealers.turns import Turns
from dealer_agent.storage.errors import QueueFull, StoreClosed
from dealer_agent.storage.leads.lead_write import LeadWrite

GROUP = 64
"""The most writes in one transaction: bounds how long the first of them waits for the last."""

SHARED_GROUP = 4
"""The most writes in one transaction while several dealers have writes: a write of one dealer waits for a group of
another. The dealers of a group have equal shares of it. A transaction costs as much processor time as about four leads.
"""

SHARED_SECONDS = 1.0
"""After a write of another dealer than the one before, several dealers count as active for this time."""

MOST_WAITING = 1024
"""The most writes in the queue. It bounds the memory of waiting leads.

A dealer may have as many writes as places are left for others. So one dealer alone may have half of all places, and
each of several a smaller share. The next dealer always finds a place.
"""

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.1
"""The pause before a blocked dealer is tried again doubles up to this."""

RETRIES = SHARED_GROUP
RETRIES_PAUSE_SECONDS = 0.02
"""So many blocked dealers are tried again at once, and the next ones after this pause. The writes of many blocked
dealers must not take the turns and the processor time of the others.
"""


@dataclass
class _Blocked:
    """A blocked dealer: its writes, since when it is blocked, when a transaction last failed to get its lock, and the
    last pause. While it is tried, `writes` is empty."""

    since: float
    writes: deque[LeadWrite[Any]] = field(default_factory=deque)
    waited_at: float = 0.0
    pause: float = FIRST_PAUSE_SECONDS / 2
    is_tried: bool = False


class LeadQueue:
    """Writes from any thread for the one thread that calls `next_group`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: Turns[LeadWrite[Any]] = Turns()
        # By dealer id.
        self._blocked: dict[str, _Blocked] = {}
        self._retries: list[tuple[float, str]] = []
        self._next_retries = 0.0
        self.several_dealers_active = False
        """Whether several dealers were active when the last group began: they had writes then or shortly before."""
        self._apart = 0
        self._closed = False
        self._last_dealer: str | None = None
        # A time of `perf_counter`. Until then several dealers count as active, even if only one has writes now.
        self._several_until = 0.0

    def __len__(self) -> int:
        return self._ready.size + self._apart

    def add(self, write: LeadWrite[Any], *, first: bool = False) -> None:
        """Adds a write, with `first` before all others. Raises StoreClosed and QueueFull."""
        dealer_id = write.dealer_id
        with self._changed:
            if self._closed:
                raise StoreClosed("the lead writer is closed")
            blocked = self._blocked.get(dealer_id)
            own = self._ready.count(dealer_id) if blocked is None else len(blocked.writes)
            if own >= MOST_WAITING - len(self) and not first:
                raise QueueFull(f"{own} writes of the dealer wait for the database already")
            if dealer_id != self._last_dealer:
                if self._last_dealer is not None:
                    self._several_until = write.submitted_at + SHARED_SECONDS
                self._last_dealer = dealer_id
            if blocked is not None and not blocked.is_tried:
                self._apart += 1
                if first:
                    blocked.writes.appendleft(write)
                else:
                    blocked.writes.append(write)
                return
            if first:
                self._ready.put_first(dealer_id, write)
            else:
                self._ready.add(dealer_id, write)
            self._changed.notify()

    def close(self) -> None:
        """Accepts no more writes. `next_group` returns those that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def next_group(self) -> list[LeadWrite[Any]]:
        """Waits for writes, and returns those of the next transaction. Empty when the queue is closed and has none."""
        with self._changed:
            while True:
                now = perf_counter()
                self._try_again(now)
                if self._ready.size:
                    return list(self._take(now))
                if self._retries:
                    self._changed.wait(max(self._retries[0][0], self._next_retries) - now)
                elif self._closed:
                    return []
                else:
                    self._changed.wait()

    def _take(self, now: float) -> Iterator[LeadWrite[Any]]:
        """Takes the writes of the next group.

        Next come the dealers that were not in the last group, if any of them has writes. So a dealer with very many
        writes is in at most every second group while such others wait, and the others are served between. A group has
        at most SHARED_GROUP writes while several dealers are active, so that nobody waits long for a foreign group. It
        has one write of each of its dealers, then a second one of each that has more, and so on.
        """
        self.several_dealers_active = now < self._several_until or self._ready.dealers > 1
        most = SHARED_GROUP if self.several_dealers_active else GROUP
        dealers = self._ready.next_dealers(most)
        for _ in range(most // len(dealers)):
            for dealer_id in dealers:
                yield self._ready.take(dealer_id)[1]
            dealers = [dealer_id for dealer_id in dealers if self._ready.count(dealer_id)]
            if not dealers:
                return

    def _try_again(self, now: float) -> None:
        """Lets the writes of the blocked dealers whose pause is over take part again."""
        if now < self._next_retries:
            return
        for _ in range(RETRIES):
            if not self._retries or self._retries[0][0] > now:
                return
            self._next_retries = now + RETRIES_PAUSE_SECONDS
            _, dealer_id = heappop(self._retries)
            blocked = self._blocked[dealer_id]
            for write in blocked.writes:
                self._ready.add(dealer_id, write)
            self._apart -= len(blocked.writes)
            blocked.writes.clear()
            blocked.is_tried = True

    def is_blocked(self, dealer_id: str, since: float = math.inf) -> bool:
        """Whether a dealer is blocked, and was at `since`, a time of `perf_counter`."""
        blocked = self._blocked.get(dealer_id)
        return blocked is not None and blocked.since <= since

    def waited_at(self, dealer_id: str) -> float:
        """When a transaction last waited for a blocked dealer without success; 0 if none did."""
        blocked = self._blocked.get(dealer_id)
        return 0.0 if blocked is None else blocked.waited_at

    def put_back_blocked(
        self, dealer_id: str, writes: Iterable[LeadWrite[Any]], *, waited: bool
    ) -> list[LeadWrite[Any]]:
        """Puts writes of a blocked dealer back. Returns those that are too old: the caller refuses them.

        `waited`: a transaction has waited for the dealer without success.
        """
        with self._changed:
            now = perf_counter()
            waiting = [write for write in (*writes, *self._ready.take_all(dealer_id)) if not write.future.cancelled()]
            blocked = self._blocked.pop(dealer_id, None) or _Blocked(since=now)
            too_old = [write for write in waiting if write.is_too_old(now, blocked.since)]
            blocked.writes.extend(write for write in waiting if not write.is_too_old(now, blocked.since))
            blocked.pause = min(2 * blocked.pause, LONGEST_PAUSE_SECONDS)
            blocked.is_tried = False
            if waited:
                blocked.waited_at = now
            if blocked.writes:
                self._blocked[dealer_id] = blocked
                self._apart += len(blocked.writes)
                heappush(self._retries, (now + blocked.pause, dealer_id))
            return too_old

    def let_in(self, dealer_id: str) -> None:
        """Notes that a dealer is not blocked, or no longer."""
        if dealer_id in self._blocked:
            with self._changed:
                del self._blocked[dealer_id]
