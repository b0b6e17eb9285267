"""Every error that the service answers with: one class for each error code (docs/protocol.md#errors). Pure.

A class is the record of its code: its statuses, and its meaning as docstring, in which backquotes mark code. To add an
error code, add a class, a line to this tree, and its documentation to `apidocs/errors.toml`::

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
    ├── RateLimited
    ├── InternalError
    ├── IdempotencyConflict
    ├── TaskNotFound                     A2A's own
    ├── PushNotificationNotSupported     A2A's own
    ├── UnsupportedOperation             A2A's own
    └── VersionNotSupported              A2A's own
"""

# ruff: noqa: N818 - a class has the name of its code, without "Error".

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from dealer_agent.protocol.vocabulary import Vocabulary


class ProtocolError(Exception):
    """A request that the service does not fulfil. The caller receives `message` and `details`: they hold no internals,
    and nothing that a customer wrote. `vocabulary` is that of the request, where it is known.

    `http` and `json_rpc` replace the numbers of the code where the transport is at fault (413, 415, -32700).
    """

    code: ClassVar[str]
    http: int
    """The HTTP status."""
    json_rpc: int
    """The number of JSON-RPC in the vocabulary `proto`."""
    json_rpc_autoagent: int | None
    """The number in the vocabulary `autoagent`, if it differs."""
    retryable: ClassVar[bool]
    """Whether the same request may be sent again."""
    is_a2a: ClassVar[bool]
    """Whether A2A defines the code. Then the error's domain is A2A's."""
    headers: tuple[tuple[str, str], ...] = ()
    vocabulary: Vocabulary | None = None

    def __init_subclass__(
        cls,
        *,
        code: str,
        http: int,
        json_rpc: int = -32000,
        json_rpc_autoagent: int | None = None,
        retryable: bool = False,
        is_a2a: bool = False,
    ) -> None:
        """Takes the record of an error code."""
        cls.code, cls.retryable, cls.is_a2a = code, retryable, is_a2a
        cls.http, cls.json_rpc, cls.json_rpc_autoagent = http, json_rpc, json_rpc_autoagent

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

    @classmethod
    def meaning(cls) -> str:
        """What the code means: the docstring on one line."""
        return inspect.cleandoc(cls.__doc__ or "").replace("\n", " ")


class SchemaValidationFailed(ProtocolError, code="SCHEMA_VALIDATION_FAILED", http=422, json_rpc=-32602):
    """The request does not have the right shape."""


class MissingRequiredField(ProtocolError, code="MISSING_REQUIRED_FIELD", http=422, json_rpc=-32602):
    """Only required members are missing, and nothing else is wrong."""


class UnsupportedSkill(ProtocolError, code="UNSUPPORTED_SKILL", http=404, json_rpc=-32004, json_rpc_autoagent=-32601):
    """`data.type` names no skill that this dealer offers, or the path or HTTP method does not exist."""


class VehicleNotFound(ProtocolError, code="VEHICLE_NOT_FOUND", http=404):
    """No listing has this VIN, stock number or vehicle id."""


class VehicleUnavailable(ProtocolError, code="VEHICLE_UNAVAILABLE", http=409):
    """The dealer had this vehicle, but it is sold or gone."""


class ContactConsentRequired(ProtocolError, code="CONTACT_CONSENT_REQUIRED", http=403):
    """A customer came without consent, or the consent lacks the scope `lead_submission` or the channel that
    `preferred_contact` names.
    """


class InvalidConsent(ProtocolError, code="INVALID_CONSENT", http=403):
    """The consent is malformed, expired, or granted in the future."""


class AppointmentTimeUnavailable(ProtocolError, code="APPOINTMENT_TIME_UNAVAILABLE", http=409):
    """None of the requested times is free, and no other time can be proposed."""


class AuthRequired(ProtocolError, code="AUTH_REQUIRED", http=401):
    """The bearer token is missing or invalid."""

    headers = (("www-authenticate", "Bearer"),)


class RateLimited(ProtocolError, code="RATE_LIMITED", http=429, json_rpc_autoagent=-32002, retryable=True):
    """Too many requests."""

    def __init__(self, seconds: int, *, because: str = "Too many requests.") -> None:
        details, headers = {"retry_after_seconds": seconds}, (("retry-after", str(seconds)),)
        super().__init__(f"{because} Try again in {seconds} s.", details, headers=headers)


class InternalError(ProtocolError, code="INTERNAL_ERROR", http=500, json_rpc=-32603, retryable=True):
    """Something went wrong on the dealer's side."""


class IdempotencyConflict(ProtocolError, code="IDEMPOTENCY_CONFLICT", http=409):
    """This `idempotency_key` was used with another payload."""


class TaskNotFound(ProtocolError, code="TASK_NOT_FOUND", http=404, json_rpc=-32001, is_a2a=True):
    """A2A: this agent keeps no tasks."""


class PushNotificationNotSupported(
    ProtocolError, code="PUSH_NOTIFICATION_NOT_SUPPORTED", http=400, json_rpc=-32003, is_a2a=True
):
    """A2A: this agent pushes no notifications."""


class UnsupportedOperation(ProtocolError, code="UNSUPPORTED_OPERATION", http=400, json_rpc=-32004, is_a2a=True):
    """A2A: the agent card does not declare this operation."""


class VersionNotSupported(ProtocolError, code="VERSION_NOT_SUPPORTED", http=400, json_rpc=-32009, is_a2a=True):
    """A2A: send `A2A-Version: 1.0`, or leave the header out."""


ERRORS: dict[str, type[ProtocolError]] = {kind.code: kind for kind in ProtocolError.__subclasses__()}
"""Each error code and its class, in the order of this file."""
