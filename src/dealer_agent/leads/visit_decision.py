"""The decision about a requested visit. Pure."""

from dataclasses import dataclass

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.leads.records import AppointmentRecord
from dealer_agent.leads.statuses import CONFIRMED, ActiveStatus
from dealer_agent.leads.visit_times import Slot
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.protocol.responses import AppointmentReply


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitDecision:
    """The decision about a requested visit, before anything is stored.

    `times` is the confirmed time, or the proposed ones. `places` is the number of places of the rooftop; None if the
    visit gets one more in any case. `existing` is an earlier visit with the same request and reply; then nothing is
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
    existing: AppointmentRecord | None = None
    kept: Slot | None = None
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
    def moved_from(self) -> Slot | None:
        """The other time of the last visit that a confirmed one replaces."""
        earlier = (record.slot for record in reversed(self.replaced))
        return next((slot for slot in earlier if self.confirmed and slot and slot.start != self.confirmed.start), None)
