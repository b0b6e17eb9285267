"""Checks that an agent survives large and odd requests. No check tries to reach a rate limit."""

from typing import Any

from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.exchange import TOO_MANY_REQUESTS, Exchange, at
from dealer_agent.checker.outcome import Failed, Skipped, header, skip_unless, status
from dealer_agent.checker.reply import Refusal, code, message_of, refusal_of
from dealer_agent.checker.target import Request, Target, asking, put

LARGE_BODY = 2 * 2**20
"""Bytes. Far above what a request of the protocol needs, and cheap to send."""
LONG = 20_000
"""Characters."""
REPLACED = "REPLACED-BY-THE-CHECK"
NULL = {"message": {"messageId": None, "role": None, "parts": [None]}, "configuration": None}


def _search(**filters: Any) -> Request:
    return asking("inventory.search", filters=filters)


def _query(text: bytes) -> Request:
    """A search whose `query` is this JSON text."""

    async def send(target: Target) -> Exchange:
        body = target.body(target.message(target.payload("inventory.search", filters={"query": REPLACED})))
        return await target.post(body.replace(f'"{REPLACED}"'.encode(), text))

    return send


async def _long_id(target: Target) -> Exchange:
    return await target.post(target.body(target.message(target.payload("dealer.information")), id="i" * LONG))


async def _large(target: Target) -> Exchange:
    message = target.message(target.payload("dealer.information"), metadata={"padding": "x" * LARGE_BODY})
    return await target.post(target.body(message), patient=False)


async def _refused_for_its_size(target: Target) -> Exchange:
    exchange = await _large(target)
    if exchange.status >= 500 or not exchange.is_refusal:
        raise Skipped("The agent accepts a body of 2 MiB, or it gets a server error.")
    return exchange


def _is_no_server_error(exchange: Exchange) -> bool | str:
    if exchange.status >= 500:
        return f"The request gets HTTP {exchange.status}."
    return at(exchange.json, "error.code") != -32603 or "The call gets the number -32603 (internal error)."


judge_each(
    {
        name: (request, _is_no_server_error)
        for name, request in {
            "limits.long-message-id": asking("dealer.information", put("message.messageId", "m" * LONG)),
            "limits.long-id": _long_id,
            "limits.long-filter": _search(make=["f" * LONG]),
            "limits.many-values": _search(model=[f"model {number}" for number in range(2_000)]),
            "limits.huge-number": _query(b'"x", "price_max": ' + b"9" * 400),
            # No double can hold this number.
            "limits.infinite-number": _query(b'"x", "price_max": 1e999'),
            "limits.lone-surrogate": _query(b'"\\ud800"'),
            "limits.nul": _query(b'"a\\u0000b"'),
            "limits.not-utf-8": _query(b'"caf\xe9"'),
            "limits.null-members": lambda target: target.send_message(NULL),
            "limits.long-header": asking(
                "dealer.information",
                headers={"A2A-Extensions": "https://extension.example/" + "e" * 3_974, "Accept": ""},
            ),
            "limits.large-body": _large,
        }.items()
    }
)
judge_each(
    {
        "limits.large-body-status": (_refused_for_its_size, status(413, TOO_MANY_REQUESTS)),
        "limits.large-body-envelope": (
            _refused_for_its_size,
            lambda exchange: bool(refusal_of(exchange).payload) or "The refusal has no error payload.",
        ),
    }
)


@check("limits.alive", last=True)
async def _(target: Target) -> None:
    """The last check of a run: after all wrong requests, the agent still answers a search."""
    exchange = await target.send(target.payload("inventory.search", pagination={"limit": 17}), fresh=True)
    try:
        message_of(exchange)
    except Failed as failure:
        raise Failed(f"The agent does not answer a search any more. {failure.sentence}", exchange) from None


async def _rate_limited(target: Target) -> list[Exchange]:
    limited = [each for each in target.wire.limited if each.url.startswith(target.interface.url)]
    return skip_unless(limited, "No request was refused for its rate.")


async def _rate_errors(target: Target) -> list[Refusal]:
    return [refusal_of(each) for each in await _rate_limited(target)]


each_of(
    _rate_limited,
    {"limits.retry-after": header("Retry-After", str.isdigit), "limits.rate-limited-code": code("RATE_LIMITED")},
    last=True,
)
each_of(
    _rate_errors,
    {
        "limits.rate-limited-retryable": lambda error: (
            error.payload.get("retryable", not error.payload) is True or "`retryable` is not true."
        ),
    },
    last=True,
)
