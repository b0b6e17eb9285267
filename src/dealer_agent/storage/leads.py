"""Leads and all that is stored with one, as statements on the caller's transaction (contract, part 10).

Every function here takes the connection of a `LeadWriter` job: what one job does is stored together or not at all.
Records come and go in plain; what is personal in them is sealed on its way in and opened on its way out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, LargeBinary, bindparam, insert, select, text, tuple_
from ulid import ULID

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage import consents
from dealer_agent.storage.consents import GRANTED, REVOKED, ConsentEvent, ConsentRecord, grant, touch_lead
from dealer_agent.storage.contact_points import contact_context
from dealer_agent.storage.prepared_statements import Prepared, Read, read_all
from dealer_agent.storage.schema import (
    UtcTime,
    consent_events,
    lead_contacts,
    lead_events,
    leads,
    refusals,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadRecord:
    """A lead as it is kept. `customer`, `payload` (as received) and `vehicle` (the listing) are JSON in UTF-8.

    `customer`, `payload` and `source_agent` are None once the customer is forgotten, at `erased_at`. `rooftop` is where
    the lead goes; it is empty for leads older than that was noted. `vehicle_id`, `vin` and `stock` are the vehicle of
    interest, where the stock knows it. `used_at`, the last use that anybody had for it, is `received_at` of a new one.
    `lead_id`: a ULID.
    `token_id` is the sender's token, if it showed one. `may_be_same_person_as` is an earlier lead, of another sender.
    """

    dealer_id: str
    lead_id: str
    received_at: datetime
    source_agent: str | None
    status: str
    rooftop: str
    customer: bytes | None
    payload: bytes | None
    vehicle: bytes | None = None
    vehicle_id: str | None = None
    vin: str | None = None
    stock: str | None = None
    used_at: datetime | None = None
    erased_at: datetime | None = None
    token_id: str | None = None
    may_be_same_person_as: str | None = None


class LeadEvent(NamedTuple):
    """Something added to a lead later: `changes` is a JSON document, None once the customer is forgotten."""

    event_id: str
    at: datetime
    changes: bytes | None


class StoredLead(NamedTuple):
    """A lead with the events of its consent and what was added to it, both oldest first."""

    lead: LeadRecord
    consents: tuple[ConsentEvent, ...]
    events: tuple[LeadEvent, ...]


# A contact that a duplicate brought has its lead's time, so that the window counts from the first.
FIND_DUPLICATE = Prepared(
    select(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .join_from(
        lead_contacts,
        leads,
        (lead_contacts.c.dealer_id == leads.c.dealer_id) & (lead_contacts.c.lead_id == leads.c.lead_id),
    )
    .where(
        lead_contacts.c.dealer_id == bindparam("dealer_id"),
        lead_contacts.c.contact_hash == bindparam("contact_hash"),
        lead_contacts.c.vehicle_key == bindparam("vehicle_key"),
        lead_contacts.c.received_at >= bindparam("since"),
        leads.c.erased_at.is_(None),
    )
    .order_by(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .limit(1)
)


@cache
def find_known(hashes: int) -> Prepared:
    """Finds a lead by any of so many hashes of contacts, `hash_0` and so on."""
    sought = [bindparam(f"hash_{number}", type_=LargeBinary) for number in range(hashes)]
    return Prepared(
        select(lead_contacts.c.lead_id)
        .where(lead_contacts.c.dealer_id == bindparam("dealer_id"), lead_contacts.c.contact_hash.in_(sought))
        .limit(1)
    )


FIND_NEWEST = Prepared(
    select(lead_contacts.c.lead_id, lead_contacts.c.received_at)
    .where(
        lead_contacts.c.dealer_id == bindparam("dealer_id"), lead_contacts.c.contact_hash == bindparam("contact_hash")
    )
    .order_by(lead_contacts.c.received_at.desc(), lead_contacts.c.lead_id.desc())
    .limit(bindparam("most"))
)

HASHES_AT_ONCE = 500

FIND_LEADS_OF = select(lead_contacts.c.lead_id, lead_contacts.c.received_at).where(
    lead_contacts.c.dealer_id == bindparam("dealer_id"),
    lead_contacts.c.contact_hash.in_(bindparam("hashes", expanding=True)),
)

NEWEST_LEADS = 50

FIND_WITHDRAWN = Prepared(
    # A withdrawal that is repeated beside an old consent has the time of that consent's event, and tells nobody.
    text("""
    SELECT DISTINCT channels FROM consent_events AS withdrawal
    WHERE dealer_id = :dealer_id AND kind = :revoked AND at >= :granted_at
      AND lead_id IN (
        SELECT lead_id FROM lead_contacts
        WHERE dealer_id = :dealer_id AND contact_hash = :contact_hash
        ORDER BY received_at DESC, lead_id LIMIT :newest
      )
      AND NOT EXISTS (
        SELECT 1 FROM consent_events AS consent
        WHERE consent.dealer_id = withdrawal.dealer_id AND consent.lead_id = withdrawal.lead_id
          AND consent.kind = :granted AND consent.at = withdrawal.at
      )
