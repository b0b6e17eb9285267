"""Reads the stock: units for sale, sold units, and the history of imports (docs/protocol.md#listings).

`storage.stock.stock_import` writes it. Imports that were refused are written here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    union_all,
)

from dealer_agent.feeds.files.checks import FeedFinding
from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.privacy.keys import check_owner
from dealer_agent.storage.schema import imports, refused_imports, revisions, unit_changes, unit_documents, units
from dealer_agent.storage.statements import of_dealer, rows_of
from dealer_agent.storage.stock.held_units import good_since
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

_from_json = msgspec.json.Decoder(Unit)


class ChangeCounters(NamedTuple):
    """Counters that grow with every import, every token that is created or revoked, and every change of settings."""

    stock: int = 0
    tokens: int = 0
    settings: int = 0


class LiveUnit(NamedTuple):
    """A unit for sale. `changed_at`: last added, changed or returned to sale. `updated_at`: last written.

    `Stock.confirmed_at` has the time of the last import with the unit.
    """

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
    """Identifies a stock: the revision and the time of the import that made it. The time
    tells two databases with the same revision apart.
    """

    revision: int
    imported_at: datetime | None


class Confirmation(NamedTuple):
    """The newest import with this scope. `rooftops` is None for all rooftops."""

    rooftops: tuple[str, ...] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Stock:
    """A dealer's stock as of one moment. `live` may be large: iterate it once, in the transaction.

    `good_since` has the last confirmation of each unit for sale whose new facts are held back, by vehicle id.
    """

    mark: StockMark
    live: Iterator[LiveUnit]
    gone: list[GoneUnit]
    confirmations: list[Confirmation]
    good_since: Mapping[str, datetime]

    def confirmed_at(self, rooftop: str | None = None) -> datetime | None:
        """The time of the newest import of a rooftop's whole stock, by default of the newest of all."""
        return confirmed_at(self.confirmations, rooftop)


NEWEST = 2**63 - 1
"""Instead of a revision: the newest one."""

ChangeKind = Literal["import", "undo", "held"]
"""What changed the stock: a file, `inventory undo`, or a decision about a held unit and the end of its day."""


class ImportRecord(NamedTuple):
    """An import in the history, or another change of the stock.

    `source` is the file's name. `rooftops` are its scope: None for all rooftops.
    `findings` are those of the checks of the feed. `feed` is the name of the feed that the file was part of, if any.
    """

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
    rooftops: tuple[str, ...] | None = None
    findings: tuple[FeedFinding, ...] = ()
    feed: str | None = None
    kind: ChangeKind = "import"


READ_REVISION = select(revisions.c.stock_counter, revisions.c.token_counter, revisions.c.settings_counter).where(
    of_dealer(revisions)
)

applied_changes = (
    of_dealer(unit_changes),
    unit_changes.c.revision <= select(revisions.c.stock_counter).where(of_dealer(revisions)).scalar_subquery(),
)
"""Changes that readers see, although they are not in `units` yet."""

_unchanged = (
    of_dealer(units),
    ~select(unit_changes.c.revision).where(*applied_changes, unit_changes.c.vehicle_id == units.c.vehicle_id).exists(),
)


def current_units(
    *columns: str, only: Callable[[Table], ColumnElement[bool]] | None = None
) -> CompoundSelect[*tuple[Any, ...]]:
    """A SELECT of the current units: the rows of `units` without a newer change, and the applied changes.

    An applied change is not merged into `units` yet. `only` is a condition about the columns of `units`.
    """
    return union_all(
        *(
            select(*(table.c[name] for name in columns)).where(*visible, *([only(table)] if only else []))
            for table, visible in ((units, _unchanged), (unit_changes, applied_changes))
        )
    )


LIST_IMPORTS = rows_of(imports, ImportRecord).order_by(imports.c.revision.desc()).limit(bindparam("limit"))

_before = bindparam("before", type_=UtcTime)

LIST_OLDER_IMPORTS = LIST_IMPORTS.where(imports.c.at < _before)

FIND_IMPORT = rows_of(imports, ImportRecord).where(imports.c.revision == bindparam("of_revision"))

