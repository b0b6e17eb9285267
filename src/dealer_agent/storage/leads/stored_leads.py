"""Stores and reads leads, and all that is stored with one (docs/protocol.md#lead-submit).

A function that writes runs in a write of the `LeadWriter`: everything in one write is stored together or not at all.
Records hold plain data. Customer data is encrypted before it is stored, and decrypted when it is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import LargeBinary, bindparam, exists, insert, literal_column, select, tuple_

from dealer_agent.leads.consent_events import GRANTED, WITHDRAWN, ConsentRecord
from dealer_agent.leads.records import LeadEvent, LeadRecord, StoredLead
from dealer_agent.leads.statuses import REFUSED, WAITING, QuarantineState
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_all, read_of_keys
from dealer_agent.storage.privacy import consents
from dealer_agent.storage.privacy.consents import grant, touch_lead
from dealer_agent.storage.privacy.withdrawals import newest_leads_of_contact
from dealer_agent.storage.schema import consent_events, lead_contacts, lead_events, leads, refusals
from dealer_agent.storage.statements import of_dealer, of_lead, same_lead, shown_to_staff, upsert
from dealer_agent.storage.transaction import Transaction

ENCRYPTED = (leads.c.customer, leads.c.payload, leads.c.source_agent)
# Looked up once: it takes as long as a hash.
CONTACT, CONTACT_HASH = lead_contacts.c.contact, lead_contacts.c.contact_hash
VEHICLE, VEHICLE_KEY = lead_contacts.c.vehicle, lead_contacts.c.vehicle_key
NO_VEHICLE = b""
"""The `vehicle_key` of a lead that names no vehicle."""

_OF_CONTACT = (of_dealer(lead_contacts), lead_contacts.c.contact_hash == bindparam("contact_hash"))

# A contact that a duplicate brought has its lead's time, so that the window counts from the first.
_DUPLICATE = (
    select(lead_contacts.c.received_at, lead_contacts.c.lead_id)
    .join_from(lead_contacts, leads)
    .where(
        *_OF_CONTACT,
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


FIND_NEWEST = Prepared(
    select(lead_contacts.c.lead_id, lead_contacts.c.received_at)
    .where(*_OF_CONTACT)
    .order_by(lead_contacts.c.received_at.desc(), lead_contacts.c.lead_id.desc())
    .limit(bindparam("most"))
)

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
        _withdrawal.c.lead_id.in_(newest_leads_of_contact(NEWEST_LEADS)),
        ~exists().where(
            same_lead(_consent, _withdrawal),
            _consent.c.kind == GRANTED,
            _consent.c.at == _withdrawal.c.at,
        ),
    )
)

QUARANTINED = ("quarantine", "quarantined_at")
NEW_LEAD = tuple(name for name in LeadRecord.__dataclass_fields__ if name not in (*QUARANTINED, "erased_at", "mark"))
"""The columns of a new lead. All others are empty; a lead in quarantine also has those of QUARANTINED."""


def _add_lead(names: Iterable[str]) -> Prepared:
    # Only these: a lead with more parameters takes longer, and every other lead waits meanwhile.
    return Prepared(insert(leads).values({name: bindparam(name) for name in ("dealer_id", *names)}))


ADD_LEAD, ADD_QUARANTINED_LEAD = _add_lead(NEW_LEAD), _add_lead((*NEW_LEAD, *QUARANTINED))
ADD_CONTACT = Prepared(upsert(lead_contacts, "NOTHING"))
ADD_EVENT = insert(lead_events)
ADD_REFUSAL = insert(refusals)

LEAD_COLUMNS = tuple(leads.c[name] for name in LeadRecord.__dataclass_fields__)

LEADS_OF_DEALER = select(*LEAD_COLUMNS).where(of_dealer(leads))

_NEWEST_FIRST = LEADS_OF_DEALER.order_by(leads.c.received_at.desc(), leads.c.lead_id.desc()).limit(bindparam("limit"))

LIST_LEADS = _NEWEST_FIRST.where(shown_to_staff(leads))

# A literal: a partial index has the leads that wait.
LIST_QUARANTINED = _NEWEST_FIRST.where(
    leads.c.quarantine == literal_column(f"'{WAITING}'"), leads.c.erased_at.is_(None)
)

_other = leads.alias("other")

IS_BEFORE = (
    tuple_(leads.c.received_at, leads.c.lead_id)
    < select(_other.c.received_at, _other.c.lead_id)
    .where(of_dealer(_other), _other.c.lead_id == bindparam("before"))
    .scalar_subquery()
)
"""The condition that a lead is older than the lead with the parameter `before`."""

READ_LEAD = Prepared(select(*LEAD_COLUMNS).where(of_lead(leads)))

EVENTS_OF_DEALER = select(lead_events.c.event_id, lead_events.c.at, lead_events.c.changes, lead_events.c.lead_id).where(
    of_dealer(lead_events)
)

READ_EVENTS = Prepared(
    EVENTS_OF_DEALER.where(lead_events.c.lead_id == bindparam("of_lead")).order_by(
        lead_events.c.at, lead_events.c.event_id
    )
)


class LeadFacts(NamedTuple):
    """What decides who may work on a lead: nothing is decrypted."""

    rooftop: str
    quarantine: QuarantineState | None
    erased_at: datetime | None

    @property
    def is_kept_from_staff(self) -> bool:
        """Whether the lead waits in quarantine, or was refused there."""
        return self.quarantine in (WAITING, REFUSED)


READ_FACTS = select(*(leads.c[name] for name in LeadFacts._fields)).where(of_lead(leads))


def read_facts(tx: Transaction, lead_id: str) -> LeadFacts | None:
    """The facts of a lead; None if there is no such lead."""
    row = tx.execute(READ_FACTS, {"of_lead": lead_id}).one_or_none()
    return None if row is None else LeadFacts(*row)


class LeadSender(NamedTuple):
    """The identity of the sender of a lead; None for an anonymous sender. Nothing is decrypted."""

    caller: str | None
    erased_at: datetime | None


READ_SENDER = Prepared(select(*(leads.c[name] for name in LeadSender._fields)).where(of_lead(leads)))


def read_sender(tx: Transaction, lead_id: str) -> LeadSender | None:
    """The sender of a lead; None if there is no such lead."""
    return next((LeadSender(*row) for row in READ_SENDER.read(tx, {"of_lead": lead_id})), None)


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


def record_lead(
    tx: Transaction, lead: LeadRecord, consent: ConsentRecord, *, contacts: Sequence[str], vehicle_key: str | None
) -> None:
    """Stores a first lead with its consent. Later requests find it by `contacts`, which include its senders, and
    `vehicle_key`.

    Raises AlreadyStored if a lead has this id.
    """
    row: dict[str, Any] = {name: getattr(lead, name) for name in NEW_LEAD}
    row["used_at"] = lead.used_at or lead.received_at
    if lead.source_agent is not None:
        row["source_agent"] = lead.source_agent.encode()
    for column in ENCRYPTED:
        if row[column.name] is not None:
            row[column.name] = tx.encrypt(row[column.name], column, lead.lead_id)
    if lead.quarantine is None:
        ADD_LEAD.add(tx, row)
    else:
        ADD_QUARANTINED_LEAD.add(tx, row | {name: getattr(lead, name) for name in QUARANTINED})
    record_contacts(tx, lead, contacts, vehicle_key)
    if consent.customer is None:
        consent = replace(consent, customer=lead.customer)
    grant(tx, lead.lead_id, consent)


def record_contacts(tx: Transaction, lead: LeadRecord, contacts: Sequence[str], vehicle_key: str | None) -> None:
    """Lets later requests find a lead by these `contacts` too. A duplicate may add some."""
    vehicle = None if vehicle_key is None else _vehicle_hash(vehicle_key)
    for row in contact_rows(tx, lead.lead_id, dict.fromkeys(contacts), vehicle, lead.received_at):
        ADD_CONTACT.add(tx, row, keys=[row["contact_hash"]])


def contact_rows(
    tx: Transaction, lead_id: str, contacts: Iterable[str], vehicle: bytes | None, received_at: datetime
) -> list[dict[str, Any]]:
    """Rows of `lead_contacts`; `vehicle` is the unkeyed hash of the vehicle, None without one."""
    of_lead = {
        "vehicle_key": NO_VEHICLE if vehicle is None else tx.hash(vehicle.hex(), VEHICLE_KEY),
        "received_at": received_at,
        "lead_id": lead_id,
        "vehicle": None if vehicle is None else tx.encrypt(vehicle, VEHICLE, lead_id),
    }
    return [
        {
            **of_lead,
            "contact": tx.encrypt(contact.encode(), CONTACT, lead_id),
            "contact_hash": tx.hash(contact, CONTACT_HASH),
        }
        for contact in contacts
    ]


def append_to_lead(tx: Transaction, lead_id: str, changes: bytes) -> str:
    """Adds the new content of a duplicate, a JSON document, to its lead. Returns the addition's id."""
    event_id = new_ulid()
    encrypted = tx.encrypt(changes, lead_events.c.changes, event_id)
    tx.execute(ADD_EVENT, {"event_id": event_id, "lead_id": lead_id, "at": tx.now, "changes": encrypted})
    touch_lead(tx, lead_id, tx.now)
    return event_id


