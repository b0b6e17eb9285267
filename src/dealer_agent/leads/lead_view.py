"""A lead as ADF, JSON, mails and calendars show it, and how it is made from a stored lead. Pure.

An absent value is None, or UNSET in the protocol's own types. Times are aware, in any zone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.consent import usable_channels, with_allowed_contact_points
from dealer_agent.leads.received_lead import source_agent
from dealer_agent.leads.records import LeadContent, LeadDetails, VisitRecord
from dealer_agent.leads.statuses import CANCELLED, ENDED, PROPOSED, RELEASED, REPLACED, UNAVAILABLE, VisitStatus
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
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.timestamps import parse_timestamp
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

    `vehicle` is the listing at the time of the lead. If known, it takes precedence over `interest`, the vehicle that
    the buyer describes. The `extras` are members that the protocol does not define. `messages` and `visits` are oldest
    first. `customer` has only the contact points that `channels` allow.

    `resend`: the receiver has the lead already. The reason for the repeat is in `ended_visit`, in `withdrawn`
    (channels) or in `added`. If none is set, a person of the dealer sends the lead again.

    `may_be_same_person_as` is the id of another sender's lead with the same vehicle and one of the contact points.
    `agent` is what the sender says it is. `caller` is the identity that it has proved, empty for an anonymous sender.
    `waited_since` is when it came into quarantine, if a person has released it. `offer` is the quote that it is about:
    its id, price, lines and total, and its hold.
    """

    lead_id: str
    dealer_id: str
    dealer_name: str
    rooftop: RooftopView
    received_at: datetime
    agent: SourceAgent
    customer: Customer
    channels: tuple[Channel, ...]
    submitted_at: datetime | None = None
    vehicle: Vehicle | None = None
    interest: VehicleOfInterest | UnsetType = UNSET
    interest_extras: Mapping[str, Any] = field(default_factory=dict)
    trade_in: TradeIn | UnsetType = UNSET
    trade_in_extras: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    visits: tuple[VisitView, ...] = ()
    resend: bool = False
    ended_visit: VisitView | None = None
    withdrawn: tuple[Channel, ...] = ()
    added: bool = False
    may_be_same_person_as: str | None = None
    caller: str = ""
    waited_since: datetime | None = None
    offer: Mapping[str, Any] | None = None


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
    """The members of a JSON object that the type does not define. Empty if `described` is not an object."""
    if not isinstance(described, dict):
        return {}
    return {name: value for name, value in described.items() if name not in kind.__struct_fields__}


def rooftop_view(profile: Profile, name: str) -> RooftopView:
    """The rooftop of this name, else the first one."""
    views = _views(profile)
    return views.get(name) or views[profile.rooftops[0].name]


@lru_cache(maxsize=64)  # To make the views takes longer than to render a lead.
def _views(profile: Profile) -> dict[str, RooftopView]:
    """The rooftops of a dealer by name, as documents for staff show them."""
    views = {}
    for rooftop, public in zip(profile.rooftops, dealer_information(profile).rooftops, strict=True):
        views[rooftop.name] = RooftopView(
            name=public.name,
            zone=rooftop.timezone,
            url=public.website or None,
            phone=_of_sales({named.name: named.value for named in public.phones or ()}),
            email=_of_sales({named.name: named.value for named in public.emails or ()}),
            address=public.address or None,
        )
    return views


def _of_sales(by_department: dict[str, str]) -> str | None:
    return by_department.get("sales") or next(iter(by_department.values()), None)


