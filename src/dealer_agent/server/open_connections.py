"""Limits the open connections of one process, and decides which of them are closed (docs/protocol.md#bounds).

Every connection is an open file. Without a free file descriptor, a process can neither accept a client nor store a
lead. So the limit of connections is below that of file descriptors, and each client's IP address has its own. At a
limit, the connection that is idle longest is closed for a new one.
"""

import asyncio
import resource
import select
from collections.abc import Iterable
from itertools import islice, takewhile

from dealer_agent.server.client_transport import UNREAD_BYTES, ClientTransport
from dealer_agent.server.request_memory import HeldBytes

RESERVED_FILES = 240
"""File descriptors for the database, outgoing connections, feeds and other files. At most half of all."""
MOST_REFUSED = 16
"""How many refused connections stay open, so that their clients can read the refusal."""
MOST_POLLED = 64
"""How many idle connections are polled to find one to close."""


def connection_limit(wanted: int) -> int:
    """How many connections the process may have: `wanted`, or fewer if the limit of open files is low."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files == resource.RLIM_INFINITY else min(wanted, files - min(RESERVED_FILES, files // 2))


class OpenConnections:
    """Admits up to `most` connections, and up to `most_per_address` of one IP address.

    Closes those that are idle longer than `keep_alive_seconds`, or stalled too long.

    `memory` counts the bytes of requests, and `unread_responses` those of responses that clients have not read.
    """

    sweep_seconds = 5.0

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        most: int,
        most_per_address: int,
        keep_alive_seconds: float,
        memory: HeldBytes,
        unread_responses: HeldBytes,
    ) -> None:
        self.memory = memory
        self._unread_responses = unread_responses
        self._loop = loop
        self._most = most
        self._most_per_address = most_per_address
        self._keep_alive_seconds = keep_alive_seconds
        # Each connection with the IP address by which it is counted; None without a limit.
        self._open: dict[ClientTransport, str | None] = {}
        self._by_address: dict[str, set[ClientTransport]] = {}
        # Connections without a request, with the time since when. The one that is idle longest comes first.
        self._idle: dict[ClientTransport, float] = {}
        # Refused connections, oldest first: they stay open until their clients have read the refusal.
        self._refused: dict[ClientTransport, None] = {}
        self._is_sweeping = False
        self.are_stopping = False
        """Whether the server stops. A response that waits for something then ends at once."""

    def __len__(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def admit(self, client: ClientTransport, address: str | None) -> bool:
        """Counts a new connection. False when a limit is reached and no idle connection can be closed."""
        if not self._is_sweeping:
            self._is_sweeping = True
            self._loop.call_later(self.sweep_seconds, self._sweep)
        if not self._make_room(address):
            self._refused[client] = None
            if len(self._refused) > MOST_REFUSED:
                oldest = next(iter(self._refused))
                del self._refused[oldest]
                oldest.abort()
            return False
        self._open[client] = address
        if address is not None:
            self._by_address.setdefault(address, set()).add(client)
        self.set_idle(client)
        return True

    def remove(self, client: ClientTransport) -> None:
        """Removes a closed connection."""
        self._unread_responses.release(client)
        self._refused.pop(client, None)
        self._idle.pop(client, None)
        address = self._open.pop(client, None)
        if address is not None:
            self._by_address[address].discard(client)
            if not self._by_address[address]:
                del self._by_address[address]

    def set_idle(self, client: ClientTransport) -> None:
        """Marks a connection, if it is open, as one without a request."""
        if client in self._open:
            self._idle[client] = self._loop.time()

    def set_busy(self, client: ClientTransport) -> None:
        """Marks a connection as one with a request."""
        self._idle.pop(client, None)

    def count_unread(self, client: ClientTransport) -> None:
        """Counts the bytes that the client has not read, if they are more than UNREAD_BYTES.

        Called when a client begins to leave too many, and when it has read them. If all clients together leave too
        much, the one that has left it longest is aborted.
        """
        unread = client.get_write_buffer_size()
        counted = unread if unread > UNREAD_BYTES else 0
        if not self._unread_responses.hold(client, counted, None, is_unfinished=True):
            client.give_up()

    def _make_room(self, address: str | None) -> bool:
        """Whether there is room for a connection from this address. It may close the one that is idle for longest."""
        same = self._by_address.get(address, ()) if address is not None else ()
        if len(same) >= self._most_per_address:
            idle = [client for client in same if client in self._idle]
            if not self._close_one(sorted(idle, key=self._idle.__getitem__)):
                return False
        return len(self._open) < self._most or self._close_one(self._idle)

    def _close_one(self, idle: Iterable[ClientTransport]) -> bool:
        """Closes the first of these with no unread bytes in the kernel: the loop accepts connections before it reads
        their requests. False if there is none."""
        candidates = list(islice(idle, MOST_POLLED))
        poll = select.poll()
        for client in candidates:
            poll.register(client.fileno(), select.POLLIN)
        sending = {file for file, _ in poll.poll(0)}
        for client in candidates:
            if client.fileno() not in sending:
                # `close` would wait until the client has received every byte.
                client.abort()
                self.remove(client)
                return True
        return False

    def _sweep(self) -> None:
        """Every few seconds: closes connections that were idle too long, aborts stalled ones, and frees memory."""
        now = self._loop.time()
        before = now - self._keep_alive_seconds
        for client in list(takewhile(lambda client: self._idle[client] <= before, self._idle)):
            del self._idle[client]
            client.close()
        for client in (*self._open, *self._refused):
            client.abort_if_stalled(now)
        for memory in (self.memory, self._unread_responses):
            memory.return_unused(len(self._open))
        self._is_sweeping = bool(self._open or self._refused)
        if self._is_sweeping:
            self._loop.call_later(self.sweep_seconds, self._sweep)
