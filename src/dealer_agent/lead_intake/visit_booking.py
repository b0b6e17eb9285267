"""Visits on the writer's transaction: which time is given, what it takes the place of, which places it takes.

Looking and writing are apart, because a lead's row must be there before its visit's. Both happen under the dealer's
lock; should two processes ever look at one moment, the places' primary key decides, and the whole job runs again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.lead_intake.availability import Availability, Without
from dealer_agent.leads.answer_message import VisitAnswer
from dealer_agent.leads.local_time import with_offset
from dealer_agent.leads.timetable import Timetable
from dealer_agent.leads.visit_times import (
    RequestedTimes,
    Slot,
    TimeChoice,
    VisitPlan,
    appointment_reply,
    bookable_span,
    choose_time,
    fits_inside,
    quarters_of,
    requested_times,
)
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.protocol.requests import VISIT_KIND_OF, Appointment, VisitKind
from dealer_agent.protocol.responses import AppointmentReply
from dealer_agent.storage import appointments as stored
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a visit asked for, before anything of it is written.

    `standing` is an earlier visit that was asked for and answered just so: nothing is written then. `times` is the
    confirmed time, or those proposed. `kept` is an earlier confirmed visit that stays, `replaced` are those that end.
    `within` is the test drive that the visit is part of. `answered_before`: the same was asked for and answered with a
    time, and the sender, who showed no token, is not told; nobody needs to arrange it.
    """

    kind: VisitKind
    rooftop: DealerRooftop
    status: Literal["requested", "proposed", "confirmed", "unavailable"]
    reply: AppointmentReply
    times: tuple[Slot, ...] = ()
    places: int = 0
    within: str | None = None
    standing: AppointmentRecord | None = None
    kept: AppointmentRecord | None = None
    replaced: tuple[AppointmentRecord, ...] = ()
    answered_before: bool = False

    @property
    def confirmed(self) -> Slot | None:
        """The time that is the customer's."""
        return self.times[0] if self.status == "confirmed" else None

    @property
    def moved(self) -> AppointmentRecord | None:
        """The confirmed visit that this one takes the place of, at another time."""
        if self.confirmed is None:
            return None
        booked = [earlier for earlier in self.replaced if earlier.starts_at not in (None, self.confirmed.start)]
        return booked[-1] if booked else None

    @property
    def answer(self) -> VisitAnswer:
        """What the message to the customer says of the visit."""
        return VisitAnswer(
            kind=self.kind,
            status=self.status,
            times=self.times,
            kept=_time_of(self.kept),
            moved=_time_of(self.moved),
            within=self.within is not None,
        )


