"""Sends requests to the target: as bytes, at a bounded rate, with bounded responses."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

import httpx

from dealer_agent.checker.exchange import Exchange, Headers
from dealer_agent.checker.outcome import NotChecked
from dealer_agent.client.signing import Signer
from dealer_agent.client.transport import seconds_to_wait

RESPONSE_LIMIT = 16 * 2**20
"""Bytes of the largest response that is read."""

REQUEST_SECONDS = 20.0
"""The longest time for a connection, and between two pieces of a response."""

LONGEST_WAIT = 120.0
"""Seconds of a Retry-After that are waited for at most."""

MOST_RETRIES = 3
"""How often a request is sent again that was refused for its rate."""

MOST_LIMITED = 100
"""How many exchanges that were refused for their rate are kept for the checks that judge them."""

RUN_BYTES = 256 * 2**20
"""Bytes of all responses of a run. The reports need them until the end."""

RESPONSE_SECONDS = 60.0
"""The longest time of a request with its whole response."""

KEPT_BYTES = 128 * 2**20
"""Bytes of the responses that are kept for repeated requests."""

Key = tuple[str, str, bytes, tuple[tuple[str, str], ...]]
"""Method, URL, body and headers of a request."""


class TargetConnection:
    """The connection to one target.

    `rate` is the most requests in a second, and `deadline` the time of `time.monotonic` at which the run ends. A
    request that is equal to an earlier one, byte for byte, is not sent again unless it is `fresh`: its exchange is
    shared. `limited` are the exchanges that were refused for their rate, also those that were sent again after waiting.
    `run_id` is part of all that must differ from run to run, such as the test customer. `has_changed`: the stock of the
    target has changed since the run began.
    """

    def __init__(
        self, client: httpx.AsyncClient, *, rate: float, deadline: float, bindings: Collection[str] = ()
    ) -> None:
        self.bindings = bindings
        self._client = client
        self._pause = 1 / rate
        self._deadline = deadline
        self._next = 0.0
        # The exchanges that equal requests share.
        self._kept: dict[Key, Exchange] = {}
        self._kept_bytes = 0
        self._received_bytes = 0
        self.limited: list[Exchange] = []
        # The exchanges of each target, by what tells it from others.
        self.exchanges: defaultdict[tuple[Hashable, ...], list[Exchange]] = defaultdict(list)
        self.has_changed = False
        self._stock: Hashable = None
        self.sent = 0
        # The leads of a run depend on its id and its day only, so that equal leads stay equal.
        self.run_id = uuid4().hex
        self.began = datetime.now(UTC).replace(microsecond=0)
        self.noon = self.began.replace(hour=12, minute=0, second=0)

    def note_stock(self, version: Hashable) -> None:
        """Notes what identifies the stock at present. It is the same at all interfaces."""
        self.has_changed |= self._stock not in (None, version)
        self._stock = version

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Within it, nothing from before is remembered: each request is sent again, once, and customers are new ones.

        Afterwards the new answers replace those from before. Callers keep none of the responses but the last few, so
        they do not count as responses of the run.
        """
        kept, run_id, received = self._kept, self.run_id, self._received_bytes
        self._kept, self.run_id = {}, uuid4().hex
        try:
            yield
        finally:
            self._kept, self.run_id, self._received_bytes = kept | self._kept, run_id, received
            self._kept_bytes = sum(len(each.body) for each in self._kept.values())

    async def request(
        self,
        method: str,
        url: str,
        content: bytes = b"",
        headers: Headers = (),
        *,
        fresh: bool = False,
        patient: bool = True,
        signer: Signer | None = None,
    ) -> Exchange:
        """The exchange of one request. With `patient`, a refusal for its rate is waited for, and it is sent again.

        With a `signer`, it is signed each time that it is sent.

        Raises NotChecked if no response arrives, if it or all of the run are too large, or if the time is over.
        """
        key = (method, url, content, (*headers, ("signature-agent", signer.origin)) if signer else tuple(headers))
        if not fresh and key in self._kept:
            return self._kept[key]
        exchange = await self._send(method, url, content, headers, signer)
        retries = 0
        while patient and exchange.is_refused_for_its_rate and retries < MOST_RETRIES:
            seconds = seconds_to_wait(exchange.header("retry-after") or "")
            await self._wait(1.0 if seconds is None else min(seconds, LONGEST_WAIT))
            exchange = await self._send(method, url, content, headers, signer)
            retries += 1
        if patient and exchange.is_refused_for_its_rate:
            raise NotChecked("The target answers 429 (too many requests), even after waiting as long as it asked.")
        if not fresh and self._kept_bytes + len(exchange.body) < KEPT_BYTES:
            self._kept[key] = exchange
            self._kept_bytes += len(exchange.body)
        return exchange

    async def _wait(self, seconds: float) -> None:
        if time.monotonic() + seconds > self._deadline:
            raise NotChecked("The time of the run is over. Give it more with --time.")
        if seconds > 0:
            await asyncio.sleep(seconds)

    async def _send(self, method: str, url: str, content: bytes, headers: Headers, signer: Signer | None) -> Exchange:
        """Sends one request, with no default headers of the client. Waits between requests. Raises NotChecked."""
        now = time.monotonic()
        start = max(now, self._next)
        self._next = start + self._pause
        await self._wait(start - now)
        began = time.perf_counter()
        if self._received_bytes > RUN_BYTES:
            raise NotChecked(f"The responses of the target are larger than {RUN_BYTES // 2**20} MiB together.")
        try:
            # Only these headers: the defaults of the client would hide what a check left out.
            request = self._client.build_request(method, url, content=content or None)
            kept = [(name, value) for name, value in request.headers.raw if name.lower() in _NEEDED]
            request.headers = httpx.Headers([*kept, *((name.encode(), value.encode()) for name, value in headers)])
            if signer is not None:
                signer.sign(request)
            async with asyncio.timeout(min(RESPONSE_SECONDS, max(0.0, self._deadline - time.monotonic()))):
                response = await self._client.send(request, stream=True)
                try:
                    body = await _read(response)
                finally:
                    await response.aclose()
        # A card may name a URL or a header that cannot be sent: ValueError.
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise NotChecked(f"No response from {url}: {type(error).__name__} {error}".strip()) from error
        except TimeoutError as error:
            raise NotChecked(f"No complete response from {url} in time.") from error
        self._received_bytes += len(body)
        exchange = Exchange(
            method,
            url,
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
            content,
            response.status_code,
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw],
            body,
            time.perf_counter() - began,
        )
        self.sent += 1
        if exchange.is_refused_for_its_rate and len(self.limited) < MOST_LIMITED:
            self.limited.append(exchange)
        return exchange


_NEEDED = {b"host", b"content-length"}


async def _read(response: httpx.Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > RESPONSE_LIMIT:
            raise NotChecked(f"The response is larger than {RESPONSE_LIMIT // 2**20} MiB.")
        pieces.append(piece)
    return b"".join(pieces)
