"""Large and odd requests: the agent refuses or answers them, and goes on. No check tries to reach a rate limit."""

from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, check_each, each_of
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.outcome import Failed, Skipped, expect, expect_status
from dealer_agent.checker.target import JSON_HEADERS, Refusal, Target

LARGE_BODY = 2 * 2**20
"""Bytes. Far above what a request of the protocol needs, and cheap to send."""
LONG = 20_000
"""Characters."""
REPLACED = "REPLACED-BY-THE-CHECK"
TOO_MANY_REQUESTS = 429

Body = Callable[[Target], bytes]


def _filters(**filters: Any) -> Body:
    return lambda target: target.body(target.message(target.payload("inventory.search", filters=filters)))


def _query(text: bytes) -> Body:
    """A search whose `query` is this JSON text."""
    return lambda target: _filters(query=REPLACED)(target).replace(f'"{REPLACED}"'.encode(), text)


def _information(target: Target, **members: Any) -> dict[str, Any]:
    return target.message(target.payload("dealer.information"), **members)


NULL = {"message": {"messageId": None, "role": None, "parts": [None]}, "configuration": None}


def _expect_no_server_error(exchange: Exchange) -> None:
    expect(exchange.status < 500, f"The request gets HTTP {exchange.status}.", exchange)
    document = exchange.json
    error = document.get("error") if isinstance(document, dict) and "jsonrpc" in document else None
    number = error.get("code") if isinstance(error, dict) else None
    expect(number != -32603, "The call gets the number -32603 (internal error).", exchange)


@check_each(
    {
        "limits.long-message-id": lambda target: target.body(_information(target, messageId="m" * LONG)),
        "limits.long-id": lambda target: target.body(_information(target), rpc_id="i" * LONG),
        "limits.long-filter": _filters(make=["f" * LONG]),
        "limits.many-values": _filters(model=[f"model {number}" for number in range(2_000)]),
        "limits.huge-number": _query(b'"x", "price_max": ' + b"9" * 400),
        # No double can hold this number.
        "limits.infinite-number": _query(b'"x", "price_max": 1e999'),
        "limits.lone-surrogate": _query(b'"\\ud800"'),
        "limits.nul": _query(b'"a\\u0000b"'),
        "limits.not-utf-8": _query(b'"caf\xe9"'),
        "limits.null-members": lambda target: target.body(NULL),
    }
)
async def _(target: Target, body: Body) -> None:
    _expect_no_server_error(await target.post(body(target)))


@check("limits.long-header")
async def _(target: Target) -> None:
    extensions = "https://extension.example/" + "e" * 3_974
    sent = (*(each for each in JSON_HEADERS if each[0] != "Accept"), ("A2A-Extensions", extensions))
    _expect_no_server_error(await target.post(target.body(_information(target)), sent))


async def _large(target: Target) -> Exchange:
    message = _information(target, metadata={"padding": "x" * LARGE_BODY})
    return await target.post(target.body(message), patient=False)


async def _refused_for_its_size(target: Target) -> Exchange:
    exchange = await _large(target)
    if exchange.status >= 500 or not exchange.is_refusal:
        raise Skipped("The agent accepts a body of 2 MiB, or it gets a server error.")
    return exchange


@check("limits.large-body")
async def _(target: Target) -> None:
    _expect_no_server_error(await _large(target))


@check("limits.large-body-status")
async def _(target: Target) -> None:
    expect_status(await _refused_for_its_size(target), 413, TOO_MANY_REQUESTS)


@check("limits.large-body-envelope")
async def _(target: Target) -> None:
    exchange = await _refused_for_its_size(target)
    expect(target.refusal(exchange).payload, "The refusal has no error payload.", exchange)


@check("limits.alive", last=True)
async def _(target: Target) -> None:
    exchange = await target.send(target.payload("inventory.search", pagination={"limit": 17}), fresh=True)
    try:
        target.reply_message(exchange)
    except Failed as failure:
        raise Failed(f"The agent does not answer a search any more. {failure.sentence}", exchange) from None


async def _rate_limited(target: Target) -> list[tuple[Exchange, Exchange]]:
    found = [(each, each) for each in target.exchanges if each.status == TOO_MANY_REQUESTS]
    if not found:
        raise Skipped("No request was refused for its rate.")
    return found


async def _rate_errors(target: Target) -> list[tuple[Refusal, Exchange]]:
    return [(target.refusal(each), each) for each, _ in await _rate_limited(target)]


def _says_how_long(exchange: Exchange) -> bool | str:
    value = exchange.header("retry-after") or ""
    return value.isdigit() or f"The header Retry-After is {value!r}, no number of seconds."


each_of(_rate_limited, {"limits.retry-after": _says_how_long}, last=True)
each_of(
    _rate_errors,
    {
        "limits.rate-limited-code": lambda error: (
            error.code == "RATE_LIMITED" or f"The code is {error.code or 'absent'}."
        ),
        "limits.rate-limited-retryable": lambda error: (
            error.payload.get("retryable", not error.payload) is True or "`retryable` is not true."
        ),
    },
    last=True,
)
