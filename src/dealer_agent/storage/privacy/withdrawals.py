"""Stores which channels a person withdrew, by keyed hashes of contact points (docs/protocol.md#withdrawal).

A withdrawal stays when the person's leads are erased: an agent may still send the old consent. A row has the hash, the
channel and the time, and nothing else. The cost of a lookup does not depend on the number of leads of a contact.

The rows are an index of the chain of consent events, which nobody can change unnoticed. The event of a withdrawal has
the same hashes, in its column `purpose`. So `compare_withdrawals` compares the rows with the chain, which decides, and
`restore_withdrawals` writes them again, also after an erasure.
"""

import hmac
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

import msgspec
from sqlalchemy import bindparam, delete, or_, select

from dealer_agent.leads.consent_events import GRANTED, WITHDRAWN, WITHDRAWN_ELSEWHERE
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.schema import consent_events, lead_contacts, leads, withdrawals
from dealer_agent.storage.statements import of_dealer, of_lead, upsert
from dealer_agent.storage.transaction import Transaction

CONTACT_POINTS = ("email:", "phone:")
"""What contact points begin with (`leads.received_lead.contact_points`)."""

READ_CONTACTS = select(lead_contacts.c.contact).where(of_lead(lead_contacts))


def contact_points_of(tx: Transaction, lead_id: str, known_by: tuple[str, ...] = CONTACT_POINTS) -> set[str]:
    """The contact points of a lead that begin with one of these prefixes (`leads.received_lead.contact_points`).

    Raises DecryptionFailed and UnknownKey.
    """
    rows = tx.execute(READ_CONTACTS, {"of_lead": lead_id}).scalars()
    contacts = {tx.decrypt(row, lead_contacts.c.contact, lead_id).decode() for row in rows}
    # The keys of the lead's senders are left out: they are JSON arrays (`leads.received_lead.sender_keys`).
    return {contact for contact in contacts if contact.startswith(known_by)}


def permanent_hash(tx: Transaction, purpose: str, contact: str) -> bytes:
    """A keyed hash of a contact point that a key rotation does not change. Each purpose has a key of its own."""
    return hmac.digest(tx.cipher.permanent_key(purpose), msgspec.json.encode((tx.dealer_id, contact)), sha256)


PURPOSE = "withdrawals"

CONTACT_HASH = withdrawals.c.contact_hash

NO_CONTACTS = "-"
"""The `purpose` of an event that adds no row: it repeats an earlier withdrawal."""

HASH = re.compile(r"\b[0-9a-f]{64}\b")

MOST_LEADS = 10
"""`withdrawn_by_events` reads the events of so many leads of a contact point. It bounds the cost of a new lead."""

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


# The leads of a contact or sender, the newest first. The parameter is `contact_hash`.
NEWEST_OF_CONTACT = (
    select(lead_contacts.c.lead_id)
    .where(of_dealer(lead_contacts, contact_hash="contact_hash"))
    .order_by(lead_contacts.c.received_at.desc(), lead_contacts.c.lead_id.desc())
)

FIND_EVENTS = Prepared(
    select(consent_events.c.channels, consent_events.c.purpose).where(
        of_dealer(consent_events),
        or_(*(consent_events.c.kind == kind for kind in KINDS)),
        consent_events.c.at >= bindparam("granted_at"),
        consent_events.c.lead_id.in_(NEWEST_OF_CONTACT.limit(MOST_LEADS).scalar_subquery()),
    )
)


def record_withdrawal(tx: Transaction, lead_id: str, channels: Collection[str], known_by: tuple[str, ...]) -> str:
    """Records that the customer of a lead withdrew these channels. It applies to the contact points of the lead.

    Only contact points that begin with one of `known_by` count. Returns the `purpose` of the event.
    """
    hashes = sorted(permanent_hash(tx, PURPOSE, contact) for contact in contact_points_of(tx, lead_id, known_by))
    rows = [
        {"contact_hash": contact_hash, "channel": channel, "at": tx.now}
        for contact_hash in hashes
        for channel in channels
    ]
    if rows:
        tx.execute_each(ADD_WITHDRAWAL, rows)
    return " ".join(contact_hash.hex() for contact_hash in hashes) or NO_CONTACTS


def hashes_in(purpose: str) -> list[bytes]:
    """The hashes of contact points in the `purpose` of an event.

    Anything else, which somebody wrote into the column, is left out: a lead must not fail.
    """
    return [bytes.fromhex(word) for word in HASH.findall(purpose)]


def withdrawal_hashes(tx: Transaction, contacts: Iterable[str]) -> list[bytes]:
    """The `contact_hash` of each contact point."""
    return [permanent_hash(tx, PURPOSE, contact) for contact in contacts]


def withdrawn_since(tx: Transaction, contacts: Iterable[str], granted_at: datetime) -> frozenset[str]:
    """The channels that were withdrawn at `granted_at` or later for any of at most MOST_CONTACTS contact points.

    A withdrawal applies to every vehicle.
    """
    hashes = withdrawal_hashes(tx, contacts)
    if not hashes:
        return frozenset()
    assert len(hashes) <= MOST_CONTACTS, "the statement takes no more"
    sought = {"one_hash": hashes[0], "other_hash": hashes[-1], "granted_at": granted_at}
    return frozenset(channel for (channel,) in FIND_WITHDRAWN.read(tx, sought, hashes))


