"""Stores the record of replies in batches (docs/how-to/record.md#replies), finds one, and deletes them by age.

A batch has the replies of one process, of one revision of the stock and of one version of the settings. A row for each
reply would cost more than the search. The id of a reply (a ULID) has its time.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
import zstandard
from msgspec import Struct
from sqlalchemy import bindparam, delete, func, select

from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.stock.record_tables import recorded_replies, reply_settings
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_TOGETHER: Final = 1_000
"""The most replies of a batch, and the most batches that one transaction deletes."""
LARGEST_BATCH: Final = 64 * 1024 * 1024
"""Bytes of a batch, unpacked. A body has at most 256 KiB, and most have less than 1 KiB."""

_LETTERS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LEVEL: Final = 1


class ReplyRow(Struct, frozen=True, array_like=True, gc=False):
    """One reply, without what its batch has: its id, its caller, what decided its bytes, and their hash.

    `digest` is the XXH64 hash of the reply: it detects a difference, and SHA-256 costs a sixth of a search. XXH3 costs
    more between other work: a processor pauses when it begins to use its widest registers.
    `binding` and `version` (empty at the root) name the address. `held_until` is empty unless the reply has it.
    `identity` is empty for an anonymous caller, and if the dealer leaves identities out. `body` is the request.
    """

    reply_id: str
    caller_class: str
    identity: str
    binding: str
    version: str
    skill: str
    held_until: str
    body: bytes
    digest: bytes


class RecordedReply(NamedTuple):
    """A reply of the record, with the revision of the stock and the settings that it was made from."""

    row: ReplyRow
    revision: int
    settings_id: str

    @property
    def at(self) -> datetime:
        """When its request arrived."""
        return time_of_id(self.row.reply_id)


_rows = msgspec.msgpack.Decoder(list[ReplyRow])
_batches = recorded_replies.c

# A transaction whose answer was lost is tried again.
ADD_BATCH = upsert(recorded_replies, "NOTHING")

# The row is the lock for the bound of a day, too: processes with the same settings count one after the other.
USE_SETTINGS = upsert(
    reply_settings,
    "UPDATE SET used_at = CASE WHEN excluded.used_at > reply_settings.used_at"
    " THEN excluded.used_at ELSE reply_settings.used_at END",
)

COUNT_SINCE = select(func.coalesce(func.sum(_batches.number), 0)).where(
    of_dealer(recorded_replies), _batches.last_at >= bindparam("since", type_=UtcTime)
)

FIND_BATCHES = (
    select(_batches.replies, _batches.revision, _batches.settings_id)
    .where(
        of_dealer(recorded_replies),
        _batches.last_at >= bindparam("at", type_=UtcTime),
        _batches.first_at <= bindparam("at", type_=UtcTime),
    )
    .execution_options(yield_per=1)
)

LIST_BATCHES = (
    select(_batches.replies, _batches.revision, _batches.settings_id)
    .where(of_dealer(recorded_replies))
    .order_by(_batches.last_at.desc(), _batches.batch_id)
    .limit(bindparam("most"))
    .execution_options(yield_per=1)
)

READ_SETTINGS = select(reply_settings.c.document).where(
    of_dealer(reply_settings), reply_settings.c.settings_id == bindparam("sought")
)

LIST_OLD = (
    select(_batches.batch_id)
    .where(of_dealer(recorded_replies), _batches.last_at < bindparam("before", type_=UtcTime))
    .limit(MOST_TOGETHER)
)

DELETE_BATCH = delete(recorded_replies).where(of_dealer(recorded_replies), _batches.batch_id == bindparam("of_batch"))

DELETE_OLD_SETTINGS = delete(reply_settings).where(
    of_dealer(reply_settings), reply_settings.c.used_at < bindparam("before", type_=UtcTime)
)


def time_of_id(reply_id: str) -> datetime:
    """The time in a ULID. Raises ValueError for another text."""
    if len(reply_id) != 26 or not set(reply_id) <= set(_LETTERS):
        raise ValueError("not the id of a reply")
    milliseconds = 0
    for letter in reply_id[:10]:
        milliseconds = milliseconds * 32 + _LETTERS.index(letter)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise ValueError("not the id of a reply") from None


def add_replies(
    tx: Transaction, rows: Sequence[ReplyRow], revision: int, settings_id: str, settings: bytes, most_a_day: int
) -> int:
    """Adds replies, in the order of their ids, while there is room for them on this day in UTC. Returns how many."""
    tx.execute(USE_SETTINGS, {"settings_id": settings_id, "used_at": tx.now, "document": _packed(settings)})
    midnight = tx.now.replace(hour=0, minute=0, second=0, microsecond=0)
    room = max(0, most_a_day - int(tx.execute(COUNT_SINCE, {"since": midnight}).scalar_one()))
    saved = rows[:room]
    for first in range(0, len(saved), MOST_TOGETHER):
        batch = saved[first : first + MOST_TOGETHER]
        tx.execute(
            ADD_BATCH,
            {
                "batch_id": batch[0].reply_id,
                "first_at": time_of_id(batch[0].reply_id),
                "last_at": time_of_id(batch[-1].reply_id),
                "number": len(batch),
                "revision": revision,
                "settings_id": settings_id,
                "replies": _packed(msgspec.msgpack.encode(batch)),
            },
        )
    return len(saved)


def find_reply(tx: Transaction, reply_id: str) -> RecordedReply | None:
    """The reply with this id. Raises ValueError for a text that is not an id, and for a damaged batch."""
    for replies, revision, settings_id in tx.execute(FIND_BATCHES, {"at": time_of_id(reply_id)}):
        for row in _rows_of(replies):
            if row.reply_id == reply_id:
                return RecordedReply(row, revision, settings_id)
    return None


def newest_replies(tx: Transaction, most: int) -> list[RecordedReply]:
    """The newest replies. Raises ValueError for a damaged batch."""
    return sorted(_all(tx, most), key=lambda recorded: recorded.row.reply_id, reverse=True)[:most]


def read_reply_settings(tx: Transaction, settings_id: str) -> bytes | None:
    """The settings that a reply was made from; None if they are not there. Raises ValueError if they are damaged."""
    document: bytes | None = tx.execute(READ_SETTINGS, {"sought": settings_id}).scalar()
    return None if document is None else _unpacked(document)


def prune_replies(store: Store, dealer_id: str, *, now: datetime, keep_days: int) -> int:
    """Deletes batches and settings that are older, in short transactions. Returns how many batches.

    Does nothing while the clock is implausible. Raises StorageError.
    """
    before, total = now - timedelta(days=keep_days), 0
    while True:
        with store.write(dealer_id, now) as tx:
            if clock_problem(tx) is not None:
                return total
            old = tx.execute(LIST_OLD, {"before": before}).scalars().all()
            if old:
                tx.execute_each(DELETE_BATCH, [{"of_batch": batch_id} for batch_id in old])
            total += len(old)
            if len(old) < MOST_TOGETHER:
                tx.execute(DELETE_OLD_SETTINGS, {"before": before})
                return total


def _all(tx: Transaction, most: int) -> Iterator[RecordedReply]:
    # Each batch has at least one reply.
    for replies, revision, settings_id in tx.execute(LIST_BATCHES, {"most": most}):
        for row in _rows_of(replies):
            yield RecordedReply(row, revision, settings_id)


def _rows_of(replies: bytes) -> list[ReplyRow]:
    try:
        return _rows.decode(_unpacked(replies))
    except msgspec.MsgspecError as error:
        raise ValueError("a batch of replies is damaged") from error


def _packed(content: bytes) -> bytes:
    return zstandard.compress(content, _LEVEL)


def _unpacked(packed: bytes) -> bytes:
    """The content of a packed value, within its bound."""
    try:
        if zstandard.frame_content_size(packed) <= LARGEST_BATCH:
            return zstandard.decompress(packed)
    except zstandard.ZstdError:
        pass
    raise ValueError("a row of the record of replies is damaged")
