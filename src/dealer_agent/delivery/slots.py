"""Shares the slots of a process among dealers and their receivers. A slot is for one delivery in progress. Pure."""

from collections import deque
from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from dealer_agent.storage.outbox import Address


def share_slots(
    rooms: Mapping[str, Mapping[Address, int]], used: Mapping[str, int], *, total: int, of_dealer: int
) -> dict[str, dict[Address, int]]:
    """How many deliveries may begin at each address, by dealer.

    `rooms` has the most that may begin at each address. `used` has the slots in use, by dealer. Each slot goes to the
    dealer that has the fewest, and of those to the one that comes first in `rooms`. The addresses of a dealer take
    turns in their order.

    A dealer has at most `of_dealer` slots. It gets another only while more are free than it has. So a dealer whose
    receivers hang leaves at least half of `total` to the others, and `n` such dealers that begin at once leave a share
    like theirs.
    """
    free = total - sum(used.values())
    turns = {
        dealer_id: deque((address, room) for address, room in addresses.items() if room > 0)
        for dealer_id, addresses in rooms.items()
    }
    queue = [(used.get(dealer_id, 0), place, dealer_id) for place, dealer_id in enumerate(turns)]
    heapify(queue)
    shares: dict[str, dict[Address, int]] = {}
    while queue:
        has, place, dealer_id = heappop(queue)
        if has >= min(of_dealer, free):
            break  # The others have as many or more.
        if not turns[dealer_id]:
            continue
        address, room = turns[dealer_id].popleft()
        share = shares.setdefault(dealer_id, {})
        share[address] = share.get(address, 0) + 1
        free -= 1
        if room > 1:
            turns[dealer_id].append((address, room - 1))
        heappush(queue, (has + 1, place, dealer_id))
    return shares
