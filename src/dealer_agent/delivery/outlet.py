"""The type of all outlets, what they are made of, and the formats of their documents."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx

from dealer_agent.delivery.attempt import Lease
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.storage.deliveries.outbox import DueDelivery, Receiver


class Outlet(Protocol):
    """Sends documents to one receiver, which recognises a repeat by the delivery's id."""

    def render(self, delivery: DueDelivery, message: DeliveredMessage) -> bytes:
        """The document. Blocks for up to half a second for a large lead. Raises DeliveryDropped."""

    async def send(self, delivery: DueDelivery, document: bytes, lease: Lease) -> str | None:
        """Sends a document. May return a note about a document that arrived.

        It renews the lease just before the first byte of the document leaves. Raises NotDelivered, LeaseLost and
        StorageError.
        """


Outlets = Mapping[Receiver, Outlet]
"""By rooftop and channel."""


class OutletParts(NamedTuple):
    """What the outlets of a dealer share. Relative paths start at `folder`.

    `secrets` has the environment variables that the settings name.
    """

    folder: Path
    mail_server: MailServer | None
    secrets: Mapping[str, str]
    client: httpx.AsyncClient


class Format(NamedTuple):
    """A format of documents: its renderer, its media type, and the suffix of its files."""

    render: Callable[[DeliveredMessage], bytes]
    media_type: str
    suffix: str


FORMATS: Mapping[str, Format] = {
    "adf": Format(render_adf, "application/xml; charset=utf-8", "xml"),
    "json": Format(render_json, "application/json", "json"),
}
