"""What is to be sent, and what became of it, as statements on the caller's transaction (contract, part 10).

Delivery is at least once: a row is claimed under a lease, sent outside any transaction, and settled. Who dies meanwhile
leaves a lease that runs out; then another claims the row, and sends it with the same id. A lease is a name that is
never used twice, so who has lost it can no longer put off or park what somebody else is sending now.

Rows name a lead and hold nothing of it; `problem` is in this program's own words.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, String, and_, bindparam, func, insert, or_, select, tuple_, update

from dealer_agent.dealers.routing import TO_CUSTOMER, Kind, NewDelivery
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.leads import HASH_CONTEXT
from dealer_agent.storage.prepared import Prepared
from dealer_agent.storage.schema import UtcTime, lead_contacts, leads, outbox
from dealer_agent.vault.vault import Vault

State = Literal["waiting", "sent", "parked", "dropped"]
STATES: tuple[State, ...] = ("waiting", "sent", "parked", "dropped")

Address = tuple[str, str]
"""A rooftop and one of its channels."""


class DueDelivery(NamedTuple):
    """A row that was claimed: to be sent now, and settled in the name of `lease`. `attempts` counts this one too."""

    delivery_id: str
    lead_id: str
    event_id: str | None
    kind: Kind
    rooftop: str
    channel: str
    tried_since: datetime
    attempts: int
    lease: str

    @property
    def address(self) -> Address:
        """Where it goes."""
        return self.rooftop, self.channel


class DeliveryRecord(NamedTuple):
    """A row as people see it. `created_at` is when it was made, or when somebody last asked to have it tried anew.

    A row that waits and has a `leased_until` in the future is being sent.
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


# A lead of a sender without a token has none: both databases compare two NULLs with IS NOT DISTINCT FROM.
COUNT_MAILS_BEFORE = (
    select(func.count())
    .select_from(outbox)
    .join(leads, and_(leads.c.dealer_id == outbox.c.dealer_id, leads.c.lead_id == outbox.c.lead_id))
    .where(
        outbox.c.dealer_id == bindparam("dealer_id"),
        outbox.c.lead_id.in_(
            select(lead_contacts.c.lead_id).where(
                lead_contacts.c.dealer_id == bindparam("dealer_id"),
                lead_contacts.c.contact_hash.in_(bindparam("hashes", expanding=True)),
            )
        ),
        leads.c.token_id.is_not_distinct_from(bindparam("token_id", type_=String)),
        outbox.c.kind == bindparam("kind"),
        outbox.c.state.in_(("waiting", "sent")),
        outbox.c.created_at > bindparam("since"),
        tuple_(outbox.c.created_at, outbox.c.delivery_id)
        < tuple_(bindparam("at", type_=UtcTime), bindparam("delivery_id", type_=String)),
    )
)

# Not named as the column, which SQLAlchemy keeps for itself in an UPDATE.
_DEALER = outbox.c.dealer_id == bindparam("of_dealer")
# A clock may be set back: what was never put off is due whenever it was stored, and no lease can end later than one
# that begins now.
_DUE = and_(
    _DEALER,
    outbox.c.state == "waiting",
    or_(outbox.c.due_at <= bindparam("now"), outbox.c.due_at == outbox.c.created_at),
    or_(
        outbox.c.leased_until.is_(None),
        outbox.c.leased_until <= bindparam("now"),
        outbox.c.leased_until > bindparam("until"),
    ),
)

ADD_DELIVERY = Prepared(insert(outbox))

# Never tried: what a receiver may have seen under its id stays as it was.
READ_UNTRIED = select(outbox.c.rooftop, outbox.c.channel).where(
    _DEALER,
    outbox.c.lead_id == bindparam("lead_id"),
    outbox.c.state == "waiting",
    outbox.c.attempts == 0,
    outbox.c.kind.not_in(TO_CUSTOMER),
)

DUE_ADDRESSES = select(outbox.c.rooftop, outbox.c.channel).where(_DUE).distinct()

# SKIP LOCKED on PostgreSQL: two workers claim side by side. On SQLite the writer's transaction is the lock.
PICK_DUE = (
    select(outbox.c.delivery_id)
    .where(_DUE, outbox.c.rooftop == bindparam("rooftop"), outbox.c.channel == bindparam("channel"))
    .order_by(outbox.c.due_at, outbox.c.delivery_id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True)
)