""").bindparams(bindparam("granted_at", type_=UtcTime)),
    consent_events,
    lead_contacts,
)

ADD_LEAD = Prepared(insert(leads))
ADD_CONTACT = Prepared(
    text("""
    INSERT INTO lead_contacts (dealer_id, contact_hash, vehicle_key, received_at, lead_id, contact, vehicle)
    VALUES (:dealer_id, :contact_hash, :vehicle_key, :received_at, :lead_id, :contact, :vehicle)
    ON CONFLICT DO NOTHING
""").bindparams(bindparam("received_at", type_=UtcTime)),
    lead_contacts,
)
ADD_EVENT = insert(lead_events)
ADD_REFUSAL = insert(refusals)

_LEAD_COLUMNS = tuple(leads.c[name] for name in LeadRecord.__dataclass_fields__)

LIST_LEADS = (
    select(*_LEAD_COLUMNS)
    .where(leads.c.dealer_id == bindparam("dealer_id"))
    .order_by(leads.c.received_at.desc(), leads.c.lead_id.desc())
    .limit(bindparam("limit"))
)

_other = leads.alias("other")

LIST_LEADS_BEFORE = LIST_LEADS.where(
    tuple_(leads.c.received_at, leads.c.lead_id)
    < select(_other.c.received_at, _other.c.lead_id)
    .where(_other.c.dealer_id == bindparam("dealer_id"), _other.c.lead_id == bindparam("before"))
    .scalar_subquery()
)

READ_LEAD = Prepared(
    select(*_LEAD_COLUMNS).where(leads.c.dealer_id == bindparam("dealer_id"), leads.c.lead_id == bindparam("lead_id"))
)

READ_EVENTS = Prepared(
    select(lead_events.c.event_id, lead_events.c.at, lead_events.c.changes)
    .where(lead_events.c.dealer_id == bindparam("dealer_id"), lead_events.c.lead_id == bindparam("lead_id"))
    .order_by(lead_events.c.at, lead_events.c.event_id)
)


def is_known(connection: Connection, cipher: Cipher, dealer_id: str, contacts: Iterable[str]) -> bool:
    """Whether any lead has one of `contacts` (normalised): else there is nothing to be found of who has them."""
    hashes = _searched(cipher, dealer_id, contacts)
    if not hashes:
        return False
    sought = {f"hash_{number}": found for number, found in enumerate(hashes)}
    return bool(find_known(len(hashes)).read(connection, sought | {"dealer_id": dealer_id}, hashes))


def find_duplicate(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    contacts: Sequence[str],
    vehicle_key: str | None,
    since: datetime,
) -> str | None:
    """The first lead since `since` with any of `contacts` and the same vehicle, or none in both.

    `contacts` are contact points (normalised) or senders. Never a lead whose customer is forgotten.
    """
    sought = {"dealer_id": dealer_id, "since": since}
    vehicle_keys = _vehicle_keys(cipher, dealer_id, vehicle_key)
    found = [
        first
        for contact in contacts
        # Both hashes of a row are made with one key.
        for contact_hash, vehicle in zip(_searched(cipher, dealer_id, [contact]), vehicle_keys, strict=True)
        for first in FIND_DUPLICATE.read(
            connection, sought | {"contact_hash": contact_hash, "vehicle_key": vehicle}, [contact_hash]
        )
    ]
    return min(found)[1] if found else None


def find_leads_of(connection: Connection, cipher: Cipher, dealer_id: str, contacts: Iterable[str]) -> list[str]:
    """All leads of a person, oldest first, by normalised contacts: those too of which only the consent is left.

    By senders in the place of contacts, the leads of a sender.
    """
    first_seen: dict[str, datetime] = {}
    # Databases take only so many parameters, and a person who was impersonated may have thousands of contacts.
    hashes = _searched(cipher, dealer_id, contacts)
    for first in range(0, len(hashes), HASHES_AT_ONCE):
        sought = {"dealer_id": dealer_id, "hashes": hashes[first : first + HASHES_AT_ONCE]}
        for lead_id, at in connection.execute(FIND_LEADS_OF, sought):
            first_seen[lead_id] = min(at, first_seen.get(lead_id, at))
    return sorted(first_seen, key=lambda lead_id: (first_seen[lead_id], lead_id))


def newest_leads_of(
    connection: Connection, cipher: Cipher, dealer_id: str, contacts: Iterable[str], most: int
) -> dict[str, datetime]:
    """At most `most` leads of each contact (a contact point or a sender) under each key, with their times.

    A lead that is being taken asks this: it must not cost more for a person who has thousands of leads.
    """
    found: dict[str, datetime] = {}
    for contact_hash in _searched(cipher, dealer_id, contacts):
        sought = {"dealer_id": dealer_id, "contact_hash": contact_hash, "most": most}
        found.update(FIND_NEWEST.read(connection, sought, [contact_hash]))
    return found


def withdrawn_from(
    connection: Connection, cipher: Cipher, dealer_id: str, senders: Iterable[str], granted_at: datetime
) -> frozenset[str]:
    """The channels that a person withdrew at `granted_at` or later on one of a sender's NEWEST_LEADS leads.

    `senders` are those of `leads.intake.senders`. Who never sent a lead that was withdrawn learns nothing here.
    """
    sought = {
        "dealer_id": dealer_id,
        "granted_at": granted_at,
        "revoked": REVOKED,
        "granted": GRANTED,
        "newest": NEWEST_LEADS,
    }
    return frozenset(
        channel
        for contact_hash in _searched(cipher, dealer_id, senders)
        for (channels,) in FIND_WITHDRAWN.read(connection, sought | {"contact_hash": contact_hash})
        for channel in msgspec.json.decode(channels, type=list[str])
    )


def record_lead(
    connection: Connection,
    cipher: Cipher,
    lead: LeadRecord,
    consent: ConsentRecord,
    *,
    contacts: Sequence[str],
    vehicle_key: str | None,
) -> None:
    """Stores a first lead with its consent; `contacts` (its senders among them) and `vehicle_key` find it again.

    Raises AlreadyStored when the lead's id is taken.
    """
    row: dict[str, Any] = {name: getattr(lead, name) for name in LeadRecord.__dataclass_fields__}
    row["used_at"] = lead.used_at or lead.received_at
    if lead.source_agent is not None:
        row["source_agent"] = lead.source_agent.encode()
    for column in SEALED:
        if row[column] is not None:
            row[column] = cipher.seal(row[column], *lead_context(column, lead.dealer_id, lead.lead_id))
    ADD_LEAD.add(connection, row)
    record_contacts(connection, cipher, lead, contacts, vehicle_key)
    if consent.customer is None:
        consent = replace(consent, customer=lead.customer)
    grant(connection, cipher, lead.dealer_id, lead.lead_id, consent)


def record_contacts(
    connection: Connection, cipher: Cipher, lead: LeadRecord, contacts: Sequence[str], vehicle_key: str | None
) -> None:
    """Lets a lead be found by `contacts` too: those that a duplicate brought, beside the first's own."""
    vehicle = None if vehicle_key is None else _vehicle_hash(vehicle_key)
    for contact in dict.fromkeys(contacts):
        row = contact_row(cipher, lead.dealer_id, lead.lead_id, contact, vehicle, lead.received_at)
        ADD_CONTACT.add(connection, row, key=row["contact_hash"])


