"""Defines every error that the service answers with: one class for each code (docs/protocol.md#errors). Pure.

A class is the record of its code: statuses, meaning, what the caller does next, and an example. To add an error code,
add a class, and a line to this tree::

    ProtocolError
    ├── SchemaValidationFailed
    ├── MissingRequiredField
    ├── UnsupportedSkill
    ├── VehicleNotFound
    ├── VehicleUnavailable
    ├── ContactConsentRequired
    ├── InvalidConsent
    ├── AppointmentTimeUnavailable
    ├── AuthRequired
    │   └── Forbidden                    the same code, with status 403
    ├── RateLimited
    ├── InternalError
    ├── IdempotencyConflict
    ├── QuoteNotFound                    from here: the offers extension
    ├── QuoteExpired
    ├── HoldConflict
    ├── HoldNotFound
    ├── HoldEnded
    ├── CursorExpired
    ├── HoldLimit
    ├── CallerNotKnown
    ├── LeadNotFound
    ├── VisitNotFound
    ├── VisitEnded
    ├── TaskNotFound                     A2A's own
    ├── PushNotificationNotSupported     A2A's own
    ├── UnsupportedOperation             A2A's own
    ├── ContentTypeNotSupported          A2A's own
    └── VersionNotSupported              A2A's own

Published versions of the public protocol have two more codes (`protocol.version_payloads`, `protocol.version_errors`).
"""

# ruff: noqa: D101, N818 - `meaning` describes a class. A class has the name of its code, without "Error".

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from dealer_agent.protocol.vocabulary import Vocabulary


