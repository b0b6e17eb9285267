"""Reading a request: its media type, then its body, never more of it than the limit (contract, parts 2 and 3)."""

import asyncio

from starlette.types import Receive

from dealer_agent.protocol.errors import Problem, SchemaValidationFailed, told
from dealer_agent.protocol.vocabulary import bare_media_type

A2A_JSON = "application/a2a+json"
JSON = "application/json"


class ClientGoneError(Exception):
    """The client left before its request was whole: there is nobody to answer."""


def reply_media_type(content_type: bytes | None) -> str:
    """The media type of the reply to a request of this content type. Raises SchemaValidationFailed (415)."""
    if content_type == b"application/json":
        return JSON
    bare = bare_media_type((content_type or b"").decode("latin-1"))
    if bare not in (JSON, A2A_JSON):
        raise _refused(f"must be {JSON} or {A2A_JSON}", "Content-Type", 415)
    return bare


def refuse_declared_size(content_length: bytes | None, limit: int) -> None:
    """Raises SchemaValidationFailed (413) for a body that says itself that it is too large."""
    if content_length is not None and content_length.isdigit() and int(content_length[:20]) > limit:
        raise _too_large(limit)


async def read_body(receive: Receive, limit: int, timeout_seconds: float) -> bytes:
    """The whole body. Raises SchemaValidationFailed (413 as soon as it is too large, 408 when it comes too slowly), and
    ClientGoneError."""
    try:
        async with asyncio.timeout(timeout_seconds):
            event = await receive()
            body: bytes = event.get("body", b"")
            if not event.get("more_body") and event["type"] == "http.request" and len(body) <= limit:
                return body
            chunks, size = [body], len(body)
            while True:
                if event["type"] == "http.disconnect":
                    raise ClientGoneError
                if size > limit:
                    raise _too_large(limit)
                if not event.get("more_body"):
                    return b"".join(chunks)
                event = await receive()
                chunks.append(event.get("body", b""))
                size += len(chunks[-1])
    except TimeoutError:
        raise _refused(f"did not arrive within {timeout_seconds:g} s", "The body", 408) from None


def _too_large(limit: int) -> SchemaValidationFailed:
    return _refused(f"must have at most {limit} bytes", "The body", 413)


def _refused(words: str, what: str, http: int) -> SchemaValidationFailed:
    _, details = told([Problem("", "contentMediaType" if http == 415 else "maxLength", f"{what} {words}")], "envelope")
    # What is left of the body is not read: the connection cannot be used again.
    closing = () if http == 415 else (("connection", "close"),)
    return SchemaValidationFailed(f"{what} {words}.", details, http=http, headers=closing)
