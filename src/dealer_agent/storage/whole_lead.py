"""A lead with everything that is known of it, as of one moment: what is delivered and exported is made of it."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from dealer_agent.storage.appointments import AppointmentRecord, appointments_of
from dealer_agent.storage.consents import allowed_channels
from dealer_agent.storage.leads import StoredLead, get_lead
from dealer_agent.vault.vault import Vault


class WholeLead(NamedTuple):
    """A lead, its visits (oldest first, those that ended too), and the channels that may be used now."""

    stored: StoredLead
    visits: tuple[AppointmentRecord, ...]
    channels: frozenset[str]


def whole_lead(connection: Connection, vault: Vault, dealer_id: str, lead_id: str, now: datetime) -> WholeLead | None:
    """The lead as it stands, on the caller's transaction. Raises VaultError."""
    stored = get_lead(connection, vault, dealer_id, lead_id)
    if stored is None:
        return None
    visits = tuple(appointments_of(connection, vault, dealer_id, lead_id))
    return WholeLead(stored, visits, allowed_channels(connection, dealer_id, lead_id, now))
