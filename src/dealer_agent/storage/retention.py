"""Deletes rows by age or by number, a few in each transaction. `storage.erasure` erases customers by age.

These rows hold nothing about customers that is readable without a key.
"""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Delete, bindparam, delete, select

from dealer_agent.storage.accesses import delete_accesses
from dealer_agent.storage.clock import trust_clock
from dealer_agent.storage.daily_counts import delete_oldest
from dealer_agent.storage.idempotency import IDEMPOTENCY_KEPT
from dealer_agent.storage.schema import idempotency, of_dealer, refusals
from dealer_agent.storage.store import Begin, Store
from dealer_agent.storage.transaction import Transaction

MOST_ROWS = 1000
"""The most rows that one transaction deletes: a lead waits for at most one such transaction."""

MOST_REFUSALS = 100_000
"""The most refusals that are kept: strangers cause them, and only the newest are useful."""


class Purged(NamedTuple):
    """How many rows were deleted, besides counts."""

    idempotency: int
    refusals: int
    accesses: int


def _delete_old(key: Column[object], at: Column[datetime]) -> Delete:
    """Deletes the oldest rows from before `before`, up to MOST_ROWS of them."""
    oldest = select(key).where(of_dealer(key.table), at < bindparam("before")).order_by(at).limit(MOST_ROWS)
    return delete(key.table).where(of_dealer(key.table), key.in_(oldest))


DELETE_OLD_REPLIES = _delete_old(idempotency.c.fingerprint, idempotency.c.at)
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
) -> Purged:
    """Deletes responses stored for idempotency keys after 30 days, and other rows from before these times.

    It also deletes all but the newest MOST_REFUSALS refusals. Each transaction deletes a few rows, so that leads do not
    wait. Raises ClockDoubtful, and deletes nothing, if `now` is implausible.
    """
    with store.write(dealer_id, now) as tx:
        trust_clock(tx)

    def delete_refusals(tx: Transaction) -> int:
        oldest_kept: datetime | None = tx.execute(READ_OLDEST_KEPT).scalar()
        before = refusals_before if oldest_kept is None else max(refusals_before, oldest_kept)
        return tx.execute(DELETE_OLD_REFUSALS, {"before": before}).rowcount

    def in_batches(begin: Begin, delete_rows: Callable[[Transaction], int]) -> int:
        total = 0
        while True:
            with begin(dealer_id, now) as tx:
                done = delete_rows(tx)
            total += done
            if done < MOST_ROWS:
                return total

    found = True
    while found:
        with store.write(dealer_id, now) as tx:
            found = delete_oldest(tx, counts_before.date())
    return Purged(
        in_batches(store.write, lambda tx: tx.execute(DELETE_OLD_REPLIES, {"before": now - IDEMPOTENCY_KEPT}).rowcount),
        in_batches(store.write, delete_refusals),
        in_batches(store.lock, lambda tx: delete_accesses(tx, accesses_before, MOST_ROWS)),
    )
