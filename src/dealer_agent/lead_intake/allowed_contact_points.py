"""Which contact points of a customer may be used and delivered (docs/protocol.md#contact-points-with-consent). Pure."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.lead_intake.lead_history import LeadHistory
from dealer_agent.protocol.formats import normal_email, normal_phone
from dealer_agent.protocol.requests import Channel, Customer
from dealer_agent.storage.consents import GRANTED, ConsentEvent, channels_allowed
from dealer_agent.storage.leads import StoredLead

CHANNELS: tuple[Channel, ...] = ("email", "phone", "sms")
"""In the order in which they are named."""


def usable_channels(customer: Customer, consents: Sequence[ConsentEvent], now: datetime) -> tuple[Channel, ...]:
    """The channels by which the customer may be contacted at the contact points that they have now.

    A consent covers the contact points that came with it. So a phone number that is added later needs a consent of its
    own. A channel without a contact point is in the result as long as any consent allows it.
    """
    return tuple(
        channel
        for channel in CHANNELS
        if channel in channels_allowed((event for event in consents if _covers(event, customer, channel)), now)
    )


def channels_of(lead: StoredLead, now: datetime) -> tuple[Channel, ...]:
    """The `usable_channels` of a lead as it stands. Where nothing is left of the customer, those of the consent."""
    if lead.lead.customer is None:
        allowed = channels_allowed(lead.consents, now)
        return tuple(channel for channel in CHANNELS if channel in allowed)
    return usable_channels(LeadHistory.of(lead).customer, lead.consents, now)


def deliverable(customer: Customer, channels: Sequence[Channel]) -> Customer:
    """The customer without the contact points that may not be used by any of `channels`.

    A phone number may be used by phone or sms. The preferred channel is left out unless it may be used.
    """
    by_phone = "phone" in channels or "sms" in channels
    preferred = customer.preferred_contact
    return msgspec.structs.replace(
        customer,
        email=customer.email if "email" in channels else UNSET,
        phone=customer.phone if by_phone else UNSET,
        preferred_contact=preferred if preferred in (*channels, "any") else UNSET,
    )


def _covers(event: ConsentEvent, customer: Customer, channel: Channel) -> bool:
    """Whether an event counts for the contact point of a channel: only a grant can be for other contact points."""
    if event.kind != GRANTED or event.customer is None:
        return True
    agreed = msgspec.json.decode(event.customer, type=Customer)
    if channel == "email":
        return customer.email is UNSET or _same_email(agreed.email, customer.email)
    return customer.phone is UNSET or _same_phone(agreed.phone, customer.phone)


def _same_email(one: str | UnsetType, other: str) -> bool:
    return one == other or (one is not UNSET and normal_email(one) == normal_email(other))


def _same_phone(one: str | UnsetType, other: str) -> bool:
    return one == other or (one is not UNSET and normal_phone(one) == normal_phone(other))
