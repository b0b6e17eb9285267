"""The channels that a person withdrew, by keyed hashes of contact points, as statements on the caller's transaction.

A withdrawal stays when the person's leads are erased: an agent may still send the old consent. A row has the hash, the
channel and the time, and nothing else. The cost of a lookup does not depend on the number of leads of a contact.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

import msgspec
from sqlalchemy import Connection, bindparam, select, text

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.contact_points import KNOWN_BY, contact_points_of, lasting_hash
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import UtcTime, consent_events, withdrawals

PURPOSE = "withdrawals"

NOTE_WITHDRAWAL = Prepared(
    text("""
    INSERT INTO withdrawals (dealer_id, contact_hash, channel, at) VALUES (:dealer_id, :contact_hash, :channel, :at)
    ON CONFLICT (dealer_id, contact_hash, channel) DO UPDATE SET at = excluded.at WHERE excluded.at > withdrawals.at
""").bindparams(bindparam("at", type_=UtcTime)),
    withdrawals,
)

FIND_WITHDRAWN = Prepared(
    select(withdrawals.c.channel).where(
        withdrawals.c.dealer_id == bindparam("dealer_id"),
        withdrawals.c.contact_hash.in_([bindparam("one_hash"), bindparam("other_hash")]),
        withdrawals.c.at >= bindparam("granted_at"),
    )
)

READ_REVOCATIONS = select(consent_events.c.lead_id, consent_events.c.channels, consent_events.c.at).where(
    consent_events.c.dealer_id == bindparam("dealer_id"), consent_events.c.kind == "revoked"
)

MOST_CONTACTS = 2
"""A customer has an e-mail address, a phone number, or both."""


def note_withdrawal(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    lead_id: str,
    channels: Collection[str],
    at: datetime,
    known_by: tuple[str, ...] = KNOWN_BY,
) -> None:
    """Notes that the customer of a lead withdrew these channels, for its `contact_points_of`."""
    rows = [
        {
            "dealer_id": dealer_id,
            "contact_hash": lasting_hash(cipher, PURPOSE, dealer_id, contact),
            "channel": channel,
            "at": at,
        }
        for contact in contact_points_of(connection, cipher, dealer_id, lead_id, known_by)
        for channel in channels
    ]
    if rows:
        NOTE_WITHDRAWAL.write_all(connection, rows)


def withdrawn_since(
    connection: Connection, cipher: Cipher, dealer_id: str, contacts: Iterable[str], granted_at: datetime
) -> frozenset[str]:
    """The channels that were withdrawn at `granted_at` or later for any of at most MOST_CONTACTS contact points.

    A withdrawal counts for every vehicle.
    """
    hashes = [lasting_hash(cipher, PURPOSE, dealer_id, contact) for contact in contacts]
    if not hashes:
        return frozenset()
    assert len(hashes) <= MOST_CONTACTS, "the statement takes no more"
    sought = {"dealer_id": dealer_id, "one_hash": hashes[0], "other_hash": hashes[-1], "granted_at": granted_at}
    return frozenset(channel for (channel,) in FIND_WITHDRAWN.read(connection, sought))


def note_earlier_withdrawals(connection: Connection, cipher: Cipher, dealer_id: str) -> None:
    """Notes the withdrawals that are only in the chain of consent events: those of before revision 0009."""
    for lead_id, channels, at in connection.execute(READ_REVOCATIONS, {"dealer_id": dealer_id}).all():
        note_withdrawal(connection, cipher, dealer_id, lead_id, msgspec.json.decode(channels, type=list[str]), at)
