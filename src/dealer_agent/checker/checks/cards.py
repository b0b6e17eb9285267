"""An agent card: its members, how caches may keep it, and the AI Catalog of the host.

Schemas, signatures and what a card says about tokens have modules of their own.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from dealer_agent.checker import forms
from dealer_agent.checker.card import Card
from dealer_agent.checker.check import check, each_of
from dealer_agent.checker.checks.errors import UNKNOWN_VIN
from dealer_agent.checker.discovery import MOST_CARDS
from dealer_agent.checker.exchange import Exchange, dicts
from dealer_agent.checker.outcome import Failed, Skipped, expect, expect_status
from dealer_agent.checker.target import JSON_HEADERS, Target
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.well_known import CARD_PATH, CARD_TYPE, CATALOG_PATH

Entry = dict[str, Any]

CAMEL_CASE = ("supportedInterfaces", "defaultInputModes", "defaultOutputModes", "documentationUrl", "securitySchemes")
SNAKE_CASE = ("supported_interfaces", "default_input_modes", "default_output_modes", "documentation_url")
NOT_MODIFIED = 304


def _interfaces(card: Card) -> list[Entry]:
    """All entries of `supportedInterfaces` that are objects."""
    return dicts(card.member("supportedInterfaces"))


def _bindings(card: Card) -> list[Any]:
    return [card.member("protocolBinding", each) for each in _interfaces(card)]


def _urls(card: Card) -> list[str]:
    """The absolute URLs of the interfaces."""
    return [url for each in _interfaces(card) if forms.url(url := each.get("url"))]


def profile_extensions(card: Card) -> list[Entry]:
    """The extensions of the protocol: those with skills in their `params`. Skips the check if there is none."""
    found = [each for each in card.extensions if isinstance(_params(each).get("skills"), dict)]
    if not found:
        raise Skipped("The card has no extension with skills in its params.")
    return found


def _params(extension: Entry) -> Entry:
    params = extension.get("params")
    return params if isinstance(params, dict) else {}


async def _card(target: Target) -> list[tuple[Card, Exchange]]:
    return [(target.card, target.card.exchange)]


def _has_text(name: str) -> Callable[[Card], bool | str]:
    return lambda card: forms.name(card.member(name)) or f"`{name}` is absent or empty."


def _has_media_types(name: str) -> Callable[[Card], bool | str]:
    def judge(card: Card) -> bool | str:
        modes = card.member(name)
        listed = isinstance(modes, list) and modes and all(isinstance(each, str) and "/" in each for each in modes)
        return bool(listed) or f"`{name}` is no list of media types."

    return judge


def _names_provider(card: Card) -> bool | str:
    provider = card.member("provider")
    named = isinstance(provider, dict) and bool(provider.get("organization")) and forms.url(provider.get("url"))
    return named or "`provider` has no organization, or no absolute URL."


def _has_one_spelling(card: Card) -> bool | str:
    other = CAMEL_CASE if card.revision.snake_case else SNAKE_CASE
    found = [each for each in other if each in card.content]
    return not found or f"The card has {', '.join(found)}, which another revision has."


def _lists_interfaces_once(card: Card) -> bool | str:
    pairs = [(str(each.get("url")), str(card.member("protocolBinding", each))) for each in _interfaces(card)]
    return len(set(pairs)) == len(pairs) or "Two entries have the same URL and binding."


def _has_secure_urls(card: Card) -> bool | str:
    if not card.url.startswith("https://"):
        raise Skipped("The card was fetched over http.")
    insecure = [each for each in _urls(card) if not each.startswith("https://")]
    return not insecure or f"The card has the insecure URL {', '.join(insecure)}."


def _is_on_one_host(card: Card) -> bool | str:
    host = urlsplit(card.url).hostname
    others = {urlsplit(each).hostname for each in _urls(card)} - {host}
    return not others or f"The card of {host} names {', '.join(map(str, others))}."


def _declares_nothing_else(card: Card) -> bool | str:
    capabilities = card.member("capabilities")
    members = capabilities if isinstance(capabilities, dict) else {}
    found = [name for name in ("streaming", "pushNotifications") if card.member(name, members) not in (False, None)]
    return not found or f"The card declares {found[0]}."


def _has_extensions(card: Card) -> bool | str:
    capabilities = card.member("capabilities")
    if not isinstance(capabilities, dict):
        raise Skipped("`capabilities` is no object.")
    entries = capabilities.get("extensions")
    if not isinstance(entries, list) or not entries:
        return "The card declares no extension."
    named = all(isinstance(each, dict) and ":" in str(each.get("uri")) for each in entries)
    return named or "An extension has no absolute URI."


def _has_known_skill(card: Card) -> bool | str:
    if not card.skills:
        raise Skipped("The card has no skill.")
    return not card.skills.isdisjoint(SKILL_BY_ID) or "The card has no skill of the protocol."


def _lists_skills_once(card: Card) -> bool | str:
    ids = [str(each.get("id")) for each in dicts(card.member("skills"))]
    return len(set(ids)) == len(ids) or "Two skills have the same id."


each_of(
    _card,
    {
        "cards.content-type": lambda card: (
            card.exchange.media_type.endswith(("/json", "+json"))
            or f"The content type is {card.exchange.media_type or 'absent'}."
        ),
        "cards.name": _has_text("name"),
        "cards.description": _has_text("description"),
        "cards.version": _has_text("version"),
        "cards.provider": _names_provider,
        "cards.spelling": _has_one_spelling,
        "cards.interface-twice": _lists_interfaces_once,
        "cards.json-rpc": lambda card: "JSONRPC" in _bindings(card) or "The card has no interface of JSON-RPC.",
        "cards.http-json": lambda card: "HTTP+JSON" in _bindings(card) or "The card has no interface of HTTP+JSON.",
        "cards.only-json-rpc": lambda card: (
            set(_bindings(card)) <= {"JSONRPC", None} or "The card has an interface of another binding."
        ),
        "cards.https": _has_secure_urls,
        "cards.same-host": _is_on_one_host,
        "cards.capabilities": lambda card: (
            isinstance(card.member("capabilities"), dict) or "`capabilities` is no object."
        ),
        "cards.streaming": _declares_nothing_else,
        "cards.extensions": _has_extensions,
        "cards.input-modes": _has_media_types("defaultInputModes"),
        "cards.output-modes": _has_media_types("defaultOutputModes"),
        "cards.skills": lambda card: bool(dicts(card.member("skills"))) or "The card has no skill.",
        "cards.skill-twice": _lists_skills_once,
        "cards.skill-known": _has_known_skill,
        "cards.cache-control": lambda card: (
            re.search(r"max-age=\d", card.exchange.header("cache-control") or "") is not None
            or f"Cache-Control is {card.exchange.header('cache-control') or 'absent'}."
        ),
        "cards.etag": lambda card: (
            re.fullmatch(r'(W/)?"[^"]*"', card.exchange.header("etag") or "") is not None
            or f"ETag is {card.exchange.header('etag') or 'absent'}."
        ),
        "cards.last-modified": lambda card: (
            bool(card.exchange.header("last-modified")) or "The card has no Last-Modified."
        ),
    },
)


async def _each_interface(target: Target) -> list[tuple[tuple[Card, Entry], Exchange]]:
    return [((target.card, each), target.card.exchange) for each in _interfaces(target.card)]


each_of(
    _each_interface,
    {
        "cards.interface-url": lambda found: (
            forms.url(found[1].get("url")) or f"An interface has the URL {found[1].get('url')!r}."
        ),
        "cards.interface-binding": lambda found: (
            forms.name(found[0].member("protocolBinding", found[1])) or "An interface names no binding."
        ),
        "cards.interface-version": lambda found: (
            (version := found[0].member("protocolVersion", found[1])) == "1.0"
            or f"An interface has the protocol version {version!r}."
        ),
    },
)


async def _each_extension(target: Target) -> list[tuple[Entry, Exchange]]:
    return [(each, target.card.exchange) for each in profile_extensions(target.card)]


each_of(
    _each_extension,
    {
        "cards.extension-optional": lambda each: each.get("required") in (False, None) or f"{each['uri']} is required.",
        "cards.extension-required": lambda each: each.get("required") is True or f"{each['uri']} is not required.",
        "cards.extension-id": lambda each: forms.name(_params(each).get("id")) or f"{each['uri']} has no params.id.",
    },
)


@check("cards.documentation")
async def _(target: Target) -> None:
    url = target.card.member("documentationUrl")
    if url is None:
        raise Skipped("The card names no documentation.")
    expect(forms.url(url), f"`documentationUrl` is {url!r}, no absolute URL.", target.card.exchange)
    if not target.card.is_at_home(url):
        raise Skipped("The documentation is on another host.")
    exchange = await target.request("GET", url, without_token=True)
    expect(exchange.status < 400, f"The documentation gets HTTP {exchange.status}.", exchange)


@check("cards.interfaces-answer")
async def _(target: Target) -> None:
    message = target.message(target.payload(target.reading_skills()[0]))
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
    for each in _interfaces(target.card):
        binding, url = target.card.member("protocolBinding", each), each.get("url")
        if binding not in ("JSONRPC", "HTTP+JSON") or not forms.url(url):
            continue
        endpoint = url.rstrip("/") if binding == "JSONRPC" else f"{url.rstrip('/')}/message:send"
        content = json.dumps(call if binding == "JSONRPC" else message).encode()
        exchange = await target.request("POST", endpoint, content, JSON_HEADERS, without_token=True)
        expect(
            (isinstance(exchange.json, dict) and exchange.status not in (404, 405)) or exchange.status == 401,
            f"{endpoint} answers a message with HTTP {exchange.status}.",
            exchange,
        )


@check("cards.extension-id-stable")
async def _(target: Target) -> None:
    exchange = await target.fetch(target.card.url, fresh=True)
    if not isinstance(exchange.json, dict):
        raise Skipped("The second fetch of the card returned no JSON object.")
    again = Card(target.card.url, exchange.json, exchange)
    one, two = ([_params(each).get("id") for each in card.extensions] for card in (target.card, again))
    expect(one == two, f"params.id changes from one request to the next: {one}, {two}.", exchange)


@check("cards.skill-members")
async def _(target: Target) -> None:
    for each in dicts(target.card.member("skills")):
        missing = [name for name in ("id", "name", "description") if not isinstance(each.get(name), str)]
        missing += [] if isinstance(each.get("tags"), list) and each["tags"] else ["tags"]
        expect(not missing, f"The skill {each.get('id')!r} has no {', '.join(missing)}.", target.card.exchange)


@check("cards.skill-modes")
async def _(target: Target) -> None:
    for each in dicts(target.card.member("skills")):
        skill = SKILL_BY_ID.get(str(each.get("id")))
        for name, kind in (("inputModes", "request"), ("outputModes", "response")):
            modes = target.card.member(name, each)
            if skill is not None and modes is not None:
                covered = any(
                    mode == "application/json" or str(mode).lower().endswith(f".{skill.stem}-{kind}+json")
                    for mode in modes
                )
                expect(covered, f"The {name} of {skill.id} have no media type of the skill.", target.card.exchange)


_PROBES: dict[str, Entry] = {
    "dealer.information": {},
    "inventory.facets": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.search": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.vehicle": {"vin": UNKNOWN_VIN},
}
"""A request of each reading skill. No lead is sent."""


async def _is_supported(target: Target, skill_id: str) -> bool:
    """Whether a skill answers, or gives another error than that it is not there."""
    message = target.message({"type": f"{skill_id}.request", **_PROBES[skill_id]})
    try:
        return target.refusal(await target.send_message(message)).code != "UNSUPPORTED_SKILL"
    except Failed:
        return True


@check("cards.skills-answered")
async def _(target: Target) -> None:
    for skill_id in sorted(target.card.skills & set(_PROBES)):
        answered = await _is_supported(target, skill_id)
        expect(answered, f"{skill_id} is on the card, and it is refused as unsupported.")


@check("cards.skills-complete")
async def _(target: Target) -> None:
    if target.card.skills.isdisjoint(SKILL_BY_ID):
        raise Skipped("The card has no skill of the protocol.")
    missing = sorted(set(_PROBES) - target.card.skills)
    if not missing:
        raise Skipped("The card has all reading skills.")
    for skill_id in missing:
        expect(not await _is_supported(target, skill_id), f"{skill_id} is offered, and it is not on the card.")


# Caches


async def _if_changed(target: Target, etag: str | None = None) -> Exchange:
    """The exchange of the question whether the card has changed. None: since it was fetched."""
    etag = etag or target.card.exchange.header("etag")
    if not etag:
        raise Skipped("The card has no ETag.")
    return await target.fetch(target.card.url, ("If-None-Match", etag))


@check("cards.etag-stable")
async def _(target: Target) -> None:
    etag = target.card.exchange.header("etag")
    exchange = await target.fetch(target.card.url, fresh=True)
    if not etag or exchange.body != target.card.exchange.body:
        raise Skipped("The card has no ETag, or it has changed.")
    expect(exchange.header("etag") == etag, "The ETag of the same card has changed.", exchange)


@check("cards.not-modified")
async def _(target: Target) -> None:
    expect_status(await _if_changed(target), NOT_MODIFIED)


@check("cards.not-modified-empty")
async def _(target: Target) -> None:
    exchange = await _if_changed(target)
    if exchange.status != NOT_MODIFIED:
        raise Skipped("The agent does not answer 304.")
    expect(not exchange.body, "The 304 has a body.", exchange)


@check("cards.other-etag")
async def _(target: Target) -> None:
    expect_status(await _if_changed(target, '"another-card"'), 200)


@check("cards.cross-origin")
async def _(target: Target) -> None:
    origin = "https://shopping.example"
    exchange = await target.fetch(target.card.url, ("Origin", origin))
    found = exchange.header("access-control-allow-origin")
    expect(found in ("*", origin), "No other origin may read the card.", exchange)


# The AI Catalog of the host, `/.well-known/ai-catalog.json`, beside the card at the well-known path


async def _catalog(target: Target) -> Exchange:
    """The AI Catalog: the host's list of its agents. Skips the check if there is none."""
    if not target.card.url.endswith(CARD_PATH):
        raise Skipped("The card is not at the well-known path.")
    exchange = await target.fetch(target.card.url.removesuffix(CARD_PATH) + CATALOG_PATH)
    if exchange.status != 200:
        raise Skipped("There is no AI Catalog beside the card.")
    return exchange


