"""Makes what is sent from what is stored, when it is sent: the outbox itself holds nothing of a lead."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.outlet import NotDelivered, NotToBeSent, Parcel
from dealer_agent.delivery.view import lead_view
from dealer_agent.leads.lead_view import LeadView
from dealer_agent.protocol.formats import normal_email
from dealer_agent.storage.outbox import DueDelivery
from dealer_agent.storage.store import Store
from dealer_agent.vault.errors import VaultError

MOST_MAILS = 5
"""Confirmations to one address in MAILS_WITHIN, and as many cancellations; see docs/delivery.md."""
MAILS_WITHIN = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Parcels:
    """The parcels of one dealer."""

    store: Store
    profile: Profile

    def of(self, delivery: DueDelivery) -> Parcel:
        """The lead as it stands now. Raises NotToBeSent, NotDelivered and StorageError."""
        try:
            lead = self.store.whole_lead(self.profile.id, delivery.lead_id, datetime.now(UTC))
        except VaultError as failure:
            raise NotDelivered(f"the customer's data cannot be opened: {failure}", channel_ails=False) from None
        if lead is None or lead.stored.lead.erased_at is not None:
            raise NotToBeSent("the customer's data was erased")
        resend = delivery.kind == "resend"
        # What happened to a lead that is with the CRM already goes there, and says that nobody may be contacted.
        if not lead.channels and not resend:
            raise NotToBeSent("the customer agrees to no channel any more")
        again = resend or (delivery.kind == "notify" and delivery.event_id is not None)
        view = lead_view(lead, self.profile, resend=again, because_of=delivery.event_id)
        if delivery.kind in TO_CUSTOMER:
            self._check_mails(delivery, view, lead.stored.lead.token_id)
        return Parcel(delivery.delivery_id, view, delivery.event_id, delivery.kind)

    def _check_mails(self, delivery: DueDelivery, view: LeadView, token_id: str | None) -> None:
        """Raises NotToBeSent when the address got too many mails: anybody can ask for visits with any address."""
        email = normal_email(view.customer.email or "")
        before = self.store.mails_before(self.profile.id, delivery, email, token_id, MAILS_WITHIN) if email else 0
        if before >= MOST_MAILS:
            raise NotToBeSent(f"this address got {MOST_MAILS} such mails within 24 hours")
