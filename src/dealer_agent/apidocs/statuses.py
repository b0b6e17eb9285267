"""The HTTP statuses of errors (docs/protocol.md#errors). Pure."""

from typing import NamedTuple

from dealer_agent.protocol.errors import (
    ERRORS,
    AuthRequired,
    ContactConsentRequired,
    IdempotencyConflict,
    InternalError,
    ProtocolError,
    RateLimited,
    SchemaValidationFailed,
    UnsupportedOperation,
    UnsupportedSkill,
    VehicleNotFound,
)


class Status(NamedTuple):
    """What a status means, and one error that has it."""

    meaning: str
    example: ProtocolError

    def kinds(self) -> list[type[ProtocolError]]:
        """The errors with this status. For a status of the transport (413, 415): the error sent with it."""
        kind, status = type(self.example), self.example.http
        return [kind] if status != kind.http else [other for other in ERRORS.values() if other.http == status]


def _of(kind: type[ProtocolError]) -> ProtocolError:
    return kind(*kind.example)


def _of_transport(kind: type[ProtocolError], http: int, message: str) -> ProtocolError:
    return kind(message, {"in": "envelope"}, http=http)


_TABLE = (
    Status("An operation or protocol version of A2A that this agent does not offer.", _of(UnsupportedOperation)),
    Status("The bearer token is missing or invalid.", _of(AuthRequired)),
    Status("The customer's consent does not cover this.", _of(ContactConsentRequired)),
    Status("No such skill or vehicle.", _of(VehicleNotFound)),
    Status(
        "This address is asked with another method; `Allow` names it.",
        UnsupportedSkill("This address takes POST.", http=405),
    ),
    Status(
        "The body did not arrive in time.",
        _of_transport(SchemaValidationFailed, 408, "The body did not arrive in time."),
    ),
    Status("The request is valid, but it conflicts with the current state.", _of(IdempotencyConflict)),
    Status("The body is too large.", _of_transport(SchemaValidationFailed, 413, "The body is larger than 256 KiB.")),
    Status(
        "The body's media type is neither application/json nor application/a2a+json.",
        _of_transport(SchemaValidationFailed, 415, "Send Content-Type: application/json."),
    ),
    Status("The request does not have the right shape.", _of(SchemaValidationFailed)),
    Status("Too many requests.", _of(RateLimited)),
    Status("Something went wrong on the dealer's side.", _of(InternalError)),
)

STATUSES: dict[int, Status] = {kind.http: Status(kind.meaning, _of(kind)) for kind in ERRORS.values()}
"""Each status, sorted. A status that is not in the table has the meaning of its first error."""
STATUSES = dict(sorted((STATUSES | {status.example.http: status for status in _TABLE}).items()))