READ_LIVE_UNITS = (
    select(unit_documents.c.unit, units.c.vehicle_id, units.c.first_seen, units.c.changed_at, units.c.updated_at)
    .join_from(units, unit_documents)
    .where(*_unchanged, units.c.sold_at.is_(None))
    .execution_options(yield_per=1000)
)

READ_LIVE_CHANGES = (
    select(*(unit_changes.c[name] for name in LiveUnit._fields))
    .where(*applied_changes, unit_changes.c.sold_at.is_(None))
    .execution_options(yield_per=1000)
)

_until_then = imports.c.revision <= bindparam("at_revision")
_undone = select(imports.c.undoes).where(of_dealer(imports), imports.c.undoes.is_not(None), _until_then)
_confirming = (of_dealer(imports), imports.c.kind == "import", _until_then, imports.c.revision.not_in(_undone))

# The newest import of each scope until a revision, newest first.
READ_CONFIRMATIONS = (
    select(imports.c.rooftops, imports.c.at)
    .where(
        of_dealer(imports),
        imports.c.revision.in_(select(func.max(imports.c.revision)).where(*_confirming).group_by(imports.c.rooftops)),
    )
    .order_by(imports.c.revision.desc())
)

READ_STOCK_MARK = (
    select(revisions.c.stock_counter, imports.c.at)
    .join_from(
        revisions,
        imports,
        (imports.c.dealer_id == revisions.c.dealer_id) & (imports.c.revision == revisions.c.stock_counter),
        isouter=True,
    )
    .where(of_dealer(revisions))
)

_old_units = current_units(
    "vehicle_id",
    "first_seen",
    only=lambda table: and_(table.c.sold_at.is_(None), table.c.first_seen <= bindparam("until", type_=UtcTime)),
)

LIST_OLD_UNITS = _old_units.order_by("first_seen", "vehicle_id").limit(bindparam("limit"))

FIND_LIVE_UNIT = (
    current_units("vehicle_id", only=lambda table: table.c.sold_at.is_(None)).limit(1).offset(bindparam("skipped"))
)

READ_GONE_UNITS = current_units(*GoneUnit._fields, only=lambda table: table.c.sold_at >= bindparam("since")).order_by(
    "vehicle_id"
)

_wanted: BindParameter[Any] = bindparam("vehicle_ids", expanding=True)

# A sold unit has no document.
FIND_UNITS = union_all(
    select(units.c.vehicle_id, units.c.stock, unit_documents.c.unit)
    .join_from(units, unit_documents, isouter=True)
    .where(*_unchanged, units.c.vehicle_id.in_(_wanted)),
    select(unit_changes.c.vehicle_id, unit_changes.c.stock, unit_changes.c.unit).where(
        *applied_changes, unit_changes.c.vehicle_id.in_(_wanted)
    ),
)

COUNT_FOR_SALE = select(func.count()).select_from(
    current_units("vehicle_id", only=lambda table: table.c.sold_at.is_(None)).subquery()
)


def read_revision(tx: Transaction) -> ChangeCounters:
    """The dealer's revisions; zeros before the first import and token. One row, read by its key."""
    row = tx.execute(READ_REVISION).one_or_none()
    return ChangeCounters() if row is None else ChangeCounters(*row)


def read_mark(tx: Transaction) -> StockMark:
    """The mark of the current stock."""
    row = tx.execute(READ_STOCK_MARK).one_or_none()
    return StockMark(0, None) if row is None else StockMark(*row)


def count_for_sale(tx: Transaction) -> int:
    """How many units are for sale."""
    return int(tx.execute(COUNT_FOR_SALE).scalar_one())


def list_old_units(tx: Transaction, until: datetime, limit: int) -> dict[str, datetime]:
    """The units for sale that were in the stock at a time, the oldest first: since when, by vehicle id."""
    rows = tx.execute(LIST_OLD_UNITS, {"until": until, "limit": limit})
    return {row.vehicle_id: row.first_seen for row in rows}


def has_more_live_units(tx: Transaction, than: int) -> bool:
    """Whether more than `than` units are for sale. Does not count all of them."""
    return tx.execute(FIND_LIVE_UNIT, {"skipped": than}).one_or_none() is not None


