"""Reads a lead with everything that belongs to it at one moment, to deliver or export it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dealer_agent.encryption.errors import EncryptionError
from dealer_agent.leads.records import LeadDetails
from dealer_agent.storage.deliveries.outbox import DueDelivery
from dealer_agent.storage.deliveries.sent_deliveries import (
    DeliveryHistory,
    StoredDocument,
    decrypted_document,
    history_in,
    read_of_histories,
)
from dealer_agent.storage.leads.prepared_statements import Read, read_all
from dealer_agent.storage.leads.stored_leads import lead_in, reads_of_leads
from dealer_agent.storage.leads.visits import read_of_visits, visits_in
from dealer_agent.storage.transaction import Transaction


class LeadToDeliver(NamedTuple):
    """A lead that is being delivered, the document that this delivery sent before, and the lead's other deliveries."""

    lead: LeadDetails | None
    document: StoredDocument | None
    history: DeliveryHistory


def lead_details(tx: Transaction, lead_id: str) -> LeadDetails | None:
    """A lead with its visits. Raises EncryptionError."""
    return _lead_in(tx, _rows_of(tx, _reads_of_leads_and_visits([lead_id]))[lead_id])


def leads_to_deliver(tx: Transaction, deliveries: Sequence[DueDelivery]) -> list[LeadToDeliver | EncryptionError]:
    """Everything that each delivery is made from, in one round trip. The error for one that cannot be decrypted."""
    lead_ids = list(dict.fromkeys(delivery.lead_id for delivery in deliveries))
    rows = _rows_of(tx, [*_reads_of_leads_and_visits(lead_ids), read_of_histories(lead_ids)])
    return [_to_deliver(tx, delivery, rows[delivery.lead_id]) for delivery in deliveries]


def _to_deliver(tx: Transaction, delivery: DueDelivery, rows: Sequence[list[Any]]) -> LeadToDeliver | EncryptionError:
    *of_lead, copies = rows
    try:
        return LeadToDeliver(_lead_in(tx, of_lead), decrypted_document(tx, delivery), history_in(copies, delivery))
    except EncryptionError as failure:
        return failure


def _reads_of_leads_and_visits(lead_ids: Sequence[str]) -> list[Read]:
    return [*reads_of_leads(lead_ids), read_of_visits(lead_ids)]


def _rows_of(tx: Transaction, reads: Sequence[Read]) -> Mapping[str, list[list[Any]]]:
    """The rows of each statement, by lead."""
    rows: Mapping[str, list[list[Any]]] = defaultdict(lambda: [[] for _ in reads])
    for position, result in enumerate(read_all(tx, reads)):
        for row in result:
            rows[row.lead_id][position].append(row)
    return rows


def _lead_in(tx: Transaction, rows: Sequence[list[Any]]) -> LeadDetails | None:
    """The lead, from its rows that the statements of `_reads_of_leads_and_visits` return."""
    of_lead, added, events, visits = rows
    # Sorted here: to sort the rows of several leads, SQLite would read those of all leads.
    added.sort(key=lambda row: (row.at, row.event_id))
    events.sort(key=lambda row: row.number)
    visits.sort(key=lambda row: (row.created_at, row.appointment_id))
    stored = lead_in(tx, of_lead, added, events)
    return None if stored is None else LeadDetails(stored, tuple(visits_in(tx, visits)), tx.now)
