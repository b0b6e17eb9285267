"""Numbers, null and duplicate members in a payload: as bytes, because a JSON writer would make them equal."""

from collections.abc import Callable
from typing import Any

from dealer_agent.checker.check import check, expect
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import JSON_HEADERS, Target

PLACE = "check-place"
"""What the number replaces in the body."""


async def page(target: Target, limit: str) -> Exchange:
    """The exchange of a search with this JSON text as the limit of the page."""
    body = target.body(target.message(target.payload("inventory.search", pagination={"limit": PLACE})))
    return await target.post(body.replace(f'"{PLACE}"'.encode(), limit.encode()), JSON_HEADERS)


def _accepted(text: str) -> Callable[[Target], Any]:
    async def is_two(target: Target) -> None:
        # A dealer may allow only one vehicle on a page.
        two = target.answer(await page(target, "2")).get("limit")
        exchange = await page(target, text)
        limit = target.answer(exchange).get("limit")
        expect(limit == two, f"The limit {text} gives the limit {limit!r}, and the limit 2 gives {two!r}.", exchange)

    return is_two


def _refused(text: str) -> Callable[[Target], Any]:
    async def is_refused(target: Target) -> None:
        refusal = target.refusal(await page(target, text))
        expect(
            refusal.code == "SCHEMA_VALIDATION_FAILED",
            f"The code for the limit {text} is {refusal.code or 'absent'}.",
            refusal.exchange,
        )

    return is_refused


ACCEPTED = {
    "envelope.numbers.zero-fraction": "2.0",
    "envelope.numbers.exponent": "2e0",
    "envelope.duplicate-member": '1,"limit":2',
}
REFUSED = {
    "envelope.numbers.fraction": "2.5",
    "envelope.numbers.text": '"2"',
    "envelope.numbers.boolean": "true",
    "envelope.numbers.too-large": "100000000000000000000002",
    "envelope.null": "null",
}
for _id, _text in ACCEPTED.items():
    check(_id)(_accepted(_text))
for _id, _text in REFUSED.items():
    check(_id)(_refused(_text))
