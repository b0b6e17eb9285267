"""Defines the payloads of the skills after a lead: its state, and its visit (docs/protocol.md#after-the-lead). Pure."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.offers import IdempotencyKey
from dealer_agent.protocol.requests import AppointmentType, RequestPayload, Timestamp
from dealer_agent.protocol.responses import LeadStatus, PostalAddress
from dealer_agent.protocol.vehicle_field import Natural

# `\Z`, not `$`: a `$` lets a trailing newline through.
Id = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,64}\Z")]
LeadSecret = Annotated[str, Meta(min_length=1, max_length=64)]
Reason = Annotated[str, Meta(min_length=1, max_length=500)]
Minutes = Annotated[int, Meta(ge=15, le=1440)]


class LeadStatusRequest(RequestPayload, tag="lead.status.request", frozen=True):
    """Asks what became of a lead of the same sender. `secret` is the `lead_secret` of an anonymous sender."""

    lead_id: Id
    secret: LeadSecret | UnsetType = UNSET


class VisitMoveRequest(RequestPayload, tag="visit.move.request", frozen=True):
    """Gives the visit of a lead of the same sender another time. `appointment_id` is required if the lead has several
    visits to come. Without `duration_minutes`, the visit keeps the length that was asked for.
    """

    lead_id: Id
    appointment_at: Timestamp
    idempotency_key: IdempotencyKey
    duration_minutes: Minutes | UnsetType = UNSET
    appointment_id: Id | UnsetType = UNSET
    secret: LeadSecret | UnsetType = UNSET


class VisitCancelRequest(RequestPayload, tag="visit.cancel.request", frozen=True):
    """Cancels the visit of a lead of the same sender. `appointment_id` is required if the lead has several visits to
    come. `reason` is what the customer says; the dealer's staff see it.
    """

    lead_id: Id
    idempotency_key: IdempotencyKey
    reason: Reason | UnsetType = UNSET
    appointment_id: Id | UnsetType = UNSET
    secret: LeadSecret | UnsetType = UNSET


class VisitPlace(Struct, frozen=True, omit_defaults=True):
    """The rooftop of a visit."""

    name: str
    address: PostalAddress | UnsetType = UNSET


class LeadVisit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A visit as it is now. `at` has the UTC offset of the rooftop; a visit without a time has none. `alternatives` are
    free times, if the visit needs another one.
    """

    appointment_id: str
    appointment_type: AppointmentType
    status: Literal["requested", "proposed", "confirmed", "cancelled"]
    place: VisitPlace
    at: str | UnsetType = UNSET
    duration_minutes: Natural | UnsetType = UNSET
    alternatives: tuple[str, ...] | UnsetType = UNSET


class LeadState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a lead. `visit` is its newest visit that can still be changed, else its newest one, or the one
    that was just moved or cancelled. `other_visits` are the others that can still be changed.
    """

    lead_id: str
    status: LeadStatus
    received_at: str
    visit: LeadVisit | UnsetType = UNSET
    other_visits: tuple[LeadVisit, ...] | UnsetType = UNSET