def read_stock(tx: Transaction, remember_days: int) -> Stock:
    """All units for sale, and those sold in the last `remember_days`. The transaction must be one of `Store.read`."""
    gone = tx.execute(READ_GONE_UNITS, {"since": tx.now - timedelta(days=remember_days)})
    return Stock(
        mark=read_mark(tx),
        gone=[GoneUnit(*row) for row in gone],
        live=_live_units(tx),
        confirmations=read_confirmations(tx),
        good_since=good_since(tx),
    )


def read_confirmations(tx: Transaction, revision: int = NEWEST) -> list[Confirmation]:
    """The newest import of each scope, the newest first, as they were at a revision."""
    rows = tx.execute(READ_CONFIRMATIONS, {"at_revision": revision})
    return [Confirmation(rooftops_of(row[0]), row[1]) for row in rows]


def confirmed_at(confirmations: Iterable[Confirmation], rooftop: str | None) -> datetime | None:
    """The time of the newest import of a rooftop's whole stock, for None of the newest of all."""
    return next((at for rooftops, at in confirmations if rooftops is None or rooftop in rooftops), None)


def find_units(tx: Transaction, vehicle_ids: Collection[str]) -> dict[str, tuple[str | None, Unit | None]]:
    """The stock number of each known unit, and the unit itself while it is for sale, by vehicle id."""
    rows = tx.execute(FIND_UNITS, {"vehicle_ids": list(vehicle_ids)})
    return {row[0]: (row[1], None if row[2] is None else _from_json.decode(row[2])) for row in rows}


def _live_units(tx: Transaction) -> Iterator[LiveUnit]:
    for statement in (READ_LIVE_UNITS, READ_LIVE_CHANGES):
        for row in tx.execute(statement):
            yield LiveUnit(_from_json.decode(row[0]), *row[1:])


def rooftops_of(stored: bytes | None) -> tuple[str, ...] | None:
    """The scope of an import: None for all rooftops."""
    return None if stored is None else msgspec.json.decode(stored, type=tuple[str, ...])


def findings_of(stored: bytes | None) -> tuple[FeedFinding, ...]:
    """The findings of an import; none without checks."""
    return () if stored is None else msgspec.json.decode(stored, type=tuple[FeedFinding, ...])


def list_imports(tx: Transaction, limit: int, before: datetime | None = None) -> list[ImportRecord]:
    """The newest imports first, by default of all times."""
    statement = LIST_IMPORTS if before is None else LIST_OLDER_IMPORTS
    return [_import_record(row) for row in tx.execute(statement, {"limit": limit, **_until(before)})]


def find_import(tx: Transaction, revision: int) -> ImportRecord | None:
    """The import, or the other change of the stock, with this revision."""
    row = tx.execute(FIND_IMPORT, {"of_revision": revision}).one_or_none()
    return None if row is None else _import_record(row)


def _import_record(row: Any) -> ImportRecord:
    return ImportRecord(*row)._replace(rooftops=rooftops_of(row.rooftops), findings=findings_of(row.findings))


def _until(before: datetime | None) -> dict[str, datetime]:
    return {} if before is None else {"before": before}


LAST_IMPORT = (
    select(imports.c.revision, imports.c.at, imports.c.source, imports.c.rooftops, imports.c.kind)
    .where(of_dealer(imports), imports.c.kind != "held")
    .order_by(imports.c.revision.desc())
    .limit(1)
)


class LastImport(NamedTuple):
    """The import that an undo takes back. `rooftops` are its scope."""

    revision: int
    at: datetime
    source: str
    rooftops: tuple[str, ...] | None


def last_import(tx: Transaction) -> LastImport | None:
    """The newest import; None if there is none, or if it was undone: an undo goes one step back."""
    row = tx.execute(LAST_IMPORT).one_or_none()
    if row is None or row.kind != "import":
        return None
    return LastImport(row.revision, row.at, row.source, rooftops_of(row.rooftops))


