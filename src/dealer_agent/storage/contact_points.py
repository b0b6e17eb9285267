"""The contact points of a lead, and the hashes of contact points that outlive the lead."""

import hmac
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, select

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.schema import lead_contacts

KNOWN_BY = ("email:", "phone:")
"""What the contact points begin with (`leads.intake.contacts`)."""

READ_CONTACTS = select(lead_contacts.c.contact).where(
    lead_contacts.c.dealer_id == bindparam("dealer_id"), lead_contacts.c.lead_id == bindparam("lead_id")
)


def contact_points_of(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, known_by: tuple[str, ...] = KNOWN_BY
) -> set[str]:
    """The e-mail addresses and phone numbers (normalised) of a lead that begin with one of `known_by`.

    Raises DecryptionFailed and UnknownKey.
    """
    rows: Any = connection.execute(READ_CONTACTS, {"dealer_id": dealer_id, "lead_id": lead_id}).scalars()
    found = {cipher.open(row, *contact_context("contact", dealer_id, lead_id)).decode() for row in rows}
    # The keys of the lead's senders are left out: they are JSON arrays (`leads.intake`).
    return {contact for contact in found if contact.startswith(known_by)}


def lasting_hash(cipher: Cipher, purpose: str, dealer_id: str, contact: str) -> bytes:
    """A keyed hash of a contact point that a change of keys does not change. Each purpose has a key of its own."""
    return hmac.digest(cipher.lasting_key(purpose), msgspec.json.encode((dealer_id, contact)), sha256)


def contact_context(column: str, dealer_id: str, lead_id: str) -> tuple[str, ...]:
    """What the seal of a contact's column is bound to."""
    return "lead_contacts", column, dealer_id, lead_id
