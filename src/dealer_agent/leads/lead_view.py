"""A lead as people and their systems get to see it: what ADF, JSON, mails and calendars are made of. Pure types.

It holds no more than its readers need, gathered from the stored lead and the dealer's profile. Absent is None, or UNSET
where the protocol's own types are used. Times are aware, in any zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from dealer_agent.protocol.requests import (
    Appointment,
    AppointmentType,
    Customer,
    SourceAgent,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.vehicle import Vehicle

VisitStatus = Literal["requested", "proposed", "confirmed", "rejected", "cancelled", "unavailable"]
"""The contract's four answers. `cancelled`: the dealer or the customer cancelled it since. `unavailable`: there was no
free time, and none is booked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooftopView:
    """A sales location: `zone` is its IANA time zone; `phone` is E.164."""

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
        """From either form of a request's `source_agent`."""
        if isinstance(source_agent, str):
            return cls(source_agent)
        return cls(source_agent.name, source_agent.url or None)


@dataclass(frozen=True, slots=True)
class VisitTime:
    """A stretch of time; `end` is None where only a beginning was told."""

    start: datetime
    end: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitView:
    """A visit as it stands.

    `times` is the one confirmed time, also once it is cancelled, or the proposed ones in their order; else empty.
    `changed_at` is when the visit came to be so. `appointment_id` is None when the visit could not be had. `replaces`
    is the visit with a time in whose place this one was booked: it is cancelled, and may have one itself.
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
        """What sort of visit, in the buyer's word for it."""
        return self.request.appointment_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadView:
    """One lead, with all that was added to it since.

    `vehicle` is the listing as it stood in stock when the lead came; with it, nothing of `wish` that a listing can say
    counts. The `extras` are the members of either vehicle that the protocol does not know. `messages` and `visits` are
    oldest first. `channels` are those by which the customer may be contacted, and `customer` has no other contact
    points. `resend`: the receiver has the lead already. Then `called_off` is the visit that was cancelled, `withdrawn`
    are the channels that the customer withdrew, or something was `added`; else a person sends the lead again.

    `may_be_same_person_as` is the id of an earlier lead, of another sender, with one of the same contact points and the
    same vehicle.
    """

    lead_id: str
    dealer_id: str
    dealer_name: str
    rooftop: RooftopView
    received_at: datetime
    agent: AgentView
    customer: Customer
    channels: tuple[str, ...]
    submitted_at: datetime | None = None
    vehicle: Vehicle | None = None
    wish: VehicleOfInterest | UnsetType = UNSET
    wish_extras: Mapping[str, Any] = field(default_factory=dict)
    trade_in: TradeIn | UnsetType = UNSET
    trade_in_extras: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    visits: tuple[VisitView, ...] = ()
    resend: bool = False
    called_off: VisitView | None = None
    withdrawn: tuple[str, ...] = ()
    added: bool = False
    may_be_same_person_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedLead:
    """A lead whose customer was erased: whoever has a copy is to erase it. Holds nothing of the lead but its id."""

    lead_id: str
    rooftop: RooftopView
    erased_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelledVisit:
    """A confirmed visit that ended because its customer was erased. Holds nothing of the customer."""

    lead_id: str
    appointment_id: str
    kind: AppointmentType
    rooftop: RooftopView
    time: VisitTime
    ended_at: datetime


DeliveredMessage = LeadView | ErasedLead | CancelledVisit
"""What a delivery says."""


def extras_of(described: object, kind: type[Struct]) -> dict[str, Any]:
    """The members of a vehicle, as JSON values, that its type does not know; none where it is no object.

    `kind` is VehicleOfInterest or TradeIn.
    """
    if not isinstance(described, dict):
        return {}
    return {name: value for name, value in described.items() if name not in kind.__struct_fields__}
