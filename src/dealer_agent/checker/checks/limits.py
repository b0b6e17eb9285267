"""Large and odd requests: the agent refuses or answers them, and goes on. No check tries to reach a rate limit."""

from typing import Any

from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Refusal, Target
from dealer_agent.protocol.card import A2A_VERSION

LARGE_BODY = 2 * 2**20
"""Bytes. Far above what a request of the protocol needs, and cheap to send."""
LONG = 20_000
"""Characters."""
REPLACED = "REPLACED-BY-THE-CHECK"
TOO_MANY_REQUESTS = 429


def _no_server_error(exchange: Exchange) -> None:
    expect(exchange.status < 500, f"The request gets HTTP {exchange.status}.", exchange)
    document = exchange.json
    error = document.get("error") if isinstance(document, dict) and "jsonrpc" in document else None
    number = error.get("code") if isinstance(error, dict) else None
    expect(number != -32603, "The call gets the number -32603 (internal error).", exchange)


async def _post(target: Target, content: bytes) -> Exchange:
    exchange = await target.post(content)
    _no_server_error(exchange)
    return exchange


def _search(target: Target, **filters: Any) -> Any:
    return target.message(target.payload("inventory.search", filters=filters))


async def _post_filters(target: Target, **filters: Any) -> None:
    await _post(target, target.body(_search(target, **filters)))


async def _post_with(target: Target, text: bytes) -> None:
    """Posts a search whose `query` is this JSON text."""
    content = target.body(_search(target, query=REPLACED)).replace(f'"{REPLACED}"'.encode(), text)
    await _post(target, content)


async def _large(target: Target) -> Exchange:
    message = target.message(target.payload("dealer.information"), metadata={"padding": "x" * LARGE_BODY})
    return await target.post(target.body(message), patient=False)


async def _refused_for_its_size(target: Target) -> Exchange:
    exchange = await _large(target)
    if exchange.status >= 500:
        raise Skipped("The body of 2 MiB gets a server error.")
    if exchange.status < 400 and not (isinstance(exchange.json, dict) and "error" in exchange.json):
        raise Skipped("The agent accepts a body of 2 MiB.")
    return exchange


@check("limits.large-body")
async def large_bodies_do_no_harm(target: Target) -> None:
    """Sends 2 MiB of metadata."""
    _no_server_error(await _large(target))


@check("limits.large-body-status")
async def large_bodies_have_413(target: Target) -> None:
    """Looks at the refusal of 2 MiB."""
    exchange = await _refused_for_its_size(target)
    expect(exchange.status in (413, TOO_MANY_REQUESTS), f"The status is {exchange.status}, not 413.", exchange)


@check("limits.large-body-envelope")
async def large_bodies_get_the_envelope(target: Target) -> None:
    """Looks at the refusal of 2 MiB."""
    exchange = await _refused_for_its_size(target)
    expect(target.refusal(exchange).payload, "The refusal has no error payload.", exchange)


@check("limits.long-message-id")
async def long_message_ids_do_no_harm(target: Target) -> None:
    """Sends a messageId of 20,000 characters."""
    await _post(target, target.body(target.message(target.payload("dealer.information"), messageId="m" * LONG)))


@check("limits.long-filter")
async def long_filters_do_no_harm(target: Target) -> None:
    """Sends a make of 20,000 characters."""
    await _post_filters(target, make=["f" * LONG])


@check("limits.many-values")
async def many_values_do_no_harm(target: Target) -> None:
    """Sends 2,000 models."""
    await _post_filters(target, model=[f"model {number}" for number in range(2_000)])


@check("limits.huge-number")
async def huge_numbers_do_no_harm(target: Target) -> None:
    """Sends a price of 400 digits."""
    await _post_with(target, b'"x", "price_max": ' + b"9" * 400)


@check("limits.infinite-number")
async def numbers_beyond_a_double_do_no_harm(target: Target) -> None:
    """Sends a price that no double can hold."""
    await _post_with(target, b'"x", "price_max": 1e999')


@check("limits.lone-surrogate")
async def half_characters_do_no_harm(target: Target) -> None:
    """Sends half of a surrogate pair."""
    await _post_with(target, b'"\\ud800"')


@check("limits.nul")
async def nul_does_no_harm(target: Target) -> None:
    """Sends U+0000."""
    await _post_with(target, b'"a\\u0000b"')


@check("limits.not-utf-8")
async def other_encodings_do_no_harm(target: Target) -> None:
    """Sends Latin-1."""
    await _post_with(target, b'"caf\xe9"')


@check("limits.null-members")
async def null_does_no_harm(target: Target) -> None:
    """Sends a message whose members are null."""
    message = {"message": {"messageId": None, "role": None, "parts": [None]}, "configuration": None}
    await _post(target, target.body(message))


@check("limits.long-id")
async def long_ids_do_no_harm(target: Target) -> None:
    """Sends an id of 20,000 characters."""
    await _post(target, target.body(target.message(target.payload("dealer.information")), rpc_id="i" * LONG))


@check("limits.long-header")
async def long_headers_do_no_harm(target: Target) -> None:
    """Sends an extension URI of 4,000 characters."""
    content = target.body(target.message(target.payload("dealer.information")))
    extensions = "https://extension.example/" + "e" * 3_974
    sent = (("Content-Type", "application/json"), ("A2A-Version", A2A_VERSION), ("A2A-Extensions", extensions))
    _no_server_error(await target.post(content, sent))


@check("limits.alive", last=True)
async def the_agent_still_answers(target: Target) -> None:
    """Searches once more."""
    exchange = await target.send(target.payload("inventory.search", pagination={"limit": 17}), fresh=True)
    try:
        target.reply_message(exchange)
    except Failed as failure:
        raise Failed(f"The agent does not answer a search any more. {failure.sentence}", exchange) from None


def _rate_limited(target: Target) -> list[Exchange]:
    found = [each for each in target.exchanges if each.status == TOO_MANY_REQUESTS]
    if not found:
        raise Skipped("No request was refused for its rate.")
    return found


@check("limits.retry-after", last=True)
async def refused_rates_say_how_long_to_wait(target: Target) -> None:
    """Looks at the responses that were seen."""
    for exchange in _rate_limited(target):
        value = exchange.header("retry-after") or ""
        expect(value.isdigit(), f"The header Retry-After is {value!r}, no number of seconds.", exchange)


def _rate_errors(target: Target) -> list[Refusal]:
    return [target.refusal(each) for each in _rate_limited(target)]


@check("limits.rate-limited-code", last=True)
async def refused_rates_have_their_code(target: Target) -> None:
    """Looks at the responses that were seen."""
    for error in _rate_errors(target):
        expect(error.code == "RATE_LIMITED", f"The code is {error.code or 'absent'}.", error.exchange)


@check("limits.rate-limited-retryable", last=True)
async def refused_rates_are_retryable(target: Target) -> None:
    """Looks at the responses that were seen."""
    for error in _rate_errors(target):
        if error.payload:
            expect(error.payload.get("retryable") is True, "`retryable` is not true.", error.exchange)
