"""The fast path answers requests of the reading skills on their connection, because ASGI costs more than a search.

It replaces what uvicorn makes for each request on the path over ASGI: a request-response cycle, an ASGI scope, an event
and a task. All other work is shared with that path: the guards and the skills (`server.request_pipeline`).

Only complete and usual requests take this path. All others go over ASGI:

- all requests of a dealer whose rate limits are shared, because their store has to be waited for
- signed requests, if machines share the nonces
- leads, invalid requests, and bodies that have not arrived completely or are larger than `FAST_BODY_BYTES`
- other paths and methods, and requests with `Expect`
- requests that wait for an earlier one of their connection, and requests after which the connection closes
- requests of clients that read their responses too slowly

On the path over ASGI, a connection adds to uvicorn's: it counts the bytes of its requests, closes after a refusal if
its client pipelines, and answers errors of HTTP in the form of the protocol.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from dealer_agent.protocol.envelope import LEAD
from dealer_agent.protocol.errors import ProtocolError
from dealer_agent.server.admission import NEVER, Admission
from dealer_agent.server.bindings import Binding
from dealer_agent.server.client_address import Networks, share_address
from dealer_agent.server.client_transport import TURN, ClientTransport
from dealer_agent.server.error_responses import error_response
from dealer_agent.server.guards import IncomingRequest
from dealer_agent.server.nonces import StoredNonces
from dealer_agent.server.request_memory import HeldBytes, no_memory
from dealer_agent.server.request_pipeline import answer_plain, decode_plain, log_response, overload_response
from dealer_agent.server.served_dealers import ServedDealers
from dealer_agent.server.service import Service

DEALERS = "dealers"
"""What the application leaves for its connections in the lifespan's state: the dealers of the process."""

FAST_BODY_BYTES = 4 * 1024
"""The largest body on the fast path. Most reading requests are smaller. They are decoded before their rate limits are
checked, because to refuse them costs more than to decode them."""

UNCOUNTED_BYTES = 2048
"""The largest complete body that is not counted while it waits for its response: to count it costs more than to hold
it, and a connection has one."""

HEADER_BYTES = 160
"""What a header field takes besides its name and its value."""
REQUEST_BYTES = 12 * 1024
"""What a request takes besides its body while the application reads it: a task with a stack of coroutines."""

NOTHING = memoryview(b"")
CLOSE = b"connection: close\r\n"


class QueuedRequest:
    """A request in the queue. uvicorn uses it as a cycle, so later requests of the connection wait for it."""

    __slots__ = ("_connection", "_incoming", "disconnected", "keep_alive", "response_complete")

    body = bytearray()
    """What the application has not received. It is empty, because there is none."""
    message_event = asyncio.Event()
    """uvicorn sets it when the client closes the connection. Nothing waits for it."""

    def __init__(self, connection: "FastPathConnection", incoming: IncomingRequest) -> None:
        self._connection = connection
        self._incoming = incoming
        self.disconnected = self.response_complete = False
        self.keep_alive = True

    def answer(self) -> None:
        """Answers the request. The queue calls this when it is the next one."""
        if not self.disconnected:
            self.response_complete = True
            self._connection.send_response(self._incoming, keep_alive=self.keep_alive)


