"""Which deliveries a lead needs, by the rooftop that it goes to. Pure."""

from dataclasses import dataclass
from typing import Literal, get_args

from dealer_agent.dealers.profile import DealerRooftop, Deliver, DirectoryChannel, HttpChannel, SmtpChannel
from dealer_agent.dealers.rules import RESERVED_CHANNELS

Kind = Literal["lead", "resend", "notify", "confirm", "cancel"]
CustomerKind = Literal["confirm", "cancel"]
TO_CUSTOMER: tuple[CustomerKind, ...] = get_args(CustomerKind)
"""What goes to the customer's own mailbox."""

Channel = SmtpChannel | HttpChannel | DirectoryChannel

NOTIFY, CUSTOMER = RESERVED_CHANNELS
"""The channels that have no section in `dealer.toml`: the rooftop's people, and the customer."""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One thing to be sent.

    Kinds: `lead` and `resend` (the lead again, with what was added) go to a channel of the rooftop, `notify` to its
    people in plain words, `confirm` and `cancel` to the customer, who is told of a visit that was confirmed or called
    off. `event_id` is why it is sent: what a duplicate added to the lead, or the id of the appointment that was called
    off or, to the customer, confirmed.
    """

    kind: Kind
    rooftop: str
    channel: str
    event_id: str | None = None


def deliveries_of(rooftop: DealerRooftop, *, event_id: str | None = None) -> tuple[NewDelivery, ...]:
    """What is sent of a lead: to every channel of its rooftop, and to its people where it names some.

    With `event_id` the lead is sent again for what was added to it, or for the visit that was called off.
    """
    kind: Kind = "lead" if event_id is None else "resend"
    planned = [NewDelivery(kind, rooftop.name, name, event_id) for name in channels_of(rooftop.deliver)]
    if rooftop.deliver.notify:
        planned.append(NewDelivery("notify", rooftop.name, NOTIFY, event_id))
    return tuple(planned)


def mail_to_customer(kind: CustomerKind, rooftop: DealerRooftop, appointment_id: str) -> NewDelivery:
    """A mail about an appointment, for a customer who consented to e-mail and gave an address."""
    return NewDelivery(kind, rooftop.name, CUSTOMER, appointment_id)


def channels_of(deliver: Deliver) -> dict[str, Channel]:
    """A rooftop's channels to CRMs, by name, in the order of the file."""
    channels: tuple[Channel, ...] = (*deliver.smtp, *deliver.http, *deliver.directory)
    return {channel.name: channel for channel in channels}
