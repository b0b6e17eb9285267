"""Every error of the client library::

    DealerAgentError
    ├── InvalidRequest      nothing was sent: the arguments are wrong
    ├── Unreachable         no response came, or only one of a gateway
    ├── NotADealerAgent     no usable agent card at the URL
    │   └── CardNotVerified the signature of the card is missing or wrong
    ├── QuoteNotVerified    the signature of a quote is missing or wrong
    ├── MalformedResponse   a response that breaks the protocol
    ├── SearchIncomplete    `search_all` cannot show that it saw all vehicles
    └── Refused             the dealer's agent answered with an error
        └── VehicleNotFound, RateLimited, ...: one class for each code of `protocol.errors.ERRORS`

The classes below `Refused` have the names of those in `protocol.errors`. A code that this version does not know is a
plain `Refused`.

Errors can be pickled, copied and compared.
"""

# ruff: noqa: N818 - the errors of this tree have the names of conditions

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NamedTuple

from dealer_agent.correctable import CorrectableError
from dealer_agent.protocol import errors as protocol


class ReportedProblem(NamedTuple):
    """One thing that is wrong with a request. `pointer` is a JSON pointer; it is empty for the whole request."""

    pointer: str
    message: str
    keyword: str = ""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


def _unpickled(kind: type["DealerAgentError"], args: tuple[Any, ...]) -> "DealerAgentError":
    return kind.__new__(kind, *args)


class DealerAgentError(CorrectableError):
    """The root of all errors of the client library. Errors of the same class with the same members are equal.

    `idempotency_key` is the key of the lead, the hold or the change of a visit that was sent, else None.
    `may_have_arrived` is False if the dealer surely did not store it. To send it again, use the same key.
    """

    idempotency_key: str | None = None
    may_have_arrived: bool = False

    @property
    def advice(self) -> str:
        """What the caller does next."""
        return ""

    def to_dict(self) -> dict[str, Any]:
        """The class, the message and the members as values of JSON, for a log."""
        members = {"may_have_arrived": self.may_have_arrived, "idempotency_key": self.idempotency_key} | vars(self)
        known = {name: value for name, value in members.items() if value is not None and not name.startswith("__")}
        body = known.get("body")
        if isinstance(body, bytes):
            known["body"] = body.decode("utf-8", "replace")
        if "problems" in known:
            known["problems"] = [problem._asdict() for problem in known["problems"]]
        return {"error": type(self).__name__, "message": str(self), **known}

    def __reduce__(self) -> tuple[Callable[..., "DealerAgentError"], tuple[Any, ...], dict[str, Any]]:
        # The arguments of a constructor are not those of the exception.
        return _unpickled, (type(self), self.args), vars(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, DealerAgentError):
            return NotImplemented
        return self.args == other.args and _members(self) == _members(other)

    def __hash__(self) -> int:
        return hash((type(self), self.args))


@contextmanager
def noting(idempotency_key: str) -> Iterator[None]:
    """Gives an error of the client the idempotency key of the request."""
    try:
        yield
    except DealerAgentError as error:
        error.idempotency_key = idempotency_key
        raise


def _members(error: DealerAgentError) -> dict[str, Any]:
    """The members without notes, which Python adds to an exception on its way."""
    return {name: value for name, value in vars(error).items() if not name.startswith("__")}