class FastPathConnection(HttpToolsProtocol):
    """uvicorn's connection with the fast path, whose bytes are counted. `BoundedConnection` calls its methods."""

    # Python reads a slot faster than an attribute in a dictionary.
    __slots__ = (
        "_address",
        "_answering_bytes",
        "_binding",
        "_body",
        "_counted_bytes",
        "_dealers",
        "_fields",
        "_has_no_memory",
        "_head_open",
        "_held",
        "_is_crowded",
        "_is_leaving",
        "_line",
        "_load",
        "_memory",
        "_message_open",
        "_other_bytes",
        "_refused_at",
        "_server_headers",
        "_server_lines",
        "_trusted",
    )

    transport: ClientTransport
    _address: str | None
    _load: Admission
    _memory: HeldBytes
    _trusted: Networks

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._dealers: ServedDealers | None = None
        # When the process last refused a request of this connection because it was overloaded.
        self._refused_at = NEVER
        # The service and the binding of a request that may use the fast path. None before its head and after its end.
        self._binding: tuple[Service, Binding] | None = None
        self._body = b""
        # The headers of this request: the last one of each name.
        self._fields: Mapping[bytes, bytes] = {}
        # The bytes of the body that waits, or that the application has or gets.
        self._answering_bytes = 0
        # Received bytes that are not parsed yet.
        self._held = NOTHING
        # Whether too many pipelined requests wait.
        self._is_crowded = False
        # uvicorn's own headers, and their lines. uvicorn replaces them every second, because of the date.
        self._server_headers: list[tuple[bytes, bytes]] | None = None
        self._server_lines = b""
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn's own.
        """Called by the event loop."""
        super().connection_made(transport)
        self._dealers = self.app_state.get(DEALERS)
        self._load = Admission() if self._dealers is None else self._dealers.process.load

    def _may_take_fast_path(self) -> bool:
        """Whether the request is plain HTTP, and no earlier request of the connection waits for its response."""
        parser, fields = self.parser, self._fields
        # Without these headers only HTTP/1.1 keeps a connection open. To ask the parser for the version takes longer.
        is_http_1_1 = b"connection" not in fields and b"proxy-connection" not in fields
        return (
            parser.get_method() == b"POST"
            and parser.should_keep_alive()
            and (is_http_1_1 or parser.get_http_version() == "1.1")
            and not self.expect_100_continue
            and not self.flow.write_paused
            and (self.cycle is None or self.cycle.response_complete)
        )

    def _handle(self, service: Service, binding: Binding) -> bool:
        """Answers, queues or refuses a request. False if it must use the path over ASGI."""
        has_time = self._load.has_time()
        is_refused = not has_time and self._load.is_full(service.dealer_id, self._refused_at)
        if is_refused and LEAD not in self._body:
            self._refuse_as_busy(service, binding)
            return True
        if service.shared_limits is not None:
            return False
        if b"signature-input" in self._fields and isinstance(service.process.nonces, StoredNonces):
            return False
        peer = self.client[0] if self.client else None
        incoming = IncomingRequest(binding, service, self.headers, self._fields, peer, self.url)
        if not decode_plain(incoming, self._body):
            return False
        if has_time:
            self.send_response(incoming)
        elif is_refused:
            self._refuse_as_busy(service, binding)
        else:
            queued = QueuedRequest(self, incoming)
            self.cycle = cast(RequestResponseCycle, queued)
            if len(self._body) > UNCOUNTED_BYTES:
                self._answering_bytes = len(self._body)
            self._load.enqueue(service.dealer_id, queued.answer)
        return True

    def send_response(self, incoming: IncomingRequest, *, keep_alive: bool = True) -> None:
        """Answers a request for which `decode_plain` was true."""
        response = answer_plain(incoming)
        if (self._is_crowded or response.status == 429) and self._closes_after(response.status):
            keep_alive = False
        closing = b"" if keep_alive else CLOSE
        head = STATUS_LINE[response.status], self._current_server_lines(), response.head, closing, b"\r\n"
        # One write: several writes cost uvloop and the kernel more than this copy.
        self.transport.write(b"".join((*head, *response.body)))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()
        log_response(incoming, response)

    def _refuse_as_busy(self, service: Service, binding: Binding) -> None:
        """Sends the response of an overload. The connection may stop reading, or close."""
        self._refused_at = self._load.refuse()
        transport = self.transport
        if not transport.paused & TURN and self._load.stops_reading(partial(transport.resume_reading, TURN)):
            transport.pause_reading(TURN)
        lines, closes = self._current_server_lines(), self._is_crowded and self._closes_after(429)
        transport.write(overload_response(service, binding, self._body, lines + CLOSE if closes else lines))
        if closes:
            transport.close()
        self.on_response_complete()

    def _current_server_lines(self) -> bytes:
        if self._server_headers is not self.server_state.default_headers:
            self._server_headers = self.server_state.default_headers
            self._server_lines = b"".join(b"%b: %b\r\n" % header for header in self._server_headers)
        return self._server_lines

    def _continue_over_asgi(self) -> None:
        """Repeats to uvicorn's connection what the parser has reported of this request."""
        url, headers, expects, body = self.url, self.headers, self.expect_100_continue, self._body
        self._binding, self._body = None, b""
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += headers
        super().on_headers_complete()
        if body:
            super().on_body(body)
        if not self.pipeline and (self._message_open or len(body) > UNCOUNTED_BYTES):
            self._answering_bytes = len(body)

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

    def _closes_after(self, status: int) -> bool:
        """Whether the connection closes after a response with this status. Then `_is_leaving` refuses later requests.

        It closes if too many pipelined requests wait, or if others wait behind a refused one (429): a client that
        repeats refused requests must connect again.
        """
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
        # Behind a trusted proxy, the address of the client is in the headers of the request.
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
        """Forgets the requests that wait, and the bytes that the connection holds."""
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
        """Sends an error about a request that cannot be parsed, and closes the connection."""
        if self._dealers is None:
            # Only a process with a service has a vocabulary for errors.
            self.transport.abort()
            return
        response = error_response(error, self._dealers.process)
        head = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
        line = STATUS_LINE[response.status_code]
        self.transport.write(b"%b%bconnection: close\r\n\r\n%b" % (line, head, bytes(response.body)))
        self.transport.close()
