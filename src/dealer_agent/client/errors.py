"""Every error of the client library::

    DealerAgentError
    ├── InvalidRequest      nothing was sent: the arguments are wrong
    ├── Unreachable         no response came, or only one of a gateway
    ├── NotADealerAgent     no usable agent card at the URL
    │   └── CardNotVerified the signature of the card is missing or wrong
    ├── MalformedResponse   a response that is none of the protocol
    ├── SearchIncomplete    `search_all` cannot show that it saw all vehicles
    └── Refused             the dealer's agent answered with an error
        └── VehicleNotFound, RateLimited, ...: one class for each code of `protocol.errors.ERRORS`

The classes below `Refused` derive from `protocol.errors`, and have the same names. A code that this version does not
know is a plain `Refused`.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from dealer_agent.correctable import CorrectableError
from dealer_agent.protocol import errors as protocol


class ReportedProblem(NamedTuple):
    """One thing that is wrong with a request. `pointer` is a JSON pointer; it is empty for the whole request."""

    pointer: str
    message: str
    keyword: str = ""

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class DealerAgentError(CorrectableError):
    """The root of all errors of the client library.

    `idempotency_key` is the key of the lead that was sent, else None. `may_have_arrived` is False if the dealer surely
    did not store this lead. To send the lead again, use the same key.
    """

    idempotency_key: str | None = None
    may_have_arrived: bool = False

    @property
    def advice(self) -> str:
        """What the caller does next."""
        return ""


class InvalidRequest(DealerAgentError, ValueError):  # noqa: N818 - the errors of this tree have the names of conditions
    """The arguments are wrong. Nothing was sent."""

    def __init__(self, message: str, problems: Iterable[ReportedProblem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class Unreachable(DealerAgentError):  # noqa: N818
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


class NotADealerAgent(DealerAgentError):  # noqa: N818
    """The URL has no agent card of a dealer agent, or the card cannot be used."""


class CardNotVerified(NotADealerAgent):
    """The agent card has no valid signature."""


class MalformedResponse(DealerAgentError):  # noqa: N818
    """The response breaks the protocol or a bound of the client. `body` has its first bytes."""

    may_have_arrived = True

    def __init__(self, message: str, *, http_status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.http_status = http_status
        self.body = body[:2_000]


class SearchIncomplete(DealerAgentError):  # noqa: N818
    """`search_all` returned what it saw, but vehicles may be missing. `seen` counts the returned vehicles."""

    def __init__(self, message: str, *, seen: int) -> None:
        super().__init__(message)
        self.seen = seen


class Refused(DealerAgentError):  # noqa: N818
    """The dealer's agent answered with an error.

    `code` is the code as received, and `message` is for people. `problems` has all that is wrong with the request.
    `details` is the object of the response. `retryable` says whether the same request may succeed later. `retry_after`
    is the time to wait in seconds, if the response names one. `http_status` is that of the response: JSON-RPC answers
    most errors with 200. `json_rpc` is the number of the JSON-RPC error. `error_id` identifies the error for the
    dealer.
    """

    kind: ClassVar[type[protocol.ProtocolError] | None] = None
    """The record of the code in `protocol.errors`; None for an unknown code."""

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
        # The dealer stores a lead whose visit has no free time. An internal error can come before or after the storing.
        self.may_have_arrived = "lead_id" in self.details or code == protocol.InternalError.code
        self.error_id = error_id
        self.retryable = self.kind is not None and self.kind.retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.http_status = http_status
        self.json_rpc = json_rpc

    @property
    def advice(self) -> str:
        """What the caller does next, for a known code."""
        return self.kind.action if self.kind else ""


REFUSALS: dict[str, type[Refused]] = {
    code: type(kind.__name__, (Refused,), {"__doc__": kind.meaning, "__module__": __name__, "kind": kind})
    for code, kind in protocol.ERRORS.items()
}
"""The class of each known error code."""

_BY_NAME = {kind.__name__: kind for kind in REFUSALS.values()}


def __getattr__(name: str) -> type[Refused]:
    try:
        return _BY_NAME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *_BY_NAME])
