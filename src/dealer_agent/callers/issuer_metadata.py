"""Finds the keys of an issuer in its metadata (RFC 8414, and OpenID Connect Discovery). Pure."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from dealer_agent.protocol.json_body import NOT_DECODED, is_sound

_OAUTH, _OPENID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"


def openid_url(issuer: str) -> str:
    """Where OpenID Connect Discovery has the metadata: the well-known path comes after the path of the issuer."""
    return issuer.rstrip("/") + _OPENID


def metadata_urls(issuer: str) -> tuple[str, ...]:
    """Where the metadata of an issuer may be, in the order in which to look.

    RFC 8414 puts the well-known path before the path of the issuer, also for the document of OpenID. Many issuers have
    it only where OpenID Connect Discovery puts it: after the path. For an issuer without a path, these are the same.
    """
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    before_path = (parts._replace(path=well_known + path).geturl() for well_known in (_OAUTH, _OPENID))
    return tuple(dict.fromkeys((*before_path, openid_url(issuer))))


def jwks_url_in(document: bytes, issuer: str) -> str:
    """The URL of the key set that the metadata of this issuer names. Raises ValueError with what is wrong.

    Metadata that names another issuer is refused (RFC 8414, 3.3): else anybody whose document is found there could
    speak for the issuer.
    """
    try:
        found: Any = msgspec.json.decode(document) if is_sound(document) else None
    except NOT_DECODED:
        found = None
    match found:
        case {"issuer": str(named)} if named != issuer:
            raise ValueError("names another issuer: write its `issuer` into the settings, if you trust it")
        case {"issuer": str(), "jwks_uri": str(url)}:
            return url
    raise ValueError("is not the metadata of an issuer, which has issuer and jwks_uri: check the URL of the issuer")
