"""Reads requests from one client's connection, with limits that uvicorn's connection does not have:

- The head of a request is bounded in size and time. Bodies have limits of their own (`server.body`).
- Connections that pipeline are parsed in turns (`server.admission`). Received bytes are held back, and no more are
  read, in three cases: until the connection's turn; while an earlier request waits; while the client does not read its
  responses. When too many requests wait, or one is refused for its rate, the connection closes after a response.
- All bytes of requests that are incomplete or wait are counted (`server.request_memory`).
- A header whose repetition is dangerous may occur once. Trailers are ignored.
- A request for an upgrade gets a normal response.
- Invalid HTTP is refused with the protocol's error, after the responses to the requests before it.
- The process has a limited number of connections, and so has each client's IP address (`server.open_connections`).

The limits are in docs/protocol.md#bounds. Invalid HTTP is in docs/protocol.md#http.
"""

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import httptools

from dealer_agent.config.settings import ServiceSettings
from dealer_agent.protocol.errors import ProtocolError, RateLimited, SchemaValidationFailed
from dealer_agent.server.client_address import limited_address
from dealer_agent.server.client_transport import HELD, READ_BYTES, TURN, ClientTransport
from dealer_agent.server.fast_path import FAST_BODY_BYTES, NOTHING, FastPathConnection
from dealer_agent.server.open_connections import OpenConnections, connection_limit
from dealer_agent.server.request_memory import RETRY_SECONDS, memory_of, no_memory, unread_memory_of

CONNECTIONS = "connections"
"""The member of the lifespan's state that holds the open connections of the process."""
MOST_WAITING = 8
"""How many pipelined requests may wait. A connection with more gets one response and closes."""
PIPELINED_BYTES = 512
"""Bytes with several requests are parsed in pieces of this size, because each request that waits takes about 3 KB. A
piece contains at most 20 requests."""
REQUEST_LINE = b"/1.1\r\n"
"""The end of a request line. JSON has no such bytes. Longer ones take longer to search for. A connection of HTTP/1.0
closes after its first request."""
SINGLE_HEADERS = frozenset((b"host", b"authorization", b"content-type", b"a2a-version", b"origin"))
"""Headers that a request may have once: a proxy might read a different one than the service. The parser itself refuses
a second Content-Length or Transfer-Encoding."""
MOST_HEADERS = 100
"""A header field takes more than 100 bytes of memory, even if it has only four."""
TOO_MANY_HEADERS = f"The request has more than {MOST_HEADERS} header fields. Send fewer."
NO_VERSION = "The request line must end with HTTP/1.1 or HTTP/1.0."
LAST_REQUEST_SECONDS = 2.0
"""How long a connection without a request stays open when the server stops. A load balancer may have sent a request
before it sees the stop."""


class _Refused(Exception):  # noqa: N818 - it only ends a callback of the parser.
    """A request that the parser accepts and the service refuses. The message says why."""


def _invalid_http(words: str) -> SchemaValidationFailed:
    return SchemaValidationFailed(words, {"in": "envelope"}, http=400)


