"""Stores the state of the feeds that are imported without a person, and their files.

One process of all machines works on a feed: the one that has the lease of its job. A process that has lost the lease
can write nothing more about the feed (LeaseLost), and no import either: the transaction of an import also finishes its
file.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Row, Update, and_, bindparam, delete, func, literal, or_, select, update

from dealer_agent.storage.errors import LeaseLost
from dealer_agent.storage.jobs import Job, add_jobs, hold_job, remove_other_jobs
from dealer_agent.storage.schema import feed_files, feeds, jobs
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

FEED = "feed"
"""The kind of the job that collects a feed. Its subject is the name of the feed."""

FileState = Literal["waiting", "imported", "unchanged", "refused", "failed"]
"""`waiting`: not read yet. `unchanged`: the same bytes as the last import. `refused`: readable, and a check refused it.
`failed`: it cannot be read."""


class StoredFeed(NamedTuple):
    """A feed of the current settings. `digest` changes with its settings."""

    name: str
    source: str
    late_hours: int
    digest: bytes


class ClaimedFeed(NamedTuple):
    """A feed whose job this process has. `seen` and `imported_hash` are what the last collection remembered."""

    job: Job
    seen: Mapping[str, str]
    imported_hash: bytes | None

    @property
    def name(self) -> str:
        """The name of the feed."""
        return self.job.subject


class FeedFile(NamedTuple):
    """A file of a feed. `received_at` is its arrival in the incoming folder. `revision` is that of its import."""

    feed: str
    file_id: str
    name: str
    size: int
    content_hash: bytes
    state: FileState
    received_at: datetime
    finished_at: datetime | None
    revision: int | None
    problem: str | None
    attempts: int


class FeedState(NamedTuple):
    """How a feed is doing.

    `since`: it is in the settings. `checked_at`: the last time that its source was asked. `succeeded_at`: the last time
    that the source answered, also without a new file. `new_at`: the arrival of the newest file that was imported or
    unchanged. `is_late`: `late_after_hours` have passed since then. `waiting` counts files that are not read yet.
    """

    name: str
    source: str
    since: datetime
    next_at: datetime
    checked_at: datetime | None
    succeeded_at: datetime | None
    new_at: datetime | None
    imported_at: datetime | None
    problem: str | None
    is_late: bool
    waiting: int


_of_feed = (of_dealer(feeds), feeds.c.name == bindparam("feed_name"))
_of_file = (
    of_dealer(feed_files),
    feed_files.c.feed == bindparam("feed_name"),
    feed_files.c.file_id == bindparam("of_file"),
)

_SAME = "feeds.digest = excluded.digest"
PUT_FEED = upsert(
    feeds,
    "UPDATE SET source = excluded.source, late_hours = excluded.late_hours, digest = excluded.digest, "
    f"seen = CASE WHEN {_SAME} THEN feeds.seen END, "
    f"imported_hash = CASE WHEN {_SAME} THEN feeds.imported_hash END",
)

REMOVE_FEEDS = delete(feeds).where(of_dealer(feeds), feeds.c.name.not_in(bindparam("names", expanding=True)))

READ_DIGESTS = select(feeds.c.name, feeds.c.digest).where(of_dealer(feeds))

READ_FEED = select(feeds.c.seen, feeds.c.imported_hash).where(*_of_feed)

NOTE_FETCH = (
    update(feeds)
    .where(*_of_feed)
    .values(
        seen=bindparam("new_seen"),
        checked_at=bindparam("at"),
        succeeded_at=bindparam("at"),
        fetch_problem=None,
    )
)

NOTE_FETCH_PROBLEM = update(feeds).where(*_of_feed).values(checked_at=bindparam("at"), fetch_problem=bindparam("words"))

NOTE_FILE_PROBLEM = update(feeds).where(*_of_feed).values(file_problem=bindparam("words"))

NOTE_UNCHANGED = update(feeds).where(*_of_feed).values(new_at=bindparam("arrived_at"), file_problem=None)

NOTE_IMPORT = (
    update(feeds)
    .where(*_of_feed)
    .values(
        new_at=bindparam("arrived_at"),
        imported_at=bindparam("at"),
        imported_hash=bindparam("new_hash"),
        file_problem=None,
    )
)

# Without the hash, the file that was imported before is imported again when it comes again.
SETTLE_FILE_PROBLEM = (
    update(feeds).where(*_of_feed).values(imported_at=bindparam("at"), imported_hash=None, file_problem=None)
)

ADD_FILE = upsert(feed_files, "NOTHING")

_files = select(*(feed_files.c[name] for name in FeedFile._fields)).where(of_dealer(feed_files))

FIND_FILE = _files.where(*_of_file)

NEWEST_FILES = _files.order_by(feed_files.c.received_at.desc(), feed_files.c.file_id.desc()).limit(bindparam("most"))

NEWEST_FILES_OF_FEED = NEWEST_FILES.where(feed_files.c.feed == bindparam("feed_name"))

COUNT_ATTEMPT = update(feed_files).where(*_of_file).values(attempts=feed_files.c.attempts + 1)

UNCOUNT_ATTEMPT = update(feed_files).where(*_of_file).values(attempts=feed_files.c.attempts - 1)

FINISH_FILE = (
    update(feed_files)
    .where(*_of_file, feed_files.c.state == "waiting")
    .values(
        state=bindparam("new_state"),
        finished_at=bindparam("at"),
        revision=bindparam("new_revision"),
        problem=bindparam("words"),
    )
)

FORGET_FILES = delete(feed_files).where(
    of_dealer(feed_files),
    or_(
        feed_files.c.feed == bindparam("feed_name"),
        feed_files.c.feed.not_in(select(feeds.c.name).where(of_dealer(feeds))),
    ),
    feed_files.c.finished_at < bindparam("before"),
)

_surplus = (
    select(feed_files.c.file_id)
    .where(of_dealer(feed_files), feed_files.c.feed == bindparam("feed_name"), feed_files.c.finished_at.is_not(None))
    .order_by(feed_files.c.file_id.desc())
    .offset(bindparam("most"))
    .limit(1)
)

FORGET_SURPLUS = delete(feed_files).where(
    of_dealer(feed_files),
    feed_files.c.feed == bindparam("feed_name"),
    feed_files.c.finished_at.is_not(None),
    feed_files.c.file_id <= _surplus.scalar_subquery(),
)

READ_STATES = (
    select(
        *((jobs.c.due_at if name == "next_at" else feeds.c[name]) for name in FeedState._fields[:-3]),
        feeds.c.fetch_problem,
        feeds.c.file_problem,
        feeds.c.late_hours,
    )
    .join(
        jobs, and_(jobs.c.dealer_id == feeds.c.dealer_id, jobs.c.kind == literal(FEED), jobs.c.subject == feeds.c.name)
    )
    .where(of_dealer(feeds))
    .order_by(feeds.c.name)
)

COUNT_WAITING = (
    select(feed_files.c.feed, func.count())
    .where(of_dealer(feed_files), feed_files.c.state == "waiting")
    .group_by(feed_files.c.feed)
)

_seen = msgspec.json.Decoder(dict[str, str])


def put_feeds(tx: Transaction, rows: Sequence[StoredFeed]) -> None:
    """Makes these the feeds of the dealer. A feed with changed settings is due at once, and its source starts anew."""
    names = [row.name for row in rows]
    before = {row.name: row.digest for row in tx.execute(READ_DIGESTS)}
    tx.execute(REMOVE_FEEDS, {"names": names})
    remove_other_jobs(tx, FEED, names)
    if rows:
        tx.execute_each(PUT_FEED, [{**row._asdict(), "since": tx.now} for row in rows])
    add_jobs(tx, FEED, [row.name for row in rows if before.get(row.name) != row.digest])


def read_feed(tx: Transaction, job: Job) -> ClaimedFeed | None:
    """The feed of a job; None if there is none. Raises LeaseLost."""
    hold_job(tx, job)
    row = tx.execute(READ_FEED, {"feed_name": job.subject}).one_or_none()
    return None if row is None else ClaimedFeed(job, _seen.decode(row.seen or b"{}"), row.imported_hash)


def note_fetch(tx: Transaction, feed: ClaimedFeed, seen: Mapping[str, str]) -> None:
    """Stores that the source answered, and what it remembers. Raises LeaseLost."""
    _with_lease(tx, NOTE_FETCH, feed, new_seen=msgspec.json.encode(seen), at=tx.now)


def note_fetch_problem(tx: Transaction, feed: ClaimedFeed, problem: str) -> None:
    """Stores why the source has no file now. Raises LeaseLost."""
    _with_lease(tx, NOTE_FETCH_PROBLEM, feed, words=problem, at=tx.now)


def note_file_problem(tx: Transaction, feed: ClaimedFeed, problem: str) -> None:
    """Stores a problem with a file. Raises LeaseLost."""
    _with_lease(tx, NOTE_FILE_PROBLEM, feed, words=problem)


def settle_file_problem(tx: Transaction, feed: str) -> None:
    """Stores that a person has imported a file of the feed. What was wrong with a file before is settled."""
    tx.execute(SETTLE_FILE_PROBLEM, {"feed_name": feed, "at": tx.now})


def uncount_attempt(tx: Transaction, feed: ClaimedFeed, file: FeedFile) -> None:
    """Stores that an import of the file ended for a reason that is not in the file. Raises LeaseLost."""
    hold_job(tx, feed.job)
    tx.execute(UNCOUNT_ATTEMPT, {"feed_name": feed.name, "of_file": file.file_id})


def add_file(
    tx: Transaction,
    feed: ClaimedFeed,
    file_id: str,
    *,
    name: str,
    size: int,
    content_hash: bytes,
    received_at: datetime,
) -> FeedFile:
    """The row of a file, which is added if it is not there. Raises LeaseLost."""
    hold_job(tx, feed.job)
    tx.execute(
        ADD_FILE,
        {
            "feed": feed.name,
            "file_id": file_id,
            "name": name,
            "size": size,
            "content_hash": content_hash,
            "state": "waiting",
            "received_at": received_at,
        },
    )
    return FeedFile(*tx.execute(FIND_FILE, {"feed_name": feed.name, "of_file": file_id}).one())


def find_file(tx: Transaction, feed: str, file_id: str) -> FeedFile | None:
    """A file of a feed."""
    row = tx.execute(FIND_FILE, {"feed_name": feed, "of_file": file_id}).one_or_none()
    return None if row is None else FeedFile(*row)


def count_attempt(tx: Transaction, feed: ClaimedFeed, file: FeedFile) -> None:
    """Stores that an import of the file begins. Raises LeaseLost."""
    hold_job(tx, feed.job)
    tx.execute(COUNT_ATTEMPT, {"feed_name": feed.name, "of_file": file.file_id})


def finish_file(
    tx: Transaction,
    feed: ClaimedFeed,
    file: FeedFile,
    state: FileState,
    *,
    revision: int | None = None,
    problem: str | None = None,
) -> None:
    """Stores the result of a waiting file. Raises LeaseLost, also if it has a result already."""
    values = {"new_state": state, "at": tx.now, "new_revision": revision, "words": problem}
    if tx.execute(FINISH_FILE, {"feed_name": feed.name, "of_file": file.file_id, **values}).rowcount == 0:
        raise LeaseLost(f"another process has finished a file of the feed {feed.name}")
    if state == "imported":
        _with_lease(tx, NOTE_IMPORT, feed, arrived_at=file.received_at, at=tx.now, new_hash=file.content_hash)
    elif state == "unchanged":
        _with_lease(tx, NOTE_UNCHANGED, feed, arrived_at=file.received_at)
    else:
        note_file_problem(tx, feed, problem or "")


def _with_lease(tx: Transaction, statement: Update, feed: ClaimedFeed, **values: object) -> None:
    hold_job(tx, feed.job)
    tx.execute(statement, {"feed_name": feed.name, **values})


def forget_files(tx: Transaction, feed: str, before: datetime) -> None:
    """Deletes the rows of files of a feed, and of feeds that were removed, that got their result before a time."""
    tx.execute(FORGET_FILES, {"feed_name": feed, "before": before})


def forget_surplus(tx: Transaction, feed: str, most: int) -> None:
    """Deletes the rows of the oldest files with a result. The newest `most` stay."""
    tx.execute(FORGET_SURPLUS, {"feed_name": feed, "most": most})


def list_files(tx: Transaction, feed: str | None, most: int) -> list[FeedFile]:
    """The newest files of a feed, by default of all feeds, newest first."""
    if feed is None:
        return [FeedFile(*row) for row in tx.execute(NEWEST_FILES, {"most": most})]
    return [FeedFile(*row) for row in tx.execute(NEWEST_FILES_OF_FEED, {"most": most, "feed_name": feed})]


def feed_states(tx: Transaction) -> list[FeedState]:
    """The dealer's feeds by name, as of the time of the transaction."""
    waiting = {feed: count for (feed, count) in tx.execute(COUNT_WAITING)}  # noqa: C416 - rows are not pairs for mypy.
    return [_state(row, tx.now, waiting.get(row.name, 0)) for row in tx.execute(READ_STATES)]


def _state(row: Row[Any], now: datetime, waiting: int) -> FeedState:
    problem = row.fetch_problem or row.file_problem
    is_late = now > (row.new_at or row.since) + timedelta(hours=row.late_hours)
    return FeedState._make((*row[:-3], problem, is_late, waiting))
