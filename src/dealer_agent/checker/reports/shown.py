"""An exchange as text for people: bounded, readable, without the token. Pure."""

import json
import re
from contextlib import suppress

from dealer_agent.checker.exchange import Exchange, Headers, read_json

MOST_CHARACTERS = 6_000
"""Characters of a body that are shown."""

SECRET = "(not shown)"  # noqa: S105 - the words that replace a token.

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    """Untrusted text, in which control characters and marks of direction are visible codes."""
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def request_head(exchange: Exchange) -> str:
    """The first line and the headers of the request. The token is not shown."""
    return "\n".join([f"{exchange.method} {plain(exchange.url)}", *_header_lines(exchange.request_headers)])


def response_head(exchange: Exchange) -> str:
    """The status and the headers of the response."""
    return "\n".join([f"HTTP {exchange.status}", *_header_lines(exchange.headers)])


def body_text(body: bytes, *, most: int = MOST_CHARACTERS) -> str:
    """A body. JSON that has no defects is indented."""
    value, defects = read_json(body)
    text = body.decode("utf-8", "replace")
    if value is not None and not defects:
        # A body with very many levels stays as it came.
        with suppress(RecursionError):
            text = json.dumps(value, ensure_ascii=False, indent=2)
    text = plain(text)
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}\n… ({left_out:,} more characters)"


def _header_lines(headers: Headers) -> list[str]:
    return [
        f"{plain(name)}: {SECRET if name.lower() == 'authorization' else plain(value[:1000])}"
        for name, value in headers
    ]
