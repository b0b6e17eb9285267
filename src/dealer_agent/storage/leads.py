"""Leads and all that is stored with one, as statements on the caller's transaction (contract, part 10).

Every function here takes the connection of a `LeadWriter` job: what one job does is stored together or not at all.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, insert, select, text, tuple_
from ulid import ULID

from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.schema import (
    UtcTime,
    Words,
    consents,
    dealers,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    refusals,
)

IDEMPOTENCY_KEPT = timedelta(days=30)
REFUSALS_KEPT = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadRecord:
    """A lead as it is kept. `customer`, `payload` (as received) and `appointment` are JSON documents in UTF-8.

    `vehicle_id`, `vin` and `stock` are the vehicle of interest as far as it is known. `lead_id` is a ULID.
    """

    dealer_id: str
    lead_id: str
    received_at: datetime
    source_agent: str
    status: str
    customer: bytes
    payload: bytes
    appointment: bytes | None = None
    vehicle_id: str | None = None
    vin: str | None = None
    stock: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRecord:
    """What the customer agreed to; never changed. `request_hash` is the SHA-256 of the request as received."""

    received_at: datetime
    granted_at: datetime
    channels: tuple[str, ...]
    scope: tuple[str, ...]
    consent_text: str
    request_hash: bytes
    source_agent: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyRecord:
    """The first answer to a key. `scope` is the token's id, else the agent's name; `reply` is the answer's bytes."""

    scope: str
    key: str
    payload_hash: bytes
    reply: bytes
    at: datetime


class StoredReply(NamedTuple):
    """The first answer to an idempotency key, and the hash of the payload that it answered."""

    payload_hash: bytes
    reply: bytes
    at: datetime


class LeadEvent(NamedTuple):
    """Something added to a lead later: `changes` is a JSON document."""

    at: datetime
    changes: bytes


class StoredLead(NamedTuple):
    """A lead with its consent records and what was added to it, both oldest first."""

    lead: LeadRecord
    consents: tuple[ConsentRecord, ...]
    events: tuple[LeadEvent, ...]


class Purged(NamedTuple):
    """How many were deleted."""

    idempotency: int
    refusals: int


# FOR NO KEY UPDATE on PostgreSQL; on SQLite the writer's transaction is the lock.
LOCK_DEALER = (
    select(dealers.c.dealer_id).where(dealers.c.dealer_id == bindparam("dealer_id")).with_for_update(key_share=True)
)

ADD_DEALER = text("INSERT INTO dealers (dealer_id) VALUES (:dealer_id) ON CONFLICT (dealer_id) DO NOTHING")

FIND_REPLY = select(idempotency.c.payload_hash, idempotency.c.reply, idempotency.c.at).where(
    idempotency.c.dealer_id == bindparam("dealer_id"),
    idempotency.c.fingerprint == bindparam("fingerprint"),
    idempotency.c.at >= bindparam("since"),
)

# Writes nothing where the key has an answer that is still valid.
KEEP_REPLY = text("""
    INSERT INTO idempotency (dealer_id, fingerprint, at, payload_hash, reply)
    VALUES (:dealer_id, :fingerprint, :at, :payload_hash, :reply)
    ON CONFLICT (dealer_id, fingerprint)
    DO UPDATE SET at = excluded.at, payload_hash = excluded.payload_hash, reply = excluded.reply
    WHERE idempotency.at < :since
""").bindparams(bindparam("at", type_=UtcTime), bindparam("since", type_=UtcTime))

