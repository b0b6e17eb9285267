"""Makes the event loop of a process, which accepts many connections in each turn.

libuv accepts one in each turn. In a busy process, a new client would wait a long turn for each client before it.
"""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dealer_agent.server.client_transport import Reader

log = structlog.get_logger()

ACCEPTED_PER_TURN = 64
"""Each costs about a tenth of a millisecond. More would delay the connected clients."""
PAUSE_SECONDS = 0.2
"""How long accepting pauses when the process or the system has no file descriptor or memory left."""

RECEIVE_BYTES = 32 * 1024
"""The receive buffer of a connection. The kernel doubles it."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class AcceptingLoop(uvloop.Loop):
    """uvloop, except that a server on a listening socket is an `Acceptor`."""

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """Like the method of asyncio. uvicorn passes a socket, and no TLS."""
        listener = options.get("sock")
        if listener is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, host, port, **options)
        return Acceptor(self, listener, protocol_factory)


class Acceptor:
    """Accepts connections from a listening socket, which worker processes may share."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, factory: Callable[[], HttpToolsProtocol]
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._factory = factory
        self._closed = False
        # The end of a pause of accepting; None while connections are accepted.
        self._resume: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        # Accepted connections inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Stops accepting, after all clients that have connected already. The owner of the socket closes it."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._listener)
        if self._resume is None:
            # The kernel resets connections that nobody has accepted when the socket closes.
            while self._accept():
                pass
        if self._resume is not None:
            self._resume.cancel()

    async def wait_closed(self) -> None:
        """Waits until the last accepted connections are set up."""
        await asyncio.gather(*self._connecting)

    def _accept(self) -> bool:
        """Accepts the next clients. True if there may be more."""
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, _ = self._listener.accept()
            except BlockingIOError:
                return False
            except OSError as problem:
                if problem.errno in _EXHAUSTED:
                    self._pause(problem)
                    return False
                # accept(2) reports an error of this client or its network. The next client may have none.
                continue
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        return True

    async def _connect(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # The client has closed its connection already.
            _, reader = await self._loop.connect_accepted_socket(lambda: Reader(self._factory()), accepted)
            if self._closed:
                # The server has shut down the other connections before this one was set up.
                reader.connection.shutdown()

    def _pause(self, problem: OSError) -> None:
        """Pauses accepting. Otherwise the kernel would report the client in every turn, and the loop would spin."""
        log.warning("new connections wait", problem=problem.strerror, most_lines=1)
        self._loop.remove_reader(self._listener)
        self._resume = self._loop.call_later(PAUSE_SECONDS, self._accept_again)

    def _accept_again(self) -> None:
        self._resume = None
        self._loop.add_reader(self._listener, self._accept)