MOST_REFUSED_IMPORTS = 500
"""The most refused imports of a dealer that are kept: a feed may be refused every few minutes."""

MOST_FINDINGS = 100

_MOST_DELETED = 100


class RefusedImport(NamedTuple):
    """A refused import in the history. `layout` is None for a file that could not be read.

    `source` is the file's name. `rooftops` are its scope: None for all rooftops. `feed` is the feed's name, if any.
    """

    at: datetime
    source: str
    layout: str | None
    findings: tuple[FeedFinding, ...]
    rooftops: tuple[str, ...] | None = None
    feed: str | None = None
    refusal_id: str = ""


ADD_REFUSED_IMPORT = insert(refused_imports)

_newest_first = refused_imports.c.at.desc(), refused_imports.c.refusal_id

LIST_REFUSED_IMPORTS = rows_of(refused_imports, RefusedImport).order_by(*_newest_first).limit(bindparam("limit"))

LIST_OLDER_REFUSED_IMPORTS = LIST_REFUSED_IMPORTS.where(refused_imports.c.at < _before)

FIND_REFUSED_IMPORT = rows_of(refused_imports, RefusedImport).where(
    refused_imports.c.refusal_id == bindparam("of_refusal")
)

DELETE_OLD_REFUSED_IMPORTS = delete(refused_imports).where(
    of_dealer(refused_imports),
    refused_imports.c.refusal_id.in_(
        select(refused_imports.c.refusal_id)
        .where(of_dealer(refused_imports))
        .order_by(*_newest_first)
        .limit(_MOST_DELETED)
        .offset(MOST_REFUSED_IMPORTS)
    ),
)


def record_refused_import(
    store: Store,
    dealer_id: str,
    findings: Sequence[FeedFinding],
    *,
    at: datetime,
    source: str,
    layout: str | None,
    rooftops: Sequence[str],
    feed: str | None = None,
) -> None:
    """Adds a refused import to the history, which keeps the newest MOST_REFUSED_IMPORTS. Raises StorageError."""
    row = {
        "refusal_id": uuid4().hex,
        "at": at,
        "source": PurePath(source).name,
        "layout": layout,
        "findings": msgspec.json.encode(findings[:MOST_FINDINGS]),
        "rooftops": msgspec.json.encode(rooftops) if rooftops else None,
        "feed": feed,
    }
    with store.write(dealer_id, at) as tx:
        check_owner(tx)
        tx.execute(ADD_REFUSED_IMPORT, row)
        tx.execute(DELETE_OLD_REFUSED_IMPORTS)


def list_refused_imports(tx: Transaction, limit: int, before: datetime | None = None) -> list[RefusedImport]:
    """The newest refused imports first, by default of all times."""
    statement = LIST_REFUSED_IMPORTS if before is None else LIST_OLDER_REFUSED_IMPORTS
    return [_refused_import(row) for row in tx.execute(statement, {"limit": limit, **_until(before)})]


def find_refused_import(tx: Transaction, refusal_id: str) -> RefusedImport | None:
    """The refused import with this id."""
    row = tx.execute(FIND_REFUSED_IMPORT, {"of_refusal": refusal_id}).one_or_none()
    return None if row is None else _refused_import(row)


def _refused_import(row: Any) -> RefusedImport:
    return RefusedImport(*row)._replace(findings=findings_of(row.findings), rooftops=rooftops_of(row.rooftops))


_OUTCOMES: dict[ChangeKind, str] = {"import": "imported", "undo": "undone", "held": "decided"}
REFUSED = "refused"


def outcome_of(record: ImportRecord | RefusedImport) -> str:
    """The outcome of an entry of the history in one word."""
    return _OUTCOMES[record.kind] if isinstance(record, ImportRecord) else REFUSED


def import_history(tx: Transaction, limit: int, before: datetime | None = None) -> list[ImportRecord | RefusedImport]:
    """Imports, refused imports and other changes of the stock, the newest first."""
    both: list[ImportRecord | RefusedImport] = [
        *list_imports(tx, limit, before),
        *list_refused_imports(tx, limit, before),
    ]
    return sorted(both, key=lambda each: each.at, reverse=True)[:limit]
