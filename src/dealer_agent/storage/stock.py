"""The stock in the database: one transaction writes an import, and one reads all of it (docs/reference/feeds.md)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET
from sqlalchemy import Executable, bindparam, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from dealer_agent.inventory.import_plan import ImportRow, KnownUnit, Placed, Plan, plan_import
from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.errors import StockShrinks
from dealer_agent.storage.keys import check_owner, claim_dealer
from dealer_agent.storage.schema import imports, of_dealer, revisions, unit_documents, units
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

_Item = TypeVar("_Item")

_CHUNK = 1000
"""Rows in one execution: bounds the memory that an import takes."""

_to_json = msgspec.json.Encoder(order="deterministic")
_from_json = msgspec.json.Decoder(Unit)


class Revision(NamedTuple):
    """Counters that grow with every import, every token that is created or revoked, and every change of settings."""

    stock: int = 0
    tokens: int = 0
    settings: int = 0


class LiveUnit(NamedTuple):
    """A unit for sale. `changed_at`: last added, changed or returned to sale; `updated_at`: last import with it."""

    unit: Unit
    vehicle_id: str
    first_seen: datetime
    changed_at: datetime
    updated_at: datetime


class GoneUnit(NamedTuple):
    """A unit that was sold in the last `remember_days`."""

    vehicle_id: str
    vin: str | None
    stock: str | None
    sold_at: datetime


class StockMark(NamedTuple):
    """Identifies a stock: the revision and the time of the import that made it. Other databases have other times."""

    revision: int
    imported_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stock:
    """A dealer's stock as of one moment, by vehicle id. `live` may be large: iterate it once, in the transaction."""

    mark: StockMark
    live: Iterator[LiveUnit]
    gone: list[GoneUnit]


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """The vehicle ids that an import changed, or would change.

    `before` and `after` are the numbers of units for sale. `repeated` is the number of rows that named a unit again.
    `revision` is the stock's revision afterwards; None for a dry run.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    sold: tuple[str, ...]
    back: tuple[str, ...]
    before: int
    after: int
    repeated: int
    revision: int | None


class ImportRecord(NamedTuple):
    """An import in the history. `source` is the file's name."""

    revision: int
    at: datetime
    source: str
    layout: str
    full_file: bool
    added: int
    changed: int
    unchanged: int
    sold: int
    back: int


READ_REVISION = select(revisions.c.stock_revision, revisions.c.token_revision, revisions.c.settings_revision).where(
    of_dealer(revisions)
)

# The upsert locks the row: imports of one dealer run one after the other, also in several processes.
NEXT_REVISION = (
    upsert(revisions)
    .values(stock_revision=1, token_revision=0)
    .on_conflict_do_update(
        index_elements=revisions.primary_key, set_={"stock_revision": revisions.c.stock_revision + 1}
    )
    .returning(revisions.c.stock_revision)
)

READ_KNOWN_UNITS = (
    select(
        units.c.vehicle_id,
        units.c.vin,
        units.c.stock,
        units.c.digest,
        units.c.document_hash,
        units.c.sold_at.is_not(None),
    )
    .where(of_dealer(units))
    .order_by(units.c.first_seen, units.c.vehicle_id)
)

ADD_UNIT = insert(units)

ADD_DOCUMENT = insert(unit_documents)

_this_unit = (of_dealer(units), units.c.vehicle_id == bindparam("in_vehicle"))

REPLACE_UNIT = (
    update(units)
    .where(*_this_unit)
    .values(
        {
            name: bindparam(name)
            for name in ("vin", "stock", "digest", "document_hash", "changed_at", "updated_at", "sold_at")
        }
    )
)

REFRESH_UNIT = update(units).where(*_this_unit).values(document_hash=bindparam("document_hash"))

REPLACE_DOCUMENT = (
    update(unit_documents)
    .where(of_dealer(unit_documents), unit_documents.c.vehicle_id == bindparam("in_vehicle"))
    .values(unit=bindparam("unit"))
)

_these_units = (of_dealer(units), units.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)))

CONFIRM_UNITS = update(units).where(*_these_units).values(updated_at=bindparam("at"))

SELL_UNITS = update(units).where(*_these_units).values(sold_at=bindparam("at"))

