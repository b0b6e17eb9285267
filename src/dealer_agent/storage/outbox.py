"""The queue of deliveries and their results, as statements on the caller's transaction (contract, part 10).

Delivery is at least once: a row is claimed under a lease, sent outside any transaction, and settled. Who dies meanwhile
leaves a lease that runs out; then another claims the row, and sends it with the same id. A lease is a name that is
never used twice, so who has lost it can no longer put off or park what somebody else is sending now.

What the first attempt sends is stored, sealed, before it is sent. Every later attempt sends the same bytes under the
same id. `problem` is in this program's own words.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Integer, String, and_, bindparam, exists, func, insert, or_, select, tuple_, update

from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.encryption.cipher import Cipher
from dealer_agent.leads.received_lead import token_sender_key
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.leads import newest_leads_of
from dealer_agent.storage.prepared_statements import Prepared
from dealer_agent.storage.schema import UtcTime, leads, outbox

State = Literal["waiting", "sent", "parked", "dropped"]
STATES: tuple[State, ...] = ("waiting", "sent", "parked", "dropped")

MOST_LEADS = 200
"""The most leads of one address that `mails_before` looks at: a stranger can send thousands."""

Address = tuple[str, str]
"""A rooftop and one of its channels."""


class Waiting(NamedTuple):
    """The newest delivery of a lead that waits at a receiver.

    `untried`: one that waits is not made yet, so it will hold everything that is added to the lead until then.
    """

    delivery_id: str
    untried: bool


class DueDelivery(NamedTuple):
    """A row that was claimed: to be sent now, and settled in the name of `lease`. `attempts` counts this one too.

    `document` is sealed; it is None until the delivery is made.
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

    @property
    def address(self) -> Address:
        """Where it goes."""
        return self.rooftop, self.channel


