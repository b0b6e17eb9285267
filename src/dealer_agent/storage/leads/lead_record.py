"""Reads a lead with everything that belongs to it at one moment, to deliver or export it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dealer_agent.leads.records import LeadDetails
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.deliveries.sent_deliveries import (
    History,
    StoredDocument,
    decrypted_document,
    history_in,
    history_read,
)
from dealer_agent.storage.leads.prepared_statements import Read, read_all
from dealer_agent.storage.leads.stored_leads import lead_in, lead_reads
from dealer_agent.storage.leads.visits import READ_VISITS, visits_in
from dealer_agent.storage.transaction import Transaction


class LeadToDeliver(NamedTuple):
    """A lead that is being delivered, the document that this delivery sent before, and the lead's other deliveries."""

    lead: LeadDetails | None
    document: StoredDocument | None
    history: History


def lead_details(tx: Transaction, lead_id: str) -> LeadDetails | None:
    """A lead with its visits. Raises EncryptionError."""
    return _lead_in(tx, read_all(tx, _reads(lead_id)))


def lead_to_deliver(tx: Transaction, delivery: DueDelivery) -> LeadToDeliver:
    """Everything that a delivery is made from. Raises EncryptionError."""
    *found, others = read_all(tx, [*_reads(delivery.lead_id), history_read(delivery)])
    return LeadToDeliver(_lead_in(tx, found), decrypted_document(tx, delivery), history_in(others, delivery))


def _reads(lead_id: str) -> list[Read]:
    return [*lead_reads(lead_id), (READ_VISITS, {"of_lead": lead_id})]


def _lead_in(tx: Transaction, rows: Sequence[Sequence[Any]]) -> LeadDetails | None:
    """The lead, from the rows that the statements of `_reads` return."""
    *of_lead, visits = rows
    stored = lead_in(tx, *of_lead)
    return None if stored is None else LeadDetails(stored, tuple(visits_in(tx, visits)), tx.now)
