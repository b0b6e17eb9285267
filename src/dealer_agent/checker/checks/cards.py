"""Checks an agent card: its members, and the AI Catalog of the host.

Schemas, caches, signatures and what a card says about tokens have modules of their own.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from dealer_agent.checker import forms
from dealer_agent.checker.card import FetchedCard
from dealer_agent.checker.check import check, each_of, judge_each
from dealer_agent.checker.checks.errors import UNKNOWN_VIN
from dealer_agent.checker.discovery import MOST_CARDS
from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.outcome import Failed, Judgement, expect, has, header, skip_unless
from dealer_agent.checker.reply import is_answered, refusal_of
from dealer_agent.checker.target import JSON_HEADERS, Target, rpc_call
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.well_known import CARD_PATH, CARD_TYPE, CATALOG_PATH

Entry = dict[str, Any]

CAMEL_CASE = ("supportedInterfaces", "defaultInputModes", "defaultOutputModes", "documentationUrl", "securitySchemes")
SNAKE_CASE = ("supported_interfaces", "default_input_modes", "default_output_modes", "documentation_url")
OF_INTERFACE_IN_CAMEL_CASE = ("protocolBinding", "protocolVersion")
OF_INTERFACE_IN_SNAKE_CASE = ("protocol_binding", "protocol_version")
BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
UNAUTHORIZED = 401
FETCHES = 3
"""How often a card is fetched again: one of several processes may serve another one."""


def _interfaces(card: FetchedCard) -> list[Entry]:
    """All entries of `supportedInterfaces` that are objects."""
    return dicts(card.camel.get("supportedInterfaces"))


def _skills(card: FetchedCard) -> list[Entry]:
    return dicts(card.camel.get("skills"))


def _urls(card: FetchedCard) -> list[str]:
    """The absolute URLs of the interfaces."""
    return [url for each in _interfaces(card) if forms.url(url := each.get("url"))]


def profile_extensions(card: FetchedCard) -> list[Entry]:
    """The extensions of the protocol: those with skills in their `params`. Skips the check if there is none."""
    theirs = [each for each in card.extensions if each["uri"] != OFFERS_EXTENSION]
    profiles = [each for each in theirs if isinstance(at(each, "params.skills"), dict)]
    return skip_unless(profiles, "The card has no extension with skills in its params.")


async def card_of(target: Target) -> FetchedCard:
    """The card, as a probe."""
    return target.card


def _has(path: str, form: Callable[[Any], object]) -> Judgement:
    """A judgement of a card: the value at a path has a form."""
    return lambda card: has(path, lambda value: bool(form(value)))(card.camel)


def _header(name: str, form: Callable[[str], object]) -> Judgement:
    return lambda card: header(name, form)(card.exchange)


def _binding(wanted: Callable[[set[object]], bool], sentence: str) -> Judgement:
    return lambda card: wanted({each.get("protocolBinding") for each in _interfaces(card)}) or sentence


def _are_media_types(modes: Any) -> bool:
    return bool(modes) and forms.array_of(lambda each: isinstance(each, str) and "/" in each)(modes)


def _has_one_spelling(card: FetchedCard) -> bool | str:
    is_snake = card.revision.snake_case
    other = CAMEL_CASE if is_snake else SNAKE_CASE
    other_of_interface = OF_INTERFACE_IN_CAMEL_CASE if is_snake else OF_INTERFACE_IN_SNAKE_CASE
    interfaces = dicts(card.content.get("supported_interfaces" if is_snake else "supportedInterfaces"))
    present = [each for each in other if each in card.content]
    present += [each for each in other_of_interface if any(each in entry for entry in interfaces)]
    return not present or f"The card has {', '.join(present)}, in the spelling of another revision."


_TEXT, _TEXTS, _OBJECTS = forms.text, forms.array_of(forms.text), forms.array_of(forms.an_object)
_TYPES: dict[str, Callable[[Any], bool]] = {
    "documentationUrl": forms.url,
    **dict.fromkeys(("name", "description", "version", "iconUrl", "id", "uri", "url"), _TEXT),
    **dict.fromkeys(("protocolBinding", "protocolVersion", "tenant", "organization"), _TEXT),
    **dict.fromkeys(("tags", "examples", "inputModes", "outputModes"), _TEXTS),
    **dict.fromkeys(("defaultInputModes", "defaultOutputModes"), _TEXTS),
    **dict.fromkeys(("skills", "supportedInterfaces", "extensions", "securityRequirements", "signatures"), _OBJECTS),
    **dict.fromkeys(("provider", "capabilities", "securitySchemes", "params"), forms.an_object),
    **dict.fromkeys(("streaming", "pushNotifications", "extendedAgentCard", "required"), forms.truth),
}
"""The types of members of A2A, wherever they are in a card. null is as if the member were absent."""


def _has_types(card: FetchedCard) -> bool | str:
    capabilities = card.camel.get("capabilities")
    nodes = [card.camel, *_interfaces(card), *_skills(card), capabilities, card.camel.get("provider")]
    nodes += dicts(at(capabilities, "extensions"))
    for name, value in (pair for node in nodes if isinstance(node, dict) for pair in node.items()):
        if name in _TYPES and value is not None and not _TYPES[name](value):
            return f"`{name}` is {value!r:.200}, which is not its type in A2A."
    return True


def _lists_once(entries: Callable[[FetchedCard], list[Entry]], *names: str) -> Judgement:
    def judge(card: FetchedCard) -> bool | str:
        keys = [tuple(str(each.get(name)) for name in names) for each in entries(card)]
        return len(set(keys)) == len(keys) or f"Two entries have the same {' and '.join(names)}."

    return judge


def _names_provider(card: FetchedCard) -> bool | str:
    provider = skip_unless(card.camel.get("provider"), "The card has no provider.")
    good = at(provider, "organization") and forms.url(at(provider, "url"))
    return bool(good) or f"`provider` is {provider!r:.300}."


def _has_secure_urls(card: FetchedCard) -> bool | str:
    skip_unless(card.url.startswith("https://"), "The card was fetched over http.")
    insecure = [each for each in _urls(card) if not each.startswith("https://")]
    return not insecure or f"The card has the insecure URL {', '.join(insecure)}."


def _is_on_one_host(card: FetchedCard) -> bool | str:
    host = urlsplit(card.url).hostname
    others = {urlsplit(each).hostname for each in _urls(card)} - {host}
    return not others or f"The card of {host} names {', '.join(map(str, others))}."


def _declares_nothing_else(card: FetchedCard) -> bool | str:
    capabilities = ("streaming", "pushNotifications")
    declared = [name for name in capabilities if at(card.camel, f"capabilities.{name}") not in (False, None)]
    return not declared or f"The card declares {declared[0]}."


def _has_extensions(card: FetchedCard) -> bool | str:
    capabilities = card.content.get("capabilities")
    skip_unless(isinstance(capabilities, dict), "`capabilities` is not an object.")
    return has(
        "extensions", lambda found: bool(found) and forms.array_of(lambda each: ":" in str(at(each, "uri")))(found)
    )(capabilities)


def _has_known_skill(card: FetchedCard) -> bool | str:
    skip_unless(card.skills, "The card has no skill.")
    return not card.skills.isdisjoint(SKILL_BY_ID) or "The card has no skill of the protocol."


def _uses_ids_of_protocol(card: FetchedCard) -> bool | str:
    skip_unless(not card.skills.isdisjoint(SKILL_BY_ID), "The card has no skill of the protocol.")
    for skill in (each for each in SKILL_BY_ID.values() if each.id not in card.skills):
        for entry in (each for each in dicts(card.camel.get("skills")) if each.get("id") not in SKILL_BY_ID):
            modes = entry.get("inputModes")
            if any(str(mode).lower().endswith(f".{skill.stem}-request+json") for mode in modes or ()):
                return f"The skill {entry.get('id')!r} has the media type of {skill.id}."
    return True


each_of(
    card_of,
    {
        "cards.object": lambda card: isinstance(card.exchange.json, dict) or "The card is not a JSON object.",
        "cards.content-type": lambda card: (
            card.exchange.media_type.endswith(("/json", "+json"))
            or f"The content type is {card.exchange.media_type or 'absent'}."
        ),
        "cards.content-type-true": lambda card: (
            not re.search("html|xml|image/|javascript|css|csv", card.exchange.media_type)
            or f"The content type is {card.exchange.media_type}."
        ),
        "cards.member-types": _has_types,
        "cards.name": _has("name", forms.name),
        "cards.description": _has("description", forms.name),
        "cards.version": _has("version", forms.name),
        "cards.provider": _names_provider,
        "cards.spelling": _has_one_spelling,
        "cards.interface-twice": _lists_once(_interfaces, "url", "protocolBinding"),
        "cards.json-rpc": _binding(lambda found: "JSONRPC" in found, "The card has no interface of JSON-RPC."),
        "cards.http-json": _binding(lambda found: "HTTP+JSON" in found, "The card has no interface of HTTP+JSON."),
        "cards.only-json-rpc": _binding(
            lambda found: found <= {"JSONRPC", None}, "The card has an interface that is not of JSON-RPC."
        ),
        "cards.https": _has_secure_urls,
        "cards.same-host": _is_on_one_host,
        "cards.capabilities": _has("capabilities", forms.an_object),
        "cards.streaming": _declares_nothing_else,
        "cards.extensions": _has_extensions,
        "cards.input-modes": _has("defaultInputModes", _are_media_types),
        "cards.output-modes": _has("defaultOutputModes", _are_media_types),
        "cards.skills": _has("skills", dicts),
        "cards.skill-twice": _lists_once(_skills, "id"),
        "cards.skill-known": _has_known_skill,
        "cards.skill-ids": _uses_ids_of_protocol,
        "cards.cache-control": _header("Cache-Control", lambda value: re.search(r"max-age=\d", value)),
        "cards.etag": _header("ETag", bool),
        "cards.etag-form": _header("ETag", lambda value: not value or re.fullmatch(r'(W/)?"[^"]*"', value)),
        "cards.last-modified": _header("Last-Modified", bool),
    },
)


async def _each_interface(target: Target) -> list[Entry]:
    return _interfaces(target.card)


async def _each_extension(target: Target) -> list[Entry]:
    return profile_extensions(target.card)


async def _each_skill(target: Target) -> list[Entry]:
    return _skills(target.card)


def _is_binding(value: Any) -> bool:
    """Whether it names a binding. An agent may have one of its own, but no other spelling of those of A2A."""
    letters = re.sub("[^A-Z]", "", str(value).upper())
    return forms.name(value) and (value in BINDINGS or letters not in [each.replace("+", "") for each in BINDINGS])


def _has_members(skill: Entry) -> bool | str:
    missing = [name for name in ("id", "name", "description") if not forms.name(skill.get(name))]
    missing += [] if isinstance(skill.get("tags"), list) and skill["tags"] else ["tags"]
    return not missing or f"The skill {skill.get('id')!r} has no {', '.join(missing)}."


def _strange_modes(entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """The lists of modes of a skill that have none of its media types, in lower case, and their names."""
    skill = SKILL_BY_ID.get(str(entry.get("id")))
    for name, kind in (("inputModes", "request"), ("outputModes", "response")):
        if skill is not None and (modes := entry.get(name)) is not None:
            words = [str(mode).lower() for mode in modes] if isinstance(modes, list) else []
            if not any(word.endswith(("application/json", f".{skill.stem}-{kind}+json")) for word in words):
                yield name, words


def _has_modes(entry: Entry) -> bool | str:
    strange = next(_strange_modes(entry), None)
    return strange is None or f"The {strange[0]} of {entry['id']} have no media type of the skill."


_ENDS_OF_MODES = tuple(f".{each.stem}-{kind}+json" for each in SKILL_BY_ID.values() for kind in ("request", "response"))


def _has_no_modes_of_others(entry: Entry) -> bool | str:
    for name, modes in _strange_modes(entry):
        if others := [mode for mode in modes if mode.endswith(_ENDS_OF_MODES)]:
            return f"The {name} of {entry['id']} have {others[0]}, and no media type of the skill."
    return True


each_of(
    _each_interface,
    {
        "cards.interface-url": has("url", forms.url),
        "cards.interface-binding": has("protocolBinding", _is_binding),
        "cards.interface-version": has(
            "protocolVersion", lambda version: forms.text(version) and version.split(".")[0] == "1"
        ),
    },
)
each_of(
    _each_extension,
    {
        "cards.extension-optional": has("required", forms.one_of(False, None)),
        "cards.extension-required": has("required", forms.one_of(True)),
        "cards.extension-id": has("params.id", forms.name),
    },
)
each_of(
    _each_skill,
    {
        "cards.skill-members": _has_members,
        "cards.skill-modes": _has_modes,
        "cards.skill-modes-of-others": _has_no_modes_of_others,
    },
)


@check("cards.documentation")
async def _(target: Target) -> None:
    """Only documentation on the host of the card is fetched: another host is not the agent's."""
    url = skip_unless(target.card.camel.get("documentationUrl"), "The card names no documentation.")
    expect(forms.url(url), f"`documentationUrl` is {url!r}, not an absolute URL.", target.card.exchange)
    skip_unless(target.card.is_at_home(url), "The documentation is on another host.")
    exchange = await target.request("GET", url, without_token=True)
    expect(exchange.status < 400, f"The documentation gets HTTP {exchange.status}.", exchange)


