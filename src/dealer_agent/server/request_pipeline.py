"""One request in, one answer out: the core that both bindings share (specification, part 4; contract, part 3).

Reads top to bottom in the contract's order: size, media type, address rate, token, JSON, envelope, skill, the skill's
token and rate, payload, consent, business rules. A binding only decodes the body and wraps the answer.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import Protocol
from urllib.parse import unquote_plus

import structlog
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import (
    ContactConsentRequired,
    InternalError,
    InvalidConsent,
    ProtocolError,
    RateLimited,
    UnsupportedSkill,
    VersionNotSupported,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.replies import Answer, reply_pieces
from dealer_agent.protocol.skill import LEAD_SUBMIT
from dealer_agent.protocol.vocabulary import Vocabulary, Wire
from dealer_agent.server.body import (
    JSON,
    ClientGoneError,
    cost_of,
    declared_size,
    read_body,
    refuse_large_reading,
    reply_media_type,
)
from dealer_agent.server.client_identity import (
    admit,
    admit_to_skill,
    count_address,
    count_as_malformed,
    counted_address,
)
from dealer_agent.server.cross_origin import HEAD_LINES
from dealer_agent.server.log import RequestLine, log_request, places
from dealer_agent.server.service import ADDRESS_RULE, Service
from dealer_agent.skills import read, submit_lead
from dealer_agent.storage.errors import StorageError

log = structlog.get_logger()

Headers = list[tuple[bytes, bytes]]

LEAD = LEAD_SUBMIT.id.encode()
"""Every lead has this in its body. An overloaded process refuses leads later than reading requests."""

_SUPPORTED_VERSION = re.compile(r"1(\.[0-9]+)+", re.ASCII)
# The first one counts. Not parse_qs, which takes 20 ms for a long query.
_VERSION_IN_QUERY = re.compile(rb"(?:^|&)A2A-Version=([^&]*)")
_EXTENSIONS_READ = 100
"""How many of the extensions that a request names are read."""
_LINES_OF_EVERY_REPLY = "cache-control: no-store\r\nx-content-type-options: nosniff\r\n" + HEAD_LINES


class Binding(Protocol):
    """How one binding writes requests and answers."""

    name: str

    def decode(self, body: bytes, wire: Wire, *, lenient: bool) -> tuple[bytes, Request | ProtocolError]:
        """The call's id (where the binding has one) and its request, or what is wrong with it."""

    def decode_plain(self, body: bytes, wire: Wire) -> tuple[bytes, Request] | None:
        """The same of a reading skill's request that is in order; None of every other body."""

    def names_a_lead(self, body: bytes) -> bool:
        """Whether the body is a lead, at a cost far below that of decoding it."""

    def call_id(self, body: bytes) -> bytes:
        """The id of the call in an unchecked body; `null` when it has none."""

    def success(self, call_id: bytes, reply: list[bytes]) -> list[bytes]:
        """The body of a successful answer; both in pieces."""

    def failure(
        self, error: ProtocolError, words: Vocabulary, error_id: str, at: datetime, call_id: bytes
    ) -> tuple[int, bytes]:
        """HTTP status and body of an error's answer."""


class Head(Struct, frozen=True, gc=False):
    """What a request says before its body: its header lines with lower-case names, the same by name (the last line of
    each), the peer's address, the query."""

    lines: Headers
    fields: Mapping[bytes, bytes]
    peer: str | None
    query: bytes = b""


class Reply(Struct, frozen=True, gc=False):
    """An answer: its status, its header lines as they are sent, and its body in pieces."""

    status: int
    head: bytes
    body: list[bytes]


