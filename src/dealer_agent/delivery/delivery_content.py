"""Decides what a delivery contains and whether it may be sent, from the rows at the time of sending."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, cast

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import TO_CUSTOMER
from dealer_agent.delivery.attempt import DeliveryDropped, NeedsNewId, NotDelivered
from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.leads.lead_view import DeliveredMessage, LeadView, cancelled_visit, erased_lead, lead_view
from dealer_agent.protocol.formats import normal_email
from dealer_agent.protocol.requests import Channel
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument, count_mails_before
from dealer_agent.storage.leads.lead_record import LeadToDeliver, leads_to_deliver
from dealer_agent.storage.store import Store

MOST_MAILS = 5
"""The most confirmations to one e-mail address in MAILS_WITHIN; also the most cancellations."""
MAILS_WITHIN = timedelta(hours=24)


class PreparedDelivery(NamedTuple):
    """What a delivery sends, and the document of its first attempt; None before that attempt.

    `needs` and `first` are those of a document that is made now (`StoredDocument`).
    """

    message: DeliveredMessage
    stored: StoredDocument | None
    needs: tuple[str, ...]
    first: bool


def read_leads(
    store: Store, profile: Profile, deliveries: Sequence[DueDelivery]
) -> dict[str, LeadToDeliver | EncryptionError]:
    """Reads what deliveries are made from, by their ids. Raises StorageError.

    One transaction for several deliveries: for a single one it takes longer than its statements.
    """
    with store.read(profile.id) as tx:
        leads = leads_to_deliver(tx, deliveries)
    return {delivery.delivery_id: lead for delivery, lead in zip(deliveries, leads, strict=True)}


def prepare_delivery(
    store: Store, profile: Profile, delivery: DueDelivery, read: LeadToDeliver | EncryptionError
) -> PreparedDelivery:
    """Decides what a delivery sends. `read` is what `read_leads` returned for it.

    Raises DeliveryDropped, NeedsNewId, NotDelivered and StorageError.
    """
    if isinstance(read, EncryptionError):
        problem = f"the customer's data cannot be decrypted: {read}"
        raise NotDelivered(problem, channel_failed=False)
    message = _message(profile, delivery, read)
    needs: tuple[str, ...] = ()
    if isinstance(message, LeadView) and delivery.kind in TO_CUSTOMER:
        _limit_mails(store, profile, delivery, message, read)
        needs = (message.customer.email or "",)
    elif isinstance(message, LeadView):
        needs = message.channels
    if read.document is not None:
        _check_document(read, read.document, needs)
    first = isinstance(message, LeadView) and not message.resend
    return PreparedDelivery(message, read.document, needs, first)


def _message(profile: Profile, delivery: DueDelivery, read: LeadToDeliver) -> DeliveredMessage:
    """What a delivery says, from the lead as it is now. Raises DeliveryDropped if nothing is left to send."""
    lead = read.lead
    if lead is None:
        raise DeliveryDropped("there is no such lead")
    if delivery.kind == "erasure":
        return erased_lead(lead, profile, delivery.rooftop)
    if delivery.kind == "visit_cancelled":
        visit = next((each for each in lead.visits if each.appointment_id == delivery.event_id), None)
        if visit is None:
            raise DeliveryDropped("there is no such visit")
        return cancelled_visit(visit, profile)
    # Notices about a lead that receivers have, and deliveries from before its quarantine, go on meanwhile.
    lead = lead.before_quarantine()
    if lead.stored.lead.erased_at is not None:
        raise DeliveryDropped("the customer's data was erased")
    if delivery.kind == "withdrawal":
        events = lead.stored.consents
        withdrawn = next((event.channels for event in events if str(event.number) == delivery.event_id), ())
        return lead_view(lead, profile, resend=True, withdrawn=cast(tuple[Channel, ...], withdrawn))
    return lead_view(lead, profile, resend=read.history.arrived, because_of=delivery.event_id)


def _limit_mails(store: Store, profile: Profile, delivery: DueDelivery, view: LeadView, read: LeadToDeliver) -> None:
    """Raises DeliveryDropped if the customer got too many mails. Anybody can request visits with any address."""
    assert read.lead is not None, "a view is of a lead"
    email = normal_email(view.customer.email or "")
    if not email:
        return
    with store.read(profile.id) as tx:
        before = count_mails_before(tx, delivery, email, read.lead.stored.lead.caller, MAILS_WITHIN)
    if before >= MOST_MAILS:
        raise DeliveryDropped(f"this address got {MOST_MAILS} such mails within 24 hours: it gets no more now")


def _check_document(read: LeadToDeliver, document: StoredDocument, allowed: Sequence[str]) -> None:
    """Raises DeliveryDropped or NeedsNewId if a stored document must not be sent as it is."""
    if read.history.superseded:
        raise DeliveryDropped("a later delivery, which has the whole lead, has arrived")
    if not set(document.needs).issubset(allowed):
        raise NeedsNewId("the consent allows other contact data than before: sent again under another id")
    if document.first and read.history.arrived:
        raise NeedsNewId("another delivery of the lead has arrived meanwhile: sent again under another id, as `resend`")
