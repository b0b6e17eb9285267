"""Whether this machine's clock is plausible, as statements on the caller's transaction.

Data is deleted by age, so a clock that is wrong by years would delete everything. A running service stores the time
every hour (`clocks.trusted_at`). A time far from the last one is implausible: then nothing is deleted by age and no
time is stored, until the clock is right again or a person confirms it. Rows that are stored meanwhile do not matter.
"""

from datetime import datetime, timedelta

from sqlalchemy import Connection, bindparam, func, select, text, union_all

from dealer_agent.storage.errors import ClockDoubtful
from dealer_agent.storage.schema import (
    UtcTime,
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

FORWARD = timedelta(days=14)
"""How far the clock may be after the last trusted time: a service may be off for this long."""

BACKWARD = timedelta(days=1)
"""How far the clock may be before the last trusted time: the clocks of two machines differ a little."""

READ_TRUSTED = select(clocks.c.trusted_at).where(clocks.c.dealer_id == bindparam("dealer_id"))

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
    *(
        select(func.max(column).label("at")).where(column.table.c.dealer_id == bindparam("dealer_id"))
        for column in _WRITTEN
    )
).subquery()

READ_NEWEST = select(func.max(_newest.c.at, type_=UtcTime))

NOTE_TIME = text("""
    INSERT INTO clocks (dealer_id, trusted_at) VALUES (:dealer_id, :now)
    ON CONFLICT (dealer_id) DO UPDATE SET trusted_at = excluded.trusted_at WHERE clocks.trusted_at < excluded.trusted_at
""").bindparams(bindparam("now", type_=UtcTime))

CONFIRM_TIME = text("""
    INSERT INTO clocks (dealer_id, trusted_at) VALUES (:dealer_id, :now)
    ON CONFLICT (dealer_id) DO UPDATE SET trusted_at = excluded.trusted_at
""").bindparams(bindparam("now", type_=UtcTime))


def clock_problem(connection: Connection, dealer_id: str, now: datetime) -> str | None:
    """Why `now` is implausible, and what to do; None if it is plausible, as any time is for a dealer without rows."""
    key = {"dealer_id": dealer_id}
    trusted: datetime | None = connection.execute(READ_TRUSTED, key).scalar()
    trusted = trusted or connection.execute(READ_NEWEST, key).scalar()
    if trusted is None or trusted - BACKWARD <= now <= trusted + FORWARD:
        return None
    days = abs(now - trusted).days
    far = f"{days:,} day{'' if days == 1 else 's'} {'after' if now > trusted else 'before'}"
    return (
        f"the clock of this machine says {now:%Y-%m-%d %H:%M} UTC, {far} the last time that the service ran "
        f"({trusted:%Y-%m-%d %H:%M} UTC); nothing is deleted by age while the clock may be wrong: set the clock or, if "
        "it is right, type: dealer-agent leads dispose --clock-is-right"
    )


def has_trusted_time(connection: Connection, dealer_id: str) -> bool:
    """Whether a trusted time is stored."""
    return connection.execute(READ_TRUSTED, {"dealer_id": dealer_id}).scalar() is not None


def trust_clock(connection: Connection, dealer_id: str, now: datetime) -> None:
    """Stores the trusted time. Raises ClockDoubtful when it is implausible."""
    problem = clock_problem(connection, dealer_id, now)
    if problem is not None:
        raise ClockDoubtful(problem)
    connection.execute(NOTE_TIME, {"dealer_id": dealer_id, "now": now})


def confirm_clock(connection: Connection, dealer_id: str, now: datetime) -> None:
    """Stores a time that a person has confirmed as trusted."""
    connection.execute(CONFIRM_TIME, {"dealer_id": dealer_id, "now": now})
