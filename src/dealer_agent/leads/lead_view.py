"""A lead as ADF, JSON, mails and calendars show it. Pure types.

It has only what its readers need, from the stored lead and the dealer's profile. An absent value is None, or UNSET in
the protocol's own types. Times are aware, in any zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from dealer_agent.leads.statuses import VisitStatus
from dealer_agent.protocol.requests import (
    Appointment,
    AppointmentType,
    Channel,
    Customer,
    SourceAgent,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.vehicle import Vehicle


@dataclass(frozen=True, slots=True, kw_only=True)
class RooftopView:
    """A sales location. `zone` is its IANA time zone, `phone` is in E.164 form."""

    name: str
    zone: str
    url: str | None = None
    phone: str | None = None
    email: str | None = None
    address: PostalAddress | None = None


@dataclass(frozen=True, slots=True)
class AgentView:
    """The buyer agent that sent the lead."""

    name: str
    url: str | None = None

    @classmethod
    def of(cls, source_agent: str | SourceAgent) -> "AgentView":
        """The view of a request's `source_agent`, which is a name or an object."""
        if isinstance(source_agent, str):
            return cls(source_agent)
        return cls(source_agent.name, source_agent.url or None)


@dataclass(frozen=True, slots=True)
class VisitTime:
    """A period. `end` is None if it is not known."""

    start: datetime
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitView:
    """The current state of a visit, since `changed_at`.

    `times` is the confirmed time, also of a cancelled visit, or the proposed times. `appointment_id` is None if no time
    could be booked. `replaces` are the earlier visits with a time that this one replaced.
    """

    appointment_id: str | None
    status: VisitStatus
    rooftop: RooftopView
    request: Appointment
    changed_at: datetime
    times: tuple[VisitTime, ...] = ()
    replaces: tuple["VisitView", ...] = ()

    @property
    def kind(self) -> AppointmentType:
        """The type of the visit, as the buyer named it."""
        return self.request.appointment_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadView:
    """One lead with all its additions.

    `vehicle` is the listing at the time of the lead. If it is known, it takes precedence over `wish`. The `extras` are
    vehicle members that the protocol does not define. `messages` and `visits` are oldest first. `customer` has only the
    contact points that `channels` allow.

    `resend`: the receiver has the lead already. The reason for the repeat is in `cancelled_visit`, in `withdrawn`
    (channels) or in `added`. If none is set, a person of the dealer sends the lead again.

    `may_be_same_person_as` is the id of another sender's lead with the same vehicle and one of the contact points.
    """

    lead_id: str
    dealer_id: str
    dealer_name: str
    rooftop: RooftopView
    received_at: datetime
    agent: AgentView
    customer: Customer
    channels: tuple[Channel, ...]
    submitted_at: datetime | None = None
    vehicle: Vehicle | None = None
    wish: VehicleOfInterest | UnsetType = UNSET
    wish_extras: Mapping[str, Any] = field(default_factory=dict)
    trade_in: TradeIn | UnsetType = UNSET
    trade_in_extras: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    visits: tuple[VisitView, ...] = ()
    resend: bool = False
    cancelled_visit: VisitView | None = None
    withdrawn: tuple[Channel, ...] = ()
    added: bool = False
    may_be_same_person_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedLead:
    """Asks a receiver to erase its copy of a lead. Has no data of the lead but its id."""

    lead_id: str
    rooftop: RooftopView
    erased_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledVisit:
    """A confirmed visit that was cancelled because its customer was erased. Has no data of the customer."""

    lead_id: str
    appointment_id: str
    kind: AppointmentType
    rooftop: RooftopView
    time: VisitTime
    cancelled_at: datetime


DeliveredMessage = LeadView | ErasedLead | CancelledVisit
"""The content of a delivery."""


def extras_of(described: object, kind: type[Struct]) -> dict[str, Any]:
    """The members of a JSON object that the type does not define. Empty if `described` is no object."""
    if not isinstance(described, dict):
        return {}
    return {name: value for name, value in described.items() if name not in kind.__struct_fields__}
