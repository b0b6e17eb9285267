"""Books visits: chooses a time, ends the visits that are replaced, and occupies places and vehicles.

A rooftop can have several visits in the same quarter of an hour; each of them has a *place*. A test drive also takes
its vehicle for its quarters, which no second drive can have. An appraisal at the time of the customer's test drive is
a *part* of it: both share one place.

A decision and its storing are two steps, because the row of the lead must exist before that of the visit. If two
processes choose the same place, its primary key makes one of the jobs run again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.records import VisitDecision, VisitRecord
from dealer_agent.leads.statuses import CONFIRMED, PROPOSED, REJECTED, REPLACED, REQUESTED, UNAVAILABLE
from dealer_agent.leads.timetable import Timetable
from dealer_agent.leads.visit_times import (
    BusyQuarters,
    RequestedTimes,
    Slot,
    TimeChoice,
    VisitPlan,
    appointment_reply,
    bookable_span,
    choose_time,
    quarters_of,
    requested_times,
    slot_at,
    start_inside,
)
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import VISIT_KIND_OF, Appointment, VisitKind
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.storage.leads import visits
from dealer_agent.storage.transaction import Transaction

FIRST_REACH = timedelta(hours=1)
"""How far around the first quarter is read at first. Mostly the requested time is free."""
GROWTH = 24
"""The factor for each further read."""
MOST_DRIVES = 10
"""The most test drives of a vehicle that are to come and were confirmed without staff, who arrange further ones.

