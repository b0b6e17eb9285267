"""Stores the queue of deliveries and their results (docs/protocol.md#durability).

Delivery is at least once. A process claims a row under a lease, sends the document outside a transaction, and records
the result. If the process dies, its lease expires. Then another process claims the row, and sends the document with the
same delivery id. A process that lost its lease can no longer change the row of a delivery that another process is
sending. The leases are those of jobs (`storage.jobs`); `delivery.loop` says why the rows are not in the same table.

The document of the first attempt is encrypted and stored before it is sent. Every later attempt sends the same bytes
under the same id. `problem` is a sentence of this program, never of the receiver.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    Integer,
    and_,
    bindparam,
    exists,
    func,
    insert,
    not_,
    or_,
    select,
    text,
    update,
)

from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.columns import UtcTime, microseconds
from dealer_agent.storage.jobs import NO_LEASE, is_free, lease_times
from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.schema import outbox
from dealer_agent.storage.statements import of_dealer, of_lead, rows_of, same_lead
from dealer_agent.storage.transaction import InstallationTransaction, Transaction

State = Literal["waiting", "sent", "undeliverable", "dropped"]

Receiver = tuple[str, str]
"""The receiver of a delivery: a rooftop and one of its channels."""


class WaitingDelivery(NamedTuple):
    """The newest waiting delivery of a lead to a receiver.

    `untried`: the document of a waiting delivery is not made yet, so it will contain every addition until then.
    """

    delivery_id: str
    untried: bool


class DueDelivery(NamedTuple):
    """A row that was claimed under `lease`: send it now, then record the result. `attempts` counts this one too.

    `document` is encrypted; it is None before the first attempt. `trace` is the `traceparent` of the request.
    """

    delivery_id: str
    lead_id: str
    event_id: str | None
    kind: Kind
    rooftop: str
    channel: str
    tried_since: datetime
    attempts: int
    lease: str
    document: bytes | None
    trace: str | None = None

    @property
    def receiver(self) -> Receiver:
        """The receiver: rooftop and channel."""
        return self.rooftop, self.channel


class DeliveryRecord(NamedTuple):
    """A delivery, for a list. `created_at` is when it was made, or when somebody last requested a retry.

    A waiting row with a `leased_until` in the future is being sent. `unknown` counts the attempts that may have
    arrived, and the one that is in progress.
    """

    delivery_id: str
    lead_id: str
    event_id: str | None
    kind: Kind
    rooftop: str
    channel: str
    state: State
    created_at: datetime
    due_at: datetime
    attempts: int
    leased_until: datetime | None
    settled_at: datetime | None
    problem: str | None
    unknown: int

    @property
    def may_have_arrived(self) -> bool:
        """Whether the receiver has the delivery, or may have it."""
        return self.state == "sent" or self.unknown > 0


class UnsentDeliveries(NamedTuple):
    """The deliveries to one receiver that are waiting or undeliverable: their number, and since when the oldest is.

    `problem` is why one of them failed, if any was tried.
    """

    rooftop: str
    channel: str
    state: State
    number: int
    oldest: datetime
    problem: str | None = None

    @property
    def receiver(self) -> Receiver:
        """The receiver: rooftop and channel."""
        return self.rooftop, self.channel


WHOLE_LEADS: tuple[Kind, ...] = ("lead", "resend", "notify")
"""The kinds whose document is the whole lead."""

# The clock may be set back. So a row that was never put off is due whenever it was stored.
_DUE = and_(
    of_dealer(outbox),
    outbox.c.state == "waiting",
    or_(outbox.c.due_at <= bindparam("now"), outbox.c.due_at == outbox.c.created_at),
    is_free(outbox),
)

_before = outbox.alias("before")

# Each receiver gets the deliveries of a lead one at a time, in order. An erasure drops rows that are being sent: the
# next delivery waits for the end of their lease.
_FREE = or_(
    outbox.c.follows.is_(None),
    ~exists().where(
        _before.c.dealer_id == outbox.c.dealer_id,
        _before.c.delivery_id == outbox.c.follows,
        or_(_before.c.state == "waiting", not_(is_free(_before))),
    ),
)

# The dealers with a due delivery, the longest waiting first. `waiting` steps through an index from dealer to dealer: it
# costs the same for a dealer with one waiting delivery and with 100,000. Then a probe for each finds the oldest.
# PostgreSQL has the same statement as a function, because this transaction does not see the rows (migration 0011).
FIND_DEALERS_WITH_DUE = text(
    """
    WITH RECURSIVE waiting(dealer_id) AS (
        SELECT min(dealer_id) FROM outbox INDEXED BY ix_outbox_due WHERE state = 'waiting'
        UNION ALL
        SELECT (
            SELECT min(o.dealer_id) FROM outbox o INDEXED BY ix_outbox_due
            WHERE o.state = 'waiting' AND o.dealer_id > w.dealer_id
        )
        FROM waiting w WHERE w.dealer_id IS NOT NULL
    ),
    oldest(dealer_id, due_at) AS (
        SELECT w.dealer_id, (
            SELECT o.due_at FROM outbox o INDEXED BY ix_outbox_due
            WHERE o.dealer_id = w.dealer_id AND o.state = 'waiting'
                AND COALESCE(NULLIF(o.due_at, o.created_at), 0) <= :now
                AND (o.leased_until IS NULL OR o.leased_until <= :now OR o.leased_until > :latest)
                AND (
                    o.follows IS NULL
                    OR NOT EXISTS (
                        SELECT 1 FROM outbox b
                        WHERE b.dealer_id = o.dealer_id AND b.delivery_id = o.follows
                            AND (b.state = 'waiting' OR b.leased_until > :now AND b.leased_until <= :latest)
                    )
                )
            ORDER BY COALESCE(NULLIF(o.due_at, o.created_at), 0)
            LIMIT 1
        )
        FROM waiting w WHERE w.dealer_id IS NOT NULL
    )
    SELECT dealer_id FROM oldest WHERE due_at IS NOT NULL ORDER BY due_at, dealer_id LIMIT :most
    """
)

CALL_DEALERS_WITH_DUE = text("SELECT * FROM dealers_with_due_deliveries(:now, :latest, :most)")

ADD_DELIVERY = Prepared(insert(outbox))

READ_WAITING = select(
    outbox.c.rooftop, outbox.c.channel, outbox.c.delivery_id, outbox.c.kind, outbox.c.document, outbox.c.lease
).where(of_lead(outbox), outbox.c.state == "waiting")

FIND_DUE_ADDRESSES = select(outbox.c.rooftop, outbox.c.channel).where(_DUE, _FREE).distinct()

# SKIP LOCKED on PostgreSQL: two processes claim side by side. On SQLite the writer's transaction is the lock.
FIND_DUE = Prepared(
    select(
        *(outbox.c[name] for name in ("delivery_id", "lead_id", "event_id", "kind", "rooftop", "channel")),
        *(outbox.c[name] for name in ("document", "trace")),
        outbox.c.created_at.label("tried_since"),
        (outbox.c.attempts + 1).label("attempts"),
    )
    .where(_DUE, _FREE, outbox.c.rooftop == bindparam("rooftop"), outbox.c.channel == bindparam("channel"))
    .order_by(outbox.c.due_at, outbox.c.delivery_id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True, of=outbox)
)

LEASE = Prepared(
    update(outbox)
    .where(of_dealer(outbox, delivery_id="picked"))
    .values(
        lease=bindparam("new_lease"),
        leased_until=bindparam("until"),
        attempts=outbox.c.attempts + 1,
        unknown=outbox.c.unknown + 1,
    )
)

HELD = and_(
    of_dealer(outbox, delivery_id="settled"),
    outbox.c.state == "waiting",
    outbox.c.lease == bindparam("held"),
)

KEEP_LEASE = update(outbox).where(HELD).values(leased_until=bindparam("until"))

# A sent document is sent, also if the lease expired meanwhile.
SENT = Prepared(
    update(outbox)
    .where(of_dealer(outbox, delivery_id="settled"), outbox.c.state != "sent")
    .values(
        NO_LEASE | {"state": "sent", "settled_at": bindparam("at"), "problem": bindparam("words"), "document": None}
    )
)

# `known` is 1 if this attempt certainly did not arrive.
_ENDED = {**NO_LEASE, "unknown": outbox.c.unknown - bindparam("known", type_=Integer)}

RESCHEDULE = (
    update(outbox).where(HELD).values(_ENDED | {"due_at": bindparam("next_due"), "problem": bindparam("words")})
)

_UNSENT = update(outbox).where(HELD).values(_ENDED | {"settled_at": bindparam("at"), "problem": bindparam("words")})
GIVE_UP = _UNSENT.values(state="undeliverable")
DROP = _UNSENT.values(state="dropped", document=None)
RELEASE = update(outbox).where(HELD).values(_ENDED | {"attempts": outbox.c.attempts - 1})

FOLLOW_ANOTHER = (
    update(outbox).where(of_lead(outbox), outbox.c.follows == bindparam("before")).values(follows=bindparam("instead"))
)

HOLD = (
    update(outbox)
    .where(of_dealer(outbox), outbox.c.state == "waiting")
    .values(NO_LEASE | {"state": "undeliverable", "settled_at": bindparam("at"), "problem": bindparam("words")})
)

# The age counts from now on. Otherwise the row would be undeliverable again at its first failure.
RETRY = (
    update(outbox)
    .where(of_dealer(outbox), outbox.c.state.in_(("waiting", "undeliverable")))
    .values(state="waiting", created_at=bindparam("at"), due_at=bindparam("at"), attempts=0, settled_at=None)
)

# Each waiting delivery follows the one before it of the same lead, rooftop and channel. It is needed after RETRY: an
# undeliverable delivery that waits again must arrive before the later ones.
PUT_IN_ORDER = (
    update(outbox)
    .where(of_dealer(outbox), outbox.c.state == "waiting")
    .values(
        follows=select(func.max(_before.c.delivery_id))
        .where(
            same_lead(_before, outbox),
            _before.c.rooftop == outbox.c.rooftop,
            _before.c.channel == outbox.c.channel,
            _before.c.state == "waiting",
            _before.c.delivery_id < outbox.c.delivery_id,
        )
        .scalar_subquery()
    )
)

READ_DELIVERIES = rows_of(outbox, DeliveryRecord)


_GROUP = (outbox.c.rooftop, outbox.c.channel, outbox.c.state)

COUNT_UNSENT = (
    select(
        *_GROUP,
        func.count(),
        func.min(func.coalesce(outbox.c.settled_at, outbox.c.created_at), type_=UtcTime),
        func.max(outbox.c.problem),
    )
    .where(of_dealer(outbox), outbox.c.state.in_(("waiting", "undeliverable")))
    .group_by(*_GROUP)
    .order_by(*_GROUP)
)

COUNT_LONG_UNSENT = COUNT_UNSENT.where(
    or_(outbox.c.state == "undeliverable", outbox.c.created_at <= bindparam("before"))
)


def enqueue(
    tx: Transaction, lead_id: str, rows: Sequence[NewDelivery], after: Mapping[Receiver, WaitingDelivery] | None = None
) -> list[str]:
    """Adds rows that are due now and returns their ids. Call it in the transaction that stores the reason for them.

    `after` are the waiting deliveries of the lead (`waiting`), which go first. A new lead has none.
    """
    ids = []
    for row in rows:
        before = (after or {}).get((row.rooftop, row.channel))
        ids.append(new_ulid())
        added = {
            "delivery_id": ids[-1],
            "lead_id": lead_id,
            "event_id": row.event_id,
            "kind": row.kind,
            "rooftop": row.rooftop,
            "channel": row.channel,
            "state": "waiting",
            "created_at": tx.now,
            "due_at": tx.now,
            "attempts": 0,
            "unknown": 0,
            "follows": None if before is None else before.delivery_id,
            "trace": tx.trace,
        }
        ADD_DELIVERY.add(tx, added)
    return ids


def due_receivers(tx: Transaction, lease: timedelta) -> list[Receiver]:
    """The receivers (rooftop, channel) with a due delivery that no process has leased. `lease` is the longest lease."""
    rows = tx.execute(FIND_DUE_ADDRESSES, lease_times(tx.now, lease))
    return [(row.rooftop, row.channel) for row in rows]


def dealers_with_due(tx: InstallationTransaction, lease: timedelta, most: int) -> list[str]:
    """Up to `most` dealers with a due delivery that no process has leased. The one that waits longest comes first."""
    statement = CALL_DEALERS_WITH_DUE if tx.connection.dialect.name == "postgresql" else FIND_DEALERS_WITH_DUE
    times = {name: microseconds(at) for name, at in lease_times(tx.now, lease).items()}
    return list(tx.execute(statement, times | {"most": most}).scalars())


def waiting(tx: Transaction, lead_id: str) -> dict[Receiver, WaitingDelivery]:
    """The newest waiting delivery of a lead to each receiver."""
    newest: dict[Receiver, WaitingDelivery] = {}
    for row in tx.execute(READ_WAITING, {"of_lead": lead_id}):
        receiver = row.rooftop, row.channel
        before = newest.get(receiver, WaitingDelivery("", untried=False))
        untried = row.kind in WHOLE_LEADS and row.document is None and row.lease is None
        newest[receiver] = WaitingDelivery(max(before.delivery_id, row.delivery_id), before.untried or untried)
    return newest


def claim(tx: Transaction, lease: timedelta, receiver: Receiver, limit: int) -> list[DueDelivery]:
    """Claims up to `limit` due rows of `receiver`, the oldest first. The caller has them until the lease ends."""
    rooftop, channel = receiver
    parameters = {"rooftop": rooftop, "channel": channel, "limit": limit}
    claimed = []
    for row in FIND_DUE.read(tx, lease_times(tx.now, lease) | parameters):
        lease_name = new_ulid()
        LEASE.add(tx, {"picked": row.delivery_id, "new_lease": lease_name, "until": tx.now + lease})
        claimed.append(DueDelivery(**row._asdict(), lease=lease_name))
    return claimed


def settle_sent(tx: Transaction, delivery: DueDelivery, note: str | None = None) -> None:
    """Records that a delivery was sent. `note` is a problem that remains, such as a refused recipient."""
    SENT.add(tx, {"settled": delivery.delivery_id, "at": tx.now, "words": note})


def reschedule(
    tx: Transaction, delivery: DueDelivery, due_at: datetime, problem: str, *, may_have_arrived: bool = False
) -> bool:
    """Records a failure and the time of the next attempt. Returns False and changes nothing if the lease was lost."""
    return _settle(tx, RESCHEDULE, delivery, may_have_arrived, {"next_due": due_at, "words": problem})


def give_up(tx: Transaction, delivery: DueDelivery, problem: str, *, may_have_arrived: bool = False) -> bool:
    """Parks a delivery: nobody sends it until a person asks for a retry. Returns False if the lease was lost."""
    return _settle(tx, GIVE_UP, delivery, may_have_arrived, {"at": tx.now, "words": problem})


def drop(tx: Transaction, delivery: DueDelivery, problem: str) -> bool:
    """Drops a delivery that must not be sent and was not sent in this attempt. Returns False if the lease was lost."""
    return _settle(tx, DROP, delivery, False, {"at": tx.now, "words": problem})


def send_under_new_id(tx: Transaction, delivery: DueDelivery, reason: str) -> str | None:
    """Replaces a delivery whose document must not be sent again. Returns the new id, or None if the lease was lost."""
    again = NewDelivery(delivery.kind, delivery.rooftop, delivery.channel, delivery.event_id)
    if not drop(tx, delivery, reason):
        return None
    (new_id,) = enqueue(tx, delivery.lead_id, [again])
    tx.execute(FOLLOW_ANOTHER, {"of_lead": delivery.lead_id, "before": delivery.delivery_id, "instead": new_id})
    return new_id


def release(tx: Transaction, delivery: DueDelivery, *, may_have_arrived: bool = False) -> None:
    """Ends the lease of a claimed row: other processes may claim it at once, and the attempt does not count."""
    _settle(tx, RELEASE, delivery, may_have_arrived, {})


def retry_deliveries(
    tx: Transaction, *, delivery_id: str | None = None, channel: str | None = None, lead_id: str | None = None
) -> int:
    """Makes waiting and undeliverable rows due now: one row, those of a channel or a lead, or all.

    Returns their number. Their age counts from now on. Each is sent with the same bytes under the same id.
    """
    chosen = _matching(delivery_id=delivery_id, channel=channel, lead_id=lead_id)
    count = tx.execute(RETRY.where(*chosen), {"at": tx.now}).rowcount
    if count:
        tx.execute(PUT_IN_ORDER)
    return count


def suspend_deliveries(tx: Transaction, problem: str) -> int:
    """Suspends all waiting deliveries of the dealer. Returns their number."""
    return tx.execute(HOLD, {"at": tx.now, "words": problem}).rowcount


def list_deliveries(
    tx: Transaction,
    limit: int,
    *,
    state: State | None = None,
    channel: str | None = None,
    lead_id: str | None = None,
) -> list[DeliveryRecord]:
    """Up to `limit` deliveries with this state, channel and lead, newest first. None matches all."""
    chosen = READ_DELIVERIES.where(*_matching(state=state, channel=channel, lead_id=lead_id))
    newest_first = chosen.order_by(outbox.c.created_at.desc(), outbox.c.delivery_id.desc()).limit(limit)
    return [DeliveryRecord(*row) for row in tx.execute(newest_first)]


def get_delivery(tx: Transaction, delivery_id: str) -> DeliveryRecord | None:
    """The delivery with this id."""
    return tx.find(DeliveryRecord, READ_DELIVERIES.where(outbox.c.delivery_id == delivery_id))


def unsent_deliveries(tx: Transaction, before: datetime | None = None) -> list[UnsentDeliveries]:
    """The deliveries that are waiting or undeliverable, by receiver and state.

    With `before`, only those of the waiting ones that wait since then or longer.
    """
    rows = tx.execute(COUNT_UNSENT) if before is None else tx.execute(COUNT_LONG_UNSENT, {"before": before})
    return [UnsentDeliveries(*row) for row in rows]


def _matching(**values: str | None) -> list[ColumnElement[bool]]:
    """The conditions that columns have these values. None matches all."""
    return [outbox.c[name] == value for name, value in values.items() if value is not None]


def _settle(
    tx: Transaction, statement: Executable, delivery: DueDelivery, may_have_arrived: bool, values: Mapping[str, Any]
) -> bool:
    parameters = {"settled": delivery.delivery_id, "held": delivery.lease, "known": 0 if may_have_arrived else 1}
    return tx.execute(statement, {**parameters, **values}).rowcount == 1
