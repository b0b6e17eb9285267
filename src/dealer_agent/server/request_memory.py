"""The bytes of requests that a process holds: one budget, and a share of it for each client
(docs/protocol.md#request-memory). Another budget is for the responses that clients do not read. Each is a `HeldBytes`.

A connection holds bytes while a request is incomplete, and while requests wait. Each such limit is small, but thousands
of connections together are not. If the budget is used up, the unfinished request that began first is given up: slow
senders lose their place before a client whose request arrives at once.
"""

import ctypes
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from dealer_agent.config.settings import ServiceSettings
from dealer_agent.protocol.errors import RateLimited

RETRY_SECONDS = 5
"""When a client may retry whose request found no free connection or memory."""
CONNECTION_BYTES = 5 * 1024
"""What an open connection takes that holds nothing."""
RETURNED_BYTES = 8 * 1024 * 1024
"""When the process holds so many bytes less than before, it returns memory to the system."""
MOST_UNKNOWN = 32
"""How many bodies may be larger than those of reading skills before their `type` has arrived."""
UNKNOWN_PER_CLIENT = 4
"""How many of them each client may have."""


def no_memory() -> RateLimited:
    """The refusal of a request for whose bytes there is no room. The connection closes."""
    return RateLimited(RETRY_SECONDS, because="The service holds too many unfinished requests.", closes=True)


def memory_of(settings: ServiceSettings) -> "HeldBytes":
    """The budget and the share of the settings."""
    return HeldBytes(
        settings.request_memory_mib << 20,
        settings.request_memory_mib_per_address << 20,
        settings.max_connections_per_address,
    )


def unread_memory_of(settings: ServiceSettings) -> "HeldBytes":
    """The budget for responses that clients do not read. Clients have no share: a fast one may ask for much at once."""
    most = settings.request_memory_mib << 20
    return HeldBytes(most, most)


class Holder(Protocol):
    """A connection that holds bytes of requests, or of responses."""

    def give_up(self) -> None:
        """Refuses the unfinished request of the connection, or aborts it, and forgets its bytes."""


class HeldBytes:
    """Counts the bytes that connections hold: at most `most`, and `most_per_client` for each client.

    A client has at most `most_requests` unfinished requests. Without this limit, one client of a trusted proxy could
    use up the connections of the process with requests that take no memory.
    `held` is the number of bytes now. `refused` counts the requests for which there was no room, and those that were
    given up for others.
    """

    def __init__(self, most: int, most_per_client: int, most_requests: int = sys.maxsize) -> None:
        self.held = self.refused = 0
        self._most = most
        self._most_per_client = most_per_client
        self._most_requests = most_requests
        # By connection: its client, and the bytes that it holds.
        self._sizes: dict[Holder, tuple[str | None, int]] = {}
        # By client, the bytes of all its connections.
        self._of_clients: dict[str, int] = {}
        # The clients of unfinished requests, and how many each has.
        self._clients: dict[Holder, str] = {}
        self._requests: Counter[str] = Counter()
        # The unfinished requests, which may be given up. The one that began first comes first. An OrderedDict, because
        # a dict finds its first key slowly after many others were deleted.
        self._unfinished: OrderedDict[Holder, None] = OrderedDict()
        # By client, the number of bodies whose type has not arrived.
        self._unknown: Counter[str] = Counter()
        # The most bytes that were held since memory was returned.
        self._peak = 0
        # The GNU C library has this function. Other libraries return memory by themselves.
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def hold(self, holder: Holder, size: int, client: str | None, *, is_unfinished: bool) -> bool:
        """Sets how many bytes a connection holds. False if there is no room; then it must forget them.

        `client` has a share; None has none. Only what is unfinished may be given up later.
        """
        self._subtract(holder)
        if not size or not self._make_room(holder, size, client, is_unfinished=is_unfinished):
            self._unfinished.pop(holder, None)
            return not size
        self._sizes[holder] = client, size
        self.held += size
        self._peak = max(self._peak, self.held)
        if client is not None:
            self._of_clients[client] = self._of_clients.get(client, 0) + size
        if is_unfinished:
            self._unfinished.setdefault(holder)
            if client is not None:
                self._clients[holder] = client
                self._requests[client] += 1
        else:
            self._unfinished.pop(holder, None)
        return True

    def release(self, holder: Holder) -> None:
        """Forgets a connection."""
        self._subtract(holder)
        self._unfinished.pop(holder, None)

    def return_unused(self, connections: int) -> None:
        """Returns memory to the system after much less is held than before. Call it every few seconds.

        `connections` is the number of open connections. The C library keeps the memory of large objects that lie
        between others. For 64 MiB, this takes about 10 ms.
        """
        held = self.held + connections * CONNECTION_BYTES
        self._peak = max(self._peak, held)
        if self._trim is not None and self._peak - held >= RETURNED_BYTES:
            self._trim(0)
            self._peak = held

    @contextmanager
    def of_unknown_type(self, client: str | None) -> Iterator[None]:
        """A block in which a large body of unknown type arrives. Raises RateLimited when there are too many.

        `client` has a share; None has none.
        """
        name = client or ""
        share = MOST_UNKNOWN if client is None else UNKNOWN_PER_CLIENT
        if self._unknown.total() >= MOST_UNKNOWN or self._unknown[name] >= share:
            self.refused += 1
            raise no_memory()
        self._unknown[name] += 1
        try:
            yield
        finally:
            _subtract_from(self._unknown, name, 1)

    def _make_room(self, holder: Holder, size: int, client: str | None, *, is_unfinished: bool) -> bool:
        """Gives up the oldest unfinished requests until `size` more bytes may be held. False if they may not."""
        if client is not None and (
            self._of_clients.get(client, 0) + size > self._most_per_client
            or (is_unfinished and self._requests[client] >= self._most_requests)
        ):
            self.refused += 1
            return False
        while self.held + size > self._most:
            self.refused += 1
            oldest = next(iter(self._unfinished), holder)
            if oldest is holder:
                return False
            self.release(oldest)
            oldest.give_up()
        return True

    def _subtract(self, holder: Holder) -> None:
        """Forgets the bytes of a connection, and those of its client."""
        unfinished = self._clients.pop(holder, None)
        if unfinished is not None:
            _subtract_from(self._requests, unfinished, 1)
        client, size = self._sizes.pop(holder, (None, 0))
        self.held -= size
        if client is not None:
            _subtract_from(self._of_clients, client, size)


def _subtract_from(numbers: dict[str, int], key: str, number: int) -> None:
    """Subtracts from a number, and forgets it at 0: strangers choose the keys."""
    left = numbers[key] - number
    if left:
        numbers[key] = left
    else:
        del numbers[key]
