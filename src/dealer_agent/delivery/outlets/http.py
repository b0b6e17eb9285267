"""The HTTP outlet: sends one signed POST request to a CRM for each delivery."""

import asyncio
import hmac
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
from msgspec import UNSET

from dealer_agent.dealers.profile import HttpChannel
from dealer_agent.delivery.attempt import Countdown, Lease, NotDelivered
from dealer_agent.delivery.outlet import FORMATS, Format, OutletParts
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.outgoing.addresses import AddressRefused
from dealer_agent.outgoing.connections import certificate_error
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.errors import CANNOT_BE_REACHED, DatabaseFailure

LONGEST_WAIT = timedelta(hours=24)
"""The limit of a receiver's Retry-After."""

LONGEST_LENGTH = 4
"""The most digits of a Content-Length whose body is read. A longer response closes the connection."""
BODY_SECONDS = 1.0
"""The timeout for the body of a response, whose content is ignored."""

CLOSED = "the receiver closed the connection before it answered"

_GATEWAY_STATUSES = frozenset({502, 504})
"""A gateway got no valid response from the receiver, which may have accepted the lead."""

_CHANNEL_STATUSES = frozenset({408, 425, 429})
"""The 4xx statuses that are about the moment. Any other 4xx is about this lead or the settings, so it does not count
against the channel."""


@dataclass(frozen=True, slots=True)
class HttpOutlet:
    """Posts documents. Any status from 200 to 299 confirms a delivery.

    A redirect is not followed: a lead goes only to the URL in the dealer's settings.
    """

    client: httpx.AsyncClient
    url: str
    format: Format
    timeout_seconds: float
    secret: bytes | None = None
    authorization: str | None = None

    def render(self, _: DueDelivery, message: DeliveredMessage) -> bytes:
        """The body of the request."""
        return self.format.render(message)

    async def send(self, delivery: DueDelivery, document: bytes, lease: Lease) -> None:
        """Raises NotDelivered, LeaseLost and StorageError. The timeout is for the time until the head of the response.

        The lease is renewed when there is a connection, before the request is written.
        """
        headers = {
            "Content-Type": self.format.media_type,
            "X-Delivery-Id": delivery.delivery_id,
            "X-Lead-Id": delivery.lead_id,
            **self._signature(document),
        }
        if delivery.trace is not None:
            headers["traceparent"] = delivery.trace
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        countdown = Countdown(self.timeout_seconds)
        sent_before = False
        try:
            # Each turn uses up a connection of the pool, so the loop ends.
            while (response := await self._post(document, headers, countdown, lease)) is None:
                sent_before = True
        except DatabaseFailure:
            if sent_before:
                raise NotDelivered(CLOSED, may_have_arrived=True) from None
            raise
        except TimeoutError:
            raise NotDelivered(f"no response within {self.timeout_seconds:g} s", may_have_arrived=True) from None
        except AddressRefused as refused:
            raise NotDelivered(str(refused), may_have_arrived=sent_before) from None
        except httpx.TransportError as error:
            never_sent = isinstance(error, httpx.ConnectError) and not sent_before
            raise NotDelivered(_problem(error), may_have_arrived=not never_sent) from None
        _check_status(response)

    async def _post(
        self, content: bytes, headers: Mapping[str, str], countdown: Countdown, lease: Lease
    ) -> httpx.Response | None:
        """The response to one request. Raises TimeoutError, httpx.TransportError, and what the lease raises.

        None if the receiver closed a connection of the pool, which it may do at any time.
        """
        response: httpx.Response | None = None
        is_new = False

        async def note(event: str, _: object) -> None:
            nonlocal is_new
            is_new = is_new or event == "connection.connect_tcp.started"
            if event == "http11.send_request_headers.started":
                await countdown.renew(lease)

        try:
            async with (
                countdown.running(),
                self.client.stream(
                    "POST", self.url, content=content, headers=headers, timeout=None, extensions={"trace": note}
                ) as response,
            ):
                await _read_short_body(response)
        except TimeoutError:
            if response is None:
                raise
        except httpx.TransportError:
            if response is None and is_new:
                raise
        return response

    def _signature(self, body: bytes) -> dict[str, str]:
        """The headers with the time, and with the signature of time and body if the channel has a secret."""
        timestamp = str(int(datetime.now(UTC).timestamp()))
        if self.secret is None:
            return {"X-Timestamp": timestamp}
        signature = hmac.digest(self.secret, f"{timestamp}.".encode() + body, "sha256").hex()
        return {"X-Timestamp": timestamp, "X-Signature": f"sha256={signature}"}


async def _read_short_body(response: httpx.Response) -> None:
    """Reads a short body, so that the next delivery can use the connection."""
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and len(length) <= LONGEST_LENGTH:
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                async for _ in response.aiter_raw():
                    pass


def _check_status(response: httpx.Response) -> None:
    """Raises NotDelivered unless the CRM accepted the request. Some statuses mean that no retry can help."""
    status = response.status_code
    if response.is_success:
        return
    if 300 <= status < 400:
        problem = f"answered {status}, a redirect, which is not followed: write the new address as url of the channel"
        raise NotDelivered(problem, channel_failed=False, permanent=True)
    if 400 <= status < 500 and status not in _CHANNEL_STATUSES:
        raise NotDelivered(f"answered {status}", channel_failed=False, permanent=True)
    raise NotDelivered(
        f"answered {status}",
        retry_after=_retry_after(response.headers.get("Retry-After")),
        may_have_arrived=status in _GATEWAY_STATUSES,
    )


def _retry_after(value: str | None) -> timedelta | None:
    """The header Retry-After, which has seconds or a date, as a time to wait."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(timedelta(seconds=min(int(value[:9]), 10**9)), LONGEST_WAIT)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(timedelta(), min(until - datetime.now(UTC), LONGEST_WAIT))


def _problem(error: httpx.TransportError) -> str:
    """Describes an error without the text of the library, because it may quote the request."""
    if certificate_error(error) is not None:
        return "its certificate is not to be trusted"
    match error:
        case httpx.ConnectError():
            return f"the server {CANNOT_BE_REACHED}"
        case httpx.RemoteProtocolError() | httpx.ReadError():
            return CLOSED
        case _:
            return f"the connection failed ({type(error).__name__})"


CHANNEL = HttpChannel


def make_outlet(channel: HttpChannel, parts: OutletParts) -> HttpOutlet:
    """The outlet of a channel with these settings."""
    return HttpOutlet(
        client=parts.client,
        url=channel.url,
        format=FORMATS[channel.format],
        timeout_seconds=channel.timeout_seconds,
        secret=None if channel.secret_env is UNSET else parts.secrets[channel.secret_env].encode(),
        authorization=None if channel.authorization_env is UNSET else parts.secrets[channel.authorization_env],
    )
