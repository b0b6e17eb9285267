"""The open connections of one process: their limits, and which of them are closed.

Every connection is an open file, and a process that has no free file descriptor can neither accept a client nor store a
lead. So the number of connections has a limit below that of file descriptors, and each client address has its own.
At a limit the connection that is idle longest is closed for a new one.
"""

import asyncio
import resource
import select
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice, takewhile

from dealer_agent.server.client_transport import ClientTransport

RESERVED_FILES = 240
"""File descriptors for the database, outgoing connections, feeds and other files. At most half of all."""
MOST_REFUSED = 16
"""The most refused connections that stay open at the same time, so that the client can read its refusal."""
SWEEP_SECONDS = 5.0
MOST_ASKED = 64
"""So many idle connections are looked at to find one that can make room."""


def connection_limit(wanted: int) -> int:
    """How many connections the process may have: `wanted`, or fewer where the limit of open files demands it."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return min(wanted, files - min(RESERVED_FILES, files // 2))


class OpenConnections:
    """Admits connections, at most `most` and `most_per_address`, and closes those that are idle or stalled too long."""

    sweep_seconds = SWEEP_SECONDS

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, most: int, most_per_address: int, keep_alive_seconds: float
    ) -> None:
        self._loop = loop
        self._most = most
        self._most_per_address = most_per_address
        self._keep_alive_seconds = keep_alive_seconds
        # Each with the address that it counts for; None for an address without a limit.
        self._open: dict[ClientTransport, str | None] = {}
        self._by_address: dict[str, set[ClientTransport]] = {}
        # Those without a request, and since when; the one that is idle longest comes first.
        self._idle: dict[ClientTransport, float] = {}
        self._refused: OrderedDict[ClientTransport, None] = OrderedDict()
        self._sweeps = False

    def admit(self, client: ClientTransport, address: str | None) -> bool:
        """Counts a new connection; False when a limit is reached and no idle connection can make room."""
        if not self._sweeps:
            self._sweeps = True
            self._loop.call_later(self.sweep_seconds, self._sweep)
        if not self._make_room(address):
            self._refused[client] = None
            if len(self._refused) > MOST_REFUSED:
                oldest, _ = self._refused.popitem(last=False)
                oldest.abort()
            return False
        self._open[client] = address
        if address is not None:
            self._by_address.setdefault(address, set()).add(client)
        self.idle(client)
        return True

    def forget(self, client: ClientTransport) -> None:
        """The connection is closed."""
        self._refused.pop(client, None)
        self._idle.pop(client, None)
        address = self._open.pop(client, None)
        if address is not None:
            same = self._by_address[address]
            same.discard(client)
            if not same:
                del self._by_address[address]

    def idle(self, client: ClientTransport) -> None:
        """The connection waits for a request, unless it is closed already."""
        if client in self._open:
            self._idle[client] = self._loop.time()

    def busy(self, client: ClientTransport) -> None:
        """A request begins."""
        self._idle.pop(client, None)

    def _make_room(self, address: str | None) -> bool:
        if address is not None:
            same = self._by_address.get(address, ())
            if len(same) >= self._most_per_address:
                idle = [client for client in same if client in self._idle]
                if not self._evict_one(sorted(idle, key=self._idle.__getitem__)):
                    return False
        return len(self._open) < self._most or self._evict_one(self._idle)

    def _evict_one(self, idle: Iterable[ClientTransport]) -> bool:
        """Closes the first of these that has sent nothing since the loop last looked; False where there is none.

        Many connections are accepted in one turn of the loop. The request of one that was accepted just now may wait in
        the kernel.
        """
        candidates = list(islice(idle, MOST_ASKED))
        asked = select.poll()
        for client in candidates:
            asked.register(client.fileno(), select.POLLIN)
        sending = {file for file, _ in asked.poll(0)}
        for client in candidates:
            if client.fileno() not in sending:
                # Not `close`, which waits until the client has accepted every byte.
                client.abort()
                self.forget(client)
                return True
        return False

    def _sweep(self) -> None:
        now = self._loop.time()
        before = now - self._keep_alive_seconds
        for client in list(takewhile(lambda client: self._idle[client] <= before, self._idle)):
            del self._idle[client]
            client.close()
        for client in (*self._open, *self._refused):
            client.check(now)
        self._sweeps = bool(self._open or self._refused)
        if self._sweeps:
            self._loop.call_later(self.sweep_seconds, self._sweep)
