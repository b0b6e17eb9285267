"""Who hears of what happened to a lead that is stored: rows of the outbox, in the transaction in which it happens."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from dealer_agent.dealers.profile import DealerRooftop
from dealer_agent.dealers.routing import CustomerKind, deliveries_of, mail_to_customer
from dealer_agent.lead_intake.allowed_contact_points import channels_of
from dealer_agent.lead_intake.lead_history import Changes, LeadHistory, VisitAsked
from dealer_agent.leads.timetable import Timetable
from dealer_agent.storage.appointments import AppointmentRecord
from dealer_agent.storage.leads import StoredLead, append_to_lead, get_lead
from dealer_agent.storage.outbox import enqueue, waiting
from dealer_agent.storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Notifications:
    """One dealer's outbox at one moment, on one transaction."""

    tx: Transaction
    timetable: Timetable
    confirms_by_mail: bool

    def send_again(self, lead_id: str, event_id: str, rooftops: Iterable[DealerRooftop]) -> None:
        """To the channels and the people of these rooftops, because of `event_id`.

        Not where the lead waits untried: it is made when it is sent, with everything until then. What was tried keeps
        its bytes, so the addition follows it as a delivery of its own.
        """
        waits = waiting(self.tx, lead_id)
        untried = {address for address, one in waits.items() if one.untried}
        rows = [
            row
            for rooftop in {rooftop.name: rooftop for rooftop in rooftops}.values()
            for row in deliveries_of(rooftop, event_id=event_id)
            if (row.rooftop, row.channel) not in untried
        ]
        enqueue(self.tx, lead_id, rows, waits)

    def mail(self, kind: CustomerKind, lead_id: str, rooftop: DealerRooftop, appointment_id: str) -> None:
        """To the customer, who may be written to."""
        row = mail_to_customer(kind, rooftop, appointment_id)
        waits = waiting(self.tx, lead_id)
        enqueue(self.tx, lead_id, [row], waits)

    def tell_of_visit(self, kind: CustomerKind, lead: StoredLead, visit: AppointmentRecord, event_id: str) -> bool:
        """Everybody whom a visit of the lead's concerns: its own rooftop, that of the visit, and the customer.

        Returns whether the customer gets a mail: only of a visit with a time, where mails are configured and consent
        allows them. Of a lead whose customer is forgotten nobody is told.
        """
        if lead.lead.customer is None:
            return False
        there = self.timetable.rooftop(visit.rooftop) or self.timetable.first
        home = self.timetable.rooftop(lead.lead.rooftop) or there
        self.send_again(lead.lead.lead_id, event_id, (home, there))
        by_mail = visit.starts_at is not None and self._may_mail(lead)
        if by_mail:
            self.mail(kind, lead.lead.lead_id, there, visit.appointment_id)
        return by_mail

    def _may_mail(self, lead: StoredLead) -> bool:
        if not self.confirms_by_mail or LeadHistory.of(lead).customer.email is UNSET:
            return False
        return "email" in channels_of(lead, self.tx.now)


def tell_of_change(telling: Notifications, visit: AppointmentRecord) -> None:
    """Adds a confirmed visit that took the place of another to its lead, and tells everybody whom it concerns."""
    assert visit.request is not None, "it was read with its request"
    asked = msgspec.json.decode(b'{"request":%b,"reply":%b}' % (visit.request, visit.reply), type=VisitAsked)
    event = msgspec.json.encode(Changes(appointment=asked))
    event_id = append_to_lead(telling.tx, visit.lead_id, event)
    lead = get_lead(telling.tx, visit.lead_id)
    assert lead is not None, "a visit belongs to a lead"
    telling.tell_of_visit("confirm", lead, visit, event_id)
