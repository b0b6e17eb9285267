"""Changes of visits by the dealer's staff (docs/protocol.md#staff-visits) and by customers (`customer_changes`).

Each change is one transaction under the dealer's lock. `leads.statuses.POSSIBLE` says which visits it is for. A visit
that gets another time is a new visit with a new id, because calendars know the time of a visit by its id.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from dealer_agent.correctable import NotPossible
from dealer_agent.dealers.opening import hours_text
from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dealers.routing import CustomerKind
from dealer_agent.leads.local_time import instant_of, open_spans, read_instant, with_offset
from dealer_agent.leads.records import MOST_ADDITIONS, StoredLead, VisitDecision, VisitRecord, vehicle_driven
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, POSSIBLE, ClosedStatus, VisitAction, VisitState
from dealer_agent.leads.visit_times import (
    QUARTER,
    RequestedTimes,
    Slot,
    TimeChoice,
    appointment_reply,
    quarters_of,
    requested_times,
    slot_at,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import VISIT_KIND_OF, Appointment, AppointmentType, VisitKind
from dealer_agent.storage.leads import visits
from dealer_agent.storage.leads.stored_leads import get_lead, read_facts
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.booking import OtherVisits, VisitBooking
from dealer_agent.visits.notifications import IntakeContext, Notifications

MOST_DAYS = 366
"""Staff can book visits for so many days ahead: the calendar shows no later ones."""

MOST_MINUTES = 480
"""The longest visit."""

USUAL_LENGTH = timedelta(hours=1)
"""Of a visit of a kind that dealer.toml does not describe, if nobody named a length."""

SEE_LIST = ": see dealer-agent appointments list"
_IN_QUARANTINE = "waits in quarantine, or was refused there"


class ChangeRefused(NotPossible):
    """The visit stays as it is. The message says why, and what to do."""


class VisitChange(NamedTuple):
    """A visit after a change, and its `parts`: visits of other leads that share its places.

    `replaced` is the id of the visit in whose place it is. `broken_rules` are those that it breaks, as
    sentences, because the change was forced. `mailed` are the ids of the visits whose customers get a mail.
    """

    visit: VisitRecord
    parts: tuple[VisitRecord, ...] = ()
    replaced: str | None = None
    broken_rules: tuple[str, ...] = ()
    mailed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenTime:
    """A time that staff chose. A `start` without an offset is on the clock of the rooftop.

    With `length` None, the visit has the length that the customer or dealer.toml names. `forced`: the time may be
    outside the opening hours, or at a time without a free place.
    """

    start: datetime
    length: timedelta | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class VisitChanges:
    """Changes visits in one transaction. Without `notify`, nobody is notified. All methods raise ChangeRefused.

    `by_staff`: a visit is not changed if its lead waits in quarantine or was refused there. Its customer can change it.
    """

    tx: Transaction
    context: IntakeContext
    notify: bool = True
    by_staff: bool = True

    def arrange(
        self, lead_id: str, kind: AppointmentType, time: ChosenTime, rooftop_name: str | None = None
    ) -> VisitChange:
        """Books a visit for a lead that has no open visit of this kind, by default at the rooftop of the lead."""
        lead = self._lead(lead_id)
        for visit in visits.visits_of(self.tx, lead_id):
            if visit.kind == VISIT_KIND_OF[kind] and visit.state_at(self.tx.now) in ("open", "ahead"):
                advice = "move" if visit.status == CONFIRMED else "confirm"
                raise ChangeRefused(
                    f"Lead {lead_id} has the visit {visit.appointment_id} ({visit.status}) already",
                    f": use dealer-agent appointments {advice} {visit.appointment_id}",
                )
        rooftop = self._rooftop(rooftop_name or lead.lead.rooftop)
        return self._book(lead, Appointment(appointment_type=kind), rooftop, time)

    def confirm(self, appointment_id: str, time: ChosenTime | None, *, forced: bool = False) -> VisitChange:
        """Books a visit that has no time yet.

        With `time` None, it is booked at the one time that the customer asked for, and `forced` is used for that time.
        """
        visit, lead, request = self._visit_for(appointment_id, "confirm")
        if time is None:
            if request.appointment_at is UNSET:
                raise ChangeRefused(
                    f"The customer named no single time for visit {appointment_id}: choose one",
                    f" with --at. dealer-agent leads show {visit.lead_id} shows what the customer asked for",
                )
            time = ChosenTime(start=read_instant(request.appointment_at, None), forced=forced)
        return self._book(lead, request, self._rooftop(visit.rooftop), time, visit)

    def move(self, appointment_id: str, time: ChosenTime) -> VisitChange:
        """Gives a confirmed visit that has not begun another time. It keeps its length unless `time` has one."""
        visit, lead, request = self._visit_for(appointment_id, "move")
        slot = visit.slot
        assert slot is not None, "a visit that is ahead has a time"
        rooftop, before = self._rooftop(visit.rooftop), slot.end - slot.start
        time = replace(time, length=time.length or before)
        if (_instant(time, rooftop), time.length) == (slot.start, before):
            raise ChangeRefused(f"Visit {appointment_id} is at that time already")
        return self._book(lead, request, rooftop, time, visit)

    def close(self, appointment_id: str, how: ClosedStatus) -> VisitChange:
        """Records that a visit that has begun took place, or that the customer did not come.

        The other of the two can be recorded later, to correct a mistake. Only the channels to CRMs are notified.
        """
        visit = self._changeable(appointment_id, "close")
        if visit.status == how:
            raise ChangeRefused(f"Visit {appointment_id} is closed so already")
        changed = [visit, *visits.sharing_places_of(self.tx, [appointment_id])]
        visits.close_visits(self.tx, [each.appointment_id for each in changed], how)
        return self._end_visits(changed, None)

    def cancel(self, appointment_id: str) -> VisitChange:
        """Ends a visit that is not over, and the visits that are part of it, and frees their places."""
        visit = self._changeable(appointment_id, "cancel")
        changed = [visit, *visits.sharing_places_of(self.tx, [appointment_id])]
        visits.end_visits(self.tx, [appointment_id], CANCELLED)
        return self._end_visits(changed, "cancel")

    def store(
        self, decision: VisitDecision, lead_id: str, request: Appointment, broken_rules: tuple[str, ...] = ()
    ) -> VisitChange:
        """Stores a confirmed visit in place of those that it replaces, and notifies about it and its parts."""
        parts = VisitBooking(self.tx, self.context.timetable).store(decision, lead_id, request)
        visit = self._visit(decision.reply.appointment_id)
        mailed = frozenset(
            each.appointment_id
            for each in (visit, *parts)
            if self._notifications.add_moved_visit(each, notify=self.notify)
        )
        replaced = decision.replaced[-1].appointment_id if decision.replaced else None
        return VisitChange(visit, tuple(parts), replaced, broken_rules, mailed)

    def _end_visits(self, changed: Sequence[VisitRecord], mail: CustomerKind | None) -> VisitChange:
        """The visits after a change that ended them. With `mail` None, only the channels to CRMs are notified."""
        visit, *parts = (self._visit(each.appointment_id) for each in changed)
        mailed = frozenset(
            each.appointment_id
            for each in (visit, *parts)
            if self.notify and self._notifications.notify(mail, each, each.appointment_id)
        )
        return VisitChange(visit, tuple(parts), mailed=mailed)

    def _book(
        self,
        lead: StoredLead,
        request: Appointment,
        rooftop: DealerRooftop,
        time: ChosenTime,
        before: VisitRecord | None = None,
    ) -> VisitChange:
        """Stores a confirmed visit in place of the visit `before`, and notifies about it and its parts."""
        lead_id, kind = lead.lead.lead_id, VISIT_KIND_OF[request.appointment_type]
        if max(len(lead.events), len(lead.consents)) >= MOST_ADDITIONS:
            raise ChangeRefused(f"Lead {lead_id} has {MOST_ADDITIONS} additions, the most that a lead can have")
        start = _instant(time, rooftop)
        if start <= self.tx.now:
            raise ChangeRefused("That time is in the past: choose a later one")
        if start > self.tx.now + timedelta(days=MOST_DAYS):
            raise ChangeRefused(f"That time is more than {MOST_DAYS} days ahead: choose an earlier one")
        at = with_offset(start, ZoneInfo(rooftop.timezone)).isoformat(timespec="seconds")
        request = msgspec.structs.replace(request, appointment_at=at, requested_windows=UNSET)
        length = time.length or self._usual_length(request, rooftop, kind)
        slot = slot_at(start, start + length, rooftop.timezone)
        vehicle_id = vehicle_driven(lead.lead, kind, before)
        if vehicle_id is not None:
            self._refuse_taken_vehicle(slot, vehicle_id, before)
        broken_rules = tuple(self._broken_rules(slot, rooftop, kind, [] if before is None else [before]))
        if broken_rules and not time.forced:
            raise ChangeRefused(f"{'. '.join(broken_rules)}. Choose another time", ", or add --force")
        reply = appointment_reply(TimeChoice(slot), RequestedTimes((), slot.start, length), new_ulid())
        plan = self.context.timetable.plan(rooftop, kind)
        decision = VisitDecision(
            kind=kind,
            rooftop=rooftop,
            status=CONFIRMED,
            reply=reply,
            times=(slot,),
            places=None if plan is None or broken_rules else plan.places,
            vehicle_id=vehicle_id,
            replaced=() if before is None else (before,),
        )
        return self.store(decision, lead_id, request, broken_rules)

    def _refuse_taken_vehicle(self, slot: Slot, vehicle_id: str, before: VisitRecord | None) -> None:
        """Raises ChangeRefused if another visit has the vehicle. Force does not help: there is only one."""
        drives = visits.vehicle_quarters(self.tx, vehicle_id, slot.start - QUARTER, slot.end)
        own = None if before is None else before.appointment_id
        others = [drives[quarter] for quarter in quarters_of(slot) if drives.get(quarter, own) != own]
        if others:
            raise ChangeRefused(
                f"The vehicle {vehicle_id} has another test drive at that time: visit {others[0]}. Choose another "
                "time, or move or cancel that visit first"
            )

    def _broken_rules(
        self, slot: Slot, rooftop: DealerRooftop, kind: VisitKind, own: Sequence[VisitRecord]
    ) -> Iterator[str]:
        """The rules that a visit at this time would break. The places of its `own` earlier visits are free for it."""
        timetable, zone = self.context.timetable, ZoneInfo(rooftop.timezone)
        day = slot.start.astimezone(zone).date()
        hours = timetable.hours(rooftop, kind)
        if hours is not None and not any(
            opens <= slot.start and slot.end <= closes for opens, closes in open_spans(hours, zone, day, day)
        ):
            yield f"The opening hours of {rooftop.name} on {day} are: {hours_text(tuple(hours(day)))}"
        plan = timetable.plan(rooftop, kind)
        if plan is None:
            return
        busy = visits.busy_quarters(self.tx, rooftop.name, kind, slot.start - QUARTER, slot.end)
        others = OtherVisits(busy, rooftop.name, plan.places, {}, own)
        if any(others.get(quarter, 0) >= plan.places for quarter in quarters_of(slot)):
            are_taken = "The only place is" if plan.places == 1 else f"All {plan.places} places are"
            yield f"{are_taken} taken at {rooftop.name} at that time, for this kind of visit"

    def _usual_length(self, request: Appointment, rooftop: DealerRooftop, kind: VisitKind) -> timedelta:
        plan = self.context.timetable.plan(rooftop, kind)
        asked = None if plan is None else requested_times(request, plan)
        if asked is not None:
            return asked.duration
        minutes = request.duration_minutes
        return USUAL_LENGTH if minutes is UNSET else timedelta(minutes=min(minutes, MOST_MINUTES))

    def _visit_for(self, appointment_id: str, action: VisitAction) -> tuple[VisitRecord, StoredLead, Appointment]:
        """The visit, its lead and what was asked for, if the action is possible now. Raises ChangeRefused."""
        visit = self._changeable(appointment_id, action)
        lead, request = self._lead(visit.lead_id), visit.read_request()
        assert request is not None, "only an erased customer has none, and `_lead` refuses those"
        return visit, lead, request

    def _changeable(self, appointment_id: str, action: VisitAction) -> VisitRecord:
        """The visit, if this action is possible now. Raises ChangeRefused with the reason."""
        visit = self._visit(appointment_id)
        lead = read_facts(self.tx, visit.lead_id)
        if self.by_staff and lead is not None and lead.is_kept_from_staff:
            raise ChangeRefused(f"The lead of visit {appointment_id} {_IN_QUARANTINE}", _see_lead(visit.lead_id))
        state = visit.state_at(self.tx.now)
        if state not in POSSIBLE[action]:
            reason, advice = _why_not(visit, state, action)
            raise ChangeRefused(f"Visit {appointment_id} {reason}", advice)
        return visit

    def _visit(self, appointment_id: str) -> VisitRecord:
        visit = visits.find_visit(self.tx, appointment_id)
        if visit is None:
            raise ChangeRefused(f"There is no visit {appointment_id}", SEE_LIST)
        return visit

    def _lead(self, lead_id: str) -> StoredLead:
        """The lead of a visit to change. Raises ChangeRefused if it is unknown, erased, or in quarantine."""
        lead = get_lead(self.tx, lead_id)
        if lead is None:
            raise ChangeRefused(f"There is no lead {lead_id}", "; see dealer-agent leads list")
        if lead.lead.customer is None:
            raise ChangeRefused(f"The customer of lead {lead_id} was erased")
        if self.by_staff and lead.lead.is_kept_from_staff:
            raise ChangeRefused(f"Lead {lead_id} {_IN_QUARANTINE}", _see_lead(lead_id))
        return lead

    def _rooftop(self, name: str) -> DealerRooftop:
        found = self.context.timetable.named(name)
        if found is None:
            known = ", ".join(rooftop.name for rooftop in self.context.profile.rooftops)
            raise ChangeRefused(f"dealer.toml has no rooftop {name!r}. The rooftops are: {known}")
        return found

    @property
    def _notifications(self) -> Notifications:
        return Notifications(self.tx, self.context)


def _instant(time: ChosenTime, rooftop: DealerRooftop) -> datetime:
    return instant_of(time.start, ZoneInfo(rooftop.timezone))


def _see_lead(lead_id: str) -> str:
    return f": see dealer-agent leads show {lead_id}"


def _why_not(visit: VisitRecord, state: VisitState, action: VisitAction) -> tuple[str, str]:
    """Why this change of a visit is not possible in its state, and what to type instead."""
    match action, state:
        case "close", "ahead":
            return "has not begun", ": dealer-agent appointments cancel or move changes it"
        case "close", _:
            return f"is {visit.status}: only a confirmed visit can be closed", ""
        case "move", "open":
            return "has no time yet", ": use dealer-agent appointments confirm"
        case "move", "begun" | "over":
            return f"has begun: arrange a new one for lead {visit.lead_id}", ""
        case "confirm", "ahead" | "begun" | "over":
            return "is confirmed already", ": dealer-agent appointments move gives it another time"
        case _, "replaced":
            return "was replaced by another visit", SEE_LIST
        case _, "over" | "done" | "no_show":
            return "is over", SEE_LIST
    return f"is {visit.status} already", SEE_LIST
