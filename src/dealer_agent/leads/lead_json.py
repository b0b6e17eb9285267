"""A lead as JSON, for receivers that do not read ADF. The table in docs/reference/delivery.md has the members. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.callers import class_of
from dealer_agent.leads.lead_view import CancelledVisit, DeliveredMessage, ErasedLead, LeadView, VisitTime, VisitView
from dealer_agent.leads.plain_text import REPLACEMENT, one_line
from dealer_agent.leads.wording import refused_channels
from dealer_agent.protocol.requests import TradeIn, VehicleOfInterest

VERSION = 1

_SURROGATES = re.compile("[\ud800-\udfff]")


def render_json(message: DeliveredMessage) -> bytes:
    """The JSON document of a delivery: one object in UTF-8. A member without a value is absent, never null."""
    match message:
        case LeadView(withdrawn=()):
            kind, members = "lead", _lead(message)
        case LeadView():
            kind, members = "consent_withdrawn", {"withdrawn_channels": message.withdrawn, **_channels(message)}
        case ErasedLead():
            kind, members = "lead_erased", {}
        case CancelledVisit():
            kind, members = "visit_cancelled", _cancelled_visit(message)
    document = {"type": kind, "version": VERSION, "lead_id": message.lead_id, **members}
    return msgspec.json.encode(_valid_text(msgspec.to_builtins(document)))


def _lead(view: LeadView) -> dict[str, Any]:
    """The members of the document about a lead."""
    rooftop = view.rooftop
    return _without_absent(
        status="resend" if view.resend else "new",
        received_at=view.received_at.astimezone(UTC),
        submitted_at=None if view.submitted_at is None else view.submitted_at.astimezone(UTC),
        may_be_same_person_as=view.may_be_same_person_as,
        dealer={"id": view.dealer_id, "name": view.dealer_name},
        rooftop=_without_absent(
            name=rooftop.name,
            timezone=rooftop.zone,
            website=rooftop.url or None,
            phone=rooftop.phone or None,
            email=rooftop.email or None,
            address=rooftop.address,
        ),
        source_agent=_without_absent(name=one_line(view.agent.name), url=view.agent.url or None),
        caller=_without_absent(
            **{"class": class_of(view.caller)}, identity=view.caller or None, verified=bool(view.caller)
        ),
        customer=view.customer,
        **_channels(view),
        vehicle=view.vehicle,
        vehicle_of_interest=_described(view.interest, view.interest_extras),
        trade_in=_described(view.trade_in, view.trade_in_extras),
        offer=view.offer,
        messages=view.messages,
        appointments=[_visit(visit) for visit in view.visits],
    )


def _described(vehicle: VehicleOfInterest | TradeIn | UnsetType, extras: Mapping[str, Any]) -> dict[str, Any] | None:
    return None if vehicle is UNSET else msgspec.to_builtins(vehicle) | dict(extras)


def _channels(view: LeadView) -> dict[str, Any]:
    return {"allowed_channels": view.channels, "do_not_contact_by": refused_channels(view)}


def _cancelled_visit(visit: CancelledVisit) -> dict[str, Any]:
    """The members of the document about a visit that was cancelled."""
    return {
        "appointment_id": visit.appointment_id,
        "appointment_type": visit.kind,
        "rooftop": visit.rooftop.name,
        "timezone": visit.rooftop.zone,
        "time": _time(visit.time, ZoneInfo(visit.rooftop.zone)),
    }


def _visit(visit: VisitView) -> dict[str, Any]:
    """The members of the document about a visit."""
    zone = ZoneInfo(visit.rooftop.zone)
    return _without_absent(
        appointment_id=visit.appointment_id or None,
        appointment_type=visit.kind,
        status=visit.status,
        rooftop=visit.rooftop.name,
        timezone=visit.rooftop.zone,
        times=[_time(time, zone) for time in visit.times],
        request=visit.request,
        changed_at=visit.changed_at.astimezone(UTC),
    )


def _time(time: VisitTime, zone: ZoneInfo) -> dict[str, Any]:
    return _without_absent(
        start=time.start.astimezone(zone), end=None if time.end is None else time.end.astimezone(zone)
    )


def _without_absent(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _valid_text(value: Any) -> Any:
    """The value with U+FFFD in place of lone surrogates, which UTF-8 cannot encode."""
    match value:
        case str():
            return _SURROGATES.sub(REPLACEMENT, value)
        case dict():
            return {_valid_text(name): _valid_text(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_valid_text(inner) for inner in value]
    return value
