"""Published documents as responses: bodies with the headers that allow clients and proxies to cache them."""

import hashlib
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from dealer_agent.server.body import JSON
from dealer_agent.server.cross_origin import READABLE_ANYWHERE
from dealer_agent.server.pages.site import CONTENT_SECURITY_POLICY

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
