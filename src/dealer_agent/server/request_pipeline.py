"""READ SECOND: makes one response of one request, for both bindings and both paths (ASGI and the fast path).

`answer` is the path over ASGI, which every request can use. `answer_plain` is the fast path (`server.fast_path`), for
complete and valid requests of the reading skills. Both apply the list of `server.guards`, and then call the skill.
"""

import re
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from time import perf_counter

from msgspec import UNSET, Struct
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from dealer_agent.inventory.listing import LISTING_ID
from dealer_agent.protocol.errors import AuthRequired, ContactConsentRequired, InvalidConsent, LeadNotFound
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.response_bodies import SkillResult
from dealer_agent.protocol.skill import INVENTORY_VEHICLE, LEAD_SUBMIT, InventorySearchRequest, LeadSubmitRequest
from dealer_agent.protocol.task_list import TaskPage
from dealer_agent.protocol.vocabulary import Vocabulary
from dealer_agent.server.admission import too_busy
from dealer_agent.server.bindings import Binding, success_body
from dealer_agent.server.body import JSON, ClientGoneError, read_body
from dealer_agent.server.counting import UNKNOWN_SKILL, lead_outcome
from dealer_agent.server.documents import HEAD_LINES
from dealer_agent.server.error_responses import as_protocol_error
from dealer_agent.server.guards import (
    BODY_GUARDS,
    HEAD_GUARDS,
    REQUEST_GUARDS,
    IncomingRequest,
    count_malformed_lead,
    names_offers,
    pass_all_guards,
    pass_guards,
    share_counts,
)
from dealer_agent.server.log import log_request
from dealer_agent.server.named_extensions import named_extensions
from dealer_agent.server.service import UNKNOWN_LEADS_RULE, Service
from dealer_agent.server.token_challenges import challenge
from dealer_agent.skills import TimedRequest, answer_offer, read, submit_lead, with_hold
from dealer_agent.storage.daily_counts import OK
from dealer_agent.storage.transaction import current_span

PLAIN_TEXT = "text/plain; charset=utf-8"
_COMMON_HEADERS = "cache-control: no-store\r\nx-content-type-options: nosniff\r\n" + HEAD_LINES


class HttpResponse(Struct, frozen=True, gc=False):
    """A response: its status, its header lines as bytes, and its body in pieces."""

    status: int
    head: bytes
    body: list[bytes]


async def answer(incoming: IncomingRequest, receive: Receive) -> HttpResponse:
    """The response to any request. Raises ClientGoneError."""
    service = incoming.service
    settings = service.settings.service
    try:
        await pass_guards(HEAD_GUARDS, incoming)
        incoming.body = await read_body(
            receive,
            settings.body_limit_bytes,
            settings.request_timeout_seconds,
            settings.largest_body_bytes,
            partial(service.process.room_for_unknown_type, incoming.peer, incoming.headers),
        )
        await pass_guards(BODY_GUARDS, incoming)
        await service.load.wait_for_turn(service.dealer_id, is_lead=incoming.is_lead)
        await pass_guards(REQUEST_GUARDS, incoming)
        if incoming.request.skill.is_lead:
            return _success(incoming, await _submit_lead(incoming))
        if incoming.request.skill.is_extension:
            return _success(incoming, await _answer_offer(incoming))
        if incoming.request.skill is INVENTORY_VEHICLE and names_offers(incoming):
            return await _read_with_hold(incoming)
        return _recorded(incoming, _run_reading_skill(incoming), service.dealer.revision)
    except TaskPage as page:
        return _response(incoming, 200, (), incoming.binding.encode_result(incoming.call_id, [page.body]))
    except ClientGoneError:
        raise
    except Exception as cause:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
        return _failure(incoming, cause)


def decode_plain(incoming: IncomingRequest, body: bytes) -> bool:
    """Decodes a body into `incoming`. Returns whether `answer_plain` can answer it; if not, `incoming` stays as it was.

    This comes before the rate limits, because to decode a small body costs less than to refuse it. An invalid request
    takes the path over ASGI, where the limits come first, so that clients see no difference.
    """
    if len(body) > incoming.service.settings.service.body_limit_bytes:
        return False
    decoded = incoming.binding.decode_plain(body, incoming.service.vocabularies)
    if decoded is None:
        return False
    if decoded[1].skill is INVENTORY_VEHICLE and names_offers(incoming):
        # The response says whether the vehicle is held, which only the database knows.
        return False
    incoming.body, incoming.decoded, incoming.request = body, decoded, decoded[1]
    return True


def answer_plain(incoming: IncomingRequest) -> HttpResponse:
    """The response to a request for which `decode_plain` was true."""
    try:
        pass_all_guards(incoming)
        return _recorded(incoming, _run_reading_skill(incoming), incoming.service.dealer.revision)
    except Exception as cause:  # noqa: BLE001 - the boundary: recorded, and answered as INTERNAL_ERROR.
        return _failure(incoming, cause)


