"""Stores quotes and holds (docs/protocol.md#offers). They have no customer data.

A transaction that changes them holds the dealer's lock, so two of one dealer never run at once. Besides, a
unique index allows one hold of a vehicle that has not ended. A hold whose time is over counts as ended, before anything
writes so.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from sqlalchemy import and_, bindparam, delete, func, insert, not_, select, update

from dealer_agent.protocol.offers import HoldStatus
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import holds, quotes
from dealer_agent.storage.statements import of_dealer, rows_of
from dealer_agent.storage.transaction import Transaction

KEPT = timedelta(days=730)
"""How long quotes and holds are kept: the two years for which a dealer must be able to show its prices."""


Which = Literal["all", "open", "ended"]
"""`open`: the holds that hold now. `ended`: the others."""

MOST_ANONYMOUS = 1_000_000
"""The most quotes of anonymous agents that are kept. Anybody can ask for one, so their number has a bound. One that an
agent has used for a hold is kept in any case."""


class StoredQuote(NamedTuple):
    """A quote. `caller` is the identity of the agent; None for an anonymous one. `document` is the signed JSON."""

    quote_id: str
    vehicle_id: str
    caller: str | None
    created_at: datetime
    valid_until: datetime
    document: bytes


class OpenHolds(NamedTuple):
    """How many holds hold now, and when the first of them ends; None without one."""

    number: int
    first_end: datetime | None


class StoredHold(NamedTuple):
    """A hold of a vehicle. `key_hash` identifies the request that made it, and `request_hash` its content.

    It holds from `created_at` until `expires_at`, or until `ended_at`. `ended_why` is what staff wrote.
    """

    hold_id: str
    quote_id: str
    vehicle_id: str
    caller: str
    key_hash: bytes
    request_hash: bytes
    created_at: datetime
    expires_at: datetime
    status: HoldStatus
    ended_at: datetime | None = None
    ended_why: str | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether nobody else can hold the vehicle."""
        return self.ended_at is None and now < self.expires_at

    def status_at(self, now: datetime) -> HoldStatus:
        """What became of it by the clock."""
        return "expired" if self.ended_at is None and now >= self.expires_at else self.status


ADD_QUOTE = insert(quotes)

FIND_QUOTE = rows_of(quotes, StoredQuote, quote_id="of_quote")

FIND_QUOTES = rows_of(quotes, StoredQuote).where(quotes.c.quote_id.in_(bindparam("quote_ids", expanding=True)))

ADD_HOLD = insert(holds)

FIND_HOLD = rows_of(holds, StoredHold, hold_id="of_hold")

FIND_HOLD_BY_KEY = rows_of(holds, StoredHold, key_hash="of_key")

FIND_HOLD_OF_VEHICLE = rows_of(holds, StoredHold, vehicle_id="of_vehicle").where(holds.c.ended_at.is_(None))

LIST_HOLDS_OF_CALLER = (
    rows_of(holds, StoredHold, caller="of_caller")
    .where(holds.c.created_at > bindparam("since", type_=UtcTime))
    .order_by(holds.c.created_at)
)

_is_open = and_(holds.c.ended_at.is_(None), holds.c.expires_at > bindparam("at", type_=UtcTime))

LIST_HOLDS = (
    rows_of(holds, StoredHold)
    .order_by(holds.c.created_at.desc(), holds.c.hold_id)
    .limit(bindparam("most"))
    .offset(bindparam("skip"))
)

LIST_OPEN_HOLDS = LIST_HOLDS.where(_is_open)

LIST_ENDED_HOLDS = LIST_HOLDS.where(not_(_is_open))

COUNT_OPEN_HOLDS = select(func.count(), func.min(holds.c.expires_at)).where(of_dealer(holds), _is_open)

LIST_ENDS_OF_VEHICLES = select(holds.c.vehicle_id, holds.c.expires_at).where(
    of_dealer(holds), _is_open, holds.c.vehicle_id.in_(bindparam("vehicle_ids", expanding=True))
)

CHANGE_HOLD = (
    update(holds)
    .where(of_dealer(holds, hold_id="of_hold"))
    .values({name: bindparam(f"new_{name}") for name in ("status", "expires_at", "ended_at", "ended_why")})
)

DELETE_OLD_HOLDS = delete(holds).where(of_dealer(holds), holds.c.created_at < bindparam("before", type_=UtcTime))

DELETE_OLD_QUOTES = delete(quotes).where(of_dealer(quotes), quotes.c.created_at < bindparam("before", type_=UtcTime))

FIND_FIRST_TOO_MANY = (
    select(quotes.c.created_at)
    .where(of_dealer(quotes), quotes.c.caller.is_(None))
    .order_by(quotes.c.created_at.desc())
    .offset(bindparam("most"))
    .limit(1)
)

