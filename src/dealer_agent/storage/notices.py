"""A withdrawal of consent and an erasure, with the deliveries that tell the receivers of the lead, on the caller's
transaction (contract, part 10).

The dealer is locked by the caller.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from dealer_agent.dealers.profile import Profile
from dealer_agent.dealers.routing import notices_of, visit_cancelled_notices
from dealer_agent.storage.consents import EVEN_EXPIRED, allowed_channels, record_revocation
from dealer_agent.storage.delivered import copies
from dealer_agent.storage.outbox import Address, Waiting, enqueue, waiting
from dealer_agent.storage.privacy import erase_lead
from dealer_agent.storage.schema import appointments
from dealer_agent.vault.vault import Vault


class CancelledVisit(NamedTuple):
    """A confirmed visit that ended with the erasure of its customer."""

    appointment_id: str
    rooftop: str
    kind: str
    starts_at: datetime


class Erased(NamedTuple):
    """What an erasure found: the receivers that have a copy (True) or may have one (False), and the visits it ended."""

    copies: dict[Address, bool]
    visits: tuple[CancelledVisit, ...]


READ_VISITS_TO_COME = select(*(appointments.c[name] for name in CancelledVisit._fields)).where(
    appointments.c.dealer_id == bindparam("dealer_id"),
    appointments.c.lead_id == bindparam("lead_id"),
    appointments.c.status == "confirmed",
    appointments.c.starts_at > bindparam("at"),
)


def withdraw(
    connection: Connection,
    vault: Vault,
    dealer_id: str,
    lead_id: str,
    channels: Sequence[str],
    at: datetime,
    *,
    by: str,
    reason: str | None,
    tell: Profile | None,
) -> int:
    """Records that a customer withdrew consent for these channels, and tells the channels and people of `tell`.

    The receivers that have the lead are told, and nobody where none of the channels was allowed before. A consent that
    has expired counts: receivers may not know that. `by` is who records it. Returns the number of the consent event.
    Raises StorageError where there is no such lead.
    """
    was_allowed = allowed_channels(connection, dealer_id, lead_id, EVEN_EXPIRED).intersection(channels)
    number = record_revocation(connection, vault, dealer_id, lead_id, channels, at, by=by, reason=reason)
    if was_allowed and tell is not None:
        rows = notices_of(tell, "withdrawal", copies(connection, dealer_id, lead_id), str(number))
        enqueue(connection, dealer_id, lead_id, rows, at, waiting(connection, dealer_id, lead_id))
    return number


def erase(
    connection: Connection,
    vault: Vault,
    dealer_id: str,
    lead_id: str,
    at: datetime,
    tell: Profile | None,
    *,
    consent_too: bool,
) -> Erased | None:
    """Erases the customer of a lead (`privacy.erase_lead`), and tells the channels and people of `tell`.

    The receivers of the lead are told to erase it. The people of a rooftop are told which visits ended. None when
    nothing of a customer was there to erase.
    """
    key = {"dealer_id": dealer_id, "lead_id": lead_id}
    visits = tuple(CancelledVisit(*row) for row in connection.execute(READ_VISITS_TO_COME, key | {"at": at}))
    found = copies(connection, dealer_id, lead_id)
    if not erase_lead(connection, vault, dealer_id, lead_id, at, consent_too=consent_too):
        return None
    if tell is not None:
        rows = notices_of(tell, "erasure", found)
        being_sent = {
            address: Waiting(copy.being_sent, untried=False)
            for address, copy in found.items()
            if copy.being_sent is not None
        }
        enqueue(connection, dealer_id, lead_id, rows, at, being_sent)
        ended = [row for visit in visits for row in visit_cancelled_notices(tell, visit.rooftop, visit.appointment_id)]
        enqueue(connection, dealer_id, lead_id, ended, at)
    return Erased({address: copy.arrived for address, copy in found.items()}, visits)
