"""The stock in the database: imports in one transaction, reads as of one moment (contract, part 6)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET
from sqlalchemy import Connection, Engine, Executable, bindparam, delete, insert, select, text, update

from dealer_agent.inventory.unit import Unit
from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.errors import StockShrinks
from dealer_agent.storage.matching import ImportRow, KnownUnit, Placed, Plan, plan_import
from dealer_agent.storage.schema import imports, revisions, unit_documents, units

_Item = TypeVar("_Item")

_CHUNK = 1000
"""Rows in one execution: bounds the memory that an import takes."""

_to_json = msgspec.json.Encoder(order="deterministic")
_from_json = msgspec.json.Decoder(Unit)


class Revision(NamedTuple):
    """Grows with every import, and with every token made or revoked."""

    stock: int
    tokens: int


class LiveUnit(NamedTuple):
    """A unit for sale. `changed_at`: last added, changed or back; `updated_at`: last confirmed by an import."""

    unit: Unit
    vehicle_id: str
    first_seen: datetime
    changed_at: datetime
    updated_at: datetime


class GoneUnit(NamedTuple):
    """A unit that is sold, and still remembered."""

    vehicle_id: str
    vin: str | None
    stock: str | None
    sold_at: datetime


class StockMark(NamedTuple):
    """Which stock it is: the revision and the time of the import that made it. Other databases have other times."""

    revision: int
    imported_at: datetime | None


@dataclass(frozen=True, slots=True)
class Stock:
    """A dealer's stock as of one moment, by vehicle id. `live` is read as it is iterated, once: it may be large."""

    mark: StockMark
    live: Iterator[LiveUnit]
    gone: list[GoneUnit]


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import did, or would do: vehicle ids; units for sale before and after; rows that named a unit again.

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
    """One line of the history of imports. `source` is the file's name."""

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


READ_REVISION = select(revisions.c.stock_revision, revisions.c.token_revision).where(
    revisions.c.dealer_id == bindparam("dealer_id")
)

# The upsert locks the row: imports of one dealer come one after the other, also from several processes.
NEXT_STOCK_REVISION = text("""
    INSERT INTO revisions (dealer_id, stock_revision, token_revision) VALUES (:dealer_id, 1, 0)
    ON CONFLICT (dealer_id) DO UPDATE SET stock_revision = revisions.stock_revision + 1
    RETURNING stock_revision
""")

READ_KNOWN_UNITS = (
    select(
        units.c.vehicle_id,
        units.c.vin,
        units.c.stock,
        units.c.digest,
        units.c.document_hash,
        units.c.sold_at.is_not(None),
    )
    .where(units.c.dealer_id == bindparam("dealer_id"))
    .order_by(units.c.first_seen, units.c.vehicle_id)
)

ADD_UNIT = insert(units)

ADD_DOCUMENT = insert(unit_documents)

_this_unit = (units.c.dealer_id == bindparam("in_dealer")) & (units.c.vehicle_id == bindparam("in_vehicle"))

REPLACE_UNIT = (
    update(units)
    .where(_this_unit)
    .values(
        {
            name: bindparam(name)
            for name in ("vin", "stock", "digest", "document_hash", "changed_at", "updated_at", "sold_at")
        }
    )
)

REFRESH_UNIT = update(units).where(_this_unit).values(document_hash=bindparam("document_hash"))

REPLACE_DOCUMENT = (
    update(unit_documents)
    .where(unit_documents.c.dealer_id == bindparam("in_dealer"), unit_documents.c.vehicle_id == bindparam("in_vehicle"))
    .values(unit=bindparam("unit"))
)

_these_units = (units.c.dealer_id == bindparam("in_dealer")) & units.c.vehicle_id.in_(
    bindparam("in_vehicles", expanding=True)
)

CONFIRM_UNITS = update(units).where(_these_units).values(updated_at=bindparam("at"))

SELL_UNITS = update(units).where(_these_units).values(sold_at=bindparam("at"))

FORGET_UNITS = delete(units).where(units.c.dealer_id == bindparam("dealer_id"), units.c.sold_at < bindparam("before"))

NOTE_IMPORT = insert(imports)

LIST_IMPORTS = (
    select(*(imports.c[name] for name in ImportRecord._fields))
    .where(imports.c.dealer_id == bindparam("dealer_id"))
    .order_by(imports.c.revision.desc())
    .limit(bindparam("limit"))
)

READ_LIVE_UNITS = (
    select(unit_documents.c.unit, units.c.vehicle_id, units.c.first_seen, units.c.changed_at, units.c.updated_at)
    .join_from(units, unit_documents)
    .where(units.c.dealer_id == bindparam("dealer_id"), units.c.sold_at.is_(None))
    .order_by(units.c.vehicle_id)
)

READ_STOCK_MARK = (
    select(revisions.c.stock_revision, imports.c.at)
    .join_from(
        revisions,
        imports,
        (imports.c.dealer_id == revisions.c.dealer_id) & (imports.c.revision == revisions.c.stock_revision),
        isouter=True,
    )
    .where(revisions.c.dealer_id == bindparam("dealer_id"))
)

FIND_LIVE_UNIT = (
    select(units.c.vehicle_id)
    .where(units.c.dealer_id == bindparam("dealer_id"), units.c.sold_at.is_(None))
    .limit(1)
    .offset(bindparam("skipped"))
)