def contact_row(
    cipher: Cipher, dealer_id: str, lead_id: str, contact: str, vehicle: bytes | None, received_at: datetime
) -> dict[str, Any]:
    """A row of `lead_contacts`; `vehicle` is the unkeyed hash of the vehicle, None where there is none."""
    # Sealed before anything is hashed: should the active key change in between, the contact still shows the older key.
    sealed = cipher.seal(contact.encode(), *contact_context("contact", dealer_id, lead_id))
    return {
        "dealer_id": dealer_id,
        "contact_hash": cipher.hash(contact, *HASH_CONTEXT, dealer_id),
        "vehicle_key": NO_VEHICLE if vehicle is None else cipher.hash(vehicle.hex(), *VEHICLE_CONTEXT, dealer_id),
        "received_at": received_at,
        "lead_id": lead_id,
        "contact": sealed,
        "vehicle": None if vehicle is None else cipher.seal(vehicle, *contact_context("vehicle", dealer_id, lead_id)),
    }


def append_to_lead(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, at: datetime, changes: bytes
) -> str:
    """Adds to a lead what a duplicate of it says anew, a JSON document, and returns the addition's id."""
    event_id = str(ULID())
    sealed = cipher.seal(changes, *event_context(dealer_id, event_id))
    event = {"dealer_id": dealer_id, "event_id": event_id, "lead_id": lead_id, "at": at, "changes": sealed}
    connection.execute(ADD_EVENT, event)
    touch_lead(connection, dealer_id, lead_id, at)
    return event_id


