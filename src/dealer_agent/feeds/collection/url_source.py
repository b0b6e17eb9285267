"""Fetches the file of a feed over HTTP. It asks for a file only if it has changed (RFC 9110, section 13)."""

import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from http.cookiejar import CookieJar
from urllib.parse import unquote, urlsplit

import httpx
from msgspec import UNSET

from dealer_agent.config.feeds import UrlSource
from dealer_agent.dealers.profile_checks import is_this_machine
from dealer_agent.feeds.collection.source import Arrivals, FeedSourceError, FetchResult, Seen, store, time_limit
from dealer_agent.outgoing.addresses import AddressRefused, AddressRule
from dealer_agent.outgoing.connections import http_client

MOST_REDIRECTS = 5
_IDLE_SECONDS = 30.0
_PIECE = 256 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_VALIDATOR = 900
_ADVICE = {
    401: "the server asks for a login: set user_env and password_env, or token_env, and check their variables",
    403: "the server refuses this login: check it, or ask the server's owner",
    404: "the server has no such file: check the address of this feed in dealer.toml",
    410: "the server has no such file any more: check the address of this feed in dealer.toml",
}


class FeedUrl:
    """A URL. `secrets` has the environment variables. `rule` is for its host, and `redirect_rule` for redirects."""

    def __init__(
        self, settings: UrlSource, secrets: Mapping[str, str], rule: AddressRule, redirect_rule: AddressRule
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._rule = rule
        self._redirect_rule = redirect_rule

    async def fetch(self, seen: Seen, arrivals: Arrivals) -> FetchResult:
        """Fetches the file if it has changed. See FeedSource."""
        try:
            async with time_limit(self._settings.timeout_seconds):
                return await self._fetch(seen, arrivals)
        except httpx.TimeoutException:
            raise FeedSourceError(
                f"the server sent nothing for {_IDLE_SECONDS:.0f} seconds: ask its owner if this goes on"
            ) from None
        except AddressRefused as refused:
            raise FeedSourceError(str(refused)) from None
        except httpx.HTTPError as error:
            # The message of the error may contain the URL.
            raise FeedSourceError(
                f"the connection to the server failed ({type(error).__name__}): check the address of this feed in"
                " dealer.toml, or ask the server's owner"
            ) from None

    async def _fetch(self, seen: Seen, arrivals: Arrivals) -> FetchResult:
        """Follows redirects itself: each address is checked, and another host gets no password."""
        conditions = {"If-None-Match": seen.get("etag"), "If-Modified-Since": seen.get("modified")}
        sent = {name: value for name, value in conditions.items() if value}
        url, rule, cookies = self._settings.address, self._rule, CookieJar()
        for _ in range(MOST_REDIRECTS + 1):
            async with (
                http_client(rule, cookies=cookies, timeout=_IDLE_SECONDS, trust_env=False) as client,
                client.stream("GET", url, headers=self._headers(url, sent)) as response,
            ):
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url, rule = str(httpx.URL(url).join(response.headers["location"])), self._redirect_rule
                    continue
                if response.status_code == httpx.codes.NOT_MODIFIED and sent:
                    return FetchResult(seen=seen)
                if response.status_code != httpx.codes.OK:
                    advice = _ADVICE.get(response.status_code, "try again later, or ask the server's owner")
                    raise FeedSourceError(f"the server answered with the status {response.status_code}; {advice}")
                name = unquote(urlsplit(url).path).rpartition("/")[2] or "feed"
                file = await store(_unpacked(response, arrivals), name, arrivals)
                headers = {"etag": response.headers.get("etag"), "modified": response.headers.get("last-modified")}
                validators = {key: text for key, text in headers.items() if text and len(text) <= _LONGEST_VALIDATOR}
                return FetchResult((file,), validators)
        raise FeedSourceError(
            f"the server redirects more than {MOST_REDIRECTS} times: check the address of this feed in dealer.toml"
        )

    def _headers(self, url: str, conditions: Mapping[str, str]) -> dict[str, str]:
        """The headers of a request. Only the host of the settings gets the login. Raises FeedSourceError."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_this_machine(parts.hostname or "")):
            raise FeedSourceError(
                "the server redirects to an address that is not https: check the address of this feed in dealer.toml"
            )
        login = self._login() if _origin(url) == _origin(self._settings.address) else {}
        return {"Accept-Encoding": "gzip", **conditions, **login}

    def _login(self) -> dict[str, str]:
        """The header with the login. Empty if the URL needs none."""
        settings = self._settings
        if settings.token_env is not UNSET:
            return {"Authorization": f"Bearer {self._secret(settings.token_env)}"}
        if settings.user_env is not UNSET and settings.password_env is not UNSET:
            login = httpx.BasicAuth(self._secret(settings.user_env), self._secret(settings.password_env))
            request = next(login.auth_flow(httpx.Request("GET", settings.address)))
            return {"Authorization": request.headers["Authorization"]}
        return {}

    def _secret(self, name: str) -> str:
        """The value of an environment variable with a login. Raises FeedSourceError."""
        value = self._secrets.get(name)
        if not value:
            raise FeedSourceError(f"the environment variable {name} is not set: set it to the login")
        if not (value.isascii() and value.isprintable()):
            raise FeedSourceError(
                f"the environment variable {name} has characters that a header cannot have: set it to printable ASCII"
            )
        return value


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


async def _unpacked(response: httpx.Response, arrivals: Arrivals) -> AsyncGenerator[bytes, None]:
    """The body, unpacked, in pieces. Raises FeedSourceError."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise FeedSourceError(
            f"the server sent the content encoding {encoding[:40]!r}, which was not asked for: ask its owner to send "
            "none, or gzip"
        )
    unpack = None if encoding in ("identity", "") else zlib.decompressobj(wbits=31)
    received = 0
    async for packed in response.aiter_raw(_PIECE):
        if unpack is not None and unpack.eof:
            break  # The object would keep whatever comes after the end of the file.
        # Packed bytes count too: they can be endless and unpack to nothing.
        received += len(packed)
        arrivals.check(received)
        for piece in _pieces(packed, unpack):
            yield piece
    if unpack is not None and not unpack.eof:
        raise FeedSourceError("the compressed file ends too early: the next fetch tries again")


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
        raise FeedSourceError(
            "the server says that the file is gzip, and it is not: ask its owner to correct this"
        ) from None