@check("cards.interfaces-answer")
async def _(target: Target) -> None:
    """A message is posted to each interface.

    404 and 405 mean that nothing is there. A JSON object, or 401, comes from the agent.
    """
    for each in _interfaces(target.card):
        if _is_known(each):
            exchange = await _post_message(target, each)
            answers = isinstance(exchange.json, dict) and exchange.status not in (404, 405)
            words = f"{exchange.url} answers a message with HTTP {exchange.status}."
            expect(answers or exchange.status == UNAUTHORIZED, words, exchange)


def _is_known(entry: Entry) -> bool:
    """Whether an interface has a binding that checks know, and a URL."""
    return entry.get("protocolBinding") in ("JSONRPC", "HTTP+JSON") and forms.url(entry.get("url"))


async def _post_message(target: Target, entry: Entry, path: str = "", **members: str) -> Exchange:
    """The exchange of a message that is posted to an interface, with other members, or below a path of its URL."""
    message = target.message(target.payload(target.reading_skills()[0])) | members
    url, is_rpc = f"{entry['url'].rstrip('/')}{path}", entry["protocolBinding"] == "JSONRPC"
    content = json.dumps(rpc_call(message) if is_rpc else message).encode()
    endpoint = url if is_rpc else f"{url}/message:send"
    return await target.request("POST", endpoint, content, JSON_HEADERS, without_token=True)


