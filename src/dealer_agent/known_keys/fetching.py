"""Fetches keys from an address that a stranger may have named. Every request has bounds for size and time."""

import asyncio
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.http_signatures.directory import MAX_BYTES, MEDIA_TYPE
from dealer_agent.http_signatures.fields import Headers
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import http_client

SECONDS = 10.0
"""The most seconds of a fetch in all: to find the address, to connect, and to receive."""
ACCEPTED = f"{MEDIA_TYPE}, application/jwk-set+json, application/json"


class FetchFailed(Exception):  # noqa: N818 - says what happened.
    """Nothing was fetched. The message says why, and has no text of the other side."""


class KeyResponse(NamedTuple):
    """A response with the status 200."""

    headers: Headers
    body: bytes


async def fetch(url: str, rule: AddressRule) -> KeyResponse:
    """The response of an https URL, or of an http URL of this machine. It follows no redirects. Raises FetchFailed."""
    try:
        is_secure = url.startswith("https://") or is_this_machine(urlsplit(url).hostname or "")
    except ValueError:
        is_secure = False
    if not is_secure:
        raise FetchFailed("its address is not https: publish it at an https URL")
    try:
        async with asyncio.timeout(SECONDS):
            return await _fetch(url, rule)
    except TimeoutError:
        raise FetchFailed(f"it did not answer within {SECONDS:.0f} seconds: look at its server") from None
    except AddressRefused as refused:
        raise FetchFailed(str(refused)) from None
    # UnicodeError: a label of the host is not one of IDNA, such as "xn--a".
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise FetchFailed(f"the connection failed ({type(error).__name__}): look at its server") from None


async def _fetch(url: str, rule: AddressRule) -> KeyResponse:
    """Fetches the keys at a URL within bounds of time and size. Raises FetchFailed, and errors of httpx."""
    headers = {"Accept": ACCEPTED, "Accept-Encoding": "identity"}
    async with (
        http_client(rule, timeout=SECONDS, trust_env=False) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        if response.status_code != httpx.codes.OK:
            raise FetchFailed(f"it answered with the status {response.status_code}: it must answer with 200")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed("it sent a content encoding that was not asked for: send it without one")
        body = bytearray()
        async for piece in response.aiter_raw(16 * 1024):
            body += piece
            if len(body) > MAX_BYTES:
                raise FetchFailed(f"it sent more than {MAX_BYTES} bytes: publish fewer keys")
        return KeyResponse([(name.lower(), value) for name, value in response.headers.raw], bytes(body))
