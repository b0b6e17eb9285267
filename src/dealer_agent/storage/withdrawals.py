"""The channels that a person withdrew, by keyed hashes of contact points (docs/protocol.md#withdrawal).

A withdrawal stays when the person's leads are erased: an agent may still send the old consent. A row has the hash, the
channel and the time, and nothing else. The cost of a lookup does not depend on the number of leads of a contact.

The rows are an index of the chain of consent events, which nobody can change unnoticed. The event of a withdrawal has
the same hashes, in its column `purpose`. So `storage.withdrawals_check` can compare the rows with the chain and write
them again, also after an erasure.
"""

import re
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import chain

import msgspec
from sqlalchemy import ScalarSelect, bindparam, select

from dealer_agent.leads.consent_events import WITHDRAWN, WITHDRAWN_ELSEWHERE
from dealer_agent.storage.contact_points import contact_points_of, lasting_hash
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import consent_events, lead_contacts, of_dealer, upsert, withdrawals
from dealer_agent.storage.transaction import Transaction

PURPOSE = "withdrawals"

NO_CONTACTS = "-"
"""The `purpose` of an event that adds no row: it repeats an earlier withdrawal. Older versions wrote an empty text."""

HASH = re.compile(r"\b[0-9a-f]{64}\b")

MOST_LEADS = 10
"""The newest leads of a contact whose events decide about a new lead, beside the rows: a bound for its cost."""

KINDS = (WITHDRAWN, WITHDRAWN_ELSEWHERE)

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


def newest_leads_of_contact(most: int) -> ScalarSelect[str]:
    """A subquery for the newest leads of a contact or sender. Its parameter is `contact_hash`."""
    return (
        select(lead_contacts.c.lead_id)
        .where(of_dealer(lead_contacts), lead_contacts.c.contact_hash == bindparam("contact_hash"))
        .order_by(lead_contacts.c.received_at.desc(), lead_contacts.c.lead_id.desc())
        .limit(most)
        .scalar_subquery()
    )


FIND_EVENTS = Prepared(
    select(consent_events.c.channels, consent_events.c.purpose).where(
        of_dealer(consent_events),
        consent_events.c.kind.in_([bindparam("one_kind"), bindparam("other_kind")]),
        consent_events.c.at >= bindparam("granted_at"),
        consent_events.c.lead_id.in_(newest_leads_of_contact(MOST_LEADS)),
    )
)


def record_withdrawal(tx: Transaction, lead_id: str, channels: Collection[str], known_by: tuple[str, ...]) -> str:
    """Records that the customer of a lead withdrew these channels. It applies to the contact points of the lead.

    Only contact points that begin with one of `known_by` count. Returns the `purpose` of the event.
    """
    hashes = sorted(lasting_hash(tx, PURPOSE, contact) for contact in contact_points_of(tx, lead_id, known_by))
    rows = [
        {"contact_hash": contact_hash, "channel": channel, "at": tx.now}
        for contact_hash in hashes
        for channel in channels
    ]
    if rows:
        tx.execute_each(ADD_WITHDRAWAL, rows)
    return " ".join(contact_hash.hex() for contact_hash in hashes) or NO_CONTACTS


def hashes_in(purpose: str) -> list[bytes]:
    """The hashes of contact points in the `purpose` of an event. Events of older versions have none.

    Anything else, which somebody wrote into the column, is left out: a lead must not fail.
    """
    return [bytes.fromhex(word) for word in HASH.findall(purpose)]


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


def withdrawn_by_events(tx: Transaction, contacts: Iterable[str], granted_at: datetime) -> frozenset[str]:
    """The channels that `withdrawn_since` returns, by the events of the contact points' newest leads.

    The events decide if somebody deleted rows. They are not found after an erasure.
    """
    sought = {"granted_at": granted_at, "one_kind": WITHDRAWN, "other_kind": WITHDRAWN_ELSEWHERE}
    found = (
        row.channels
        for contact in contacts
        for contact_hash in tx.hashes(contact, lead_contacts.c.contact_hash)
        for row in FIND_EVENTS.read(tx, {**sought, "contact_hash": contact_hash}, [contact_hash])
        if lasting_hash(tx, PURPOSE, contact) in hashes_in(row.purpose)
    )
    return frozenset(chain.from_iterable(msgspec.json.decode(channels, type=list[str]) for channels in found))
