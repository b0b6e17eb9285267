"""Stores and reads leads, and all that is stored with one (docs/protocol.md#lead-submit).

`storage.leads.persons` searches them by contact point and sender.

A function that writes runs in a write of the `LeadWriter`: everything in one write is stored together or not at all.
Records hold plain data. Customer data is encrypted before it is stored, and decrypted when it is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import bindparam, insert, literal_column, select, tuple_

from dealer_agent.leads.consent_events import ConsentRecord
from dealer_agent.leads.records import LeadEvent, LeadRecord, StoredLead
from dealer_agent.leads.statuses import REFUSED, WAITING, QuarantineState
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.leads.prepared_statements import Prepared, Read, read_all, read_of_keys
from dealer_agent.storage.privacy import consents
from dealer_agent.storage.privacy.consents import grant, touch_lead
from dealer_agent.storage.schema import consent_events, lead_contacts, lead_events, leads, refusals
from dealer_agent.storage.statements import of_dealer, of_lead, rows_of, shown_to_staff, upsert
from dealer_agent.storage.transaction import Transaction

ENCRYPTED = (leads.c.customer, leads.c.payload, leads.c.source_agent)
# Looked up once: it takes as long as a hash.
CONTACT, CONTACT_HASH = lead_contacts.c.contact, lead_contacts.c.contact_hash
VEHICLE, VEHICLE_KEY = lead_contacts.c.vehicle, lead_contacts.c.vehicle_key
NO_VEHICLE = b""
"""The `vehicle_key` of a lead that names no vehicle."""

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

WAITS = leads.c.quarantine == literal_column(f"'{WAITING}'")
"""The condition that a lead waits in quarantine. A literal: a partial index has these leads."""

LIST_QUARANTINED = _NEWEST_FIRST.where(WAITS, leads.c.erased_at.is_(None))

_other = leads.alias("other")

IS_BEFORE = (
    tuple_(leads.c.received_at, leads.c.lead_id)
    < select(_other.c.received_at, _other.c.lead_id).where(of_dealer(_other, lead_id="before")).scalar_subquery()
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
    """What decides who may work on a lead: nothing is decrypted. `caller` is None for an anonymous sender."""

    rooftop: str
    caller: str | None
    quarantine: QuarantineState | None
    erased_at: datetime | None

    @property
    def is_kept_from_staff(self) -> bool:
        """Whether the lead waits in quarantine, or was refused there."""
        return self.quarantine in (WAITING, REFUSED)


READ_FACTS = Prepared(rows_of(leads, LeadFacts, lead_id="of_lead"))


def read_facts(tx: Transaction, lead_id: str) -> LeadFacts | None:
    """The facts of a lead; None if there is no such lead."""
    return next((LeadFacts(*row) for row in READ_FACTS.read(tx, {"of_lead": lead_id})), None)


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
    vehicle = None if vehicle_key is None else vehicle_hash(vehicle_key)
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
    return [_decrypted_lead(tx, row) for row in rows]


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
    return StoredLead(_decrypted_lead(tx, rows[0]), consents.consents_in(tx, consent_rows), events)


def _decrypted_lead(tx: Transaction, row: Any) -> LeadRecord:
    """A row as a lead, with its columns decrypted."""
    values = row._asdict()
    for column in ENCRYPTED:
        if values[column.name] is not None:
            values[column.name] = tx.decrypt(values[column.name], column, row.lead_id)
    if values["source_agent"] is not None:
        values["source_agent"] = values["source_agent"].decode()
    return LeadRecord(**values)


def vehicle_hash(vehicle_key: str) -> bytes:
    """The SHA-256 of a vehicle key, because a buyer may name a vehicle by a text of any length."""
    return sha256(vehicle_key.encode()).digest()
