"""The interface of all outlets, and the registration of an outlet for a type of channel settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import NamedTuple, Protocol

import httpx
from msgspec import UNSET, UnsetType

from dealer_agent.dealers.profile import Channel
from dealer_agent.dealers.routing import Kind
from dealer_agent.delivery.mail_server import MailServer
from dealer_agent.leads.adf import render_adf
from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import DeliveredMessage
from dealer_agent.storage.outbox import Receiver


@dataclass(frozen=True, slots=True)
class DeliveryContent:
    """What a delivery sends, made from the current rows, before it is rendered."""

    delivery_id: str
    message: DeliveredMessage
    event_id: str | None = None
    kind: Kind = "lead"


class OutgoingDocument(NamedTuple):
    """A document with the id that each attempt has. Receivers recognise repeats by it."""

    delivery_id: str
    lead_id: str
    content: bytes


class Outlet(Protocol):
    """Sends documents to one receiver."""

    def render(self, delivery: DeliveryContent) -> bytes:
        """The document. Blocks for up to half a second for a large lead. Raises DeliveryDropped."""

    async def send(self, document: OutgoingDocument) -> str | None:
        """Sends a document. May return a note about a document that arrived. Raises NotDelivered."""


Outlets = Mapping[Receiver, Outlet]
"""By rooftop and channel."""


class Format(NamedTuple):
    """A format of documents: its renderer, its media type, and the suffix of its files."""

    render: Callable[[DeliveredMessage], bytes]
    media_type: str
    suffix: str


FORMATS: Mapping[str, Format] = {
    "adf": Format(render_adf, "application/xml; charset=utf-8", "xml"),
    "json": Format(render_json, "application/json", "json"),
}


@dataclass(frozen=True, slots=True)
class OutletContext:
    """The parts that outlets share. Relative paths start at `directory`."""

    directory: Path
    mail_server: MailServer | None
    secrets: Mapping[str, str]
    client: httpx.AsyncClient

    def secret(self, variable: str | UnsetType) -> str | None:
        """The value of an environment variable. None if the settings name none."""
        return None if variable is UNSET else self.secrets[variable]


@singledispatch
def make_outlet(channel: Channel, context: OutletContext) -> Outlet:
    """The outlet of a channel. Each module of `delivery.outlets` registers a function for its type of settings."""
    raise NotImplementedError(f"no outlet is registered for {type(channel).__name__}")