LEASE = (
    update(outbox)
    .where(_DEALER, outbox.c.delivery_id == bindparam("picked"))
    .values(lease=bindparam("new_lease"), leased_until=bindparam("until"), attempts=outbox.c.attempts + 1)
    .returning(
        outbox.c.delivery_id,
        outbox.c.lead_id,
        outbox.c.event_id,
        outbox.c.kind,
        outbox.c.rooftop,
        outbox.c.channel,
        outbox.c.created_at,
        outbox.c.attempts,
        outbox.c.lease,
    )
)

_MINE = and_(
    _DEALER,
    outbox.c.delivery_id == bindparam("settled"),
    outbox.c.state == "waiting",
    outbox.c.lease == bindparam("held"),
)

# Whoever sent it, sent it: also when the lease ran out meanwhile.
SENT = (
    update(outbox)
    .where(_DEALER, outbox.c.delivery_id == bindparam("settled"), outbox.c.state != "sent")
    .values(state="sent", lease=None, leased_until=None, settled_at=bindparam("at"), problem=bindparam("words"))
)

RESCHEDULE = (
    update(outbox)
    .where(_MINE)
    .values(lease=None, leased_until=None, due_at=bindparam("next_due"), problem=bindparam("words"))
)

GIVE_UP = (
    update(outbox)
    .where(_MINE)
    .values(
        state=bindparam("end"), lease=None, leased_until=None, settled_at=bindparam("at"), problem=bindparam("words")
    )
)

RELEASE = update(outbox).where(_MINE).values(lease=None, leased_until=None, attempts=outbox.c.attempts - 1)

# Its age counts from now on: else it would be parked again at its first failure.
RETRY = (
    update(outbox)
    .where(_DEALER, outbox.c.state.in_(("waiting", "parked")))
    .values(state="waiting", created_at=bindparam("at"), due_at=bindparam("at"), attempts=0, settled_at=None)
)

_RECORD = tuple(outbox.c[name] for name in DeliveryRecord._fields)


def enqueue(
    connection: Connection, dealer_id: str, lead_id: str, rows: Sequence[NewDelivery], at: datetime
) -> list[str]:
    """Has these sent, from now on; their ids. To be called in the transaction that stores the lead."""
    ids = [new_ulid() for _ in rows]
    made = [
        {
            "dealer_id": dealer_id,
            "delivery_id": delivery_id,
            "lead_id": lead_id,
            "event_id": row.event_id,
            "kind": row.kind,
            "rooftop": row.rooftop,
            "channel": row.channel,
            "state": "waiting",
            "created_at": at,
            "due_at": at,
            "attempts": 0,
        }
        for delivery_id, row in zip(ids, rows, strict=True)
    ]
    for row in made:
        ADD_DELIVERY.add(connection, row)
    return ids


def mails_before(
    connection: Connection,
    vault: Vault,
    dealer_id: str,
    delivery: DueDelivery,
    email: str,
    token_id: str | None,
    within: timedelta,
) -> int:
    """How many mails of the delivery's kind this address got, or is to get, in the time before the delivery was made.

    Of leads with the same token, or of all leads without one: nothing distinguishes senders without a token, and they
    must not use up the mails of a sender with a token. `email` is normalised.
    """
    sought = {
        "dealer_id": dealer_id,
        "hashes": vault.hashes(f"email:{email}", *HASH_CONTEXT, dealer_id),
        "token_id": token_id,
        "kind": delivery.kind,
        "since": delivery.tried_since - within,
        "at": delivery.tried_since,
        "delivery_id": delivery.delivery_id,
    }
    return connection.execute(COUNT_MAILS_BEFORE, sought).scalar_one()


def due_addresses(connection: Connection, dealer_id: str, now: datetime, lease: timedelta) -> list[Address]:
    """Where something is to be sent now that nobody is sending: whoever sends has it for no longer than `lease`."""
    sought = {"of_dealer": dealer_id, "now": now, "until": now + lease}
    return [(row.rooftop, row.channel) for row in connection.execute(DUE_ADDRESSES, sought)]


