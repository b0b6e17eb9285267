"""One client's connection: how large the head of a request may be, how long a client may take to send it, and how what
is no HTTP is refused.

uvicorn bounds neither: whoever sends header lines or trailers without end would fill the memory, and whoever opens
connections and stays silent would use up the process's file descriptors. Bodies have limits of their own in
`server.body`.
"""

import asyncio

from dealer_agent.protocol.errors import SchemaValidationFailed
from dealer_agent.server.at_once import SERVICE, AnsweringConnection
from dealer_agent.server.routes import error_response


class BoundedConnection(AnsweringConnection):
    """A connection that is closed when a request's head is too large or too slow."""

    head_limit_bytes = 64 * 1024
    """Of all that is no body: the request line, headers, the frames of chunks, trailers; give or take what arrives at
    once."""
    head_seconds = 20.0
    """From the connection, or from the first byte of a later request, until the head is whole."""

    _head_open = False
    _other_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """A client is there: the clock runs."""
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a head, of a body, or of several requests."""
        self._other_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._other_bytes > self.head_limit_bytes:
            if self._head_open:
                self.send_400_response("The head of the request is too large.")
            else:
                # The request is being answered already, or would be if its trailers had an end.
                self.transport.close()
        elif self._head_timer is None and not self._is_answering() and self.timeout_keep_alive_task is None:
            # The usual head arrives at once and is being answered by now: it costs no timer.
            self._start_head_timer()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP in the envelope of every other error (contract, part 3), and closes."""
        service = self.app_state.get(SERVICE)
        if service is None:
            # The application has no service, and so no vocabulary to speak.
            super().send_400_response(msg)
            return
        error = SchemaValidationFailed(msg, {"in": "envelope"}, http=400, headers=(("connection", "close"),))
        response = error_response(error, service)
        head = b"".join(b"%s: %s\r\n" % header for header in response.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + bytes(response.body))
        self.transport.close()

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._head_open, self._other_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._head_open = False
        self._stop_head_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Bodies have limits of their own."""
        self._other_bytes -= len(body)
        super().on_body(body)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_answering():
            # An earlier request of the same connection still waits for its answer.
            self._start_head_timer()
        elif not self.transport.is_closing():
            self.transport.close()
