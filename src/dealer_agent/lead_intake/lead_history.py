"""A stored lead as it stands: what it said first, and what duplicates added to it. Pure."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from dealer_agent.protocol.requests import Appointment, Customer
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.storage.leads import StoredLead


class VisitAsked(Struct):
    """A visit that was asked for, and its answer."""

    request: Appointment
    reply: AppointmentReply


class Changes(Struct, omit_defaults=True):
    """What a duplicate added to a lead, as it is stored; the trade-in as received."""

    message: str | None = None
    customer: Customer | None = None
    trade_in: dict[str, Any] | None = None
    appointment: VisitAsked | None = None


class _Said(Struct):
    """The part of a stored payload that a duplicate may change."""

    message: str | None = None
    trade_in: dict[str, Any] | None = None


@dataclass(slots=True)
class LeadHistory:
    """What a lead said last of its message, its customer and its trade-in."""

    message: str | None
    customer: Customer
    trade_in: dict[str, Any] | None

    @classmethod
    def of(cls, stored: StoredLead) -> "LeadHistory":
        """A lead whose customer is not forgotten."""
        lead = stored.lead
        assert lead.customer is not None, "a forgotten lead has no duplicates"
        assert lead.payload is not None, "a forgotten lead has no duplicates"
        said = msgspec.json.decode(lead.payload, type=_Said)
        kept = cls(said.message, msgspec.json.decode(lead.customer, type=Customer), said.trade_in)
        for event in stored.events:
            if event.changes is not None:
                changes = msgspec.json.decode(event.changes, type=Changes)
                kept.message = changes.message or kept.message
                kept.customer = changes.customer or kept.customer
                kept.trade_in = changes.trade_in or kept.trade_in
        return kept
