"""Makes the view of a lead that people and systems get, from the stored lead and the dealer's profile. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import cast

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import Profile
from dealer_agent.lead_intake.allowed_contact_points import deliverable, usable_channels
from dealer_agent.lead_intake.lead_history import Changes
from dealer_agent.leads.lead_view import (
    AgentView,
    CancelledVisit,
    ErasedLead,
    LeadView,
    VisitTime,
    VisitView,
    extras_of,
)
from dealer_agent.leads.rooftop_views import rooftop_view
from dealer_agent.leads.statuses import VisitStatus
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.requests import (
    Appointment,
    AppointmentType,
    Channel,
    Customer,
    TradeIn,
    VehicleOfInterest,
)
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.lead_record import LeadDetails


def lead_view(
    lead: LeadDetails,
    profile: Profile,
    *,
    resend: bool = False,
    because_of: str | None = None,
    withdrawn: tuple[Channel, ...] = (),
) -> LeadView:
    """The view of a lead as it is now, with additions, without the contact points that may not be used.

    With `resend` it is sent again, `because_of` an addition or an appointment that was called off, by its id, or
    because consent was `withdrawn`. Raises ValueError for one whose customer is forgotten.
    """
    record = lead.stored.lead
    if record.customer is None or record.payload is None:
        raise ValueError("nothing is left of this lead's customer")
    payload = msgspec.json.decode(record.payload)
    request = msgspec.convert(payload, LeadSubmitRequest)
    customer = msgspec.json.decode(record.customer, type=Customer)
    messages = [request.message] if request.message else []
    trade_in = payload.get("trade_in")
    for event in lead.stored.events:
        if event.changes is not None:
            added = msgspec.json.decode(event.changes, type=Changes)
            customer = added.customer or customer
            trade_in = added.trade_in or trade_in
            if added.message:
                messages.append(added.message)
    wish = payload.get("vehicle_of_interest")
    visits = tuple(view for visit in lead.visits if (view := _visit_view(visit, profile, lead.visits)) is not None)
    off = (visit for visit in visits if visit.status == "cancelled" and visit.appointment_id == because_of)
    called_off = next(off, None) if resend else None
    channels = usable_channels(customer, lead.stored.consents, lead.at)
    return LeadView(
        lead_id=record.lead_id,
        dealer_id=profile.id,
        dealer_name=profile.name,
        rooftop=rooftop_view(profile, record.rooftop),
        received_at=record.received_at,
        agent=AgentView.of(request.source_agent),
        customer=deliverable(customer, channels),
        channels=channels,
        submitted_at=None if request.submitted_at is UNSET else parse_timestamp(request.submitted_at),
        vehicle=None if record.vehicle is None else msgspec.json.decode(record.vehicle, type=Vehicle),
        wish=request.vehicle_of_interest,
        wish_extras=extras_of(wish, VehicleOfInterest),
        trade_in=UNSET if trade_in is None else msgspec.convert(trade_in, TradeIn),
        trade_in_extras=extras_of(trade_in, TradeIn),
        messages=tuple(messages),
        visits=visits,
        resend=resend,
        cancelled_visit=called_off,
        withdrawn=withdrawn,
        added=resend and because_of is not None and called_off is None,
        may_be_same_person_as=record.may_be_same_person_as,
    )


def erased_lead(lead: LeadDetails, profile: Profile, rooftop: str) -> ErasedLead:
    """The message about an erased lead for its receivers at a rooftop."""
    record = lead.stored.lead
    assert record.erased_at is not None, "only an erasure makes this delivery"
    return ErasedLead(lead_id=record.lead_id, rooftop=rooftop_view(profile, rooftop), erased_at=record.erased_at)


def ended_visit(visit: AppointmentRecord, profile: Profile) -> CancelledVisit:
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
    """A visit as it stands; None where another took its place, or its customer is forgotten.

    `of_lead` are all visits of its lead.
    """
    if visit.status == "replaced" or visit.request is None:
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
        appointment_id=None if status == "unavailable" else visit.appointment_id,
        status=status,
        rooftop=rooftop_view(profile, visit.rooftop),
        request=msgspec.json.decode(request, type=Appointment),
        changed_at=visit.cancelled_at or visit.created_at,
        times=_times(visit),
        replaces=tuple(
            _view(one, one.request, "cancelled", profile, of_lead)
            for one in of_lead
            if one.request is not None and _gave_way_to(visit, one)
        ),
    )


def _gave_way_to(visit: AppointmentRecord, earlier: AppointmentRecord) -> bool:
    """Whether the visit was booked in the place of an earlier one: that one ended when this one was made."""
    if visit.starts_at is None or earlier.starts_at is None or earlier.created_at >= visit.created_at:
        return False
    return (earlier.status, earlier.kind, earlier.cancelled_at) == ("replaced", visit.kind, visit.created_at)


def _times(visit: AppointmentRecord) -> tuple[VisitTime, ...]:
    """The booked time, else those that were proposed and may still be chosen."""
    if visit.starts_at is not None:
        return (VisitTime(visit.starts_at, visit.ends_at),)
    if visit.status != "proposed":
        return ()
    reply = msgspec.json.decode(visit.reply, type=AppointmentReply)
    if reply.proposed_slots:
        return tuple(
            VisitTime(datetime.fromisoformat(s.start), datetime.fromisoformat(s.end)) for s in reply.proposed_slots
        )
    return tuple(VisitTime(datetime.fromisoformat(time)) for time in reply.proposed_times or ())
