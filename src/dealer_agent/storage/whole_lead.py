"""A lead with everything that is known of it, as of one moment: what is delivered and exported is made of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from dealer_agent.storage.appointments import READ_APPOINTMENTS, AppointmentRecord, appointments_in
from dealer_agent.storage.delivered import (
    READ_HISTORY,
    History,
    KeptDocument,
    history_in,
    history_sought,
    kept_document,
)
from dealer_agent.storage.leads import StoredLead, lead_in, lead_reads
from dealer_agent.storage.outbox import DueDelivery
from dealer_agent.storage.prepared import Read, read_all
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
    return _lead_in(vault, dealer_id, read_all(connection, _reads(dealer_id, lead_id)), now)


def lead_to_deliver(
    connection: Connection, vault: Vault, dealer_id: str, delivery: DueDelivery, now: datetime
) -> LeadToDeliver:
    """What a delivery is made of, as of one moment. Raises VaultError."""
    *found, others = read_all(
        connection, [*_reads(dealer_id, delivery.lead_id), (READ_HISTORY, history_sought(dealer_id, delivery))]
    )
    lead = _lead_in(vault, dealer_id, found, now)
    return LeadToDeliver(lead, kept_document(vault, dealer_id, delivery), history_in(others, delivery))


def _reads(dealer_id: str, lead_id: str) -> list[Read]:
    return [*lead_reads(dealer_id, lead_id), (READ_APPOINTMENTS, {"dealer_id": dealer_id, "lead_id": lead_id})]


def _lead_in(vault: Vault, dealer_id: str, rows: Sequence[Sequence[Any]], now: datetime) -> WholeLead | None:
    """The lead in the rows of `_reads`."""
    *of_lead, visits = rows
    stored = lead_in(vault, dealer_id, *of_lead)
    if stored is None:
        return None
    return WholeLead(stored, tuple(appointments_in(vault, visits)), now)
