"""Closes a client's socket so that it can read its last response, and aborts it for a client that is gone.

When a connection closes while bytes of the client are unread, the kernel resets it, and the client loses the response.
So while the client may be sending, a connection closes in steps: it sends the response, closes the sending direction,
and discards what the client still sends, for a bounded time and amount (docs/protocol.md#bounds).
"""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

READ_BYTES = 8 * 1024
"""The most bytes that are read from a connection at a time. libuv itself would read up to 256 KiB. When a client
pipelines requests, the process holds these bytes, and the kernel the others. A request of
the fast path fits into one read."""
DISCARD_BYTES = 64 * 1024
"""The most bytes that are read at a time to be discarded."""

UNREAD_BYTES = 16 * 1024
"""The most bytes of responses that a client may leave unread without being counted for it."""

FLOW, HELD, TURN = 1, 2, 4
"""Why reading pauses: uvicorn's flow control, received bytes that are not parsed yet, or other connections' turns."""


def _returns_false() -> bool:
    return False


class ClientTransport(asyncio.Transport):
    """The transport of one connection.

    `paused` holds the reasons for which reading pauses. `parse_held` is called when HELD is the only one left.
    `may_send` returns whether the client may still be sending a request.
    """

    discard_bytes = 16 * 1024 * 1024
    """The most bytes that are discarded after a response."""
    discard_seconds = 30.0
    """The longest time that bytes are discarded after a response."""
    silence_seconds = 5.0
    """A client that sends nothing for this long after its response has stopped sending."""
    stall_seconds = 40.0
    """A client that receives no byte of its responses for this long is gone."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        may_send: Callable[[], bool],
        parse_held: Callable[[], object],
    ) -> None:
        super().__init__()
        self._transport = transport
        transport.set_write_buffer_limits(UNREAD_BYTES)
        self._loop = loop
        self._may_send = may_send
        self._parse_held = parse_held
        self.paused = 0
        # Whether the sending direction is closed, and all bytes of the client are discarded.
        self.half_closed = False
        # The bytes that were discarded after a response, and when. `_discards_until` is None while none are discarded.
        self._discarded = 0
        self._last_discard = 0.0
        self._discards_until: float | None = None
        # The bytes of responses that were written, those that the client has received, and when it received the last.
        self._written = 0
        self._received = 0
        self._received_at = loop.time()

    def write(self, data: Any) -> None:
        """Sends bytes of a response, unless the connection closes."""
        if not (self.half_closed or self._transport.is_closing()):
            self._written += len(data)
            self._transport.write(data)

    def close(self) -> None:
        """Closes after all written bytes are sent."""
        if self.is_closing():
            return
        if self._may_send():
            self.half_closed = True
            self.start_discarding()
            reader = self._transport.get_protocol()
            if isinstance(reader, Reader):
                reader.buffer = Reader.discarded
            self._transport.write_eof()
            self.paused = 0
            self._transport.resume_reading()
        else:
            self._transport.close()

    def close_now(self) -> None:
        """Closes after all written bytes are sent, and reads nothing more."""
        self._transport.close()

    def abort(self) -> None:
        """Closes at once. Bytes that are not sent are lost."""
        self._transport.abort()

    def give_up(self) -> None:
        """Called when all clients together have left too much unread, this one for the longest time."""
        self.abort()

    def forget_connection(self) -> None:
        """Forgets the functions of the connection, which is lost. Without a reference cycle, it is freed at once."""
        self._may_send, self._parse_held = _returns_false, _returns_false

    def is_closing(self) -> bool:
        """Whether no response can be sent any more."""
        return self.half_closed or self._transport.is_closing()

    def start_discarding(self) -> None:
        """Starts to limit, by bytes and by time, what is read of a request that is already answered."""
        self._discarded, self._last_discard = 0, self._loop.time()
        self._discards_until = self._last_discard + self.discard_seconds

    def discard(self, count: int) -> None:
        """Counts discarded bytes. Aborts the connection when there are too many."""
        if self._discards_until is not None:
            self._discarded += count
            self._last_discard = self._loop.time()
            if self._discarded > self.discard_bytes:
                self.abort()

    def stop_discarding(self) -> None:
        """Ends the limit of `start_discarding`, because the request is complete. The connection serves the next one."""
        self._discards_until = None

    def abort_if_stalled(self, now: float) -> None:
        """Aborts the connection if its client receives nothing, or if bytes were discarded for too long."""
        unsent = self._transport.get_write_buffer_size()
        received = self._written - unsent
        if not unsent or received != self._received:
            self._received, self._received_at = received, now
        discards_until = self._discards_until
        if now - self._received_at >= self.stall_seconds or (
            discards_until is not None
            and not (unsent and self.half_closed)
            and now >= min(discards_until, self._last_discard + self.silence_seconds)
        ):
            self.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Like the method of asyncio."""
        return self._transport.get_extra_info(name, default)

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        number: int = self.get_extra_info("socket").fileno()
        return number

    def get_write_buffer_size(self) -> int:
        """How many written bytes are not sent yet."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self, reason: int = FLOW) -> None:
        """Stops reading for a reason."""
        if self._transport.is_closing():
            return
        if not self.paused:
            self._transport.pause_reading()
        self.paused |= reason

    def resume_reading(self, reason: int = FLOW) -> None:
        """Removes a reason, and reads again if there is no other."""
        if self.paused & reason and not self._transport.is_closing():
            self.paused &= ~reason
            if not self.paused:
                self._transport.resume_reading()
            elif self.paused == HELD:
                self._parse_held()


class Reader(asyncio.BufferedProtocol):
    """Passes to a connection what its client sends, at most READ_BYTES at a time."""

    # All connections share them, because each read is passed on before the next one.
    discarded = memoryview(bytearray(DISCARD_BYTES))
    _kept = discarded[:READ_BYTES]

    __slots__ = ("_receive", "buffer", "connection")

    def __init__(self, connection: HttpToolsProtocol) -> None:
        self.connection = connection
        self._receive = connection.data_received
        self.buffer = self._kept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.connection.connection_made(transport)  # type: ignore[arg-type]  # A stream has such a transport.

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self.connection.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as asyncio calls it.
        """Called by the event loop before it reads."""
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the event loop after it has read."""
        self._receive(bytes(self.buffer[:nbytes]))

    def eof_received(self) -> bool | None:
        """Called by the event loop."""
        kept: bool | None = self.connection.eof_received()  # type: ignore[func-returns-value]  # uvicorn's own.
        return kept

    def pause_writing(self) -> None:
        """Called by the event loop."""
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        """Called by the event loop."""
        self.connection.resume_writing()
