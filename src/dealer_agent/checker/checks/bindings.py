"""Checks that both interfaces of a card give the same answers: it asks one of them what the run asked the other."""

from dataclasses import replace
from typing import Any

from dealer_agent.checker.check import check
from dealer_agent.checker.exchange import Exchange, at, dicts, read_json
from dealer_agent.checker.oracle import VOLATILE, value_of
from dealer_agent.checker.outcome import Failed, expect, need
from dealer_agent.checker.reply import data_of, is_answered, refusal_of
from dealer_agent.checker.searches import key_of, shown
from dealer_agent.checker.target import LEAD, Listing, Target

MOST_ASKED = 300
"""How many requests of a card are repeated at its other interface."""
MOST_BYTES = 4_000


def _requests(target: Target) -> list[tuple[bytes, Any]]:
    """The bodies of requests of the reading skills so far, and the SendMessageRequest in each."""
    found: dict[bytes, Any] = {}
    for each in target.posted:
        document, defects = read_json(each.request_body) if len(each.request_body) < MOST_BYTES else (None, [])
        message = at(document, "params") if target.is_rpc else document
        parts = dicts(at(message, "message.parts"))
        call = [at(document, name) for name in ("jsonrpc", "method", "id")]
        simple = not target.is_rpc or (call == ["2.0", "SendMessage", 1] and type(call[2]) is int)
        if (
            simple
            and not defects
            and len(parts) == 1
            and isinstance(at(parts[0], "data.type"), str)
            and at(parts[0], "data.type") != LEAD
        ):
            found.setdefault(each.request_body, message)
    return list(found.items())[:: len(found) // MOST_ASKED + 1]


def _listing(listing: Listing) -> Listing:
    return {name: value for name, value in listing.items() if name not in VOLATILE}


def _difference(one: Exchange, other: Exchange, payload: Any) -> str | None:
    """How two answers to one request differ; None if they do not. An order without a sort may be any."""
    if not (is_answered(one) and is_answered(other)):
        if is_answered(one) or is_answered(other):
            return "is answered by one interface and refused by the other"
        try:
            codes = refusal_of(one).code, refusal_of(other).code
        except Failed:
            return None
        return None if codes[0] == codes[1] or "" in codes else f"gets {codes[0]} and {codes[1]}"
    first, second = data_of(one), data_of(other)
    if "vehicles" not in first:
        return None if _listing(first) == _listing(second) else "gets different data"
    if first.get("total") != second.get("total"):
        return f"has the totals {first.get('total')} and {second.get('total')}"
    pages = [dicts(each.get("vehicles")) for each in (first, second)]
    known, others = ({key_of(each): _listing(each) for each in page} for page in pages)
    changed = next((key for key in known.keys() & others.keys() if known[key] != others[key]), None)
    if changed is not None:
        return f"returns {changed} with different values"
    field = at(payload, "sort.field")
    if isinstance(field, str) and [value_of(each, field) for each in pages[0]] != [
        value_of(each, field) for each in pages[1]
    ]:
        return "returns different vehicles"
    return (
        "returns different vehicles" if len(pages[0]) == first.get("total") and known.keys() != others.keys() else None
    )


@check("bindings.same-answers", last=True)
async def _(target: Target) -> None:
    others = [each for each in target.card.interfaces if each != target.interface]
    twin = replace(target, interface=need(others, "The card has one interface.")[0], exchanges=[])
    for body, message in _requests(target):
        one, other = await target.post(body), await twin.send_message(message)
        payload = message["message"]["parts"][0]["data"]
        wrong = _difference(one, other, payload)
        expect(wrong is None, f"The request {shown(payload)} {wrong}: {target.binding} and {twin.binding}.", other)
