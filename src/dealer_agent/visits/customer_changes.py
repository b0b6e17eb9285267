"""Moves and cancels visits for their customers, in one transaction under the dealer's lock.

A customer does it by a link in a mail (`customer_actions`), or through the agent that has sent the lead
(`offering.lead_desk`). The rules and the notices are the same (docs/protocol.md#customer-links-move).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from msgspec import UNSET

from dealer_agent.leads.records import MOST_ADDITIONS, StoredLead, VisitDecision, VisitRecord, vehicle_driven
from dealer_agent.leads.statuses import REPLACED, VisitState
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.requests import Appointment
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import end_visits, visits_of
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import VisitBooking
from dealer_agent.visits.changes import VisitChanges
from dealer_agent.visits.notifications import IntakeContext

EndReason = Literal["begun", "cancelled", "moved", "gone"]
"""Why a visit cannot be changed: it has begun, it was cancelled or moved, or its customer was erased (`gone`)."""


class VisitIsOver(Exception):  # noqa: N818 - it says what happened
    """The visit cannot be changed."""

    def __init__(self, why: EndReason) -> None:
        super().__init__(why)
        self.why = why


class TimeNotFree(Exception):  # noqa: N818 - it says what happened
    """The visit cannot be moved to this time, so it stays as it was. `free` are the nearest free times, if any are."""

    def __init__(self, free: tuple[Slot, ...] = ()) -> None:
        super().__init__()
        self.free = free


@dataclass(frozen=True, slots=True)
class CustomerChanges:
    """Changes visits for their customers in one transaction. All methods raise VisitIsOver."""

    tx: Transaction
    context: IntakeContext

    def cancel(self, lead_id: str, appointment_id: str) -> None:
        """Cancels the visit like `dealer-agent appointments cancel`, and notifies CRMs, staff and customer."""
        self._changeable(lead_id, appointment_id)
        VisitChanges(self.tx, self.context, by_staff=False).cancel(appointment_id)

    def move(self, lead_id: str, appointment_id: str, start: datetime, length: timedelta | None = None) -> VisitRecord:
        """Moves the visit like a lead that requests another time, and notifies CRMs, staff and customer.

        Without `length`, it has the length that was requested before. Returns the new visit, or the same one if it is
        at that time already. Raises TimeNotFree.
        """
        lead, visit = self._changeable(lead_id, appointment_id)
        slot, request = visit.slot, visit.read_request()
        assert request is not None, "only a visit of a customer who is not erased can be changed"
        if slot is not None and slot.start == start and length in (None, slot.end - slot.start):
            return visit
        rooftop = self.context.timetable.rooftop(visit.rooftop)
        if rooftop is None or len(lead.events) >= MOST_ADDITIONS:
            raise TimeNotFree
        at = start.isoformat(timespec="seconds")
        request = msgspec.structs.replace(request, appointment_at=at, requested_windows=UNSET)
        if length is not None:
            request = msgspec.structs.replace(request, duration_minutes=length // timedelta(minutes=1))
        decision = self._decide(lead, visit, request)
        if decision.confirmed is None:
            raise TimeNotFree(decision.times)
        if decision.existing is not None:
            end_visits(self.tx, [appointment_id], REPLACED)
            return decision.existing
        return VisitChanges(self.tx, self.context, by_staff=False).store(decision, lead_id, request).visit

    def _decide(self, lead: StoredLead, visit: VisitRecord, request: Appointment) -> VisitDecision:
        """The decision about another time for the visit. A visit without a time replaces its lead's other visits of
        this kind, as a lead that requests the time would.
        """
        rooftop = self.context.timetable.rooftop(visit.rooftop)
        vehicle_id = vehicle_driven(lead.lead, visit.kind, visit)
        booking = VisitBooking(self.tx, self.context.timetable)
        if visit.slot is not None:
            return booking.decide(request, rooftop, [visit], vehicle_id=vehicle_id)
        others = [each for each in visits_of(self.tx, visit.lead_id) if each.appointment_id != visit.appointment_id]
        decision = booking.decide(request, rooftop, others, vehicle_id=vehicle_id)
        return replace(decision, replaced=(*decision.replaced, visit))

    def _changeable(self, lead_id: str, appointment_id: str) -> tuple[StoredLead, VisitRecord]:
        lead = lead_of_customer(self.tx, lead_id)
        visit = visit_in(visits_of(self.tx, lead_id), appointment_id)
        ended = "gone" if visit is None else end_reason(lead, visit, self.tx.now)
        if visit is None or ended is not None:
            raise VisitIsOver(ended or "gone")
        return lead, visit


def lead_of_customer(tx: Transaction, lead_id: str) -> StoredLead:
    """The lead of a customer. Raises VisitIsOver if the customer was erased, or the lead was never there."""
    lead = get_lead(tx, lead_id)
    if lead is None or lead.lead.customer is None:
        raise VisitIsOver("gone")
    return lead


def visit_in(visits: Collection[VisitRecord], appointment_id: str) -> VisitRecord | None:
    """The visit with this id."""
    return next((visit for visit in visits if visit.appointment_id == appointment_id), None)


def end_reason(lead: StoredLead, visit: VisitRecord, now: datetime) -> EndReason | None:
    """Why the visit cannot be changed. None if it can: it has no time yet, or is to come."""
    if lead.lead.customer is None or visit.request is None:
        return "gone"
    ends: dict[VisitState, EndReason | None] = {
        "open": None,
        "ahead": None,
        "cancelled": "cancelled",
        "replaced": "moved",
    }
    return ends.get(visit.state_at(now), "begun")
