"""Queues the requests of a process, and decides which ones it refuses in an overload.

A turn of the event loop answers requests for a few milliseconds. Requests that arrive after that wait in one queue,
which serves dealers in turn. So every turn also handles new connections, new bytes and health checks.

When the queue is not empty for a while, the process is overloaded. Then it queues a request only if the queue is
short, and refuses all others at once (the rule of CoDel: Nichols and Jacobson, "Controlling Queue Delay").

In an overload, no dealer takes the place of others. For a request, the length of the queue is the number of requests
that are answered before it: for a dealer with few requests, these are few. While a dealer has fewer requests in the
queue than the average of the dealers that have any, its requests may wait twice as long before they are refused. So the
clients of a dealer with too many requests are refused first.

Refusals take time, too. After many refusals, a turn stops reading from each further connection that it refuses, and
later turns read from them again, in order. So clients that repeat refused requests at once cannot use up the process.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter

from dealer_agent.dealers.turns import Turns
from dealer_agent.protocol.errors import RateLimited
from dealer_agent.server.log import count_refusal

TURN_SECONDS = 0.0025
"""How long one turn of the loop answers requests."""
BURST_SECONDS = 0.5
"""The longest queue while the process is not overloaded, as the time to answer it. Leads always have this limit."""
STANDING_SECONDS = 0.0025
"""The longest queue while the process is overloaded. The limit doubles for clients without a recent refusal."""
SHORT_QUEUE = 8
"""A queue with fewer requests is never too long, even if they are slow. The limit doubles for the same clients."""
SHORT_QUEUE_FOR_LEADS = 128
"""`SHORT_QUEUE` for leads. When the system has stopped the process for a moment, the measured pace is too slow. Leads
must not be refused because of that."""
MOST_QUEUED = SHORT_QUEUE_FOR_LEADS // 4
"""While more requests are in the queue, a turn parses one connection that pipelines. Otherwise a crowd of them fills
the queue, and leads on new connections are refused. The requests that one turn parses come on top of it."""
REFUSED_PER_TURN = 192
"""After this many refusals, a turn stops reading from refused connections. A later turn resumes this many of them. It
also reads from so many connections that send more than one read."""
OVERLOADED_AFTER_SECONDS = 0.1
"""The process is overloaded when the queue is not empty for this long."""
CALM_AFTER_SECONDS = 1.0
"""An overload is over when nothing was refused for this long."""
RETRY_AFTER_SECONDS = 1
"""When a refused client may retry. Clients that retry sooner have a shorter limit."""
MOST_IN_PROGRESS = 256
"""How many requests outside the skills may wait for the database at the same time."""

NEVER = float("-inf")
_LONGEST_TURN_SECONDS = 4 * TURN_SECONDS
_DECAY = 0.9
"""The pace is an average over about ten turns."""


def too_busy() -> RateLimited:
    """The refusal of a request in an overload."""
    return RateLimited(RETRY_AFTER_SECONDS, because="The service is busy.")


class Admission:
    """Decides for each request of one process: answer now, queue, or refuse."""

    def __init__(self) -> None:
        self._queue: Turns[Callable[[], None]] = Turns()
        self._stopped: deque[Callable[[], None]] = deque()
        # Connections with bytes that are not parsed yet.
        self._unparsed: deque[Callable[[], None]] = deque()
        self._now = 0.0
        # When the turn began; 0 before its first request. While it is not 0, `_next_turn` is scheduled.
        self._turn_began = 0.0
        self._turn_is_over = False
        # The requests of this turn.
        self._answered = 0
        self._refused_in_turn = 0
        self.refused = 0
        """The requests that were refused since the process started."""
        # How long the last turns took, and how many requests they answered. Older turns count less.
        self._pace_seconds = self._pace_requests = 0.0
        self._queued_since = 0.0
        self._last_refusal = NEVER
        self._in_progress = 0

    def has_time(self) -> bool:
        """Whether a complete request may be answered now. If so, it counts as answered."""
        self._now = now = perf_counter()
        if not self._turn_began:
            # As `_begin_turns`: a call takes longer, and most requests come here.
            self._turn_began, self._answered, self._turn_is_over = now, 1, False
            asyncio.get_running_loop().call_soon(self._next_turn)
            return True
        if self._queue.size or self._turn_is_over or now - self._turn_began > TURN_SECONDS:
            return False
        self._answered += 1
        return True

    def is_full(self, dealer_id: str, refused_at: float = NEVER, *, is_lead: bool = False) -> bool:
        """Whether one more request would wait too long. Call it only after `has_time` has returned False.

        The limits are double for a client that was not refused in the last second (`refused_at`), and double again for
        a dealer with fewer requests in the queue than the average. In an overload, leads may wait longer.
        """
        own, dealers = self._queue.count(dealer_id), self._queue.dealers
        factor = 1 if self._now - refused_at < RETRY_AFTER_SECONDS else 2
        if own * dealers < self._queue.size:
            factor *= 2
        # Dealers take turns, so at most `own + 1` requests of each come before the end of this one.
        waiting = min(self._queue.size, (own + 1) * dealers)
        if waiting < (SHORT_QUEUE_FOR_LEADS if is_lead else SHORT_QUEUE * factor):
            return False
        overloaded = (
            self._now - self._last_refusal < CALM_AFTER_SECONDS
            or self._now - self._queued_since > OVERLOADED_AFTER_SECONDS
        )
        longest = STANDING_SECONDS * factor if overloaded and not is_lead else BURST_SECONDS
        # Whether the time for these requests is longer: waiting * seconds / requests.
        return waiting * self._pace_seconds > longest * self._pace_requests

    def enqueue(self, dealer_id: str, answer: Callable[[], None]) -> None:
        """Adds a request to the queue. `answer` is called when its turn comes."""
        if not self._queue.size:
            self._queued_since = self._now
        self._queue.add(dealer_id, answer)

    def refuse(self) -> float:
        """Counts a refused request, in this turn and in total. Returns the time for the parameter `refused_at`."""
        self._refused_in_turn += 1
        self._last_refusal = self._now
        self.refused += 1
        count_refusal()
        return self._now

    def stops_reading(self, resume: Callable[[], None]) -> bool:
        """Whether a refused connection must stop reading. If so, a later turn calls `resume`."""
        if self._refused_in_turn <= REFUSED_PER_TURN:
            return False
        self._stopped.append(resume)
        return True

    def read_later(self, resume: Callable[[], None]) -> None:
        """Calls `resume` in one of the next turns, so that a turn reads from few connections that send much."""
        self._stopped.append(resume)
        if not self._turn_began:
            self._begin_turns(perf_counter())

    def parse_later(self, parse: Callable[[], None]) -> None:
        """Calls `parse` in one of the next turns, after those of the connections that asked before.

        Call it for bytes that could not be parsed when they arrived, such as those of a connection that pipelines. The
        bytes of other connections are parsed at once, so the requests of these come first.
        """
        self._unparsed.append(parse)
        if not self._turn_began:
            self._begin_turns(perf_counter())

    async def wait_for_turn(self, dealer_id: str, *, is_lead: bool = False) -> None:
        """Waits until a request may be answered; it is the last one of its turn. Raises RateLimited for a long wait.

        `dealer_id` is empty for a request without a dealer.
        """
        if not self.has_time():
            if self.is_full(dealer_id, is_lead=is_lead):
                self.refuse()
                raise too_busy()
            turn = asyncio.get_running_loop().create_future()
            self.enqueue(dealer_id, partial(self._wake, turn))
            await turn
        self._turn_is_over = True

    def __enter__(self) -> None:
        """A block in which a request waits for the database. Raises RateLimited when there are too many."""
        if self._in_progress >= MOST_IN_PROGRESS:
            self.refuse()
            raise too_busy()
        self._in_progress += 1

    def __exit__(self, *_: object) -> None:
        self._in_progress -= 1

    def _wake(self, turn: asyncio.Future[None]) -> None:
        # The task runs after this callback, for an unknown time. So it is the last request of the turn.
        self._turn_is_over = True
        if not turn.done():
            turn.set_result(None)

    def _begin_turns(self, now: float) -> None:
        self._turn_began, self._answered, self._turn_is_over = now, 0, False
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Called by the event loop after a turn: answers queued requests, then parses bytes of other connections."""
        self._refused_in_turn = 0
        if not (self._queue.size or self._stopped or self._unparsed):
            self._turn_began = 0.0
            return
        now = perf_counter()
        if self._queue.size:
            # A turn may be long because the system has run other processes. The next turns need not be.
            self._pace_seconds = self._pace_seconds * _DECAY + min(now - self._turn_began, _LONGEST_TURN_SECONDS)
            self._pace_requests = self._pace_requests * _DECAY + self._answered
        self._begin_turns(now)
        ends = now + TURN_SECONDS
        while self._queue.size and not self._turn_is_over:
            self._answered += 1
            _, answer = self._queue.take()
            answer()
            if perf_counter() > ends:
                break
        for _ in range(len(self._unparsed)):
            self._unparsed.popleft()()
            if self._queue.size > MOST_QUEUED or perf_counter() > ends:
                break
        for _ in range(min(REFUSED_PER_TURN, len(self._stopped))):
            self._stopped.popleft()()
