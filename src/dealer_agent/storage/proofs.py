"""The proof of consent of erased customers (16 CFR 310.5).

An erasure moves the bodies of the customer's consent events here. They are encrypted, found by a keyed hash of a
contact point, and deleted by age or on request. They are used as proof only. The caller of a function that writes holds
the dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, func, insert, select

from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.storage.consents import READ_EVENTS, READ_EVENTS_WITH_PROOFS, decrypted_body, event_of
from dealer_agent.storage.contact_points import contact_points_of, lasting_hash
from dealer_agent.storage.schema import consent_events, consent_proofs, of_dealer, of_leads, proof_contacts, upsert
from dealer_agent.storage.transaction import Transaction

PURPOSE = "proofs of consent"

ADD_PROOF = insert(consent_proofs)

ADD_PROOF_CONTACT = upsert(proof_contacts, "NOTHING")

FIND_PROVEN = select(proof_contacts.c.lead_id).where(
    of_dealer(proof_contacts), proof_contacts.c.contact_hash == bindparam("contact_hash")
)

READ_NEWEST_PROOF = select(func.max(consent_proofs.c.last_at)).where(of_leads(consent_proofs))

_OLD = (of_dealer(consent_proofs), consent_proofs.c.last_at < bindparam("before"))

FIND_OLD_PROOFS = (
    select(consent_proofs.c.lead_id)
    .where(*_OLD)
    .group_by(consent_proofs.c.lead_id)
    .order_by(func.min(consent_proofs.c.last_at), consent_proofs.c.lead_id)
    .limit(bindparam("most"))
)

COUNT_OLD_PROOFS = select(func.count(consent_proofs.c.lead_id.distinct())).where(*_OLD)

DELETE_PROOFS = delete(consent_proofs).where(of_leads(consent_proofs))

DELETE_PROOF_CONTACTS = delete(proof_contacts).where(of_leads(proof_contacts))


def keep_as_proof(tx: Transaction, lead_id: str) -> bool:
    """Copies the bodies of a lead's consent events into the proofs; the caller deletes them from the events.

    Returns False and stores nothing if there is no body, or if a body or a contact point cannot be decrypted: a value
    that was changed in the database proves nothing.
    """
    rows = READ_EVENTS.read(tx, {"of_lead": lead_id})
    try:
        bodies = {
            row.number: tx.decrypt(row.body, consent_events.c.body, str(row.number))
            for row in rows
            if row.body is not None
        }
        contacts = contact_points_of(tx, lead_id)
    except (UnknownKey, DecryptionFailed):
        return False
    if not bodies:
        return False
    last_at = max(row.at for row in rows)
    for number, body in bodies.items():
        encrypted = tx.encrypt(body, consent_proofs.c.body, str(number))
        tx.execute(ADD_PROOF, {"number": number, "lead_id": lead_id, "last_at": last_at, "body": encrypted})
    for contact in contacts:
        tx.execute(ADD_PROOF_CONTACT, {"contact_hash": lasting_hash(tx, PURPOSE, contact), "lead_id": lead_id})
    return True


def delete_proofs(tx: Transaction, lead_ids: Sequence[str]) -> int:
    """Deletes the proofs of these leads. Returns the number of events that had one."""
    chosen = {"lead_ids": list(lead_ids)}
    tx.execute(DELETE_PROOF_CONTACTS, chosen)
    return tx.execute(DELETE_PROOFS, chosen).rowcount


def old_proofs(tx: Transaction, before: datetime, most: int) -> list[str]:
    """Leads whose newest event was before `before` and whose proof is still kept, the oldest first."""
    return list(tx.execute(FIND_OLD_PROOFS, {"before": before, "most": most}).scalars())


def newest_proof(tx: Transaction, lead_ids: Sequence[str]) -> datetime | None:
    """The time of the newest event of these leads whose proof is kept; None if no proof is kept."""
    found: datetime | None = tx.execute(READ_NEWEST_PROOF, {"lead_ids": list(lead_ids)}).scalar()
    return found


def proven_leads(tx: Transaction, contact: str) -> list[str]:
    """The erased leads of a contact point (normalised) whose proof is kept."""
    return sorted(tx.execute(FIND_PROVEN, {"contact_hash": lasting_hash(tx, PURPOSE, contact)}).scalars())


def proven_events(tx: Transaction, lead_ids: Sequence[str]) -> tuple[ConsentEvent, ...]:
    """The consent events of these leads, in order, with the bodies from the proofs. Raises DecryptionFailed."""
    rows = tx.execute(READ_EVENTS_WITH_PROOFS, {"lead_ids": list(lead_ids)}).all()
    return tuple(event_of(row._asdict(), decrypted_body(tx, row)) for row in sorted(rows, key=lambda row: row.number))
