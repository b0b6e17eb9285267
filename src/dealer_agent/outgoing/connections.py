"""The connections that the service makes to addresses from a dealer's settings: feeds, outlets, webhooks.

A name is resolved once. All its addresses are checked, and the connection goes to one of these, so a name that gets
another address meanwhile changes nothing. TLS still verifies the name.
"""

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar
from urllib.request import getproxies

import httpcore
import httpx

from dealer_agent import __version__
from dealer_agent.outgoing.addresses import ANY_ADDRESS, AddressRule

ADDRESS_SECONDS = 5.0
"""An address that does not accept a connection in this time is given up for the next one of its host."""
MOST_ADDRESSES = 8
"""The most addresses of a host that a connection is tried to. All are checked."""

_LOOKUPS = ThreadPoolExecutor(128, "lookup")
"""Names are looked up in threads of their own: a name server that does not answer holds them for up to a minute."""

_Connection = TypeVar("_Connection")


async def connect(host: str, port: int, rule: AddressRule) -> socket.socket:
    """A connected socket, which does not block. Raises AddressRefused, and OSError."""

    async def open_socket(address: str) -> socket.socket:
        """A socket that is connected to one IP address."""
        # The flag says that nothing is looked up, so it does not block.
        ((family, kind, protocol, _, where), *_) = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(opened, where)
        except BaseException:
            opened.close()
            raise
        return opened

    return await _first_connection(await _addresses(host, port, rule), open_socket)


def http_client(
    rule: AddressRule, *, cookies: CookieJar | None = None, trust_env: bool = True, **options: Any
) -> httpx.AsyncClient:
    """A client whose connections follow the rule, redirects included. Its requests raise AddressRefused too.

    It keeps cookies in `cookies` only, because several dealers may share it. With a rule that allows every address, it
    uses the proxies of the environment if `trust_env` is set. With any other rule it uses none: a proxy would resolve
    the names itself.
    """
    limits = options.pop("limits", httpx.Limits())
    if rule != ANY_ADDRESS or not (trust_env and getproxies()):
        options["transport"] = _CheckedTransport(rule, limits)
    return httpx.AsyncClient(
        headers={"User-Agent": f"dealer-agent/{__version__}"} | options.pop("headers", {}),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())) if cookies is None else cookies,
        trust_env=trust_env,
        verify=trusted(),
        limits=limits,
        **options,
    )


def trusted() -> ssl.SSLContext:
    """The context that verifies the certificates of servers."""
    return _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _trusted(*_: str | None) -> ssl.SSLContext:
    # To make one takes longer than most requests.
    return httpx.create_ssl_context()


def certificate_error(error: BaseException) -> ssl.SSLCertVerificationError | None:
    """What is wrong with the certificate of a server, if that caused this error."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause


class _CheckedTransport(httpx.AsyncHTTPTransport):
    def __init__(self, rule: AddressRule, limits: httpx.Limits) -> None:
        super().__init__(verify=trusted(), limits=limits)
        # httpx has no parameter for it. A test fails if another version of httpx does not use it.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted(),
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_CheckedNetwork(rule),
        )


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, rule: AddressRule) -> None:
        self._rule = rule
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Opens a connection to an address that the rule allows. Called by httpcore."""
        if self._rule == ANY_ADDRESS:
            return _Stream(await self._network.connect_tcp(host, port, timeout, local_address, socket_options))
        try:
            async with asyncio.timeout(timeout):
                opened = await _first_connection(
                    await _addresses(host, port, self._rule),
                    lambda address: self._network.connect_tcp(
                        address, port, local_address=local_address, socket_options=socket_options
                    ),
                )
        except TimeoutError:
            raise httpcore.ConnectTimeout from None
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from None
        return _Stream(opened)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    """A stream that quickly says whether it is readable: then the peer has closed an idle connection.

    For each request and each response, httpcore asks all idle connections. Its own stream takes ten times as long.
    """

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")
        self._readable = select.poll()
        self._readable.register(self._socket.fileno(), select.POLLIN)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":
            return self._socket.fileno() < 0 or bool(self._readable.poll(0))
        return self._stream.get_extra_info(info)


async def _addresses(host: str, port: int, rule: AddressRule) -> list[str]:
    """The addresses of a host, all of which the rule allows. Raises AddressRefused, and OSError."""
    try:
        found = await asyncio.get_running_loop().run_in_executor(
            _LOOKUPS, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        )
    except UnicodeError:
        raise OSError("the host name is not valid") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not addresses:
        raise OSError("the host has no address")
    rule.check(host, addresses)
    return addresses[:MOST_ADDRESSES]


async def _first_connection(
    addresses: list[str], open_connection: Callable[[str], Awaitable[_Connection]]
) -> _Connection:
    """The first connection that can be opened. Raises the error of the last address."""
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(ADDRESS_SECONDS):
                return await open_connection(address)
        except (OSError, httpcore.ConnectError, httpcore.ConnectTimeout):
            continue
    return await open_connection(addresses[-1])
