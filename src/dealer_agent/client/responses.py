"""Requests as bytes, and responses as data or errors, for both bindings and every version of the protocol. Pure.

A lead has another form in each version, too.

The position and the form of an error in a response differ between bindings and versions. All of them are read:

- JSON-RPC: `error.data` is the error payload, or an array with it; HTTP+JSON: `error.details` is such an array.
- An entry of `details.errors` has `instancePath` and `message`, or `instanceLocation` and `error`.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Self, TypeVar

import msgspec

from dealer_agent.client.card import Card
from dealer_agent.client.decoding import decode_lenient
from dealer_agent.client.errors import REFUSALS, MalformedResponse, Refused, ReportedProblem, Unreachable
from dealer_agent.client.result import Result
from dealer_agent.client.results import LeadReceipt, Quote
from dealer_agent.client.transport import Received
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.skill import Skill

Answer = TypeVar("Answer", bound=Result)

GATEWAY_STATUSES = (502, 503, 504)
"""Statuses that a gateway answers without a payload."""

_CODE_OF_STATUS = {401: "AUTH_REQUIRED", 429: "RATE_LIMITED"}
"""Published versions answer these statuses without a payload."""

_CODE_OF_NUMBER: dict[int, str] = {}
for _code, _kind in ERRORS.items():
    if _kind.json_rpc != -32000:
        _CODE_OF_NUMBER.setdefault(_kind.json_rpc, _code)
    if _kind.json_rpc_autoagent is not None:
        _CODE_OF_NUMBER.setdefault(_kind.json_rpc_autoagent, _code)


LONGEST_MESSAGE = 2_000
"""The most characters of a message that an error repeats."""
LONGEST_NAME = 200
"""The most characters of a code, an id or a keyword in an error."""
MOST_PROBLEMS = 1_000


class SkillResponse(Result, frozen=True):
    """The response of a skill: `data` as received, and an optional sentence for people."""

    data: dict[str, Any]
    message: str | None = None

    def typed(self, kind: type[Answer]) -> Answer:
        """The data as a type of `client.results`. Raises MalformedResponse."""
        try:
            return decode_lenient(self.data, kind)
        except (msgspec.ValidationError, RecursionError) as error:
            raise MalformedResponse(
                f"The response does not have the form of {kind.__name__}: {error}", http_status=200
            ) from None


class SubmittedLead(LeadReceipt, frozen=True, kw_only=True):
    """What became of the lead, the dealer's sentence for the customer, and the key under which it was sent."""

    message: str | None = None
    idempotency_key: str = ""

    def sent_with(self, message: str | None, key: str) -> Self:
        """The same response with what is not in its data."""
        return msgspec.structs.replace(self, message=message, idempotency_key=key)


class SignedQuote(Quote, frozen=True, kw_only=True):
    """A quote. `document` is exactly what was received, which is what the dealer has signed: store this one."""

    document: dict[str, Any]

    @classmethod
    def of(cls, response: SkillResponse) -> Self:
        """The quote in a response. Raises MalformedResponse."""
        quote = response.typed(Quote)
        return cls(**{name: getattr(quote, name) for name in Quote.__struct_fields__}, document=response.data)


def fitting_lead(members: dict[str, Any], card: Card) -> dict[str, Any]:
    """The members of a lead in the form of the card's version.

    From 1.1 on, `source_agent` is an object, and consent has none. In 1.0 and 0.1 both are the agent's name.
    """
    agent, consent = members["source_agent"], members["consent"]
    if card.source_agent_is_object:
        agent = agent if isinstance(agent, dict) else {"name": agent}
        consent = {name: value for name, value in consent.items() if name != "source_agent"}
    else:
        agent = agent.get("name", "") if isinstance(agent, dict) else agent
        consent = {"source_agent": agent, **consent}
    return {**members, "source_agent": agent, "consent": consent}


def request_body(card: Card, skill: Skill, members: Mapping[str, Any], message_id: str) -> bytes:
    """The body of a request in the binding and vocabulary of the card. `members` are those of the payload."""
    request = {
        "message": {
            "messageId": message_id,
            "role": "ROLE_USER",
            "parts": [{"data": {**members, "type": skill.request_type}, "mediaType": card.request_type(skill)}],
        },
        "configuration": {"acceptedOutputModes": [card.response_type(skill)]},
    }
    if card.binding == "JSONRPC":
        request = {"jsonrpc": "2.0", "id": message_id, "method": "SendMessage", "params": request}
    return msgspec.json.encode(request)


