"""Finds the cards of a dealer agent behind a URL, and the targets that they name."""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urljoin

from dealer_agent.checker.card import FetchedCard, Interface
from dealer_agent.checker.exchange import Exchange, Headers, at, dicts
from dealer_agent.checker.outcome import NotChecked, Skipped
from dealer_agent.checker.target import Target, TargetStock
from dealer_agent.checker.wire import TargetConnection
from dealer_agent.client.card import parse_url
from dealer_agent.client.signing import Signer
from dealer_agent.protocol.well_known import CARD_PATH, CARD_TYPE, CATALOG_PATH

MOST_CARDS = 20
"""Cards that are checked at most."""

DEFAULT_VENDOR = "proto"
CARD_HEADERS: Headers = (("Accept", "application/json"),)


async def find_cards(wire: TargetConnection, url: str) -> list[FetchedCard]:
    """The cards behind a URL: of a dealer agent, or of one card. Raises NotChecked if there is none.

    The URL may be that of a card. Else the card is at the well-known path below it. The other cards are those that
    `/.well-known/ai-catalog.json` lists below the same address. A list of cards counts as a card without members:
    `cards.object` fails for it.
    """
    root = url.rstrip("/")
    exchange = await wire.request("GET", url, headers=CARD_HEADERS)
    if _is_card(exchange.json):
        return [FetchedCard(url, exchange.json, exchange)]
    if _has_cards(exchange.json):
        return [FetchedCard(url, {}, exchange)]
    exchange = await wire.request("GET", root + CARD_PATH, headers=CARD_HEADERS)
    if _has_cards(exchange.json):
        return [FetchedCard(root + CARD_PATH, {}, exchange)]
    if not _is_card(exchange.json):
        others = await _listed(wire, root)
        advice = f"The AI Catalog lists others, for example {others[0]}" if others else "Give the URL of a dealer agent"
        raise NotChecked(f"There is no agent card at {root + CARD_PATH} (HTTP {exchange.status}). {advice}.")
    cards = [FetchedCard(root + CARD_PATH, exchange.json, exchange)]
    for each in await _listed(wire, root):
        exchange = await wire.request("GET", each, headers=CARD_HEADERS)
        if _is_card(exchange.json) and not any(_is_found(exchange, card) for card in cards):
            cards.append(FetchedCard(each, exchange.json, exchange))
    return cards[:MOST_CARDS]


async def targets_of(
    wire: TargetConnection, card: FetchedCard, token: str | None, *, leads: bool, signer: Signer | None = None
) -> list[Target]:
    """The targets of a card: each interface in each vocabulary. The token is for interfaces on the card's host.

    A card that names no interface is a target nevertheless: what it says of interfaces is checked.
    """
    if not card.interfaces:
        return [Target(card, Interface("JSONRPC", card.url), DEFAULT_VENDOR, wire, TargetStock())]
    targets = []
    for interface in card.interfaces:
        stock = TargetStock()
        sent = token if card.is_at_home(interface.url) else None
        vendors = card.vendors or await _answered_vendors(wire, card, interface, sent, signer)
        for vendor in vendors:
            exchanges = wire.exchanges[card.url, interface, vendor]
            targets.append(Target(card, interface, vendor, wire, stock, sent, leads, signer, exchanges))
    return targets


def notes_about(cards: Iterable[FetchedCard], token: str | None) -> Iterator[str]:
    """What was found and is not checked, as sentences."""
    for card in cards:
        if not card.interfaces:
            yield f"The card {card.url} has no interface of JSON-RPC or HTTP+JSON. Nothing else of it is checked."
        for interface in card.interfaces:
            if token is not None and not card.is_at_home(interface.url):
                yield f"{interface.url} is on another host than its card, so it gets no token."


async def _listed(wire: TargetConnection, root: str) -> list[str]:
    """The URLs of the cards that the AI Catalog lists, below the URL `root`."""
    exchange = await wire.request("GET", root + CATALOG_PATH, headers=CARD_HEADERS)
    urls = [
        _joined(root + CATALOG_PATH, each["url"])
        for each in dicts(at(exchange.json, "entries"))
        if isinstance(each.get("url"), str) and CARD_TYPE in (each.get("type"), each.get("mediaType"))
    ]
    return [each for each in urls if each.startswith(f"{root}/") and parse_url(each)][:MOST_CARDS]


def _joined(base: str, url: str) -> str:
    try:
        return urljoin(base, url)
    except ValueError:
        return ""


async def _answered_vendors(
    wire: TargetConnection, card: FetchedCard, interface: Interface, token: str | None, signer: Signer | None
) -> list[str]:
    """The vocabularies in which an interface answers, if its card names none."""
    vendors = []
    for vendor in (DEFAULT_VENDOR, "autoagent"):
        target = Target(card, interface, vendor, wire, TargetStock(), token, signer=signer)
        try:
            exchange = await target.send({"type": "dealer.information.request"})
        except (NotChecked, Skipped):
            # Each check will say the same.
            continue
        if target.media_type("dealer.information", "response").encode() in exchange.body:
            vendors.append(vendor)
    return vendors or [DEFAULT_VENDOR]


def _is_card(document: Any) -> bool:
    return isinstance(document, dict) and (
        "supportedInterfaces" in document or "supported_interfaces" in document or document.keys() >= {"name", "skills"}
    )


def _has_cards(document: Any) -> bool:
    return isinstance(document, list) and any(map(_is_card, document))


def _is_found(exchange: Exchange, card: FetchedCard) -> bool:
    """Whether a response is a card that was found already, at another URL."""
    return {**exchange.json, "signatures": None} == {**card.content, "signatures": None}
