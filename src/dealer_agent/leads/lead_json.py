"""A lead as JSON, for receivers that do not read ADF. The table in docs/reference/delivery.md has the members. Pure."""

import re
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from dealer_agent.leads.lead_view import CancelledVisit, DeliveredMessage, ErasedLead, LeadView, VisitTime, VisitView
from dealer_agent.leads.plain_text import REPLACEMENT, one_line
from dealer_agent.leads.wording import refused_channels

VERSION = 1

_SURROGATES = re.compile("[\ud800-\udfff]")


def render_json(message: DeliveredMessage) -> bytes:
    """The JSON document of a delivery: one object in UTF-8. A member without a value is absent, never null."""
    match message:
        case LeadView(withdrawn=()):
            document = _lead(message)
        case LeadView():
            document = {
                "type": "consent_withdrawn",
                "version": VERSION,
                "lead_id": message.lead_id,
                "withdrawn_channels": message.withdrawn,
                "allowed_channels": message.channels,
                "do_not_contact_by": refused_channels(message),
            }
        case ErasedLead():
            document = {"type": "lead_erased", "version": VERSION, "lead_id": message.lead_id}
        case CancelledVisit():
            zone = message.rooftop.zone
            document = {
                "type": "visit_cancelled",
                "version": VERSION,
                "lead_id": message.lead_id,
                "appointment_id": message.appointment_id,
                "appointment_type": message.kind,
                "rooftop": message.rooftop.name,
                "timezone": zone,
                "time": _time(message.time, ZoneInfo(zone)),
            }
    return msgspec.json.encode(_valid_text(msgspec.to_builtins(document)))


def _lead(view: LeadView) -> dict[str, Any]:
    rooftop = view.rooftop
    return _known(
        type="lead",
        version=VERSION,
        lead_id=view.lead_id,
        status="resend" if view.resend else "new",
        received_at=view.received_at.astimezone(UTC),
        submitted_at=None if view.submitted_at is None else view.submitted_at.astimezone(UTC),
        may_be_same_person_as=view.may_be_same_person_as,
        dealer={"id": view.dealer_id, "name": view.dealer_name},
        rooftop=_known(
            name=rooftop.name,
            timezone=rooftop.zone,
            website=rooftop.url or None,
            phone=rooftop.phone or None,
            email=rooftop.email or None,
            address=rooftop.address,
        ),
        source_agent=_known(name=one_line(view.agent.name), url=view.agent.url or None),
        customer=view.customer,
        allowed_channels=view.channels,
        do_not_contact_by=refused_channels(view),
        vehicle=view.vehicle,
        vehicle_of_interest=None if view.wish is UNSET else msgspec.to_builtins(view.wish) | dict(view.wish_extras),
        trade_in=None if view.trade_in is UNSET else msgspec.to_builtins(view.trade_in) | dict(view.trade_in_extras),
        messages=view.messages,
        appointments=[_visit(visit) for visit in view.visits],
    )


def _visit(visit: VisitView) -> dict[str, Any]:
    zone = ZoneInfo(visit.rooftop.zone)
    return _known(
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
    return _known(start=time.start.astimezone(zone), end=None if time.end is None else time.end.astimezone(zone))


def _known(**members: Any) -> dict[str, Any]:
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
