"""The channels that a person withdrew, by keyed hashes of contact points (docs/protocol.md#withdrawal).

A withdrawal stays when the person's leads are erased: an agent may still send the old consent. A row has the hash, the
channel and the time, and nothing else. The cost of a lookup does not depend on the number of leads of a contact.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import bindparam, select

from dealer_agent.storage.contact_points import contact_points_of, lasting_hash
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import of_dealer, upsert, withdrawals
from dealer_agent.storage.transaction import Transaction

PURPOSE = "withdrawals"

ADD_WITHDRAWAL = upsert(withdrawals, "UPDATE SET at = excluded.at WHERE withdrawals.at < excluded.at")

FIND_WITHDRAWN = Prepared(
    select(withdrawals.c.channel).where(
        of_dealer(withdrawals),
        withdrawals.c.contact_hash.in_([bindparam("one_hash"), bindparam("other_hash")]),
        withdrawals.c.at >= bindparam("granted_at"),
    )
)

MOST_CONTACTS = 2
"""A customer has an e-mail address, a phone number, or both."""


def record_withdrawal(tx: Transaction, lead_id: str, channels: Collection[str], known_by: tuple[str, ...]) -> None:
    """Records that the customer of a lead withdrew these channels. It applies to the contact points of the lead.

    Only contact points that begin with one of `known_by` count.
    """
    rows = [
        {"contact_hash": lasting_hash(tx, PURPOSE, contact), "channel": channel, "at": tx.now}
        for contact in contact_points_of(tx, lead_id, known_by)
        for channel in channels
    ]
    if rows:
        tx.execute_each(ADD_WITHDRAWAL, rows)


def withdrawn_since(tx: Transaction, contacts: Iterable[str], granted_at: datetime) -> frozenset[str]:
    """The channels that were withdrawn at `granted_at` or later for any of at most MOST_CONTACTS contact points.

    A withdrawal applies to every vehicle.
    """
    hashes = [lasting_hash(tx, PURPOSE, contact) for contact in contacts]
    if not hashes:
        return frozenset()
    assert len(hashes) <= MOST_CONTACTS, "the statement takes no more"
    found = FIND_WITHDRAWN.read(tx, {"one_hash": hashes[0], "other_hash": hashes[-1], "granted_at": granted_at})
    return frozenset(channel for (channel,) in found)