# A contact that a duplicate brought has its lead's time, so that the window counts from the first.
FIND_DUPLICATE = (
    select(lead_contacts.c.lead_id)
    .where(
        lead_contacts.c.dealer_id == bindparam("dealer_id"),
        lead_contacts.c.contact.in_(bindparam("contacts", expanding=True)),
        lead_contacts.c.vehicle_key == bindparam("vehicle_key"),
        lead_contacts.c.received_at >= bindparam("since"),
    )
    .order_by(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .limit(1)
)

ADD_LEAD = insert(leads)
ADD_CONTACT = text("""
    INSERT INTO lead_contacts (dealer_id, contact, vehicle_key, received_at, lead_id)
    VALUES (:dealer_id, :contact, :vehicle_key, :received_at, :lead_id)
    ON CONFLICT DO NOTHING
""").bindparams(bindparam("contact", type_=Words), bindparam("received_at", type_=UtcTime))
ADD_CONSENT = insert(consents)
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

READ_LEAD = select(*_LEAD_COLUMNS).where(
    leads.c.dealer_id == bindparam("dealer_id"), leads.c.lead_id == bindparam("lead_id")
)

READ_CONSENTS = (
    select(*(consents.c[name] for name in ConsentRecord.__dataclass_fields__))
    .where(consents.c.dealer_id == bindparam("dealer_id"), consents.c.lead_id == bindparam("lead_id"))
    .order_by(consents.c.received_at, consents.c.consent_id)
)

READ_EVENTS = (
    select(lead_events.c.at, lead_events.c.changes)
    .where(lead_events.c.dealer_id == bindparam("dealer_id"), lead_events.c.lead_id == bindparam("lead_id"))
    .order_by(lead_events.c.at, lead_events.c.event_id)
)

PURGE_REPLIES = delete(idempotency).where(
    idempotency.c.dealer_id == bindparam("dealer_id"), idempotency.c.at < bindparam("before")
)

PURGE_REFUSALS = delete(refusals).where(
    refusals.c.dealer_id == bindparam("dealer_id"), refusals.c.at < bindparam("before")
)


def lock_dealer(connection: Connection, dealer_id: str) -> None:
    """Holds back every other lead of this dealer until the transaction ends, in every process."""
    if connection.execute(LOCK_DEALER, {"dealer_id": dealer_id}).one_or_none() is None:
        connection.execute(ADD_DEALER, {"dealer_id": dealer_id})
        connection.execute(LOCK_DEALER, {"dealer_id": dealer_id}).one()


def find_idempotent(connection: Connection, dealer_id: str, scope: str, key: str, now: datetime) -> StoredReply | None:
    """The first answer to this key, for 30 days."""
    sought = {"dealer_id": dealer_id, "fingerprint": _fingerprint(scope, key), "since": now - IDEMPOTENCY_KEPT}
    row = connection.execute(FIND_REPLY, sought).one_or_none()
    return None if row is None else StoredReply(*row)


def record_idempotency(connection: Connection, dealer_id: str, record: IdempotencyRecord) -> None:
    """Keeps the first answer to a key. Raises AlreadyStored when the key has one that is younger than 30 days."""
    kept = {
        "dealer_id": dealer_id,
        "fingerprint": _fingerprint(record.scope, record.key),
        "at": record.at,
        "payload_hash": record.payload_hash,
        "reply": record.reply,
        "since": record.at - IDEMPOTENCY_KEPT,
    }
    if connection.execute(KEEP_REPLY, kept).rowcount == 0:
        raise AlreadyStored("this idempotency key has an answer")


def find_duplicate(
    connection: Connection, dealer_id: str, contacts: Sequence[str], vehicle_key: str | None, since: datetime
) -> str | None:
    """The first lead since `since` with any of `contacts` (normalised) and the same vehicle, or none in both."""
    sought = {"dealer_id": dealer_id, "contacts": list(contacts), "vehicle_key": _vehicle_hash(vehicle_key)}
    lead_id: str | None = connection.execute(FIND_DUPLICATE, sought | {"since": since}).scalar()
    return lead_id


def record_lead(
    connection: Connection,
    lead: LeadRecord,
    consent: ConsentRecord,
    *,
    contacts: Sequence[str],
    vehicle_key: str | None,
    idempotency: IdempotencyRecord | None = None,
) -> None:
    """Stores a first lead with its consent record; `contacts` and `vehicle_key` are what finds its duplicates.

    Raises AlreadyStored when the lead's id or the idempotency key is taken.
    """
    connection.execute(ADD_LEAD, asdict(lead))
    record_contacts(connection, lead, contacts, vehicle_key)
    record_consent(connection, lead.dealer_id, lead.lead_id, consent)
    if idempotency is not None:
        record_idempotency(connection, lead.dealer_id, idempotency)


def record_contacts(connection: Connection, lead: LeadRecord, contacts: Sequence[str], vehicle_key: str | None) -> None:
    """Lets a lead's duplicates be found by `contacts` too: those that a duplicate brought, beside the first's own."""
    found_by = {
        "dealer_id": lead.dealer_id,
        "vehicle_key": _vehicle_hash(vehicle_key),
        "received_at": lead.received_at,
        "lead_id": lead.lead_id,
    }
    if contacts:
        connection.execute(ADD_CONTACT, [found_by | {"contact": contact} for contact in dict.fromkeys(contacts)])


def record_consent(connection: Connection, dealer_id: str, lead_id: str, consent: ConsentRecord) -> None:
    """Adds a consent record to a lead; a duplicate brings one of its own."""
    row = asdict(consent) | {
        "dealer_id": dealer_id,
        "lead_id": lead_id,
        "consent_id": str(ULID()),
        "channels": msgspec.json.encode(consent.channels),
        "scope": msgspec.json.encode(consent.scope),
        "consent_text": consent.consent_text.encode(),
    }
    connection.execute(ADD_CONSENT, row)


def append_to_lead(connection: Connection, dealer_id: str, lead_id: str, at: datetime, changes: bytes) -> None:
    """Adds to a lead what a duplicate of it says anew: `changes` is a JSON document."""
    event = {"dealer_id": dealer_id, "event_id": str(ULID()), "lead_id": lead_id, "at": at, "changes": changes}
    connection.execute(ADD_EVENT, event)


def record_refusal(connection: Connection, dealer_id: str, at: datetime, code: str) -> None:
    """Notes that a lead was refused: its code and time, and nothing else of it."""
    connection.execute(ADD_REFUSAL, {"dealer_id": dealer_id, "refusal_id": str(ULID()), "at": at, "code": code})


def list_leads(connection: Connection, dealer_id: str, limit: int, before: str | None = None) -> list[LeadRecord]:
    """The newest first; those older than the lead `before`, when given."""
    if before is None:
        found = connection.execute(LIST_LEADS, {"dealer_id": dealer_id, "limit": limit})
    else:
        found = connection.execute(LIST_LEADS_BEFORE, {"dealer_id": dealer_id, "limit": limit, "before": before})
    return [_lead(row) for row in found]


def get_lead(connection: Connection, dealer_id: str, lead_id: str) -> StoredLead | None:
    """A lead with all that belongs to it."""
    key = {"dealer_id": dealer_id, "lead_id": lead_id}
    row = connection.execute(READ_LEAD, key).one_or_none()
    if row is None:
        return None
    given = tuple(_consent(consent) for consent in connection.execute(READ_CONSENTS, key))
    events = tuple(LeadEvent(*event) for event in connection.execute(READ_EVENTS, key))
    return StoredLead(_lead(row), given, events)


def purge(connection: Connection, dealer_id: str, now: datetime) -> Purged:
    """Deletes idempotency records after 30 days and refusals after 90."""
    replies = connection.execute(PURGE_REPLIES, {"dealer_id": dealer_id, "before": now - IDEMPOTENCY_KEPT})
    refused = connection.execute(PURGE_REFUSALS, {"dealer_id": dealer_id, "before": now - REFUSALS_KEPT})
    return Purged(idempotency=replies.rowcount, refusals=refused.rowcount)


def _lead(row: Row[Any]) -> LeadRecord:
    return LeadRecord(**row._mapping)


def _consent(row: Row[Any]) -> ConsentRecord:
    values = dict(row._mapping)
    values["channels"] = msgspec.json.decode(values["channels"], type=tuple[str, ...])
    values["scope"] = msgspec.json.decode(values["scope"], type=tuple[str, ...])
    values["consent_text"] = values["consent_text"].decode()
    return ConsentRecord(**values)


def _fingerprint(scope: str, key: str) -> bytes:
    # JSON keeps the two apart: ("ab", "c") and ("a", "bc") differ.
    return sha256(msgspec.json.encode((scope, key))).digest()


def _vehicle_hash(vehicle_key: str | None) -> str:
    return "" if vehicle_key is None else sha256(vehicle_key.encode()).hexdigest()
