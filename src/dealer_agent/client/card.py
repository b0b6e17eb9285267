"""Reads an agent card and chooses how to talk to the agent: binding, vocabulary and version. Pure.

Both forms of a card are read: camelCase and snake_case. Only the members that the client needs are checked.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import msgspec
from msgspec import Struct

from dealer_agent.client.errors import NotADealerAgent
from dealer_agent.protocol.offers import OFFERS_EXTENSION
from dealer_agent.protocol.skill import SKILL_BY_ID, SKILLS, Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT

_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})

Binding = Literal["JSONRPC", "HTTP+JSON"]

PREFERRED: tuple[Binding, Binding] = ("JSONRPC", "HTTP+JSON")
"""JSON-RPC first: every published version has it, and HTTP+JSON only the first one. Its errors also come with status
200, so a proxy does not replace their bodies."""

_PROFILE_URI = re.compile(
    r"/extensions/(?P<name>aap|a2a-automotive-retail)/(?:v(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4}))?"
)


class _Interface(Struct, rename="camel"):
    url: str
    protocol_binding: str
    protocol_version: str = "1.0"


class _Extension(Struct):
    uri: str
    params: dict[str, Any] | None = None


class _Capabilities(Struct):
    extensions: list[_Extension] | None = None


class _Skill(Struct, rename="camel"):
    id: str
    input_modes: list[str] | None = None


class _Card(Struct, rename="camel"):
    name: str
    skills: list[_Skill]
    supported_interfaces: list[_Interface] | None = None
    capabilities: _Capabilities | None = None
    default_input_modes: list[str] | None = None
    version: str = ""
    url: str | None = None


@dataclass(frozen=True)
class Card:
    """An agent card, and what the client chose from it.

    `url` is where the card was found. `endpoint` is the URL of the chosen interface. `vendor` is the name in the media
    types: `proto` or `autoagent`. `extension` is the URI of the protocol's extension, and `revision` the version in it,
    such as (1, 3). Each is None if the card does not name it. `declares_idempotency` says whether the dealer declares
    that it stores a lead once for each idempotency key: `params.idempotency` of the extension is true. `skills` are the
    ids of the offered skills. `makes_offers` says whether the card lists the offers extension. `document` is the card
    as received.
    """

    url: str
    name: str
    binding: Binding
    endpoint: str
    vendor: str
    extension: str | None
    revision: tuple[int, int] | None
    declares_idempotency: bool
    skills: frozenset[str]
    makes_offers: bool
    document: dict[str, Any] = field(repr=False)

    @property
    def source_agent_is_object(self) -> bool:
        """Whether a lead has the object `source_agent` of versions from 1.1 on, and not the agent's name."""
        found = _PROFILE_URI.search(self.extension or "")
        return found is not None and found["name"] == "aap"

    def extensions_of(self, skill: Skill) -> tuple[str, ...]:
        """The URIs of the extensions that a request names. A lead names the offers too: it can then have an `offer`,
        and an anonymous sender gets the `lead_secret`.
        """
        offers = (OFFERS_EXTENSION,) if self.makes_offers and (skill.is_lead or skill.is_extension) else ()
        return (() if self.extension is None else (self.extension,)) + offers

    @property
    def request_url(self) -> httpx.URL:
        """The URL of requests."""
        url = httpx.URL(self.endpoint)
        return url if self.binding == "JSONRPC" else below(url, "/message:send")

    def request_type(self, skill: Skill) -> str:
        """The media type of a request."""
        return f"application/vnd.{self.vendor}.{skill.stem}-request+json"

    def response_type(self, skill: Skill) -> str:
        """The media type of a response."""
        return f"application/vnd.{self.vendor}.{skill.stem}-response+json"


def read_card(body: bytes, url: str, binding: Binding | None, origins: Collection[str] | None) -> Card:
    """The card in a body that was received from `url`. Raises NotADealerAgent.

    `binding` is the only one to use, or None. Interfaces on one of `origins` are preferred; None means all.
    """
    try:
        document = msgspec.json.decode(body)
        card = msgspec.convert(camel_case(document), _Card)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise NotADealerAgent(f"{url} is not an agent card: {str(error)[:200] or type(error).__name__}") from None
    skills = frozenset(skill.id for skill in card.skills) & SKILL_BY_ID.keys()
    if not skills:
        raise NotADealerAgent(f"The agent at {url} offers no skill of a dealer agent, such as {SKILLS[0].id}.")
    interface, chosen = _choose_interface(card, url, binding, origins)
    vendor = _choose_vendor(card)
    extension = _choose_extension(card, vendor)
    profile = _PROFILE_URI.search(extension.uri if extension else "")
    return Card(
        url=url,
        name=card.name,
        binding=chosen,
        endpoint=str(interface),
        vendor=vendor,
        extension=extension.uri if extension else None,
        revision=(int(profile["major"]), int(profile["minor"])) if profile and profile["major"] else None,
        declares_idempotency=extension is not None and (extension.params or {}).get("idempotency") is True,
        skills=frozenset(skills),
        makes_offers=any(each.uri == OFFERS_EXTENSION for each in _extensions(card)),
        document=document,
    )


