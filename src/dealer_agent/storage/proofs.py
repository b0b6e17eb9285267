"""The proof of consent of erased customers (16 CFR 310.5), as statements on the caller's transaction.

An erasure moves the bodies of the customer's consent events here. They are sealed, found by a keyed hash of a contact
point, and deleted by age or on request. They are used as proof only. The caller of a function that writes holds the
dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, delete, func, insert, select, text

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.storage.consents import (
    READ_EVENTS,
    READ_EVENTS_WITH_PROOFS,
    ConsentEvent,
    event_of,
    opened_body,
    proof_context,
)
from dealer_agent.storage.contact_points import contact_points_of, lasting_hash
from dealer_agent.storage.event_chain import body_context
from dealer_agent.storage.schema import consent_proofs, proof_contacts

PURPOSE = "proofs of consent"

_LEADS: BindParameter[Any] = bindparam("lead_ids", expanding=True)

ADD_PROOF = insert(consent_proofs)

ADD_PROOF_CONTACT = text("""
    INSERT INTO proof_contacts (dealer_id, contact_hash, lead_id) VALUES (:dealer_id, :contact_hash, :lead_id)
    ON CONFLICT DO NOTHING
""")

FIND_PROVEN = select(proof_contacts.c.lead_id).where(
    proof_contacts.c.dealer_id == bindparam("dealer_id"), proof_contacts.c.contact_hash == bindparam("contact_hash")
)

NEWEST_PROOF = select(func.max(consent_proofs.c.last_at)).where(
    consent_proofs.c.dealer_id == bindparam("dealer_id"), consent_proofs.c.lead_id.in_(_LEADS)
)

_OLD = (consent_proofs.c.dealer_id == bindparam("dealer_id"), consent_proofs.c.last_at < bindparam("before"))

FIND_OLD_PROOFS = (
    select(consent_proofs.c.lead_id)
    .where(*_OLD)
    .group_by(consent_proofs.c.lead_id)
    .order_by(func.min(consent_proofs.c.last_at), consent_proofs.c.lead_id)
    .limit(bindparam("most"))
)

COUNT_OLD_PROOFS = select(func.count(consent_proofs.c.lead_id.distinct())).where(*_OLD)

DROP_PROOFS = delete(consent_proofs).where(
    consent_proofs.c.dealer_id == bindparam("in_dealer"), consent_proofs.c.lead_id.in_(_LEADS)
)

DROP_PROOF_CONTACTS = delete(proof_contacts).where(
    proof_contacts.c.dealer_id == bindparam("in_dealer"), proof_contacts.c.lead_id.in_(_LEADS)
)


def keep_as_proof(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str) -> bool:
    """Copies the bodies of a lead's consent events into the proofs; the caller deletes them from the events.

    Returns False and keeps nothing if there is no body, or if a body or a contact point does not open: a value that
    was changed in the database proves nothing.
    """
    rows = READ_EVENTS.read(connection, {"dealer_id": dealer_id, "lead_id": lead_id})
    try:
        bodies = {
            row.number: cipher.open(row.body, *body_context(dealer_id, row.number))
            for row in rows
            if row.body is not None
        }
        contacts = contact_points_of(connection, cipher, dealer_id, lead_id)
    except (UnknownKey, DecryptionFailed):
        return False
    if not bodies:
        return False
    last_at = max(row.at for row in sorted(rows, key=lambda row: row.number))
    for number, body in bodies.items():
        sealed = cipher.seal(body, *proof_context(dealer_id, number))
        proof = {"dealer_id": dealer_id, "number": number, "lead_id": lead_id, "last_at": last_at, "body": sealed}
        connection.execute(ADD_PROOF, proof)
    for contact in contacts:
        found_by = lasting_hash(cipher, PURPOSE, dealer_id, contact)
        connection.execute(ADD_PROOF_CONTACT, {"dealer_id": dealer_id, "contact_hash": found_by, "lead_id": lead_id})
    return True


def drop_proofs(connection: Connection, dealer_id: str, lead_ids: Sequence[str]) -> int:
    """Deletes the proofs of these leads. Returns the number of events that had one."""
    chosen = {"in_dealer": dealer_id, "lead_ids": list(lead_ids)}
    connection.execute(DROP_PROOF_CONTACTS, chosen)
    return connection.execute(DROP_PROOFS, chosen).rowcount


def old_proofs(connection: Connection, dealer_id: str, before: datetime, most: int) -> list[str]:
    """Leads whose newest event was before `before` and whose proof is still kept, the oldest first."""
    sought = {"dealer_id": dealer_id, "before": before, "most": most}
    return list(connection.execute(FIND_OLD_PROOFS, sought).scalars())


def newest_proof(connection: Connection, dealer_id: str, lead_ids: Sequence[str]) -> datetime | None:
    """The time of the newest event of these leads whose proof is kept; None if no proof is kept."""
    found: datetime | None = connection.execute(
        NEWEST_PROOF, {"dealer_id": dealer_id, "lead_ids": list(lead_ids)}
    ).scalar()
    return found


def proven_leads(connection: Connection, cipher: Cipher, dealer_id: str, contact: str) -> list[str]:
    """The erased leads of a contact point whose proof is kept."""
    found_by = lasting_hash(cipher, PURPOSE, dealer_id, contact)
    return sorted(connection.execute(FIND_PROVEN, {"dealer_id": dealer_id, "contact_hash": found_by}).scalars())


def proven_events(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_ids: Sequence[str]
) -> tuple[ConsentEvent, ...]:
    """The events of these leads in their order, with what is kept as proof. Raises DecryptionFailed."""
    rows: Sequence[Row[Any]] = connection.execute(
        READ_EVENTS_WITH_PROOFS, {"dealer_id": dealer_id, "lead_ids": list(lead_ids)}
    ).all()
    return tuple(event_of(row._asdict(), opened_body(cipher, row)) for row in sorted(rows, key=lambda row: row.number))
