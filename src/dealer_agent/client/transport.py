"""Sends requests and reads responses within bounds, over the network or to an application in the same process.

A token goes only to the origins that the caller allows. Cookies are not kept. Errors of httpx become `Unreachable`.
"""

import math
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeAlias, TypeGuard, TypeVar

import anyio
import httpx

from dealer_agent import __version__
from dealer_agent.client.card import origin
from dealer_agent.client.errors import (
    DealerAgentError,
    HoldConflict,
    HoldLimit,
    MalformedResponse,
    Refused,
    Unreachable,
)
from dealer_agent.client.signing import Signer

Result = TypeVar("Result")
Attempt: TypeAlias = Callable[[], Awaitable[Result]]

USER_AGENT = f"dealer-agent/{__version__}"
CONNECT_SECONDS = 10.0
"""The longest time for a connection."""

# Nothing of the request was sent.
_NOT_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.LocalProtocolError,
)


@dataclass(frozen=True)
class HttpExchange:
    """One request and its response, for `on_exchange`. A token is not in `request_headers`.

    `status` is 0 and `body` is empty if no response came. `seconds` is the time until the end of the response.
    """

    method: str
    url: str
    request_headers: Mapping[str, str]
    request: bytes
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0


@dataclass(frozen=True)
class Received:
    """A response that was read completely."""

    url: httpx.URL
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def retry_after(self) -> float | None:
        """The seconds of `Retry-After`; None without a valid one."""
        return seconds_to_wait(self.headers.get("retry-after", ""))


def seconds_to_wait(retry_after: str) -> float | None:
    """The seconds of a value of `Retry-After`, which is a number or a date; None for another text."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


OnExchange = Callable[[HttpExchange], None]


class Transport:
    """A connection pool with the bounds of the client."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None,
        *,
        token: str | None,
        token_origins: Collection[str] | None,
        signer: Signer | None = None,
        headers: Mapping[str, str],
        user_agent: str | None,
        timeout: float,
        on_exchange: OnExchange | None,
    ) -> None:
        """`token_origins` are the origins that get the token. None: all of them."""
        agent = f"{user_agent} {USER_AGENT}" if user_agent else USER_AGENT
        self._http = httpx.AsyncClient(
            transport=transport,
            # A compressed response has no bound on the size of what it contains.
            headers={"User-Agent": agent, "Accept-Encoding": "identity", **headers},
            follow_redirects=False,
            trust_env=transport is None,
        )
        self._token = token
        self.token_origins = None if token_origins is None else frozenset(token_origins)
        self._signer = signer
        self._timeout = timeout
        self._on_exchange = on_exchange

    async def send(
        self,
        method: str,
        url: httpx.URL | str,
        *,
        most: int,
        headers: Mapping[str, str],
        content: bytes = b"",
        proves_caller: bool = False,
        timeout: float | None = None,
    ) -> Received:
        """One request, without redirects. Raises Unreachable, and MalformedResponse for more than `most` bytes.

        `proves_caller`: it signs the request if there is a signer, and sends the token if there is one
        and the URL may have it. `timeout` replaces that of the client.
        """
        seconds = self._timeout if timeout is None else timeout
        limits = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        request = self._http.build_request(method, url, headers=headers, content=content or None, timeout=limits)
        if proves_caller and self._signer is not None:
            self._signer.sign(request)
        exchange: dict[str, Any] = {
            "method": method,
            "url": str(request.url),
            "request_headers": dict(request.headers),
            "request": content,
        }
        if proves_caller and self._token is not None and self.may_have_token(request.url):
            request.headers["Authorization"] = f"Bearer {self._token}"
        began = time.monotonic()
        try:
            with anyio.fail_after(seconds):
                received = await self._receive(request, most, exchange)
        except _NOT_SENT as error:
            raise Unreachable(f"{request.url} cannot be reached: {_reason(error)}", may_have_arrived=False) from None
        except (httpx.HTTPError, httpx.StreamError, TimeoutError) as error:
            raise Unreachable(f"{request.url} sent no response: {_reason(error)}", may_have_arrived=True) from None
        finally:
            self._http.cookies.clear()
            if self._on_exchange is not None:
                self._on_exchange(HttpExchange(**exchange, seconds=time.monotonic() - began))
        return received

    async def _receive(self, request: httpx.Request, most: int, exchange: dict[str, Any]) -> Received:
        """Sends a request, and reads at most `most` bytes of the body. Notes in `exchange` what has arrived."""
        response = await self._http.send(request, stream=True)
        try:
            exchange |= {"status": response.status_code, "headers": dict(response.headers)}
            if response.headers.get("content-encoding", "identity") != "identity":
                raise MalformedResponse(
                    f"{request.url} sent a compressed response, which the request did not allow: ask the dealer to "
                    "send it uncompressed.",
                    http_status=response.status_code,
                )
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > most:
                    raise MalformedResponse(
                        f"{request.url} sent more than {most:,} bytes.",
                        http_status=response.status_code,
                        body=bytes(body[:2_000]),
                    )
            exchange["body"] = bytes(body)
            return Received(request.url, response.status_code, response.headers, bytes(body))
        finally:
            await response.aclose()

    def may_have_token(self, url: httpx.URL | str) -> bool:
        """Whether the token may go to this URL; true if there is no token. `token_origins` None means all URLs."""
        return self._token is None or self.token_origins is None or origin(httpx.URL(url)) in self.token_origins

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._http.aclose()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return "no response in time"
    return str(error) or type(error).__name__


