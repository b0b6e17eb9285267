"""Reads the body of a request, up to a limit of bytes and time (docs/protocol.md#bounds)."""

import asyncio

from starlette.types import Receive

from dealer_agent.protocol.errors import ContentTypeNotSupported, SchemaValidationFailed
from dealer_agent.protocol.problems import Problem, message_and_details

JSON = "application/json"


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete. Nobody can read an answer."""


async def read_body(receive: Receive, limit: int, timeout_seconds: float) -> bytes:
    """The whole body. Raises ClientGoneError, and SchemaValidationFailed if it is too large (413) or too slow (408)."""
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
                    raise too_large(f"must have at most {limit} bytes")
                if not event.get("more_body"):
                    return b"".join(chunks)
                event = await receive()
                chunks.append(event.get("body", b""))
                size += len(chunks[-1])
    except TimeoutError:
        raise _refusal("The body", f"did not arrive within {timeout_seconds:g} s", "maxLength", 408) from None


def too_large(words: str) -> SchemaValidationFailed:
    """The refusal (413) of a body. `words` say how large it may be."""
    return _refusal("The body", words, "maxLength", 413)


def wrong_media_type(words: str) -> SchemaValidationFailed:
    """The refusal (415) of a media type. `words` say which ones are accepted."""
    return _refusal("Content-Type", words, "contentMediaType", 415, json_rpc=ContentTypeNotSupported.json_rpc)


def _refusal(
    subject: str, words: str, keyword: str, status: int, json_rpc: int | None = None
) -> SchemaValidationFailed:
    _, details = message_and_details([Problem((), f"{subject} {words}", keyword)], "envelope")
    # The rest of a body that is too large or too slow is not read, so the connection cannot be used again.
    headers = () if status == 415 else (("connection", "close"),)
    return SchemaValidationFailed(f"{subject} {words}.", details, http=status, json_rpc=json_rpc, headers=headers)