def lead_view(
    lead: LeadDetails,
    profile: Profile,
    *,
    resend: bool = False,
    because_of: str | None = None,
    withdrawn: tuple[Channel, ...] = (),
) -> LeadView:
    """The current view of a lead, without the contact points that must not be used.

    `resend`: the receiver has the lead. `because_of` is the id of the reason: an addition, or a cancelled or closed
    appointment. Raises ValueError if the customer is erased.
    """
    record = lead.stored.lead
    if record.customer is None or record.payload is None:
        raise ValueError("nothing is left of this lead's customer")
    payload = msgspec.json.decode(record.payload)
    request = msgspec.convert(payload, LeadSubmitRequest)
    content = LeadContent.of(lead.stored)
    visits = tuple(
        _visit_view(visit, profile, lead.visits)
        for visit in lead.visits
        if visit.status != REPLACED and visit.request is not None
    )
    ended = (visit for visit in visits if visit.status in ENDED and visit.appointment_id == because_of)
    ended_visit = next(ended, None) if resend else None
    channels = usable_channels(content.customer, lead.stored.consents, lead.at)
    return LeadView(
        lead_id=record.lead_id,
        dealer_id=profile.id,
        dealer_name=profile.name,
        rooftop=rooftop_view(profile, record.rooftop),
        received_at=record.received_at,
        agent=source_agent(request),
        customer=with_allowed_contact_points(content.customer, channels),
        channels=channels,
        submitted_at=None if request.submitted_at is UNSET else parse_timestamp(request.submitted_at),
        vehicle=None if record.vehicle is None else msgspec.json.decode(record.vehicle, type=Vehicle),
        interest=request.vehicle_of_interest,
        interest_extras=extras_of(payload.get("vehicle_of_interest"), VehicleOfInterest),
        trade_in=UNSET if content.trade_in is None else msgspec.convert(content.trade_in, TradeIn),
        trade_in_extras=extras_of(content.trade_in, TradeIn),
        messages=content.messages,
        visits=visits,
        resend=resend,
        ended_visit=ended_visit,
        withdrawn=withdrawn,
        added=resend and because_of is not None and ended_visit is None,
        may_be_same_person_as=record.may_be_same_person_as,
        caller=record.caller or "",
        waited_since=record.quarantined_at if record.quarantine == RELEASED else None,
        offer=content.offer,
    )


def erased_lead(lead: LeadDetails, profile: Profile, rooftop: str) -> ErasedLead:
    """What the receivers at a rooftop get about an erased lead."""
    record = lead.stored.lead
    assert record.erased_at is not None, "only an erasure makes this delivery"
    return ErasedLead(lead_id=record.lead_id, rooftop=rooftop_view(profile, rooftop), erased_at=record.erased_at)


def cancelled_visit(visit: VisitRecord, profile: Profile) -> CancelledVisit:
    """What the receivers at a rooftop get about a visit that an erasure cancelled."""
    assert visit.starts_at is not None, "a confirmed visit has a time"
    return CancelledVisit(
        lead_id=visit.lead_id,
        appointment_id=visit.appointment_id,
        kind=cast(AppointmentType, visit.kind),
        rooftop=rooftop_view(profile, visit.rooftop),
        time=VisitTime(visit.starts_at, visit.ends_at),
        cancelled_at=visit.cancelled_at or visit.created_at,
    )


def _visit_view(visit: VisitRecord, profile: Profile, of_lead: Sequence[VisitRecord]) -> VisitView:
    """The visit as staff see it, with the visits that it replaced."""
    request = visit.read_request()
    assert request is not None, "a visit is shown only with its request"
    return VisitView(
        appointment_id=None if visit.status == UNAVAILABLE else visit.appointment_id,
        status=CANCELLED if visit.status == REPLACED else visit.status,
        rooftop=rooftop_view(profile, visit.rooftop),
        request=request,
        changed_at=visit.cancelled_at or visit.created_at,
        times=_times(visit),
        replaces=tuple(
            _visit_view(each, profile, of_lead)
            for each in of_lead
            if each.request is not None and _was_replaced_by(each, visit)
        ),
    )


def _was_replaced_by(earlier: VisitRecord, visit: VisitRecord) -> bool:
    if visit.starts_at is None or earlier.starts_at is None or earlier.created_at >= visit.created_at:
        return False
    return (earlier.status, earlier.kind, earlier.cancelled_at) == (REPLACED, visit.kind, visit.created_at)


def _times(visit: VisitRecord) -> tuple[VisitTime, ...]:
    """The time of a visit, or the times that are proposed."""
    if visit.starts_at is not None:
        return (VisitTime(visit.starts_at, visit.ends_at),)
    if visit.status != PROPOSED:
        return ()
    return tuple(VisitTime(start, end) for start, end in visit.proposed_times())