def record_refusal(tx: Transaction, code: str) -> None:
    """Records that a lead was refused: its code and time, and nothing else of it."""
    tx.execute(ADD_REFUSAL, {"refusal_id": new_ulid(), "at": tx.now, "code": code})


def leads_in(tx: Transaction, rows: Iterable[Any]) -> list[LeadRecord]:
    """The leads in rows of LIST_LEADS."""
    return [_lead(tx, row) for row in rows]


def get_lead(tx: Transaction, lead_id: str) -> StoredLead | None:
    """A lead with the events of its consent and the additions to it."""
    return lead_in(tx, *read_all(tx, lead_reads(lead_id)))


def lead_reads(lead_id: str) -> tuple[Read, Read, Read]:
    """The statements that read the rows of a lead, in the order of the parameters of `lead_in`."""
    key = {"of_lead": lead_id}
    return (READ_LEAD, key), (READ_EVENTS, key), (consents.READ_EVENTS, key)


def reads_of_leads(lead_ids: Sequence[str]) -> tuple[Read, Read, Read]:
    """As `lead_reads`, for several leads. The rows are in no order."""
    return (
        read_of_keys(LEADS_OF_DEALER, leads.c.lead_id, lead_ids),
        read_of_keys(EVENTS_OF_DEALER, lead_events.c.lead_id, lead_ids),
        read_of_keys(consents.EVENTS_OF_DEALER, consent_events.c.lead_id, lead_ids),
    )


