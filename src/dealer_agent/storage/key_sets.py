"""Stores the public keys of others: agents that sign requests, and issuers of tokens (the package `known_keys`).

A source is where the keys are. Requests of strangers name sources, so the number of those is bounded: a minute, and in
all. The least recently used ones are removed first. Pinned sources are in the settings of the operator or of a dealer;
they are not bounded and stay.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import bindparam, delete, func, or_, select, update

from dealer_agent.storage.columns import ExternalText, UtcTime
from dealer_agent.storage.jobs import THIS_JOB, add_job_at
from dealer_agent.storage.schema import jobs, key_sets
from dealer_agent.storage.statements import of_dealer, rows_of, upsert
from dealer_agent.storage.transaction import Transaction

KEYS_OF_OTHERS = "keys of agents"
"""The kind of the jobs. The subject is the source."""
MAX_SOURCES = 1000
"""The most sources that requests of strangers have named."""
MAX_BYTES = 1024 * 1024
"""The most bytes of their documents in sum."""
MAX_ASKED_A_MINUTE = 30
"""How many fetches requests of strangers cause in a minute: of new sources, and of known ones before their time."""
FORGOTTEN_AFTER = timedelta(minutes=5)
"""A source of a stranger that has never answered, or has no room, is removed after this time. A request then names it
again."""
NO_ROOM = "there is no room for its keys: publish fewer"
ASKED_AGAIN = timedelta(minutes=1)
"""A source is fetched before its time at most once in this time."""


class StoredKeySet(NamedTuple):
    """A source with its keys. `document` is None until it has answered."""

    source: str
    document: bytes | None
    version: int
    fetched_at: datetime | None
    expires_at: datetime | None
    pinned_until: datetime | None
    problem: str | None


_THIS = of_dealer(key_sets, source="sought")

# PostgreSQL counts no rows of an INSERT.
ADD_SOURCE = upsert(key_sets, "NOTHING").returning(key_sets.c.source)

PIN_SOURCE = upsert(key_sets, "UPDATE SET pinned_until = excluded.pinned_until")

COUNT_ASKED = select(func.count()).where(
    of_dealer(key_sets),
    key_sets.c.asked_at > bindparam("since", type_=UtcTime),
    or_(key_sets.c.pinned_until.is_(None), key_sets.c.pinned_until <= bindparam("now", type_=UtcTime)),
)

ASK_AGAIN = (
    update(key_sets)
    .where(
        _THIS,
        key_sets.c.problem.is_(None),
        key_sets.c.asked_at <= bindparam("since", type_=UtcTime),
        key_sets.c.tried_at <= bindparam("since", type_=UtcTime),
    )
    .values(asked_at=bindparam("at", type_=UtcTime))
)

FIND_SOURCE = rows_of(key_sets, StoredKeySet, source="sought")

LIST_SOURCES = rows_of(key_sets, StoredKeySet).where(key_sets.c.source.in_(bindparam("sources", expanding=True)))

LIST_VERSIONS = select(key_sets.c.source, key_sets.c.version).where(of_dealer(key_sets))

SUM_VERSIONS = select(func.count(), func.coalesce(func.sum(key_sets.c.version), 0)).where(of_dealer(key_sets))

PUT_KEYS = (
    update(key_sets)
    .where(_THIS)
    .values(
        document=bindparam("new_document"),
        fetched_at=bindparam("at", type_=UtcTime),
        tried_at=bindparam("at", type_=UtcTime),
        expires_at=bindparam("until", type_=UtcTime),
        version=key_sets.c.version + 1,
        problem=None,
    )
)

PUT_PROBLEM = (
    update(key_sets)
    .where(_THIS)
    .values(tried_at=bindparam("at", type_=UtcTime), problem=bindparam("words", type_=ExternalText))
)

DROP_KEYS = (
    update(key_sets)
    .where(_THIS)
    .values(
        document=None,
        fetched_at=None,
        expires_at=None,
        version=key_sets.c.version + 1,
        problem=bindparam("words", type_=ExternalText),
    )
)

PUT_USE = update(key_sets).where(_THIS).values(used_at=bindparam("at", type_=UtcTime))

LEAST_USED_LAST = (
    select(key_sets.c.source, func.coalesce(func.length(key_sets.c.document), 0).label("size"))
    .where(
        of_dealer(key_sets),
        or_(key_sets.c.pinned_until.is_(None), key_sets.c.pinned_until <= bindparam("now", type_=UtcTime)),
    )
    .order_by(key_sets.c.used_at.desc(), key_sets.c.source)
)

REMOVE_SOURCE = delete(key_sets).where(_THIS)

REMOVE_ITS_JOB = delete(jobs).where(THIS_JOB)


def fetch_early(tx: Transaction, sources: Iterable[str]) -> None:
    """Fetches pinned sources before their time. What strangers name does not count for them."""
    for source in sources:
        asked = tx.execute(ASK_AGAIN, {"sought": source, "since": tx.now - ASKED_AGAIN, "at": tx.now})
        if asked.rowcount:
            add_job_at(tx, KEYS_OF_OTHERS, tx.now, source)


def ask_for_keys(tx: Transaction, sources: Iterable[str]) -> int:
    """Adds sources that requests of strangers have named, with a job that fetches their keys now.

    Those above MAX_ASKED_A_MINUTE are left out: another request will name them again. Known sources are fetched again
    if the last attempt succeeded and is older than ASKED_AGAIN. Returns how many are fetched.
    """
    since = tx.now - ASKED_AGAIN
    left = MAX_ASKED_A_MINUTE - int(tx.execute(COUNT_ASKED, {"since": since, "now": tx.now}).scalar() or 0)
    added = 0
    for source in sources:
        if added >= left:
            break
        row = {"source": source, "version": 1, "asked_at": tx.now, "used_at": tx.now}
        if (
            tx.execute(ADD_SOURCE, row).one_or_none() is not None
            or tx.execute(ASK_AGAIN, {"sought": source, "since": since, "at": tx.now}).rowcount
        ):
            add_job_at(tx, KEYS_OF_OTHERS, tx.now, source)
            added += 1
    if added:
        remove_least_used(tx)
    return added


def pin_sources(tx: Transaction, sources: Iterable[str], until: datetime) -> None:
    """Adds the sources of settings, and keeps them until a time. New ones are fetched now."""
    stored = {row.source for row in tx.execute(LIST_VERSIONS)}
    for source in sources:
        row = {"source": source, "version": 1, "asked_at": tx.now, "used_at": tx.now, "pinned_until": until}
        tx.execute(PIN_SOURCE, row)
        if source not in stored:
            add_job_at(tx, KEYS_OF_OTHERS, tx.now, source)


def remove_least_used(tx: Transaction) -> None:
    """Removes the least recently used sources of strangers above MAX_SOURCES, and the largest documents above
    MAX_BYTES.

    Of equal documents, that of the least recently used source goes. If it were the first criterion, a few new sources
    with large documents would remove all others. The source stays, because it counts for MAX_ASKED_A_MINUTE.
    """
    sources, total = tx.execute(LEAST_USED_LAST, {"now": tx.now}).all(), 0
    for source, _ in sources[MAX_SOURCES:]:
        remove_source(tx, source)
    for source, size in sorted(sources[:MAX_SOURCES], key=lambda row: row.size):
        total += size
        if total > MAX_BYTES:
            tx.execute(DROP_KEYS, {"sought": source, "words": NO_ROOM})
            add_job_at(tx, KEYS_OF_OTHERS, tx.now + FORGOTTEN_AFTER, source)


def remove_source(tx: Transaction, source: str) -> None:
    """Removes a source with its keys and its job."""
    tx.execute(REMOVE_SOURCE, {"sought": source})
    tx.execute(REMOVE_ITS_JOB, {"of_kind": KEYS_OF_OTHERS, "of_subject": source})


def find_source(tx: Transaction, source: str) -> StoredKeySet | None:
    """A source with its keys."""
    return tx.find(StoredKeySet, FIND_SOURCE, {"sought": source})


def put_keys(tx: Transaction, source: str, document: bytes, expires_at: datetime) -> None:
    """Replaces the keys of a source. Does nothing if it was removed."""
    tx.execute(PUT_KEYS, {"sought": source, "new_document": document, "at": tx.now, "until": expires_at})
    remove_least_used(tx)


def put_problem(tx: Transaction, source: str, words: str) -> None:
    """Stores that a source was not fetched, and why. Its keys stay."""
    tx.execute(PUT_PROBLEM, {"sought": source, "at": tx.now, "words": words})


def put_uses(tx: Transaction, sources: Iterable[str]) -> None:
    """Stores that sources are in use."""
    for source in sources:
        tx.execute(PUT_USE, {"sought": source, "at": tx.now})


def key_set_versions(tx: Transaction) -> tuple[int, int]:
    """The number of sources and the sum of their versions: another pair means a change."""
    count, total = tx.execute(SUM_VERSIONS).one()
    return int(count), int(total)


def read_changed(tx: Transaction, known: Mapping[str, int]) -> tuple[list[StoredKeySet], set[str]]:
    """The sources whose version is not the known one, and those that have been removed."""
    versions = {row.source: row.version for row in tx.execute(LIST_VERSIONS)}
    changed: Sequence[str] = [source for source, version in versions.items() if known.get(source) != version]
    key_sets = [StoredKeySet(*row) for row in tx.execute(LIST_SOURCES, {"sources": changed})] if changed else []
    return key_sets, set(known) - set(versions)