class InvalidRequest(DealerAgentError, ValueError):
    """The arguments are wrong. Nothing was sent."""

    def __init__(self, message: str, problems: Iterable[ReportedProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class Unreachable(DealerAgentError):
    """No response came: no connection, a broken connection, a timeout, or a gateway that answered 502, 503 or 504.

    `http_status` is the status of the gateway, else None. `retry_after` is the time to wait in seconds, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        may_have_arrived: bool,
        http_status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived
        self.http_status = http_status
        self.retry_after = retry_after


class NotADealerAgent(DealerAgentError):
    """The URL has no agent card of a dealer agent, or the card cannot be used."""


class CardNotVerified(NotADealerAgent):
    """The agent card has no valid signature."""


class QuoteNotVerified(DealerAgentError):
    """A quote has no valid signature of the dealer."""


class MalformedResponse(DealerAgentError):
    """The response breaks the protocol or a bound of the client. `body` has its first bytes."""

    may_have_arrived = True

    def __init__(self, message: str, *, http_status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.http_status = http_status
        self.body = body[:2_000]


class SearchIncomplete(DealerAgentError):
    """`search_all` returned what it saw, but vehicles may be missing. `seen` counts the returned vehicles."""

    def __init__(self, message: str, *, seen: int) -> None:
        super().__init__(message)
        self.seen = seen


class Refused(DealerAgentError):
    """The dealer's agent answered with an error.

    `code` is the code as received, and `message` is for people. `problems` has all that is wrong with the request.
    `details` is the object of the response. `retryable` says whether the same request may succeed later. `retry_after`
    is the time to wait in seconds, if the response names one. `http_status` is that of the response: JSON-RPC answers
    most errors with 200. `json_rpc` is the number of the JSON-RPC error. `error_id` identifies the error for the
    dealer. `may_have_arrived`: the dealer has stored the request, or it is not clear whether it has.
    """

    kind: ClassVar[type[protocol.ProtocolError] | None] = None
    """The class of `protocol.errors` with the same name: the record of the code. None for an unknown code."""

    def __init_subclass__(cls) -> None:
        cls.kind = getattr(protocol, cls.__name__, cls.kind)

    def __init__(
        self,
        code: str,
        message: str,
        *,
        problems: Iterable[ReportedProblem] = (),
        details: dict[str, Any] | None = None,
        error_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        http_status: int = 200,
        json_rpc: int | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.problems = tuple(problems)
        self.details = details or {}
        self.may_have_arrived = self._may_have_arrived(retryable)
        self.error_id = error_id
        self.retryable = self.kind is not None and self.kind.retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.http_status = http_status
        self.json_rpc = json_rpc

    def _may_have_arrived(self, retryable: bool | None) -> bool:
        """Whether the dealer may have stored the request.

        It stores a lead whose visit has no free time: the error then has the id of the lead. An internal error can come
        before or after the storing, and so can an unknown error that is temporary.
        """
        is_unclear = self.code == protocol.InternalError.code or (self.kind is None and bool(retryable))
        return is_unclear or "lead_id" in self.details

    @property
    def advice(self) -> str:
        """What the caller does next, for a known code."""
        return self.kind.action if self.kind else ""


class SchemaValidationFailed(Refused):
    """`SCHEMA_VALIDATION_FAILED`."""


class MissingRequiredField(Refused):
    """`MISSING_REQUIRED_FIELD`."""


class UnsupportedSkill(Refused):
    """`UNSUPPORTED_SKILL`."""


class VehicleNotFound(Refused):
    """`VEHICLE_NOT_FOUND`."""


class VehicleUnavailable(Refused):
    """`VEHICLE_UNAVAILABLE`."""


class ContactConsentRequired(Refused):
    """`CONTACT_CONSENT_REQUIRED`."""


class InvalidConsent(Refused):
    """`INVALID_CONSENT`."""


class AppointmentTimeUnavailable(Refused):
    """`APPOINTMENT_TIME_UNAVAILABLE`."""


class AuthRequired(Refused):
    """`AUTH_REQUIRED`. `reason` is a stable word for what is wrong with the signature of the request, else None."""

    @property
    def reason(self) -> str | None:
        """A word such as `wrong_signature` or `expired` (docs/protocol.md#signed-requests)."""
        found = self.details.get("reason")
        return found if isinstance(found, str) else None

    @property
    def advice(self) -> str:
        """What the caller does next."""
        if self.reason is None:
            return super().advice
        return "Test the keys that the dealer sees: dealer-agent keys directory --check ORIGIN."


class RateLimited(Refused):
    """`RATE_LIMITED`."""


class InternalError(Refused):
    """`INTERNAL_ERROR`."""


class IdempotencyConflict(Refused):
    """`IDEMPOTENCY_CONFLICT`."""


class QuoteNotFound(Refused):
    """`QUOTE_NOT_FOUND`."""


class QuoteExpired(Refused):
    """`QUOTE_EXPIRED`."""


class HoldConflict(Refused):
    """`HOLD_CONFLICT`. `details` has `until`: another agent holds the vehicle until then."""


class HoldNotFound(Refused):
    """`HOLD_NOT_FOUND`."""


class HoldEnded(Refused):
    """`HOLD_ENDED`. `details` has `status`: how the hold has ended."""


class CursorExpired(Refused):
    """`CURSOR_EXPIRED`."""


class HoldLimit(Refused):
    """`HOLD_LIMIT`. The client does not send the request again: `retry_after` can be hours."""


class CallerNotKnown(Refused):
    """`CALLER_NOT_KNOWN`."""


class LeadNotFound(Refused):
    """`LEAD_NOT_FOUND`."""


class VisitNotFound(Refused):
    """`VISIT_NOT_FOUND`."""


class VisitEnded(Refused):
    """`VISIT_ENDED`. `details` has `reason`: `begun`, `cancelled` or `moved`."""


class TaskNotFound(Refused):
    """`TASK_NOT_FOUND`."""


class PushNotificationNotSupported(Refused):
    """`PUSH_NOTIFICATION_NOT_SUPPORTED`."""


class UnsupportedOperation(Refused):
    """`UNSUPPORTED_OPERATION`."""


class ContentTypeNotSupported(Refused):
    """`CONTENT_TYPE_NOT_SUPPORTED`."""


class VersionNotSupported(Refused):
    """`VERSION_NOT_SUPPORTED`."""


REFUSALS: Final[dict[str, type[Refused]]] = {
    each.kind.code: each for each in Refused.__subclasses__() if each.kind is not None
}
"""The class of each known error code."""
