"""The documents by which agents find a dealer (docs/protocol.md#discovery). Pure.

- The AI Catalog (https://github.com/Agent-Card/ai-catalog), which is also a catalog of Agentic Resource Discovery
  (https://github.com/ards-project/ard-spec): every card of the dealer.
- The MCP server card (SEP-2127) and the `server.json` of the MCP registry: where the MCP server answers.
- llms.txt (https://llmstxt.org): a short text for language models.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.examples import SKILL_DOCS
from dealer_agent.apidocs.openapi import server_root
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.well_known import CARD_TYPE, CATALOG_PATH

KEYS_PATH = "/.well-known/jwks.json"
OFFER_KEYS_PATH = "/.well-known/offer-keys.json"
MCP_PATH = "/mcp"
MCP_CARD_PATH = "/mcp/server-card"
MCP_SERVER_PATH = "/.well-known/mcp/server.json"
LLMS_PATH = "/llms.txt"

CATALOG_TYPE = "application/ai-catalog+json"
MCP_CARD_TYPE = "application/mcp-server-card+json"

_MCP_CARD_SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_MCP_SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_LONGEST_MCP_NAME = 200
_LONGEST_MCP_WORDS = 100
_LONGEST_NAME = 200
MOST_LISTED = 200
"""The dealers in the llms.txt of an installation. The catalog has all."""


class ListedCard(NamedTuple):
    """A card of a dealer. `label` makes its identifier different from those of the dealer's other cards."""

    path: str
    label: str
    title: str


def catalog(host: str, entries: Iterable[Json], **more: str) -> Json:
    """An AI Catalog. `host` is the name of its publisher."""
    return {"specVersion": "1.0", "host": {"displayName": host, **more}, "entries": [*entries]}


def card_entry(address: str, dealer_id: str, name: str, queries: Sequence[str] = (), label: str = "") -> Json:
    """The entry of a catalog for the agent card at an address."""
    return {
        "identifier": _identifier(address, "dealer", dealer_id, label),
        "displayName": name,
        "type": CARD_TYPE,
        "url": address,
        **({"representativeQueries": [*queries]} if queries else {}),
    }


def dealer_catalog(facts: CardFacts, dealer_id: str, cards: Iterable[ListedCard], *, has_mcp: bool) -> Json:
    """The AI Catalog of one dealer: its cards, and its MCP server."""
    root = server_root(facts)
    queries = [SKILL_DOCS[skill].example_question for skill in facts.skills][:5]
    # The specification wants two or more.
    queries = queries if len(queries) > 1 else []
    entries = [
        card_entry(root + card.path, dealer_id, f"{facts.name}{card.title}", queries, card.label) for card in cards
    ]
    if has_mcp:
        server = {
            "identifier": _identifier(root, "mcp", dealer_id),
            "displayName": facts.name,
            "type": MCP_CARD_TYPE,
            "url": root + MCP_CARD_PATH,
            **({"representativeQueries": queries} if queries else {}),
        }
        entries.append(server)
    return catalog(facts.name, entries, documentationUrl=facts.documentation_url)


def mcp_server_card(facts: CardFacts, dealer_id: str) -> Json:
    """The MCP server card of a dealer."""
    return {"$schema": _MCP_CARD_SCHEMA, **_mcp_server(facts, dealer_id)}


def mcp_server_json(facts: CardFacts, dealer_id: str) -> Json:
    """The dealer's MCP server in the format of the MCP registry."""
    return {"$schema": _MCP_SERVER_SCHEMA, **_mcp_server(facts, dealer_id)}


