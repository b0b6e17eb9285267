"""The key sets of agents and of issuers (`known_keys`). They belong to the installation, and each has a job.

A change of keys counts as one of the tokens, so all processes load it within two seconds (`server.refresh`).
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, select, update

from dealer_agent.storage.jobs import add_job_at, add_jobs
from dealer_agent.storage.schema import jobs, key_sets, of_dealer, rows_of, upsert
from dealer_agent.storage.tokens import NEXT_REVISION
from dealer_agent.storage.transaction import Transaction

KEY_SET = "key set"
"""The kind of the jobs. The subject is the source."""

MAX_SOURCES = 1000
"""The most sources that strangers have named."""


class KeySetRecord(NamedTuple):
    """A source, and what was last fetched from it: a JWK set, None if nothing was."""

    source: str
    pinned: bool
    document: bytes | None
    fetched_at: datetime | None
    expires_at: datetime | None
    used_at: datetime
    problem: str | None


_THIS = (of_dealer(key_sets), key_sets.c.source == bindparam("sought"))

ADD_SOURCE = upsert(key_sets, "NOTHING")

PIN_SOURCE = update(key_sets).where(*_THIS, ~key_sets.c.pinned).values(pinned=True)

LIST_KEY_SETS = rows_of(key_sets, KeySetRecord)

FIND_KEY_SET = LIST_KEY_SETS.where(key_sets.c.source == bindparam("sought"))

KEEP_KEYS = (
    update(key_sets)
    .where(*_THIS)
    .values(
        document=bindparam("new_document"),
        fetched_at=bindparam("at"),
        expires_at=bindparam("until"),
        problem=None,
    )
)

NOTE_PROBLEM = update(key_sets).where(*_THIS).values(problem=bindparam("words"))

NOTE_USE = update(key_sets).where(*_THIS).values(used_at=bindparam("at"))

COUNT_STRANGERS = select(func.count()).where(of_dealer(key_sets), ~key_sets.c.pinned)

# Sources without keys go first. `used_at` is written once an hour at most, so the order is that of hours.
FIND_LEAST_USED = (
    select(key_sets.c.source)
    .where(of_dealer(key_sets), ~key_sets.c.pinned)
    .order_by(key_sets.c.document.is_not(None), key_sets.c.used_at, key_sets.c.source)
    .limit(bindparam("most"))
)

REMOVE_SOURCES = delete(key_sets).where(
    of_dealer(key_sets), key_sets.c.source.in_(bindparam("sources", expanding=True))
)

REMOVE_JOBS = delete(jobs).where(
    of_dealer(jobs), jobs.c.kind == KEY_SET, jobs.c.subject.in_(bindparam("sources", expanding=True))
)


def add_sources(tx: Transaction, sources: Iterable[str], *, pinned: bool = False) -> None:
    """Adds sources whose keys are fetched at once. Pinned ones stay; above MAX_SOURCES, the least used others go."""
    row = {"pinned": pinned, "used_at": tx.now}
    new = [source for source in sources if tx.execute(ADD_SOURCE, {**row, "source": source}).rowcount]
    if pinned:
        for source in sources:
            tx.execute(PIN_SOURCE, {"sought": source})
    add_jobs(tx, KEY_SET, new)
    excess = int(tx.execute(COUNT_STRANGERS).scalar_one()) - MAX_SOURCES
    if excess > 0:
        remove_sources(tx, [row.source for row in tx.execute(FIND_LEAST_USED, {"most": excess})])


def remove_sources(tx: Transaction, sources: Collection[str]) -> None:
    """Removes sources with their jobs."""
    tx.execute(REMOVE_SOURCES, {"sources": list(sources)})
    tx.execute(REMOVE_JOBS, {"sources": list(sources)})
    tx.execute(NEXT_REVISION)


def fetch_soon(tx: Transaction, source: str) -> None:
    """Makes the fetch of a source due now."""
    if find_key_set(tx, source) is not None:
        add_job_at(tx, KEY_SET, tx.now, source)


def keep_keys(tx: Transaction, source: str, document: bytes, expires_at: datetime) -> None:
    """Stores what was fetched from a source, now.

    All processes load it if the keys have changed, or if a request has asked for it before its time (`fetch_soon`).
    """
    before = find_key_set(tx, source)
    tx.execute(KEEP_KEYS, {"sought": source, "new_document": document, "at": tx.now, "until": expires_at})
    if before is None:
        return
    half = (expires_at - tx.now) / 2
    if before.document != document or (before.expires_at is not None and before.expires_at > tx.now + half):
        tx.execute(NEXT_REVISION)


def note_problem(tx: Transaction, source: str, problem: str) -> None:
    """Stores why the last fetch failed. The keys stay."""
    tx.execute(NOTE_PROBLEM, {"sought": source, "words": problem})


def note_use(tx: Transaction, sources: Iterable[str]) -> None:
    """Stores that sources are in use."""
    for source in sources:
        tx.execute(NOTE_USE, {"sought": source, "at": tx.now})


def find_key_set(tx: Transaction, source: str) -> KeySetRecord | None:
    """The record of a source."""
    row = tx.execute(FIND_KEY_SET, {"sought": source}).one_or_none()
    return None if row is None else KeySetRecord(*row)


def list_key_sets(tx: Transaction) -> list[KeySetRecord]:
    """All sources."""
    return [KeySetRecord(*row) for row in tx.execute(LIST_KEY_SETS)]
