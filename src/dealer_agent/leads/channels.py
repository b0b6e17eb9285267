"""The channels by which a customer can be contacted (docs/protocol.md#consent). Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.protocol.requests import Channel, Customer

EMAIL: Final = "email"
PHONE: Final = "phone"
SMS: Final = "sms"

CHANNELS: Final[Mapping[Channel, str]] = {EMAIL: "e-mail", PHONE: "phone", SMS: "text message"}
"""The word for each channel in prose. The order is that of every list of channels."""


def contact_point(customer: Customer, channel: Channel) -> str | UnsetType:
    """The e-mail address or phone number that the channel uses."""
    return customer.email if channel == EMAIL else customer.phone


def can_reach(customer: Customer, channels: Iterable[str]) -> bool:
    """Whether the customer has a contact point for one of the channels."""
    return any(contact_point(customer, channel) is not UNSET for channel in CHANNELS if channel in set(channels))


def with_allowed_contact_points(customer: Customer, channels: Sequence[Channel]) -> Customer:
    """The customer without the contact points and the preferred channel that `channels` do not allow."""
    preferred = customer.preferred_contact
    return msgspec.structs.replace(
        customer,
        email=customer.email if EMAIL in channels else UNSET,
        phone=customer.phone if PHONE in channels or SMS in channels else UNSET,
        preferred_contact=preferred if preferred in (*channels, "any") else UNSET,
    )
