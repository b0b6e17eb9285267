"""Decides, from what is stored at the time of sending, what a delivery contains and whether it may be sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple, cast

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.errors import DeliveryDropped, NeedsNewId, NotDelivered
from dealer_agent.delivery.outlet import DeliveryContent
from dealer_agent.delivery.view import ended_visit, erased_lead, lead_view
from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.leads.lead_view import DeliveredMessage, LeadView
from dealer_agent.protocol.formats import normal_email
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.consents import ConsentEvent
from dealer_agent.storage.lead_record import LeadToDeliver, lead_to_deliver
from dealer_agent.storage.outbox import DueDelivery, count_mails_before
from dealer_agent.storage.sent_deliveries import StoredDocument
from dealer_agent.storage.store import Store

MOST_MAILS = 5
"""Confirmations to one address in MAILS_WITHIN, and as many cancellations; see docs/reference/delivery.md."""
MAILS_WITHIN = timedelta(hours=24)


class Planned(NamedTuple):
    """What to send: `kept`, which the first attempt sent, or what is made of `parcel` (as of `StoredDocument`)."""

    parcel: DeliveryContent
    kept: StoredDocument | None
    needs: tuple[str, ...]
    first: bool

    def document(self, content: bytes) -> StoredDocument:
        """The document of the first attempt, to be kept."""
        return StoredDocument(content, self.needs, self.first)


@dataclass(frozen=True, slots=True)
class DeliveryContents:
    """The parcels of one dealer."""

    store: Store
    profile: Profile

    def of(self, delivery: DueDelivery) -> Planned:
        """What to send now. Raises DeliveryDropped, NeedsNewId, NotDelivered and StorageError."""
        try:
            with self.store.read(self.profile.id) as tx:
                found = lead_to_deliver(tx, delivery)
        except EncryptionError as failure:
            raise NotDelivered(f"the customer's data cannot be opened: {failure}", channel_failed=False) from None
        message = self._message(delivery, found)
        needs: tuple[str, ...] = ()
        if isinstance(message, LeadView) and delivery.kind in TO_CUSTOMER:
            self._check_mails(delivery, message, found)
            needs = (message.customer.email or "",)
        elif isinstance(message, LeadView):
            needs = message.channels
        if found.document is not None:
            _check_kept(found, found.document, needs)
        first = isinstance(message, LeadView) and not message.resend
        parcel = DeliveryContent(delivery.delivery_id, message, delivery.event_id, delivery.kind)
        return Planned(parcel, found.document, needs, first)

    def _message(self, delivery: DueDelivery, found: LeadToDeliver) -> DeliveredMessage:
        lead = found.lead
        if lead is None:
            raise DeliveryDropped("there is no such lead")
        if delivery.kind == "erasure":
            return erased_lead(lead, self.profile, delivery.rooftop)
        if delivery.kind == "visit_cancelled":
            visit = next((each for each in lead.visits if each.appointment_id == delivery.event_id), None)
            if visit is None:
                raise DeliveryDropped("there is no such visit")
            return ended_visit(visit, self.profile)
        if lead.stored.lead.erased_at is not None:
            raise DeliveryDropped("the customer's data was erased")
        if delivery.kind == "withdrawal":
            withdrawn = _withdrawn(lead.stored.consents, delivery.event_id)
            return lead_view(lead, self.profile, resend=True, withdrawn=withdrawn)
        return lead_view(lead, self.profile, resend=found.history.arrived, because_of=delivery.event_id)

    def _check_mails(self, delivery: DueDelivery, view: LeadView, found: LeadToDeliver) -> None:
        """Raises DeliveryDropped if the address got too many mails: anybody can ask for visits with any address."""
        assert found.lead is not None, "a view is of a lead"
        email, token_id = normal_email(view.customer.email or ""), found.lead.stored.lead.token_id
        if not email:
            return
        with self.store.read(self.profile.id) as tx:
            before = count_mails_before(tx, delivery, email, token_id, MAILS_WITHIN)
        if before >= MOST_MAILS:
            raise DeliveryDropped(f"this address got {MOST_MAILS} such mails within 24 hours")


def _check_kept(found: LeadToDeliver, kept: StoredDocument, allowed: Sequence[str]) -> None:
    """Checks whether the document of the first attempt may be sent again. Raises DeliveryDropped and NeedsNewId."""
    if found.history.superseded:
        raise DeliveryDropped("a later delivery of this lead, with all of it, has arrived")
    if not set(kept.needs).issubset(allowed):
        raise NeedsNewId("what may be sent has changed: sent again under another id")
    if kept.first and found.history.arrived:
        raise NeedsNewId("the lead has arrived since it was made: sent again under another id")


def _withdrawn(consents: Sequence[ConsentEvent], number: str | None) -> tuple[Channel, ...]:
    return next((cast(tuple[Channel, ...], event.channels) for event in consents if str(event.number) == number), ())