class RequestPipeline:
    """One POST of a binding. The request's id is the reply's messageId, the error's id and the log's.

    Two roads lead over the same steps. On the long one the body is waited for, and every request may take it. On the
    short one a body that is there already, a reading skill's and plainly in order, is answered at once.
    """

    __slots__ = (
        "_binding",
        "_call_id",
        "_counted",
        "_head",
        "_headers",
        "_line",
        "_media_type",
        "_plain",
        "_service",
        "_started",
        "_words",
    )

    def __init__(self, binding: Binding, service: Service, head: Head) -> None:
        self._started = perf_counter()
        self._binding = binding
        self._service = service
        self._head = head
        self._headers = head.fields
        self._media_type = JSON
        self._call_id = b"null"
        self._counted = 0
        self._words = service.wire.default
        self._line = RequestLine(new_ulid(), binding.name)

    async def reply(self, receive: Receive) -> Reply:
        """The answer, by the long road. Raises ClientGoneError."""
        service = self._service
        settings = service.settings.service
        try:
            address, token_id = self._admit()
            body = await read_body(receive, settings.largest_body_bytes, settings.request_timeout_seconds)
            self._count_body(body, address)
            await service.load.turn(patient=LEAD in body and self._binding.names_a_lead(body))
            self._call_id, decoded = self._binding.decode(body, service.wire, lenient=settings.lenient_configuration)
            request = self._admit_to_skill(decoded, address, token_id)
            if request.skill.is_lead:
                answer = await self._submit_lead(request, body, address, token_id)
            else:
                answer = read(service.dealer, request)
            return self._success(request, answer)
        except ClientGoneError:
            raise
        except Exception as fault:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
            return self._failure(fault)

    def can_answer_at_once(self, body: bytes) -> bool:
        """Whether the body is a valid request of a reading skill for the short road. Nothing is counted yet."""
        if len(body) > self._service.settings.service.body_limit_bytes:
            return False
        # Decoded before the rate limit: for a body this small the refusal costs more. An invalid request still takes
        # the long road, where the limits come first, so callers see no difference.
        self._plain = self._binding.decode_plain(body, self._service.wire)
        return self._plain is not None

    def reply_at_once(self) -> Reply:
        """The answer, by the short road, to a request that can be answered at once."""
        try:
            assert self._plain is not None
            call_id, request = self._plain
            self._admit_at_once(call_id, request)
            return self._success(request, read(self._service.dealer, request))
        except Exception as fault:  # noqa: BLE001 - as above.
            return self._failure(fault)

    def log(self, reply: Reply) -> None:
        """Writes the request's line, once it is answered."""
        if self._service.settings.logs.access:
            self._line.status = reply.status
            log_request(self._line, self._started)

    def _admit(self) -> tuple[str, str | None]:
        """The first gate, by the head alone: declared size, media type, the address's rate, the token.

        Returns the address, and the token's id where one was shown.
        """
        address = self._judge_head()
        return address, admit(self._service, address, _text(self._headers, b"authorization"), self._counted)

    def _judge_head(self) -> str:
        """Declared size and media type. Returns the address that the request is counted by."""
        headers, service = self._headers, self._service
        address = counted_address(self._head.lines, self._head.peer, service)
        try:
            size = declared_size(headers.get(b"content-length"), service.settings.service.largest_body_bytes)
            self._media_type = reply_media_type(headers.get(b"content-type"))
        except ProtocolError:
            # In the contract's order this error comes before the rate limit. The request still counts.
            service.limits.hit(ADDRESS_RULE, address)
            raise
        self._counted = cost_of(size)
        return address

    def _count_body(self, body: bytes, address: str) -> None:
        """Counts a chunked body, whose size the head does not have, and refuses a large body that is no lead."""
        service, cost = self._service, cost_of(len(body))
        if cost > self._counted:
            count_address(service, address, cost - self._counted)
        settings = service.settings.service
        if len(body) > settings.body_limit_bytes and not self._binding.names_a_lead(body):
            refuse_large_reading(len(body), settings.body_limit_bytes, settings.lead_body_limit_bytes)

    async def _submit_lead(self, request: Request, body: bytes, address: str, token_id: str | None) -> Answer:
        """The answer to a lead. A lead with a defective payload or consent counts as malformed, not as a lead."""
        service = self._service
        left = service.settings.service.request_timeout_seconds - (perf_counter() - self._started)
        if request.problems:
            count_as_malformed(service, request.skill.id, address, token_id)
        try:
            return await submit_lead(service.dealer, request, token_id=token_id, body=body, seconds=left)
        except (ContactConsentRequired, InvalidConsent):
            count_as_malformed(service, request.skill.id, address, token_id)
            raise

    def _admit_to_skill(self, decoded: Request | ProtocolError, address: str, token_id: str | None) -> Request:
        """The second gate: the version, JSON and envelope, the skill, its token, its rate."""
        self._words = decoded.vocabulary or self._words
        _refuse_other_versions(self._headers, self._head)
        if isinstance(decoded, ProtocolError):
            raise decoded
        service, skill_id = self._service, decoded.skill.id
        self._line.skill = skill_id
        if skill_id not in service.settings.service.skills:
            details = {"in": "payload", "instancePath": "/type"}
            raise UnsupportedSkill(f"This dealer does not offer {skill_id}.", details)
        admit_to_skill(service, skill_id, address, token_id)
        return decoded

    def _admit_at_once(self, call_id: bytes, request: Request) -> None:
        """Both gates; in one step where nothing but the two rates is left to be asked."""
        headers, service, skill_id = self._headers, self._service, request.skill.id
        settings = service.settings
        if (
            b"authorization" in headers
            or settings.token_skills
            or headers.get(b"a2a-version") != b"1.0"
            or headers.get(b"content-type") != b"application/json"
            or skill_id not in settings.service.skills
        ):
            address, token_id = self._admit()
            self._call_id = call_id
            self._admit_to_skill(request, address, token_id)
            return
        # The body is whole and small: its size needs no judgement, and it counts once.
        address = counted_address(self._head.lines, self._head.peer, service)
        refused = service.limits.hit_in_turn((ADDRESS_RULE, skill_id), address)
        if refused is None or refused.rule == skill_id:
            # Whose address is refused is told so by the head alone; from here on the body has a say.
            self._call_id, self._words, self._line.skill = call_id, request.vocabulary, skill_id
        if refused is not None:
            raise RateLimited(refused.wait)

    def _success(self, request: Request, answer: Answer) -> Reply:
        pieces = self._binding.success(self._call_id, reply_pieces(request, self._line.request_id, answer))
        return self._reply(200, _extensions(self._headers, self._head, self._service.wire), pieces)

    def _failure(self, fault: Exception) -> Reply:
        """The answer to what was refused; a fault of ours is recorded, and refused as such."""
        error_id = f"err_{self._line.request_id}"
        refused = fault if isinstance(fault, ProtocolError) else self._recorded(fault, error_id)
        self._line.code, self._line.error_id = refused.code, error_id
        status, body = self._binding.failure(refused, self._words, error_id, datetime.now(UTC), self._call_id)
        return self._reply(status, refused.headers, [body])

    def _recorded(self, fault: Exception, error_id: str) -> InternalError:
        log.error(
            "fault",
            request_id=self._line.request_id,
            error_id=error_id,
            error=type(fault).__qualname__,
            places=places(fault),
            # The message of a foreign error may hold what a customer wrote; a StorageError's is our own.
            **({"problem": str(fault)} if isinstance(fault, StorageError) else {}),
        )
        return InternalError("Something failed on the dealer's side. The same request may be sent again.")

    def _reply(self, status: int, more: Iterable[tuple[str, str]], body: list[bytes]) -> Reply:
        length = sum(map(len, body))
        return Reply(status, reply_head(self._media_type, more, str(length), self._line.request_id), body)


