"""The contact points of a lead, and the hashes of contact points that outlive the lead."""

import hmac
from hashlib import sha256

import msgspec
from sqlalchemy import select

from dealer_agent.storage.schema import lead_contacts, of_lead
from dealer_agent.storage.transaction import Transaction

CONTACT_POINTS = ("email:", "phone:")
"""What contact points begin with (`leads.received_lead.contact_points`)."""

READ_CONTACTS = select(lead_contacts.c.contact).where(of_lead(lead_contacts))


def contact_points_of(tx: Transaction, lead_id: str, known_by: tuple[str, ...] = CONTACT_POINTS) -> set[str]:
    """The contact points of a lead that begin with one of these prefixes (`leads.received_lead.contact_points`).

    Raises DecryptionFailed and UnknownKey.
    """
    rows = tx.execute(READ_CONTACTS, {"of_lead": lead_id}).scalars()
    found = {tx.decrypt(row, lead_contacts.c.contact, lead_id).decode() for row in rows}
    # The keys of the lead's senders are left out: they are JSON arrays (`leads.received_lead.sender_keys`).
    return {contact for contact in found if contact.startswith(known_by)}


def lasting_hash(tx: Transaction, purpose: str, contact: str) -> bytes:
    """A keyed hash of a contact point that a key rotation does not change. Each purpose has a key of its own."""
    return hmac.digest(tx.cipher.lasting_key(purpose), msgspec.json.encode((tx.dealer_id, contact)), sha256)