def record_refusal(connection: Connection, dealer_id: str, at: datetime, code: str) -> None:
    """Notes that a lead was refused: its code and time, and nothing else of it."""
    connection.execute(ADD_REFUSAL, {"dealer_id": dealer_id, "refusal_id": str(ULID()), "at": at, "code": code})


def list_leads(
    connection: Connection, cipher: Cipher, dealer_id: str, limit: int, before: str | None = None
) -> list[LeadRecord]:
    """The newest first; those older than the lead `before`, when given."""
    if before is None:
        found = connection.execute(LIST_LEADS, {"dealer_id": dealer_id, "limit": limit})
    else:
        found = connection.execute(LIST_LEADS_BEFORE, {"dealer_id": dealer_id, "limit": limit, "before": before})
    return [_lead(cipher, row) for row in found]


def get_lead(connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str) -> StoredLead | None:
    """A lead with all that belongs to it."""
    return lead_in(cipher, dealer_id, *read_all(connection, lead_reads(dealer_id, lead_id)))


def lead_reads(dealer_id: str, lead_id: str) -> tuple[Read, Read, Read]:
    """What finds the rows of a lead, as `lead_in` takes them."""
    key = {"dealer_id": dealer_id, "lead_id": lead_id}
    return (READ_LEAD, key), (READ_EVENTS, key), (consents.READ_EVENTS, key)


def lead_in(
    cipher: Cipher, dealer_id: str, rows: Sequence[Any], added: Iterable[Any], agreed: Iterable[Any]
) -> StoredLead | None:
    """The lead in the rows of `lead_reads`."""
    if not rows:
        return None
    events = tuple(
        LeadEvent(event_id, at, None if changes is None else cipher.open(changes, *event_context(dealer_id, event_id)))
        for event_id, at, changes in added
    )
    return StoredLead(_lead(cipher, rows[0]), consents.consents_in(cipher, agreed), events)


SEALED = ("customer", "payload", "source_agent")
HASH_CONTEXT = ("lead_contacts", "contact_hash")
VEHICLE_CONTEXT = ("lead_contacts", "vehicle_key")
NO_VEHICLE = b""
"""The `vehicle_key` of a lead that names no vehicle."""


def lead_context(column: str, dealer_id: str, lead_id: str) -> tuple[str, ...]:
    """What the seal of a lead's column is bound to."""
    return "leads", column, dealer_id, lead_id


def event_context(dealer_id: str, event_id: str) -> tuple[str, ...]:
    """What the seal of an addition to a lead is bound to."""
    return "lead_events", "changes", dealer_id, event_id


def _lead(cipher: Cipher, row: Any) -> LeadRecord:
    values = row._asdict()
    for column in SEALED:
        if values[column] is not None:
            values[column] = cipher.open(values[column], *lead_context(column, row.dealer_id, row.lead_id))
    if values["source_agent"] is not None:
        values["source_agent"] = values["source_agent"].decode()
    return LeadRecord(**values)


def _searched(cipher: Cipher, dealer_id: str, contacts: Iterable[str]) -> list[bytes]:
    return [found for contact in contacts for found in cipher.hashes(contact, *HASH_CONTEXT, dealer_id)]


def _vehicle_keys(cipher: Cipher, dealer_id: str, vehicle_key: str | None) -> list[bytes]:
    """The hash under every key, in the order of `Vault.hashes`."""
    if vehicle_key is None:
        return [NO_VEHICLE] * len(cipher.keyring.ids)
    return cipher.hashes(_vehicle_hash(vehicle_key).hex(), *VEHICLE_CONTEXT, dealer_id)


def _vehicle_hash(vehicle_key: str) -> bytes:
    """A buyer may name a vehicle at any length."""
    return sha256(vehicle_key.encode()).digest()
