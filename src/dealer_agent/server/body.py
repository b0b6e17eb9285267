"""Reads the body of a request, up to a limit of bytes and time (docs/protocol.md#body-limits)."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from starlette.types import Receive

from dealer_agent.protocol.errors import ContentTypeNotSupported, SchemaValidationFailed
from dealer_agent.protocol.problems import Problem, message_and_details
from dealer_agent.protocol.skill import ALL_SKILLS

JSON = "application/json"
COUNTED_BYTES = 8 * 1024
"""A request counts against the rate of its IP address once for each 8 KiB of its body, and at least once."""


def cost_of(size: int) -> int:
    """How often a request whose body has this size in bytes counts."""
    return max(1, -(-size // COUNTED_BYTES))


def _names(*skill_ids: str) -> re.Pattern[bytes]:
    # The name of an MCP tool has an underscore.
    return re.compile("|".join(skill_ids).replace(".", "[._]").encode())


_LEAD = _names(*(skill.id for skill in ALL_SKILLS if skill.is_lead))
_OTHERS = _names(*(skill.id for skill in ALL_SKILLS if not skill.is_lead))


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete. Nobody can read a response."""


async def read_body(
    receive: Receive,
    limit: int,
    timeout_seconds: float,
    lead_limit: int = 0,
    room: Callable[[], AbstractContextManager[None]] | None = None,
) -> bytes:
    """The whole body. Raises ClientGoneError, and SchemaValidationFailed if it is too large (413) or too slow (408).

    The body of a lead may have `lead_limit` bytes. While its `type` has not arrived, it needs `room()`, which raises
    RateLimited if there is none (`HeldBytes.of_unknown_type`).
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            event = await receive()
            body: bytes = event.get("body", b"")
            if not event.get("more_body") and event["type"] == "http.request" and len(body) <= limit:
                return body
            chunks, size = [body], len(body)
            with ExitStack() as stack:
                while True:
                    if event["type"] == "http.disconnect":
                        raise ClientGoneError
                    if limit < size and limit < lead_limit:
                        chunks = [b"".join(chunks)]
                        # If the whole body is here, its `type` decides later.
                        if event.get("more_body") and not _names_a_lead(chunks[0], limit, lead_limit) and room:
                            stack.enter_context(room())
                        limit = lead_limit
                    if size > limit:
                        raise too_large(f"must have at most {limit} bytes")
                    if not event.get("more_body"):
                        return b"".join(chunks)
                    event = await receive()
                    chunks.append(event.get("body", b""))
                    size += len(chunks[-1])
    except TimeoutError:
        raise _error("The body", f"did not arrive within {timeout_seconds:g} s", "maxLength", 408) from None


def _names_a_lead(begun: bytes, limit: int, lead_limit: int) -> bool:
    """Whether the beginning of a body names a lead; False if it names no skill. Raises SchemaValidationFailed if it
    names another one."""
    if _LEAD.search(begun):
        return True
    if _OTHERS.search(begun):
        raise not_a_lead(limit, lead_limit)
    return False


def not_a_lead(limit: int, lead_limit: int) -> SchemaValidationFailed:
    """The error (413) of a body that only a lead may have."""
    return too_large(f"must have at most {limit} bytes; only a lead may have up to {lead_limit}")


def too_large(words: str) -> SchemaValidationFailed:
    """The error (413) of a body. `words` say how large it may be."""
    return _error("The body", words, "maxLength", 413)


def wrong_media_type(words: str) -> SchemaValidationFailed:
    """The error (415) of a media type. `words` say which ones are accepted."""
    return _error("Content-Type", words, "contentMediaType", 415, json_rpc=ContentTypeNotSupported.json_rpc)


def _error(subject: str, words: str, keyword: str, status: int, json_rpc: int | None = None) -> SchemaValidationFailed:
    _, details = message_and_details([Problem((), f"{subject} {words}", keyword)], "envelope")
    # The rest of a body that is too large or too slow is not read, so the connection cannot be used again.
    headers = () if status == 415 else (("connection", "close"),)
    return SchemaValidationFailed(f"{subject} {words}.", details, http=status, json_rpc=json_rpc, headers=headers)
