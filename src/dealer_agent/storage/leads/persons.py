"""Finds the leads of a person or a sender by the keyed hashes of their contacts.

A contact is a normalised contact point (`email:...`, `phone:...`) or a sender. `stored_leads.record_contacts` stores
those of a lead.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cache

import msgspec
from sqlalchemy import LargeBinary, bindparam, exists, select

from dealer_agent.leads.consent_events import GRANTED, WITHDRAWN
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.leads.stored_leads import CONTACT_HASH, NO_VEHICLE, VEHICLE_KEY, vehicle_hash
from dealer_agent.storage.privacy.withdrawals import NEWEST_OF_CONTACT
from dealer_agent.storage.schema import consent_events, lead_contacts, leads
from dealer_agent.storage.statements import of_dealer, same_lead, shown_to_staff
from dealer_agent.storage.transaction import Transaction

# A contact that a duplicate brought has its lead's time, so that the window counts from the first.
_DUPLICATE = (
    select(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .join_from(lead_contacts, leads)
    .where(
        of_dealer(lead_contacts, contact_hash="contact_hash"),
        lead_contacts.c.vehicle_key == bindparam("vehicle_key"),
        lead_contacts.c.received_at >= bindparam("since"),
        leads.c.erased_at.is_(None),
    )
    .order_by(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .limit(1)
)
FIND_DUPLICATE = Prepared(_DUPLICATE)
FIND_DUPLICATE_SHOWN_TO_STAFF = Prepared(_DUPLICATE.where(shown_to_staff(leads)))


@cache
def find_known(hashes: int) -> Prepared:
    """A statement that finds a lead by any of `hashes` contact hashes: its parameters are `hash_0`, `hash_1`, ..."""
    parameters = [bindparam(f"hash_{number}", type_=LargeBinary) for number in range(hashes)]
    return Prepared(
        select(lead_contacts.c.lead_id)
        .where(of_dealer(lead_contacts), lead_contacts.c.contact_hash.in_(parameters))
        .limit(1)
    )


FIND_NEWEST = Prepared(NEWEST_OF_CONTACT.add_columns(lead_contacts.c.received_at).limit(bindparam("most")))

MOST_HASHES = 500
"""The most hashes in one statement: databases limit the number of parameters."""

FIND_LEADS_OF = select(lead_contacts.c.lead_id, lead_contacts.c.received_at).where(
    of_dealer(lead_contacts), lead_contacts.c.contact_hash.in_(bindparam("hashes", expanding=True))
)

NEWEST_LEADS = 50

_withdrawal = consent_events.alias("withdrawal")
_consent = consent_events.alias("consent")

# `repeat_withdrawal_event` runs in the transaction that stores a consent, so both events have one time. Such an event
# is left out: it does not show when the customer withdrew.
FIND_WITHDRAWN = Prepared(
    select(_withdrawal.c.channels)
    .distinct()
    .where(
        of_dealer(_withdrawal),
        _withdrawal.c.kind == WITHDRAWN,
        _withdrawal.c.at >= bindparam("granted_at"),
        _withdrawal.c.lead_id.in_(NEWEST_OF_CONTACT.limit(NEWEST_LEADS).scalar_subquery()),
        ~exists().where(
            same_lead(_consent, _withdrawal),
            _consent.c.kind == GRANTED,
            _consent.c.at == _withdrawal.c.at,
        ),
    )
)


def is_known(tx: Transaction, contacts: Iterable[str]) -> bool:
    """Whether any lead has one of `contacts` (normalised). If not, the caller can leave out all other searches."""
    hashes = hashes_of(tx, contacts)
    if not hashes:
        return False
    return bool(
        find_known(len(hashes)).read(
            tx, {f"hash_{number}": contact_hash for number, contact_hash in enumerate(hashes)}, hashes
        )
    )


def find_duplicate(
    tx: Transaction, contacts: Iterable[str], vehicle_key: str | None, since: datetime, find: Prepared = FIND_DUPLICATE
) -> str | None:
    """The first lead since `since` with any of `contacts` and the same vehicle, or without a vehicle in both.

    `contacts` are contact points (normalised) or senders. It never finds a lead whose customer is erased. With
    FIND_DUPLICATE_SHOWN_TO_STAFF, it finds none that waits in quarantine or was refused there.
    """
    vehicle_keys = _vehicle_keys(tx, vehicle_key)
    rows = [
        row
        for contact in contacts
        # Both hashes of a row are made with one key.
        for contact_hash, vehicle in zip(hashes_of(tx, [contact]), vehicle_keys, strict=True)
        for row in find.read(tx, {"contact_hash": contact_hash, "vehicle_key": vehicle, "since": since}, [contact_hash])
    ]
    return min(rows)[1] if rows else None


def find_leads_of(tx: Transaction, contacts: Iterable[str]) -> list[str]:
    """All leads of a person, oldest first, by normalised contacts (`email:...`, `phone:...`) or by senders.

    It also finds leads of which only the consent is left.
    """
    first_seen: dict[str, datetime] = {}
    hashes = hashes_of(tx, contacts)
    for first in range(0, len(hashes), MOST_HASHES):
        for lead_id, at in tx.execute(FIND_LEADS_OF, {"hashes": hashes[first : first + MOST_HASHES]}):
            first_seen[lead_id] = min(at, first_seen.get(lead_id, at))
    return sorted(first_seen, key=lambda lead_id: (first_seen[lead_id], lead_id))


def newest_leads_of(tx: Transaction, contacts: Iterable[str], most: int) -> dict[str, datetime]:
    """The newest leads of each contact (a contact point or a sender), with their times.

    Reads at most `most` rows for each hash, so that a person with thousands of leads costs no more than others.
    """
    times: dict[str, datetime] = {}
    for contact_hash in hashes_of(tx, contacts):
        times.update(FIND_NEWEST.read(tx, {"contact_hash": contact_hash, "most": most}, [contact_hash]))
    return times


def withdrawn_from(tx: Transaction, senders: Iterable[str], granted_at: datetime) -> frozenset[str]:
    """The channels that a person withdrew at `granted_at` or later on one of a sender's NEWEST_LEADS leads.

    `senders` are `leads.received_lead.sender_keys`. A sender without a withdrawn lead learns nothing.
    """
    return frozenset(
        channel
        for contact_hash in hashes_of(tx, senders)
        for (channels,) in FIND_WITHDRAWN.read(tx, {"contact_hash": contact_hash, "granted_at": granted_at})
        for channel in msgspec.json.decode(channels, type=list[str])
    )


def hashes_of(tx: Transaction, contacts: Iterable[str]) -> list[bytes]:
    """The hash of each contact under each key of the keyring."""
    return [contact_hash for contact in contacts for contact_hash in tx.hashes(contact, CONTACT_HASH)]


def _vehicle_keys(tx: Transaction, vehicle_key: str | None) -> list[bytes]:
    """The hash of a vehicle key under each key of the keyring, the active one first."""
    if vehicle_key is None:
        return [NO_VEHICLE] * len(tx.cipher.keyring.ids)
    return tx.hashes(vehicle_hash(vehicle_key).hex(), VEHICLE_KEY)