async def _entries(target: Target) -> list[tuple[Entry, Exchange]]:
    exchange = await _catalog(target)
    found = dicts(exchange.json.get("entries")) if isinstance(exchange.json, dict) else []
    if not found:
        raise Skipped("The AI Catalog has no entries.")
    return [(each, exchange) for each in found]


async def _listed_cards(target: Target) -> tuple[list[str], Exchange]:
    """The URLs of the cards that the AI Catalog of the host names."""
    entries = await _entries(target)
    found = [
        each["url"]
        for each, _ in entries
        if (each.get("type") or each.get("mediaType")) == CARD_TYPE and forms.url(each.get("url"))
    ]
    if not found:
        raise Skipped("The AI Catalog names no cards.")
    return found, entries[0][1]


@check("catalog.json")
async def _(target: Target) -> None:
    exchange = await _catalog(target)
    listed = isinstance(exchange.json, dict) and isinstance(exchange.json.get("entries"), list)
    expect(listed, "The AI Catalog is not a JSON object with a list of entries.", exchange)


def _has_type_and_url(entry: Entry) -> bool | str:
    name = entry.get("displayName") or entry.get("identifier")
    if not isinstance(entry.get("type") or entry.get("mediaType"), str):
        return f"The entry {name!r} has no type."
    located = forms.url(entry.get("url")) or "data" in entry or "inline" in entry
    return located or f"The entry {name!r} has no absolute URL."


each_of(_entries, {"catalog.entry-members": _has_type_and_url})


@check("catalog.cards-answer")
async def _(target: Target) -> None:
    urls, _ = await _listed_cards(target)
    for url in urls[:MOST_CARDS]:
        if target.card.is_at_home(url):
            exchange = await target.fetch(url)
            found = exchange.status == 200 and isinstance(exchange.json, dict)
            expect(found, f"The card that the AI Catalog names gets HTTP {exchange.status}.", exchange)


@check("catalog.names-card")
async def _(target: Target) -> None:
    urls, exchange = await _listed_cards(target)
    expect(target.card.url in urls, f"The AI Catalog does not name {target.card.url}.", exchange)