def withdrawn_by_events(tx: Transaction, contacts: Iterable[str], granted_at: datetime) -> frozenset[str]:
    """Like `withdrawn_since`, but reads the consent events of the contact points' newest leads, not the table.

    So a withdrawal also counts if somebody deleted its row. An erasure deletes the contact points of a lead, so the
    events of an erased lead are not found here.
    """
    encoded = (
        row.channels
        for contact in contacts
        for contact_hash in tx.hashes(contact, lead_contacts.c.contact_hash)
        for row in FIND_EVENTS.read(tx, {"granted_at": granted_at, "contact_hash": contact_hash}, [contact_hash])
        if permanent_hash(tx, PURPOSE, contact) in hashes_in(row.purpose)
    )
    return frozenset(chain.from_iterable(msgspec.json.decode(channels, type=list[str]) for channels in encoded))


WithdrawalTimes = dict[tuple[bytes, str], datetime]
"""The last time of a withdrawal by contact hash and channel."""


RESTORE_COMMAND = "dealer-agent consent verify --restore-withdrawals"
"""The command that writes the rows again."""


class Differences(NamedTuple):
    """The rows that are not as the chain says."""

    missing: WithdrawalTimes
    changed: WithdrawalTimes
    added: frozenset[tuple[bytes, str]]

    @property
    def restored(self) -> WithdrawalTimes:
        """The rows that `restore_withdrawals` writes."""
        return {**self.changed, **self.missing}

    @property
    def words(self) -> str | None:
        """What is different, for people; None if nothing is."""
        numbers = {"missing": len(self.missing), "changed": len(self.changed), "added by hand": len(self.added)}
        counts = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
        return f"the table of withdrawals does not agree with the consent record (rows: {counts})" if counts else None


NO_DIFFERENCES = Differences({}, {}, frozenset())

# Written into the SQL: with parameters, SQLite would not use the index of these kinds.
IS_WITHDRAWAL = consent_events.c.kind.in_(bindparam("kinds", KINDS, expanding=True, literal_execute=True))

READ_WITHDRAWALS = (
    select(consent_events.c.at, consent_events.c.channels, consent_events.c.purpose)
    .where(of_dealer(consent_events), IS_WITHDRAWAL)
    .execution_options(yield_per=500)
)

READ_ROWS = select(withdrawals).where(of_dealer(withdrawals)).execution_options(yield_per=500)

WRITE_ROW = upsert(withdrawals, "UPDATE SET at = excluded.at")

DELETE_ROW = delete(withdrawals).where(of_dealer(withdrawals, contact_hash="the_hash", channel="the_channel"))


FIND_LEADS_TO_RECHECK = (
    select(consent_events.c.lead_id)
    .distinct()
    .join_from(consent_events, leads)
    .where(
        of_dealer(consent_events),
        consent_events.c.kind == GRANTED,
        consent_events.c.at > bindparam("first"),
        consent_events.c.granted_at <= bindparam("last"),
        leads.c.erased_at.is_(None),
    )
)


def compare_withdrawals(tx: Transaction) -> Differences:
    """Compares the rows with the chain, which the caller has verified."""
    expected: WithdrawalTimes = {}
    for event in tx.execute(READ_WITHDRAWALS):
        # No event is recorded without a purpose: somebody has changed it. It counts as a missing row.
        hashes = hashes_in(event.purpose) if event.purpose else [b""]
        for channel in msgspec.json.decode(event.channels, type=list[str]):
            for contact_hash in hashes:
                key = contact_hash, channel
                expected[key] = max(event.at, expected.get(key, event.at))
    rows: WithdrawalTimes = {(bytes(row.contact_hash), row.channel): row.at for row in tx.execute(READ_ROWS)}
    missing = {key: at for key, at in expected.items() if key not in rows}
    changed = {key: at for key, at in expected.items() if rows.get(key, at) != at}
    return Differences(missing, changed, frozenset(rows.keys() - expected.keys()))


def restore_withdrawals(tx: Transaction) -> Differences:
    """Writes the rows as the chain says. Returns what was different. The caller holds the dealer's lock."""
    differences = compare_withdrawals(tx)
    if differences.added:
        tx.execute_each(DELETE_ROW, [{"the_hash": each, "the_channel": channel} for each, channel in differences.added])
    rows = [
        {"contact_hash": contact_hash, "channel": channel, "at": at}
        for (contact_hash, channel), at in differences.restored.items()
    ]
    if rows:
        tx.execute_each(WRITE_ROW, rows)
    return differences


def leads_to_recheck(tx: Transaction, restored: WithdrawalTimes) -> list[str]:
    """The leads that may have a channel that one of these withdrawals forbids. `withdraw_late` decides about each.

    They came after the first of these withdrawals, with a consent that the customer gave before the last one. Erased
    leads are left out.
    """
    if not restored:
        return []
    times = {"first": min(restored.values()), "last": max(restored.values())}
    return sorted(tx.execute(FIND_LEADS_TO_RECHECK, times).scalars())
