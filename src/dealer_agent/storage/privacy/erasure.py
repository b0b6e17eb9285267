"""Erases customer data, on request and by age (docs/protocol.md#erasure).

- An erasure leaves data of a lead that names nobody: its time, its vehicle, its visits and deliveries, and the chain
  of its consent events without their texts.
- The texts move to `consent_proofs` (16 CFR 310.5), unless they are to be erased too. They are encrypted, found by a
  keyed hash of a contact point, and deleted by age or on request. They are used as proof only.
- Disposal by age has two steps. First, a lead that nobody used for long enough loses everything but its consent. Later,
  the consent is erased too.
- `purge` deletes rows that hold nothing about customers that is readable without a key.

The caller of a function that writes in a given transaction holds the dealer's lock.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Delete, and_, bindparam, delete, exists, func, insert, join, or_, select, update

from dealer_agent.encryption.errors import DecryptionFailed, UnknownKey
from dealer_agent.leads.consent_events import DISPOSED, ERASED, KEPT_AS_PROOF, ConsentEvent
from dealer_agent.leads.statuses import ACTIVE
from dealer_agent.storage.clock import clock_problem, trust_clock
from dealer_agent.storage.daily_counts import delete_oldest
from dealer_agent.storage.errors import ClockUnreliable
from dealer_agent.storage.leads.idempotency import IDEMPOTENCY_KEPT
from dealer_agent.storage.leads.stored_leads import NO_VEHICLE
from dealer_agent.storage.leads.visits import end_visits, give_own_places
from dealer_agent.storage.privacy.accesses import delete_accesses
from dealer_agent.storage.privacy.consents import (
    READ_EVENTS,
    READ_EVENTS_WITH_PROOFS,
    decrypted_body,
    erase_consents,
    event_of,
    record_erasure,
)
from dealer_agent.storage.privacy.withdrawals import contact_points_of, permanent_hash
from dealer_agent.storage.schema import (
    appointments,
    consent_events,
    consent_proofs,
    idempotency,
    lead_contacts,
    lead_events,
    lead_notes,
    leads,
    outbox,
    places,
    proof_contacts,
    refusals,
)
from dealer_agent.storage.statements import of_dealer, of_leads, same_lead, upsert
from dealer_agent.storage.store import Begin, Store
from dealer_agent.storage.transaction import Transaction

PURPOSE = "proofs of consent"

ADD_PROOF = insert(consent_proofs)

ADD_PROOF_CONTACT = upsert(proof_contacts, "NOTHING")

FIND_PROVEN = select(proof_contacts.c.lead_id).where(of_dealer(proof_contacts, contact_hash="contact_hash"))

READ_NEWEST_PROOF = select(func.max(consent_proofs.c.last_at)).where(of_leads(consent_proofs))

_OLD_PROOFS = (of_dealer(consent_proofs), consent_proofs.c.last_at < bindparam("before"))

FIND_OLD_PROOFS = (
    select(consent_proofs.c.lead_id)
    .where(*_OLD_PROOFS)
    .group_by(consent_proofs.c.lead_id)
    .order_by(func.min(consent_proofs.c.last_at), consent_proofs.c.lead_id)
    .limit(bindparam("most"))
)

COUNT_OLD_PROOFS = select(func.count(consent_proofs.c.lead_id.distinct())).where(*_OLD_PROOFS)

DELETE_PROOFS = delete(consent_proofs).where(of_leads(consent_proofs))

DELETE_PROOF_CONTACTS = delete(proof_contacts).where(of_leads(proof_contacts))


def keep_as_proof(tx: Transaction, lead_id: str) -> bool:
    """Copies the bodies of a lead's consent events into the proofs; the caller deletes them from the events.

    Returns False and stores nothing if there is no body, or if a body or a contact point cannot be decrypted: a value
    that was changed in the database proves nothing.
    """
    rows = READ_EVENTS.read(tx, {"of_lead": lead_id})
    try:
        bodies = {
            row.number: tx.decrypt(row.body, consent_events.c.body, str(row.number))
            for row in rows
            if row.body is not None
        }
        contacts = contact_points_of(tx, lead_id)
    except (UnknownKey, DecryptionFailed):
        return False
    if not bodies:
        return False
    last_at = max(row.at for row in rows)
    for number, body in bodies.items():
        encrypted = tx.encrypt(body, consent_proofs.c.body, str(number))
        tx.execute(ADD_PROOF, {"number": number, "lead_id": lead_id, "last_at": last_at, "body": encrypted})
    for contact in contacts:
        tx.execute(ADD_PROOF_CONTACT, {"contact_hash": permanent_hash(tx, PURPOSE, contact), "lead_id": lead_id})
    return True


def delete_proofs(tx: Transaction, lead_ids: Sequence[str]) -> int:
    """Deletes the proofs of these leads. Returns the number of events that had one."""
    chosen = {"lead_ids": list(lead_ids)}
    tx.execute(DELETE_PROOF_CONTACTS, chosen)
    return tx.execute(DELETE_PROOFS, chosen).rowcount


def old_proofs(tx: Transaction, before: datetime, most: int) -> list[str]:
    """Leads whose newest event was before `before` and whose proof is still kept, the oldest first."""
    return list(tx.execute(FIND_OLD_PROOFS, {"before": before, "most": most}).scalars())


def newest_proof(tx: Transaction, lead_ids: Sequence[str]) -> datetime | None:
    """The time of the newest event of these leads whose proof is kept; None if no proof is kept."""
    newest: datetime | None = tx.execute(READ_NEWEST_PROOF, {"lead_ids": list(lead_ids)}).scalar()
    return newest


def proven_leads(tx: Transaction, contact: str) -> list[str]:
    """The erased leads of a contact point (normalised) whose proof is kept."""
    return sorted(tx.execute(FIND_PROVEN, {"contact_hash": permanent_hash(tx, PURPOSE, contact)}).scalars())


def proven_events(tx: Transaction, lead_ids: Sequence[str]) -> tuple[ConsentEvent, ...]:
    """The consent events of these leads, in order, with the bodies from the proofs. Raises DecryptionFailed."""
    rows = tx.execute(READ_EVENTS_WITH_PROOFS, {"lead_ids": list(lead_ids)}).mappings()
    return tuple(event_of(row, decrypted_body(tx, row)) for row in sorted(rows, key=lambda row: row["number"]))


MOST_LEADS = 100
"""The most leads whose customer data one transaction deletes. It bounds how long new leads wait."""


class DisposalCounts(NamedTuple):
    """The number of leads whose customer data, and of those whose consent texts, were deleted."""

    leads: int
    consents: int


EMPTY_LEADS = (
    update(leads)
    .where(of_leads(leads), leads.c.erased_at.is_(None))
    .values(customer=None, payload=None, source_agent=None, may_be_same_person_as=None, erased_at=bindparam("at"))
)

# The links of other leads to these.
UNLINK = (
    update(leads)
    .where(of_dealer(leads), leads.c.may_be_same_person_as.in_(bindparam("lead_ids", expanding=True)))
    .values(may_be_same_person_as=None)
)

EMPTY_ADDITIONS = update(lead_events).where(of_leads(lead_events)).values(changes=None)

EMPTY_NOTES = update(lead_notes).where(of_leads(lead_notes)).values(text=None)

EMPTY_VISITS = update(appointments).where(of_leads(appointments)).values(request=None)

DELETE_RESPONSES = delete(idempotency).where(of_leads(idempotency))

DELETE_CONTACTS = delete(lead_contacts).where(of_leads(lead_contacts))

# The contact stays, to find the consent.
EMPTY_VEHICLES = update(lead_contacts).where(of_leads(lead_contacts)).values(vehicle=None, vehicle_key=NO_VEHICLE)

# Disposal also deletes the rows that only served the use of a lead. An erasure keeps them as a record.
DELETE_ADDITIONS = delete(lead_events).where(of_leads(lead_events))

DELETE_NOTES = delete(lead_notes).where(of_leads(lead_notes))

DELETE_DELIVERIES = delete(outbox).where(of_leads(outbox))

DELETE_PAST_PLACES = delete(places).where(
    of_dealer(places),
    places.c.appointment_id.in_(select(appointments.c.appointment_id).where(of_leads(appointments))),
)

# A process that is making one of these documents loses its lease and sends nothing. A process that is sending one may
# have sent it: `leased_until` says until when. The notice about the erasure waits until then.
DROP_DELIVERIES = (
    update(outbox)
    .where(of_leads(outbox), outbox.c.state.in_(("waiting", "undeliverable")))
    .values(state="dropped", settled_at=bindparam("at"), lease=None, document=None, problem="the customer was erased")
)

FIND_VISITS_TO_COME = select(appointments.c.appointment_id).where(
    of_leads(appointments),
    appointments.c.status.in_(ACTIVE),
    or_(appointments.c.starts_at.is_(None), appointments.c.starts_at > bindparam("at")),
)

# A lead with a future visit or a waiting delivery is in use.
_UNUSED = and_(
    of_dealer(leads),
    leads.c.used_at < bindparam("since"),
    leads.c.erased_at.is_(None),
    ~exists().where(
        same_lead(appointments, leads),
        appointments.c.status == "confirmed",
        appointments.c.ends_at > bindparam("now"),
    ),
    ~exists().where(same_lead(outbox, leads), outbox.c.state == "waiting"),
)

FIND_UNUSED = select(leads.c.lead_id).where(_UNUSED).order_by(leads.c.used_at, leads.c.lead_id).limit(MOST_LEADS)

COUNT_UNUSED = select(func.count()).select_from(leads).where(_UNUSED)

_later = consent_events.alias("later")

_WITH_LEADS = join(consent_events, leads)

_OLD = and_(
    of_dealer(consent_events),
    consent_events.c.body.is_not(None),
    consent_events.c.at < bindparam("before"),
    ~exists().where(same_lead(_later, consent_events), _later.c.at >= bindparam("before")),
)

# A consent is kept for at least as long as its lead.
FIND_OLD_CONSENTS = (
    select(consent_events.c.lead_id)
    .select_from(_WITH_LEADS)
    .where(_OLD, leads.c.erased_at.is_not(None))
    .group_by(consent_events.c.lead_id)
    .order_by(func.min(consent_events.c.number))
    .limit(MOST_LEADS)
)

COUNT_OLD_CONSENTS = (
    select(func.count(consent_events.c.lead_id.distinct()))
    .select_from(_WITH_LEADS)
    .where(_OLD, or_(leads.c.erased_at.is_not(None), _UNUSED))
)


def erase_lead(tx: Transaction, lead_id: str, *, consent_too: bool = False) -> bool:
    """Erases the customer of a lead. Returns False if there was no customer data.

    It empties every encrypted column of the lead and of its rows in other tables, drops waiting deliveries, cancels
    future visits and frees their places. An appraisal of another lead within such a visit stays. The proof of consent
    moves to `consent_proofs`, unless `consent_too` is set. The chain of consent events gets an event about the erasure.
    """
    tx.erases = True
    emptied = _delete_customer_data(tx, [lead_id])
    kept = not consent_too and keep_as_proof(tx, lead_id)
    proofs = delete_proofs(tx, [lead_id]) if consent_too else 0
    deleted = tx.execute(DELETE_CONTACTS, {"lead_ids": [lead_id]}).rowcount
    erased = erase_consents(tx, lead_id, KEPT_AS_PROOF if kept else ERASED)
    if proofs and not erased:
        # An earlier erasure moved the texts to the proofs, so `erase_consents` found none and added no event.
        record_erasure(tx, lead_id, ERASED)
    return bool(emptied or deleted or erased or proofs)


def dispose(
    store: Store, dealer_id: str, *, leads_unused_since: datetime, consents_before: datetime, now: datetime
) -> DisposalCounts:
    """Erases the customers of leads that were not used since `leads_unused_since`.

    A lead with a waiting delivery or a future visit is in use. The consent stays, with the hashes that find it by
    e-mail or phone, until its last event is older than `consents_before`. So does the proof of an erased customer's
    consent. Other rows that only the use of such a lead needed are deleted.

    Each transaction erases a few, so that new leads do not wait long. While no lead is that old, they do not wait at
    all. Raises ClockUnreliable, and erases nothing, if `now` is implausible.
    """
    limits = {"leads_unused_since": leads_unused_since, "consents_before": consents_before}
    with store.read(dealer_id, now) as tx:
        if problem := clock_problem(tx):
            raise ClockUnreliable(problem)
        # A key that is missing is reported even if nothing is old.
        tx.cipher  # noqa: B018
    total = DisposalCounts(0, 0)
    while True:
        # Read without the lock first: to look through all consents takes long.
        with store.read(dealer_id, now) as tx:
            if not any(disposable(tx, **limits)):
                break
        with store.lock(dealer_id, now) as tx:
            done = _dispose_some(tx, **limits)
        total = DisposalCounts(total.leads + done.leads, total.consents + done.consents)
        if max(done) < MOST_LEADS:
            break
    if any(total):
        store.truncate_log()
    return total


def disposable(tx: Transaction, *, leads_unused_since: datetime, consents_before: datetime) -> DisposalCounts:
    """The numbers that `dispose` would return."""
    limits = {"since": leads_unused_since, "before": consents_before, "now": tx.now}
    unused = tx.execute(COUNT_UNUSED, limits).scalar_one()
    consents = sum(tx.execute(count, limits).scalar_one() for count in (COUNT_OLD_CONSENTS, COUNT_OLD_PROOFS))
    return DisposalCounts(leads=unused, consents=consents)


def _dispose_some(tx: Transaction, *, leads_unused_since: datetime, consents_before: datetime) -> DisposalCounts:
    """Deletes by age the customer data of up to MOST_LEADS leads, and up to MOST_LEADS consents."""
    lead_ids = list(tx.execute(FIND_UNUSED, {"since": leads_unused_since, "now": tx.now}).scalars())
    if lead_ids:
        _delete_customer_data(tx, lead_ids)
        for statement in (EMPTY_VEHICLES, DELETE_ADDITIONS, DELETE_NOTES, DELETE_DELIVERIES, DELETE_PAST_PLACES):
            tx.execute(statement, {"lead_ids": lead_ids})
    old = list(tx.execute(FIND_OLD_CONSENTS, {"before": consents_before}).scalars())
    for lead_id in old:
        erase_consents(tx, lead_id, DISPOSED)
    if old:
        tx.execute(DELETE_CONTACTS, {"lead_ids": old})
    proven = old_proofs(tx, consents_before, MOST_LEADS - len(old))
    if proven:
        delete_proofs(tx, proven)
    for lead_id in proven:
        record_erasure(tx, lead_id, DISPOSED)
    return DisposalCounts(leads=len(lead_ids), consents=len(old) + len(proven))


def _delete_customer_data(tx: Transaction, lead_ids: Sequence[str]) -> int:
    """Deletes the customer data of these leads, but not contacts and consents. Returns how many leads had such data."""
    chosen = {"lead_ids": list(lead_ids)}
    to_come = list(tx.execute(FIND_VISITS_TO_COME, chosen | {"at": tx.now}).scalars())
    give_own_places(tx, to_come, lead_ids)
    end_visits(tx, to_come, "cancelled")
    for statement in (UNLINK, EMPTY_ADDITIONS, EMPTY_NOTES, EMPTY_VISITS, DELETE_RESPONSES):
        tx.execute(statement, chosen)
    tx.execute(DROP_DELIVERIES, chosen | {"at": tx.now})
    return tx.execute(EMPTY_LEADS, chosen | {"at": tx.now}).rowcount


MOST_ROWS = 1000
"""The most rows that one transaction deletes: a lead waits for at most one such transaction."""

MOST_REFUSALS = 100_000
"""The most refusals that are kept: strangers cause them, and only the newest are useful."""


def _delete_old(key: Column[object], at: Column[datetime]) -> Delete:
    """Deletes the oldest rows from before `before`, up to MOST_ROWS of them."""
    oldest = select(key).where(of_dealer(key.table), at < bindparam("before")).order_by(at).limit(MOST_ROWS)
    return delete(key.table).where(of_dealer(key.table), key.in_(oldest))


DELETE_OLD_RESPONSES = _delete_old(idempotency.c.fingerprint, idempotency.c.at)
DELETE_OLD_REFUSALS = _delete_old(refusals.c.refusal_id, refusals.c.at)

READ_OLDEST_KEPT = (
    select(refusals.c.at).where(of_dealer(refusals)).order_by(refusals.c.at.desc()).offset(MOST_REFUSALS - 1).limit(1)
)


def purge(
    store: Store,
    dealer_id: str,
    *,
    refusals_before: datetime,
    accesses_before: datetime,
    counts_before: datetime,
    now: datetime,
) -> None:
    """Deletes responses stored for idempotency keys after 30 days, and other rows from before these times.

    It also deletes all but the newest MOST_REFUSALS refusals. Each transaction deletes a few rows, so that leads do not
    wait. Raises ClockUnreliable, and deletes nothing, if `now` is implausible.
    """
    with store.write(dealer_id, now) as tx:
        trust_clock(tx)

    def delete_responses(tx: Transaction) -> bool:
        return tx.execute(DELETE_OLD_RESPONSES, {"before": now - IDEMPOTENCY_KEPT}).rowcount == MOST_ROWS

    def delete_refusals(tx: Transaction) -> bool:
        oldest_kept: datetime | None = tx.execute(READ_OLDEST_KEPT).scalar()
        before = refusals_before if oldest_kept is None else max(refusals_before, oldest_kept)
        return tx.execute(DELETE_OLD_REFUSALS, {"before": before}).rowcount == MOST_ROWS

    # Each returns whether there may be more to delete.
    steps: tuple[tuple[Begin, Callable[[Transaction], bool]], ...] = (
        (store.write, lambda tx: delete_oldest(tx, counts_before.date())),
        (store.write, delete_responses),
        (store.write, delete_refusals),
        (store.lock, lambda tx: delete_accesses(tx, accesses_before, MOST_ROWS) == MOST_ROWS),
    )
    for begin, delete_some in steps:
        has_more = True
        while has_more:
            with begin(dealer_id, now) as tx:
                has_more = delete_some(tx)