DELETE_TOO_MANY = delete(quotes).where(
    of_dealer(quotes),
    quotes.c.caller.is_(None),
    quotes.c.created_at <= bindparam("latest", type_=UtcTime),
    ~select(holds.c.hold_id)
    .where(holds.c.dealer_id == quotes.c.dealer_id, holds.c.quote_id == quotes.c.quote_id)
    .exists(),
)


def add_quote(tx: Transaction, quote: StoredQuote) -> None:
    """Stores a quote."""
    tx.execute(ADD_QUOTE, quote._asdict())


def find_quote(tx: Transaction, quote_id: str) -> StoredQuote | None:
    """The quote with this id."""
    return tx.find(StoredQuote, FIND_QUOTE, {"of_quote": quote_id})


def find_quotes(tx: Transaction, quote_ids: Collection[str]) -> dict[str, StoredQuote]:
    """The quotes with these ids, by id."""
    found = (StoredQuote(*row) for row in tx.execute(FIND_QUOTES, {"quote_ids": list(quote_ids)}))
    return {quote.quote_id: quote for quote in found}


def add_hold(tx: Transaction, hold: StoredHold) -> None:
    """Stores a hold of a vehicle that nobody holds."""
    tx.execute(ADD_HOLD, hold._asdict())


def find_hold(tx: Transaction, hold_id: str) -> StoredHold | None:
    """The hold with this id."""
    return tx.find(StoredHold, FIND_HOLD, {"of_hold": hold_id})


def find_hold_by_key(tx: Transaction, key_hash: bytes) -> StoredHold | None:
    """The hold that an earlier request with the same idempotency key of the same agent has made."""
    return tx.find(StoredHold, FIND_HOLD_BY_KEY, {"of_key": key_hash})


def hold_of_vehicle(tx: Transaction, vehicle_id: str) -> StoredHold | None:
    """The hold of a vehicle at this time. One whose time is over does not count."""
    hold = tx.find(StoredHold, FIND_HOLD_OF_VEHICLE, {"of_vehicle": vehicle_id})
    return hold if hold is not None and hold.holds_at(tx.now) else None


def expire_hold_of_vehicle(tx: Transaction, vehicle_id: str) -> None:
    """Writes the end of a hold whose time is over, so that another one can begin."""
    hold = tx.find(StoredHold, FIND_HOLD_OF_VEHICLE, {"of_vehicle": vehicle_id})
    if hold is not None and not hold.holds_at(tx.now):
        change_hold(tx, hold._replace(status="expired", ended_at=hold.expires_at))


def change_hold(tx: Transaction, hold: StoredHold) -> None:
    """Stores status, times and reason of a hold."""
    row = {f"new_{name}": getattr(hold, name) for name in ("status", "expires_at", "ended_at", "ended_why")}
    tx.execute(CHANGE_HOLD, row | {"of_hold": hold.hold_id})


def holds_of_caller(tx: Transaction, caller: str, since: datetime) -> list[StoredHold]:
    """The holds that an agent has begun after a time, oldest first."""
    return [StoredHold(*row) for row in tx.execute(LIST_HOLDS_OF_CALLER, {"of_caller": caller, "since": since})]


def list_holds(tx: Transaction, most: int, *, which: Which = "all", skip: int = 0) -> list[StoredHold]:
    """The newest holds first."""
    parameters = {"most": most, "skip": skip}
    if which == "all":
        return [StoredHold(*row) for row in tx.execute(LIST_HOLDS, parameters)]
    statement = LIST_OPEN_HOLDS if which == "open" else LIST_ENDED_HOLDS
    return [StoredHold(*row) for row in tx.execute(statement, parameters | {"at": tx.now})]


def count_open_holds(tx: Transaction) -> OpenHolds:
    """The holds that hold now."""
    return OpenHolds(*tx.execute(COUNT_OPEN_HOLDS, {"at": tx.now}).one())


def held_until(tx: Transaction, vehicle_ids: Collection[str]) -> dict[str, datetime]:
    """When the hold of a vehicle ends, by vehicle id. Vehicles that nobody holds are not in it."""
    parameters = {"vehicle_ids": list(vehicle_ids), "at": tx.now}
    return {row[0]: row[1] for row in tx.execute(LIST_ENDS_OF_VEHICLES, parameters)}


def delete_old_offers(tx: Transaction, most_anonymous: int = MOST_ANONYMOUS) -> None:
    """Deletes quotes and holds that are older than KEPT, and the oldest of too many anonymous quotes."""
    first = tx.execute(FIND_FIRST_TOO_MANY, {"most": most_anonymous}).scalar_one_or_none()
    if first is not None:
        tx.execute(DELETE_TOO_MANY, {"latest": first})
    tx.execute(DELETE_OLD_HOLDS, {"before": tx.now - KEPT})
    # A quote stays for as long as a hold of it.
    tx.execute(DELETE_OLD_QUOTES, {"before": tx.now - KEPT - timedelta(days=2)})
