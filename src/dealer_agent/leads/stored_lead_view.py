"""Makes the view of a stored lead, for documents and exports. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.information import dealer_information
from dealer_agent.dealers.profile import Profile
from dealer_agent.leads.consent import usable_channels, with_allowed_contact_points
from dealer_agent.leads.lead_view import (
    AgentView,
    CancelledVisit,
    ErasedLead,
    LeadView,
    RooftopView,
    VisitTime,
    VisitView,
    extras_of,
)
from dealer_agent.leads.records import AppointmentRecord, LeadContent, LeadDetails
from dealer_agent.leads.statuses import CANCELLED, PROPOSED, REPLACED, UNAVAILABLE, VisitStatus
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.requests import Appointment, AppointmentType, Channel, TradeIn, VehicleOfInterest
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle

_last: tuple[Profile, dict[str, RooftopView]] | None = None
"""The last profile and its views. To make them takes longer than to render a lead."""


def rooftop_view(profile: Profile, name: str) -> RooftopView:
    """The rooftop of this name, else the first one."""
    global _last
    last = _last
    if last is None or last[0] is not profile:
        last = _last = (profile, _views(profile))
    return last[1].get(name) or last[1][profile.rooftops[0].name]


def _views(profile: Profile) -> dict[str, RooftopView]:
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

    `resend`: the receiver has the lead. `because_of` is the id of the addition or the cancelled appointment that is the
    reason. Raises ValueError if the customer is erased.
    """
    record = lead.stored.lead
    if record.customer is None or record.payload is None:
        raise ValueError("nothing is left of this lead's customer")
    payload = msgspec.json.decode(record.payload)
    request = msgspec.convert(payload, LeadSubmitRequest)
    content = LeadContent.of(lead.stored)
    visits = tuple(view for visit in lead.visits if (view := _visit_view(visit, profile, lead.visits)) is not None)
    cancelled = (visit for visit in visits if visit.status == CANCELLED and visit.appointment_id == because_of)
    cancelled_visit = next(cancelled, None) if resend else None
    channels = usable_channels(content.customer, lead.stored.consents, lead.at)
    return LeadView(
        lead_id=record.lead_id,
        dealer_id=profile.id,
        dealer_name=profile.name,
        rooftop=rooftop_view(profile, record.rooftop),
        received_at=record.received_at,
        agent=AgentView.of(request.source_agent),
        customer=with_allowed_contact_points(content.customer, channels),
        channels=channels,
        submitted_at=None if request.submitted_at is UNSET else parse_timestamp(request.submitted_at),
        vehicle=None if record.vehicle is None else msgspec.json.decode(record.vehicle, type=Vehicle),
        wish=request.vehicle_of_interest,
        wish_extras=extras_of(payload.get("vehicle_of_interest"), VehicleOfInterest),
        trade_in=UNSET if content.trade_in is None else msgspec.convert(content.trade_in, TradeIn),
        trade_in_extras=extras_of(content.trade_in, TradeIn),
        messages=content.messages,
        visits=visits,
        resend=resend,
        cancelled_visit=cancelled_visit,
        withdrawn=withdrawn,
        added=resend and because_of is not None and cancelled_visit is None,
        may_be_same_person_as=record.may_be_same_person_as,
    )


def erased_lead(lead: LeadDetails, profile: Profile, rooftop: str) -> ErasedLead:
    """The message about an erased lead for its receivers at a rooftop."""
    record = lead.stored.lead
    assert record.erased_at is not None, "only an erasure makes this delivery"
    return ErasedLead(lead_id=record.lead_id, rooftop=rooftop_view(profile, rooftop), erased_at=record.erased_at)


def cancelled_visit(visit: AppointmentRecord, profile: Profile) -> CancelledVisit:
    """The message about a visit that an erasure cancelled."""
    assert visit.starts_at is not None, "a confirmed visit has a time"
    return CancelledVisit(
        lead_id=visit.lead_id,
        appointment_id=visit.appointment_id,
        kind=cast(AppointmentType, visit.kind),
        rooftop=rooftop_view(profile, visit.rooftop),
        time=VisitTime(visit.starts_at, visit.ends_at),
        cancelled_at=visit.cancelled_at or visit.created_at,
    )


def _visit_view(visit: AppointmentRecord, profile: Profile, of_lead: Sequence[AppointmentRecord]) -> VisitView | None:
    """None if the visit was replaced or the customer is erased. `of_lead` are all visits of the lead."""
    if visit.status == REPLACED or visit.request is None:
        return None
    return _view(visit, visit.request, visit.status, profile, of_lead)


def _view(
    visit: AppointmentRecord,
    request: bytes,
    status: VisitStatus,
    profile: Profile,
    of_lead: Sequence[AppointmentRecord],
) -> VisitView:
    return VisitView(
        appointment_id=None if status == UNAVAILABLE else visit.appointment_id,
        status=status,
        rooftop=rooftop_view(profile, visit.rooftop),
        request=msgspec.json.decode(request, type=Appointment),
        changed_at=visit.cancelled_at or visit.created_at,
        times=_times(visit),
        replaces=tuple(
            _view(each, each.request, CANCELLED, profile, of_lead)
            for each in of_lead
            if each.request is not None and _was_replaced_by(each, visit)
        ),
    )


def _was_replaced_by(earlier: AppointmentRecord, visit: AppointmentRecord) -> bool:
    """Whether both have a time, and the earlier visit ended when the other one was made."""
    if visit.starts_at is None or earlier.starts_at is None or earlier.created_at >= visit.created_at:
        return False
    return (earlier.status, earlier.kind, earlier.cancelled_at) == (REPLACED, visit.kind, visit.created_at)


def _times(visit: AppointmentRecord) -> tuple[VisitTime, ...]:
    """The booked time, else the proposed times."""
    if visit.starts_at is not None:
        return (VisitTime(visit.starts_at, visit.ends_at),)
    if visit.status != PROPOSED:
        return ()
    reply = msgspec.json.decode(visit.reply, type=AppointmentReply)
    if reply.proposed_slots:
        read = datetime.fromisoformat
        return tuple(VisitTime(read(slot.start), read(slot.end)) for slot in reply.proposed_slots)
    return tuple(VisitTime(datetime.fromisoformat(time)) for time in reply.proposed_times or ())
