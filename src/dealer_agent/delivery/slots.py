"""Shares the slots of a process among dealers and their receivers. A slot is for one delivery in progress. Pure."""

from collections import deque
from collections.abc import Mapping
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
    queue = [(used.get(dealer_id, 0), place, dealer_id) for place, dealer_id in enumerate(turns)]
    heapify(queue)
    shares: dict[str, dict[Receiver, int]] = {}
    while queue:
        has, place, dealer_id = heappop(queue)
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
        heappush(queue, (has + 1, place, dealer_id))
    return shares
