"""The rows of a lead, as storage returns them. `bytes` are JSON documents in UTF-8. Pure types."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.leads.statuses import ACTIVE, StoredStatus
from dealer_agent.protocol.requests import VisitKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadRecord:
    """A stored lead. `customer`, `payload` (as received) and `vehicle` (the listing) are JSON in UTF-8.

    `lead_id` is a ULID. `rooftop` is where the lead goes. `vehicle_id`, `vin` and `stock` are the vehicle of interest,
    if the inventory has it. `used_at` is the last use of the lead's data; None in a new lead: `received_at`. `token_id`
    is the sender's token, if it sent one. `may_be_same_person_as` is an earlier lead of another sender. `customer`,
    `payload` and `source_agent` are None once the customer is erased, at `erased_at`.
    """

    lead_id: str
    received_at: datetime
    source_agent: str | None
    status: str
    rooftop: str
    customer: bytes | None
    payload: bytes | None
    vehicle: bytes | None = None
    vehicle_id: str | None = None
    vin: str | None = None
    stock: str | None = None
    used_at: datetime | None = None
    erased_at: datetime | None = None
    token_id: str | None = None
    may_be_same_person_as: str | None = None


class LeadEvent(NamedTuple):
    """An addition to a lead: `changes` is a JSON document, None once the customer is erased."""

    event_id: str
    at: datetime
    changes: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppointmentRecord:
    """A visit, its request and its reply: JSON documents in UTF-8.

    `request` is None once the customer is erased. A confirmed visit has `starts_at` and `ends_at`. A visit without
    places of its own uses those of the visit `shares`.
    """

    appointment_id: str
    lead_id: str
    rooftop: str
    kind: VisitKind
    status: StoredStatus
    created_at: datetime
    reply: bytes
    request: bytes | None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    cancelled_at: datetime | None = None
    shares: str | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is neither cancelled nor replaced by another."""
        return self.status in ACTIVE


class StoredLead(NamedTuple):
    """A lead with the events of its consent and the additions to it, both oldest first."""

    lead: LeadRecord
    consents: tuple[ConsentEvent, ...]
    events: tuple[LeadEvent, ...]


class LeadDetails(NamedTuple):
    """A lead and its visits (oldest first, those that ended too) at the time `at`."""

    stored: StoredLead
    visits: tuple[AppointmentRecord, ...]
    at: datetime
