"""Every error of the wire: one table, one tree, one envelope (specification, parts 2.8 and 7; contract, part 3). Pure.

| code | HTTP | JSON-RPC (proto / autoagent) | retryable |
is `ERRORS` below; the classes name its rows, so that what can be raised is what the table lists.
"""

# ruff: noqa: N818 - the classes are called as the codes are.

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec

from dealer_agent.protocol.vocabulary import Vocabulary

A2A_DOMAIN = "a2a-protocol.org"
ERROR_INFO_TYPE = "type.googleapis.com/google.rpc.ErrorInfo"
RECEIVED_LIMIT = 200
"""Characters of a received value that are repeated."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """What one code means on each binding. `a2a` marks A2A's own reasons, whose domain is A2A's."""

    code: str
    http: int
    json_rpc: int
    json_rpc_autoagent: int
    retryable: bool = False
    a2a: bool = False


ERRORS: dict[str, ErrorRow] = {
    row.code: row
    for row in (
        ErrorRow("SCHEMA_VALIDATION_FAILED", 422, -32602, -32602),
        ErrorRow("MISSING_REQUIRED_FIELD", 422, -32602, -32602),
        ErrorRow("UNSUPPORTED_SKILL", 404, -32004, -32601),
        ErrorRow("VEHICLE_NOT_FOUND", 404, -32000, -32000),
        ErrorRow("VEHICLE_UNAVAILABLE", 409, -32000, -32000),
        ErrorRow("CONTACT_CONSENT_REQUIRED", 403, -32000, -32000),
        ErrorRow("INVALID_CONSENT", 403, -32000, -32000),
        ErrorRow("APPOINTMENT_TIME_UNAVAILABLE", 409, -32000, -32000),
        ErrorRow("AUTH_REQUIRED", 401, -32000, -32000),
        ErrorRow("RATE_LIMITED", 429, -32000, -32002, retryable=True),
        ErrorRow("INTERNAL_ERROR", 500, -32603, -32603, retryable=True),
        ErrorRow("IDEMPOTENCY_CONFLICT", 409, -32000, -32000),
        ErrorRow("TASK_NOT_FOUND", 404, -32001, -32001, a2a=True),
        ErrorRow("PUSH_NOTIFICATION_NOT_SUPPORTED", 400, -32003, -32003, a2a=True),
        ErrorRow("UNSUPPORTED_OPERATION", 400, -32004, -32004, a2a=True),
        ErrorRow("VERSION_NOT_SUPPORTED", 400, -32009, -32009, a2a=True),
    )
}


class ProtocolError(Exception):
    """A request that cannot be fulfilled. `details` is sent to the buyer: it never holds personal data or internals.

    `http` and `json_rpc` replace the row's numbers where the transport itself was at fault (413, 415, -32700, ...).
    """

    row: ClassVar[ErrorRow]

    def __init__(
        self,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        http: int | None = None,
        json_rpc: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        vocabulary: Vocabulary | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.http = http or self.row.http
        self.json_rpc = json_rpc
        self.headers = headers
        self.vocabulary = vocabulary


class SchemaValidationFailed(ProtocolError):
    """The body fails schema validation."""

    row = ERRORS["SCHEMA_VALIDATION_FAILED"]


class MissingRequiredField(ProtocolError):
    """A required field is absent, and nothing else is wrong."""

    row = ERRORS["MISSING_REQUIRED_FIELD"]


class UnsupportedSkill(ProtocolError):
    """The skill is unknown to this agent, or switched off."""

    row = ERRORS["UNSUPPORTED_SKILL"]


class VehicleNotFound(ProtocolError):
    """VIN, stock or vehicle_id matches no listing."""

    row = ERRORS["VEHICLE_NOT_FOUND"]


class VehicleUnavailable(ProtocolError):
    """The vehicle exists but is no longer available."""

    row = ERRORS["VEHICLE_UNAVAILABLE"]


class ContactConsentRequired(ProtocolError):
    """Customer info without consent, or with insufficient scope."""

    row = ERRORS["CONTACT_CONSENT_REQUIRED"]


class InvalidConsent(ProtocolError):
    """A consent grant that is malformed or expired."""

    row = ERRORS["INVALID_CONSENT"]


class AppointmentTimeUnavailable(ProtocolError):
    """None of the requested times can be honored and none can be proposed."""

    row = ERRORS["APPOINTMENT_TIME_UNAVAILABLE"]


class AuthRequired(ProtocolError):
    """The bearer token is missing or invalid."""

    row = ERRORS["AUTH_REQUIRED"]

    def __init__(self, message: str, *, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(message, headers=(("www-authenticate", "Bearer"),), vocabulary=vocabulary)


class RateLimited(ProtocolError):
    """The client exceeded the dealer's rate limits, or the service is overloaded."""

    row = ERRORS["RATE_LIMITED"]

    def __init__(
        self,
        retry_after_seconds: int,
        *,
        because: str = "Too many requests.",
        vocabulary: Vocabulary | None = None,
    ) -> None:
        super().__init__(
            f"{because} Try again in {retry_after_seconds} s.",
            {"retry_after_seconds": retry_after_seconds},
            headers=(("retry-after", str(retry_after_seconds)),),
            vocabulary=vocabulary,
        )


class InternalError(ProtocolError):
    """An unhandled dealer-side error; what happened stands in the dealer's log under the error id."""

    row = ERRORS["INTERNAL_ERROR"]