FORGET_UNITS = delete(units).where(of_dealer(units), units.c.sold_at < bindparam("before"))

ADD_IMPORT = insert(imports)

LIST_IMPORTS = (
    select(*(imports.c[name] for name in ImportRecord._fields))
    .where(of_dealer(imports))
    .order_by(imports.c.revision.desc())
    .limit(bindparam("limit"))
)

READ_LIVE_UNITS = (
    select(unit_documents.c.unit, units.c.vehicle_id, units.c.first_seen, units.c.changed_at, units.c.updated_at)
    .join_from(units, unit_documents)
    .where(of_dealer(units), units.c.sold_at.is_(None))
    .order_by(units.c.vehicle_id)
    .execution_options(yield_per=5000)
)

READ_STOCK_MARK = (
    select(revisions.c.stock_revision, imports.c.at)
    .join_from(
        revisions,
        imports,
        (imports.c.dealer_id == revisions.c.dealer_id) & (imports.c.revision == revisions.c.stock_revision),
        isouter=True,
    )
    .where(of_dealer(revisions))
)

FIND_LIVE_UNIT = (
    select(units.c.vehicle_id).where(of_dealer(units), units.c.sold_at.is_(None)).limit(1).offset(bindparam("skipped"))
)

READ_GONE_UNITS = (
    select(units.c.vehicle_id, units.c.vin, units.c.stock, units.c.sold_at)
    .where(of_dealer(units), units.c.sold_at >= bindparam("since"))
    .order_by(units.c.vehicle_id)
)

COUNT_FOR_SALE = select(func.count()).select_from(units).where(of_dealer(units), units.c.sold_at.is_(None))


def read_revision(tx: Transaction) -> Revision:
    """The dealer's revisions; zeros before the first import and token. One row, read by its key."""
    row = tx.execute(READ_REVISION).one_or_none()
    return Revision() if row is None else Revision(*row)


def apply_import(
    store: Store,
    dealer_id: str,
    rows: Sequence[ImportRow],
    *,
    at: datetime,
    source: str,
    layout: str,
    max_shrink: float | None,
    dry_run: bool,
    remember_days: int,
    full: bool = True,
) -> ImportOutcome:
    """Replaces the stock by `rows`, in one transaction: readers see the old stock or the new one.

    If the file is `full`, units for sale that are not in `rows` become sold. If those are more than the share
    `max_shrink` (0 to 1) of the units for sale, raises StockShrinks and writes nothing. `dry_run` finds the same
    outcome, or raises the same error, and writes nothing. Units sold more than `remember_days` before `at` are deleted.
    Only the file name of `source` is stored.
    """
    # Encoded before the transaction begins: SQLite has one writer, and leads wait for it.
    documents = [_to_json.encode(row.unit) for row in rows]
    hashes = [blake2b(document, digest_size=16).digest() for document in documents]
    with (store.read if dry_run else store.write)(dealer_id, at) as tx:
        if dry_run:
            check_owner(tx)
        else:
            claim_dealer(tx)
        revision = None if dry_run else int(tx.execute(NEXT_REVISION).scalar_one())
        known = [KnownUnit(*row) for row in tx.execute(READ_KNOWN_UNITS)]
        plan = plan_import(known, rows, hashes, full=full)
        if max_shrink is not None and len(plan.sold) > max_shrink * plan.before:
            raise StockShrinks(before=plan.before, after=plan.after, removed=len(plan.sold))
        if revision is not None:
            _write_plan(tx, plan, _Rows(rows, documents, hashes, at))
            # While the clock is implausible, keep everything; a later import deletes it.
            if clock_problem(tx) is None:
                tx.execute(FORGET_UNITS, {"before": at - timedelta(days=remember_days)})
            record = ImportRecord(
                revision=revision,
                at=at,
                source=PurePath(source).name,
                layout=layout,
                full_file=full,
                added=len(plan.added),
                changed=len(plan.changed),
                unchanged=len(plan.unchanged),
                sold=len(plan.sold),
                back=len(plan.back),
            )
            tx.execute(ADD_IMPORT, record._asdict())
    return ImportOutcome(
        added=tuple(placed.vehicle_id for placed in plan.added),
        changed=tuple(placed.vehicle_id for placed in plan.changed),
        unchanged=tuple(plan.unchanged),
        sold=tuple(plan.sold),
        back=tuple(placed.vehicle_id for placed in plan.back),
        before=plan.before,
        after=plan.after,
        repeated=plan.repeated,
        revision=revision,
    )


