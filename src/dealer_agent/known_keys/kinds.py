"""The kinds of sources of keys: how each is fetched, and how its stored document is read."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from dealer_agent.http_signatures.directory import (
    MAX_BYTES,
    MEDIA_TYPE,
    DirectoryRefused,
    directory_url,
    read_directory,
    stored_key_set,
)


class KeysNotFetched(Exception):  # noqa: N818 - says what happened.
    """The keys of a source could not be fetched. The message says why."""


class Fetched(NamedTuple):
    """The keys that a source has published: a JWK set, and how long it may be used."""

    document: bytes
    lifetime: timedelta


class SourceKind(NamedTuple):
    """`fetch` raises KeysNotFetched. `read` makes the object that requests use from a stored document."""

    prefix: str
    fetch: Callable[[httpx.AsyncClient, str], Awaitable[Fetched]]
    read: Callable[[bytes, float, float], Any]


async def get(client: httpx.AsyncClient, url: str, media_type: str, max_bytes: int) -> httpx.Response:
    """The response with the status 200 at a URL. Redirects are not followed. Raises KeysNotFetched."""
    async with client.stream("GET", url, headers={"Accept": media_type}) as response:
        if response.status_code != httpx.codes.OK:
            raise KeysNotFetched(f"{urlsplit(url).netloc} answered with the status {response.status_code}")
        content = bytearray()
        async for piece in response.aiter_bytes(max_bytes):
            content += piece
            if len(content) > max_bytes:
                raise KeysNotFetched(f"the document has more than {max_bytes} bytes")
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=bytes(content))


async def _fetch_directory(client: httpx.AsyncClient, origin: str) -> Fetched:
    response = await get(client, directory_url(origin), MEDIA_TYPE, MAX_BYTES)
    headers = [(name.lower(), value) for name, value in response.headers.raw]
    try:
        found = read_directory(headers, response.content, urlsplit(origin).netloc, datetime.now(UTC).timestamp())
    except DirectoryRefused as refused:
        raise KeysNotFetched(str(refused)) from None
    return Fetched(found.document, timedelta(seconds=found.expires_at - found.fetched_at))


DIRECTORY = SourceKind("https://", _fetch_directory, stored_key_set)
"""The key directory of an agent (`http_signatures.directory`). The source is its origin."""

KINDS = (DIRECTORY,)


def kind_of(source: str) -> SourceKind:
    """The kind of a source. Raises KeyError."""
    for kind in KINDS:
        if source.startswith(kind.prefix):
            return kind
    raise KeyError(source)
