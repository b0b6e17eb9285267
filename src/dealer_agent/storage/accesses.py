"""The access log: who looked at customer data (16 CFR 314.4(c)(8)), as statements on the caller's transaction.

The entries are a chain, as consent events are (`storage.chain`). Who adds or deletes entries holds the dealer's lock.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, select

from dealer_agent.encryption.cipher import Cipher
from dealer_agent.protocol.ids import new_ulid
from dealer_agent.storage.event_chain import (
    ACCESSES,
    NOTHING_BEFORE,
    ChainEnd,
    append_access,
    end_problem,
    link_problem,
)
from dealer_agent.storage.schema import accesses

PROGRAM = "dealer-agent"
"""The actor of an entry when no person acted."""


class Access(NamedTuple):
    """A look at customer data: who (`actor`), by what (`action`), at one lead or at how many."""

    access_id: str
    at: datetime
    actor: str
    action: str
    lead_id: str | None
    leads: int


class AccessReport(NamedTuple):
    """What a check of the access log found: how many entries it ever had, and how many were deleted by age.

    `first_broken` is the number of the first entry that is not as it was written, and `problem` says what is wrong with
    it; both are None for a log that is whole.
    """

    entries: int
    deleted: int
    first_broken: int | None
    problem: str | None


LIST_ACCESSES = (
    select(*(accesses.c[name] for name in Access._fields))
    .where(accesses.c.dealer_id == bindparam("dealer_id"))
    .order_by(accesses.c.at.desc(), accesses.c.access_id.desc())
    .limit(bindparam("limit"))
)

READ_LOG = (
    select(accesses)
    .where(accesses.c.dealer_id == bindparam("dealer_id"))
    .order_by(accesses.c.number)
    .execution_options(yield_per=500)
)

READ_NEWEST_DELETION = (
    select(accesses.c.deleted, accesses.c.deleted_head)
    .where(accesses.c.dealer_id == bindparam("dealer_id"), accesses.c.deleted.is_not(None))
    .order_by(accesses.c.number.desc())
    .limit(1)
)

# The oldest that are old enough, without a gap: what follows a younger one stays, whatever a clock once said.
FIND_OLDEST = (
    select(accesses.c.number, accesses.c.hash, accesses.c.at)
    .where(accesses.c.dealer_id == bindparam("dealer_id"))
    .order_by(accesses.c.number)
    .limit(bindparam("most"))
)

DELETE_OLDEST = delete(accesses).where(
    accesses.c.dealer_id == bindparam("in_dealer"), accesses.c.number <= bindparam("newest")
)


def log_access(
    connection: Connection,
    cipher: Cipher,
    dealer_id: str,
    at: datetime,
    actor: str,
    action: str,
    *,
    lead_id: str | None = None,
    leads: int,
    deleted: ChainEnd | None = None,
) -> str:
    """Records that `actor` looked at the customer data of `leads` leads; `lead_id` if it is one. Returns the id.

    `deleted` is the newest of the entries that were deleted just now.
    """
    access_id = new_ulid()
    entry = Access(access_id, at, actor, action, lead_id, leads)._asdict() | {
        "deleted": None if deleted is None else deleted.events,
        "deleted_head": None if deleted is None else deleted.head,
    }
    append_access(connection, cipher, dealer_id, entry)
    return access_id


def list_accesses(connection: Connection, dealer_id: str, limit: int) -> list[Access]:
    """The entries, newest first."""
    return [Access(*row) for row in connection.execute(LIST_ACCESSES, {"dealer_id": dealer_id, "limit": limit})]


def delete_accesses(
    connection: Connection, cipher: Cipher, dealer_id: str, before: datetime, now: datetime, most: int
) -> int:
    """Deletes up to `most` of the oldest entries before `before`, and adds an entry about it. Returns their number."""
    count, newest = 0, ChainEnd(0, NOTHING_BEFORE)
    for row in connection.execute(FIND_OLDEST, {"dealer_id": dealer_id, "most": most}):
        if row.at >= before:
            break
        count, newest = count + 1, ChainEnd(row.number, row.hash)
    if count:
        connection.execute(DELETE_OLDEST, {"in_dealer": dealer_id, "newest": newest.events})
        action = f"delete {count} entries from before {before:%Y-%m-%d} out of this log, up to number {newest.events}"
        log_access(connection, cipher, dealer_id, now, PROGRAM, action, leads=0, deleted=newest)
    return count


def verify_accesses(
    connection: Connection, cipher: Cipher, dealer_id: str, recorded: Mapping[int, bytes] | None = None
) -> AccessReport:
    """Checks every entry of a dealer's access log, and its end; `recorded` are hashes of heads by their number.

    The log begins after the newest entry that was deleted by age. A recorded head from before it cannot be checked.
    """
    recorded = recorded or {}
    found = connection.execute(READ_NEWEST_DELETION, {"dealer_id": dealer_id}).one_or_none()
    end = start = ChainEnd(0, NOTHING_BEFORE) if found is None else ChainEnd(found.deleted, found.deleted_head)
    if recorded.get(start.events, start.head) != start.head:
        return AccessReport(
            end.events, start.events, start.events, "it is not the one whose hash was recorded as a head"
        )
    for row in connection.execute(READ_LOG, {"dealer_id": dealer_id}):
        if problem := link_problem(row, end, recorded, ACCESSES):
            return AccessReport(end.events, start.events, end.events + 1, problem)
        end = ChainEnd(row.number, row.hash)
    problem = end_problem(connection, cipher, dealer_id, end, recorded, ACCESSES)
    return AccessReport(end.events, start.events, None if problem is None else end.events + 1, problem)