class IdempotencyConflict(ProtocolError):
    """An `idempotency_key` used again with another payload."""

    row = ERRORS["IDEMPOTENCY_CONFLICT"]


class TaskNotFound(ProtocolError):
    """A2A: this agent keeps no tasks."""

    row = ERRORS["TASK_NOT_FOUND"]


class PushNotificationNotSupported(ProtocolError):
    """A2A: this agent pushes nothing."""

    row = ERRORS["PUSH_NOTIFICATION_NOT_SUPPORTED"]


class UnsupportedOperation(ProtocolError):
    """A2A: an operation that the card does not declare."""

    row = ERRORS["UNSUPPORTED_OPERATION"]


class VersionNotSupported(ProtocolError):
    """A2A: a protocol version other than 1.x."""

    row = ERRORS["VERSION_NOT_SUPPORTED"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a request. `keyword` is the JSON Schema keyword that failed; `received` is absent where
    nothing was received or where it would echo personal data; `expected` is what to send, where one value would do.
    `left_out` counts further problems that are not described."""

    pointer: str
    keyword: str
    message: str
    received: tuple[Any] | None = None
    expected: str | None = None
    left_out: int = 0

    def as_details(self) -> dict[str, Any]:
        """The entry of `details.errors`."""
        entry = {"instancePath": self.pointer, "keyword": self.keyword, "message": self.message}
        return entry | {"received": _shown(self.received[0])} if self.received else entry


def _shown(received: object) -> object:
    """A received value for an error: a long text is cut; a large object or array becomes its JSON text, cut."""
    if isinstance(received, str):
        return received[:RECEIVED_LIMIT]
    if isinstance(received, dict | list):
        text = msgspec.json.encode(received)
        return received if len(text) <= RECEIVED_LIMIT else text.decode()[:RECEIVED_LIMIT]
    return received


PROBLEMS_SHOWN = 100
"""More problems than this are counted, not listed (contract, part 10)."""


def refusal(
    problems: list[Problem], where: Literal["payload", "envelope"], vocabulary: Vocabulary | None = None
) -> ProtocolError:
    """The one error that reports all problems, the first by pointer leading (contract, part 3)."""
    only_missing = all(problem.keyword == "required" for problem in problems)
    kind = MissingRequiredField if only_missing else SchemaValidationFailed
    message, details = told(problems, where)
    return kind(message, details, vocabulary=vocabulary)


def told(problems: list[Problem], where: Literal["payload", "envelope"]) -> tuple[str, dict[str, Any]]:
    """An error's message and details that report all problems, sorted by pointer; at least one."""
    ordered = sorted(problems, key=lambda problem: (problem.pointer, problem.keyword))
    first = ordered[0]
    details: dict[str, Any] = {"in": where, "instancePath": first.pointer}
    if first.received:
        details["received"] = _shown(first.received[0])
    if first.expected:
        details["expected"] = first.expected
    details["errors"] = [problem.as_details() for problem in ordered[:PROBLEMS_SHOWN]]
    count = len(ordered) + sum(problem.left_out for problem in ordered)
    if count > PROBLEMS_SHOWN:
        details["errors_left_out"] = count - PROBLEMS_SHOWN
    more = f" ({count - 1} more in details.errors)" if count > 1 else ""
    return f"{first.pointer or 'body'}: {first.message}{more}", details


def error_details(error: ProtocolError, words: Vocabulary, error_id: str, at: datetime) -> tuple[Any, Any]:
    """The two entries of `error.details`: ErrorInfo, then the protocol error payload (part 2.8).

    `at` is UTC; it is sent to the millisecond.
    """
    metadata: dict[str, str] = {}
    if "instancePath" in error.details:
        metadata["instancePath"] = error.details["instancePath"]
    if "received" in error.details:
        metadata["received"] = _as_text(error.details["received"])
    metadata["error_id"] = error_id
    info = {
        "@type": ERROR_INFO_TYPE,
        "reason": error.row.code,
        "domain": A2A_DOMAIN if error.row.a2a else words.domain,
        "metadata": metadata,
    }
    payload = {
        "@type": words.error_type_url,
        "type": words.error_type,
        "error_id": error_id,
        "code": error.row.code,
        "message": error.message,
        "retryable": error.row.retryable,
        "details": error.details,
        "created_at": at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
    }
    return info, payload


def _as_text(received: object) -> str:
    return received if isinstance(received, str) else msgspec.json.encode(received).decode()[:RECEIVED_LIMIT]


def http_error_body(error: ProtocolError, words: Vocabulary, error_id: str, at: datetime) -> bytes:
    """The body of a non-2xx reply (specification, part 7)."""
    details = error_details(error, words, error_id, at)
    return msgspec.json.encode({"error": {"code": error.http, "message": error.message, "details": details}})


def json_rpc_error_body(error: ProtocolError, words: Vocabulary, error_id: str, at: datetime, rpc_id: bytes) -> bytes:
    """The body of a JSON-RPC error answer, in the form of the request's vocabulary (contract, part 3)."""
    info, payload = error_details(error, words, error_id, at)
    number = error.json_rpc or (error.row.json_rpc if words.a2a_errors else error.row.json_rpc_autoagent)
    data: Any = (info, payload)
    if not words.a2a_errors:
        data = {name: value for name, value in payload.items() if name != "@type"}
    body = msgspec.json.encode({"code": number, "message": error.message, "data": data})
    return b'{"jsonrpc":"2.0","id":' + rpc_id + b',"error":' + body + b"}"
