"""The members of an agent card. Schemas, security and caching have modules of their own."""

import json
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from dealer_agent.checker.card import Card
from dealer_agent.checker.check import Failed, Skipped, check, expect
from dealer_agent.checker.checks.errors import UNKNOWN_VIN
from dealer_agent.checker.exchange import Headers
from dealer_agent.checker.target import JSON_HEADERS, Target
from dealer_agent.protocol.skill import SKILL_BY_ID

Entry = dict[str, Any]

CARD_HEADERS: Headers = (("Accept", "application/json"),)
KNOWN_BINDINGS = ("JSONRPC", "HTTP+JSON")
CAMEL_CASE = ("supportedInterfaces", "defaultInputModes", "defaultOutputModes", "documentationUrl", "securitySchemes")
SNAKE_CASE = ("supported_interfaces", "default_input_modes", "default_output_modes", "documentation_url")


def objects(node: object) -> list[Entry]:
    """The objects of a list; nothing if it is no list."""
    return [each for each in node if isinstance(each, dict)] if isinstance(node, list) else []


def is_absolute(url: object) -> TypeGuard[str]:
    """Whether it is a URL with http or https and a host."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return False
    return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)


def interfaces_of(card: Card) -> list[Entry]:
    """All entries of `supportedInterfaces` that are objects."""
    return objects(card.member("supportedInterfaces"))


def interface_urls(card: Card) -> list[str]:
    """The absolute URLs of the interfaces."""
    return [each["url"] for each in interfaces_of(card) if is_absolute(each.get("url"))]


def profile_extensions(card: Card) -> list[Entry]:
    """The extensions of the protocol: those with skills in their `params`. Skips the check if there is none."""
    found = [each for each in card.extensions if isinstance(_params(each).get("skills"), dict)]
    if not found:
        raise Skipped("The card has no extension with skills in its params.")
    return found


def _params(extension: Entry) -> Entry:
    params = extension.get("params")
    return params if isinstance(params, dict) else {}


def _has_text(card: Card, name: str) -> None:
    value = card.member(name)
    expect(isinstance(value, str) and value.strip(), f"`{name}` is absent or empty.", card.exchange)


@check("cards.content-type")
async def the_card_is_declared_as_json(target: Target) -> None:
    """Looks at the header of the card."""
    found = target.card.exchange.media_type
    expect(found.endswith(("/json", "+json")), f"The content type is {found or 'absent'}.", target.card.exchange)


@check("cards.name")
async def the_card_has_a_name(target: Target) -> None:
    """Looks at the card."""
    _has_text(target.card, "name")


@check("cards.description")
async def the_card_has_a_description(target: Target) -> None:
    """Looks at the card."""
    _has_text(target.card, "description")


@check("cards.version")
async def the_card_has_a_version(target: Target) -> None:
    """Looks at the card."""
    _has_text(target.card, "version")


@check("cards.provider")
async def the_card_names_its_provider(target: Target) -> None:
    """Looks at the card."""
    provider = target.card.member("provider")
    named = isinstance(provider, dict) and provider.get("organization") and is_absolute(provider.get("url"))
    expect(named, "`provider` has no organization, or no absolute URL.", target.card.exchange)


@check("cards.documentation")
async def the_documentation_answers(target: Target) -> None:
    """Fetches the documentation."""
    url = target.card.member("documentationUrl")
    if url is None:
        raise Skipped("The card names no documentation.")
    expect(is_absolute(url), f"`documentationUrl` is {url!r}, no absolute URL.", target.card.exchange)
    if not same_origin(url, target.card.url):
        raise Skipped("The documentation is on another host.")
    exchange = await target.request("GET", url, without_token=True)
    expect(exchange.status < 400, f"The documentation gets HTTP {exchange.status}.", exchange)


def same_origin(url: str, other: str) -> bool:
    """Whether two URLs have the same scheme, host and port."""
    one, two = urlsplit(url), urlsplit(other)
    return (one.scheme, one.netloc.lower()) == (two.scheme, two.netloc.lower())


@check("cards.spelling")
async def members_have_one_spelling(target: Target) -> None:
    """Looks for members of the other spelling."""
    other = CAMEL_CASE if target.revision.snake_case else SNAKE_CASE
    found = [each for each in other if each in target.card.content]
    expect(not found, f"The card has {', '.join(found)}, which another revision has.", target.card.exchange)


@check("cards.interface-url")
async def interfaces_have_absolute_urls(target: Target) -> None:
    """Looks at all interfaces."""
    for each in interfaces_of(target.card):
        expect(is_absolute(each.get("url")), f"An interface has the URL {each.get('url')!r}.", target.card.exchange)


@check("cards.interface-binding")
async def interfaces_name_their_binding(target: Target) -> None:
    """Looks at all interfaces."""
    for each in interfaces_of(target.card):
        binding = target.card.member("protocolBinding", each)
        expect(isinstance(binding, str) and binding, "An interface names no binding.", target.card.exchange)


@check("cards.interface-version")
async def interfaces_name_their_version(target: Target) -> None:
    """Looks at all interfaces."""
    for each in interfaces_of(target.card):
        version = target.card.member("protocolVersion", each)
        expect(version == "1.0", f"An interface has the protocol version {version!r}.", target.card.exchange)


@check("cards.interface-twice")
async def interfaces_are_listed_once(target: Target) -> None:
    """Compares URL and binding of all interfaces."""
    card = target.card
    pairs = [(str(each.get("url")), str(card.member("protocolBinding", each))) for each in interfaces_of(card)]
    expect(len(set(pairs)) == len(pairs), "Two entries have the same URL and binding.", card.exchange)


def _has_binding(target: Target, binding: str) -> None:
    found = [target.card.member("protocolBinding", each) for each in interfaces_of(target.card)]
    expect(binding in found, f"The card has no interface with the binding {binding}.", target.card.exchange)


@check("cards.json-rpc")
async def there_is_json_rpc(target: Target) -> None:
    """Looks at all interfaces."""
    _has_binding(target, "JSONRPC")


@check("cards.http-json")
async def there_is_http_json(target: Target) -> None:
    """Looks at all interfaces."""
    _has_binding(target, "HTTP+JSON")


@check("cards.only-json-rpc")
async def there_is_nothing_but_json_rpc(target: Target) -> None:
    """Looks at all interfaces."""
    others = [each for each in interfaces_of(target.card) if each.get("protocolBinding") not in ("JSONRPC", None)]
    expect(not others, "The card has an interface of another binding.", target.card.exchange)


@check("cards.https")
async def urls_are_secure(target: Target) -> None:
    """Looks at the URLs of a card that came over https."""
    if not target.card.url.startswith("https://"):
        raise Skipped("The card was fetched over http.")
    insecure = [each for each in interface_urls(target.card) if not each.startswith("https://")]
    expect(not insecure, f"The card has the insecure URL {', '.join(insecure)}.", target.card.exchange)


@check("cards.same-host")
async def interfaces_are_on_the_host_of_the_card(target: Target) -> None:
    """Compares the hosts."""
    host = urlsplit(target.card.url).hostname
    others = {urlsplit(each).hostname for each in interface_urls(target.card)} - {host}
    expect(not others, f"The card of {host} names {', '.join(map(str, others))}.", target.card.exchange)


@check("cards.interfaces-answer")
async def interfaces_answer(target: Target) -> None:
    """Sends a message to each URL of a known binding."""
    message = target.message(target.payload("dealer.information"))
    for each in interfaces_of(target.card):
        binding, url = target.card.member("protocolBinding", each), each.get("url")
        if binding not in KNOWN_BINDINGS or not is_absolute(url):
            continue
        endpoint = url.rstrip("/") if binding == "JSONRPC" else f"{url.rstrip('/')}/message:send"
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
        content = json.dumps(call if binding == "JSONRPC" else message).encode()
        exchange = await target.request("POST", endpoint, content, JSON_HEADERS, without_token=True)
        expect(
            (isinstance(exchange.json, dict) and exchange.status not in (404, 405)) or exchange.status == 401,
            f"{endpoint} answers a message with HTTP {exchange.status}.",
            exchange,
        )


@check("cards.capabilities")
async def capabilities_are_an_object(target: Target) -> None:
    """Looks at the card."""
    expect(isinstance(target.card.member("capabilities"), dict), "`capabilities` is no object.", target.card.exchange)


@check("cards.streaming")
async def nothing_is_declared_that_is_out_of_scope(target: Target) -> None:
    """Looks at the capabilities."""
    capabilities = target.card.member("capabilities")
    for name in ("streaming", "pushNotifications"):
        value = target.card.member(name, capabilities) if isinstance(capabilities, dict) else None
        expect(value in (False, None), f"The card declares {name}.", target.card.exchange)


@check("cards.extensions")
async def extensions_have_a_uri(target: Target) -> None:
    """Looks at all extensions."""
    capabilities = target.card.member("capabilities")
    if not isinstance(capabilities, dict):
        raise Skipped("`capabilities` is no object.")
    entries = capabilities.get("extensions")
    expect(isinstance(entries, list) and entries, "The card declares no extension.", target.card.exchange)
    for each in entries or ():
        uri = each.get("uri") if isinstance(each, dict) else None
        expect(isinstance(uri, str) and ":" in uri, "An extension has no absolute URI.", target.card.exchange)


@check("cards.extension-optional")
async def extensions_are_optional(target: Target) -> None:
    """Looks at the extensions of the protocol."""
    for each in profile_extensions(target.card):
        expect(each.get("required") in (False, None), f"{each['uri']} is required.", target.card.exchange)


@check("cards.extension-required")
async def the_extension_is_required(target: Target) -> None:
    """Looks at the extensions of the protocol."""
    for each in profile_extensions(target.card):
        expect(each.get("required") is True, f"{each['uri']} is not required.", target.card.exchange)


@check("cards.extension-id")
async def extensions_have_an_id(target: Target) -> None:
    """Looks at the extensions of the protocol."""
    for each in profile_extensions(target.card):
        found = _params(each).get("id")
        expect(isinstance(found, str) and found, f"{each['uri']} has no params.id.", target.card.exchange)


@check("cards.extension-id-stable")
async def extension_ids_stay(target: Target) -> None:
    """Fetches the card again."""
    exchange = await target.request("GET", target.card.url, headers=CARD_HEADERS, fresh=True, without_token=True)
    if not isinstance(exchange.json, dict):
        raise Skipped("The card cannot be read again.")
    again = Card(target.card.url, exchange.json, exchange)
    one, two = ([_params(each).get("id") for each in card.extensions] for card in (target.card, again))
    expect(one == two, f"params.id changes from one request to the next: {one}, {two}.", exchange)


def _has_media_types(card: Card, name: str) -> None:
    modes = card.member(name)
    listed = isinstance(modes, list) and modes and all(isinstance(each, str) and "/" in each for each in modes)
    expect(listed, f"`{name}` is no list of media types.", card.exchange)


@check("cards.input-modes")
async def input_modes_are_media_types(target: Target) -> None:
    """Looks at the card."""
    _has_media_types(target.card, "defaultInputModes")


@check("cards.output-modes")
async def output_modes_are_media_types(target: Target) -> None:
    """Looks at the card."""
    _has_media_types(target.card, "defaultOutputModes")


@check("cards.skills")
async def there_are_skills(target: Target) -> None:
    """Looks at the card."""
    expect(objects(target.card.member("skills")), "The card has no skill.", target.card.exchange)


@check("cards.skill-members")
async def skills_have_their_members(target: Target) -> None:
    """Looks at all skills."""
    for each in objects(target.card.member("skills")):
        for name in ("id", "name", "description"):
            expect(
                isinstance(each.get(name), str), f"The skill {each.get('id')!r} has no {name}.", target.card.exchange
            )
        tags = each.get("tags")
        expect(isinstance(tags, list) and tags, f"The skill {each.get('id')!r} has no tags.", target.card.exchange)


@check("cards.skill-twice")
async def skills_are_listed_once(target: Target) -> None:
    """Compares the ids."""
    ids = [str(each.get("id")) for each in objects(target.card.member("skills"))]
    expect(len(set(ids)) == len(ids), "Two skills have the same id.", target.card.exchange)


@check("cards.skill-known")
async def there_is_a_known_skill(target: Target) -> None:
    """Compares the ids with the protocol."""
    if not target.card.skills:
        raise Skipped("The card has no skill.")
    expect(target.card.skills & set(SKILL_BY_ID), "The card has no skill of the protocol.", target.card.exchange)


@check("cards.skill-modes")
async def skills_have_their_media_types(target: Target) -> None:
    """Looks at the modes of all skills of the protocol."""
    for each in objects(target.card.member("skills")):
        skill = SKILL_BY_ID.get(str(each.get("id")))
        if skill is None:
            continue
        for name, kind in (("inputModes", "request"), ("outputModes", "response")):
            modes = target.card.member(name, each)
            expected = f".{skill.stem}-{kind}+json"
            expect(
                modes is None or any("json" in str(mode) and _covers(str(mode), expected) for mode in modes),
                f"The {name} of {skill.id} have no media type of the skill.",
                target.card.exchange,
            )


def _covers(mode: str, expected: str) -> bool:
    return mode == "application/json" or mode.lower().endswith(expected)


_PROBES: dict[str, Entry] = {
    "dealer.information": {},
    "inventory.facets": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.search": {"filters": {"vin": UNKNOWN_VIN}},
    "inventory.vehicle": {"vin": UNKNOWN_VIN},
}
"""A request of each reading skill. No lead is sent."""


async def _code_of(target: Target, skill_id: str) -> str:
    """The code of the error that a skill gives; empty if it answers."""
    message = target.message(target.payload(skill_id, **_PROBES[skill_id]))
    try:
        return target.refusal(await target.send_message(message)).code
    except Failed:
        return ""


@check("cards.skills-answered")
async def skills_on_the_card_are_offered(target: Target) -> None:
    """Sends a request of each reading skill on the card."""
    for skill_id in sorted(target.card.skills & set(_PROBES)):
        code = await _code_of(target, skill_id)
        expect(code != "UNSUPPORTED_SKILL", f"{skill_id} is on the card, and it is refused as unsupported.", target)


@check("cards.skills-complete")
async def other_skills_are_not_offered(target: Target) -> None:
    """Sends a request of each reading skill that is not on the card."""
    if not target.card.skills & set(SKILL_BY_ID):
        raise Skipped("The card has no skill of the protocol.")
    missing = sorted(set(_PROBES) - target.card.skills)
    if not missing:
        raise Skipped("The card has all reading skills.")
    for skill_id in missing:
        code = await _code_of(target, skill_id)
        expect(code == "UNSUPPORTED_SKILL", f"{skill_id} is offered, and it is not on the card.", target)
