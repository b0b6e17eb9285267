"""One client's connection, with limits that uvicorn's connection does not have:

- The head of a request is bounded in size and time. Bodies have limits of their own in `server.body`.
- Pipelined requests are parsed in slices. While one waits for the answer to another, or the client does not read its
  answers, the rest of the bytes is held back, and no more are read.
- Header fields whose repetition is dangerous come once. Fields behind the body (trailers) are ignored.
- A request for an upgrade is served as if it did not ask for one.
- Invalid HTTP is refused with the protocol's error, after the answers to the requests before it.
- The process has a limited number of connections, and so has each client address: `server.open_connections`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from dealer_agent.config.settings import ServiceSettings
from dealer_agent.protocol.errors import ProtocolError, RateLimited, SchemaValidationFailed
from dealer_agent.server.client_identity import limited_address
from dealer_agent.server.client_transport import ClientTransport
from dealer_agent.server.fast_path import AnsweringConnection
from dealer_agent.server.open_connections import OpenConnections, connection_limit
from dealer_agent.server.routes import error_response

CONNECTIONS = "connections"
"""The member of the lifespan's state that holds the open connections of the process."""
SLICE_BYTES = 4096
"""The bytes that are parsed at a time. A usual request fits into one slice."""
REQUESTS_PER_SLICE = 8
PIPELINED_BYTES = 512
"""A slice with more requests than REQUESTS_PER_SLICE is parsed in pieces of this many bytes: every request that waits
for the answer to another takes about 3 KB. A piece holds up to 20 of the smallest requests."""
REQUEST_LINE = b"HTTP/1."
"""Every request line of a connection that stays open ends with this and one digit."""
SINGLE_FIELDS = frozenset((b"host", b"authorization", b"content-type", b"a2a-version", b"origin"))
"""Fields that a request may have once: of two, a proxy may read one and the service the other. The parser refuses a
second Content-Length or Transfer-Encoding."""
RETRY_SECONDS = 5
"""When a client may try again after there was no free connection."""
NOTHING = memoryview(b"")


class _Refused(Exception):  # noqa: N818 - it ends a callback of the parser, and is no error of ours.
    """A request that the parser accepts and the service refuses; the message says why."""


