"""The cards of a dealer and the documents that list them, as responses (docs/protocol.md#discovery)."""

from email.utils import format_datetime

from starlette.exceptions import HTTPException

from dealer_agent.apidocs import discovery
from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.discovery import ListedCard
from dealer_agent.protocol.card import card_0_1_0, card_1_0_0, published_card
from dealer_agent.protocol.published_versions import PUBLISHED_VERSIONS, PublishedVersion
from dealer_agent.protocol.well_known import CARD_PATH
from dealer_agent.server.documents import Document, json_document, text_document
from dealer_agent.server.service import Service

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


def _require_mcp(service: Service) -> None:
    """Raises HTTPException if the dealer has switched MCP off."""
    if not service.settings.mcp.enabled:
        raise HTTPException(404)


def keys_document(service: Service) -> Document:
    """The public key of the card signatures, as a JSON Web Key Set (RFC 7517)."""
    keys = [] if service.signer is None else [service.signer.public_key]
    return _dated(service, json_document({"keys": keys}, "application/jwk-set+json"))


def catalog_document(service: Service) -> Document:
    """The AI Catalog."""
    catalog = discovery.dealer_catalog(
        service.card, service.dealer_id, listed_cards(service), has_mcp=service.settings.mcp.enabled
    )
    return _dated(service, json_document(catalog, discovery.CATALOG_TYPE))


def mcp_card_document(service: Service) -> Document:
    """The MCP server card. Raises HTTPException without MCP."""
    _require_mcp(service)
    card = discovery.mcp_server_card(service.card, service.dealer_id)
    return _dated(service, json_document(card, discovery.MCP_CARD_TYPE))


def mcp_server_document(service: Service) -> Document:
    """The MCP server in the format of the MCP registry. Raises HTTPException without MCP."""
    _require_mcp(service)
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