def reply_head(media_type: str, more: Iterable[tuple[str, str]], length: str, request_id: str) -> bytes:
    """The header lines of a reply, without the server's own."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in more) if more else ""
    return (
        f"content-type: {media_type}\r\n{lines}{_LINES_OF_EVERY_REPLY}"
        f"content-length: {length}\r\nx-request-id: {request_id}\r\n"
    ).encode()


async def pipeline(binding: Binding, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one POST of a binding over ASGI."""
    peer = scope["client"][0] if scope.get("client") else None
    under_way = RequestPipeline(
        binding, service, Head(scope["headers"], dict(scope["headers"]), peer, scope["query_string"])
    )
    try:
        reply = await under_way.reply(receive)
    except ClientGoneError:
        return
    headers = [line.split(b": ", 1) for line in reply.head.split(b"\r\n")[:-1]]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"".join(reply.body)})
    under_way.log(reply)


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _refuse_other_versions(headers: Mapping[bytes, bytes], head: Head) -> None:
    """Only A2A 1.x is spoken here (contract, part 2); who does not say gets it."""
    asked = _text(headers, b"a2a-version")
    if asked == "1.0":
        return
    if asked is None and (given := _VERSION_IN_QUERY.search(head.query)):
        asked = unquote_plus(given[1].decode("latin-1"))
    if asked is not None and not _SUPPORTED_VERSION.fullmatch(asked.strip()):
        raise VersionNotSupported("This agent speaks A2A 1.0: send A2A-Version: 1.0.", {"supported": ["1.0"]})


def _extensions(headers: Mapping[bytes, bytes], head: Head, wire: Wire) -> Iterable[tuple[str, str]]:
    """The profile's extension, named back to who asks for it (contract, part 2), in one header line or in several."""
    if b"a2a-extensions" not in headers:
        return ()
    lines = (value.decode("latin-1") for name, value in head.lines if name == b"a2a-extensions")
    asked = islice((uri.strip() for line in lines for uri in line.split(",", _EXTENSIONS_READ)), _EXTENSIONS_READ)
    known = dict.fromkeys(uri for uri in asked if uri in wire.extensions)
    return (("a2a-extensions", ", ".join(known)),) if known else ()
