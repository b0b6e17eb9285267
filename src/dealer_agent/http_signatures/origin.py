"""The one spelling of an https origin. Pure."""

import re
from ipaddress import IPv4Address, IPv6Address

MAX_ORIGIN_LENGTH = 255

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_AND_PORT = re.compile(rf"(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{{1,5}}))?", re.ASCII)
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


def parse_origin(text: str) -> str | None:
    """The https origin that a text is, without its default port. None for any other text.

    An IP address has one spelling too. Otherwise an agent could have many identities with one certificate.
    """
    if len(text) > MAX_ORIGIN_LENGTH or not text.isascii() or not text.startswith("https://"):
        return None
    match = _HOST_AND_PORT.fullmatch(text.removeprefix("https://").removesuffix("/").lower())
    if match is None:
        return None
    host, port = match["host"], int(match["port"] or 443)
    try:
        if host.startswith("["):
            host = f"[{IPv6Address(host[1:-1]).compressed}]"
        elif _NUMBER.fullmatch(host):
            IPv4Address(host)
    except ValueError:
        return None
    if not 1 <= port <= 65535:
        return None
    return f"https://{host}" if port == 443 else f"https://{host}:{port}"
