"""The short road of a connection: a whole request of a reading skill is answered where it arrives.

The long road, uvicorn's own, gives every request a cycle, an ASGI scope, an event and a task, which together cost more
than a search. Whatever may have to wait takes it as ever: a body that is not there at once, a lead, a client that reads
too slowly; and so does whatever is unusual: another path or method, `Expect`, a connection that is about to close, a
request that stands in line behind another. What both roads do is in `server.exchange`.
"""

import asyncio
from collections.abc import Mapping

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from dealer_agent.server.exchange import Binding, Exchange, Head
from dealer_agent.server.service import Service

SERVICE = "service"
BINDINGS = "bindings"
"""The members of the lifespan's state in which the application leaves, for its connections, its service and the
bindings by request target."""

SHORT_BODY_BYTES = 4 * 1024
"""Bodies up to this size are decoded before the rate limit counts them: decoding costs less than the refusal. Reading
requests are hardly ever larger."""


class AnsweringConnection(HttpToolsProtocol):
    """uvicorn's connection, which answers what it can itself."""

    _service: Service | None = None
    _bindings: Mapping[bytes, Binding] = {}
    # The binding of a request that may take the short road, between its head and its end.
    _binding: Binding | None = None
    _body = b""
    # The server's own header lines, which it makes anew every second: the date.
    _server_headers: list[tuple[bytes, bytes]] | None = None
    _server_lines = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """A client is there."""
        super().connection_made(transport)
        self._service = self.app_state.get(SERVICE)
        self._bindings = self.app_state.get(BINDINGS, {})

    def data_received(self, data: bytes) -> None:
        """A body that is not whole by the end of what has arrived is waited for on the long road."""
        super().data_received(data)
        if self._binding is not None and not self.transport.is_closing():
            self._take_the_long_road()

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
        if self._binding is not None and not self._answered_at_once(self._binding):
            self._take_the_long_road()
        if self._binding is None:
            super().on_message_complete()
        self._binding = None

    def _may_answer_at_once(self) -> bool:
        parser = self.parser
        return (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.expect_100_continue
            and not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
            and not self.transport.is_closing()
        )

    def _answered_at_once(self, binding: Binding) -> bool:
        assert self._service is not None
        under_way = Exchange(binding, self._service, Head(self.headers, self.client[0] if self.client else None))
        reply = under_way.reply_at_once(self._body)
        if reply is None:
            return False
        if self._server_headers is not self.server_state.default_headers:
            self._server_headers = self.server_state.default_headers
            self._server_lines = b"".join(b"%b: %b\r\n" % header for header in self._server_headers)
        head = b"%b%b%b\r\n" % (STATUS_LINE[reply.status], self._server_lines, reply.head)
        # In one piece: its pieces, one by one, cost uvloop and the kernel more than the copy.
        self.transport.write(b"".join((head, *reply.body)))
        self.on_response_complete()
        under_way.log(reply)
        return True

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
