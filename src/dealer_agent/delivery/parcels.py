"""Makes what is sent from what is stored, when it is sent: the outbox itself holds nothing of a lead."""

from dataclasses import dataclass
from datetime import UTC, datetime

from dealer_agent.dealers.profile import Profile
from dealer_agent.delivery.outlet import NotDelivered, NotToBeSent, Parcel
from dealer_agent.delivery.view import lead_view
from dealer_agent.storage.outbox import DueDelivery
from dealer_agent.storage.store import Store
from dealer_agent.vault.errors import VaultError


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
        return Parcel(delivery.delivery_id, view, delivery.event_id, delivery.kind)
