"""Plans the deliveries of a lead by the channels of its rooftop. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from dealer_agent.dealers.profile import DealerRooftop, Notice, Profile
from dealer_agent.dealers.profile_checks import RESERVED_CHANNELS

Kind = Literal["lead", "resend", "notify", "confirm", "cancel", "withdrawal", "erasure", "visit_cancelled"]
CustomerKind = Literal["confirm", "cancel"]
TO_CUSTOMER: tuple[CustomerKind, ...] = get_args(CustomerKind)
"""The kinds of deliveries that go to the customer's mailbox."""

NOTIFY, CUSTOMER = RESERVED_CHANNELS
"""The names of the channels without a section in `dealer.toml`: the rooftop's staff, and the customer."""
UNKNOWN_CHANNEL = "unknown"
"""The kind of a channel that the settings do not have any more."""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery to plan.

    `lead` and `resend` (the lead again) go to a channel of the rooftop. `notify` is either of them for its staff.
    `confirm` and `cancel` notify the customer about a visit. `withdrawal` and `erasure` notify the receivers of a lead
    that the customer withdrew consent or was erased. `visit_cancelled` notifies them that an erasure cancelled a visit.

    `event_id` is the reason: the addition of a duplicate, the appointment that was confirmed or cancelled, or the
    number of the consent event of a withdrawal. Other deliveries have none.
    """

    kind: Kind
    rooftop: str
    channel: str
    event_id: str | None = None


def deliveries_of(rooftop: DealerRooftop, *, event_id: str | None = None) -> tuple[NewDelivery, ...]:
    """The deliveries of a lead: to every channel of its rooftop, and to its staff.

    With `event_id` the lead is sent again because of an addition or a cancelled visit.
    """
    kind: Kind = "lead" if event_id is None else "resend"
    planned = [NewDelivery(kind, rooftop.name, name, event_id) for name in rooftop.deliver.channels]
    if rooftop.deliver.notify:
        planned.append(NewDelivery("notify", rooftop.name, NOTIFY, event_id))
    return tuple(planned)


def mail_to_customer(kind: CustomerKind, rooftop: DealerRooftop, appointment_id: str) -> NewDelivery:
    """A mail about an appointment to a customer who consented to e-mail and has an e-mail address."""
    return NewDelivery(kind, rooftop.name, CUSTOMER, appointment_id)


def notices_of(
    profile: Profile, notice: Notice, copies: Iterable[tuple[str, str]], event_id: str | None = None
) -> tuple[NewDelivery, ...]:
    """The notices to the receivers (rooftop, channel) in `copies` whose settings name this notice, and to staff."""
    wanting = {
        (rooftop.name, name)
        for rooftop in profile.rooftops
        for name, channel in rooftop.deliver.channels.items()
        if notice in channel.notices
    } | {(rooftop.name, NOTIFY) for rooftop in profile.rooftops if rooftop.deliver.notify}
    return tuple(NewDelivery(notice, *address, event_id) for address in copies if address in wanting)


def visit_cancelled_notices(profile: Profile, rooftop: str, appointment_id: str) -> tuple[NewDelivery, ...]:
    """The notices about a visit that an erasure cancelled: to staff, or to all channels if `notify` is empty."""
    there = next((each for each in profile.rooftops if each.name == rooftop), profile.rooftops[0])
    channels = (NOTIFY,) if there.deliver.notify else tuple(there.deliver.channels)
    return tuple(NewDelivery("visit_cancelled", there.name, name, appointment_id) for name in channels)


def channel_kinds(profile: Profile) -> dict[tuple[str, str], str]:
    """The kind of each receiver (rooftop, channel), as metrics label it.

    `smtp`, `http` or `directory`, `notify` for staff, `customer`.
    """
    kinds: dict[tuple[str, str], str] = {}
    for rooftop in profile.rooftops:
        deliver = rooftop.deliver
        named = {"smtp": deliver.smtp, "http": deliver.http, "directory": deliver.directory}
        kinds |= {(rooftop.name, channel.name): kind for kind, channels in named.items() for channel in channels}
        kinds |= {(rooftop.name, name): name for name in (NOTIFY, CUSTOMER)}
    return kinds
