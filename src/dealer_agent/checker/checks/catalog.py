"""The catalogue of the host, `/.well-known/ai-catalog.json`, beside the card at the well-known path."""

from typing import Any

from dealer_agent.checker.check import Skipped, check, expect
from dealer_agent.checker.checks.cards import CARD_HEADERS, is_absolute, objects, same_origin
from dealer_agent.checker.discovery import MOST_CARDS
from dealer_agent.checker.exchange import Exchange
from dealer_agent.checker.target import Target
from dealer_agent.protocol.well_known import CARD_PATH, CARD_TYPE, CATALOG_PATH


async def _catalog(target: Target) -> Exchange:
    """The catalogue. Skips the check if there is none."""
    if not target.card.url.endswith(CARD_PATH):
        raise Skipped("The card is not at the well-known path.")
    url = target.card.url.removesuffix(CARD_PATH) + CATALOG_PATH
    exchange = await target.request("GET", url, headers=CARD_HEADERS, without_token=True)
    if exchange.status != 200:
        raise Skipped("There is no catalogue beside the card.")
    return exchange


async def _entries(target: Target) -> tuple[Exchange, list[dict[str, Any]]]:
    exchange = await _catalog(target)
    found = objects(exchange.json.get("entries")) if isinstance(exchange.json, dict) else []
    if not found:
        raise Skipped("The catalogue has no entries.")
    return exchange, found


def _type(entry: dict[str, Any]) -> object:
    return entry.get("type") or entry.get("mediaType")


async def _cards(target: Target) -> tuple[Exchange, list[str]]:
    exchange, entries = await _entries(target)
    found = [each["url"] for each in entries if _type(each) == CARD_TYPE and is_absolute(each.get("url"))]
    if not found:
        raise Skipped("The catalogue names no cards.")
    return exchange, found


@check("catalog.json")
async def the_catalogue_has_entries(target: Target) -> None:
    """Fetches the catalogue."""
    exchange = await _catalog(target)
    listed = isinstance(exchange.json, dict) and isinstance(exchange.json.get("entries"), list)
    expect(listed, "The catalogue is no JSON object with a list of entries.", exchange)


@check("catalog.entry-members")
async def entries_have_type_and_url(target: Target) -> None:
    """Looks at all entries."""
    exchange, entries = await _entries(target)
    for each in entries:
        name = each.get("displayName") or each.get("identifier")
        expect(isinstance(_type(each), str), f"The entry {name!r} has no type.", exchange)
        located = is_absolute(each.get("url")) or "data" in each or "inline" in each
        expect(located, f"The entry {name!r} has no absolute URL.", exchange)


@check("catalog.cards-answer")
async def listed_cards_answer(target: Target) -> None:
    """Fetches the cards on the host of the catalogue."""
    _, urls = await _cards(target)
    for url in urls[:MOST_CARDS]:
        if same_origin(url, target.card.url):
            exchange = await target.request("GET", url, headers=CARD_HEADERS, without_token=True)
            found = exchange.status == 200 and isinstance(exchange.json, dict)
            expect(found, f"The card that the catalogue names gets HTTP {exchange.status}.", exchange)


@check("catalog.names-card")
async def the_catalogue_names_this_card(target: Target) -> None:
    """Compares URLs."""
    exchange, urls = await _cards(target)
    expect(target.card.url in urls, f"The catalogue does not name {target.card.url}.", exchange)
