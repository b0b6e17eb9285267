"""Answers `lead.status`, `visit.move` and `visit.cancel` for one dealer (docs/protocol.md#after-the-lead).

Each change is a write of the process's lead writer, under the dealer's lock, in one transaction with the check of the
sender and with the stored response to its idempotency key.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET, UnsetType

from dealer_agent.callers import Caller
from dealer_agent.dealers.profile import Profile
from dealer_agent.lead_intake.intake import LeadIntake
from dealer_agent.leads.lead_secrets import LeadSecrets
from dealer_agent.leads.lead_view import rooftop_view
from dealer_agent.leads.local_time import with_offset
from dealer_agent.leads.received_lead import known_key_scope, payload_hash
from dealer_agent.leads.records import Addition, AgentChange, StoredLead, VisitRecord, vehicle_driven
from dealer_agent.leads.statuses import ACTIVE, CANCELLED, CONFIRMED, PROPOSED, REPLACED, REQUESTED
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol import errors
from dealer_agent.protocol.after_lead import (
    LeadState,
    LeadStatusRequest,
    LeadVisit,
    VisitCancelRequest,
    VisitMoveRequest,
    VisitPlace,
)
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.responses import LeadStatus
from dealer_agent.protocol.timestamps import parse_timestamp, utc_text
from dealer_agent.storage.leads.idempotency import find_idempotent, record_idempotency
from dealer_agent.storage.leads.stored_leads import append_to_lead, get_lead, read_facts
from dealer_agent.storage.leads.visits import visits_of
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import VisitBooking
from dealer_agent.visits.customer_changes import CustomerChanges, TimeNotFree, VisitIsOver
from dealer_agent.visits.notifications import IntakeContext

_MINUTE = timedelta(minutes=1)
_CAN_CHANGE = ("open", "ahead")
"""The states of visits that can be moved and cancelled."""
ChangeRequest = VisitMoveRequest | VisitCancelRequest


@dataclass(frozen=True)
class LeadDesk:
    """Answers the senders of one dealer's leads. `secrets` prove an anonymous one."""

    profile: Profile
    store: Store
    intake: LeadIntake
    secrets: LeadSecrets

    async def status(self, request: LeadStatusRequest, caller: Caller, now: datetime, seconds: float) -> bytes:
        """What became of a lead, as JSON. Raises LeadNotFound."""
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(self._read, request, caller, now)

    async def move(self, request: VisitMoveRequest, caller: Caller, now: datetime, seconds: float) -> bytes:
        """Moves a visit. Returns the lead as JSON.

        Raises LeadNotFound, VisitNotFound, VisitEnded, AppointmentTimeUnavailable, IdempotencyConflict and, if the lead
        has several visits and the request names none, MissingRequiredField.
        """
        start = parse_timestamp(request.appointment_at)
        assert start is not None, "the payload is checked before"
        length = None if request.duration_minutes is UNSET else request.duration_minutes * _MINUTE

        def move(tx: Transaction, context: IntakeContext, visit: VisitRecord) -> AgentChange | None:
            """Moves the visit. None if it has this time already, so that a repeated request adds nothing."""
            changes = CustomerChanges(tx, context)
            try:
                moved = changes.move(request.lead_id, visit.appointment_id, start, length)
            except TimeNotFree as taken:
                raise _not_free(request.lead_id, taken.free) from None
            is_same = moved.appointment_id == visit.appointment_id
            return None if is_same else AgentChange("moved", moved.appointment_id)

        return await self._change(request, caller, now, seconds, move)

    async def cancel(self, request: VisitCancelRequest, caller: Caller, now: datetime, seconds: float) -> bytes:
        """Cancels a visit. Returns the lead as JSON. Raises as `move`, but never AppointmentTimeUnavailable."""

        def cancel(tx: Transaction, context: IntakeContext, visit: VisitRecord) -> AgentChange:
            CustomerChanges(tx, context).cancel(request.lead_id, visit.appointment_id)
            reason = None if request.reason is UNSET else request.reason
            return AgentChange("cancelled", visit.appointment_id, reason)

        return await self._change(request, caller, now, seconds, cancel)

    def _read(self, request: LeadStatusRequest, caller: Caller, now: datetime) -> bytes:
        with self.store.read(self.profile.id, now) as tx:
            self._check_sender(tx, request.lead_id, caller, request.secret)
            return self._lead_document(tx, self.intake.context, request.lead_id)

    async def _change(
        self,
        request: ChangeRequest,
        caller: Caller,
        now: datetime,
        seconds: float,
        change: Callable[[Transaction, IntakeContext, VisitRecord], AgentChange | None],
    ) -> bytes:
        """Changes a visit, once for each idempotency key. Returns the lead as JSON."""
        content_hash = payload_hash(msgspec.to_builtins(msgspec.structs.replace(request, secret=UNSET)))
        scope = known_key_scope(caller.identity) if caller.is_known else f"lead:{request.lead_id}"

        def write(tx: Transaction, context: IntakeContext) -> bytes:
            """Checks the sender, changes the visit, and stores the response with its key, for a repeated request."""
            self._check_sender(tx, request.lead_id, caller, request.secret)
            first = find_idempotent(tx, scope, request.idempotency_key)
            if first is not None:
                if first.payload_hash != content_hash:
                    raise errors.IdempotencyConflict("This idempotency_key came with another payload before.")
                return first.reply
            visit = _visit_to_change(visits_of(tx, request.lead_id), request.appointment_id, tx.now)
            try:
                done = change(tx, context, visit)
            except VisitIsOver as ended:
                if ended.why == "gone":
                    raise _not_found() from None
                details = {"in": "payload", "instancePath": "/appointment_id", "reason": ended.why}
                raise errors.VisitEnded(_WHY[ended.why], details) from None
            # None: the visit is already as the sender wants it.
            if done is not None:
                append_to_lead(tx, request.lead_id, msgspec.json.encode(Addition(by_agent=done)))
            reply = self._lead_document(tx, context, request.lead_id, (done or visit).appointment_id)
            record_idempotency(tx, scope, request.idempotency_key, content_hash, reply, request.lead_id)
            return reply

        return await self.intake.write_for_sender(write, caller, now, seconds)

    def _check_sender(self, tx: Transaction, lead_id: str, caller: Caller, secret: str | UnsetType) -> None:
        """Raises LeadNotFound unless the caller has sent the lead. It does the same work for every lead."""
        lead = read_facts(tx, lead_id)
        is_right = self.secrets.is_right(lead_id, "" if secret is UNSET else secret)
        if lead is None or lead.erased_at is not None:
            raise _not_found()
        if not (is_right if lead.caller is None else lead.caller == caller.identity):
            raise _not_found()

    def _lead_document(
        self, tx: Transaction, context: IntakeContext, lead_id: str, acted_on: str | None = None
    ) -> bytes:
        """A lead as its sender sees it, as JSON. `acted_on` is the id of the visit that was just changed."""
        lead = get_lead(tx, lead_id)
        if lead is None or lead.lead.customer is None:
            raise _not_found()
        shown = [visit for visit in visits_of(tx, lead_id) if visit.status != REPLACED and visit.request is not None]
        can_change = [visit for visit in shown if visit.state_at(tx.now) in _CAN_CHANGE]
        first = next((visit for visit in shown if visit.appointment_id == acted_on), None)
        first = first or next(reversed(can_change or shown), None)
        others = tuple(self._visit(tx, context, lead, visit) for visit in can_change if visit is not first)
        state = LeadState(
            lead_id=lead_id,
            status=cast(LeadStatus, lead.lead.status),
            received_at=utc_text(lead.lead.received_at),
            visit=UNSET if first is None else self._visit(tx, context, lead, first),
            other_visits=others or UNSET,
        )
        return msgspec.json.encode(state)

    def _visit(self, tx: Transaction, context: IntakeContext, lead: StoredLead, visit: VisitRecord) -> LeadVisit:
        """A visit as the sender of its lead sees it. Whether the customer came is for the dealer's staff."""
        request, slot = visit.read_request(), visit.slot
        assert request is not None, "a visit is shown only with its request"
        rooftop = context.timetable.rooftop(visit.rooftop)
        zone = ZoneInfo((rooftop or context.timetable.first).timezone)
        address = None if rooftop is None else rooftop_view(self.profile, rooftop.name).address
        free: tuple[Slot, ...] = ()
        if rooftop is not None and visit.status in ACTIVE and slot is None:
            vehicle_id = vehicle_driven(lead.lead, visit.kind, visit)
            free = VisitBooking(tx, context.timetable).decide(request, rooftop, [visit], vehicle_id=vehicle_id).times
        return LeadVisit(
            appointment_id=visit.appointment_id,
            appointment_type=request.appointment_type,
            status=_shown_status(visit),
            place=VisitPlace(visit.rooftop, address or UNSET),
            at=UNSET if slot is None else with_offset(slot.start, zone).isoformat(timespec="seconds"),
            duration_minutes=UNSET if slot is None else (slot.end - slot.start) // _MINUTE,
            alternatives=_starts(free) or UNSET,
        )