READ_GONE_UNITS = (
    select(units.c.vehicle_id, units.c.vin, units.c.stock, units.c.sold_at)
    .where(units.c.dealer_id == bindparam("dealer_id"), units.c.sold_at >= bindparam("since"))
    .order_by(units.c.vehicle_id)
)


def read_revision(connection: Connection, dealer_id: str) -> Revision:
    """The dealer's revisions; zeros before the first import and token."""
    row = connection.execute(READ_REVISION, {"dealer_id": dealer_id}).one_or_none()
    return Revision(0, 0) if row is None else Revision(row[0], row[1])


def apply_import(
    writer: Engine,
    reader: Engine,
    dealer_id: str,
    rows: Sequence[ImportRow],
    *,
    at: datetime,
    source: str,
    layout: str,
    max_shrink: float | None,
    dry_run: bool,
    full: bool,
    remember_days: int | None,
) -> ImportOutcome:
    """See `Store.apply_import`."""
    # Encoded before the transaction begins: SQLite has one writer, and leads wait for it.
    documents = [_to_json.encode(row.unit) for row in rows]
    hashes = [blake2b(document, digest_size=16).digest() for document in documents]
    with (reader if dry_run else writer).begin() as connection:
        revision = None if dry_run else _next_revision(connection, dealer_id)
        known = [KnownUnit(*row) for row in connection.execute(READ_KNOWN_UNITS, {"dealer_id": dealer_id})]
        plan = plan_import(known, rows, hashes, full=full)
        if max_shrink is not None and len(plan.sold) > max_shrink * plan.before:
            raise StockShrinks(before=plan.before, after=plan.after, removed=len(plan.sold))
        if revision is not None:
            _carry_out(connection, plan, _Written(dealer_id, rows, documents, hashes, at))
            # While the clock is implausible, keep everything; a later import deletes it.
            if remember_days is not None and clock_problem(connection, dealer_id, at) is None:
                forgotten = {"dealer_id": dealer_id, "before": at - timedelta(days=remember_days)}
                connection.execute(FORGET_UNITS, forgotten)
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
            connection.execute(NOTE_IMPORT, {"dealer_id": dealer_id} | record._asdict())
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


def read_mark(connection: Connection, dealer_id: str) -> StockMark:
    """Which stock there is."""
    row = connection.execute(READ_STOCK_MARK, {"dealer_id": dealer_id}).one_or_none()
    return StockMark(0, None) if row is None else StockMark(*row)


def has_more_live_units(connection: Connection, dealer_id: str, than: int) -> bool:
    """Whether more units than that are for sale; no more of them are counted."""
    found = connection.execute(FIND_LIVE_UNIT, {"dealer_id": dealer_id, "skipped": than})
    return found.one_or_none() is not None


def read_stock(connection: Connection, dealer_id: str, *, sold_since: datetime) -> Stock:
    """The stock; `connection` must be a reader's, whose transaction sees one moment, and stays open meanwhile."""
    gone = connection.execute(READ_GONE_UNITS, {"dealer_id": dealer_id, "since": sold_since})
    return Stock(
        mark=read_mark(connection, dealer_id),
        gone=[GoneUnit(*row) for row in gone],
        live=_live_units(connection, dealer_id),
    )


def _live_units(connection: Connection, dealer_id: str) -> Iterator[LiveUnit]:
    in_parts = {"yield_per": 5000}
    for row in connection.execute(READ_LIVE_UNITS, {"dealer_id": dealer_id}, execution_options=in_parts):
        yield LiveUnit(_from_json.decode(row[0]), *row[1:])


def list_imports(connection: Connection, dealer_id: str, limit: int) -> list[ImportRecord]:
    """The newest first."""
    found = connection.execute(LIST_IMPORTS, {"dealer_id": dealer_id, "limit": limit})
    return [ImportRecord(*row) for row in found]


@dataclass(frozen=True, slots=True)
class _Written:
    """The rows of a file as they are written."""

    dealer_id: str
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
        return {"dealer_id": self.dealer_id, "vehicle_id": placed.vehicle_id}

    def _known(self, placed: Placed) -> dict[str, Any]:
        return {"in_dealer": self.dealer_id, "in_vehicle": placed.vehicle_id}


def _carry_out(connection: Connection, plan: Plan, written: _Written) -> None:
    replaced = plan.changed + plan.back
    each: tuple[tuple[Executable, list[Placed], Callable[[Placed], dict[str, Any]]], ...] = (
        (REPLACE_UNIT, replaced, written.replaced_unit),
        (REPLACE_DOCUMENT, replaced, written.replaced_document),
        (ADD_UNIT, plan.added, written.new_unit),
        (ADD_DOCUMENT, plan.added, written.new_document),
        (REFRESH_UNIT, plan.refreshed, written.refreshed_unit),
        (REPLACE_DOCUMENT, plan.refreshed, written.replaced_document),
    )
    for statement, placed_units, values in each:
        for part in _chunks(placed_units):
            connection.execute(statement, [values(placed) for placed in part])
    for statement, vehicle_ids in ((CONFIRM_UNITS, plan.unchanged), (SELL_UNITS, plan.sold)):
        for ids in _chunks(vehicle_ids):
            connection.execute(statement, {"in_dealer": written.dealer_id, "in_vehicles": ids, "at": written.at})


def _next_revision(connection: Connection, dealer_id: str) -> int:
    revision: int = connection.execute(NEXT_STOCK_REVISION, {"dealer_id": dealer_id}).scalar_one()
    return revision


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
