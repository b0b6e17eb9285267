"""Reading a request: its media type, then its body, never more of it than the limit (contract, parts 2 and 3)."""

import asyncio

from starlette.types import Receive

from dealer_agent.protocol.errors import SchemaValidationFailed
from dealer_agent.protocol.problems import Problem, message_and_details
from dealer_agent.protocol.vocabulary import bare_media_type

A2A_JSON = "application/a2a+json"
JSON = "application/json"


COUNTED_BYTES = 8 * 1024
"""A request counts once against the rate of its address for every started 8 KiB of its body."""


def cost_of(size: int) -> int:
    """How many times a request with a body of this size counts against the rate of its address."""
    return max(1, -(-size // COUNTED_BYTES))


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


def declared_size(content_length: bytes | None, limit: int) -> int:
    """The size that a request declares for its body; 0 where it declares none. Raises SchemaValidationFailed (413)."""
    if content_length is None or not content_length.isdigit():
        return 0
    size = int(content_length[:20])
    if size > limit:
        raise _too_large(limit)
    return size


def refuse_large_reading(size: int, limit: int, lead_limit: int) -> None:
    """Raises SchemaValidationFailed (413) for the body of a reading request that only a lead may have."""
    if size > limit:
        raise _refused(
            f"must have at most {limit} bytes; only that of a lead may have up to {lead_limit}", "The body", 413
        )


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
    _, details = message_and_details(
        [Problem("", "contentMediaType" if http == 415 else "maxLength", f"{what} {words}")], "envelope"
    )
    # What is left of the body is not read: the connection cannot be used again.
    closing = () if http == 415 else (("connection", "close"),)
    return SchemaValidationFailed(f"{what} {words}.", details, http=http, headers=closing)
