"""The short road of a connection: a whole request of a reading skill is answered where it arrives.

The long road, uvicorn's own, gives every request a cycle, an ASGI scope, an event and a task, which together cost more
than a search. Whatever may have to wait takes it as ever: a body that is not there at once, a lead, a client that reads
too slowly; and so does whatever is unusual: another path or method, `Expect`, a connection that is about to close, a
request that stands in line behind another. What both roads do is in `server.pipeline`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dealer_agent.server.admission import NEVER, Admission
from dealer_agent.server.overload_replies import OverloadReplies
from dealer_agent.server.request_pipeline import LEAD, Binding, Head, RequestPipeline
from dealer_agent.server.service import Service

SERVICE = "service"
BINDINGS = "bindings"
BUSY = "busy"
"""Members of the lifespan's state that the application sets for its connections: its service, the bindings by request
target, and the replies of an overloaded process."""

SHORT_BODY_BYTES = 4 * 1024
"""Bodies up to this size are decoded before the rate limit counts them: decoding costs less than the refusal. Most
reading requests are smaller."""


class Waiting:
    """A request of a connection that waits in the process's queue.

    uvicorn treats it as the cycle of a request on the long road: later requests of the connection wait for it.
    """

    __slots__ = ("_connection", "_exchange", "disconnected", "keep_alive", "response_complete")

    message_event = asyncio.Event()
    """uvicorn sets it when the client is gone. Nothing waits for it."""

    def __init__(self, connection: "AnsweringConnection", pipeline: RequestPipeline) -> None:
        self._connection = connection
        self._exchange = pipeline
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False

    def answer(self) -> None:
        """It is this request's turn."""
        if not self.disconnected:
            self.response_complete = True
            self._connection.answer_at_once(self._exchange, keep_alive=self.keep_alive)


class AnsweringConnection(HttpToolsProtocol):
    """uvicorn's connection, which answers what it can itself."""

    # Python reads a slot faster than an attribute of the class.
    __slots__ = (
        "_binding",
        "_bindings",
        "_body",
        "_busy",
        "_fields",
        "_is_stopped",
        "_load",
        "_refused_at",
        "_server_headers",
        "_server_lines",
        "_service",
    )

    _load: Admission
    _busy: OverloadReplies

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._service: Service | None = None
        self._bindings: Mapping[bytes, Binding] = {}
        self._refused_at = NEVER
        # The load has stopped this connection, and will call `_read_again`.
        self._is_stopped = False
        # The binding of a request that may take the short road, between its head and its end.
        self._binding: Binding | None = None
        self._body = b""
        # The fields of its head by name; the last one where a field repeats.
        self._fields: Mapping[bytes, bytes] = {}
        # The server's own header lines, which it renews every second because of the date.
        self._server_headers: list[tuple[bytes, bytes]] | None = None
        self._server_lines = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """A client is there."""
        super().connection_made(transport)
        self._service = self.app_state.get(SERVICE)
        if self._service is not None:
            self._load, self._busy = self._service.load, self.app_state[BUSY]
            self._bindings = self.app_state[BINDINGS]

    def on_message_begin(self) -> None:
        """The first byte of a request. uvicorn's scope is made on the long road only."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._binding, self._body = None, b""

    def on_headers_complete(self) -> None:
        """The head is whole: which road?"""
        self._binding = self._bindings.get(self.url)
        if self._binding is None or not self._may_answer_at_once():
            self._take_the_long_road()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._binding is None:
            super().on_body(body)
        else:
            self._body = self._body + body if self._body else body
            if len(self._body) > SHORT_BODY_BYTES:
                self._take_the_long_road()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._binding is not None and not self._settled(self._binding):
            self._take_the_long_road()
        if self._binding is None:
            super().on_message_complete()
        self._binding = None

    def _may_answer_at_once(self) -> bool:
        parser = self.parser
        return (
            parser.get_method() == b"POST"
            and parser.should_keep_alive()
            and (self._names_no_connection() or parser.get_http_version() == "1.1")
            and not self.expect_100_continue
            and not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _names_no_connection(self) -> bool:
        """Whether the head has no field about the connection. Then only HTTP/1.1 keeps it open. The parser takes longer
        to tell its version."""
        return b"connection" not in self._fields and b"proxy-connection" not in self._fields

    def _settled(self, binding: Binding) -> bool:
        """Whether the request is answered, waits for its turn, or is refused. Else it takes the long road."""
        assert self._service is not None
        has_time = self._load.has_time()
        is_refused = not has_time and self._load.is_full(self._refused_at)
        if is_refused and LEAD not in self._body:
            self._refuse_as_busy(binding)
            return True
        peer = self.client[0] if self.client else None
        pipeline = RequestPipeline(binding, self._service, Head(self.headers, self._fields, peer))
        if not pipeline.can_answer_at_once(self._body):
            return False
        if has_time:
            self.answer_at_once(pipeline)
        elif is_refused:
            self._refuse_as_busy(binding)
        else:
            waiting = Waiting(self, pipeline)
            self.cycle = cast(RequestResponseCycle, waiting)
            self._load.wait(waiting.answer)
        return True

    def answer_at_once(self, pipeline: RequestPipeline, *, keep_alive: bool = True) -> None:
        """Answers a request for which `can_answer_at_once` was true."""
        reply = pipeline.reply_at_once()
        closing = b"" if keep_alive else b"connection: close\r\n"
        head = STATUS_LINE[reply.status], self._lines_of_the_server(), reply.head, closing, b"\r\n"
        # In one piece: its pieces, one by one, cost uvloop and the kernel more than the copy.
        self.transport.write(b"".join((*head, *reply.body)))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()
        pipeline.log(reply)

    def _refuse_as_busy(self, binding: Binding) -> None:
        self._refused_at = self._load.refuse()
        if not self._is_stopped and self._load.stops_reading(self._read_again):
            self._is_stopped = True
            self.transport.pause_reading()
        self.transport.write(self._busy.reply(binding, self._body, self._lines_of_the_server()))
        self.on_response_complete()

    def _read_again(self) -> None:
        self._is_stopped = False
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _lines_of_the_server(self) -> bytes:
        if self._server_headers is not self.server_state.default_headers:
            self._server_headers = self.server_state.default_headers
            self._server_lines = b"".join(b"%b: %b\r\n" % header for header in self._server_headers)
        return self._server_lines

    def _take_the_long_road(self) -> None:
        """From the beginning: uvicorn hears of the request what this connection has heard so far."""
        url, headers, expects, body = self.url, self.headers, self.expect_100_continue, self._body
        self._binding, self._body = None, b""
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()
        if body:
            super().on_body(body)
