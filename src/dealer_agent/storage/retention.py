"""Rows that are deleted by age or by number, a few in each transaction, as statements on the caller's transaction.

`storage.privacy` erases customers. These rows hold nothing about customers that is readable without a key.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Connection, Delete, bindparam, delete, select

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.storage.accesses import delete_accesses
from dealer_agent.storage.schema import idempotency, refusals

ROWS_AT_ONCE = 1000
"""The most rows that one transaction deletes: a lead waits for at most one such transaction."""

MOST_REFUSALS = 100_000
"""The most refusals that are kept: strangers cause them, and only the newest are of use."""


class Purged(NamedTuple):
    """How many rows were deleted."""

    idempotency: int
    refusals: int
    accesses: int


def _drop_old(key: Column[object], at: Column[datetime]) -> Delete:
    """Deletes the oldest rows from before `before`, up to ROWS_AT_ONCE of them."""
    mine = key.table.c.dealer_id == bindparam("dealer_id")
    oldest = select(key).where(mine, at < bindparam("before")).order_by(at).limit(ROWS_AT_ONCE)
    return delete(key.table).where(mine, key.in_(oldest))


DROP_OLD_REPLIES = _drop_old(idempotency.c.fingerprint, idempotency.c.at)
DROP_OLD_REFUSALS = _drop_old(refusals.c.refusal_id, refusals.c.at)

READ_OLDEST_KEPT = (
    select(refusals.c.at)
    .where(refusals.c.dealer_id == bindparam("dealer_id"))
    .order_by(refusals.c.at.desc())
    .offset(MOST_REFUSALS - 1)
    .limit(1)
)


def drop_old_replies(connection: Connection, dealer_id: str, before: datetime) -> int:
    """Deletes first answers to idempotency keys. Returns how many; fewer than ROWS_AT_ONCE means that none is left."""
    return connection.execute(DROP_OLD_REPLIES, {"dealer_id": dealer_id, "before": before}).rowcount


def drop_old_refusals(connection: Connection, dealer_id: str, before: datetime) -> int:
    """The same for refusals: those from before `before`, and those beyond the newest MOST_REFUSALS."""
    oldest_kept: datetime | None = connection.execute(READ_OLDEST_KEPT, {"dealer_id": dealer_id}).scalar()
    before = before if oldest_kept is None else max(before, oldest_kept)
    return connection.execute(DROP_OLD_REFUSALS, {"dealer_id": dealer_id, "before": before}).rowcount


def drop_old_accesses(connection: Connection, cipher: Cipher, dealer_id: str, before: datetime, now: datetime) -> int:
    """The same for the access log. The same transaction adds an entry about the deletion. The dealer is locked."""
    return delete_accesses(connection, cipher, dealer_id, before, now, ROWS_AT_ONCE)