class DeliveryRecord(NamedTuple):
    """A row as people see it. `created_at` is when it was made, or when somebody last asked for a retry.

    A row that waits and has a `leased_until` in the future is being sent. `unknown` counts the attempts of which nobody
    knows whether they arrived, and the one that is under way.
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
        """Whether the receiver has it, or may have it."""
        return self.state == "sent" or self.unknown > 0


# A lead of a sender without a token has none: both databases compare two NULLs with IS NOT DISTINCT FROM.
COUNT_MAILS_BEFORE = (
    select(func.count())
    .select_from(outbox)
    .join(leads, and_(leads.c.dealer_id == outbox.c.dealer_id, leads.c.lead_id == outbox.c.lead_id))
    .where(
        outbox.c.dealer_id == bindparam("dealer_id"),
        outbox.c.lead_id.in_(bindparam("lead_ids", expanding=True)),
        leads.c.token_id.is_not_distinct_from(bindparam("token_id", type_=String)),
        outbox.c.kind == bindparam("kind"),
        outbox.c.state.in_(("waiting", "sent")),
        outbox.c.created_at > bindparam("since"),
        tuple_(outbox.c.created_at, outbox.c.delivery_id)
        < tuple_(bindparam("at", type_=UtcTime), bindparam("delivery_id", type_=String)),
    )
)

# Not named as the column, which SQLAlchemy keeps for itself in an UPDATE.
OF_DEALER = outbox.c.dealer_id == bindparam("of_dealer")
# A clock may be set back: what was never put off is due whenever it was stored, and a lease that ends after `latest` is
# one of the clock as it was. `latest` is two leases away: another process may have read its clock a little later.
_DUE = and_(
    OF_DEALER,
    outbox.c.state == "waiting",
    or_(outbox.c.due_at <= bindparam("now"), outbox.c.due_at == outbox.c.created_at),
    or_(
        outbox.c.leased_until.is_(None),
        outbox.c.leased_until <= bindparam("now"),
        outbox.c.leased_until > bindparam("latest"),
    ),
)

_before = outbox.alias("before")

# One delivery of a lead at a time to each receiver, in order. An erasure drops rows that are being sent: what follows
# them waits for the end of the lease.
_FREE = or_(
    outbox.c.follows.is_(None),
    ~exists().where(
        _before.c.dealer_id == outbox.c.dealer_id,
        _before.c.delivery_id == outbox.c.follows,
        or_(
            _before.c.state == "waiting",
            and_(_before.c.leased_until > bindparam("now"), _before.c.leased_until <= bindparam("latest")),
        ),
    ),
)

ADD_DELIVERY = Prepared(insert(outbox))

WHOLE_LEADS: tuple[Kind, ...] = ("lead", "resend", "notify")
"""The kinds whose document is the whole lead."""

OF_LEAD = and_(OF_DEALER, outbox.c.lead_id == bindparam("of_lead"))

READ_WAITING = select(
    outbox.c.rooftop, outbox.c.channel, outbox.c.delivery_id, outbox.c.kind, outbox.c.document, outbox.c.lease
).where(OF_LEAD, outbox.c.state == "waiting")

DUE_ADDRESSES = select(outbox.c.rooftop, outbox.c.channel).where(_DUE, _FREE).distinct()

_CLAIMED = ("delivery_id", "lead_id", "event_id", "kind", "created_at", "attempts", "document")

# SKIP LOCKED on PostgreSQL: two workers claim side by side. On SQLite the writer's transaction is the lock.
PICK_DUE = Prepared(
    select(*(outbox.c[name] for name in _CLAIMED))
    .where(_DUE, _FREE, outbox.c.rooftop == bindparam("rooftop"), outbox.c.channel == bindparam("channel"))
    .order_by(outbox.c.due_at, outbox.c.delivery_id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True, of=outbox)
)

LEASE = Prepared(
    update(outbox)
    .where(OF_DEALER, outbox.c.delivery_id == bindparam("picked"))
    .values(
        lease=bindparam("new_lease"),
        leased_until=bindparam("until"),
        attempts=outbox.c.attempts + 1,
        unknown=outbox.c.unknown + 1,
    )
)

HELD = and_(
    OF_DEALER,
    outbox.c.delivery_id == bindparam("settled"),
    outbox.c.state == "waiting",
    outbox.c.lease == bindparam("held"),
)

# Whoever sent it, sent it: also when the lease ran out meanwhile.
SENT = Prepared(
    update(outbox)
    .where(OF_DEALER, outbox.c.delivery_id == bindparam("settled"), outbox.c.state != "sent")
    .values(
        state="sent",
        lease=None,
        leased_until=None,
        settled_at=bindparam("at"),
        problem=bindparam("words"),
        document=None,
    )
)

# `known` is 1 where this attempt did not arrive for certain.
_KNOWN = outbox.c.unknown - bindparam("known", type_=Integer)

RESCHEDULE = (
    update(outbox)
    .where(HELD)
    .values(lease=None, leased_until=None, due_at=bindparam("next_due"), problem=bindparam("words"), unknown=_KNOWN)
)

_GIVE_UP = (
    update(outbox)
    .where(HELD)
    .values(lease=None, leased_until=None, settled_at=bindparam("at"), problem=bindparam("words"), unknown=_KNOWN)
)
PARK = _GIVE_UP.values(state="parked")
DROP = _GIVE_UP.values(state="dropped", document=None)

FOLLOW_ANOTHER = (
    update(outbox).where(OF_LEAD, outbox.c.follows == bindparam("before")).values(follows=bindparam("instead"))
)

RELEASE = (
    update(outbox).where(HELD).values(lease=None, leased_until=None, attempts=outbox.c.attempts - 1, unknown=_KNOWN)
)

# Its age counts from now on: else it would be parked again at its first failure.
RETRY = (
    update(outbox)
    .where(OF_DEALER, outbox.c.state.in_(("waiting", "parked")))
    .values(state="waiting", created_at=bindparam("at"), due_at=bindparam("at"), attempts=0, settled_at=None)
)

# A parked delivery that waits again comes before the later ones of its lead.
PUT_IN_ORDER = (
    update(outbox)
    .where(OF_DEALER, outbox.c.state == "waiting")
    .values(
        follows=select(func.max(_before.c.delivery_id))
        .where(
            _before.c.dealer_id == outbox.c.dealer_id,
            _before.c.lead_id == outbox.c.lead_id,
            _before.c.rooftop == outbox.c.rooftop,
            _before.c.channel == outbox.c.channel,
            _before.c.state == "waiting",
            _before.c.delivery_id < outbox.c.delivery_id,
        )
        .scalar_subquery()
    )
)

_RECORD = tuple(outbox.c[name] for name in DeliveryRecord._fields)


def enqueue(
    connection: Connection,
    dealer_id: str,
    lead_id: str,
    rows: Sequence[NewDelivery],
    at: datetime,
    after: Mapping[Address, Waiting] | None = None,
) -> list[str]:
    """Adds rows that are due now and returns their ids. Call it in the transaction that stores the reason for them.

    `after` is what waits at the receivers and goes first (`waiting`). At a new lead's receivers nothing waits.
    """
    before = {address: one.delivery_id for address, one in (after or {}).items()}
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
            "unknown": 0,
            "follows": before.get((row.rooftop, row.channel)),
        }
        for delivery_id, row in zip(ids, rows, strict=True)
    ]
    for row in made:
        ADD_DELIVERY.add(connection, row)
    return ids


def mails_before(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    delivery: DueDelivery,
    email: str,
    token_id: str | None,
    within: timedelta,
) -> int:
    """How many mails of the delivery's kind this address got, or is to get, in the time before the delivery was made.

    Of leads with the same token, or of all leads without one: nothing distinguishes senders without a token, and they
    must not use up the mails of a sender with a token. `email` is normalised. Only the newest MOST_LEADS leads are
    looked at. If all of them came within that time, the result is at least MOST_LEADS.
    """
    contact = f"email:{email}"
    contact = contact if token_id is None else token_sender_key(token_id, contact)
    newest = newest_leads_of(connection, cipher, dealer_id, [contact], MOST_LEADS)
    since = delivery.tried_since - within
    if sum(at > since for at in newest.values()) >= MOST_LEADS:
        return MOST_LEADS
    sought = {
        "dealer_id": dealer_id,
        "lead_ids": list(newest),
        "token_id": token_id,
        "kind": delivery.kind,
        "since": since,
        "at": delivery.tried_since,
        "delivery_id": delivery.delivery_id,
    }
    return connection.execute(COUNT_MAILS_BEFORE, sought).scalar_one()


def due_addresses(connection: Connection, dealer_id: str, now: datetime, lease: timedelta) -> list[Address]:
    """The addresses with a delivery that is due and that no process holds. A process holds one for at most `lease`."""
    sought = {"of_dealer": dealer_id, "now": now, "latest": now + 2 * lease}
    return [(row.rooftop, row.channel) for row in connection.execute(DUE_ADDRESSES, sought)]


def waiting(connection: Connection, dealer_id: str, lead_id: str) -> dict[Address, Waiting]:
    """The newest waiting delivery of a lead at each receiver."""
    found: dict[Address, Waiting] = {}
    for row in connection.execute(READ_WAITING, {"of_dealer": dealer_id, "of_lead": lead_id}):
        address = row.rooftop, row.channel
        before = found.get(address, Waiting("", untried=False))
        untried = row.kind in WHOLE_LEADS and row.document is None and row.lease is None
        found[address] = Waiting(max(before.delivery_id, row.delivery_id), before.untried or untried)
    return found


def claim(
    connection: Connection, dealer_id: str, now: datetime, lease: timedelta, address: Address, limit: int
) -> list[DueDelivery]:
    """Claims up to `limit` due rows at `address`, the oldest first. The caller has them until the lease ends."""
    rooftop, channel = address
    until = now + lease
    sought = {"of_dealer": dealer_id, "now": now, "latest": until + lease, "rooftop": rooftop, "channel": channel}
    claimed = []
    for row in PICK_DUE.read(connection, sought | {"limit": limit}):
        lease_name = new_ulid()
        taken = {"of_dealer": dealer_id, "picked": row.delivery_id, "new_lease": lease_name, "until": until}
        LEASE.add(connection, taken)
        claimed.append(
            DueDelivery(
                delivery_id=row.delivery_id,
                lead_id=row.lead_id,
                event_id=row.event_id,
                kind=row.kind,
                rooftop=rooftop,
                channel=channel,
                tried_since=row.created_at,
                attempts=row.attempts + 1,
                lease=lease_name,
                document=row.document,
            )
        )
    return claimed


def settle_sent(
    connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, note: str | None = None
) -> None:
    """Records that it was sent; `note` is a problem that remains, such as a refused recipient."""
    settled = {"of_dealer": dealer_id, "settled": delivery.delivery_id, "at": at, "words": note}
    SENT.add(connection, settled)


def reschedule(
    connection: Connection,
    dealer_id: str,
    delivery: DueDelivery,
    due_at: datetime,
    problem: str,
    *,
    may_have_arrived: bool = False,
) -> bool:
    """Records a failure and the time of the next attempt. Returns False and changes nothing if the lease was lost."""
    known = 0 if may_have_arrived else 1
    return _settle(connection, RESCHEDULE, dealer_id, delivery, next_due=due_at, words=problem, known=known)


def park(
    connection: Connection,
    dealer_id: str,
    delivery: DueDelivery,
    at: datetime,
    problem: str,
    *,
    may_have_arrived: bool = False,
) -> bool:
    """Parks it: it is not tried until somebody asks for a retry. Returns False if the lease was lost."""
    known = 0 if may_have_arrived else 1
    return _settle(connection, PARK, dealer_id, delivery, at=at, words=problem, known=known)


def drop(connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, problem: str) -> bool:
    """Drops it: it must not be sent, and was not sent in this attempt. Returns False if the lease was lost."""
    return _settle(connection, DROP, dealer_id, delivery, at=at, words=problem, known=1)


def send_under_new_id(
    connection: Connection, dealer_id: str, delivery: DueDelivery, at: datetime, reason: str
) -> str | None:
    """Replaces it by a delivery with a new id: its document may not be sent again. None if the lease was lost."""
    again = NewDelivery(delivery.kind, delivery.rooftop, delivery.channel, delivery.event_id)
    if not drop(connection, dealer_id, delivery, at, reason):
        return None
    (new_id,) = enqueue(connection, dealer_id, delivery.lead_id, [again], at)
    moved = {"of_dealer": dealer_id, "of_lead": delivery.lead_id, "before": delivery.delivery_id, "instead": new_id}
    connection.execute(FOLLOW_ANOTHER, moved)
    return new_id


def release(
    connection: Connection, dealer_id: str, deliveries: Collection[DueDelivery], *, may_have_arrived: bool = False
) -> None:
    """Gives claimed rows back: other processes may claim them at once, and the attempt does not count."""
    for delivery in deliveries:
        _settle(connection, RELEASE, dealer_id, delivery, known=0 if may_have_arrived else 1)


def retry_deliveries(
    connection: Connection, dealer_id: str, at: datetime, *, delivery_id: str | None = None, channel: str | None = None
) -> int:
    """Makes waiting and parked rows due now: one row, those of one channel, or all. Returns their number.

    Their age counts from now on. Each is sent with the same bytes under the same id.
    """
    chosen = RETRY
    if delivery_id is not None:
        chosen = chosen.where(outbox.c.delivery_id == delivery_id)
    if channel is not None:
        chosen = chosen.where(outbox.c.channel == channel)
    count = connection.execute(chosen, {"of_dealer": dealer_id, "at": at}).rowcount
    if count:
        connection.execute(PUT_IN_ORDER, {"of_dealer": dealer_id})
    return count


def list_deliveries(
    connection: Connection,
    dealer_id: str,
    limit: int,
    *,
    state: State | None = None,
    channel: str | None = None,
    lead_id: str | None = None,
) -> list[DeliveryRecord]:
    """The rows that match, newest first."""
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