@dataclass(frozen=True, slots=True)
class VisitBooking:
    """One dealer's visits at one moment, on one transaction."""

    tx: Transaction
    timetable: Timetable

    def decide(
        self,
        request: Appointment,
        home: DealerRooftop | None,
        earlier: Sequence[AppointmentRecord] = (),
        *,
        test_drives: Callable[[], Iterable[stored.Booked]],
    ) -> Decision:
        """What a customer who asks for a visit gets, with the lead's `earlier` visits in mind.

        `home` is the rooftop of the vehicle, or the buyer's choice; without one, the first that books such visits.
        `test_drives` finds the customer's own, of which an appraisal may be part. Another kind of visit is another
        visit: it stands beside the earlier ones.
        """
        kind = VISIT_KIND_OF[request.appointment_type]
        rooftop = self._place(home, kind)
        alike = [record for record in earlier if record.is_active and record.kind == kind]
        same = next((record for record in reversed(alike) if _request_of(record) == request), None)
        if same is not None and (same.status == "requested" or self._is_not_over(same)):
            return self._again(same, rooftop, alike)
        if kind == "trade_in" and (part := self._part_of(request, home, test_drives())) is not None:
            return replace(part, replaced=self._ending(alike))
        plan = self.timetable.plan(rooftop, kind)
        asked = None if plan is None else requested_times(request, plan)
        if plan is None or asked is None:
            made = AppointmentReply(appointment_id=new_ulid(), status="requested")
            decision = Decision(kind=kind, rooftop=rooftop, status="requested", reply=made)
            return self._beside(decision, alike)
        busy = Availability(self.tx, rooftop.name, kind, bookable_span(asked, plan, self.tx.now))
        if same is not None and same.status == "proposed" and self._all_free(same, asked, plan, busy):
            return self._again(same, rooftop, alike)
        booked = [record for record in alike if self._is_ahead(record)]
        own = [record for record in booked if record.rooftop == rooftop.name]
        outcome = choose_time(asked, plan, Without(busy, own) if own else busy, self.tx.now)
        if outcome.confirmed is None and booked:
            # What the customer holds already is no proposal.
            outcome = choose_time(asked, plan, busy, self.tx.now)
        if outcome.confirmed is None and not outcome.proposed and same is not None and same.status == "unavailable":
            return self._again(same, rooftop, alike)
        decision = Decision(
            kind=kind,
            rooftop=rooftop,
            status="confirmed" if outcome.confirmed else "proposed" if outcome.proposed else "unavailable",
            reply=appointment_reply(outcome, asked, new_ulid()),
            times=(outcome.confirmed,) if outcome.confirmed else outcome.proposed,
            places=plan.places,
        )
        return replace(decision, replaced=self._ending(alike)) if outcome.confirmed else self._beside(decision, alike)

    def refuse(self, request: Appointment, home: DealerRooftop | None) -> Decision:
        """A visit for which no time can be had. Nothing of it is to be written."""
        kind = VISIT_KIND_OF[request.appointment_type]
        rooftop = self._place(home, kind)
        answered = AppointmentReply(appointment_id=new_ulid(), status="rejected")
        return Decision(kind=kind, rooftop=rooftop, status="unavailable", reply=answered)

    def note(self, request: Appointment, home: DealerRooftop | None, earlier: Sequence[AppointmentRecord]) -> Decision:
        """A visit that a sender without a token asks for, whose lead has `earlier` visits: it is `requested`.

        Nothing that is booked changes, or shows in the answer. Asked for twice, it is noted once.
        """
        kind = VISIT_KIND_OF[request.appointment_type]
        same = [record for record in earlier if record.kind == kind and _request_of(record) == request]
        noted = next((record for record in same if _answered(record).status == "requested"), None)
        requested = AppointmentReply(appointment_id=new_ulid(), status="requested")
        return Decision(
            kind=kind,
            rooftop=self._place(home, kind),
            status="requested",
            reply=requested if noted is None else _answered(noted),
            standing=noted,
            answered_before=any(record.is_active for record in same),
        )

    def write(self, decision: Decision, lead_id: str, request: Appointment) -> list[AppointmentRecord]:
        """Stores the visit and takes its places, in the place of those that it replaces.

        Returns the appraisals that were part of a replaced visit and moved with it, each as a visit of its own that
        takes the place of the one before: what people and calendars know by an id keeps its time. Raises AlreadyStored
        when another one took the last place meanwhile.
        """
        if decision.standing is not None:
            return []
        replaced = [record.appointment_id for record in decision.replaced]
        moved = self._moved_with(decision, stored.sharing(self.tx, replaced))
        stored.end_appointments(self.tx, replaced, "replaced")
        slot = decision.confirmed
        record = AppointmentRecord(
            appointment_id=decision.reply.appointment_id,
            lead_id=lead_id,
            rooftop=decision.rooftop.name,
            kind=decision.kind,
            status="replaced" if decision.answered_before else decision.status,
            created_at=self.tx.now,
            cancelled_at=self.tx.now if decision.answered_before else None,
            reply=msgspec.json.encode(decision.reply),
            request=msgspec.json.encode(request),
            starts_at=slot.start if slot else None,
            ends_at=slot.end if slot else None,
            shares=decision.within,
        )
        stored.record_appointment(self.tx, record)
        if slot is not None and decision.within is None:
            stored.take_places(self.tx, record, quarters_of(slot), decision.places)
        for appraisal in moved:
            stored.record_appointment(self.tx, appraisal)
        return moved

    def _place(self, home: DealerRooftop | None, kind: VisitKind) -> DealerRooftop:
        return home or self.timetable.taking(kind) or self.timetable.first

    def _again(self, record: AppointmentRecord, rooftop: DealerRooftop, alike: Sequence[AppointmentRecord]) -> Decision:
        """The answer that was given before."""
        assert record.status in ("requested", "proposed", "confirmed", "unavailable"), "it stands"
        answered = _answered(record)
        place = self.timetable.rooftop(record.rooftop) or rooftop
        if record.starts_at is not None and record.ends_at is not None:
            times: tuple[Slot, ...] = (_slot(record.starts_at, record.ends_at, place),)
        else:
            times = tuple(_slot(start, start, place) for start in _proposed(answered))
        return Decision(
            kind=record.kind,
            rooftop=place,
            status=record.status,
            reply=answered,
            times=times,
            within=record.shares,
            standing=record,
            kept=None if record.status == "confirmed" else self._booked(alike),
        )

    def _beside(self, decision: Decision, alike: Sequence[AppointmentRecord]) -> Decision:
        """A decision that books nothing: what was booked stays, what was only asked for or proposed ends."""
        ends = tuple(record for record in alike if record.status != "confirmed")
        return replace(decision, kept=self._booked(alike), replaced=ends)

    def _booked(self, alike: Sequence[AppointmentRecord]) -> AppointmentRecord | None:
        """The confirmed visit that lies ahead."""
        return next((record for record in reversed(alike) if self._is_ahead(record)), None)

    def _ending(self, alike: Sequence[AppointmentRecord]) -> tuple[AppointmentRecord, ...]:
        """What a newly confirmed visit takes the place of: all that stands, but for visits that took place."""
        return tuple(record for record in alike if record.status != "confirmed" or self._is_ahead(record))

    def _is_ahead(self, record: AppointmentRecord) -> bool:
        return record.status == "confirmed" and record.starts_at is not None and record.starts_at > self.tx.now

    def _is_not_over(self, record: AppointmentRecord) -> bool:
        return record.status == "confirmed" and record.ends_at is not None and record.ends_at > self.tx.now

    def _all_free(
        self, proposal: AppointmentRecord, asked: RequestedTimes, plan: VisitPlan, busy: Availability
    ) -> bool:
        """Whether every time that was proposed can still be had."""
        starts = _proposed(_answered(proposal))
        return all(
            choose_time(RequestedTimes((), start, asked.duration), plan, busy, self.tx.now).confirmed
            for start in starts
        )

    def _part_of(
        self, request: Appointment, home: DealerRooftop | None, drives: Iterable[stored.Booked]
    ) -> Decision | None:
        """The appraisal as part of one of the customer's test drives, where its time lies in one."""
        for drive in drives:
            rooftop = self.timetable.rooftop(drive.rooftop)
            if rooftop is None or home not in (None, rooftop):
                continue
            plan = self.timetable.plan(rooftop, "trade_in")
            asked = None if plan is None else requested_times(request, plan)
            around = Slot(drive.starts_at, drive.ends_at)
            if asked is None or not fits_inside(asked, around):
                continue
            start = _start_within(asked, around)
            if start >= self.tx.now:
                slot = _slot(start, min(start + asked.duration, drive.ends_at), rooftop)
                return Decision(
                    kind="trade_in",
                    rooftop=rooftop,
                    status="confirmed",
                    reply=appointment_reply(TimeChoice(slot), asked, new_ulid()),
                    times=(slot,),
                    within=drive.appointment_id,
                )
        return None

    def _moved_with(self, decision: Decision, parts: Iterable[AppointmentRecord]) -> list[AppointmentRecord]:
        """The appraisals that are part of a replaced visit, at the time and the place of the new one."""
        slot = decision.confirmed
        if slot is None:
            # Nothing that is booked is replaced then.
            return []
        moved = []
        for record in parts:
            assert record.starts_at is not None, "what shares a visit is confirmed"
            assert record.ends_at is not None, "what shares a visit is confirmed"
            duration = record.ends_at - record.starts_at
            time = Slot(slot.start, min(slot.start + duration, slot.end))
            answered = _answered(record)
            asked = RequestedTimes((), None if answered.confirmed_at is UNSET else time.start, duration)
            told = appointment_reply(TimeChoice(time), asked, new_ulid())
            moved.append(
                replace(
                    record,
                    appointment_id=told.appointment_id,
                    rooftop=decision.rooftop.name,
                    created_at=self.tx.now,
                    starts_at=time.start,
                    ends_at=time.end,
                    shares=decision.reply.appointment_id,
                    reply=msgspec.json.encode(told),
                )
            )
        return moved


