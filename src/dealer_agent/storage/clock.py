"""Decides whether this machine's clock is plausible.

Data is deleted by age, so a clock that is wrong by years would delete everything. A running service stores the time
every hour (`clocks.trusted_at`). A time far from the last one is implausible. Then nothing is deleted by age and no
time is stored, until the clock is right again or a person confirms it.
"""

from datetime import datetime, timedelta

from sqlalchemy import func, select, text, union_all

from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.errors import ClockUnreliable
from dealer_agent.storage.schema import (
    accesses,
    clocks,
    consent_events,
    idempotency,
    imports,
    leads,
    outbox,
    refusals,
    tokens,
)
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

FORWARD = timedelta(days=14)
"""How far the clock may be after the last trusted time: a service may be off for this long."""

BACKWARD = timedelta(days=1)
"""How far the clock may be before the last trusted time: the clocks of two machines differ a little."""

READ_TRUSTED = select(clocks.c.trusted_at).where(of_dealer(clocks))

_WRITTEN = (
    leads.c.received_at,
    leads.c.used_at,
    consent_events.c.at,
    outbox.c.created_at,
    outbox.c.settled_at,
    accesses.c.at,
    idempotency.c.at,
    refusals.c.at,
    imports.c.at,
    tokens.c.created_at,
)
"""Columns that hold the time at which a row was written."""

_newest = union_all(
    *(select(func.max(column).label("at")).where(of_dealer(column.table)) for column in _WRITTEN)
).subquery()

READ_NEWEST = select(func.max(_newest.c.at, type_=UtcTime))

_READ_SERVER_CLOCK = text("SELECT clock_timestamp()")

_TO_NEW_TIME = "UPDATE SET trusted_at = excluded.trusted_at"
CONFIRM_TIME = upsert(clocks, _TO_NEW_TIME)
STORE_TIME = upsert(clocks, f"{_TO_NEW_TIME} WHERE clocks.trusted_at < excluded.trusted_at")


def clock_problem(tx: Transaction) -> str | None:
    """Why the time of the transaction is implausible, and what to do; None if it is plausible.

    Any time is plausible for a dealer without rows.
    """
    trusted: datetime | None = tx.execute(READ_TRUSTED).scalar() or tx.execute(READ_NEWEST).scalar()
    now = tx.now
    if trusted is None or trusted - BACKWARD <= now <= trusted + FORWARD:
        return None
    days = abs(now - trusted).days
    far = f"{days:,} day{'' if days == 1 else 's'} {'after' if now > trusted else 'before'}"
    return (
        f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC, {far} the last time that the service ran "
        f"({trusted:%Y-%m-%d %H:%M} UTC); nothing is deleted by age while the clock may be wrong: set the clock or, if "
        "it is right, type: dealer-agent leads dispose --clock-is-right"
    )


def has_trusted_time(tx: Transaction) -> bool:
    """Whether a trusted time is stored."""
    return tx.execute(READ_TRUSTED).scalar() is not None


def trust_clock(tx: Transaction) -> None:
    """Stores the time of the transaction as trusted. Raises ClockUnreliable if it is implausible."""
    problem = clock_problem(tx)
    if problem is not None:
        raise ClockUnreliable(problem)
    tx.execute(STORE_TIME, {"trusted_at": tx.now})


def confirm_clock(tx: Transaction) -> None:
    """Stores the time of the transaction, which a person has confirmed, as trusted."""
    tx.execute(CONFIRM_TIME, {"trusted_at": tx.now})


def server_clock(tx: Transaction) -> datetime | None:
    """The time on the clock of the database server. SQLite has the clock of this machine: None."""
    if tx.connection.dialect.name == "sqlite":
        return None
    at: datetime = tx.execute(_READ_SERVER_CLOCK).scalar_one()
    return at
