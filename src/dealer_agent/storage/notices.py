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
from dealer_agent.encryption.cipher import Cipher
from dealer_agent.protocol.requests import VisitKind
from dealer_agent.storage.consents import (
    EVEN_EXPIRED,
    REVOKED,
    REVOKED_ELSEWHERE,
    allowed_channels,
    record_revocation,
)
from dealer_agent.storage.contact_points import KNOWN_BY, contact_points_of
from dealer_agent.storage.leads import newest_leads_of
from dealer_agent.storage.outbox import Address, Waiting, enqueue, waiting
from dealer_agent.storage.privacy import erase_lead
from dealer_agent.storage.schema import appointments
from dealer_agent.storage.sent_deliveries import copies

MOST_OTHER_LEADS = 200
"""The most other leads of each contact point to which a withdrawal applies. New leads wait meanwhile."""


class CancelledVisit(NamedTuple):
    """A confirmed future visit that an erasure cancelled."""

    appointment_id: str
    rooftop: str
    kind: VisitKind
    starts_at: datetime


class Erased(NamedTuple):
    """The receivers that have a copy (True) or may have one (False), and the visits that the erasure cancelled."""

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
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    channels: Sequence[str],
    at: datetime,
    *,
    by: str,
    reason: str | None,
    tell: Profile | None,
    known_by: tuple[str, ...] = KNOWN_BY,
) -> tuple[str, ...]:
    """Records that a customer withdrew consent for these channels, and tells the channels and people of `tell`.

    It applies to the lead, to later leads with an earlier consent, and to those of the customer's other leads on which
    one of the channels was not withdrawn: the newest MOST_OTHER_LEADS of each contact point that begins with one of
    `known_by`. The receivers that have such a lead are told. `by` is the person who records it. Returns the ids of the
    leads, `lead_id` first. Raises StorageError if there is no such lead.
    """
    contacts = contact_points_of(connection, cipher, dealer_id, lead_id, known_by)
    newest = newest_leads_of(connection, cipher, dealer_id, contacts, MOST_OTHER_LEADS)
    others = [
        other
        for other in sorted(newest)
        if other != lead_id and allowed_channels(connection, dealer_id, other, EVEN_EXPIRED).intersection(channels)
    ]
    for each in (lead_id, *others):
        kind = REVOKED if each == lead_id else REVOKED_ELSEWHERE
        _withdraw_on(connection, cipher, dealer_id, each, channels, at, by, reason, tell, kind, known_by)
    return lead_id, *others


def _withdraw_on(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    channels: Sequence[str],
    at: datetime,
    by: str,
    reason: str | None,
    tell: Profile | None,
    kind: str,
    known_by: tuple[str, ...],
) -> None:
    """Records a withdrawal on one lead. Nobody is told if none of the channels was allowed.

    A consent that has expired counts: receivers may not know that.
    """
    was_allowed = allowed_channels(connection, dealer_id, lead_id, EVEN_EXPIRED).intersection(channels)
    number = record_revocation(
        connection, cipher, dealer_id, lead_id, channels, at, by=by, reason=reason, kind=kind, known_by=known_by
    )
    if was_allowed and tell is not None:
        rows = notices_of(tell, "withdrawal", copies(connection, dealer_id, lead_id), str(number))
        enqueue(connection, dealer_id, lead_id, rows, at, waiting(connection, dealer_id, lead_id))


def erase(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    at: datetime,
    tell: Profile | None,
    *,
    consent_too: bool,
) -> Erased | None:
    """Erases the customer of a lead (`privacy.erase_lead`), and tells the channels and people of `tell`.

    The receivers of the lead are told to erase it. The people of a rooftop are told which visits are cancelled. Returns
    None if there was no customer data to erase.
    """
    key = {"dealer_id": dealer_id, "lead_id": lead_id}
    visits = tuple(CancelledVisit(*row) for row in connection.execute(READ_VISITS_TO_COME, key | {"at": at}))
    found = copies(connection, dealer_id, lead_id)
    if not erase_lead(connection, cipher, dealer_id, lead_id, at, consent_too=consent_too):
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
