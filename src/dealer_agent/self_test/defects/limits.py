"""Defects for the checks of limits: agents that large and odd requests harm, or that answer them wrongly."""

import json

from dealer_agent.self_test.changing import When, answers, asks, error, error_payload, with_code, with_status
from dealer_agent.self_test.defect import AgentResponse, Call

LARGE = 2**20


def has(text: bytes) -> When:
    """Messages whose body has this text."""
    return lambda call: len(call.body) < LARGE and text in call.body


def crashed(answer: AgentResponse) -> AgentResponse:
    """The answer of a web framework after an exception."""
    return answer.with_status(500).with_body(b'{"detail": "Internal Server Error"}')


def is_large(call: Call) -> bool:
    """Requests with a body of more than LARGE bytes."""
    return len(call.body) > LARGE


answers("limits.large-body", lambda answer: with_status(500)(answer).with_status(503), is_large)
answers("limits.large-body-status", with_status(422), is_large)
answers("limits.large-body-envelope", lambda answer: answer.with_body(b'{"detail": "Too large"}'), is_large)
answers("limits.long-message-id", crashed, has(b"m" * 20_000))
answers("limits.long-filter", crashed, has(b"f" * 20_000))
answers("limits.many-values", crashed, has(b'"model 1999"'))
answers("limits.huge-number", crashed, has(b"9" * 400))
answers("limits.infinite-number", crashed, has(b"1e999"))
answers("limits.lone-surrogate", crashed, has(b'"\\ud800"'))
answers("limits.nul", crashed, has(b'"a\\u0000b"'))
answers("limits.not-utf-8", error(lambda node: node.update(code=-32603)), has(b"caf\xe9"))
answers("limits.null-members", crashed, has(b'"messageId": null, "role": null'))
answers("limits.long-id", error(lambda node: node.update(code=-32603)), has(b"i" * 20_000))
answers("limits.long-header", crashed, lambda call: len(call.header("A2A-Extensions") or "") > 3_000)


def wants_few(call: Call) -> bool:
    """Searches for a page of less than ten vehicles."""
    pagination = call.payload.get("pagination") if call.skill == "inventory.search" else None
    limit = pagination.get("limit") if isinstance(pagination, dict) else None
    return isinstance(limit, int) and 0 < limit < 10


answers("limits.searches-answered", crashed, wants_few)
answers("limits.alive", crashed, asks("inventory.search.request", pagination={"limit": 17}))


def rate_limited(answer: AgentResponse) -> AgentResponse:
    """A refusal of the rate in the form of HTTP+JSON."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMITED",
        "domain": "x",
        "metadata": {},
    }
    payload = {
        "@type": "type.googleapis.com/proto.error",
        "type": "proto.error",
        "error_id": "err_1",
        "code": "RATE_LIMITED",
        "message": "Too many requests.",
        "retryable": True,
        "details": {},
        "created_at": "2026-01-05T15:00:00.000Z",
    }
    body = {"error": {"code": 429, "message": "Too many requests.", "details": [info, payload]}}
    return answer.with_status(429).with_header("retry-after", "1").with_body(json.dumps(body).encode())


answers("limits.retry-after", lambda answer: rate_limited(answer).with_header("retry-after", None), is_large)
answers("limits.rate-limited-code", lambda answer: with_code("BUSY")(rate_limited(answer)), is_large)
answers(
    "limits.rate-limited-retryable",
    lambda answer: error_payload(lambda node: node.update(retryable=False))(rate_limited(answer)),
    is_large,
)