class ProtocolError(Exception):
    """A request that the service does not fulfil. The caller receives `message` and `details`: they hold no internals,
    and nothing that a customer wrote. `vocabulary` is that of the request, where it is known.

    `http` and `json_rpc` replace the numbers of the code where the transport is at fault (413, 415, -32700).
    """

    code: ClassVar[str]
    http: int
    """The HTTP status."""
    other_http: ClassVar[frozenset[int]] = frozenset()
    """The HTTP statuses that this code may have besides."""
    json_rpc: int = -32000
    """The number of JSON-RPC in the vocabulary `proto`."""
    json_rpc_autoagent: int | None = None
    """The number in the vocabulary `autoagent`, if it differs."""
    retryable: ClassVar[bool] = False
    """Whether the same request may be sent again."""
    keeps_http: ClassVar[bool] = False
    """Whether a response over JSON-RPC has the HTTP status too, besides those of `protocol.json_rpc`."""
    is_a2a: ClassVar[bool] = False
    """Whether A2A defines the code. Then the error's domain is A2A's."""
    meaning: ClassVar[str]
    action: ClassVar[str]
    """What the caller does next. Backquotes mark code, here and in `meaning`."""
    example: ClassVar[tuple[Any, ...]]
    """Arguments of the class that make an example."""
    headers: tuple[tuple[str, str], ...] = ()
    vocabulary: Vocabulary | None = None

    def __init__(
        self,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        http: int | None = None,
        json_rpc: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.http = http or self.http
        if json_rpc is not None:
            self.json_rpc = self.json_rpc_autoagent = json_rpc
        self.headers = headers or self.headers

    @property
    def coded_message(self) -> str:
        """The message after the error code and the JSON pointer. Many clients show this text only.

        The message of an error with a list of problems has their pointers already.
        """
        pointer = "" if "errors" in self.details else self.details.get("instancePath")
        return f"{self.code}: {pointer}: {self.message}" if pointer else f"{self.code}: {self.message}"

    @classmethod
    def description(cls) -> str:
        """What the code means, and what the caller does next."""
        return f"{cls.meaning} {cls.action}".strip()


class SchemaValidationFailed(ProtocolError):
    code = "SCHEMA_VALIDATION_FAILED"
    http = 422
    json_rpc = -32602
    meaning = "The request does not have the right shape."
    action = "`details.errors` lists every problem with its JSON pointer; repair them all and send again."
    example = (
        "/filters/year_min: must be an integer",
        {
            "in": "payload",
            "instancePath": "/filters/year_min",
            "received": "twenty twenty",
            "errors": [
                {
                    "instancePath": "/filters/year_min",
                    "keyword": "type",
                    "message": "must be an integer",
                    "received": "twenty twenty",
                }
            ],
        },
    )


class MissingRequiredField(ProtocolError):
    code = "MISSING_REQUIRED_FIELD"
    http = 422
    json_rpc = -32602
    meaning = "Only required members are missing, and nothing else is wrong."
    action = "`details.errors` names each of them."
    example = (
        "/customer: is required",
        {
            "in": "payload",
            "instancePath": "/customer",
            "errors": [{"instancePath": "/customer", "keyword": "required", "message": "is required"}],
        },
    )


class UnsupportedSkill(ProtocolError):
    code = "UNSUPPORTED_SKILL"
    http = 404
    json_rpc = -32004
    json_rpc_autoagent = -32601
    meaning = "`data.type` names no skill that this dealer offers, or the path or HTTP method does not exist."
    action = "See the agent card."
    example = (
        "This dealer does not offer inventory.facets.",
        {"in": "payload", "instancePath": "/type"},
    )


class VehicleNotFound(ProtocolError):
    code = "VEHICLE_NOT_FOUND"
    http = 404
    meaning = "No listing has this VIN, stock number or vehicle id."
    action = "Search again: the stock changes."
    example = ("No vehicle here has this VIN.", {"instancePath": "/vin", "received": "1HGCY2F57RA000001"})


class VehicleUnavailable(ProtocolError):
    code = "VEHICLE_UNAVAILABLE"
    http = 409
    meaning = "The dealer had this vehicle, but it is sold or gone."
    action = "Offer the buyer another one."
    example = ("This vehicle is no longer available.", {"vehicle_id": "veh_1HGCY2F57RA000001"})


class ContactConsentRequired(ProtocolError):
    code = "CONTACT_CONSENT_REQUIRED"
    http = 403
    meaning = (
        "A customer came without consent, or the consent lacks the scope `lead_submission` or the channel that "
        "`preferred_contact` names."
    )
    action = "Ask the customer."
    example = (
        "/consent/scope: must hold lead_submission",
        {
            "in": "payload",
            "instancePath": "/consent/scope",
            "errors": [
                {"instancePath": "/consent/scope", "keyword": "contains", "message": "must hold lead_submission"}
            ],
        },
    )


class InvalidConsent(ProtocolError):
    code = "INVALID_CONSENT"
    http = 403
    meaning = "The consent is malformed, expired, or granted in the future."
    action = "Ask the customer again."
    example = (
        "/consent/expires_at: has passed: the consent is expired",
        {
            "in": "payload",
            "instancePath": "/consent/expires_at",
            "errors": [
                {
                    "instancePath": "/consent/expires_at",
                    "keyword": "formatMinimum",
                    "message": "has passed: the consent is expired",
                }
            ],
        },
    )


class AppointmentTimeUnavailable(ProtocolError):
    code = "APPOINTMENT_TIME_UNAVAILABLE"
    http = 409
    meaning = (
        "None of the requested times is free, and no other time can be proposed. `visit.move`: the time is not free."
    )
    action = (
        "The lead itself is kept: `details.lead_id` names it. Do not send it again. `details.alternatives` of "
        "`visit.move` are free times."
    )
    example = ("No time is free.", {"lead_id": "01KE7AQQ3R5T7V9X2Z4B6D8F1H"})


class AuthRequired(ProtocolError):
    code = "AUTH_REQUIRED"
    http = 401
    other_http = frozenset({403})
    meaning = (
        "The bearer token is missing or invalid (401). Or it lacks the scope of the skill, or the dealer does not "
        "allow this to the caller (403)."
    )
    action = "The dealer hands out tokens, and names the issuers whose tokens it accepts."
    example = ("This skill asks for a bearer token.",)
    headers: tuple[tuple[str, str], ...] = (("www-authenticate", "Bearer"),)
    problem: Literal["", "invalid_token", "insufficient_scope"] = ""
    """What is wrong with the token (RFC 6750). Empty: there was none, or nothing is wrong with it."""
    scope: str = ""
    """The scope that the skill needs; empty if it is not known."""

    @classmethod
    def of_token(cls, message: str) -> Self:
        """The refusal of a token that is not valid."""
        refusal = cls(message)
        refusal.problem = "invalid_token"
        return refusal

    @classmethod
    def of_skill(cls, message: str, scope: str) -> Self:
        """The refusal of a caller without a token for a skill that needs one with this scope."""
        refusal = cls(message)
        refusal.scope = scope
        return refusal


class Forbidden(AuthRequired):
    """The code AUTH_REQUIRED for a caller that is known, and may not do this: 403, also over JSON-RPC."""

    http = 403
    keeps_http = True
    headers = ()

    @classmethod
    def of_scope(cls, message: str, scope: str) -> Self:
        """The refusal of a valid token without this scope."""
        refusal = cls.of_skill(message, scope)
        refusal.problem = "insufficient_scope"
        return refusal


class RateLimited(ProtocolError):
    code = "RATE_LIMITED"
    http = 429
    json_rpc_autoagent = -32002
    retryable = True
    meaning = "Too many requests."
    action = "Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats."
    example = (12,)

    def __init__(self, seconds: int, *, because: str = "Too many requests.", closes: bool = False) -> None:
        details = {"retry_after_seconds": seconds}
        headers = (("retry-after", str(seconds)), *((("connection", "close"),) if closes else ()))
        super().__init__(f"{because} Try again in {seconds} s.", details, headers=headers)


class InternalError(ProtocolError):
    code = "INTERNAL_ERROR"
    http = 500
    json_rpc = -32603
    retryable = True
    meaning = "Something went wrong on the dealer's side."
    action = "Try again later; quote `error_id` to the dealer."
    example = ("Something went wrong on our side. Please try again.",)


class IdempotencyConflict(ProtocolError):
    code = "IDEMPOTENCY_CONFLICT"
    http = 409
    meaning = "This `idempotency_key` was used with another payload."
    action = "Use a new key for a new lead."
    example = ("This idempotency_key was used with another payload.", {"instancePath": "/idempotency_key"})


class QuoteNotFound(ProtocolError):
    code = "QUOTE_NOT_FOUND"
    http = 404
    meaning = "This dealer has given this agent no quote with this id."
    action = "Ask for a quote."
    example = ("There is no such quote.", {"instancePath": "/quote_id"})


class QuoteExpired(ProtocolError):
    code = "QUOTE_EXPIRED"
    http = 409
    meaning = "The time of the quote has ended."
    action = "Ask for a new quote: the price may be another one."
    example = ("The quote was valid until 2026-01-05T15:30:00Z.", {"valid_until": "2026-01-05T15:30:00Z"})


class HoldConflict(ProtocolError):
    code = "HOLD_CONFLICT"
    http = 409
    meaning = "Another agent holds the vehicle."
    action = "`details.until` says until when. Try again then, or offer the buyer another vehicle."
    example = ("Another agent holds this vehicle.", {"until": "2026-01-05T17:00:00Z"})


class HoldNotFound(ProtocolError):
    code = "HOLD_NOT_FOUND"
    http = 404
    meaning = "This agent has no hold with this id."
    action = "Use the `hold_id` of the response to `offer.hold`, with the same proof of who you are."
    example = ("There is no such hold.", {"instancePath": "/hold_id"})


class HoldEnded(ProtocolError):
    code = "HOLD_ENDED"
    http = 409
    meaning = "The hold has ended."
    action = "`details.status` says why. Ask for a new quote."
    example = ("This hold has ended.", {"status": "expired"})


class CursorExpired(ProtocolError):
    code = "CURSOR_EXPIRED"
    http = 410
    meaning = "The cursor of `inventory.changes` is too old, or the record of the stock does not reach back to it."
    action = "Begin again without a cursor, and replace what you have of this dealer."
    example = ("The cursor is more than 30 days old. Begin again without a cursor, and replace what you have.",)


class HoldLimit(ProtocolError):
    code = "HOLD_LIMIT"
    http = 429
    retryable = True
    meaning = (
        "The agent has no more holds for today, or has held this vehicle in the last 24 hours, or agents hold as much "
        "of the stock as they may."
    )
    action = "Wait for the seconds in `Retry-After`, which `details.retry_after_seconds` repeats."
    example = ("This agent has no more holds for today.", {"retry_after_seconds": 3600})

    @classmethod
    def of(cls, message: str, seconds: int) -> Self:
        """The refusal of a hold that may be asked for again after so many seconds."""
        return cls(message, {"retry_after_seconds": seconds}, headers=(("retry-after", str(seconds)),))


class CallerNotKnown(ProtocolError):
    code = "CALLER_NOT_KNOWN"
    http = 403
    keeps_http = True
    meaning = "Only an agent that proves who it is can hold a vehicle."
    action = "Sign the request (Web Bot Auth), or send a token of the dealer or of an issuer that it trusts."
    example = (
        "Only a known agent can hold a vehicle: sign the request, or send a token of this dealer or of its issuers.",
    )


class LeadNotFound(ProtocolError):
    code = "LEAD_NOT_FOUND"
    http = 404
    meaning = "This agent has sent no lead with this id, or its customer was erased, or the secret is wrong."
    action = (
        "Use the `lead_id` of the response to `lead.submit`, with the same proof of who you are, or with its "
        "`lead_secret`."
    )
    example = ("This agent has sent no lead with this id.", {"instancePath": "/lead_id"})


class VisitNotFound(ProtocolError):
    code = "VISIT_NOT_FOUND"
    http = 404
    meaning = "The lead has no visit, or none with this id."
    action = "Read the lead with `lead.status`. To ask for a visit, send a lead."
    example = ("This lead has no such visit.", {"instancePath": "/appointment_id"})


class VisitEnded(ProtocolError):
    code = "VISIT_ENDED"
    http = 409
    meaning = "The visit cannot be changed any more."
    action = (
        "`details.reason` says why: it has `begun`, or was `cancelled` or `moved`. Read the lead with `lead.status`."
    )
    example = ("This visit cannot be changed any more.", {"instancePath": "/appointment_id", "reason": "moved"})


class TaskNotFound(ProtocolError):
    code = "TASK_NOT_FOUND"
    http = 404
    json_rpc = -32001
    is_a2a = True
    meaning = "A2A: this agent keeps no tasks."
    action = "Send messages without a `taskId`."
    example = (
        "This agent keeps no tasks: send the message without a taskId.",
        {"in": "envelope", "instancePath": "/message/taskId"},
    )


class PushNotificationNotSupported(ProtocolError):
    code = "PUSH_NOTIFICATION_NOT_SUPPORTED"
    http = 400
    json_rpc = -32003
    is_a2a = True
    meaning = "A2A: this agent pushes no notifications."
    action = "Leave their configuration out."
    example = ("This agent pushes no notifications.", {"in": "envelope"})


class UnsupportedOperation(ProtocolError):
    code = "UNSUPPORTED_OPERATION"
    http = 400
    json_rpc = -32004
    is_a2a = True
    meaning = "A2A: the agent card does not declare this operation."
    action = "Use SendMessage."
    example = ("This agent does not offer this operation: it answers SendMessage.", {"in": "envelope"})


class ContentTypeNotSupported(ProtocolError):
    code = "CONTENT_TYPE_NOT_SUPPORTED"
    http = 415
    json_rpc = -32005
    is_a2a = True
    meaning = "A2A: no part of the message has a media type that the agent card declares."
    action = "Send a data part with the request media type of the skill."
    example = (
        "This agent reads none of these media types: image/png.",
        {"in": "envelope", "instancePath": "/message/parts", "received": ["image/png"]},
    )


class VersionNotSupported(ProtocolError):
    code = "VERSION_NOT_SUPPORTED"
    http = 400
    json_rpc = -32009
    is_a2a = True
    meaning = "A2A: send `A2A-Version: 1.0`, or leave the header out."
    action = ""
    example = ("This agent speaks A2A 1.0: send A2A-Version: 1.0.", {"supported": ["1.0"]})


ERRORS: dict[str, type[ProtocolError]] = {kind.code: kind for kind in ProtocolError.__subclasses__()}
"""Each error code of docs/protocol.md and its class, in the order of this file."""