@dataclass(frozen=True)
class Retries:
    """How often and how long the client tries again.

    `most` is the number of retries after the first attempt; 0 switches them off. A pause is what `Retry-After` says, or
    else doubles from `first_pause_seconds`. If `Retry-After` is longer than `longest_pause_seconds`, the error is
    raised at once.
    """

    most: int = 2
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 60.0

    async def read(self, attempt: Attempt[Result], deadline: float | None = None) -> Result:
        """Makes an attempt that changes nothing, and repeats it after every failure that may be temporary.

        Returns the result. No attempt begins after `deadline`, in seconds of `anyio.current_time`.
        """
        return await self._repeat(attempt, deadline, lambda _: True)

    async def submit(self, attempt: Attempt[Result], deadline: float | None = None) -> Result:
        """Makes an attempt that submits a lead, and repeats it only if the dealer surely stored nothing."""
        return await self._repeat(attempt, deadline, lambda error: not error.may_have_arrived)

    async def _repeat(
        self, attempt: Attempt[Result], deadline: float | None, may_repeat: Callable[[DealerAgentError], bool]
    ) -> Result:
        """Repeats an attempt after a pause while its error may be temporary."""
        may_have_arrived = False
        for number in count():
            try:
                return await attempt()
            except (Refused, Unreachable, MalformedResponse) as error:
                # A lead that an earlier attempt sent may be there, whatever the last attempt says.
                may_have_arrived = error.may_have_arrived = may_have_arrived or error.may_have_arrived
                if number >= self.most or not _is_temporary(error) or not may_repeat(error):
                    raise
                pause = self._pause(number, error.retry_after)
                remaining = math.inf if deadline is None else deadline - anyio.current_time()
                if pause > self.longest_pause_seconds or pause >= remaining:
                    raise
            await anyio.sleep(pause)
        raise AssertionError  # `count` has no end.

    def _pause(self, number: int, retry_after: float | None) -> float:
        """The seconds before the next attempt."""
        if retry_after is not None:
            return retry_after
        # Clients that failed together do not come back together.
        doubled: float = self.first_pause_seconds * 2**number * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
        return min(doubled, self.longest_pause_seconds)


def _is_temporary(error: DealerAgentError) -> TypeGuard[Refused | Unreachable]:
    if isinstance(error, HoldConflict | HoldLimit):
        return False  # They last for hours. The caller decides whether to wait or to take another vehicle.
    return isinstance(error, Unreachable) or (isinstance(error, Refused) and error.retryable)
