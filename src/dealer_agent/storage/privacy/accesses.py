"""Writes the access log: who looked at customer data (16 CFR 314.4(c)(8)).

The entries are a hash chain, like consent events (`event_chain`). The caller of a function that adds or deletes
entries holds the dealer's lock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select, tuple_

from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.privacy.event_chain import (
    ACCESSES,
    EMPTY,
    ChainEnd,
    ChainReport,
    append,
    check_rows,
    end_problem,
)
from dealer_agent.storage.schema import accesses
from dealer_agent.storage.statements import of_dealer, rows_of
from dealer_agent.storage.transaction import Transaction

PROGRAM = "dealer-agent"
"""The actor of an entry when no person acted."""


class Access(NamedTuple):
    """An access: `actor` read data of `leads` customers with the command `action`. `lead_id` names a single lead."""

    access_id: str
    at: datetime
    actor: str
    action: str
    lead_id: str | None
    leads: int


LIST_ACCESSES = (
    rows_of(accesses, Access).order_by(accesses.c.at.desc(), accesses.c.access_id.desc()).limit(bindparam("limit"))
)

_other = accesses.alias("other")

LIST_ACCESSES_BEFORE = LIST_ACCESSES.where(
    tuple_(accesses.c.at, accesses.c.access_id)
    < select(_other.c.at, _other.c.access_id).where(of_dealer(_other, access_id="before")).scalar_subquery()
)

READ_LOG = select(accesses).where(of_dealer(accesses)).order_by(accesses.c.number).execution_options(yield_per=500)

READ_NEWEST_DELETION = (
    select(accesses.c.deleted, accesses.c.deleted_head)
    .where(of_dealer(accesses), accesses.c.deleted.is_not(None))
    .order_by(accesses.c.number.desc())
    .limit(1)
)

READ_OLDEST = (
    select(accesses.c.number, accesses.c.hash, accesses.c.at)
    .where(of_dealer(accesses))
    .order_by(accesses.c.number)
    .limit(bindparam("most"))
)

DELETE_OLDEST = delete(accesses).where(of_dealer(accesses), accesses.c.number <= bindparam("newest"))


def log_access(
    tx: Transaction,
    actor: str,
    action: str,
    *,
    leads: int,
    lead_id: str | None = None,
    deleted: ChainEnd | None = None,
) -> None:
    """Records that `actor` read the customer data of `leads` leads. `lead_id` names a single lead.

    `deleted` is the newest of the entries that this transaction deleted.
    """
    entry = Access(new_ulid(), tx.now, actor, action, lead_id, leads)._asdict() | {
        "deleted": None if deleted is None else deleted.rows,
        "deleted_head": None if deleted is None else deleted.head,
    }
    append(tx, entry, chain=ACCESSES)


def list_accesses(tx: Transaction, limit: int, before: str | None = None) -> list[Access]:
    """The entries, newest first. With `before`, the id of an entry, only older ones."""
    statement = LIST_ACCESSES if before is None else LIST_ACCESSES_BEFORE
    return [Access(*row) for row in tx.execute(statement, {"limit": limit, "before": before})]


def delete_accesses(tx: Transaction, before: datetime, most: int) -> int:
    """Deletes up to `most` of the oldest entries before `before`, and adds an entry about it. Returns their number.

    It stops at the first newer entry, so that the log has no gap even if the clock was wrong.
    """
    count, newest = 0, EMPTY
    for row in tx.execute(READ_OLDEST, {"most": most}):
        if row.at >= before:
            break
        count, newest = count + 1, ChainEnd(row.number, row.hash)
    if count:
        tx.execute(DELETE_OLDEST, {"newest": newest.rows})
        action = f"delete {count} entries from before {before:%Y-%m-%d} out of this log, up to number {newest.rows}"
        log_access(tx, PROGRAM, action, leads=0, deleted=newest)
    return count


def verify_accesses(tx: Transaction, recorded: Mapping[int, bytes] | None = None) -> ChainReport:
    """Checks every entry of the dealer's access log, and its end. `recorded` has recorded hashes by entry number.

    The log begins after the newest entry that was deleted by age. A recorded head from before it cannot be checked.
    """
    recorded = recorded or {}
    deletion = tx.execute(READ_NEWEST_DELETION).one_or_none()
    start = EMPTY if deletion is None else ChainEnd(deletion.deleted, deletion.deleted_head)
    if recorded.get(start.rows, start.head) != start.head:
        return ChainReport(start.rows, start.rows, start.rows, "it is not the one whose hash was recorded as a head")
    end, problem = check_rows(tx.execute(READ_LOG).mappings(), ACCESSES, recorded, start)
    problem = problem or end_problem(tx, end, recorded, ACCESSES)
    return ChainReport(end.rows, start.rows, None if problem is None else end.rows + 1, problem)
