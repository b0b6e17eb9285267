"""Sends deliveries and leads again, because a person asks for it. Each function writes in the caller's transaction.

The caller holds the dealer's lock.
"""

from dealer_agent.correctable import NotPossible
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, get_delivery, retry_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import send_again as resend
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.transaction import Transaction


class NotSentAgain(NotPossible):
    """Nothing is sent again. The message says why, and what to do."""


def find_delivery(tx: Transaction, delivery_id: str) -> DeliveryRecord:
    """A delivery. Raises NotSentAgain if there is none."""
    record = get_delivery(tx, delivery_id)
    if record is None:
        raise NotSentAgain(f"There is no delivery {delivery_id}", "; see dealer-agent deliveries list")
    return record


def retry(tx: Transaction, delivery_id: str) -> int:
    """Tries a waiting or undeliverable delivery again at once, with the same id and bytes. Returns 1.

    Raises NotSentAgain.
    """
    record = find_delivery(tx, delivery_id)
    if record.state in ("sent", "dropped"):
        again = "; dealer-agent deliveries send-again sends it again" if record.state == "sent" else ""
        raise NotSentAgain(f"Delivery {delivery_id} was {record.state}, so it is not tried again", again)
    return retry_deliveries(tx, delivery_id=delivery_id)


def send_again(tx: Transaction, sent_id: str, *, channel: str | None = None) -> list[str]:
    """Sends one delivery again, or a lead to every channel that has it, as a resend with a new delivery id.

    `sent_id` is the id of either. `channel` chooses one of the channels of a lead. Returns the ids of the new
    deliveries. Raises NotSentAgain.
    """
    record = get_delivery(tx, sent_id)
    lead_id = sent_id if record is None else record.lead_id
    found = get_lead(tx, lead_id)
    if found is None:
        raise NotSentAgain(f"There is no delivery and no lead {sent_id}", "; see dealer-agent deliveries list")
    if found.lead.is_kept_from_staff:
        raise NotSentAgain(
            f"Lead {lead_id} waits in quarantine, or was refused there, so nobody gets it",
            f": see dealer-agent leads show {lead_id}",
        )
    if found.lead.erased_at is not None:
        raise NotSentAgain(f"The customer of lead {lead_id} was erased: there is nothing to send")
    new_ids = resend(tx, delivery_id=sent_id) if record else resend(tx, lead_id=lead_id, channel=channel)
    if not new_ids:
        raise NotSentAgain(
            f"Nothing of {sent_id} can be sent again: it was sent to no CRM, and to nobody under notify",
            ". dealer-agent deliveries retry sends what waits or is undeliverable",
        )
    return new_ids
