"""A lead with everything that is known of it, as of one moment: what is delivered and exported is made of it."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from dealer_agent.storage.appointments import AppointmentRecord, appointments_of
from dealer_agent.storage.delivered import History, KeptDocument, history, kept_document
from dealer_agent.storage.leads import StoredLead, get_lead
from dealer_agent.storage.outbox import DueDelivery
from dealer_agent.vault.vault import Vault


class WholeLead(NamedTuple):
    """A lead and its visits (oldest first, those that ended too) at the time `at`."""

    stored: StoredLead
    visits: tuple[AppointmentRecord, ...]
    at: datetime


class LeadToDeliver(NamedTuple):
    """A lead that is being delivered, what this delivery sent before, and what others of the lead did."""

    lead: WholeLead | None
    kept: KeptDocument | None
    history: History


def whole_lead(connection: Connection, vault: Vault, dealer_id: str, lead_id: str, now: datetime) -> WholeLead | None:
    """The lead as it stands, on the caller's transaction. Raises VaultError."""
    stored = get_lead(connection, vault, dealer_id, lead_id)
    if stored is None:
        return None
    visits = tuple(appointments_of(connection, vault, dealer_id, lead_id))
    return WholeLead(stored, visits, now)


def lead_to_deliver(
    connection: Connection, vault: Vault, dealer_id: str, delivery: DueDelivery, now: datetime
) -> LeadToDeliver:
    """What a delivery is made of, as of one moment. Raises VaultError."""
    lead = whole_lead(connection, vault, dealer_id, delivery.lead_id, now)
    kept = kept_document(vault, dealer_id, delivery)
    return LeadToDeliver(lead, kept, history(connection, dealer_id, delivery))
