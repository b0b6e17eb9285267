"""Answers `inventory.changes`: page by page, what changed from one stock to a newer one.

A reader has a stock (`base`), and goes to the stock of this process (`target`) in the order of vehicle ids. The record
has both, so the target stays the same from the first page to the last, whatever is imported meanwhile. Then it is the
new base. Listings are made as for a snapshot, so they are those of `inventory.search`, byte for byte.

The dealer's policy is in no record. If it changes, every listing counts as changed.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

import dealer_agent
from dealer_agent.catalogue_loading.cursors import (
    CURSOR_DAYS,
    SEVERAL_POLICIES,
    Position,
    StockPoint,
    has_expired,
    read_cursor,
    write_cursor,
)
from dealer_agent.catalogue_loading.listings import Lister
from dealer_agent.inventory.listing import ListingPolicy
from dealer_agent.protocol.errors import CursorExpired
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.stock.record import (
    StockTimes,
    Version,
    next_changed_ids,
    record_start,
    stock_times,
    versions_at,
)
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_PAGE_BYTES: Final = 1 << 20
"""The most bytes of the changes of a page. A larger single change is a page of its own."""
MOST_COMPARED: Final = 1_000
"""The most units that a page compares. A page may have fewer changes than its limit, and none."""
_BATCH = 200

BEGIN_AGAIN = "Begin again without a cursor, and replace what you have."
NO_CURSOR = "is not a cursor of this dealer; send the `cursor` of its last response as it was, or none to begin again"


class ChangePage(NamedTuple):
    """A page of changes, each as JSON. `position` is where the next page begins."""

    changes: list[bytes]
    position: Position
    more: bool


@dataclass(frozen=True)
class ChangeReader:
    """Answers `inventory.changes` for one dealer. `key` authenticates its cursors."""

    store: Store
    policy: ListingPolicy
    key: bytes = field(repr=False)

    @cached_property
    def _digest(self) -> str:
        """A digest of what listings depend on besides the stock."""
        hashed = msgspec.json.encode((self.policy, dealer_agent.__version__), order="deterministic")
        return blake2b(hashed, digest_size=8).hexdigest()

    async def answer(self, cursor: str | None, limit: int, revision: int, now: datetime, seconds: float) -> bytes:
        """`read` in a thread. Raises TimeoutError after `seconds`."""
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(self.read, cursor, limit, revision, now)

    def read(self, cursor: str | None, limit: int, revision: int, now: datetime) -> bytes:
        """The JSON of the next page. `revision` is that of the stock that this process searches.

        Raises SchemaValidationFailed, CursorExpired and StorageError.
        """
        position = self._position(cursor, now)
        with self.store.read(self.policy.dealer_id, now) as tx:
            page = self._page(tx, position, revision, limit)
        after = msgspec.json.encode(write_cursor(self.key, page.position, now))
        more = b"true" if page.more else b"false"
        return b'{"changes":[%s],"cursor":%s,"more":%s}' % (b",".join(page.changes), after, more)

    def _position(self, cursor: str | None, now: datetime) -> Position:
        """The position of a cursor: the beginning without one. Raises SchemaValidationFailed and CursorExpired."""
        if cursor is None:
            return Position()
        found = read_cursor(self.key, cursor)
        if found is None:
            raise validation_error([Problem(("cursor",), NO_CURSOR, "pattern")], "payload")
        position, issued = found
        if has_expired(issued, now):
            raise CursorExpired(f"The cursor is more than {CURSOR_DAYS} days old. {BEGIN_AGAIN}")
        return position

    def _page(self, tx: Transaction, position: Position, revision: int, limit: int) -> ChangePage:
        """One page of the changes from `base` to `target`."""
        # SQLite and PostgreSQL may sort the same ids differently, so `after` is valid in one of them only.
        database = tx.connection.dialect.name
        if position.target is not None and position.database != database:
            raise CursorExpired(f"The stock of this dealer was moved to another database. {BEGIN_AGAIN}")
        comparison = self._comparison(tx, position, revision)
        if comparison is None:
            return ChangePage([], position, more=False)
        changes, after = _fill_page(comparison, position.after, limit)
        target = comparison.target
        if after is None:
            more = revision > target.revision or target.policy != self._digest
            return ChangePage(changes, Position(base=target), more)
        return ChangePage(changes, Position(comparison.base, target, after, database), more=True)

    def _comparison(self, tx: Transaction, position: Position, revision: int) -> "_Comparison | None":
        """The comparison of the two stocks of a pass. None if the reader has the newest stock.

        A first page sets `target` to the newest stock, and later pages keep it, so that a pass compares two fixed
        stocks.
        """
        base, target = position.base, position.target
        base_times = _stock_times(tx, base)
        if target is None:
            newest = max(revision, base.revision)
            if (newest, self._digest) == (base.revision, base.policy):
                return None
            target_times = _stock_times(tx, StockPoint(newest), from_cursor=False)
            target = StockPoint(newest, microseconds(target_times.mark.imported_at), self._digest)
        else:
            target_times = _stock_times(tx, target)
            if target.policy != self._digest:
                # The pages before had other listings. The next pass has this target as its base, and sends all again.
                target = target._replace(policy=SEVERAL_POLICIES)
        base_lister = None
        if base.policy == self._digest:
            base_lister = Lister(self.policy, base_times.confirmations, base_times.good_since)
        return _Comparison(
            tx,
            base=base,
            target=target,
            base_times=base_times,
            target_times=target_times,
            base_lister=base_lister,
            target_lister=Lister(self.policy, target_times.confirmations, target_times.good_since),
        )


def _fill_page(comparison: "_Comparison", after: str, limit: int) -> tuple[list[bytes], str | None]:
    """The changes of one page, and the last vehicle id that it compared. None for the id if nothing is left to compare.

    A page ends at `limit` changes, MOST_PAGE_BYTES or MOST_COMPARED vehicles.
    """
    changes: list[bytes] = []
    size = 0
    for compared, (vehicle_id, change) in enumerate(comparison.after(after), 1):
        if change is not None:
            size += len(change)
            if len(changes) == limit or (changes and size > MOST_PAGE_BYTES):
                return changes, after
            changes.append(change)
        after = vehicle_id
        if compared == MOST_COMPARED:
            return changes, after
    return changes, None


def _stock_times(tx: Transaction, point: StockPoint, *, from_cursor: bool = True) -> StockTimes:
    """The times of a stock, of a cursor or the newest one. Raises CursorExpired if the record does not have it.

    The record may also have another stock under the revision of a cursor, such as after a restore of a backup, or may
    begin later than this revision. Both raise CursorExpired too.
    """
    times = stock_times(tx, point.revision)
    if times is None or (
        from_cursor
        and point.revision
        and (microseconds(times.mark.imported_at) != point.at or point.revision < record_start(tx))
    ):
        raise CursorExpired(f"The dealer has no record of its stock at the time of this cursor. {BEGIN_AGAIN}")
    return times


class _Comparison(NamedTuple):
    """Compares the stock `target` with the stock `base`.

    The listers make the listings of the two stocks. `base_lister` is None if the listings of `base` were made with
    another policy, which is not known any more.
    """

    tx: Transaction
    base: StockPoint
    target: StockPoint
    base_times: StockTimes
    target_times: StockTimes
    base_lister: Lister | None
    target_lister: Lister

    def after(self, vehicle_id: str) -> Iterator[tuple[str, bytes | None]]:
        """The units after a vehicle id that may have changed, each with its change, if it has one."""
        since, good_since_changed = -1, set[str]()
        if self.base_lister is not None and self.base_lister.confirmed == self.target_lister.confirmed:
            # Listings differ only if their units do.
            since = self.base.revision
            good_since_changed = {
                each for each, _ in self.target_times.good_since.items() ^ self.base_times.good_since.items()
            }
        replaced_since = self.base.revision or self.target.revision
        while ids := next_changed_ids(
            self.tx, vehicle_id, _BATCH, since=since, replaced_since=replaced_since, also=good_since_changed
        ):
            old = versions_at(self.tx, self.base.revision, ids) if self.base.revision else {}
            new = versions_at(self.tx, self.target.revision, ids)
            for vehicle_id in ids:
                yield vehicle_id, self._change(vehicle_id, old.get(vehicle_id), new.get(vehicle_id))

    def _change(self, vehicle_id: str, old: Version | None, new: Version | None) -> bytes | None:
        """The JSON of what changed for buyers between two versions of a unit. None if nothing did."""
        old_unit = None if old is None else old.live
        new_unit = None if new is None else new.live
        name = msgspec.json.encode(vehicle_id)
        if new_unit is None:
            return None if old_unit is None else b'{"vehicle_id":%s,"change":"removed"}' % name
        listing = self.target_lister.json(new_unit)
        if old_unit is not None and self.base_lister is not None and self.base_lister.json(old_unit) == listing:
            return None
        kind = b"added" if old_unit is None else b"changed"
        return b'{"vehicle_id":%s,"change":"%s","vehicle":%s}' % (name, kind, listing)