@check("cards.tenant")
async def _(target: Target) -> None:
    """Over HTTP+JSON, the tenant may be in the path. An agent that asks for a token says nothing else."""
    named = [each for each in _interfaces(target.card) if _is_known(each) and forms.name(each.get("tenant"))]
    for each in skip_unless(named, "No interface names a tenant."):
        tenant = each["tenant"]
        exchange = await _post_message(target, each, tenant=tenant)
        if exchange.is_refusal and each["protocolBinding"] == "HTTP+JSON":
            exchange = await _post_message(target, each, f"/{tenant}", tenant=tenant)
        good = is_answered(exchange) or exchange.status == UNAUTHORIZED
        expect(good, f"A message with the tenant {tenant!r} of the card is refused.", exchange)


def _identity(card: FetchedCard) -> Entry:
    """What a card that is fetched again says as before, unless it was changed."""
    skills, interfaces = sorted(card.skills), sorted(str(each.get("url")) for each in _interfaces(card))
    return {
        "skills": skills,
        "interfaces": interfaces,
        **{name: card.content.get(name) for name in ("name", "version")},
    }


@check("cards.interfaces-always")
async def _(target: Target) -> None:
    """The card may change once meanwhile, and always has interfaces and skills."""
    skip_unless(target.card.interfaces and target.card.skills, "The card names no interface, or no skill.")
    known = [_identity(target.card)]
    for _ in range(FETCHES):
        exchange = await target.fetch(target.card.url, fresh=True)
        skip_unless(exchange.status == 200, "The card cannot be fetched again.")
        content = exchange.json if isinstance(exchange.json, dict) else {}
        again = FetchedCard(target.card.url, content, exchange)
        good = again.interfaces and again.skills
        expect(good, "The card that is fetched again lists no interface, or no skill.", exchange)
        if (said := _identity(again)) != known[-1]:
            known.append(said)
            other = next((name for name, value in said.items() if value != known[-2][name]), "")
            expect(len(known) < 3, f"The card that is fetched again has other {other} each time.", exchange)


