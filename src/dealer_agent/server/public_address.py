"""The address that the cards of a dealer without `public_url` name behind a TLS proxy (docs/protocol.md#public-url)."""

import re
from dataclasses import replace

from starlette.types import Scope

from dealer_agent.server.client_address import is_from
from dealer_agent.server.service import Service

# A name, an IPv4 address or an IPv6 address in brackets, with or without a port.
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")


def at_public_address(service: Service, scope: Scope) -> Service:
    """The service with the URLs that the client of this request can use.

    It is another one only if `public_url` is not set and a trusted proxy says that the client has asked over TLS: then
    the URLs have `https` and the host of the request. A client chooses this host, so such a service signs nothing.
    """
    if service.settings.service.public_url:
        return service
    headers = dict(scope["headers"])
    schemes = headers.get(b"x-forwarded-proto", b"").decode("latin-1").lower().split(",")
    host = headers.get(b"host", b"").decode("latin-1")
    if schemes[-1].strip() != "https" or not is_from(scope, service.settings.service.trusted_networks):
        return service
    if _HOST.fullmatch(host) is None:
        return service
    base = f"https://{host}{service.settings.service.base_path}"
    return replace(service, card=service.card.at(base), signer=None, documents={})
