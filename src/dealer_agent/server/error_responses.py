"""Answers errors outside the two bindings, and unexpected exceptions (docs/protocol.md#errors)."""

from datetime import UTC, datetime

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response

from dealer_agent.protocol.errors import AuthRequired, InternalError, ProtocolError, UnsupportedSkill
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.published_versions import PublishedVersion
from dealer_agent.protocol.response_bodies import http_error_body
from dealer_agent.protocol.version_errors import http_error
from dealer_agent.protocol.vocabulary import Vocabulary
from dealer_agent.server.body import JSON
from dealer_agent.server.documents import READABLE_ANYWHERE
from dealer_agent.server.log import RequestLine, code_positions, log_request
from dealer_agent.server.service import MESSAGE_SEND, RPC, Process, Service
from dealer_agent.storage.errors import DealerUnknown, StorageError, TokenRevoked

log = structlog.get_logger()

NOT_VALID_HERE = "The bearer token is not valid here."


def as_protocol_error(cause: Exception, request_id: str) -> ProtocolError:
    """The error that answers a request. An exception that is not expected is logged, and becomes INTERNAL_ERROR.

    A dealer may be disabled or removed, and a token revoked, before its lead is stored.
    """
    if isinstance(cause, ProtocolError):
        return cause
    if isinstance(cause, DealerUnknown):
        return UnsupportedSkill("There is nothing at this address.")
    if isinstance(cause, TokenRevoked):
        return AuthRequired.of_token(NOT_VALID_HERE)
    # The message of another package's exception may contain what a customer wrote. A StorageError's never does.
    problem = {"problem": str(cause)} if isinstance(cause, StorageError) else {}
    ids = {"request_id": request_id, "error_id": f"err_{request_id}"}
    log.error("fault", **ids, error=type(cause).__qualname__, places=code_positions(cause), **problem)
    return InternalError("Something failed on the dealer's side. The same request may be sent again.")


def error_response(
    error: ProtocolError,
    process: Process,
    wire: Vocabulary | PublishedVersion | None = None,
    request_id: str | None = None,
) -> Response:
    """An error outside the bindings, in the vocabulary of a dealer, of a published version, or of the process.

    Its id is in the log.
    """
    request_id = request_id or new_ulid()
    error_id = f"err_{request_id}"
    if process.logs_access:
        # The path is not logged: it may contain anything.
        log_request(RequestLine(request_id, status=error.http, code=error.code, error_id=error_id))
    if isinstance(wire, PublishedVersion):
        _, body = http_error(wire, error, error_id, datetime.now(UTC))
    else:
        body = http_error_body(error, wire or process.vocabularies.default, error_id, datetime.now(UTC))
    return Response(body, error.http, media_type=JSON, headers=READABLE_ANYWHERE | dict(error.headers))


def where_to_send(service: Service, version: PublishedVersion | None = None) -> str:
    """The sentence that names the URLs of the bindings, at the root or of a published version."""
    card = service.card
    if version is not None:
        root = card.http_json_url + version.path
        other = f", or to POST {root}{MESSAGE_SEND}" if version.has_http_json else ""
        return f"Send messages as JSON-RPC to POST {root}{RPC}{other}."
    return f"Send messages to POST {card.http_json_url}{MESSAGE_SEND}, or as JSON-RPC to POST {card.json_rpc_url}."


def http_error_response(
    problem: HTTPException, process: Process, where: str, wire: Vocabulary | PublishedVersion | None
) -> Response:
    """The error for an unknown path or a wrong method. `where` is `where_to_send`."""
    if problem.status_code == 405:
        allowed = (problem.headers or {}).get("Allow", "")
        error = UnsupportedSkill(f"{where} This address takes {allowed}.", http=405, headers=(("allow", allowed),))
    else:
        error = UnsupportedSkill(f"There is nothing at this address. {where}")
    return error_response(error, process, wire)