def read_response(card: Card, skill: Skill, received: Received, message_id: str) -> SkillResponse:
    """The data and the message of a response. Raises Refused, Unreachable for a gateway, or MalformedResponse."""
    try:
        body = msgspec.json.decode(received.body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    if received.status != 200 or error is not None:
        raise error_of(error if error is not None else body, received)
    if not isinstance(body, dict):
        raise _malformed("is not a JSON object", received)
    if card.binding == "JSONRPC":
        if body.get("id") != message_id:
            raise _malformed("answers another call: its id is wrong", received)
        body = body.get("result")
    message = body.get("message") if isinstance(body, dict) else None
    parts = message.get("parts") if isinstance(message, dict) else None
    payloads = [part["data"] for part in parts if _has_object(part, "data")] if isinstance(parts, list) else []
    answers = [payload for payload in payloads if payload.get("type") == skill.response_type]
    if len(answers) != 1 or not _has_object(answers[0], "data"):
        raise _malformed(f"has no {skill.response_type}", received)
    text = answers[0].get("message")
    return SkillResponse(answers[0]["data"], text if isinstance(text, str) else None)


def _has_object(value: object, name: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(name), dict)


def _malformed(what: str, received: Received) -> MalformedResponse:
    return MalformedResponse(f"The response of {received.url} {what}.", http_status=received.status, body=received.body)


def error_of(error: Any, received: Received) -> Refused | Unreachable | MalformedResponse:
    """The error of a response. `error` is the JSON value of its `error`, or of the whole body if it has none."""
    nodes = list(_nodes(error))
    payload = next((node for node in nodes if isinstance(node.get("code"), str)), {})
    info = next((node for node in nodes if isinstance(node.get("reason"), str)), {})
    number = next((node["code"] for node in nodes if isinstance(node.get("code"), int) and node["code"] < 0), None)
    details = payload.get("details")
    details = details if isinstance(details, dict) else {}
    wait = _waiting_time(received, details)
    code = payload.get("code") or info.get("reason") or _CODE_OF_NUMBER.get(number or 0)
    if code is None:
        if received.status in GATEWAY_STATUSES:
            return Unreachable(
                f"A gateway answered {received.status} for {received.url}.",
                # With Retry-After, 503 refuses a request before it is handled. Else a gateway may have sent it on.
                may_have_arrived=received.status != 503 or wait is None,
                http_status=received.status,
                retry_after=wait,
            )
        code = _CODE_OF_STATUS.get(received.status) or (str(number) if number else None)
        if code is None:
            return _malformed(f"has status {received.status} and no error of the protocol", received)
    message = next((node["message"] for node in (payload, *nodes) if isinstance(node.get("message"), str)), "")
    metadata = info.get("metadata")
    error_id = payload.get("error_id") or (metadata.get("error_id") if isinstance(metadata, dict) else None)
    retryable = payload.get("retryable")
    return REFUSALS.get(code, Refused)(
        code[:LONGEST_NAME],
        message[:LONGEST_MESSAGE] or f"HTTP status {received.status}",
        problems=islice(_problems(details, nodes), MOST_PROBLEMS),
        details=details,
        error_id=error_id[:LONGEST_NAME] if isinstance(error_id, str) else None,
        retryable=retryable if isinstance(retryable, bool) else None,
        retry_after=wait,
        http_status=received.status,
        json_rpc=number,
    )


def _nodes(error: Any) -> Iterator[dict[str, Any]]:
    """The objects of an error that can describe it: the error itself, and those in its `data` and `details`."""
    if not isinstance(error, dict):
        return
    yield error
    for name in ("data", "details"):
        inner = error.get(name)
        for entry in inner if isinstance(inner, list) else [inner]:
            if isinstance(entry, dict):
                yield entry


def _problems(details: dict[str, Any], nodes: list[dict[str, Any]]) -> Iterator[ReportedProblem]:
    """The problems that an error lists, in the form of any version."""
    entries = details.get("errors")
    if not isinstance(entries, list):
        entries = next((node["fieldViolations"] for node in nodes if isinstance(node.get("fieldViolations"), list)), [])
    for entry in entries:
        if isinstance(entry, dict):
            pointer = _first_text(entry, "instancePath", "instanceLocation", "field")
            message = _first_text(entry, "message", "error", "description")
            keyword = _first_text(entry, "keyword")
            yield ReportedProblem(pointer[:LONGEST_MESSAGE], message[:LONGEST_MESSAGE], keyword[:LONGEST_NAME])


def _first_text(entry: dict[str, Any], *names: str) -> str:
    return next((entry[name] for name in names if isinstance(entry.get(name), str)), "")


def _waiting_time(received: Received, details: dict[str, Any]) -> float | None:
    """The seconds of `Retry-After`, else those in the details."""
    seconds = details.get("retry_after_seconds")
    in_details = float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None
    return in_details if received.retry_after is None else received.retry_after