def parse_url(text: str) -> httpx.URL | None:
    """An absolute http or https URL without a user; None for any other text."""
    try:
        url = httpx.URL(text)
        is_sound = url.host and "%" not in url.host and not url.userinfo and (url.port or 0) < 65_536
    except (httpx.InvalidURL, UnicodeError):
        return None
    return url if is_sound and url.scheme in ("http", "https") else None


def below(url: httpx.URL, path: str) -> httpx.URL:
    """The URL of a path below that of a URL. A percent-encoded character stays encoded."""
    start, mark, query = url.raw_path.partition(b"?")
    return url.copy_with(raw_path=start.rstrip(b"/") + path.encode() + mark + query)


def origin(url: httpx.URL) -> str:
    """Scheme, host and port of a URL. All names of this machine are one host: a card at localhost names 127.0.0.1."""
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    host = "localhost" if url.host in _THIS_MACHINE else url.host
    return f"{url.scheme}://{host}:{port}"


def _choose_interface(
    card: _Card, url: str, binding: Binding | None, origins: Collection[str] | None
) -> tuple[httpx.URL, Binding]:
    """The interface to use: one on the card's own origin before others, then by `PREFERRED`."""
    if not card.supported_interfaces:
        raise NotADealerAgent(f"The card at {url} has no supportedInterfaces: it is not of A2A 1.0.")
    here = httpx.URL(url)
    usable: list[tuple[bool, int, httpx.URL, Binding]] = []
    for each in card.supported_interfaces:
        for rank, known in enumerate(PREFERRED):
            if each.protocol_binding != known or binding not in (None, known):
                continue
            if not each.protocol_version.startswith("1"):
                continue
            endpoint = parse_url(each.url)
            if endpoint is None:
                continue
            is_foreign = origins is not None and origin(endpoint) not in origins
            # A card that came over TLS never leads to an unencrypted connection, nor a foreign card to a local service.
            if origins is None or endpoint.scheme == "https" or origin(endpoint) == origin(here):
                usable.append((is_foreign, rank, endpoint, known))
    if not usable:
        wanted = binding or " or ".join(PREFERRED)
        named = ", ".join(each.url[:200] for each in card.supported_interfaces[:5])
        raise NotADealerAgent(
            f"The card at {url} has no usable interface: the client needs {wanted} of A2A 1.0, with an https URL or "
            f"a URL on the card's own origin. The card names {named}."
        )
    _, _, endpoint, chosen = min(usable, key=lambda candidate: candidate[:2])
    return endpoint, chosen


def _choose_vendor(card: _Card) -> str:
    """The first name in the media types of the requests of known skills. The card's own order is the preference."""
    for entry in card.skills:
        skill = SKILL_BY_ID.get(entry.id)
        if skill is None:
            continue
        for mode in entry.input_modes or card.default_input_modes or ():
            found = re.fullmatch(rf"application/vnd\.([a-z0-9-]+)\.{skill.stem}-request\+json", mode.strip().lower())
            if found:
                return found[1]
    return AUTOAGENT.name


def _extensions(card: _Card) -> list[_Extension]:
    return (card.capabilities and card.capabilities.extensions) or []


def _choose_extension(card: _Card, vendor: str) -> _Extension | None:
    """The protocol's extension that belongs to the vocabulary, else the first one."""
    extensions = [each for each in _extensions(card) if each.uri != OFFERS_EXTENSION]
    known = [each for each in extensions if _PROFILE_URI.search(each.uri) or "skills" in (each.params or {})]
    # Requests name the URI in a header, which other characters would break.
    known = [each for each in known if each.uri.isascii() and each.uri.isprintable()]
    is_autoagent = vendor == AUTOAGENT.name
    fitting = (each for each in known if (f"//{AUTOAGENT.domain}/" in each.uri) == is_autoagent)
    return next(fitting, known[0] if known else None)


def camel_case(node: Any) -> Any:
    """A card with camelCase names. The names inside `params` and `schemes` change too: readers of those take the card
    as it is."""
    if isinstance(node, dict):
        return {
            re.sub("_([a-z])", lambda found: found[1].upper(), name): camel_case(item) for name, item in node.items()
        }
    if isinstance(node, list):
        return [camel_case(item) for item in node]
    return node