def llms_text(facts: CardFacts, cards: Iterable[ListedCard], *, has_mcp: bool) -> str:
    """The dealer's llms.txt, in Markdown."""
    root, name = _linkable(server_root(facts)), _plain(facts.name)
    schemas = _linkable(facts.schemas_url)
    sections: Mapping[str, list[tuple[str, str, str]]] = {
        "Agent cards": [
            (f"Agent card{card.title}", root + card.path, "A2A 1.0, signed: names the interfaces and the skills.")
            for card in cards
        ],
        "Skills": [
            (skill.id, f"{schemas}/{skill.request_type}.json", f"JSON Schema of the request. {skill.description}")
            for skill in facts.skills
        ],
        "MCP": [
            ("MCP server", root + MCP_PATH, "The same skills as MCP tools, over streamable HTTP."),
            ("MCP server.json", root + MCP_SERVER_PATH, "The description of the MCP server."),
        ]
        if has_mcp
        else [],
        "Documentation": [
            ("API documentation", _linkable(facts.documentation_url), "Every request, reply and error, with examples."),
            ("OpenAPI", f"{root}/openapi.json", "Both bindings as an OpenAPI 3.1 document."),
        ],
        "Optional": [
            ("AI Catalog", root + CATALOG_PATH, "All cards as one list."),
            ("Schemas", schemas, "All JSON Schemas."),
            ("Signature keys", root + KEYS_PATH, "The public key that verifies the cards."),
        ],
    }
    lines = [
        f"# {name}",
        "",
        f"> The car dealer {name} answers AI shopping agents here: who the dealer is, which vehicles are in stock, and "
        "how to get in touch.",
        "",
        "Talk to it over A2A 1.0. Read the agent card first. Then send `SendMessage` as JSON-RPC to "
        f"<{_linkable(facts.json_rpc_url)}>, or as HTTP+JSON to <{_linkable(facts.http_json_url)}/message:send>, with "
        "one data part. Prices are in whole US dollars.",
        "",
        "Submit a lead only if the person has agreed that the dealer may contact them.",
    ]
    if facts.bearer_skills:
        lines += ["", f"These skills need a token of the dealer: {', '.join(sorted(facts.bearer_skills))}."]
    for heading, links in sections.items():
        if links:
            lines += ["", f"## {heading}", "", *(f"- [{title}]({url}): {words}" for title, url, words in links)]
    return "\n".join(lines) + "\n"


def dealers_llms_text(public_url: str, host: str, dealers: Sequence[tuple[str, str]]) -> str:
    """The llms.txt of a service of many dealers. `dealers` are names and addresses. The first ones are listed."""
    listed = [
        f"- [{_plain(name)}]({_linkable(address)}{LLMS_PATH}): The agent of this dealer."
        for name, address in dealers[:MOST_LISTED]
    ]
    lines = [
        f"# {_plain(host)}",
        "",
        f"> Car dealers answer AI shopping agents here: {len(dealers)} of them are in the public list.",
        "",
        "Each dealer has an address, an agent card and stock of its own. Ask them one by one.",
        *(["", "## Dealers", "", *listed] if listed else []),
        "",
        "## Optional",
        "",
        f"- [AI Catalog]({_linkable(public_url)}{CATALOG_PATH}): The agent cards of all listed dealers.",
    ]
    return "\n".join(lines) + "\n"


def _mcp_server(facts: CardFacts, dealer_id: str) -> dict[str, Any]:
    """The members that the card of the MCP server and its `server.json` share."""
    root = server_root(facts)
    remote: Json = {"type": "streamable-http", "url": root + MCP_PATH}
    if facts.bearer_skills:
        header = {
            "name": "Authorization",
            "description": "Bearer, a space, and a token that the dealer gave you",
            "isRequired": facts.auth_type == "bearer",
            "isSecret": True,
        }
        remote["headers"] = [header]
    return {
        "name": mcp_server_name(root, dealer_id),
        "title": _cut(facts.name, _LONGEST_MCP_WORDS),
        "description": _cut(f"Search the stock of {facts.name}, ask about vehicles, send leads", _LONGEST_MCP_WORDS),
        "version": facts.version,
        "websiteUrl": facts.website,
        "remotes": [remote],
    }


def mcp_server_name(root: str, dealer_id: str) -> str:
    """The name of a dealer's MCP server: its host in reverse order, a slash and the dealer's id."""
    host = _publisher(root)
    try:
        ip_address(host)
    except ValueError:
        host = ".".join(reversed(host.split(".")))
    return f"{host[: _LONGEST_MCP_NAME - len(dealer_id) - 1].rstrip('.-')}/{dealer_id}"


def _identifier(address: str, *names: str) -> str:
    return ":".join(["urn:air", _publisher(address), *filter(None, names)])


def _publisher(address: str) -> str:
    """The host of an address, with only the characters that identifiers may have."""
    return re.sub("[^a-z0-9.-]", "-", (urlsplit(address).hostname or "").lower())


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _plain(text: str) -> str:
    """Text of the dealer on one line, in which nothing is Markdown."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return re.sub(r"([\\`*_\[\]<>#|~&])", r"\\\1", _cut(printable, _LONGEST_NAME))


def _linkable(url: str) -> str:
    """A URL that cannot end the link of which it is a part."""
    return re.sub("[()<>]", lambda match: f"%{ord(match[0]):02X}", url)
