"""What belongs to a lead: its row, its additions (docs/protocol.md#duplicates), its visits and decisions about them.

Pure. Storage returns these objects. `bytes` are JSON documents in UTF-8.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

import msgspec
from msgspec import Struct, UnsetType

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.consent_events import GRANTED, ConsentEvent
from dealer_agent.leads.statuses import (
    ACTIVE,
    CANCELLED,
    CONFIRMED,
    REFUSED,
    REPLACED,
    WAITING,
    ActiveStatus,
    Mark,
    QuarantineState,
    StoredStatus,
    VisitState,
    visit_state,
)
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.requests import Appointment, Customer, VisitKind
from dealer_agent.protocol.responses import AppointmentReply


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadRecord:
    """A stored lead. `customer`, `payload` (as received) and `vehicle` (the listing) are JSON in UTF-8.

    `lead_id` is a ULID. `rooftop` is where the lead goes. `vehicle_id`, `vin` and `stock` are the vehicle of interest,
    if the inventory has it. `used_at` is the last use of the lead's data; None in a new lead: `received_at`. `caller`
    is the identity of a known sender (`callers.Caller`). `may_be_same_person_as` is an earlier lead of another sender.
    `customer`, `payload` and `source_agent` are None once the customer is erased, at `erased_at`. `quarantined_at` is
    when it last began to wait in quarantine. `mark` is what staff say of it.
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
    caller: str | None = None
    may_be_same_person_as: str | None = None
    quarantine: QuarantineState | None = None
    quarantined_at: datetime | None = None
    mark: Mark | None = None

    @property
    def is_kept_from_staff(self) -> bool:
        """Whether the lead waits in quarantine, or was refused there (docs/protocol.md#quarantine)."""
        return self.quarantine in (WAITING, REFUSED)


class LeadEvent(NamedTuple):
    """An addition to a lead: `changes` is a JSON document, None once the customer is erased."""

    event_id: str
    at: datetime
    changes: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitRecord:
    """A visit, its request and its response: JSON documents in UTF-8.

    `request` is None once the customer is erased. A confirmed visit has `starts_at` and `ends_at`. A visit without
    places of its own uses those of the visit `shares`. `cancelled_at` is when it was cancelled, replaced or closed.
    `vehicle_id` is the vehicle of a test drive, if the inventory has it.
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
    vehicle_id: str | None = None

    @property
    def is_active(self) -> bool:
        """Whether it is neither cancelled, nor replaced by another, nor closed as done or as a no-show."""
        return self.status in ACTIVE

    def state_at(self, now: datetime) -> VisitState:
        """The state of the visit at a time, which decides how it can be changed (`leads.statuses.POSSIBLE`)."""
        return visit_state(self.status, self.starts_at, self.ends_at, now)

    @property
    def is_off(self) -> bool:
        """Whether it was cancelled, or replaced by another."""
        return self.status in (CANCELLED, REPLACED)

    @property
    def slot(self) -> Slot | None:
        """The confirmed time."""
        return None if self.starts_at is None or self.ends_at is None else Slot(self.starts_at, self.ends_at)

    def read_request(self) -> Appointment | None:
        """The decoded request."""
        return None if self.request is None else msgspec.json.decode(self.request, type=Appointment)

    def read_reply(self) -> AppointmentReply:
        """The decoded response."""
        return msgspec.json.decode(self.reply, type=AppointmentReply)

    def proposed_times(self) -> list[tuple[datetime, datetime | None]]:
        """The proposed times. A response to a request for an exact time has no ends."""
        reply, read = self.read_reply(), datetime.fromisoformat
        slots = [(read(slot.start), read(slot.end)) for slot in reply.proposed_slots or ()]
        return [*slots, *((read(start), None) for start in reply.proposed_times or ())]


def vehicle_driven(lead: LeadRecord, kind: VisitKind, before: VisitRecord | None = None) -> str | None:
    """The vehicle that a visit takes: None unless it is a test drive of a vehicle that the inventory has or had.

    `before` is the visit that it replaces. The vehicle may have come into the inventory after the lead.
    """
    if kind != "test_drive":
        return None
    return lead.vehicle_id if before is None or before.vehicle_id is None else before.vehicle_id


class StoredLead(NamedTuple):
    """A lead with the events of its consent and the additions to it, both oldest first."""

    lead: LeadRecord
    consents: tuple[ConsentEvent, ...]
    events: tuple[LeadEvent, ...]


class LeadDetails(NamedTuple):
    """A lead and its visits (oldest first, those that ended too) at the time `at`."""

    stored: StoredLead
    visits: tuple[VisitRecord, ...]
    at: datetime

    def before_quarantine(self) -> Self:
        """The lead as receivers have it that got it before its quarantine: without what its sender sent since then.

        A consent that came since then is left out. A later withdrawal or erasure is kept: it binds the receivers too.
        """
        record, consents, events = self.stored
        since = record.quarantined_at
        if not record.is_kept_from_staff or since is None:
            return self
        known = StoredLead(
            record,
            tuple(event for event in consents if event.kind != GRANTED or event.at < since),
            tuple(event for event in events if event.at < since),
        )
        return self._replace(stored=known, visits=tuple(visit for visit in self.visits if visit.created_at < since))


class RequestedVisit(Struct):
    """A requested visit and its response."""

    request: Appointment
    reply: AppointmentReply


MOST_ADDITIONS = 50
"""The most additions and the most consent events of a lead. The same sender's next request is a new lead. Each addition
reads all earlier ones."""


class AgentChange(Struct, omit_defaults=True):
    """What the agent of a lead did to a visit. `appointment_id` is the visit after it. `reason` is the customer's."""

    did: Literal["moved", "cancelled"]
    appointment_id: str
    reason: str | None = None


