"""What a person decides about a lead that waits in quarantine (docs/protocol.md#quarantine).

A release does in its transaction what the arrival of the lead would have done, with all that came since then. A refusal
is final and silent. The caller holds the dealer's lock, and records who decided.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from dealer_agent.correctable import NotPossible
from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dealers.routing import deliveries_of
from dealer_agent.leads.records import StoredLead, VisitRecord
from dealer_agent.leads.statuses import CANCELLED, CONFIRMED, REFUSED, RELEASED, WAITING
from dealer_agent.storage.deliveries.outbox import enqueue, list_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import MOST_OF_LEAD
from dealer_agent.storage.leads.quarantine import decide, delete_additions
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.leads.visits import end_visits, give_own_places, make_requested, visits_of
from dealer_agent.storage.privacy.consents import refuse_consents
from dealer_agent.storage.transaction import Transaction
from dealer_agent.visits.notifications import IntakeContext, Notifications

LONGEST_REASON = 200


def reason_of(text: str) -> str:
    """The reason of a refusal on one line. Raises NotPossible for one that is missing or too long."""
    words = " ".join(text.split())
    if not 0 < len(words) <= LONGEST_REASON:
        raise NotPossible(f"write a reason of 1 to {LONGEST_REASON} characters")
    return words


class DecidedLead(NamedTuple):
    """A lead after a decision.

    `deliveries` is the number of its new deliveries. `passed` are the visits whose time passed while it waited: staff
    must arrange another one. `cancelled` are the visits that a refusal cancelled. `was_known`: staff had the lead
    before it waited.
    """

    lead_id: str
    deliveries: int = 0
    passed: tuple[VisitRecord, ...] = ()
    cancelled: tuple[VisitRecord, ...] = ()
    was_known: bool = False


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decides about waiting leads, in one transaction. `by` is the person.

    The methods return None, and change nothing, for a lead that does not wait: somebody else has decided about it, or
    its customer was erased.
    """

    tx: Transaction
    context: IntakeContext
    by: str

    def release(self, lead_id: str) -> DecidedLead | None:
        """Sends the lead to its receivers, with all additions, and mails its customer about visits to come."""
        lead = self._find_waiting_lead(lead_id)
        if lead is None or not decide(self.tx, lead_id, RELEASED, by=self.by):
            return None
        passed = self._visits_since_waiting(lead, lambda visit: visit.status == CONFIRMED and not self._is_ahead(visit))
        give_own_places(self.tx, [visit.appointment_id for visit in passed], [lead_id])
        for visit in passed:
            make_requested(self.tx, visit)
        visits = [visit for visit in visits_of(self.tx, lead_id) if visit.is_active]
        sent = list_deliveries(self.tx, MOST_OF_LEAD, lead_id=lead_id)
        made = self._deliver(lead, visits, has_some=bool(sent))
        notifications = Notifications(self.tx, self.context)
        if notifications.may_mail(lead):
            mailed = {each.event_id for each in sent if each.kind == "confirm"}
            for visit in visits:
                if self._is_ahead(visit) and visit.appointment_id not in mailed:
                    notifications.mail("confirm", lead_id, self._rooftop(visit.rooftop), visit.appointment_id)
                    made += 1
        return DecidedLead(lead_id, made, passed, was_known=_was_known(lead))

    def refuse(self, lead_id: str, why: str) -> DecidedLead | None:
        """Cancels the visits that the lead requested, and notifies nobody. The lead stays until its disposal.

        Of a lead that staff had before it waited, only what came since then is refused, and deleted. The consents that
        came with it allow nothing.
        """
        lead = self._find_waiting_lead(lead_id)
        if lead is None:
            return None
        staff_had_it = _was_known(lead)
        if not decide(self.tx, lead_id, None if staff_had_it else REFUSED, by=self.by, why=why):
            return None
        cancelled = self._visits_since_waiting(lead, lambda visit: visit.is_active)
        ids = [visit.appointment_id for visit in cancelled]
        give_own_places(self.tx, ids, [lead_id])
        end_visits(self.tx, ids, CANCELLED)
        if staff_had_it:
            delete_additions(self.tx, lead_id, _quarantined_at(lead))
            refuse_consents(self.tx, lead_id, _quarantined_at(lead), by=self.by, reason=why)
        return DecidedLead(lead_id, cancelled=cancelled, was_known=staff_had_it)

    def _find_waiting_lead(self, lead_id: str) -> StoredLead | None:
        lead = get_lead(self.tx, lead_id)
        return lead if lead is not None and lead.lead.quarantine == WAITING else None

    def _deliver(self, lead: StoredLead, visits: Iterable[VisitRecord], *, has_some: bool) -> int:
        """Adds the deliveries to the rooftop of the lead and those of its visits. Returns their number."""
        lead_id, names = lead.lead.lead_id, (lead.lead.rooftop, *(visit.rooftop for visit in visits))
        rooftops = {rooftop.name: rooftop for rooftop in map(self._rooftop, names)}.values()
        if has_some and lead.events:
            return Notifications(self.tx, self.context).send_again(lead_id, lead.events[-1].event_id, rooftops)
        return len(enqueue(self.tx, lead_id, [row for rooftop in rooftops for row in deliveries_of(rooftop)]))

    def _visits_since_waiting(self, lead: StoredLead, of: Callable[[VisitRecord], bool]) -> tuple[VisitRecord, ...]:
        """The visits that the lead requested since it waits, and for which `of` is true."""
        visits = visits_of(self.tx, lead.lead.lead_id)
        return tuple(visit for visit in visits if visit.created_at >= _quarantined_at(lead) and of(visit))

    def _is_ahead(self, visit: VisitRecord) -> bool:
        return visit.state_at(self.tx.now) == "ahead"

    def _rooftop(self, name: str) -> DealerRooftop:
        return self.context.timetable.rooftop(name) or self.context.timetable.first


def _quarantined_at(lead: StoredLead) -> datetime:
    assert lead.lead.quarantined_at is not None, "it has waited"
    return lead.lead.quarantined_at


def _was_known(lead: StoredLead) -> bool:
    """Whether staff had the lead before it waited."""
    return lead.lead.received_at < _quarantined_at(lead)
