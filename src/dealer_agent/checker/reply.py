"""What an exchange of either binding says: message, payload and `data` of a success, or the error. Read leniently."""

from dataclasses import dataclass
from typing import Any

from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Failed, Judgement, expect, skip_if_failed
from dealer_agent.checker.revision import Revision


@dataclass(frozen=True)
class Refusal:
    """An error of either binding, read leniently: a member that is absent or has a wrong type is empty or None.

    `status` is the HTTP status, and `number` the `error.code`: of JSON-RPC, or of the body over HTTP+JSON. `payload` is
    the error payload, `info` the ErrorInfo, and `code` the error code, from one of both. `data` is all of
    `error.details` (HTTP+JSON) or `error.data` (JSON-RPC).
    """

    exchange: Exchange
    status: int
    number: Any
    message: str
    code: str
    payload: dict[str, Any]
    info: dict[str, Any]
    data: Any

    def problems(self, revision: Revision) -> list[tuple[str, str]]:
        """Pointer and keyword of each entry of `details.errors`."""
        pointer, _ = revision.problem_members
        return [
            (str(each.get(pointer)), str(each.get("keyword"))) for each in dicts(at(self.payload, "details.errors"))
        ]

    def expect_code(self, *codes: str) -> None:
        """Raises Failed unless the error has one of these codes."""
        expect(self.code in codes, f"The code is {self.code or 'absent'}, not {' or '.join(codes)}.", self.exchange)

    def expect_number(self, *numbers: int) -> None:
        """Raises Failed unless `error.code` is one of these numbers."""
        wanted = " or ".join(map(str, numbers))
        expect(self.number in numbers, f"`error.code` is {self.number!r}, not {wanted}.", self.exchange)


def message_of(exchange: Exchange) -> dict[str, Any]:
    """The response's `message`. Raises Failed if the exchange is not a success."""
    document = exchange.json
    if isinstance(at(document, "error"), dict):
        error = refusal_of(exchange)
        raise Failed(f"A valid request is refused: {error.code or error.number} {error.message[:300]}", exchange)
    message = at(document, "result.message") or at(document, "message")
    if not isinstance(message, dict):
        raise Failed(f"The response to a valid request has no message (HTTP {exchange.status}).", exchange)
    return message


def payload_of(exchange: Exchange) -> dict[str, Any]:
    """The payload of a successful response: an object with `type` and `data`. Raises Failed."""
    for part in dicts(message_of(exchange).get("parts")):
        if isinstance(part.get("data"), dict):
            payload: dict[str, Any] = part["data"]
            return payload
    raise Failed("The response has no data part.", exchange)


def data_of(exchange: Exchange) -> dict[str, Any]:
    """The `data` of the payload of a successful response. Raises Failed."""
    data = payload_of(exchange).get("data")
    if not isinstance(data, dict):
        raise Failed("The payload of the response has no object `data`.", exchange)
    return data


def refusal_of(exchange: Exchange) -> Refusal:
    """The error of an exchange. Raises Failed if it has none."""
    error = at(exchange.json, "error")
    if not isinstance(error, dict):
        done = "accepted" if exchange.status < 300 else f"answered with HTTP {exchange.status} and no `error`"
        raise Failed(f"A request that must be refused is {done}.", exchange)
    data = error.get("data") if "data" in error else error.get("details")
    entries = dicts(data if isinstance(data, list) else [data])
    payload = next((each for each in entries if "error_id" in each or "retryable" in each), {})
    info = next((each for each in entries if "reason" in each), {})
    code = str(payload.get("code") or info.get("reason") or "")
    message = str(error.get("message", ""))
    return Refusal(exchange, exchange.status, error.get("code"), message, code, payload, info, data)


def answered(exchange: Exchange) -> bool:
    """A judgement: the response is a success. Raises Failed."""
    data_of(exchange)
    return True


def refused(exchange: Exchange) -> bool:
    """A judgement: the response is an error. Raises Failed."""
    refusal_of(exchange)
    return True


def rejected(exchange: Exchange) -> bool | str:
    """A judgement: a request with a defect is refused, and not by a failure of the agent. Raises Failed."""
    error = refusal_of(exchange)
    good = error.code != "INTERNAL_ERROR" and error.status < 500 and error.number != -32603
    return good or f"A wrong request gets a failure of the agent ({error.code or error.number}), and not a refusal."


def code(*wanted: str) -> Judgement:
    """A judgement of an exchange: its error has one of these codes."""

    def judge(exchange: Exchange) -> bool:
        refusal_of(exchange).expect_code(*wanted)
        return True

    return judge


def number(*wanted: int) -> Judgement:
    """A judgement of an exchange: `error.code` is one of these numbers."""

    def judge(exchange: Exchange) -> bool:
        refusal_of(exchange).expect_number(*wanted)
        return True

    return judge


def if_refused(judgement: Judgement) -> Judgement:
    """The judgement of a request that is refused. Skips the check if it is not: another check fails for that."""

    def judge(exchange: Exchange) -> bool | str:
        with skip_if_failed():
            refusal_of(exchange)
        return judgement(exchange)

    return judge


def is_answered(exchange: Exchange) -> bool:
    """Whether the response is a success."""
    try:
        data_of(exchange)
    except Failed:
        return False
    return True