class _Flow(FlowControl):
    """uvicorn's flow control, extended: nothing more is read while bytes are held back."""

    def __init__(self, transport: asyncio.Transport, go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._go_on = go_on
        self.holds = False

    def pause_reading(self) -> None:
        """uvicorn has enough."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """uvicorn has room again."""
        if self.read_paused:
            self.read_paused = False
            if self.holds:
                self._go_on()
            else:
                self._transport.resume_reading()

    def hold(self) -> None:
        """Bytes are held back."""
        if not self.holds:
            self.holds = True
            self._transport.pause_reading()

    def release(self) -> None:
        """No bytes are held back any more."""
        if self.holds:
            self.holds = False
            if not self.read_paused:
                self._transport.resume_reading()


class BoundedConnection(AnsweringConnection):
    """A connection with limits."""

    head_limit_bytes = 64 * 1024
    """Of everything except the body: request line, headers, the frames of chunks, trailers; plus up to one slice."""
    head_seconds = 20.0
    """From the connection, or from the first byte of a later request, until the head is whole."""

    connections_type = OpenConnections

    __slots__ = (
        "_connections",
        "_discards",
        "_expects_nothing",
        "_goes_on",
        "_head_open",
        "_head_timer",
        "_held",
        "_message_open",
        "_other_bytes",
        "_refusal",
        "_requests_parsed",
    )

    transport: ClientTransport
    flow: _Flow
    _connections: OpenConnections

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Whether a request has begun and is not whole, and whether this is so of its head.
        self._message_open = self._head_open = False
        # Bytes of the open request that are no body.
        self._other_bytes = 0
        self._requests_parsed = 0
        self._head_timer: asyncio.TimerHandle | None = None
        # Bytes that arrived and are not parsed yet; whether the loop will call `_parse_held`.
        self._held = NOTHING
        self._goes_on = False
        # What is wrong with the bytes of the client; nothing more is parsed.
        self._refusal: str | None = None
        # The open request is answered, and the rest of its body is discarded.
        self._discards = False
        # The client has closed its sending direction, or the server stops: nothing more is expected.
        self._expects_nothing = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """A client is there: the clock runs."""
        client = ClientTransport(transport, self.loop, self._may_send)
        super().connection_made(client)
        self.flow = _Flow(client, self._go_on)
        trusted = self._service.settings.service.trusted_networks if self._service else ()
        self._connections = self._open_connections()
        if self._connections.admit(client, limited_address(self.client[0] if self.client else None, trusted)):
            self._start_head_timer()
        else:
            self._refusal = "There is no free connection."
            self._write_refusal(RateLimited(RETRY_SECONDS))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._stop_head_timer()
        self._held = NOTHING
        self._connections.forget(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Part of a head, of a body, or of several requests."""
        if self.transport.half_closed:
            self.transport.discard(len(data))
        elif (
            len(data) <= SLICE_BYTES
            and not self._held
            and (len(data) <= PIPELINED_BYTES or data.count(REQUEST_LINE) <= REQUESTS_PER_SLICE)
            and self._may_parse()
        ):
            self._parse(data)
            if self._binding is not None or self._head_open or self._expects_nothing:
                self._after_all_bytes()
        else:
            self._held = memoryview(bytes(self._held) + data)
            self._parse_held()

    def eof_received(self) -> bool:  # type: ignore[override]  # As asyncio has it.
        """The client sends nothing more. It still gets the answers to the requests that are whole."""
        if self.transport.is_closing():
            return False
        waits_for_its_body = self._message_open and not self._head_open and not self.pipeline
        self._expects_nothing = bool(self._held) or (self._is_answering() and not waits_for_its_body)
        return self._expects_nothing

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._go_on()

    def shutdown(self) -> None:
        """The server stops: requests in progress are answered."""
        self._expects_nothing = True
        super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP in the envelope of every other error (contract, part 3), and closes."""
        self._write_refusal(SchemaValidationFailed(msg, {"in": "envelope"}, http=400))
        self._connections.idle(self.transport)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self._message_open = self._head_open = True
        self._other_bytes = 0
        self._connections.busy(self.transport)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head. A trailer is ignored: it must not replace a field that a proxy has written."""
        if self._head_open:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self._head_timer is not None:
            self._stop_head_timer()
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _Refused("This service is no proxy: CONNECT is not offered.")
            # The parser takes the request for bodiless: `_parse` starts it again.
            return
        fields = self._fields = dict(self.headers)
        if len(fields) != len(self.headers) or b"host" not in fields:
            self._check_single_fields()
        if b"expect" in fields:
            self.expect_100_continue = fields[b"expect"].lower() == b"100-continue"
        super().on_headers_complete()
        self._head_open = False

    def on_body(self, body: bytes) -> None:
        """Bodies have limits of their own."""
        self._other_bytes -= len(body)
        if self._discards:
            self.transport.discard(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._head_open:
            return  # Of an upgrade: see above.
        self._message_open = False
        self._requests_parsed += 1
        if self._discards:
            self._discards = False
            self.transport.stop_discarding()
            self._connections.idle(self.transport)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered: the next one follows, or the connection is idle. As uvicorn's own, without its timer
        for idle connections: one sweep over all connections costs less than a timer for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            # Closing, it makes room for others first.
            self._connections.idle(self.transport)
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._go_on()
        elif self._refusal is not None:
            self.send_400_response(self._refusal)
        elif self._held:
            self._go_on()
        elif self._expects_nothing:
            self.transport.close()
        elif not self._message_open:
            self._connections.idle(self.transport)
        elif not self._head_open:
            self._discards = True
            self.transport.start_discarding()

    def _read_again(self) -> None:
        if self.flow.holds:
            self._is_stopped = False
            self._go_on()
        else:
            super()._read_again()

    def _open_connections(self) -> OpenConnections:
        found: OpenConnections | None = self.app_state.get(CONNECTIONS)
        if found is None:
            settings = self._service.settings.service if self._service else ServiceSettings()
            found = self.app_state[CONNECTIONS] = self.connections_type(
                self.loop,
                most=connection_limit(settings.max_connections),
                most_per_address=settings.max_connections_per_address,
                keep_alive_seconds=self.timeout_keep_alive,
            )
        return found

    def _may_send(self) -> bool:
        return not self._expects_nothing and (self._message_open or bool(self._held) or self._refusal is not None)

    def _may_parse(self) -> bool:
        """Whether the next request may be parsed. Only when none waits: so at most one slice of requests waits."""
        flow = self.flow
        return not (
            self.pipeline or self._is_stopped or flow.read_paused or flow.write_paused or self._refusal is not None
        )

    def _go_on(self) -> None:
        """Parses the bytes that are held back in a later turn of the loop, after other connections."""
        if self._held and not self._goes_on:
            self._goes_on = True
            self.loop.call_soon(self._parse_held)

    def _parse_held(self) -> None:
        self._goes_on = False
        parsed = self._requests_parsed
        while self._held and parsed == self._requests_parsed and self._may_parse() and not self.transport.is_closing():
            part = bytes(self._held[:SLICE_BYTES])
            if part.count(REQUEST_LINE) > REQUESTS_PER_SLICE:
                part = part[:PIPELINED_BYTES]
            self._held = self._held[len(part) :]
            self._parse(part)
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._held:
            self.flow.hold()
            if self._may_parse():
                self._go_on()
        else:
            self.flow.release()
            self._after_all_bytes()

    def _parse(self, data: bytes) -> None:
        self._other_bytes += len(data)
        again = b""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            again = self._without_upgrade() + data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            asked = error.__context__
            self._refuse(str(asked) if isinstance(asked, _Refused) else "Invalid HTTP request received.")
        else:
            if self._other_bytes > self.head_limit_bytes and not self.transport.is_closing():
                what = "The head of the request is" if self._head_open else "Trailers and the frames of chunks are"
                self._refuse(f"{what} too large.")
        if again:
            # Outside of the handler above: an error in here must not get the upgrade as its context.
            self._parse(again)

    def _without_upgrade(self) -> bytes:
        """The head that was parsed last, without its Upgrade fields. Also makes a new parser, which starts with it."""
        parser = self.parser
        fields = b"".join(b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade")
        line = b"%b %b HTTP/%b\r\n" % (parser.get_method(), self.url, parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn's own: what follows a request that closes the connection is no error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return line + fields + b"\r\n"

    def _check_single_fields(self) -> None:
        names = Counter(name for name, _ in self.headers)
        for name in SINGLE_FIELDS:
            if names[name] > 1:
                raise _Refused(f"The request has more than one {name.decode().title()} field. Send it once.")
        if not names[b"host"] and self.parser.get_http_version() >= "1.1":
            raise _Refused("The request has no Host field. Send it once.")

    def _after_all_bytes(self) -> None:
        """Called when all received bytes are parsed."""
        if self._refusal is not None or self.transport.is_closing():
            return
        if self._binding is not None:
            # The rest of the body is waited for on the long road.
            self._take_the_long_road()
        elif self._head_open and self._head_timer is None:
            # The usual head arrives at once and costs no timer.
            self._start_head_timer()
        if self._expects_nothing and not self._is_answering():
            self.transport.close()

    def _refuse(self, words: str) -> None:
        """Parses nothing more, and refuses the last request after the answers to the requests before it."""
        self._refusal, self._held = words, NOTHING
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
            self.flow.hold()
        else:
            self.send_400_response(words)

    def _write_refusal(self, error: ProtocolError) -> None:
        if self._service is None:
            # Without a service the application has no vocabulary for an error.
            self.transport.abort()
            return
        response = error_response(error, self._service)
        head = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
        line = STATUS_LINE[response.status_code]
        self.transport.write(b"%b%bconnection: close\r\n\r\n%b" % (line, head, bytes(response.body)))
        self.transport.close()

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
        if self._held or self._is_answering():
            # The rest of the head may be here: an earlier request of the same connection still waits for its answer.
            self._start_head_timer()
        elif not self.transport.is_closing():
            self.transport.close_now()
