"""One request in, one answer out: the core that both bindings share (specification, part 4; contract, part 3).

Reads top to bottom in the contract's order: size, media type, address rate, token, JSON, envelope, skill, the skill's
token and rate, payload, consent, business rules. A binding only decodes the body and wraps the answer.
"""

import re
from datetime import UTC, datetime
from time import perf_counter
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs

import structlog
from starlette.types import Receive, Scope, Send

from dealer_agent.protocol.envelope import Request
from dealer_agent.protocol.errors import InternalError, ProtocolError, UnsupportedSkill, VersionNotSupported
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.replies import Answer, reply_body
from dealer_agent.protocol.requests import LeadSubmitRequest
from dealer_agent.protocol.vocabulary import Vocabulary, Wire
from dealer_agent.server.body import JSON, ClientGoneError, read_body, refuse_declared_size, reply_media_type
from dealer_agent.server.callers import admit, admit_to_skill, caller_of
from dealer_agent.server.log import places
from dealer_agent.server.service import Service
from dealer_agent.skills import read, submit_lead
from dealer_agent.storage.errors import StorageError

log = structlog.get_logger()

Headers = list[tuple[bytes, bytes]]

_SUPPORTED_VERSION = re.compile(r"1(\.[0-9]+)+", re.ASCII)
_FIXED_HEADERS: Headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class Binding(Protocol):
    """How one binding writes requests and answers."""

    name: str

    def decode(self, body: bytes, wire: Wire, *, lenient: bool) -> tuple[bytes, Request | ProtocolError]:
        """The call's id (where the binding has one) and its request, or what is wrong with it."""

    def success(self, call_id: bytes, reply: bytes) -> bytes:
        """The body of a successful answer."""

    def failure(
        self, error: ProtocolError, words: Vocabulary, error_id: str, at: datetime, call_id: bytes
    ) -> tuple[int, bytes]:
        """HTTP status and body of an error's answer."""


class _Reply(NamedTuple):
    status: int
    body: bytes
    headers: Headers


async def exchange(binding: Binding, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one POST of a binding. The request's id is the reply's messageId, the error's id and the log's."""
    started = perf_counter()
    request_id = new_ulid()
    about: dict[str, str] = {}
    try:
        reply = await _reply(binding, service, scope, receive, request_id, about)
    except ClientGoneError:
        return
    status, body, headers = reply
    headers += _FIXED_HEADERS
    headers.append((b"content-length", str(len(body)).encode()))
    headers.append((b"x-request-id", request_id.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
    if service.options.access_log:
        took = round((perf_counter() - started) * 1000, 3)
        log.info("request", request_id=request_id, binding=binding.name, status=status, ms=took, **about)


async def _reply(
    binding: Binding, service: Service, scope: Scope, receive: Receive, request_id: str, about: dict[str, str]
) -> _Reply:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    media_type = JSON
    call_id = b"null"
    words = service.wire.default
    error_id = f"err_{request_id}"
    try:
        refuse_declared_size(_text(headers, b"content-length"), service.options.body_limit_bytes)
        media_type = reply_media_type(_text(headers, b"content-type"))
        address = caller_of(scope, service)
        token_id = admit(service, address, _text(headers, b"authorization"))
        body = await read_body(receive, service.options.body_limit_bytes, service.options.body_timeout_seconds)
        call_id, request = binding.decode(body, service.wire, lenient=service.options.lenient_configuration)
        words = request.vocabulary or words
        _refuse_other_versions(headers, scope)
        if isinstance(request, ProtocolError):
            raise request  # noqa: TRY301 - a decoder returns its error, because the call's id comes with it.
        about["skill"] = request.skill.id
        answer = await _answer(service, request, address, token_id, body)
        success = binding.success(call_id, reply_body(request, request_id, answer))
        return _Reply(
            200, success, [(b"content-type", media_type.encode()), *_extensions(headers, scope, service.wire)]
        )
    except ProtocolError as error:
        refused = error
    except ClientGoneError:
        raise
    except Exception as fault:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
        # The message of a foreign error may hold what a customer wrote; a StorageError's is our own.
        told = {"problem": str(fault)} if isinstance(fault, StorageError) else {}
        log.error(
            "fault",
            request_id=request_id,
            error_id=error_id,
            error=type(fault).__qualname__,
            places=places(fault),
            **told,
        )
        refused = InternalError("Something failed on the dealer's side. The same request may be sent again.")
    about |= {"code": refused.row.code, "error_id": error_id}
    status, failure = binding.failure(refused, words, error_id, datetime.now(UTC), call_id)
    more = [(name.encode(), value.encode()) for name, value in refused.headers]
    return _Reply(status, failure, [(b"content-type", media_type.encode()), *more])


async def _answer(service: Service, request: Request, address: str, token_id: str | None, body: bytes) -> Answer:
    skill = request.skill
    if skill.id not in service.options.skills:
        raise UnsupportedSkill(f"This dealer does not offer {skill.id}.", {"in": "payload", "instancePath": "/type"})
    admit_to_skill(service, skill.id, address, token_id)
    if skill.payload is LeadSubmitRequest:
        return await submit_lead(service.dealer, request, token_id=token_id, body=body)
    return read(service.dealer, request)


def _text(headers: dict[bytes, bytes], name: bytes) -> str | None:
    value = headers.get(name)
    return None if value is None else value.decode("latin-1")


def _refuse_other_versions(headers: dict[bytes, bytes], scope: Scope) -> None:
    """Only A2A 1.x is spoken here (contract, part 2); who does not say gets it."""
    asked = _text(headers, b"a2a-version")
    if asked is None and scope["query_string"]:
        given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("A2A-Version")
        asked = given[0] if given else None
    if asked is not None and not _SUPPORTED_VERSION.fullmatch(asked.strip()):
        raise VersionNotSupported("This agent speaks A2A 1.0: send A2A-Version: 1.0.", {"supported": ["1.0"]})


def _extensions(headers: dict[bytes, bytes], scope: Scope, wire: Wire) -> Headers:
    """The profile's extension, named back to who asks for it (contract, part 2), in one header line or in several."""
    if b"a2a-extensions" not in headers:
        return []
    asked = [value.decode("latin-1") for name, value in scope["headers"] if name == b"a2a-extensions"]
    known = [uri for line in asked for uri in (part.strip() for part in line.split(",")) if uri in wire.extensions]
    return [(b"a2a-extensions", ", ".join(known).encode())] if known else []
