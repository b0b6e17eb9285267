"""How customer data is erased (contract, part 10), as statements on the caller's transaction.

An erasure leaves of a lead what names nobody: when it came, which vehicle it was about, what became of it, and the
chain of its consent events without their texts. The texts are kept apart as proof of consent (`storage.proofs`), unless
they are to be erased too. Disposal by age has two steps: a lead that nobody used for long enough loses all but its
consent, which the law wants kept for longer. Who erases holds the dealer's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    and_,
    bindparam,
    delete,
    exists,
    func,
    join,
    or_,
    select,
    update,
)

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.appointments import STANDING, end_appointments, hand_over
from dealer_agent.storage.consents import DISPOSED, ERASED, KEPT_AS_PROOF, forget_consents, note_forgotten
from dealer_agent.storage.leads import NO_VEHICLE
from dealer_agent.storage.proofs import COUNT_OLD_PROOFS, drop_proofs, keep_as_proof, old_proofs
from dealer_agent.storage.schema import (
    appointments,
    consent_events,
    idempotency,
    lead_contacts,
    lead_events,
    leads,
    outbox,
    places,
)

BATCH = 100
"""The most leads that one transaction disposes of: it bounds how long new leads wait."""


class Disposed(NamedTuple):
    """The number of leads whose customer data, and of those whose consent texts, were deleted."""

    leads: int
    consents: int


_LEADS: BindParameter[Any] = bindparam("lead_ids", expanding=True)

EMPTY_LEADS = (
    update(leads)
    .where(leads.c.dealer_id == bindparam("in_dealer"), leads.c.lead_id.in_(_LEADS), leads.c.erased_at.is_(None))
    .values(customer=None, payload=None, source_agent=None, may_be_same_person_as=None, erased_at=bindparam("at"))
)

# The links of other leads to these.
UNLINK = (
    update(leads)
    .where(leads.c.dealer_id == bindparam("in_dealer"), leads.c.may_be_same_person_as.in_(_LEADS))
    .values(may_be_same_person_as=None)
)

EMPTY_ADDITIONS = (
    update(lead_events)
    .where(lead_events.c.dealer_id == bindparam("in_dealer"), lead_events.c.lead_id.in_(_LEADS))
    .values(changes=None)
)

EMPTY_VISITS = (
    update(appointments)
    .where(appointments.c.dealer_id == bindparam("in_dealer"), appointments.c.lead_id.in_(_LEADS))
    .values(request=None)
)

DROP_REPLIES = delete(idempotency).where(
    idempotency.c.dealer_id == bindparam("in_dealer"), idempotency.c.lead_id.in_(_LEADS)
)

DROP_CONTACTS = delete(lead_contacts).where(
    lead_contacts.c.dealer_id == bindparam("in_dealer"), lead_contacts.c.lead_id.in_(_LEADS)
)

# The contact stays: it finds the consent.
FORGET_VEHICLES = (
    update(lead_contacts)
    .where(lead_contacts.c.dealer_id == bindparam("in_dealer"), lead_contacts.c.lead_id.in_(_LEADS))
    .values(vehicle=None, vehicle_key=NO_VEHICLE)
)

# What disposal deletes: rows that only served the use of a lead. An erasure keeps them as a record of what happened.
DROP_ADDITIONS = delete(lead_events).where(
    lead_events.c.dealer_id == bindparam("in_dealer"), lead_events.c.lead_id.in_(_LEADS)
)

DROP_SETTLED = delete(outbox).where(outbox.c.dealer_id == bindparam("in_dealer"), outbox.c.lead_id.in_(_LEADS))

FREE_PAST_PLACES = delete(places).where(
    places.c.dealer_id == bindparam("in_dealer"),
    places.c.appointment_id.in_(
        select(appointments.c.appointment_id).where(
            appointments.c.dealer_id == bindparam("in_dealer"), appointments.c.lead_id.in_(_LEADS)
        )
    ),
)

# A process that is making one of these documents has lost the lease and sends nothing. A process that is sending one
# may have sent it: `leased_until` says until when. The notice about the erasure waits until then.
DROP_DELIVERIES = (
    update(outbox)
    .where(
        outbox.c.dealer_id == bindparam("in_dealer"),
        outbox.c.lead_id.in_(_LEADS),
        outbox.c.state.in_(("waiting", "parked")),
    )
    .values(
        state="dropped", settled_at=bindparam("at"), lease=None, document=None, problem="the customer was forgotten"
    )
)

FIND_VISITS_TO_COME = select(appointments.c.appointment_id).where(
    appointments.c.dealer_id == bindparam("dealer_id"),
    appointments.c.lead_id.in_(_LEADS),
    appointments.c.status.in_(STANDING),
    or_(appointments.c.starts_at.is_(None), appointments.c.starts_at > bindparam("at")),
)

# A lead with a future visit or a waiting delivery is in use.
_UNUSED = and_(
    leads.c.dealer_id == bindparam("dealer_id"),
    leads.c.used_at < bindparam("since"),
    leads.c.erased_at.is_(None),
    ~exists().where(
        appointments.c.dealer_id == leads.c.dealer_id,
        appointments.c.lead_id == leads.c.lead_id,
        appointments.c.status == "confirmed",
        appointments.c.ends_at > bindparam("now"),
    ),
    ~exists().where(
        outbox.c.dealer_id == leads.c.dealer_id, outbox.c.lead_id == leads.c.lead_id, outbox.c.state == "waiting"
    ),
)

FIND_UNUSED = select(leads.c.lead_id).where(_UNUSED).order_by(leads.c.used_at, leads.c.lead_id).limit(BATCH)

COUNT_UNUSED = select(func.count()).select_from(leads).where(_UNUSED)

_later = consent_events.alias("later")

_WITH_LEADS = join(
    consent_events,
    leads,
    (consent_events.c.dealer_id == leads.c.dealer_id) & (consent_events.c.lead_id == leads.c.lead_id),
)

_OLD = and_(
    consent_events.c.dealer_id == bindparam("dealer_id"),
    consent_events.c.body.is_not(None),
    consent_events.c.at < bindparam("before"),
    ~exists().where(
        _later.c.dealer_id == consent_events.c.dealer_id,
        _later.c.lead_id == consent_events.c.lead_id,
        _later.c.at >= bindparam("before"),
    ),
)

# A consent is kept for at least as long as its lead.
FIND_OLD_CONSENTS = (
    select(consent_events.c.lead_id)
    .select_from(_WITH_LEADS)
    .where(_OLD, leads.c.erased_at.is_not(None))
    .group_by(consent_events.c.lead_id)
    .order_by(func.min(consent_events.c.number))
    .limit(BATCH)
)

COUNT_OLD_CONSENTS = (
    select(func.count(consent_events.c.lead_id.distinct()))
    .select_from(_WITH_LEADS)
    .where(_OLD, or_(leads.c.erased_at.is_not(None), _UNUSED))
)


def erase_lead(
    connection: Connection, cipher: Cipher, dealer_id: str, lead_id: str, at: datetime, *, consent_too: bool = False
) -> bool:
    """Erases the customer of a lead. Returns False if there was no customer data.

    It empties every sealed column of the lead and of its rows in other tables, drops waiting deliveries, cancels future
    visits and frees their places. An appraisal of another lead within such a visit stays. It keeps the proof of consent
    apart, unless `consent_too` is set. It adds an event about the erasure to the chain of consent events.
    """
    emptied = _empty(connection, dealer_id, [lead_id], at)
    kept = not consent_too and keep_as_proof(connection, cipher, dealer_id, lead_id)
    proofs = drop_proofs(connection, dealer_id, [lead_id]) if consent_too else 0
    dropped = connection.execute(DROP_CONTACTS, {"in_dealer": dealer_id, "lead_ids": [lead_id]}).rowcount
    forgotten = forget_consents(connection, cipher, dealer_id, lead_id, at, KEPT_AS_PROOF if kept else ERASED)
    if proofs and not forgotten:
        note_forgotten(connection, cipher, dealer_id, lead_id, at, ERASED)
    return bool(emptied or dropped or forgotten or proofs)


def dispose(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    *,
    leads_unused_since: datetime,
    consents_before: datetime,
    now: datetime,
) -> Disposed:
    """Erases up to BATCH customers whose leads were not used since `leads_unused_since`.

    It deletes the rows that only served the use of such a lead. The consent stays, with the hashes that find it by
    e-mail or phone, until its last event is older than `consents_before`. The same applies to the proof of an erased
    customer's consent. A lead with a waiting delivery or a future visit is in use.
    """
    unused = connection.execute(FIND_UNUSED, {"dealer_id": dealer_id, "since": leads_unused_since, "now": now})
    lead_ids = list(unused.scalars())
    if lead_ids:
        _empty(connection, dealer_id, lead_ids, now)
        for statement in (FORGET_VEHICLES, DROP_ADDITIONS, DROP_SETTLED, FREE_PAST_PLACES):
            connection.execute(statement, {"in_dealer": dealer_id, "lead_ids": lead_ids})
    old = list(connection.execute(FIND_OLD_CONSENTS, {"dealer_id": dealer_id, "before": consents_before}).scalars())
    for lead_id in old:
        forget_consents(connection, cipher, dealer_id, lead_id, now, DISPOSED)
    if old:
        connection.execute(DROP_CONTACTS, {"in_dealer": dealer_id, "lead_ids": old})
    proven = old_proofs(connection, dealer_id, consents_before, BATCH - len(old))
    if proven:
        drop_proofs(connection, dealer_id, proven)
    for lead_id in proven:
        note_forgotten(connection, cipher, dealer_id, lead_id, now, DISPOSED)
    return Disposed(leads=len(lead_ids), consents=len(old) + len(proven))


def disposable(
    connection: Connection, dealer_id: str, *, leads_unused_since: datetime, consents_before: datetime, now: datetime
) -> Disposed:
    """How much `dispose` would erase if it was called until nothing is left."""
    limits = {"dealer_id": dealer_id, "since": leads_unused_since, "before": consents_before, "now": now}
    unused = connection.execute(COUNT_UNUSED, limits).scalar_one()
    consents = sum(connection.execute(count, limits).scalar_one() for count in (COUNT_OLD_CONSENTS, COUNT_OLD_PROOFS))
    return Disposed(leads=unused, consents=consents)


def _empty(connection: Connection, dealer_id: str, lead_ids: Sequence[str], at: datetime) -> int:
    """Empties these leads except contacts and consents. Returns the number of leads whose customer was known."""
    chosen = {"in_dealer": dealer_id, "lead_ids": list(lead_ids), "at": at}
    to_come = list(connection.execute(FIND_VISITS_TO_COME, chosen | {"dealer_id": dealer_id}).scalars())
    hand_over(connection, dealer_id, to_come, lead_ids)
    end_appointments(connection, dealer_id, to_come, at, "cancelled")
    for statement in (UNLINK, EMPTY_ADDITIONS, EMPTY_VISITS, DROP_REPLIES, DROP_DELIVERIES):
        connection.execute(statement, chosen)
    return connection.execute(EMPTY_LEADS, chosen).rowcount