def untried(connection: Connection, dealer_id: str, lead_id: str) -> set[Address]:
    """Where a lead is still to go for the first time: it goes there with all that is added to it until then."""
    return {
        (row.rooftop, row.channel)
        for row in connection.execute(READ_UNTRIED, {"of_dealer": dealer_id, "lead_id": lead_id})
    }


def claim(
    connection: Connection, dealer_id: str, now: datetime, lease: timedelta, address: Address, limit: int
) -> list[DueDelivery]:
    """The longest due at `address`, up to `limit`, for the caller alone until the lease ends."""
    rooftop, channel = address
    until = now + lease
    sought = {"of_dealer": dealer_id, "now": now, "until": until, "rooftop": rooftop, "channel": channel}
    claimed = []
    for delivery_id in connection.execute(PICK_DUE, sought | {"limit": limit}).scalars().all():
        taken = {"of_dealer": dealer_id, "picked": delivery_id, "new_lease": new_ulid(), "until": until}
        claimed.append(DueDelivery(*connection.execute(LEASE, taken).one()))
    return claimed


def settle_sent(
    connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, note: str | None = None
) -> None:
    """It was sent; `note` is what is to be said of it nevertheless."""
    settled = {"of_dealer": dealer_id, "settled": delivery.delivery_id, "at": at, "words": note}
    connection.execute(SENT, settled)


def reschedule(connection: Connection, dealer_id: str, delivery: DueDelivery, due_at: datetime, problem: str) -> bool:
    """It failed, and is tried again at `due_at`. False where the lease was lost: then nothing is changed."""
    return _settle(connection, RESCHEDULE, dealer_id, delivery, next_due=due_at, words=problem)


def park(connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, problem: str) -> bool:
    """It is tried no more until somebody asks for it. False where the lease was lost."""
    return _settle(connection, GIVE_UP, dealer_id, delivery, end="parked", at=at, words=problem)


def drop(connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, problem: str) -> bool:
    """It must not be sent any more. False where the lease was lost."""
    return _settle(connection, GIVE_UP, dealer_id, delivery, end="dropped", at=at, words=problem)


def release(connection: Connection, dealer_id: str, deliveries: Collection[DueDelivery]) -> None:
    """They were claimed and not tried: others may claim them at once, and the attempt does not count."""
    for delivery in deliveries:
        _settle(connection, RELEASE, dealer_id, delivery)


def retry_deliveries(
    connection: Connection, dealer_id: str, at: datetime, *, delivery_id: str | None = None, channel: str | None = None
) -> int:
    """Has what waits or is parked tried at once, as if it were new: one row, those of one channel, or all. How many."""
    chosen = RETRY
    if delivery_id is not None:
        chosen = chosen.where(outbox.c.delivery_id == delivery_id)
    if channel is not None:
        chosen = chosen.where(outbox.c.channel == channel)
    return connection.execute(chosen, {"of_dealer": dealer_id, "at": at}).rowcount


def list_deliveries(
    connection: Connection,
    dealer_id: str,
    limit: int,
    *,
    state: State | None = None,
    channel: str | None = None,
    lead_id: str | None = None,
) -> list[DeliveryRecord]:
    """The newest first, of those that were asked for."""
    chosen = select(*_RECORD).where(outbox.c.dealer_id == dealer_id)
    for column, value in ((outbox.c.state, state), (outbox.c.channel, channel), (outbox.c.lead_id, lead_id)):
        if value is not None:
            chosen = chosen.where(column == value)
    newest_first = chosen.order_by(outbox.c.created_at.desc(), outbox.c.delivery_id.desc()).limit(limit)
    return [DeliveryRecord(*row) for row in connection.execute(newest_first)]


def get_delivery(connection: Connection, dealer_id: str, delivery_id: str) -> DeliveryRecord | None:
    """One row."""
    sought = select(*_RECORD).where(outbox.c.dealer_id == dealer_id, outbox.c.delivery_id == delivery_id)
    row = connection.execute(sought).one_or_none()
    return None if row is None else DeliveryRecord(*row)


def _settle(connection: Connection, statement: Any, dealer_id: str, delivery: DueDelivery, **values: Any) -> bool:
    mine = {"of_dealer": dealer_id, "settled": delivery.delivery_id, "held": delivery.lease}
    return connection.execute(statement, mine | values).rowcount == 1