_WHY = {
    "begun": "This visit has begun.",
    "cancelled": "This visit was cancelled.",
    "moved": "This visit was moved: it has another id now.",
}


def _shown_status(visit: VisitRecord) -> Any:
    """The status that a sender sees. A visit for which no time was free is one that staff arrange."""
    if visit.status in (CANCELLED, PROPOSED):
        return visit.status
    return REQUESTED if visit.slot is None else CONFIRMED


def _visit_to_change(visits: list[VisitRecord], appointment_id: str | UnsetType, now: datetime) -> VisitRecord:
    """The visit to change: that with the id, else the only one that can be changed, else the newest."""
    if appointment_id is not UNSET:
        named = next((visit for visit in visits if visit.appointment_id == appointment_id), None)
        if named is None:
            raise _no_visit()
        return named
    shown = [visit for visit in visits if visit.status != REPLACED]
    can_change = [visit for visit in shown if visit.state_at(now) in _CAN_CHANGE]
    if len(can_change) > 1:
        words = "is required: the lead has several visits, which lead.status lists"
        raise validation_error([Problem(("appointment_id",), words, "required")], "payload")
    if not shown:
        raise _no_visit()
    return (can_change or shown)[-1]


def _starts(slots: Iterable[Slot]) -> tuple[str, ...]:
    return tuple(slot.start.isoformat(timespec="seconds") for slot in slots)


def _not_found() -> errors.LeadNotFound:
    return errors.LeadNotFound(
        "This agent has sent no lead with this id.", {"in": "payload", "instancePath": "/lead_id"}
    )


def _no_visit() -> errors.VisitNotFound:
    details = {"in": "payload", "instancePath": "/appointment_id"}
    return errors.VisitNotFound("This lead has no such visit.", details)


def _not_free(lead_id: str, free: tuple[Slot, ...]) -> errors.AppointmentTimeUnavailable:
    """The refusal of a time that is not free. Nothing is changed."""
    details: dict[str, Any] = {"in": "payload", "instancePath": "/appointment_at", "lead_id": lead_id}
    words = "This time is not free, and the visit stays as it was."
    if free:
        return errors.AppointmentTimeUnavailable(
            f"{words} details.alternatives are free times.", details | {"alternatives": [*_starts(free)]}
        )
    return errors.AppointmentTimeUnavailable(f"{words} No other time is free.", details)
