"""The queue of requests in one process, and the rule by which an overloaded process refuses them.

A turn of the event loop answers requests for a few milliseconds. What arrives after that waits in one queue, first in,
first out, so that every turn sees new connections, new bytes and health checks. When the queue does not become empty
for a while, the process is overloaded. It then queues a request only if the queue is short, and refuses all others at
once. The rule is that of CoDel (Nichols and Jacobson, "Controlling Queue Delay"), applied when a request arrives.

Refusals take time, too. A turn that has refused many stops reading from further connections that it refuses, and later
turns read from them again, in order. So clients that repeat a refused request at once cannot use up the process.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter

import structlog

from dealer_agent.protocol.errors import RateLimited

log = structlog.get_logger()

TURN_SECONDS = 0.0025
"""For how long one turn of the loop answers requests."""
BURST_SECONDS = 0.5
"""The longest queue, as the time to answer it, while the process is not overloaded. For leads it is always this."""
STANDING_SECONDS = 0.0025
"""The longest queue while the process is overloaded. Twice as long for a client that was not refused a moment ago."""
SHORT_QUEUE = 8
"""A queue with fewer requests is never too long, even if they are slow. Twice as many for the same clients."""
REFUSED_PER_TURN = 192
"""After this many refusals a turn stops reading from further refused connections. A later turn reads again from this
many of them."""
SHORT_QUEUE_FOR_LEADS = 128
"""The same for leads. A process that the machine has stopped for a moment measures a pace that is too slow, and must
not refuse a customer for it."""
OVERLOADED_AFTER_SECONDS = 0.1
"""The process is overloaded when the queue is not empty for this long."""
CALM_AFTER_SECONDS = 1.0
"""An overload is over when nothing was refused for this long."""
RETRY_AFTER_SECONDS = 1
"""When a refused client may retry. A client that retries sooner has less room in the queue."""
REPORT_SECONDS = 10.0
"""Refusals are counted, and logged in one line this long after the first."""
MOST_IN_PROGRESS = 256
"""The most requests of one process, other than those of the skills, that wait for the database at the same time."""

NEVER = float("-inf")
LONG_TURN_SECONDS = 4 * TURN_SECONDS
_KEPT = 0.9
"""The pace is an average over about ten turns."""


def too_busy() -> RateLimited:
    """The refusal of a request for which the process has no time."""
    return RateLimited(RETRY_AFTER_SECONDS, because="The service is busy.")


class Admission:
    """The requests of one process: those that wait for their turn, and how many were refused."""

    def __init__(self) -> None:
        self.refused = 0
        self._queue: deque[Callable[[], None]] = deque()
        self._stopped: deque[Callable[[], None]] = deque()
        self._now = 0.0
        # When the turn began; 0 before its first request. While it is not 0, `_next_turn` is scheduled.
        self._turn_began = 0.0
        self._turn_is_over = False
        self._answered = 0
        self._refused_now = 0
        # What the last turns took, and how many requests they answered. Older turns count for less.
        self._pace_seconds = self._pace_requests = 0.0
        self._queued_since = 0.0
        self._last_refusal = NEVER
        self._in_progress = 0
        self._reported = 0

    def has_time(self) -> bool:
        """Whether a request that is complete may be answered at once; it counts as answered then."""
        self._now = now = perf_counter()
        if not self._turn_began:
            self._turn_began, self._answered, self._turn_is_over = now, 1, False
            asyncio.get_running_loop().call_soon(self._next_turn)
            return True
        if self._queue or self._turn_is_over or now - self._turn_began > TURN_SECONDS:
            return False
        self._answered += 1
        return True

    def is_full(self, refused_at: float = NEVER, *, patient: bool = False) -> bool:
        """Whether one more request would wait too long. Asked after `has_time` has said no.

        `refused_at` is the time of its client's last refusal. `patient` requests are leads. They may wait longer in an
        overload.
        """
        waiting = len(self._queue)
        room = 1 if self._now - refused_at < RETRY_AFTER_SECONDS else 2
        if waiting < (SHORT_QUEUE_FOR_LEADS if patient else SHORT_QUEUE * room):
            return False
        overloaded = (
            self._now - self._last_refusal < CALM_AFTER_SECONDS
            or self._now - self._queued_since > OVERLOADED_AFTER_SECONDS
        )
        longest = STANDING_SECONDS * room if overloaded and not patient else BURST_SECONDS
        return waiting * self._pace_seconds > longest * self._pace_requests

    def wait(self, answer: Callable[[], None]) -> None:
        """Puts a request at the end of the queue; `answer` is called when it is its turn."""
        if not self._queue:
            self._queued_since = self._now
        self._queue.append(answer)

    def refuse(self) -> float:
        """Counts a request that is refused because the process is busy. Returns the time, for `is_full`."""
        self.refused += 1
        self._refused_now += 1
        self._last_refusal = self._now
        if self.refused == self._reported + 1:
            asyncio.get_running_loop().call_later(REPORT_SECONDS, self._report)
        return self._now

    def stops_reading(self, read_again: Callable[[], None]) -> bool:
        """Whether a connection that was refused must stop reading. If so, `read_again` is called in a later turn."""
        if self._refused_now <= REFUSED_PER_TURN:
            return False
        self._stopped.append(read_again)
        return True

    async def turn(self, *, patient: bool = False) -> None:
        """Waits until a request may be answered. Raises RateLimited when it would wait too long.

        The caller may then take long, so no other request is answered in the same turn of the loop.
        """
        if not self.has_time():
            if self.is_full(patient=patient):
                self.refuse()
                raise too_busy()
            turn = asyncio.get_running_loop().create_future()
            self.wait(partial(self._wake, turn))
            await turn
        self._turn_is_over = True

    def __enter__(self) -> None:
        """A request waits for the database. Raises RateLimited when too many do."""
        if self._in_progress >= MOST_IN_PROGRESS:
            self.refuse()
            raise too_busy()
        self._in_progress += 1

    def __exit__(self, *_: object) -> None:
        self._in_progress -= 1

    def _wake(self, turn: asyncio.Future[None]) -> None:
        # The task runs after this callback and takes an unknown time. So it is the last request of the turn.
        self._turn_is_over = True
        if not turn.done():
            turn.set_result(None)

    def _next_turn(self) -> None:
        self._refused_now = 0
        if not self._queue and not self._stopped:
            self._turn_began = 0.0
            return
        now = perf_counter()
        if self._queue:
            # A turn may be long because the system ran other processes. The next turns need not be.
            self._pace_seconds = self._pace_seconds * _KEPT + min(now - self._turn_began, LONG_TURN_SECONDS)
            self._pace_requests = self._pace_requests * _KEPT + self._answered
        self._turn_began, self._answered, self._turn_is_over = now, 0, False
        asyncio.get_running_loop().call_soon(self._next_turn)
        ends = now + TURN_SECONDS
        while self._queue and not self._turn_is_over:
            self._answered += 1
            self._queue.popleft()()
            if perf_counter() > ends:
                break
        for _ in range(min(REFUSED_PER_TURN, len(self._stopped))):
            self._stopped.popleft()()

    def _report(self) -> None:
        log.warning("requests refused, the service is busy", requests=self.refused - self._reported)
        self._reported = self.refused
