"""Checks the offers extension: quotes, and what an anonymous agent may ask. No vehicle is held."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from dealer_agent.checker.check import check
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.outcome import Failed, conclude, expect, skip_if_failed, skip_unless
from dealer_agent.checker.reply import data_of, refusal_of, rejected
from dealer_agent.checker.target import JSON_HEADERS, Target
from dealer_agent.client.errors import QuoteNotVerified
from dealer_agent.client.quotes import header_of, verify_quote
from dealer_agent.protocol.timestamps import parse_timestamp

Json = dict[str, Any]

MOST_PAGES = 100
"""The pages of inventory.changes that are read."""
LONGEST = timedelta(hours=24)
_MEMBERS = {
    "quote_id": str, "vehicle": dict, "price": int | float, "lines": list, "total": int | float, "complete": bool,
    "missing": list, "currency": str, "created_at": str, "valid_until": str, "terms": str, "signature": str,
}  # fmt: skip
_LINE = {"label": str, "kind": str, "payee": str, "amount": int | float, "firm": bool}


async def _priced(target: Target) -> Json:
    """A listing with a price and a VIN."""
    priced = [each for each in await target.having("price") if each.get("vin")]
    return skip_unless(priced, "No listing with a price has a VIN.")[0]


async def _quoted(target: Target) -> tuple[Json, Exchange]:
    """A quote, and its exchange. Raises Failed."""
    listing = await _priced(target)
    exchange = await target.send(target.payload("offer.quote", vin=listing["vin"]))
    return data_of(exchange), exchange


async def _quote(target: Target) -> Json:
    """A quote. Skips the check if there is none: another check fails for that."""
    with skip_if_failed():
        quote, _ = await _quoted(target)
    skip_unless(not _wrong_members(quote, _MEMBERS), "The quote does not have all members.")
    return quote


def _wrong_members(document: Mapping[str, Any], members: Mapping[str, Any]) -> list[str]:
    """The members that are absent, or of a wrong type. A boolean is not a number."""
    return [
        name
        for name, kind in members.items()
        if not isinstance(document.get(name), kind) or (isinstance(document[name], bool) and kind is not bool)
    ]


@check("offers.quote-members")
async def _(target: Target) -> None:
    quote, exchange = await _quoted(target)
    wrong = _wrong_members(quote, _MEMBERS)
    expect(not wrong, f"Members of the quote are absent or malformed: {', '.join(wrong)}.", exchange)


@check("offers.quote-lines")
async def _(target: Target) -> None:
    quote = await _quote(target)
    lines = dicts(quote["lines"])
    expect(lines and len(lines) == len(quote["lines"]), "The quote has no lines, or some that are not objects.")
    for line in lines:
        expect(
            not _wrong_members(line, _LINE),
            f"Members of a line are absent or malformed: {', '.join(_wrong_members(line, _LINE))}.",
        )


async def _whole_quote(target: Target) -> Json:
    """A quote with right lines."""
    quote = await _quote(target)
    lines = dicts(quote["lines"])
    skip_unless(
        lines and len(lines) == len(quote["lines"]) and not any(_wrong_members(line, _LINE) for line in lines),
        "The lines of the quote are wrong. Another check reports that.",
    )
    return quote


@check("offers.quote-sum")
async def _(target: Target) -> None:
    """Amounts are added as decimals, because a sum of floats is not exact.

    An amount that is not a number fails the check.
    """
    quote = await _whole_quote(target)
    try:
        total = sum((Decimal(str(line["amount"])) for line in quote["lines"]), Decimal(0))
    except InvalidOperation:
        total = Decimal("NaN")
    expect(total == Decimal(str(quote["total"])), f"The lines add up to {total}, and the total is {quote['total']}.")


@check("offers.quote-price")
async def _(target: Target) -> None:
    listing, quote = await _priced(target), await _quote(target)
    expect(
        quote["price"] == listing["price"], f"The price is {quote['price']}, and the listing has {listing['price']}."
    )


@check("offers.quote-valid")
async def _(target: Target) -> None:
    """Both times need an offset. Their difference is the time for which the quote is valid."""
    quote = await _quote(target)
    times = [parse_timestamp(quote[name]) for name in ("created_at", "valid_until")]
    expect(
        all(isinstance(each, datetime) and each.tzinfo for each in times),
        "A time of the quote has no offset from UTC.",
    )
    begin, end = (each for each in times if each is not None)
    expect(timedelta(0) < end - begin <= LONGEST, f"The quote is valid for {end - begin}.")


@check("offers.quote-complete")
async def _(target: Target) -> None:
    """`complete` is true exactly if `missing` is empty. A kind cannot be a line and missing at once."""
    quote = await _whole_quote(target)
    expect(
        quote["complete"] is not bool(quote["missing"]),
        f"`complete` is {quote['complete']}, although `missing` is {quote['missing']}.",
    )
    both = {line["kind"] for line in quote["lines"]} & set(map(str, quote["missing"]))
    expect(not both, f"Lines are there that are missing: {', '.join(sorted(both))}.")


@check("offers.quote-signature")
async def _(target: Target) -> None:
    """The keys are fetched from the address that the signature names."""
    quote = await _quote(target)
    try:
        keys = await target.fetch(str(header_of(quote).get("jku")))
        expect(isinstance(keys.json, dict), "The address in `jku` has no keys.", keys)
        verify_quote(quote, keys.json)
    except QuoteNotVerified as error:
        raise Failed(str(error)) from None


@check("offers.buyer-ref")
async def _(target: Target) -> None:
    listing = await _priced(target)
    refs = {"buyer_ref": "buyer@example.com"}
    conclude(rejected(await target.send(target.payload("offer.quote", vin=listing["vin"], **refs))))


@check("offers.hold-anonymous")
async def _(target: Target) -> None:
    """The quote is valid, so that only the missing identity can be the reason of the refusal."""
    quote = await _quote(target)
    payload = target.payload("offer.hold", quote_id=quote["quote_id"], idempotency_key=str(quote["quote_id"]))
    refusal_of(await _anonymous(target, payload)).expect_code("CALLER_NOT_KNOWN", "AUTH_REQUIRED")


async def _anonymous(target: Target, payload: Json) -> Exchange:
    """The exchange of a payload without a token or signature."""
    content = target.body(target.message(payload))
    return await target.request("POST", target.interface.endpoint, content, JSON_HEADERS, without_token=True)


@check("offers.lead-unknown")
async def _(target: Target) -> None:
    payload = target.payload("lead.status", lead_id="01HZ9QK7M3V8P2S6T4W0Y1Z3X5", secret="unknown")  # noqa: S106
    refusal_of(await target.send(payload)).expect_code("LEAD_NOT_FOUND")


@check("offers.changes-whole")
async def _(target: Target) -> None:
    """All pages are read, at most MOST_PAGES, and their vehicles are compared with those of the searches."""
    wanted = {str(each.get("vehicle_id")) for each in await target.some_listings()}
    skip_unless(target.stock.is_complete, "The stock is too large to compare.")
    listed: list[Json] = []
    page: Json = {"more": True}
    for _ in range(MOST_PAGES):
        cursor = {"cursor": page["cursor"]} if "cursor" in page else {}
        page = await target.ask("inventory.changes", **cursor)
        listed += dicts(page.get("changes"))
        if page.get("more") is not True:
            break
    expect(
        all(each.get("change") == "added" for each in listed),
        "A page of the whole stock has changes of another kind than `added`.",
    )
    ids = [str(each.get("vehicle_id")) for each in listed]
    missing, twice = wanted - set(ids), len(ids) - len(set(ids))
    expect(not missing and not twice, f"The pages lack {len(missing)} vehicles, and have {twice} twice.")
    expect(set(ids) <= wanted, f"The pages have {len(set(ids) - wanted)} vehicles that search does not have.")