@check("cards.extension-id-stable")
async def _(target: Target) -> None:
    """The card is fetched a second time, and the ids of its extensions are compared."""
    exchange = await target.fetch(target.card.url, fresh=True)
    skip_unless(isinstance(exchange.json, dict), "The second fetch of the card returned no JSON object.")
    again = FetchedCard(target.card.url, exchange.json, exchange)
    one, two = ([at(each, "params.id") for each in card.extensions] for card in (target.card, again))
    expect(one == two, f"params.id of the extensions changes from one request to the next: {one}, {two}.", exchange)


_SMALL_REQUESTS: dict[str, Entry] = {
    "dealer.information": {},
    "inventory.facets": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.search": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.vehicle": {"vin": UNKNOWN_VIN},
}
"""By skill, the members of a request with a small response. No lead is sent."""


async def _is_supported(target: Target, skill_id: str) -> bool:
    """Whether a skill answers, or gives another error than that it is not there."""
    message = target.message({"type": f"{skill_id}.request", **_SMALL_REQUESTS[skill_id]})
    try:
        return refusal_of(await target.send_message(message)).code != "UNSUPPORTED_SKILL"
    except Failed:
        return True


@check("cards.skills-answered")
async def _(target: Target) -> None:
    for skill_id in sorted(target.card.skills & set(_SMALL_REQUESTS)):
        answered = await _is_supported(target, skill_id)
        expect(answered, f"{skill_id} is on the card, and it is refused as unsupported.")