def unavailable(records: Iterable[AppointmentRecord], request: Appointment) -> AppointmentRecord | None:
    """The visit that was asked for just so and has no time, unless another took its place."""
    return next(
        (
            record
            for record in records
            if record.is_active and record.status == "unavailable" and _request_of(record) == request
        ),
        None,
    )


def _time_of(record: AppointmentRecord | None) -> Slot | None:
    if record is None or record.starts_at is None or record.ends_at is None:
        return None
    return Slot(record.starts_at, record.ends_at)


def _request_of(record: AppointmentRecord) -> Appointment | None:
    return None if record.request is None else msgspec.json.decode(record.request, type=Appointment)


def _answered(record: AppointmentRecord) -> AppointmentReply:
    return msgspec.json.decode(record.reply, type=AppointmentReply)


def _proposed(answered: AppointmentReply) -> list[datetime]:
    """The beginnings of the times that were proposed."""
    texts = answered.proposed_times or [slot.start for slot in answered.proposed_slots or ()]
    moments = [parse_timestamp(text) for text in texts]
    return [moment for moment in moments if moment is not None]


def _slot(start: datetime, end: datetime, rooftop: DealerRooftop) -> Slot:
    zone = ZoneInfo(rooftop.timezone)
    return Slot(with_offset(start, zone), with_offset(end, zone))


def _start_within(asked: RequestedTimes, around: Slot) -> datetime:
    """When the visit that fits begins."""
    if asked.at is not None:
        return asked.at
    overlapping = (start for start, end in asked.windows if max(start, around.start) < min(end, around.end))
    return max(next(overlapping), around.start)
