"""Adds deliveries about a stored lead to the outbox, in the transaction of the change that they report."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.dealers.routing import CustomerKind, deliveries_of, mail_to_customer
from dealer_agent.leads.consent import EMAIL, channels_of
from dealer_agent.leads.records import Addition, LeadContent, RequestedVisit, StoredLead, VisitRecord
from dealer_agent.leads.timetable import Timetable
from dealer_agent.storage.deliveries.outbox import enqueue, waiting
from dealer_agent.storage.leads.quarantine import quarantine_lead
from dealer_agent.storage.leads.stored_leads import append_to_lead, get_lead
from dealer_agent.storage.transaction import Transaction


class IntakeContext(NamedTuple):
    """What all transactions of a dealer's leads need. `confirms_by_mail`: customers get mails about their visits."""

    profile: Profile
    timetable: Timetable
    confirms_by_mail: bool


@dataclass(frozen=True, slots=True)
class Notifications:
    """Adds deliveries about leads and visits to the outbox, in one transaction."""

    tx: Transaction
    context: IntakeContext

    def send_again(
        self, lead_id: str, event_id: str, rooftops: Iterable[DealerRooftop], *, to_staff: bool = True
    ) -> int:
        """Sends a lead again to the channels of these rooftops, and `to_staff`, because of the event.

        Returns the number of new deliveries.

        A receiver whose delivery was not attempted yet gets no second delivery: the document is made from the rows at
        the first attempt. A document that was attempted does not change, so another delivery follows it.
        """
        waits = waiting(self.tx, lead_id)
        rows = [
            row
            for rooftop in {rooftop.name: rooftop for rooftop in rooftops}.values()
            for row in deliveries_of(rooftop, event_id=event_id)
            if (to_staff or row.kind != "notify")
            and ((found := waits.get((row.rooftop, row.channel))) is None or not found.untried)
        ]
        return len(enqueue(self.tx, lead_id, rows, waits))

    def mail(self, kind: CustomerKind, lead_id: str, rooftop: DealerRooftop, appointment_id: str) -> None:
        """Sends a mail to the customer, who consents to e-mail."""
        enqueue(self.tx, lead_id, [mail_to_customer(kind, rooftop, appointment_id)], waiting(self.tx, lead_id))

    def notify(self, kind: CustomerKind | None, visit: VisitRecord, event_id: str) -> bool:
        """Sends a visit's lead again to its rooftop and that of the visit, and a mail to the customer.

        With `kind` None, only the channels to CRMs get it: neither the staff nor the customer. Returns whether the
        customer gets a mail: only about a visit with a time, if mails are configured and consent allows them. Sends
        nothing if the customer is erased, or the lead waits in quarantine or was refused there.
        """
        lead = get_lead(self.tx, visit.lead_id)
        assert lead is not None, "a visit belongs to a lead"
        if lead.lead.customer is None or lead.lead.is_kept_from_staff:
            return False
        timetable = self.context.timetable
        rooftop = timetable.rooftop(visit.rooftop) or timetable.first
        home = timetable.rooftop(lead.lead.rooftop) or rooftop
        self.send_again(visit.lead_id, event_id, (home, rooftop), to_staff=kind is not None)
        if kind is None or visit.starts_at is None or not self.may_mail(lead):
            return False
        self.mail(kind, visit.lead_id, rooftop, visit.appointment_id)
        return True

    def add_moved_visit(self, visit: VisitRecord, *, notify: bool = True, quarantined: bool = False) -> bool:
        """Appends a confirmed visit to its lead, and notifies about it. It replaces another visit, or a part of one.

        `notify`: the channels get the lead again, and the customer a mail. `quarantined`: a sender in quarantine caused
        the change, so the lead of the visit waits in quarantine too. Returns whether the customer gets a mail.
        """
        request = visit.read_request()
        assert request is not None, "it was read with its request"
        addition = msgspec.json.encode(Addition(appointment=RequestedVisit(request, visit.read_reply())))
        event_id = append_to_lead(self.tx, visit.lead_id, addition)
        if quarantined:
            quarantine_lead(self.tx, visit.lead_id)
        return notify and self.notify("confirm", visit, event_id)

    def may_mail(self, lead: StoredLead) -> bool:
        """Whether the customer gets mails about visits: they are configured, and the consent allows them."""
        if not self.context.confirms_by_mail or LeadContent.of(lead).customer.email is UNSET:
            return False
        return EMAIL in channels_of(lead, self.tx.now)
