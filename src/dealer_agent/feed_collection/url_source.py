"""Fetches the file of a feed over HTTP. It asks for a file only if it has changed (RFC 9110, section 13)."""

import asyncio
import socket
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv6Network, ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
from msgspec import UNSET

from dealer_agent import __version__
from dealer_agent.config.feeds import UrlSource
from dealer_agent.dealers.hosts import is_this_machine
from dealer_agent.feed_collection.source import FeedSourceError, Fetched, Seen, finish_file, part_file

MOST_REDIRECTS = 5
_IDLE_SECONDS = 30.0
_PIECE = 256 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_VALIDATOR = 900
_TRANSLATED = IPv6Network("64:ff9b::/96")
_ADVICE = {
    401: "the server asks for a login: set user_env and password_env, or token_env, and check their variables",
    403: "the server refuses this login: check it, or ask the server's owner",
    404: "the server has no such file: check address",
    410: "the server has no such file any more: check address",
}


def feed_client() -> httpx.AsyncClient:
    """The HTTP client of the feeds of a process. Making it blocks for some milliseconds."""
    return httpx.AsyncClient(
        headers={"User-Agent": f"dealer-agent/{__version__}", "Accept-Encoding": "gzip"},
        timeout=_IDLE_SECONDS,
        # A proxy of the environment would reach addresses that are not public.
        trust_env=False,
    )


class FeedUrl:
    """A URL. `secrets` has the environment variables. With `public_only`, only public addresses are connected to."""

    def __init__(
        self, settings: UrlSource, secrets: Mapping[str, str], client: httpx.AsyncClient, *, public_only: bool
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._client = client
        self._public_only = public_only

    async def fetch(self, seen: Seen, incoming: Path, most_bytes: int) -> Fetched:
        """Fetches the file if it has changed. See FeedSource."""
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                return await self._fetch(seen, incoming, most_bytes)
        except TimeoutError:
            raise FeedSourceError(
                f"the server did not send the file within {self._settings.timeout_seconds:,} seconds: "
                "raise timeout_seconds, or ask the server's owner"
            ) from None
        except httpx.TimeoutException:
            raise FeedSourceError(f"the server sent nothing for {_IDLE_SECONDS:.0f} seconds") from None
        except httpx.HTTPError as error:
            # The message of the error may contain the URL.
            raise FeedSourceError(f"the connection to the server failed ({type(error).__name__})") from None

    async def _fetch(self, seen: Seen, incoming: Path, most_bytes: int) -> Fetched:
        conditions = {"If-None-Match": seen.get("etag"), "If-Modified-Since": seen.get("modified")}
        asked = {name: value for name, value in conditions.items() if value}
        url = self._settings.address
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._client.send(await self._request(url, asked), stream=True)
            try:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url = str(httpx.URL(url).join(response.headers["location"]))
                    continue
                if response.status_code == httpx.codes.NOT_MODIFIED and asked:
                    return Fetched(seen=seen)
                if response.status_code != httpx.codes.OK:
                    advice = _ADVICE.get(response.status_code, "try again later, or ask the server's owner")
                    raise FeedSourceError(f"the server answered with the status {response.status_code}; {advice}")
                name = unquote(urlsplit(url).path).rpartition("/")[2] or "feed"
                file = await _store(response, incoming, name, most_bytes)
                found = {"etag": response.headers.get("etag"), "modified": response.headers.get("last-modified")}
                kept = {key: value for key, value in found.items() if value and len(value) <= _LONGEST_VALIDATOR}
                return Fetched((file,), kept)
            finally:
                await response.aclose()
        raise FeedSourceError(f"the server redirects more than {MOST_REDIRECTS} times: check address")

    async def _request(self, url: str, conditions: Mapping[str, str]) -> httpx.Request:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme != "https" and not (parts.scheme == "http" and is_this_machine(host)):
            raise FeedSourceError("the server redirects to an address that is not https: check address")
        headers = dict(conditions)
        if _origin(url) == _origin(self._settings.address):
            headers.update(self._login())
        if not self._public_only:
            return self._client.build_request("GET", url, headers=headers)
        # The address that was checked is the one that is connected to: the name could get another one meanwhile.
        address = await _public_address(host, parts.port or 443)
        target = httpx.URL(url).copy_with(host=address)
        headers["Host"] = parts.netloc.rpartition("@")[2]
        return self._client.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})

    def _login(self) -> dict[str, str]:
        settings = self._settings
        if settings.token_env is not UNSET:
            return {"Authorization": f"Bearer {self._secret(settings.token_env)}"}
        if settings.user_env is not UNSET and settings.password_env is not UNSET:
            login = httpx.BasicAuth(self._secret(settings.user_env), self._secret(settings.password_env))
            request = next(login.auth_flow(httpx.Request("GET", settings.address)))
            return {"Authorization": request.headers["Authorization"]}
        return {}

    def _secret(self, name: str) -> str:
        value = self._secrets.get(name)
        if not value:
            raise FeedSourceError(f"the environment variable {name} is not set; it holds the login")
        if not (value.isascii() and value.isprintable()):
            raise FeedSourceError(f"the environment variable {name} holds what no header can: plain ASCII only")
        return value


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


async def _public_address(host: str, port: int) -> str:
    """An address of a host, all of whose addresses are public. Raises FeedSourceError."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise FeedSourceError(f"the host {host} is unknown: check address") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(map(is_public, addresses)):
        raise FeedSourceError(
            f"the host {host} has no public address: the operator allows others with private_feed_addresses under "
            "[installation]"
        )
    return addresses[0]


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, and leads to no other one."""
    ip = ip_address(address.partition("%")[0])
    if ip.version == 6 and (ip.ipv4_mapped or ip.sixtofour or ip.teredo or ip in _TRANSLATED):
        return False
    return ip.is_global and not ip.is_multicast


async def _store(response: httpx.Response, incoming: Path, name: str, most_bytes: int) -> Path:
    """Writes the body, unpacked, into the incoming folder. Raises FeedSourceError if it is too large."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise FeedSourceError(f"the server sent the content encoding {encoding[:40]!r}, which was not asked for")
    unpack = None if encoding in ("identity", "") else zlib.decompressobj(wbits=31)
    size = received = 0
    part = await asyncio.to_thread(part_file, incoming)
    try:
        with _disk_errors(), part.open("xb") as file:
            async for packed in response.aiter_raw(_PIECE):
                if unpack is not None and unpack.eof:
                    break  # The object would keep whatever comes after the end of the file.
                received += len(packed)
                for piece in _pieces(packed, unpack):
                    size += len(piece)
                    # Packed bytes count too: they can be endless and unpack to nothing.
                    if max(size, received) > most_bytes:
                        raise FeedSourceError(f"the file has more than {most_bytes >> 20:,} MiB: raise max_mib")
                    await asyncio.to_thread(file.write, piece)
        if unpack is not None and not unpack.eof:
            raise FeedSourceError("the compressed file ends too early: the next fetch tries again")
        with _disk_errors():
            return await asyncio.to_thread(finish_file, part, name)
    finally:
        part.unlink(missing_ok=True)


def _pieces(packed: bytes, unpack: "zlib._Decompress | None") -> Iterator[bytes]:
    """The bytes of a piece, unpacked in pieces, so that a bomb takes no memory."""
    if unpack is None:
        yield packed
        return
    try:
        while packed:
            yield unpack.decompress(packed, _PIECE)
            packed = unpack.unconsumed_tail
    except zlib.error:
        raise FeedSourceError("the server sent a file that is not gzip, and said that it is") from None


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FeedSourceError(f"the file cannot be stored: {error.strerror}") from None