def log_response(incoming: IncomingRequest, response: HttpResponse) -> None:
    """Counts a request, ends its span and writes its log line, after the response is sent."""
    if incoming.span is not None:
        incoming.span.end_request(incoming.line, response.status)
    if incoming.service.response_counts is not None:
        incoming.service.response_counts.count(
            incoming.line.skill, incoming.line.code, incoming.caller.kind, incoming.started
        )
    if incoming.service.settings.logs.access:
        incoming.line.status = response.status
        log_request(incoming.line, incoming.started)


def response_head(media_type: str, headers: Iterable[tuple[str, str]], length: str, request_id: str) -> bytes:
    """The header lines of a response, without those that uvicorn adds to every response."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers) if headers else ""
    return (
        f"content-type: {media_type}\r\n{lines}{_COMMON_HEADERS}"
        f"content-length: {length}\r\nx-request-id: {request_id}\r\n"
    ).encode()


async def handle_post(binding: Binding, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one POST of a binding over ASGI."""
    peer = scope["client"][0] if scope.get("client") else None
    headers = scope["headers"]
    incoming = IncomingRequest(
        binding,
        service,
        headers,
        dict(headers),
        peer,
        scope.get("raw_path") or scope["path"].encode(),
        scope["query_string"],
    )
    if binding.version is not None:
        incoming.line.version = binding.version.name
    try:
        response = await answer(incoming, receive)
    except ClientGoneError:
        return
    lines = [line.split(b": ", 1) for line in response.head.split(b"\r\n")[:-1]]
    await send({"type": "http.response.start", "status": response.status, "headers": lines})
    await send({"type": "http.response.body", "body": b"".join(response.body)})
    log_response(incoming, response)


def _run_reading_skill(incoming: IncomingRequest) -> SkillResult:
    """The result of a reading skill. It is counted for the daily counts."""
    service, request = incoming.service, incoming.request
    if incoming.span is None:
        result = read(service.dealer, request)
    else:
        with incoming.span.step(request.skill.id):
            result = read(service.dealer, request)
    service.counts.count_answer(
        request.skill.id, incoming.caller.identity, incoming.fields, request.payload, result.data
    )
    return result


async def _read_with_hold(incoming: IncomingRequest) -> HttpResponse:
    """The response of inventory.vehicle, with the end of a hold of the vehicle (docs/protocol.md#offer-held)."""
    # The stock may be another one after the wait.
    revision, desk = incoming.service.dealer.revision, incoming.service.dealer.desk
    result = _run_reading_skill(incoming)
    assert desk is not None, "the dealer has the offers extension"
    vehicle_id = LISTING_ID.decode(result.data).vehicle_id
    held_until = await desk.held_until(vehicle_id, datetime.now(UTC), _seconds_left(incoming))
    if held_until is None:
        return _recorded(incoming, result, revision)
    return _recorded(incoming, with_hold(result, held_until), revision, held_until)


def _seconds_left(incoming: IncomingRequest) -> float:
    """The time that is left for a request."""
    return incoming.service.settings.service.request_timeout_seconds - (perf_counter() - incoming.started)


async def _submit_lead(incoming: IncomingRequest) -> SkillResult:
    """Stores a lead in the time that is left for the request, and counts its outcome."""
    _check_offer(incoming)
    service = incoming.service
    # The task is of this request only.
    current_span.set(incoming.span)
    try:
        with nullcontext() if incoming.span is None else incoming.span.step(incoming.request.skill.id):
            result = await submit_lead(
                service.dealer,
                incoming.request,
                caller=incoming.caller,
                quarantined=incoming.policy.is_quarantined,
                body=incoming.body,
                seconds=_seconds_left(incoming),
                names_offers=names_offers(incoming),
            )
    except (ContactConsentRequired, InvalidConsent):
        count_malformed_lead(incoming)
        await share_counts(incoming)
        raise
    service.counts.count(incoming.request.skill.id, lead_outcome(result), incoming.caller.identity, incoming.fields)
    return result


def _check_offer(incoming: IncomingRequest) -> None:
    """Refuses a lead that names a quote or a hold, unless it names the offers extension and the dealer has it."""
    payload = incoming.request.payload
    if isinstance(payload, LeadSubmitRequest) and payload.offer is not UNSET and not names_offers(incoming):
        words = f"needs the offers extension: add {OFFERS_EXTENSION} to the header A2A-Extensions, or omit `offer`"
        raise validation_error([Problem(("offer",), words, "additionalProperties")], "payload")


async def _answer_offer(incoming: IncomingRequest) -> SkillResult:
    """Answers a skill of the offers extension in the time that is left for the request, and counts it."""
    service, request = incoming.service, incoming.request
    assert request.payload is not None, "the payload is checked before"
    current_span.set(incoming.span)
    timed = TimedRequest(request.payload, incoming.caller, datetime.now(UTC), _seconds_left(incoming))
    try:
        with nullcontext() if incoming.span is None else incoming.span.step(request.skill.id):
            result = await answer_offer(service.dealer, timed)
    except LeadNotFound:
        incoming.count(UNKNOWN_LEADS_RULE, incoming.address)
        await share_counts(incoming)
        raise
    service.counts.count(request.skill.id, OK, incoming.caller.identity, incoming.fields)
    return result


