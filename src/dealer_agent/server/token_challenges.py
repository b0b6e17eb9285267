"""Tells a refused caller how to get a token (docs/protocol.md#www-authenticate): the header, and the metadata.

The metadata is that of RFC 9728, and the header that of RFC 6750.
"""

from urllib.parse import urlsplit

from starlette.types import Scope

from dealer_agent.apidocs.components import Json
from dealer_agent.apidocs.discovery import MCP_PATH
from dealer_agent.protocol.errors import AuthRequired, Forbidden
from dealer_agent.protocol.well_known import PROTECTED_RESOURCE_PATH
from dealer_agent.server.documents import Document, json_document, require_mcp
from dealer_agent.server.served_dealers import at_public_address
from dealer_agent.server.service import Service

Headers = tuple[tuple[str, str], ...]


def challenge(error: AuthRequired, service: Service, scope: Scope, below: str = "") -> Headers:
    """The headers of a refused caller: none if no token would help. `below` is the path of the MCP server, for a
    request to it.
    """
    if isinstance(error, Forbidden) and not error.problem:
        return ()
    if not (service.settings.auth.issuers or isinstance(error, Forbidden)):
        # The dealer hands out its tokens by hand. There is no place to get one.
        return (("www-authenticate", "Bearer"),)
    metadata = metadata_url(at_public_address(service, scope).card.http_json_url + below)
    parameters = {
        "resource_metadata": metadata,
        # A description is not translated, and has no word of the caller.
        **({"error": error.problem, "error_description": error.message} if error.problem else {}),
        **({"scope": error.scope} if error.scope else {}),
    }
    value = ", ".join(f'{name}="{text}"' for name, text in parameters.items())
    return (("www-authenticate", f"Bearer {value}"),)


def metadata_url(resource: str) -> str:
    """Where the metadata of a resource is: the well-known path is inserted before its own path (RFC 9728, 3.1)."""
    parts = urlsplit(resource)
    return parts._replace(path=PROTECTED_RESOURCE_PATH + parts.path.rstrip("/")).geturl()


def resource_metadata(service: Service, below: str = "") -> Json:
    """The metadata of a dealer, or of its MCP server."""
    card = service.card
    issuers = [each.issuer for each in service.settings.auth.issuers]
    return {
        "resource": card.http_json_url + below,
        **({"authorization_servers": issuers} if issuers else {}),
        "scopes_supported": [*card.scopes],
        "bearer_methods_supported": ["header"],
        "resource_name": card.name,
        "resource_documentation": card.documentation_url,
    }


def resource_document(service: Service) -> Document:
    """The metadata of a dealer."""
    return json_document(resource_metadata(service))


def mcp_resource_document(service: Service) -> Document:
    """The metadata of a dealer's MCP server. Raises HTTPException without MCP."""
    require_mcp(service)
    return json_document(resource_metadata(service, MCP_PATH))


def audiences(url: str) -> frozenset[str]:
    """The audiences of tokens for the dealer at this URL: the dealer, and its MCP server.

    A client may write a resource with a slash at its end.
    """
    return frozenset({url, f"{url}/", url + MCP_PATH, f"{url}{MCP_PATH}/"})