def lead_in(
    tx: Transaction, rows: Sequence[Any], added: Iterable[Any], consent_rows: Iterable[Any]
) -> StoredLead | None:
    """The lead, from its rows that the three statements of `lead_reads` return. None without a row."""
    if not rows:
        return None
    events = tuple(
        LeadEvent(event_id, at, None if changes is None else tx.decrypt(changes, lead_events.c.changes, event_id))
        for event_id, at, changes, _ in added
    )
    return StoredLead(_lead(tx, rows[0]), consents.consents_in(tx, consent_rows), events)


def _lead(tx: Transaction, row: Any) -> LeadRecord:
    """A row as a lead, with its columns decrypted."""
    values = row._asdict()
    for column in ENCRYPTED:
        if values[column.name] is not None:
            values[column.name] = tx.decrypt(values[column.name], column, row.lead_id)
    if values["source_agent"] is not None:
        values["source_agent"] = values["source_agent"].decode()
    return LeadRecord(**values)


def hashes_of(tx: Transaction, contacts: Iterable[str]) -> list[bytes]:
    """The hash of each contact under each key of the keyring."""
    return [contact_hash for contact in contacts for contact_hash in tx.hashes(contact, CONTACT_HASH)]


def _vehicle_keys(tx: Transaction, vehicle_key: str | None) -> list[bytes]:
    """The hash of a vehicle key under each key of the keyring, the active one first."""
    if vehicle_key is None:
        return [NO_VEHICLE] * len(tx.cipher.keyring.ids)
    return tx.hashes(_vehicle_hash(vehicle_key).hex(), VEHICLE_KEY)


def _vehicle_hash(vehicle_key: str) -> bytes:
    """The SHA-256 of a vehicle key, because a buyer may name a vehicle by a text of any length."""
    return sha256(vehicle_key.encode()).digest()
