"""A lead with everything that is known of it, as of one moment: what is delivered and exported is made of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.appointments import READ_APPOINTMENTS, AppointmentRecord, appointments_in
from dealer_agent.storage.leads import StoredLead, lead_in, lead_reads
from dealer_agent.storage.outbox import DueDelivery
from dealer_agent.storage.prepared_statements import Read, read_all
from dealer_agent.storage.sent_deliveries import (
    READ_HISTORY,
    History,
    KeptDocument,
    history_in,
    history_sought,
    kept_document,
)


class LeadDetails(NamedTuple):
    """A lead and its visits (oldest first, those that ended too) at the time `at`."""

    stored: StoredLead
    visits: tuple[AppointmentRecord, ...]
    at: datetime


class LeadToDeliver(NamedTuple):
    """A lead that is being delivered, what this delivery sent before, and what others of the lead did."""

    lead: LeadDetails | None
    kept: KeptDocument | None
    history: History


def whole_lead(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, now: datetime
) -> LeadDetails | None:
    """The lead as it stands, on the caller's transaction. Raises EncryptionError."""
    return _lead_in(cipher, dealer_id, read_all(connection, _reads(dealer_id, lead_id)), now)


def lead_to_deliver(
    connection: Connection, cipher: Cipher, dealer_id: str, delivery: DueDelivery, now: datetime
) -> LeadToDeliver:
    """What a delivery is made of, as of one moment. Raises EncryptionError."""
    *found, others = read_all(
        connection, [*_reads(dealer_id, delivery.lead_id), (READ_HISTORY, history_sought(dealer_id, delivery))]
    )
    lead = _lead_in(cipher, dealer_id, found, now)
    return LeadToDeliver(lead, kept_document(cipher, dealer_id, delivery), history_in(others, delivery))


def _reads(dealer_id: str, lead_id: str) -> list[Read]:
    return [*lead_reads(dealer_id, lead_id), (READ_APPOINTMENTS, {"dealer_id": dealer_id, "lead_id": lead_id})]


def _lead_in(cipher: Cipher, dealer_id: str, rows: Sequence[Sequence[Any]], now: datetime) -> LeadDetails | None:
    """The lead in the rows of `_reads`."""
    *of_lead, visits = rows
    stored = lead_in(cipher, dealer_id, *of_lead)
    if stored is None:
        return None
    return LeadDetails(stored, tuple(appointments_in(cipher, visits)), now)
