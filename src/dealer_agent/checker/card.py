"""An agent card, read leniently: what checks need to find interfaces, skills and vocabularies. Pure.

Whether the card is correct is the subject of `checks/cards.py`.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from dealer_agent.checker.exchange import Exchange, at, dicts
from dealer_agent.checker.revision import Binding, Revision, revision_of
from dealer_agent.client.card import camel_case, origin, parse_url

_MEDIA_TYPE = re.compile(r"application/vnd\.([\w-]+)\.inventory-search-request\+json", re.IGNORECASE)
_ANY_MEDIA_TYPE = re.compile(r"application/vnd\.([\w-]+)\.[\w.-]+-request\+json", re.IGNORECASE)


@dataclass(frozen=True)
class Interface:
    """A URL of the card, and the binding that it speaks. The URL is as on the card, without a slash at its end."""

    binding: Binding
    url: str

    @property
    def endpoint(self) -> str:
        """Where messages are posted."""
        return self.url if self.binding == "JSONRPC" else f"{self.url}/message:send"


@dataclass(frozen=True)
class FetchedCard:
    """A card and the exchange that fetched it. `content` is the JSON object."""

    url: str
    content: dict[str, Any]
    exchange: Exchange

    @cached_property
    def camel(self) -> dict[str, Any]:
        """The content with names in camelCase: revision 0.1.0 has snake_case."""
        return camel_case(self.content) if "supported_interfaces" in self.content else self.content

    @cached_property
    def extensions(self) -> list[dict[str, Any]]:
        """The entries of `capabilities.extensions` that are objects with a URI."""
        return [each for each in dicts(at(self.content, "capabilities.extensions")) if isinstance(each.get("uri"), str)]

    @cached_property
    def revision(self) -> Revision:
        """The revision that the card declares."""
        return revision_of(self.content, [each["uri"] for each in self.extensions])

    @cached_property
    def interfaces(self) -> list[Interface]:
        """The interfaces of bindings that checks know, each binding once."""
        interfaces: dict[Binding, Interface] = {}
        for entry in dicts(self.camel.get("supportedInterfaces")):
            binding, url = entry.get("protocolBinding"), entry.get("url")
            if binding in ("JSONRPC", "HTTP+JSON") and isinstance(url, str) and parse_url(url):
                interfaces.setdefault(binding, Interface(binding, url.rstrip("/")))
        return list(interfaces.values())

    @cached_property
    def skills(self) -> frozenset[str]:
        """The ids of the skills on the card."""
        return frozenset(each["id"] for each in dicts(self.content.get("skills")) if isinstance(each.get("id"), str))

    @cached_property
    def vendors(self) -> list[str]:
        """The vocabularies of the card: the vendors of its media types, in the order of the card. May be empty."""
        if self.revision.only_vocabulary:
            return [self.revision.only_vocabulary]
        modes = [
            self.camel.get("defaultInputModes"),
            *(each.get("inputModes") for each in dicts(self.camel.get("skills"))),
        ]
        names: dict[str, None] = {}
        for mode in (mode for each in modes if isinstance(each, list) for mode in each if isinstance(mode, str)):
            if match := _MEDIA_TYPE.fullmatch(mode) or _ANY_MEDIA_TYPE.fullmatch(mode):
                names.setdefault(match[1].lower())
        return list(names)

    @cached_property
    def needs_token(self) -> bool:
        """Whether the card says that every skill needs a token."""
        return bool(self.camel.get("securityRequirements")) or self.content.get("auth_type") == "bearer"

    def is_at_home(self, url: str) -> bool:
        """Whether a URL has the origin of the card. Another origin could be anybody's: it gets no token."""
        return _origin_of(url) is not None and _origin_of(self.url) == _origin_of(url)


@lru_cache(1_000)
def _origin_of(url: str) -> str | None:
    """The origin of a URL; None if it has none."""
    parts = parse_url(url)
    return None if parts is None else origin(parts)
