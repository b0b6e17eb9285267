"""A client's socket: it closes so that the client can read its last answer, and aborts for a client that is gone.

The kernel resets a connection that is closed while bytes of the client are unread, and a reset takes the answer away
from the client. So a connection whose client may still be sending closes in steps: the answer is sent, the sending
direction is closed, and what the client still sends is discarded for a bounded time and amount.
"""

import asyncio
from collections.abc import Callable
from typing import Any

DISCARD_BYTES = 16 * 1024 * 1024
"""The most that is read and discarded behind an answer."""
DISCARD_SECONDS = 30.0
"""The longest time that bytes behind an answer are discarded."""
SILENCE_SECONDS = 5.0
"""A client that sends nothing for this long, behind an answer, has stopped sending."""
STALL_SECONDS = 40.0
"""A client that accepts no byte of its answers for this long is gone."""


class ClientTransport(asyncio.Transport):
    """The transport of one connection. `may_send` returns whether the client may still be sending a request."""

    discard_bytes = DISCARD_BYTES
    discard_seconds = DISCARD_SECONDS
    silence_seconds = SILENCE_SECONDS
    stall_seconds = STALL_SECONDS

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, may_send: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._may_send = may_send
        # Whether only what the client still sends keeps the connection open.
        self.half_closed = False
        self._discarded = 0
        self._last_discard = 0.0
        self._discards_until: float | None = None
        self._written = 0
        self._accepted = 0
        self._accepted_at = loop.time()

    def write(self, data: Any) -> None:
        """Sends an answer, or a part of one; a client that is gone gets none."""
        if not (self.half_closed or self._transport.is_closing()):
            self._written += len(data)
            self._transport.write(data)

    def close(self) -> None:
        """Closes after the written bytes are sent."""
        if self.is_closing():
            return
        if self._may_send():
            self.half_closed = True
            self.start_discarding()
            self._transport.write_eof()
            self._transport.resume_reading()
        else:
            self._transport.close()

    def close_now(self) -> None:
        """Closes after the written bytes are sent, and reads nothing more."""
        self._transport.close()

    def abort(self) -> None:
        """Closes at once; what was not sent is lost."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether no answer can be written any more."""
        return self.half_closed or self._transport.is_closing()

    def start_discarding(self) -> None:
        """The request is answered, and the rest of it is discarded: from now on its time and size are bounded."""
        self._discarded, self._last_discard = 0, self._loop.time()
        self._discards_until = self._last_discard + self.discard_seconds

    def discard(self, count: int) -> None:
        """This many bytes arrived and are discarded."""
        if self._discards_until is not None:
            self._discarded += count
            self._last_discard = self._loop.time()
            if self._discarded > self.discard_bytes:
                self.abort()

    def stop_discarding(self) -> None:
        """The discarded request is complete: the connection serves the next one."""
        self._discards_until = None

    def check(self, now: float) -> None:
        """Aborts the connection when its client accepts nothing, or when it discards for too long. Called regularly."""
        unsent = self._transport.get_write_buffer_size()
        accepted = self._written - unsent
        if not unsent or accepted != self._accepted:
            self._accepted, self._accepted_at = accepted, now
        discards_until = self._discards_until
        if now - self._accepted_at >= self.stall_seconds or (
            discards_until is not None
            and not (unsent and self.half_closed)
            and now >= min(discards_until, self._last_discard + self.silence_seconds)
        ):
            self.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As asyncio's."""
        return self._transport.get_extra_info(name, default)

    def fileno(self) -> int:
        """The file descriptor of the socket."""
        number: int = self.get_extra_info("socket").fileno()
        return number

    def get_write_buffer_size(self) -> int:
        """How many bytes wait for the client."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """As asyncio's."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """As asyncio's."""
        self._transport.resume_reading()
