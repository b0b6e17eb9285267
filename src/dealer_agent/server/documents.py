"""Makes responses of published documents, with headers for caches and web pages (docs/protocol.md#discovery).

Agents in browsers, on pages of any origin, may call the skills and read the responses. The service identifies callers
by bearer tokens and IP addresses, never by cookies. So it allows every origin, and never allows credentials. It does
not allow a public page to call it on a private network.
"""

import hashlib
from email.utils import format_datetime
from typing import Any, NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dealer_agent.apidocs import discovery
from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.discovery import ListedCard
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0, published_card
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.server.body import JSON
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY
from dealer_agent.server.service import Service

READABLE_ANYWHERE = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "x-request-id, retry-after, a2a-extensions, www-authenticate",
}
"""The headers of the answers of all skills, of errors and of published documents."""

PREFLIGHT = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type, authorization, a2a-version, a2a-extensions, "
    "mcp-protocol-version, mcp-method, mcp-name, mcp-session-id, last-event-id",
    "access-control-max-age": "7200",
}
"""The headers of the response to a preflight request. With it, a browser asks whether it may send the real request."""

HEAD_LINES = "".join(f"{name}: {value}\r\n" for name, value in READABLE_ANYWHERE.items())


def is_preflight(method: str, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether this is a preflight request. Any other OPTIONS request is a wrong method."""
    return method == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in headers)


CARD_SECONDS = 300
PAGE_SECONDS = 60


class Document(NamedTuple):
    """A body with its headers, which allow clients and proxies to cache it."""

    body: bytes
    headers: dict[str, str]


def json_document(content: Any, media_type: str = JSON) -> Document:
    """A JSON document, which pages of any origin may read."""
    return public_document(msgspec.json.encode(content), media_type)


def text_document(text: str) -> Document:
    """A plain text, which pages of any origin may read."""
    body, headers = public_document(text.encode(), "text/plain; charset=utf-8")
    return Document(body, headers | {"x-content-type-options": "nosniff"})


def public_document(body: bytes, media_type: str) -> Document:
    """A document that pages of any origin may read."""
    return _document(body, media_type, CARD_SECONDS, READABLE_ANYWHERE)


def page_document(html: str, seconds: int, policy: str = CONTENT_SECURITY_POLICY) -> Document:
    """A page of HTML, which caches may keep for so many seconds. `policy` says what it may load."""
    headers = {"content-security-policy": policy, "x-content-type-options": "nosniff"}
    return _document(html.encode(), "text/html; charset=utf-8", seconds, headers)


def _document(body: bytes, media_type: str, seconds: int, headers: dict[str, str]) -> Document:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    caching = {"etag": etag, "cache-control": f"public, max-age={seconds}", "content-type": media_type}
    return Document(body, caching | headers)


def answer_with(document: Document, request: Request) -> Response:
    """The response with a document; 304 if the client has it already."""
    body, headers = document
    cached = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if headers["etag"] in cached or "*" in cached:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers)


CARDS = {"1.0.0": card_1_0_0, "0.1.0": card_0_1_0}


def card_of_revision(service: Service, revision: str) -> Document:
    """The card of a revision of the binding."""
    return card_document(service, CARDS[revision](service.card, service.vocabularies))


def card_of_version(version: PublishedVersion, service: Service) -> Document:
    """The card of a published version. Raises HTTPException if the dealer does not serve the version."""
    if version.name not in service.settings.published_versions.served:
        raise HTTPException(404)
    return card_document(service, published_card(service.card, version))


def card_document(service: Service, card: Json) -> Document:
    """A card with its signature. All routes of cards call this function."""
    return _dated(service, json_document(card if service.signer is None else service.signer.signed(card)))


def listed_cards(service: Service) -> list[ListedCard]:
    """The cards of a dealer, the well-known one first."""
    other = next(revision for revision in CARDS if revision != service.settings.service.revision)
    return [
        ListedCard(CARD_PATH, "", ""),
        ListedCard(f"/cards/{other}.json", f"card-{other}", f", revision {other}"),
        *(
            ListedCard(version.card_path, f"aap-{name}", f", AAP {name}")
            for name, version in PUBLISHED_VERSIONS.items()
            if name in service.settings.published_versions.served
        ),
    ]


def require_mcp(service: Service) -> None:
    """Raises HTTPException if the dealer has switched MCP off."""
    if not service.settings.mcp.enabled:
        raise HTTPException(404)


def keys_document(service: Service) -> Document:
    """The public key of the card signatures, as a JSON Web Key Set (RFC 7517)."""
    keys = [] if service.signer is None else [service.signer.public_key]
    return _dated(service, json_document({"keys": keys}, "application/jwk-set+json"))


def offer_keys_document(service: Service) -> Document:
    """The public keys of quotes, those before the newest too. Raises HTTPException without the offers extension."""
    if service.dealer.desk is None:
        raise HTTPException(404)
    keys = {"keys": service.dealer.desk.public_keys}
    return _dated(service, json_document(keys, "application/jwk-set+json"))


def catalog_document(service: Service) -> Document:
    """The AI Catalog."""
    catalog = discovery.dealer_catalog(
        service.card, service.dealer_id, listed_cards(service), has_mcp=service.settings.mcp.enabled
    )
    return _dated(service, json_document(catalog, discovery.CATALOG_TYPE))


def mcp_card_document(service: Service) -> Document:
    """The MCP server card. Raises HTTPException without MCP."""
    require_mcp(service)
    card = discovery.mcp_server_card(service.card, service.dealer_id)
    return _dated(service, json_document(card, discovery.MCP_CARD_TYPE))


def mcp_server_document(service: Service) -> Document:
    """The MCP server in the format of the MCP registry. Raises HTTPException without MCP."""
    require_mcp(service)
    return _dated(service, json_document(discovery.mcp_server_json(service.card, service.dealer_id)))


def llms_document(service: Service) -> Document:
    """The text for language models."""
    return _dated(
        service,
        text_document(discovery.llms_text(service.card, listed_cards(service), has_mcp=service.settings.mcp.enabled)),
    )


def _dated(service: Service, document: Document) -> Document:
    return Document(
        document.body, document.headers | {"last-modified": format_datetime(service.opened_at, usegmt=True)}
    )