class Addition(Struct, omit_defaults=True):
    """The JSON document of an addition. The trade-in is as received. `offer` is what it keeps of a quote. `by_agent` is
    what the agent changed.
    """

    message: str | None = None
    customer: Customer | None = None
    trade_in: dict[str, Any] | None = None
    appointment: RequestedVisit | None = None
    offer: dict[str, Any] | None = None
    by_agent: AgentChange | None = None


def additions_of(stored: StoredLead) -> list[Addition]:
    """The additions to a lead that were not erased, oldest first."""
    return [msgspec.json.decode(event.changes, type=Addition) for event in stored.events if event.changes is not None]


@dataclass(frozen=True, slots=True)
class LeadContent:
    """What a lead says after all its additions. `messages` and `customers` are oldest first. `offer` is what it keeps
    of the last quote that it named (`holds.offer_of_lead`).
    """

    messages: tuple[str, ...]
    customers: tuple[Customer, ...]
    trade_in: dict[str, Any] | None
    offer: dict[str, Any] | None = None

    @classmethod
    def of(cls, stored: StoredLead) -> Self:
        """The content of a lead whose customer is not erased."""
        assert stored.lead.customer is not None, "an erased lead has no content"
        assert stored.lead.payload is not None, "an erased lead has no content"
        first = msgspec.json.decode(stored.lead.payload, type=_FirstRequest)
        customers = (msgspec.json.decode(stored.lead.customer, type=Customer),)
        added = additions_of(stored)
        said: list[_FirstRequest | Addition] = [first, *added]
        return cls(
            messages=tuple(each.message for each in said if each.message),
            customers=customers + tuple(each.customer for each in added if each.customer),
            trade_in=next((each.trade_in for each in reversed(said) if each.trade_in), first.trade_in),
            offer=next((each.offer for each in reversed(said) if each.offer), None),
        )

    @property
    def customer(self) -> Customer:
        """The customer as the last request described them."""
        return self.customers[-1]

    def added_by(
        self, message: str | UnsetType, customer: Customer, trade_in: dict[str, Any] | None, *, may_replace: bool
    ) -> Addition:
        """What a request with this message, customer and trade-in adds to the lead.

        Unless it `may_replace`, it changes neither the customer nor an existing trade-in. A message that is the same as
        the last one adds nothing.
        """
        addition = Addition()
        if message and message not in self.messages[-1:]:
            addition.message = message
        if may_replace and customer != self.customer:
            addition.customer = customer
        if trade_in and trade_in != self.trade_in and (may_replace or not self.trade_in):
            addition.trade_in = trade_in
        return addition


class _FirstRequest(Struct):
    message: str | None = None
    offer: dict[str, Any] | None = None
    trade_in: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitDecision:
    """The decision about a requested visit, before anything is stored.

    `times` is the confirmed time, or the proposed ones. `places` is the number of places of the rooftop; None if the
    visit gets one more in any case. `existing` is an earlier visit with the same request and response; then nothing is
    stored. `kept` is the time of an earlier confirmed visit that stays. `replaced` are the visits that end. `shares` is
    the test drive that an appraisal is part of. `vehicle_id` is the vehicle that a test drive takes, if it is known.

    `answered_before`: an equal request already has an active visit, so staff need not arrange this one. A sender
    without a token must not learn its time.
    """

    kind: VisitKind
    rooftop: DealerRooftop
    status: ActiveStatus
    reply: AppointmentReply
    times: tuple[Slot, ...] = ()
    places: int | None = 0
    vehicle_id: str | None = None
    shares: str | None = None
    existing: VisitRecord | None = None
    kept: Slot | None = None
    replaced: tuple[VisitRecord, ...] = ()
    answered_before: bool = False

    @property
    def confirmed(self) -> Slot | None:
        """The confirmed time."""
        return self.times[0] if self.status == CONFIRMED else None

    @property
    def is_new(self) -> bool:
        """Whether the visit is stored, and was not answered before."""
        return self.existing is None and not self.answered_before

    @property
    def moved_from(self) -> Slot | None:
        """The other time of the last visit that a confirmed one replaces."""
        earlier = (record.slot for record in reversed(self.replaced))
        return next((slot for slot in earlier if self.confirmed and slot and slot.start != self.confirmed.start), None)
