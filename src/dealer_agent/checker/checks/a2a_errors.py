"""A2A's own errors, which checks of several subjects expect."""

from dealer_agent.checker.check import expect
from dealer_agent.checker.target import Refusal, Target

NUMBERS = {
    "TASK_NOT_FOUND": (404, -32001),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, -32003),
    "UNSUPPORTED_OPERATION": (400, -32004),
    "VERSION_NOT_SUPPORTED": (400, -32009),
}
"""HTTP status and JSON-RPC number of each error."""

NOT_OFFERED = {-32601, -32004}
"""What a published version does not offer: the first number up to 1.3 (over HTTP+JSON: 404), and later the second."""


def expect_a2a_error(target: Target, refusal: Refusal, reason: str) -> None:
    """Raises Failed unless the error has the HTTP status or number of this error of A2A."""
    status, number = NUMBERS[reason]
    if target.is_rpc:
        allowed = {number, *NOT_OFFERED} if target.revision.is_published else {number}
        expect(
            refusal.number in allowed,
            f"The number of the error is {refusal.number!r}. Expected: {number} ({reason}).",
            refusal.exchange,
        )
        return
    if target.revision.is_published and refusal.status == 404:
        return
    expect(
        refusal.status == status, f"The status is {refusal.status}. Expected: {status} ({reason}).", refusal.exchange
    )
    found = refusal.info.get("reason") or refusal.code
    expect(found == reason, f"The reason of the error is {found!r}. Expected: {reason}.", refusal.exchange)
