"""The channels by which a customer can and may be contacted (docs/protocol.md#consent). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.leads.consent_events import GRANTED, ConsentEvent, channels_allowed
from dealer_agent.leads.lead_content import LeadContent
from dealer_agent.leads.records import StoredLead
from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.protocol.requests import Channel, Customer

EMAIL: Final = "email"
PHONE: Final = "phone"
SMS: Final = "sms"


class ChannelWords(NamedTuple):
    """The words for a channel: inside a sentence, and as a label on a page."""

    prose: str
    label: str


CHANNELS: Final[Mapping[Channel, ChannelWords]] = {
    EMAIL: ChannelWords("e-mail", "E-mail"),
    PHONE: ChannelWords("phone", "Phone calls"),
    SMS: ChannelWords("text message", "Text messages"),
}
"""By the word in requests and settings. The order is that of every list of channels."""


def contact_point(customer: Customer, channel: Channel) -> str | UnsetType:
    """The e-mail address or phone number that the channel uses."""
    return customer.email if channel == EMAIL else customer.phone


def can_reach(customer: Customer, channels: Iterable[str]) -> bool:
    """Whether the customer has a contact point for one of the channels."""
    known = set(channels)
    return any(contact_point(customer, channel) is not UNSET for channel in CHANNELS if channel in known)


def usable_channels(customer: Customer, consents: Sequence[ConsentEvent], now: datetime) -> tuple[Channel, ...]:
    """The channels by which the customer may be contacted at the current contact points.

    A consent covers the contact points that came with it, so a phone number that is added later needs its own consent.
    A channel without a contact point is included if any consent allows it.
    """
    return tuple(
        channel
        for channel in CHANNELS
        if channel in channels_allowed((event for event in consents if _covers(event, customer, channel)), now)
    )


def channels_of(lead: StoredLead, now: datetime) -> tuple[Channel, ...]:
    """The `usable_channels` of a lead; if its customer is erased, the channels that its consent allows."""
    if lead.lead.customer is None:
        allowed = channels_allowed(lead.consents, now)
        return tuple(channel for channel in CHANNELS if channel in allowed)
    return usable_channels(LeadContent.of(lead).customer, lead.consents, now)


def with_allowed_contact_points(customer: Customer, channels: Sequence[Channel]) -> Customer:
    """The customer without the contact points and the preferred channel that `channels` do not allow."""
    preferred = customer.preferred_contact
    return msgspec.structs.replace(
        customer,
        email=customer.email if EMAIL in channels else UNSET,
        phone=customer.phone if PHONE in channels or SMS in channels else UNSET,
        preferred_contact=preferred if preferred in (*channels, "any") else UNSET,
    )


def _covers(event: ConsentEvent, customer: Customer, channel: Channel) -> bool:
    """Whether an event counts for the channel's contact point. Only a grant can be for other contact points."""
    current = contact_point(customer, channel)
    if event.kind != GRANTED or event.customer is None or current is UNSET:
        return True
    granted = contact_point(msgspec.json.decode(event.customer, type=Customer), channel)
    normal = normal_email if channel == EMAIL else normal_phone
    return granted == current or (granted is not UNSET and normal(granted) == normal(current))