@check("cards.skills-complete")
async def _(target: Target) -> None:
    """A reading skill that is not on the card is asked for. It must be refused as unsupported."""
    skip_unless(not target.card.skills.isdisjoint(SKILL_BY_ID), "The card has no skill of the protocol.")
    missing = sorted(set(_SMALL_REQUESTS) - target.card.skills)
    for skill_id in skip_unless(missing, "The card has all reading skills."):
        expect(not await _is_supported(target, skill_id), f"{skill_id} is offered, and it is not on the card.")


# The AI Catalog of the host, `/.well-known/ai-catalog.json`, beside the card at the well-known path


async def _catalog(target: Target) -> Exchange:
    """The AI Catalog: the host's list of its agents. Skips the check if there is none."""
    skip_unless(target.card.url.endswith(CARD_PATH), "The card is not at the well-known path.")
    exchange = await target.fetch(target.card.url.removesuffix(CARD_PATH) + CATALOG_PATH)
    skip_unless(exchange.status == 200, "There is no AI Catalog beside the card.")
    return exchange


async def _entries(target: Target) -> list[Entry]:
    return skip_unless(dicts(at((await _catalog(target)).json, "entries")), "The AI Catalog has no entries.")


async def _listed_cards(target: Target) -> list[str]:
    """The URLs of the cards that the AI Catalog of the host names."""
    cards = (each for each in await _entries(target) if (each.get("type") or each.get("mediaType")) == CARD_TYPE)
    return skip_unless([each["url"] for each in cards if forms.url(each.get("url"))], "The AI Catalog names no cards.")


async def fetched_cards(target: Target) -> list[Exchange]:
    """The cards on the host of the card that its AI Catalog names."""
    urls = (await _listed_cards(target))[:MOST_CARDS]
    return [await target.fetch(url) for url in urls if target.card.is_at_home(url)]


def _has_type_and_url(entry: Entry) -> bool | str:
    name = entry.get("displayName") or entry.get("identifier")
    if not isinstance(entry.get("type") or entry.get("mediaType"), str):
        return f"The entry {name!r} has no type."
    located = forms.url(entry.get("url")) or "data" in entry or "inline" in entry
    return located or f"The entry {name!r} has no absolute URL."


def _is_card(exchange: Exchange) -> bool | str:
    is_card = exchange.status == 200 and isinstance(exchange.json, dict)
    return is_card or f"The card that the AI Catalog names gets HTTP {exchange.status}."


judge_each(
    {
        "catalog.json": (_catalog, lambda exchange: has("entries", forms.array)(exchange.json)),
        "catalog.entry-members": (_entries, _has_type_and_url),
        "catalog.cards-answer": (fetched_cards, _is_card),
    }
)


@check("catalog.names-card")
async def _(target: Target) -> None:
    expect(target.card.url in await _listed_cards(target), f"The AI Catalog does not name {target.card.url}.")
