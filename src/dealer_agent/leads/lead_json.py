"""A lead as JSON, for receivers that take no ADF. Pure. Its members are the table of docs/reference/delivery.md."""

import re
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.leads.lead_view import (
    EndedVisit,
    ErasedLead,
    LeadView,
    Message,
    RooftopView,
    VisitStatus,
    VisitTime,
    VisitView,
)
from dealer_agent.leads.plain_text import one_line
from dealer_agent.leads.wording import refused_channels
from dealer_agent.protocol.requests import Appointment, AppointmentType, Customer
from dealer_agent.protocol.responses import PostalAddress
from dealer_agent.protocol.vehicle import Vehicle


class _Dealer(Struct):
    id: str
    name: str


class _Agent(Struct, omit_defaults=True):
    name: str
    url: str | UnsetType = UNSET


class _Rooftop(Struct):
    name: str
    timezone: str
    website: str | UnsetType
    phone: str | UnsetType
    email: str | UnsetType
    address: PostalAddress | UnsetType


class _Time(Struct):
    """RFC 3339 with the rooftop's offset."""

    start: datetime
    end: datetime | UnsetType


class _Visit(Struct):
    appointment_id: str | UnsetType
    appointment_type: AppointmentType
    status: VisitStatus
    rooftop: str
    timezone: str
    times: list[_Time]
    request: Appointment
    changed_at: datetime


class _Lead(Struct, tag_field="type", tag="lead", kw_only=True):
    """The document."""

    version: Literal[1] = 1
    lead_id: str
    status: Literal["new", "resend"]
    received_at: datetime
    submitted_at: datetime | UnsetType
    may_be_same_person_as: str | UnsetType
    dealer: _Dealer
    rooftop: _Rooftop
    source_agent: _Agent
    customer: Customer
    allowed_channels: list[str]
    do_not_contact_by: list[str]
    vehicle: Vehicle | UnsetType
    vehicle_of_interest: dict[str, Any] | UnsetType
    trade_in: dict[str, Any] | UnsetType
    messages: list[str]
    appointments: list[_Visit]


class _ConsentWithdrawn(Struct, tag_field="type", tag="consent_withdrawn", kw_only=True):
    """The event of a withdrawal."""

    version: Literal[1] = 1
    lead_id: str
    withdrawn_channels: list[str]
    allowed_channels: list[str]
    do_not_contact_by: list[str]


class _LeadErased(Struct, tag_field="type", tag="lead_erased", kw_only=True):
    """The event of an erasure."""

    version: Literal[1] = 1
    lead_id: str


class _VisitCancelled(Struct, tag_field="type", tag="visit_cancelled", kw_only=True):
    """The event of a visit that ended because its customer was erased."""

    version: Literal[1] = 1
    lead_id: str
    appointment_id: str
    appointment_type: AppointmentType
    rooftop: str
    timezone: str
    time: _Time


def json_of(message: Message) -> bytes:
    """A message as one JSON object in UTF-8."""
    match message:
        case LeadView(withdrawn=()):
            return lead_json(message)
        case LeadView():
            withdrawn = _ConsentWithdrawn(
                lead_id=message.lead_id,
                withdrawn_channels=list(message.withdrawn),
                allowed_channels=list(message.channels),
                do_not_contact_by=refused_channels(message),
            )
            return msgspec.json.encode(withdrawn)
        case ErasedLead():
            return msgspec.json.encode(_LeadErased(lead_id=message.lead_id))
        case EndedVisit():
            zone = message.rooftop.zone
            ended = _VisitCancelled(
                lead_id=message.lead_id,
                appointment_id=message.appointment_id,
                appointment_type=message.kind,
                rooftop=message.rooftop.name,
                timezone=zone,
                time=_time(message.time, ZoneInfo(zone)),
            )
            return msgspec.json.encode(ended)


def lead_json(view: LeadView) -> bytes:
    """The lead as one JSON object in UTF-8; absent members are unknown, never null."""
    document = _Lead(
        lead_id=view.lead_id,
        status="resend" if view.resend else "new",
        received_at=view.received_at.astimezone(UTC),
        submitted_at=UNSET if view.submitted_at is None else view.submitted_at.astimezone(UTC),
        may_be_same_person_as=view.may_be_same_person_as or UNSET,
        dealer=_Dealer(view.dealer_id, view.dealer_name),
        rooftop=_rooftop(view.rooftop),
        source_agent=_Agent(one_line(view.agent.name), view.agent.url or UNSET),
        customer=view.customer,
        allowed_channels=list(view.channels),
        do_not_contact_by=refused_channels(view),
        vehicle=view.vehicle or UNSET,
        vehicle_of_interest=UNSET if view.wish is UNSET else {**msgspec.to_builtins(view.wish), **view.wish_extras},
        trade_in=UNSET if view.trade_in is UNSET else {**msgspec.to_builtins(view.trade_in), **view.trade_in_extras},
        messages=list(view.messages),
        appointments=[_visit(visit) for visit in view.visits],
    )
    return msgspec.json.encode(_sound(msgspec.to_builtins(document)))


def _rooftop(rooftop: RooftopView) -> _Rooftop:
    return _Rooftop(
        rooftop.name,
        rooftop.zone,
        rooftop.url or UNSET,
        rooftop.phone or UNSET,
        rooftop.email or UNSET,
        rooftop.address or UNSET,
    )


def _visit(visit: VisitView) -> _Visit:
    zone = ZoneInfo(visit.rooftop.zone)
    return _Visit(
        visit.appointment_id or UNSET,
        visit.kind,
        visit.status,
        visit.rooftop.name,
        visit.rooftop.zone,
        [_time(time, zone) for time in visit.times],
        visit.request,
        visit.changed_at.astimezone(UTC),
    )


def _time(time: VisitTime, zone: ZoneInfo) -> _Time:
    return _Time(time.start.astimezone(zone), UNSET if time.end is None else time.end.astimezone(zone))


_SURROGATES = re.compile("[\ud800-\udfff]")


def _sound(value: Any) -> Any:
    """The value with U+FFFD for lone surrogates, which UTF-8 cannot hold."""
    match value:
        case str():
            return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
        case dict():
            return {_sound(name): _sound(inner) for name, inner in value.items()}
        case list():
            return [_sound(inner) for inner in value]
    return value
