"""CORS headers: agents in browsers, on pages of any origin, may call the skills and read the answers. Pure.

The service identifies callers by bearer tokens and IP addresses, never by cookies. So it allows every origin, and never
allows credentials. It does not allow a public page to call it on a private network.
"""

READABLE_ANYWHERE = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "x-request-id, retry-after, a2a-extensions, www-authenticate",
}
"""The headers of the answers of all skills, of errors and of published documents."""

PREFLIGHT = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type, authorization, a2a-version, a2a-extensions, "
    "mcp-protocol-version, mcp-method, mcp-name",
    "access-control-max-age": "7200",
}
"""The headers of the response to a preflight request. With it, a browser asks whether it may send the real request."""

HEAD_LINES = "".join(f"{name}: {value}\r\n" for name, value in READABLE_ANYWHERE.items())


def is_preflight(method: str, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether this is a preflight request. Any other OPTIONS request is a wrong method."""
    return method == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in headers)
