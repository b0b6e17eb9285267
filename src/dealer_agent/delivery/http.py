"""A CRM's address for leads: one POST a delivery, signed."""

import asyncio
import hmac
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from dealer_agent.delivery.outlet import DeliveryDocument, NotDelivered, OutgoingMessage
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.storage.errors import CANNOT_BE_REACHED

LONGEST_WAIT = timedelta(hours=24)
"""However long a receiver asks to be left alone, it is not for longer."""

LONGEST_LENGTH = 4
"""The most digits of an answer's Content-Length. The connection of a longer answer is closed, and the body not read."""
BODY_SECONDS = 1.0
"""How long the body of an answer is waited for. Its content is ignored."""

_GATEWAY_STATUSES = frozenset({502, 504})
"""A gateway got no valid answer from the receiver behind it, which may have taken the lead."""

_CHANNEL_STATUSES = frozenset({408, 425, 429})
"""Refusals that are about the moment. What any other 4xx refuses, it refuses for this lead, or until the settings are
mended: the channel is not rested for it."""


@dataclass(frozen=True, slots=True)
class HttpOutlet:
    """Posts what `render` makes. Delivered is what a status from 200 to 299 answers; the answer's body is never read.

    A redirect is not followed: a lead goes only to the address that the dealer wrote down.
    """

    client: httpx.AsyncClient
    url: str
    media_type: str
    render: Callable[[DeliveredMessage], bytes]
    timeout_seconds: float
    secret: bytes | None = None
    authorization: str | None = None

    def make(self, parcel: DeliveryDocument) -> bytes:
        """The body of the request."""
        return self.render(parcel.message)

    async def send(self, letter: OutgoingMessage) -> None:
        """Posts within the deadline, from connecting to the answer's head. Raises NotDelivered."""
        headers = {
            "Content-Type": self.media_type,
            "X-Delivery-Id": letter.delivery_id,
            "X-Lead-Id": letter.lead_id,
            **self._signature(letter.content),
        }
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        ends = asyncio.get_running_loop().time() + self.timeout_seconds
        sent_before = False
        try:
            # Each turn uses up a connection that was kept open, so the loop ends.
            while (answer := await self._answer(letter.content, headers, ends)) is None:
                sent_before = True
        except TimeoutError:
            raise NotDelivered(f"no answer within {self.timeout_seconds:g} s", may_have_arrived=True) from None
        except httpx.TransportError as error:
            never_sent = isinstance(error, httpx.ConnectError) and not sent_before
            raise NotDelivered(_words(error), may_have_arrived=not never_sent) from None
        _judge(answer)

    async def _answer(self, content: bytes, headers: Mapping[str, str], ends: float) -> httpx.Response | None:
        """The answer to one request, which is complete by the loop's time `ends`.

        None where the receiver closed a connection that was kept open: it may do so at any time, so this is no failure.
        Raises TimeoutError and httpx.TransportError.
        """
        answer: httpx.Response | None = None
        is_new = False

        async def note(event: str, _: object) -> None:
            nonlocal is_new
            is_new = is_new or event == "connection.connect_tcp.started"

        try:
            async with (
                asyncio.timeout_at(ends),
                self.client.stream(
                    "POST", self.url, content=content, headers=headers, timeout=None, extensions={"trace": note}
                ) as answer,
            ):
                await _end(answer)
        except TimeoutError:
            if answer is None:
                raise
        except httpx.TransportError:
            if answer is None and is_new:
                raise
        return answer

    def _signature(self, body: bytes) -> dict[str, str]:
        timestamp = str(int(datetime.now(UTC).timestamp()))
        if self.secret is None:
            return {"X-Timestamp": timestamp}
        signature = hmac.digest(self.secret, f"{timestamp}.".encode() + body, "sha256").hex()
        return {"X-Timestamp": timestamp, "X-Signature": f"sha256={signature}"}


async def _end(answer: httpx.Response) -> None:
    """Reads a short body, so that the next delivery can use the connection."""
    length = answer.headers.get("Content-Length", "")
    if length.isdigit() and len(length) <= LONGEST_LENGTH:
        with suppress(TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                async for _ in answer.aiter_raw():
                    pass


def _judge(answer: httpx.Response) -> None:
    status = answer.status_code
    if answer.is_success:
        return
    if 300 <= status < 400:
        raise _refused(f"answered {status}: leads are not sent on to another address; write it as url")
    if 400 <= status < 500 and status not in _CHANNEL_STATUSES:
        raise _refused(f"answered {status}")
    raise NotDelivered(
        f"answered {status}",
        retry_after=_retry_after(answer.headers.get("Retry-After")),
        may_have_arrived=status in _GATEWAY_STATUSES,
    )


def _refused(problem: str) -> NotDelivered:
    return NotDelivered(problem, channel_ails=False, permanent=True)


def _retry_after(value: str | None) -> timedelta | None:
    """Seconds, or a date; what is neither counts for nothing."""
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


def _words(error: httpx.TransportError) -> str:
    """What happened, without the texts of foreign errors, which may quote anything."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "its certificate is not to be trusted"
        cause = cause.__cause__ or cause.__context__
    match error:
        case httpx.ConnectError():
            return f"the server {CANNOT_BE_REACHED}"
        case httpx.RemoteProtocolError() | httpx.ReadError():
            return "cut the connection before it answered"
        case _:
            return f"the connection failed ({type(error).__name__})"
