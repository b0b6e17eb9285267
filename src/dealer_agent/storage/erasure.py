"""Erases customer data, on request and by age (docs/protocol.md#erasure).

An erasure leaves data of a lead that names nobody: its time, its vehicle, its visits and deliveries, and the chain of
its consent events without their texts. The texts move to `storage.proofs` as proof of consent, unless they are to be
erased too. Disposal by age has two steps. First, a lead that nobody used for long enough loses everything but its
consent. Later, the consent is erased too. The caller of `erase_lead` holds the dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import and_, bindparam, delete, exists, func, join, or_, select, update

from dealer_agent.leads.consent_events import DISPOSED, ERASED, KEPT_AS_PROOF
from dealer_agent.leads.statuses import ACTIVE
from dealer_agent.storage.appointments import end_appointments, stop_sharing
from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.consents import erase_consents, record_erasure
from dealer_agent.storage.errors import ClockDoubtful
from dealer_agent.storage.leads import NO_VEHICLE
from dealer_agent.storage.proofs import COUNT_OLD_PROOFS, delete_proofs, keep_as_proof, old_proofs
from dealer_agent.storage.schema import (
    appointments,
    consent_events,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    of_dealer,
    of_leads,
    outbox,
    places,
    same_lead,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_LEADS = 100
"""The most leads whose customer data one transaction deletes. It bounds how long new leads wait."""


class Disposed(NamedTuple):
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

EMPTY_VISITS = update(appointments).where(of_leads(appointments)).values(request=None)

DELETE_REPLIES = delete(idempotency).where(of_leads(idempotency))

DELETE_CONTACTS = delete(lead_contacts).where(of_leads(lead_contacts))

# The contact stays, to find the consent.
EMPTY_VEHICLES = update(lead_contacts).where(of_leads(lead_contacts)).values(vehicle=None, vehicle_key=NO_VEHICLE)

# Disposal also deletes the rows that only served the use of a lead. An erasure keeps them as a record.
DELETE_ADDITIONS = delete(lead_events).where(of_leads(lead_events))

DELETE_DELIVERIES = delete(outbox).where(of_leads(outbox))

DELETE_PAST_PLACES = delete(places).where(
    of_dealer(places),
    places.c.appointment_id.in_(select(appointments.c.appointment_id).where(of_leads(appointments))),
)

# A process that is making one of these documents loses its lease and sends nothing. A process that is sending one may
# have sent it: `leased_until` says until when. The notice about the erasure waits until then.
DROP_DELIVERIES = (
    update(outbox)
    .where(of_leads(outbox), outbox.c.state.in_(("waiting", "parked")))
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
    moves to `storage.proofs`, unless `consent_too` is set. The chain of consent events gets an event about the erasure.
    """
    tx.erases = True
    emptied = _empty(tx, [lead_id])
    kept = not consent_too and keep_as_proof(tx, lead_id)
    proofs = delete_proofs(tx, [lead_id]) if consent_too else 0
    deleted = tx.execute(DELETE_CONTACTS, {"lead_ids": [lead_id]}).rowcount
    erased = erase_consents(tx, lead_id, KEPT_AS_PROOF if kept else ERASED)
    if proofs and not erased:
        record_erasure(tx, lead_id, ERASED)
    return bool(emptied or deleted or erased or proofs)


def dispose(
    store: Store, dealer_id: str, *, leads_unused_since: datetime, consents_before: datetime, now: datetime
) -> Disposed:
    """Erases the customers whose leads were not used since `leads_unused_since`.

    It deletes the rows that only served the use of such a lead. The consent stays, with the hashes that find it by
    e-mail or phone, until its last event is older than `consents_before`. The same applies to the proof of an erased
    customer's consent. A lead with a waiting delivery or a future visit is in use.

    Each transaction erases a few, so that new leads do not wait long. While no lead is that old, they do not wait at
    all. Raises ClockDoubtful, and erases nothing, if `now` is implausible.
    """
    limits = {"leads_unused_since": leads_unused_since, "consents_before": consents_before}
    with store.read(dealer_id, now) as tx:
        if problem := clock_problem(tx):
            raise ClockDoubtful(problem)
        # A key that is missing is reported even if nothing is old.
        tx.cipher  # noqa: B018
    total = Disposed(0, 0)
    while True:
        # A reader looks through all the consents, which are many: it locks nothing.
        with store.read(dealer_id, now) as tx:
            if not any(disposable(tx, **limits)):
                break
        with store.lock(dealer_id, now) as tx:
            done = _dispose(tx, **limits)
        total = Disposed(total.leads + done.leads, total.consents + done.consents)
        if max(done) < MOST_LEADS:
            break
    if any(total):
        store.truncate_log()
    return total


def disposable(tx: Transaction, *, leads_unused_since: datetime, consents_before: datetime) -> Disposed:
    """The numbers that `dispose` would return."""
    limits = {"since": leads_unused_since, "before": consents_before, "now": tx.now}
    unused = tx.execute(COUNT_UNUSED, limits).scalar_one()
    consents = sum(tx.execute(count, limits).scalar_one() for count in (COUNT_OLD_CONSENTS, COUNT_OLD_PROOFS))
    return Disposed(leads=unused, consents=consents)


def _dispose(tx: Transaction, *, leads_unused_since: datetime, consents_before: datetime) -> Disposed:
    """Deletes by age the customer data of up to MOST_LEADS leads, and up to MOST_LEADS consents."""
    lead_ids = list(tx.execute(FIND_UNUSED, {"since": leads_unused_since, "now": tx.now}).scalars())
    if lead_ids:
        _empty(tx, lead_ids)
        for statement in (EMPTY_VEHICLES, DELETE_ADDITIONS, DELETE_DELIVERIES, DELETE_PAST_PLACES):
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
    return Disposed(leads=len(lead_ids), consents=len(old) + len(proven))


def _empty(tx: Transaction, lead_ids: Sequence[str]) -> int:
    """Deletes the customer data of these leads, but not contacts and consents. Returns how many leads had such data."""
    chosen = {"lead_ids": list(lead_ids)}
    to_come = list(tx.execute(FIND_VISITS_TO_COME, chosen | {"at": tx.now}).scalars())
    stop_sharing(tx, to_come, lead_ids)
    end_appointments(tx, to_come, "cancelled")
    for statement in (UNLINK, EMPTY_ADDITIONS, EMPTY_VISITS, DELETE_REPLIES):
        tx.execute(statement, chosen)
    tx.execute(DROP_DELIVERIES, chosen | {"at": tx.now})
    return tx.execute(EMPTY_LEADS, chosen | {"at": tx.now}).rowcount