Anybody can request test drives. They must not keep a vehicle from other buyers for weeks.
"""

Value = TypeVar("Value")
Default = TypeVar("Default")


class Availability(Generic[Value]):
    """What is stored for quarters of an hour within the `bookable_span`: the number of visits, or who has a vehicle.

    It reads the database on demand, because most requested times are free: first FIRST_REACH around the quarter that is
    asked for. When a quarter outside is asked for, it reads around that one, GROWTH times as far.

    `read` gets two times. It returns what is stored, by quarter, from the first time to before the second.
    """

    def __init__(
        self, read: Callable[[datetime, datetime], Mapping[datetime, Value]], span: tuple[datetime, datetime]
    ) -> None:
        self._read, self._span = read, span
        self._reach = FIRST_REACH
        self._busy: Mapping[datetime, Value] = {}
        self._since = self._until = span[0]

    def get(self, quarter: datetime, default: Default) -> Value | Default:
        """What is stored for this quarter of an hour, else `default`."""
        if not self._since <= quarter < self._until:
            self._since = max(quarter - self._reach, self._span[0])
            self._until = min(quarter + self._reach, self._span[1])
            self._reach *= GROWTH
            self._busy = self._read(self._since, self._until)
        return self._busy.get(quarter, default)


class OtherVisits:
    """The visits of a rooftop with `places`, without the `own` ones of a customer, by quarter of an hour.

    All places are busy while a visit of somebody else has the vehicle: `drives` has the id of the visit that has it.
    """

    def __init__(
        self,
        busy: BusyQuarters,
        rooftop: str,
        places: int,
        drives: "Mapping[datetime, str] | Availability[str]",
        own: Sequence[VisitRecord] = (),
    ) -> None:
        self._busy, self._drives, self._places = busy, drives, places
        self._not_others = {None, *(visit.appointment_id for visit in own)}
        slots = (visit.slot for visit in own if visit.shares is None and visit.rooftop == rooftop)
        self._freed = [quarter for slot in slots if slot is not None for quarter in quarters_of(slot)]

    def get(self, quarter: datetime, default: int) -> int:
        """The number of other visits in this quarter of an hour."""
        if self._drives.get(quarter, None) in self._not_others:
            return self._busy.get(quarter, default) - self._freed.count(quarter)
        return self._places


@dataclass(frozen=True, slots=True)
class VisitBooking:
    """Decides about requested visits, and stores them, in one transaction."""

    tx: Transaction
    timetable: Timetable

    def decide(
        self,
        request: Appointment,
        home: DealerRooftop | None,
        earlier: Sequence[VisitRecord] = (),
        *,
        vehicle_id: str | None = None,
        test_drives: Callable[[], Iterable[visits.BookedVisit]] = tuple,
    ) -> VisitDecision:
        """Decides about a requested visit of a lead that has the `earlier` visits.

        `home` is the rooftop of the vehicle, or the one that the buyer chose. Without it, the first rooftop that books
        such visits is used. A request replaces only visits of the same kind. A test drive needs the vehicle
        `vehicle_id`. `test_drives` finds the customer's test drives, because an appraisal may be part of one.

        A request that equals an earlier one gets the same visit again. Else a free time is confirmed, or free times are
        proposed. Without a time that can be booked, the visit is only requested, and staff answer.
        """
        kind = VISIT_KIND_OF[request.appointment_type]
        vehicle_id = vehicle_id if kind == "test_drive" else None
        rooftop = self._rooftop(home, kind)
        alike = [record for record in earlier if record.is_active and record.kind == kind]
        same = next((record for record in reversed(alike) if record.read_request() == request), None)
        if same is not None and (same.status == REQUESTED or same.state_at(self.tx.now) in ("ahead", "begun")):
            return self._decide_repeated_request(same, rooftop, alike)
        if kind == "trade_in" and (part := self._part_of_drive(request, home, test_drives())) is not None:
            return replace(part, replaced=self._replaced_visits(alike))
        plan = self.timetable.plan(rooftop, kind)
        asked = None if plan is None else requested_times(request, plan)
        booked = [record for record in alike if self._is_ahead(record)]
        if plan is None or asked is None or (not booked and self._is_in_demand(vehicle_id)):
            reply = AppointmentReply(appointment_id=new_ulid(), status=REQUESTED)
            decision = VisitDecision(kind=kind, rooftop=rooftop, status=REQUESTED, reply=reply, vehicle_id=vehicle_id)
            return self._without_booking(decision, alike)
        span = bookable_span(asked, plan, self.tx.now)
        of_rooftop = Availability(partial(visits.busy_quarters, self.tx, rooftop.name, kind), span)
        drives: Mapping[datetime, str] | Availability[str] = {}
        if vehicle_id is not None:
            drives = Availability(partial(visits.vehicle_quarters, self.tx, vehicle_id), span)
        busy = OtherVisits(of_rooftop, rooftop.name, plan.places, drives)
        if same is not None and same.status == PROPOSED and self._are_all_free(same, asked, plan, busy):
            return self._decide_repeated_request(same, rooftop, alike)
        others = OtherVisits(of_rooftop, rooftop.name, plan.places, drives, booked)
        choice = choose_time(asked, plan, others, self.tx.now)
        if choice.confirmed is None and booked:
            # The time that the customer has is not proposed again.
            choice = choose_time(asked, plan, busy, self.tx.now)
        if choice.confirmed is None and not choice.proposed and same is not None and same.status == UNAVAILABLE:
            return self._decide_repeated_request(same, rooftop, alike)
        decision = VisitDecision(
            kind=kind,
            rooftop=rooftop,
            status=CONFIRMED if choice.confirmed else PROPOSED if choice.proposed else UNAVAILABLE,
            reply=appointment_reply(choice, asked, new_ulid()),
            times=(choice.confirmed,) if choice.confirmed else choice.proposed,
            places=plan.places,
            vehicle_id=vehicle_id,
        )
        if choice.confirmed:
            return replace(decision, replaced=self._replaced_visits(alike))
        return self._without_booking(decision, alike)

    def refuse(self, request: Appointment, home: DealerRooftop | None) -> VisitDecision:
        """The decision that no time is free. It must not be stored."""
        kind = VISIT_KIND_OF[request.appointment_type]
        reply = AppointmentReply(appointment_id=new_ulid(), status=REJECTED)
        return VisitDecision(kind=kind, rooftop=self._rooftop(home, kind), status=UNAVAILABLE, reply=reply)

    def request_without_token(
        self, request: Appointment, home: DealerRooftop | None, earlier: Sequence[VisitRecord]
    ) -> VisitDecision:
        """Returns the decision about a visit that a sender without a token adds to a lead with the `earlier` visits.

        The visit is only `requested`, because anybody may have sent it: it changes no booked visit, and the response
        discloses none. A request that is sent again gets the visit of the first one (`existing`), and is stored once.
        """
        kind = VISIT_KIND_OF[request.appointment_type]
        same = [record for record in earlier if record.kind == kind and record.read_request() == request]
        existing = next((record for record in same if record.read_reply().status == REQUESTED), None)
        reply = AppointmentReply(appointment_id=new_ulid(), status=REQUESTED)
        return VisitDecision(
            kind=kind,
            rooftop=self._rooftop(home, kind),
            status=REQUESTED,
            reply=reply if existing is None else existing.read_reply(),
            existing=existing,
            answered_before=any(record.is_active for record in same),
        )

    def store(self, decision: VisitDecision, lead_id: str, request: Appointment) -> list[VisitRecord]:
        """Stores the visit, occupies its places and its vehicle, and ends the visits that it replaces.

        Returns the appraisals that were part of a replaced visit, moved to the new visit. Each appraisal gets a new id,
        because in calendars the time of an id never changes. Raises AlreadyStored if the last place or the vehicle was
        occupied meanwhile.
        """
        if decision.existing is not None:
            return []
        replaced = [record.appointment_id for record in decision.replaced]
        moved = self._moved_parts(decision, visits.sharing_places_of(self.tx, replaced))
        visits.end_visits(self.tx, replaced, REPLACED)
        slot = decision.confirmed
        record = VisitRecord(
            appointment_id=decision.reply.appointment_id,
            lead_id=lead_id,
            rooftop=decision.rooftop.name,
            kind=decision.kind,
            # An equal request has a visit already. The response must not say so to a sender that cannot prove who it
            # is, so this visit is stored as ended, and staff need not arrange it.
            status=REPLACED if decision.answered_before else decision.status,
            created_at=self.tx.now,
            cancelled_at=self.tx.now if decision.answered_before else None,
            reply=msgspec.json.encode(decision.reply),
            request=msgspec.json.encode(request),
            starts_at=slot.start if slot else None,
            ends_at=slot.end if slot else None,
            shares=decision.shares,
            vehicle_id=decision.vehicle_id,
        )
        visits.record_visit(self.tx, record)
        if slot is not None and decision.shares is None:
            visits.occupy_places(self.tx, record, quarters_of(slot), decision.places)
        for appraisal in moved:
            visits.record_visit(self.tx, appraisal)
        return moved

    def _rooftop(self, home: DealerRooftop | None, kind: VisitKind) -> DealerRooftop:
        return home or self.timetable.booking(kind) or self.timetable.first

    def _decide_repeated_request(
        self, record: VisitRecord, rooftop: DealerRooftop, alike: Sequence[VisitRecord]
    ) -> VisitDecision:
        """The decision for a request that equals an earlier one: the visit stays, and its reply is repeated."""
        assert record.status in (REQUESTED, PROPOSED, CONFIRMED, UNAVAILABLE), "it is active"
        place = self.timetable.rooftop(record.rooftop) or rooftop
        spans = [(slot.start, slot.end)] if (slot := record.slot) else record.proposed_times()
        return VisitDecision(
            kind=record.kind,
            rooftop=place,
            status=record.status,
            reply=record.read_reply(),
            times=tuple(slot_at(start, end or start, place.timezone) for start, end in spans),
            shares=record.shares,
            existing=record,
            kept=None if record.status == CONFIRMED else self._booked(alike),
        )

    def _without_booking(self, decision: VisitDecision, alike: Sequence[VisitRecord]) -> VisitDecision:
        ends = tuple(record for record in alike if record.status != CONFIRMED)
        return replace(decision, kept=self._booked(alike), replaced=ends)

    def _booked(self, alike: Sequence[VisitRecord]) -> Slot | None:
        return next((record.slot for record in reversed(alike) if self._is_ahead(record)), None)

    def _replaced_visits(self, alike: Sequence[VisitRecord]) -> tuple[VisitRecord, ...]:
        """The visits that a confirmed visit replaces: all but those that took place."""
        return tuple(record for record in alike if record.status != CONFIRMED or self._is_ahead(record))

    def _is_ahead(self, record: VisitRecord) -> bool:
        return record.state_at(self.tx.now) == "ahead"

    def _is_in_demand(self, vehicle_id: str | None) -> bool:
        return vehicle_id is not None and visits.count_drives(self.tx, vehicle_id) >= MOST_DRIVES

    def _are_all_free(self, proposal: VisitRecord, asked: RequestedTimes, plan: VisitPlan, busy: BusyQuarters) -> bool:
        times = (RequestedTimes((), start, asked.duration) for start, _ in proposal.proposed_times())
        return all(choose_time(time, plan, busy, self.tx.now).confirmed for time in times)

    def _part_of_drive(
        self, request: Appointment, home: DealerRooftop | None, drives: Iterable[visits.BookedVisit]
    ) -> VisitDecision | None:
        """An appraisal of the trade-in during a test drive that the customer has booked. None if no drive fits."""
        for drive in drives:
            rooftop = self.timetable.rooftop(drive.rooftop)
            if rooftop is None or home not in (None, rooftop):
                continue
            plan = self.timetable.plan(rooftop, "trade_in")
            asked = None if plan is None else requested_times(request, plan)
            start = None if asked is None else start_inside(asked, Slot(drive.starts_at, drive.ends_at))
            if asked is not None and start is not None and start >= self.tx.now:
                slot = slot_at(start, min(start + asked.duration, drive.ends_at), rooftop.timezone)
                return VisitDecision(
                    kind="trade_in",
                    rooftop=rooftop,
                    status=CONFIRMED,
                    reply=appointment_reply(TimeChoice(slot), asked, new_ulid()),
                    times=(slot,),
                    shares=drive.appointment_id,
                )
        return None

    def _moved_parts(self, decision: VisitDecision, parts: Iterable[VisitRecord]) -> list[VisitRecord]:
        """The appraisals that share a visit's places, moved to its new time."""
        slot = decision.confirmed
        if slot is None:
            return []
        moved = []
        for record in parts:
            time = record.slot
            assert time is not None, "a visit that shares places is confirmed"
            duration = time.end - time.start
            time = Slot(slot.start, min(slot.start + duration, slot.end))
            exact = record.read_reply().confirmed_at is not UNSET
            asked = RequestedTimes((), time.start if exact else None, duration)
            reply = appointment_reply(TimeChoice(time), asked, new_ulid())
            moved.append(
                replace(
                    record,
                    appointment_id=reply.appointment_id,
                    rooftop=decision.rooftop.name,
                    created_at=self.tx.now,
                    starts_at=time.start,
                    ends_at=time.end,
                    shares=decision.reply.appointment_id,
                    reply=msgspec.json.encode(reply),
                )
            )
        return moved


def find_unavailable(records: Iterable[VisitRecord], request: Appointment) -> VisitRecord | None:
    """The visit of this request that has no time and was not replaced."""
    unavailable = (record for record in records if record.status == UNAVAILABLE)
    return next((record for record in unavailable if record.read_request() == request), None)
