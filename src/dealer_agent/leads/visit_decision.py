"""The decision about a requested visit, and the documents in its record. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.local_time import with_offset
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.leads.statuses import CONFIRMED, ActiveStatus
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.formats import parse_timestamp
from dealer_agent.protocol.requests import Appointment, VisitKind
from dealer_agent.protocol.responses import AppointmentReply


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitAnswer:
    """The answer to a requested visit.

    `times` is the confirmed time, or the proposed ones. `kept` is an earlier visit that stays because this one was not
    booked. `moved` is an earlier one that this one replaces. `within`: it is part of the customer's test drive.
    """

    kind: VisitKind
    status: ActiveStatus
    times: Sequence[Slot] = ()
    kept: Slot | None = None
    moved: Slot | None = None
    within: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitDecision:
    """The decision about a requested visit, before anything is stored.

    `times` is the confirmed time, or the proposed ones. `existing` is an earlier visit with the same request and reply;
    then nothing is stored. `kept` is an earlier confirmed visit that stays. `replaced` are the visits that end.
    `within` is the test drive that an appraisal is part of.

    `answered_before`: an equal request already has an active visit, so staff need not arrange this one. A sender
    without a token must not learn its time.
    """

    kind: VisitKind
    rooftop: DealerRooftop
    status: ActiveStatus
    reply: AppointmentReply
    times: tuple[Slot, ...] = ()
    places: int = 0
    within: str | None = None
    existing: AppointmentRecord | None = None
    kept: AppointmentRecord | None = None
    replaced: tuple[AppointmentRecord, ...] = ()
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
    def answer(self) -> VisitAnswer:
        """The facts about the visit for the text of the reply."""
        confirmed = self.confirmed
        moved = [each for each in self.replaced if confirmed and each.starts_at not in (None, confirmed.start)]
        return VisitAnswer(
            kind=self.kind,
            status=self.status,
            times=self.times,
            kept=time_of(self.kept) if self.kept else None,
            moved=time_of(moved[-1]) if moved else None,
            within=self.within is not None,
        )


def time_of(record: AppointmentRecord) -> Slot | None:
    """The confirmed time of a visit."""
    return None if record.starts_at is None or record.ends_at is None else Slot(record.starts_at, record.ends_at)


def request_of(record: AppointmentRecord) -> Appointment | None:
    """The request of a visit. None if the customer is erased."""
    return None if record.request is None else msgspec.json.decode(record.request, type=Appointment)


def reply_of(record: AppointmentRecord) -> AppointmentReply:
    """The reply to the request of a visit."""
    return msgspec.json.decode(record.reply, type=AppointmentReply)


def proposed_starts(record: AppointmentRecord) -> list[datetime]:
    """The starts of the proposed times."""
    reply = reply_of(record)
    texts = reply.proposed_times or [slot.start for slot in reply.proposed_slots or ()]
    return [moment for text in texts if (moment := parse_timestamp(text)) is not None]


def slot_at(start: datetime, end: datetime, rooftop: DealerRooftop) -> Slot:
    """A time with the offsets of the rooftop's zone."""
    zone = ZoneInfo(rooftop.timezone)
    return Slot(with_offset(start, zone), with_offset(end, zone))