def read_mark(tx: Transaction) -> StockMark:
    """The mark of the current stock."""
    row = tx.execute(READ_STOCK_MARK).one_or_none()
    return StockMark(0, None) if row is None else StockMark(*row)


def count_for_sale(tx: Transaction) -> int:
    """How many units are for sale."""
    return int(tx.execute(COUNT_FOR_SALE).scalar_one())


def has_more_live_units(tx: Transaction, than: int) -> bool:
    """Whether more than `than` units are for sale. Does not count all of them."""
    return tx.execute(FIND_LIVE_UNIT, {"skipped": than}).one_or_none() is not None


def read_stock(tx: Transaction, remember_days: int) -> Stock:
    """All units for sale, and those sold in the last `remember_days`. The transaction must be one of `Store.read`."""
    gone = tx.execute(READ_GONE_UNITS, {"since": tx.now - timedelta(days=remember_days)})
    return Stock(mark=read_mark(tx), gone=[GoneUnit(*row) for row in gone], live=_live_units(tx))


def _live_units(tx: Transaction) -> Iterator[LiveUnit]:
    for row in tx.execute(READ_LIVE_UNITS):
        yield LiveUnit(_from_json.decode(row[0]), *row[1:])


def list_imports(tx: Transaction, limit: int) -> list[ImportRecord]:
    """The newest imports first."""
    return [ImportRecord(*row) for row in tx.execute(LIST_IMPORTS, {"limit": limit})]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a feed file, and the column values to store for them."""

    rows: Sequence[ImportRow]
    documents: Sequence[bytes]
    hashes: Sequence[bytes]
    at: datetime

    def content(self, placed: Placed) -> dict[str, Any]:
        unit = self.rows[placed.position].unit
        return {
            "vin": None if unit.vin is UNSET else unit.vin or None,
            "stock": None if unit.stock is UNSET else unit.stock or None,
            "digest": self.rows[placed.position].digest,
            "document_hash": self.hashes[placed.position],
            "changed_at": self.at,
            "updated_at": self.at,
            "sold_at": None,
        }

    def new_unit(self, placed: Placed) -> dict[str, Any]:
        return self._new(placed) | {"first_seen": self.at} | self.content(placed)

    def new_document(self, placed: Placed) -> dict[str, Any]:
        return self._new(placed) | {"unit": self.documents[placed.position]}

    def replaced_unit(self, placed: Placed) -> dict[str, Any]:
        return self._known(placed) | self.content(placed)

    def refreshed_unit(self, placed: Placed) -> dict[str, Any]:
        return self._known(placed) | {"document_hash": self.hashes[placed.position]}

    def replaced_document(self, placed: Placed) -> dict[str, Any]:
        return self._known(placed) | {"unit": self.documents[placed.position]}

    def _new(self, placed: Placed) -> dict[str, Any]:
        return {"vehicle_id": placed.vehicle_id}

    def _known(self, placed: Placed) -> dict[str, Any]:
        return {"in_vehicle": placed.vehicle_id}


def _write_plan(tx: Transaction, plan: Plan, rows: _Rows) -> None:
    replaced = plan.changed + plan.back
    each: tuple[tuple[Executable, list[Placed], Callable[[Placed], dict[str, Any]]], ...] = (
        (REPLACE_UNIT, replaced, rows.replaced_unit),
        (REPLACE_DOCUMENT, replaced, rows.replaced_document),
        (ADD_UNIT, plan.added, rows.new_unit),
        (ADD_DOCUMENT, plan.added, rows.new_document),
        (REFRESH_UNIT, plan.refreshed, rows.refreshed_unit),
        (REPLACE_DOCUMENT, plan.refreshed, rows.replaced_document),
    )
    for statement, placed_units, values in each:
        for part in _chunks(placed_units):
            tx.execute_each(statement, [values(placed) for placed in part])
    for statement, vehicle_ids in ((CONFIRM_UNITS, plan.unchanged), (SELL_UNITS, plan.sold)):
        for ids in _chunks(vehicle_ids):
            tx.execute(statement, {"in_vehicles": ids, "at": rows.at})


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
