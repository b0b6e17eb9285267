"""Which deliveries a lead needs, by the rooftop that it goes to. Pure."""

from dataclasses import dataclass
from typing import Literal

from dealer_agent.dealers.profile import DealerRooftop, Deliver, DirectoryChannel, HttpChannel, SmtpChannel
from dealer_agent.dealers.rules import RESERVED_CHANNELS

Kind = Literal["lead", "resend", "notify", "confirm"]
Channel = SmtpChannel | HttpChannel | DirectoryChannel

NOTIFY, CUSTOMER = RESERVED_CHANNELS
"""The channels that have no section in `dealer.toml`: the rooftop's people, and the customer."""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """One thing to be sent.

    Kinds: `lead` and `resend` (the lead again, with what was added) go to a channel of the rooftop, `notify` to its
    people in plain words, `confirm` to the customer, who is told of a confirmed visit. `event_id` is what a duplicate
    added to the lead, where that is why it is sent; of a confirmation, the appointment's id.
    """

    kind: Kind
    rooftop: str
    channel: str
    event_id: str | None = None


def deliveries_of(
    rooftop: DealerRooftop, *, event_id: str | None = None, confirm: str | None = None
) -> tuple[NewDelivery, ...]:
    """What is sent of a lead: to every channel of its rooftop, and to its people where it names some.

    With `event_id` the lead is sent again for what was added to it. `confirm` is the id of an appointment that was
    confirmed, where mail is configured to say so, and the customer consented to e-mail and gave an address.
    """
    kind: Kind = "lead" if event_id is None else "resend"
    planned = [NewDelivery(kind, rooftop.name, name, event_id) for name in channels_of(rooftop.deliver)]
    if rooftop.deliver.notify:
        planned.append(NewDelivery("notify", rooftop.name, NOTIFY, event_id))
    if confirm is not None:
        planned.append(NewDelivery("confirm", rooftop.name, CUSTOMER, confirm))
    return tuple(planned)


def channels_of(deliver: Deliver) -> dict[str, Channel]:
    """A rooftop's channels to CRMs, by name, in the order of the file."""
    channels: tuple[Channel, ...] = (*deliver.smtp, *deliver.http, *deliver.directory)
    return {channel.name: channel for channel in channels}
