"""How many deliveries may begin at each receiver. A slot is for one delivery in progress. Pure.

Dealers and their receivers share the slots of a process. The circuit breaker of a channel makes it pause.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from dealer_agent.storage.deliveries.outbox import Receiver


def share_slots(
    capacities: Mapping[str, Mapping[Receiver, int]], used: Mapping[str, int], *, total: int, of_dealer: int
) -> dict[str, dict[Receiver, int]]:
    """How many deliveries may begin at each receiver, by dealer.

    `capacities` has the most that may begin at each receiver. `used` has the slots in use, by dealer. Each slot goes to
    the dealer that has the fewest, and of those to the one that comes first in `capacities`. The receivers of a dealer
    take turns in their order.

    A dealer has at most `of_dealer` slots. It gets another only while more are free than it has. So a dealer whose
    receivers hang leaves at least half of `total` to the others, and `n` such dealers that begin at once leave a share
    like theirs.
    """
    free = total - sum(used.values())
    turns = {
        dealer_id: deque((receiver, capacity) for receiver, capacity in receivers.items() if capacity > 0)
        for dealer_id, receivers in capacities.items()
    }
    queue = [(used.get(dealer_id, 0), position, dealer_id) for position, dealer_id in enumerate(turns)]
    heapify(queue)
    shares: dict[str, dict[Receiver, int]] = {}
    while queue:
        has, position, dealer_id = heappop(queue)
        if has >= min(of_dealer, free):
            break  # The others have as many or more.
        if not turns[dealer_id]:
            continue
        receiver, capacity = turns[dealer_id].popleft()
        share = shares.setdefault(dealer_id, {})
        share[receiver] = share.get(receiver, 0) + 1
        free -= 1
        if capacity > 1:
            turns[dealer_id].append((receiver, capacity - 1))
        heappush(queue, (has + 1, position, dealer_id))
    return shares


@dataclass(slots=True)
class Breaker:
    """The circuit breaker of a channel: it is open after repeated failures, which first cause a pause."""

    failures_allowed: int
    pause_seconds: float
    failures: int = 0
    paused_until: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the channel has failed `failures_allowed` times in a row."""
        return self.failures >= self.failures_allowed

    def capacity(self, now: float, in_progress: int, at_once: int) -> int:
        """How many more deliveries may begin. `now` is in seconds, on the same clock as in `failed`."""
        if now < self.paused_until:
            return 0
        return max(0, (1 if self.is_open else at_once) - in_progress)

    def succeeded(self) -> None:
        """Records a success, or a failure that is not the channel's. Ends the pause."""
        self.failures = 0
        self.paused_until = 0.0

    def failed(self, now: float, asked_to_wait: float = 0.0) -> None:
        """Records a failure of the channel. `asked_to_wait` is the receiver's `Retry-After` in seconds."""
        self.failures += 1
        pause = max(asked_to_wait, self.pause_seconds if self.is_open else 0.0)
        self.paused_until = max(self.paused_until, now + pause)
