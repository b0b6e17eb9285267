"""What a connection adds to uvicorn's path over ASGI: it counts the bytes of its requests, closes after a refusal if
its client pipelines, and answers errors of HTTP in the form of the protocol."""

from functools import partial
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.server.client_address import Networks, share_address
from dealer_agent.server.error_replies import error_response
from dealer_agent.server.fast_path import NOTHING, UNCOUNTED_BYTES, FastPathConnection
from dealer_agent.server.request_memory import RequestMemory, no_memory

HEADER_BYTES = 160
"""What a header field takes besides its name and its value."""
REQUEST_BYTES = 12 * 1024
"""What a request takes besides its body while the application reads it: a task with a stack of coroutines."""


class CountedConnection(FastPathConnection):
    """A connection whose bytes are counted. `BoundedConnection` calls its methods."""

    __slots__ = (
        "_address",
        "_counted_bytes",
        "_has_no_memory",
        "_head_open",
        "_is_leaving",
        "_line",
        "_memory",
        "_message_open",
        "_other_bytes",
        "_trusted",
    )

    _address: str | None
    _memory: RequestMemory
    _trusted: Networks

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Whether a request, or its head, has begun and is not complete.
        self._message_open = self._head_open = False
        # The bytes of the open request outside its body.
        self._other_bytes = 0
        # The bytes since the last complete head, while a request line is incomplete.
        self._line = b""
        # Whether the request in progress is the last one, because the client pipelines too much.
        self._is_leaving = False
        # The bytes that were counted last.
        self._counted_bytes = 0
        # Whether there was no memory for the request that the application reads.
        self._has_no_memory = False

    def give_up(self) -> None:
        """Called when there is no memory for the unfinished request of the connection."""
        raise NotImplementedError

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, partial(self._run, cycle, app))

    async def _run(self, cycle: RequestResponseCycle, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the application for a request of this connection."""

        async def receive_counted() -> Message:
            event = await receive()
            if self._has_no_memory:
                raise no_memory()
            return event

        async def send_and_leave(message: Message) -> None:
            if message["type"] == "http.response.start" and self._closes_after(message["status"]):
                cycle.keep_alive = False
            await send(message)

        await app(scope, receive_counted, send_and_leave)

    def _continue_over_asgi(self) -> None:
        size = len(self._body)
        super()._continue_over_asgi()
        if not self.pipeline and (self._message_open or size > UNCOUNTED_BYTES):
            self._answering_bytes = size

    def _closes_after(self, status: int) -> bool:
        # A client that repeats refused requests must connect again.
        self._is_leaving = self._is_crowded or (status == 429 and bool(self._held or self.pipeline))
        return self._is_leaving

    def _count_held(self) -> None:
        """Counts the bytes that the connection holds. Without memory for them, a request is refused."""
        size = self._answering_bytes + len(self._held) + sum(len(cycle.body) for cycle, _ in self.pipeline)
        if self._head_open:
            size += self._other_bytes + len(self._line) + HEADER_BYTES * len(self.headers)
        elif self._message_open and self._is_answering():
            size += REQUEST_BYTES
        client = self._address
        if client is None and self._trusted and self.headers and (size or self._message_open):
            client = share_address(self._peer(), self.headers, self._trusted)
            # An unfinished request without a body counts too: it has a connection of those that all clients share.
            size = size or int(self._message_open)
        if not size and not self._counted_bytes:
            return
        self._counted_bytes = size
        if not self._memory.hold(self, size, client, is_unfinished=self._message_open or bool(self._held)):
            self.give_up()

    def _forget_waiting(self) -> None:
        self._held, self._answering_bytes = NOTHING, 0
        self.pipeline.clear()
        if self._counted_bytes:
            self._counted_bytes = 0
            self._memory.release(self)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _peer(self) -> str | None:
        return self.client[0] if self.client else None

    def _send_error(self, error: ProtocolError) -> None:
        if self._dealers is None:
            # Only a process with a service has a vocabulary for errors.
            self.transport.abort()
            return
        response = error_response(error, self._dealers.process)
        head = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
        line = STATUS_LINE[response.status_code]
        self.transport.write(b"%b%bconnection: close\r\n\r\n%b" % (line, head, bytes(response.body)))
        self.transport.close()