def _success(incoming: IncomingRequest, result: SkillResult) -> HttpResponse:
    """The response with the result of a skill."""
    message_id = incoming.line.request_id
    body = success_body(incoming.binding, incoming.request, incoming.call_id, message_id, result)
    return _response(incoming, 200, _extensions(incoming), body)


def _recorded(incoming: IncomingRequest, result: SkillResult, revision: int, held_until: str = "") -> HttpResponse:
    """The response with the result of a reading skill. It is recorded if the dealer's settings say so.

    A search that asks for `privacy.anonymous` is recorded without the identity of its caller.
    """
    response = _success(incoming, result)
    replies = incoming.service.replies
    if replies is not None:
        payload, caller = incoming.request.payload, incoming.caller
        if isinstance(payload, InventorySearchRequest) and payload.privacy and payload.privacy.anonymous:
            caller = caller._replace(identity="")
        replies.add(
            incoming.line.request_id,
            caller,
            incoming.binding,
            incoming.request.skill.id,
            revision,
            incoming.body,
            response.body,
            held_until,
        )
    return response


def _failure(incoming: IncomingRequest, cause: Exception) -> HttpResponse:
    """The error response for an exception. Counts the error and notes it for the log line."""
    line = incoming.line
    error, error_id = as_protocol_error(cause, line.request_id), f"err_{line.request_id}"
    line.code, line.error_id = error.code, error_id
    skill_id = UNKNOWN_SKILL if line.skill is UNSET else line.skill
    incoming.service.counts.count(skill_id, error.code, incoming.caller.identity, incoming.fields)
    if error.http >= 500 and line.skill == LEAD_SUBMIT.id:
        incoming.service.process.failed_leads[incoming.service.dealer_id] += 1
    status, body = incoming.binding.encode_error(
        error, incoming.vocabulary, error_id, datetime.now(UTC), incoming.call_id
    )
    headers: Iterable[tuple[str, str]] = error.headers
    if isinstance(error, AuthRequired):
        headers = challenge(error, incoming.service, incoming.scope)
        if incoming.binding.version is not None:
            # No published version has a payload for this.
            incoming.media_type = PLAIN_TEXT
    return _response(incoming, status, headers, [body])


def _response(
    incoming: IncomingRequest, status: int, headers: Iterable[tuple[str, str]], body: list[bytes]
) -> HttpResponse:
    length = str(sum(map(len, body)))
    return HttpResponse(status, response_head(incoming.media_type, headers, length, incoming.line.request_id), body)


def _extensions(incoming: IncomingRequest) -> Iterable[tuple[str, str]]:
    """The header that names the requested extensions which the service knows (docs/protocol.md#envelope)."""
    if b"a2a-extensions" not in incoming.fields:
        return ()
    version = incoming.binding.version
    ours = incoming.service.vocabularies.extensions if version is None else frozenset({version.extension_uri})
    if version is None and incoming.service.dealer.desk is not None:
        ours |= {OFFERS_EXTENSION}
    named = dict.fromkeys(uri for uri in named_extensions(incoming.headers) if uri in ours)
    return (("a2a-extensions", ", ".join(named)),) if named else ()


_SERVER_LINES, _LENGTH, _CALL_ID = b"<server>", b"<length>", b"<call>"
_ID, _TIME = b"0" * 26, b"2000-01-01T00:00:00.000Z"
_PLACEHOLDERS = re.compile(b"(" + b"|".join((_SERVER_LINES, _LENGTH, _CALL_ID, _ID, _TIME)) + b")")


def overload_response(service: Service, binding: Binding, body: bytes, server_lines: bytes) -> bytes:
    """The response of an overloaded process to a request with this body, in the default vocabulary of the dealer.

    All but ids, times and lengths is made once. `server_lines` are the header lines that uvicorn adds.
    """
    key = _overload_template, binding
    if key not in service.documents:
        service.documents[key] = _overload_template(binding, service.vocabularies.default)
    pieces, length = service.documents[key]
    call_id = binding.call_id(body)
    values = {
        _SERVER_LINES: server_lines,
        _LENGTH: b"%d" % (length + len(call_id)),
        _CALL_ID: call_id,
        _ID: new_ulid().encode(),
        _TIME: datetime.now(UTC).isoformat(timespec="milliseconds").encode()[:-6] + b"Z",
    }
    return b"".join([values.get(piece, piece) for piece in pieces])


def _overload_template(binding: Binding, vocabulary: Vocabulary) -> tuple[list[bytes], int]:
    """The response `too_busy` in pieces, some of them placeholders.

    Also returns the length of its body without the call's id.
    """
    error = too_busy()
    at = datetime.fromisoformat(_TIME.decode())
    status, body = binding.encode_error(error, vocabulary, f"err_{_ID.decode()}", at, _CALL_ID)
    head = response_head(JSON, error.headers, _LENGTH.decode(), _ID.decode())
    response = STATUS_LINE[status] + _SERVER_LINES + head + b"\r\n" + body
    return _PLACEHOLDERS.split(response), len(body) - body.count(_CALL_ID) * len(_CALL_ID)