class BoundedConnection(FastPathConnection):
    """A connection with limits."""

    head_limit_bytes = 64 * 1024
    """The most bytes of a request outside its body: head, framing of chunks, trailers. One more slice may be parsed."""
    head_seconds = 20.0
    """How long a head may take, from the start of the connection or from the first byte of a later request."""

    connections_type = OpenConnections

    __slots__ = (
        "_connections",
        "_discards",
        "_error",
        "_head_timer",
        "_is_last",
        "_is_scheduled",
        "_is_stopping",
        "_requests_parsed",
    )

    _connections: OpenConnections

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._requests_parsed = 0
        self._head_timer: asyncio.TimerHandle | None = None
        # Whether `_parse_held` will be called.
        self._is_scheduled = False
        # Why the client's bytes are refused. If set, nothing more is parsed.
        self._error: ProtocolError | None = None
        # The open request is answered, and the rest of its body is discarded.
        self._discards = False
        # No request is read after the one in progress.
        self._is_last = False
        # The server stops: the connection closes after the next response.
        self._is_stopping = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Called by the event loop for a new connection. At a limit, the connection gets an error and closes."""
        client = ClientTransport(transport, self.loop, self._may_send, self._parse_later)
        super().connection_made(client)
        settings = self._dealers.process.settings if self._dealers else ServiceSettings()
        connections: OpenConnections | None = self.app_state.get(CONNECTIONS)
        if connections is None:
            connections = self.app_state[CONNECTIONS] = self.connections_type(
                self.loop,
                most=connection_limit(settings.max_connections),
                most_per_address=settings.max_connections_per_address,
                keep_alive_seconds=self.timeout_keep_alive,
                memory=self._dealers.process.memory if self._dealers else memory_of(settings),
                unread_responses=unread_memory_of(settings),
            )
            if self._dealers:
                self._dealers.process.connections = connections
        self._connections, self._memory = connections, connections.memory
        self._trusted = settings.trusted_networks
        self._address = limited_address(self._peer(), self._trusted)
        if connections.admit(client, self._address):
            self._start_head_timer()
        else:
            self._error = RateLimited(RETRY_SECONDS, because="There is no free connection.")
            self._send_error(self._error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._stop_head_timer()
        self._forget_waiting()
        self._memory.release(self)
        self._connections.remove(self.transport)
        super().connection_lost(exc)
        self.transport.forget_connection()
        if not self._is_answering():
            self.cycle = None  # type: ignore[assignment]  # As uvicorn has it before the first request.

    def data_received(self, data: bytes) -> None:
        """Called by the event loop. The data may be part of a request, or several requests."""
        if self.transport.half_closed:
            self.transport.discard(len(data))
            self._read_later()
        elif not self._held and data.count(REQUEST_LINE) <= 1 and self._may_parse():
            self._parse(data)
            if self._message_open or self._answering_bytes or self._is_last or self.pipeline:
                self._after_all_bytes(data)
        elif not self._is_leaving:
            self._held = memoryview(bytes(self._held) + data)
            if self._message_open and not self._head_open and self._may_parse():
                # The bytes belong to a body.
                self._parse_held()
            else:
                self._note_crowd()
                self.transport.pause_reading(HELD)
                self._count_held()
                if self._may_parse():
                    self._parse_later()

    def eof_received(self) -> bool:  # type: ignore[override]  # As asyncio has it.
        """Called when the client has closed its sending direction. It still gets responses to complete requests."""
        if self.transport.is_closing():
            return False
        lacks_body = self._message_open and not self._head_open and not self.pipeline
        self._is_last = bool(self._held) or (self._is_answering() and not lacks_body)
        return self._is_last

    def pause_writing(self) -> None:
        """Called by the event loop when the client has not read UNREAD_BYTES of its responses."""
        super().pause_writing()
        self._connections.count_unread(self.transport)

    def resume_writing(self) -> None:
        """Called by the event loop when the client reads again."""
        super().resume_writing()
        self._connections.count_unread(self.transport)
        self._parse_later()

    def shutdown(self) -> None:
        """Called when the server stops. Requests in progress are answered, and one that arrives soon."""
        self._is_stopping = self._connections.are_stopping = True
        if self._is_answering():
            self._is_last = True
            super().shutdown()
        else:
            self.loop.call_later(LAST_REQUEST_SECONDS, self._close_if_idle)

    def give_up(self) -> None:
        """Called when there is no memory for the unfinished request of the connection."""
        self._counted_bytes = 0
        if self.transport.is_closing() or self._error is not None:
            self._forget_waiting()
        elif self._held or self.pipeline or self._head_open or not self._is_answering():
            self._refuse(no_memory())
        else:
            self._has_no_memory, self._answering_bytes = True, 0
            self.cycle.body.clear()
            self.cycle.message_event.set()

    def on_message_begin(self) -> None:
        """Called by the parser at the first byte of a request."""
        if self._is_leaving:
            raise _Refused(
                "The connection closes after the request before this one. Send this request on a new connection."
            )
        # Not uvicorn's method: it makes an ASGI scope, which the fast path does not need.
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._binding, self._body = None, b""
        self._message_open = self._head_open = True
        self._connections.set_busy(self.transport)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser. Trailers are ignored, because they must not replace a header that a proxy has set."""
        if self._head_open:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Called by the parser at the end of a head. Chooses the fast path or the path over ASGI."""
        if self._head_timer is not None:
            self._stop_head_timer()
            self._line = b""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _Refused("This service is not a proxy: CONNECT is not offered.")
            # The parser now assumes that there is no body. `_parse` parses the head again, without the upgrade.
            return
        fields = self._fields = dict(self.headers)
        if len(fields) != len(self.headers) or b"host" not in fields or len(fields) > MOST_HEADERS:
            self._check_headers()
        if b"expect" in fields:
            self.expect_100_continue = fields[b"expect"].lower() == b"100-continue"
        self._binding = self._dealers.find_binding(fields.get(b"host", b""), self.url) if self._dealers else None
        if self._binding is None or self._is_stopping or not self._may_take_fast_path():
            # The fast path takes only HTTP/1.1.
            self._check_version()
            self._continue_over_asgi()
            if self._is_stopping:
                self.cycle.keep_alive = False
        self._head_open = False

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each part of a body."""
        self._other_bytes -= len(body)
        if self._discards:
            self.transport.discard(len(body))
        if self._binding is None:
            if self._has_no_memory:
                return
            super().on_body(body)
            if not self._discards and not self.pipeline:
                self._answering_bytes += len(body)
        else:
            self._body = self._body + body if self._body else body
            if len(self._body) > FAST_BODY_BYTES:
                self._continue_over_asgi()

    def on_message_complete(self) -> None:
        """Called by the parser at the end of a request."""
        self._other_bytes = 0
        if self._head_open:
            return  # A request for an upgrade: see above.
        self._message_open = False
        self._requests_parsed += 1
        self._is_leaving = self._is_crowded
        if self._discards:
            self._discards = False
            self.transport.stop_discarding()
            self._connections.set_idle(self.transport)
        if self._binding is not None and not self._handle(*self._binding):
            self._continue_over_asgi()
        if self._binding is None:
            super().on_message_complete()
        self._binding = None

    def on_response_complete(self) -> None:
        """Called after a response. Unlike uvicorn's, it starts no timer: one sweep over all connections costs less."""
        self.server_state.total_requests += 1
        self._answering_bytes = 0
        if self.transport.is_closing():
            self._forget_waiting()
            # At the limit of connections, one that closes already is aborted first.
            self._connections.set_idle(self.transport)
            if self.parser is None:  # The connection is lost.
                self.cycle = None
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._answering_bytes = len(cycle.body)
            self._start_asgi_task(cycle, app)
            self._parse_later()
        elif self._error is not None:
            self._answer_error(self._error)
        elif self._held:
            self._parse_later()
        elif self._is_last:
            self.transport.close()
        elif not self._message_open:
            self._connections.set_idle(self.transport)
        elif not self._head_open:
            self._discards = True
            self.transport.start_discarding()
        if self._counted_bytes:
            self._count_held()

    def _may_send(self) -> bool:
        return not self._is_last and (
            self._message_open or bool(self._held) or self._error is not None or self._is_leaving
        )

    def _may_parse(self) -> bool:
        """Whether the next request may be parsed. False while a request waits, so that few requests wait."""
        return not (
            self.pipeline
            or self.transport.paused & ~HELD
            or self.flow.write_paused
            or self._error is not None
            or self._is_leaving
        )

    def _parse_later(self) -> None:
        if self._held and not self._is_scheduled:
            self._is_scheduled = True
            self._load.parse_later(self._parse_held)

    def _read_later(self) -> None:
        """Reads no more until the connection's turn, so that a client that sends much does not delay the others."""
        self.transport.pause_reading(TURN)
        self._load.read_later(partial(self.transport.resume_reading, TURN))

    def _parse_held(self) -> None:
        """Parses the held bytes, up to the end of one request."""
        self._is_scheduled = False
        parsed, part = self._requests_parsed, b""
        while self._held and parsed == self._requests_parsed and self._may_parse() and not self.transport.is_closing():
            part = bytes(self._held[:READ_BYTES])
            if part.count(REQUEST_LINE) > 1:
                part = part[:PIPELINED_BYTES]
            self._held = self._held[len(part) :]
            self._parse(part)
        if self._error is not None or self.transport.is_closing():
            return
        if self._is_leaving:
            self._held = NOTHING
            self._count_held()
        elif self._is_crowded and not self._held and self._message_open:
            # A body with lines of requests. What follows them is lost.
            self._refuse(no_memory())
        elif self._held:
            self._note_crowd()
            self.transport.pause_reading(HELD)
            self._count_held()
            if self._may_parse():
                self._parse_later()
        else:
            self.transport.resume_reading(HELD)
            self._after_all_bytes(part)

    def _note_crowd(self) -> None:
        """Notes whether too many pipelined requests wait. Then only the next one of them is answered."""
        if not self._message_open or self._head_open:
            # Otherwise these bytes are of a body, which may contain anything.
            held = bytes(self._held)
            self._is_crowded = self._is_crowded or len(self.pipeline) + held.count(REQUEST_LINE) > MOST_WAITING
            if self._is_crowded and held:
                # No more than the next request is answered.
                second = held.find(REQUEST_LINE, held.find(REQUEST_LINE) + 1)
                self._held = memoryview(held[:second] if second > 0 else held)

    def _parse(self, data: bytes) -> None:
        """Gives bytes to the parser. An error of the parser, or a head that is too large, refuses the request."""
        # The parser calls `on_body`, which subtracts the bytes of a body.
        self._other_bytes += len(data)
        again = b""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            again = self._restart_without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            # The exception of a callback of this class. None if the parser itself found the error.
            refused = error.__context__
            # If the connection closes anyway, nothing after the last request gets a response.
            if not self._is_leaving:
                words = str(refused) if isinstance(refused, _Refused) else "Invalid HTTP request received."
                self._refuse(_invalid_http(words))
        else:
            if self._other_bytes > self.head_limit_bytes and not self.transport.is_closing():
                what = "The head of the request is" if self._head_open else "Trailers and the frames of chunks are"
                self._refuse(_invalid_http(f"{what} too large."))
        if again:
            # Outside of the except block: its exception must not become the context of another exception.
            self._parse(again)

    def _restart_without_upgrade(self) -> bytes:
        """Makes a new parser. Returns what it must get first: the head parsed last, without its Upgrade headers."""
        parser = self.parser
        headers = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        line = b"%b %b HTTP/%b\r\n" % (parser.get_method(), self.url, parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn does: bytes after a request that closes the connection are not an error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return line + headers + b"\r\n"

    def _check_version(self) -> None:
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            raise _Refused(NO_VERSION)

    def _check_headers(self) -> None:
        """Refuses too many fields, a repeated field that must be single, and a missing Host."""
        if len(self.headers) > MOST_HEADERS:
            raise _Refused(TOO_MANY_HEADERS)
        names = Counter(name for name, _ in self.headers)
        for name in SINGLE_HEADERS:
            if names[name] > 1:
                raise _Refused(f"The request has more than one {name.decode().title()} field. Send it once.")
        if not names[b"host"] and self.parser.get_http_version() >= "1.1":
            raise _Refused("The request has no Host field. Send it once.")

    def _lacks_version(self, data: bytes) -> bool:
        """Whether the request line has ended without a version. A client of HTTP/0.9 sends nothing more, and the parser
        notices it only at the next byte."""
        if self.headers:
            self._line = b""
            return self.parser.get_http_version() == "0.9"
        self._line += data
        if b"\n" not in data:
            return False
        words = [self.parser.get_method(), self.url]
        return any(line.split() == words for line in self._line.split(b"\n")[:-1])

    def _after_all_bytes(self, data: bytes) -> None:
        """Called when the parser has all received bytes. A body that arrives during its response is read in turns."""
        if self._error is not None or self.transport.is_closing():
            return
        if self._binding is not None:
            # The body of a request on the fast path is incomplete.
            self._continue_over_asgi()
        elif self._head_open:
            if len(self.headers) > MOST_HEADERS:
                self._refuse(_invalid_http(TOO_MANY_HEADERS))
                return
            if self._lacks_version(data):
                self._refuse(_invalid_http(NO_VERSION))
                return
            if self._head_timer is None:
                # A head that arrives at once costs no timer.
                self._start_head_timer()
        elif self._message_open and self._is_answering() and not self.pipeline:
            self._read_later()
        self._count_held()
        if self._is_last and not self._is_answering():
            self.transport.close()

    def _refuse(self, why: ProtocolError) -> None:
        """Stops parsing, and refuses the last request. The responses to the requests before it are sent first."""
        self._error, self._held = why, NOTHING
        self._memory.release(self)
        if self._head_open or not self._message_open or self._binding is not None:
            # The refused request has no cycle.
            waits = self._is_answering()
        elif self.cycle.response_complete:
            self.transport.close()
            return
        elif self.pipeline:
            self.pipeline.popleft()
            waits = True
        else:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            waits = False
            if self.cycle.response_started:
                self.transport.close()
                return
        if waits:
            self.transport.pause_reading(HELD)
        else:
            self._answer_error(why)

    def _answer_error(self, why: ProtocolError) -> None:
        self._send_error(why)
        self._connections.set_idle(self.transport)

    def _close_if_idle(self) -> None:
        if not self._message_open and not self._is_answering():
            self.transport.close()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        """Closes the connection of a client that has not sent a whole head in time."""
        self._head_timer = None
        if self._held or self._is_answering():
            # The rest of the head may be held back, because an earlier request waits for its response.
            self._start_head_timer()
        elif not self.transport.is_closing():
            self.transport.close_now()
