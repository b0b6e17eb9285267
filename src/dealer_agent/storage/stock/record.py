"""Reads the record of the stock: the units as they were at a revision, or at a time (docs/how-to/record.md).

A unit has one row at each revision: in `recorded_units` if it was replaced since, else in `units`, else in
`unit_changes`. What else a listing needs, the times of confirmations, is in `imports`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    String,
    Table,
    bindparam,
    case,
    func,
    or_,
    select,
    union,
    union_all,
)

from dealer_agent.inventory.listing import Unit
from dealer_agent.storage.columns import time_of
from dealer_agent.storage.schema import imports, revisions, unit_changes, unit_documents
from dealer_agent.storage.schema import units as current
from dealer_agent.storage.statements import of_dealer
from dealer_agent.storage.stock.packing import unpack
from dealer_agent.storage.stock.reading import (
    ChangeKind,
    Confirmation,
    GoneUnit,
    LiveUnit,
    Stock,
    StockMark,
    read_confirmations,
)
from dealer_agent.storage.stock.record_tables import record_starts, recorded_units
from dealer_agent.storage.stock.recorded_units import COPIED, FIND_REVISION, became_current
from dealer_agent.storage.transaction import Transaction

_unit = msgspec.json.Decoder(Unit)
_good_since = msgspec.json.Decoder(dict[str, int])


class Version(NamedTuple):
    """The row of a unit from `revision` until the next one. `document` is None for a sold unit, else maybe packed.

    `updated_at` is the time of the import that made it, and `changed_at` that of the last change that buyers see.
    """

    vehicle_id: str
    vin: str | None
    stock: str | None
    revision: int
    action: str
    first_seen: datetime
    changed_at: datetime
    updated_at: datetime
    document: bytes | None

    @property
    def live(self) -> LiveUnit | None:
        """The unit while it was for sale."""
        if self.document is None:
            return None
        unit = _unit.decode(unpack(self.document))
        return LiveUnit(unit, self.vehicle_id, self.first_seen, self.changed_at, self.updated_at)


@dataclass(frozen=True, slots=True)
class StockTimes:
    """The times of a stock that are not those of its units: a snapshot depends on them too.

    `good_since` has the last confirmation of each unit for sale whose new facts are held back, by vehicle id.
    """

    mark: StockMark
    confirmations: Sequence[Confirmation]
    good_since: Mapping[str, datetime]


class MadeBy(NamedTuple):
    """The import, or another change of the stock, that made a version. `at` is when it became the current stock."""

    revision: int
    at: datetime
    source: str
    feed: str | None
    kind: ChangeKind


_revision = bindparam("at_revision", type_=BigInteger)
_after = bindparam("after", type_=String)
_since = bindparam("since_revision", type_=BigInteger)
_in_vehicles: Any = bindparam("in_vehicles", expanding=True)


def _versions(at_revision: bool, only: Any = lambda _: ()) -> CompoundSelect[*tuple[Any, ...]]:
    """A SELECT of versions: of those at a revision, or of all. `only` has conditions about a table."""

    def begun(table: Table) -> tuple[ColumnElement[bool], ...]:
        newest = select(revisions.c.stock_counter).where(of_dealer(revisions)).scalar_subquery()
        return of_dealer(table), table.c.revision <= (_revision if at_revision else newest), *only(table)

    replacing = select(unit_changes.c.revision).where(
        of_dealer(unit_changes), unit_changes.c.vehicle_id == current.c.vehicle_id, unit_changes.c.revision <= _revision
    )
    document = case((current.c.sold_at.is_(None), unit_documents.c.unit)).label("document")
    return union_all(
        select(*(recorded_units.c[name] for name in COPIED), recorded_units.c.document).where(
            *begun(recorded_units), *([recorded_units.c.until > _revision] if at_revision else [])
        ),
        select(*(current.c[name] for name in COPIED), document)
        .join_from(current, unit_documents, isouter=True)
        .where(*begun(current), *([~replacing.exists()] if at_revision else [])),
        select(*(unit_changes.c[name] for name in COPIED), unit_changes.c.unit).where(*begun(unit_changes)),
    )


READ_VERSIONS_LIVE = _versions(True, lambda table: [table.c.action != "sold"]).execution_options(yield_per=1000)

READ_VERSIONS_SOLD = _versions(
    True, lambda table: [table.c.action == "sold", table.c.updated_at >= bindparam("sold_since")]
).order_by("vehicle_id")

READ_SOME_VERSIONS = _versions(True, lambda table: [table.c.vehicle_id.in_(_in_vehicles)])

READ_HISTORY = _versions(False, lambda table: [table.c.vehicle_id == bindparam("of_vehicle")]).order_by("revision")

READ_START = select(record_starts.c.revision).where(of_dealer(record_starts))

READ_IMPORT_TIMES = select(imports.c.at, imports.c.good_since).where(
    of_dealer(imports), imports.c.revision == bindparam("of_revision")
)

READ_MADE_BY = select(
    imports.c.revision, became_current.label("at"), imports.c.source, imports.c.feed, imports.c.kind
).where(of_dealer(imports), imports.c.revision.in_(bindparam("of_revisions", expanding=True)))

READ_FIRST_TIME = select(func.min(became_current)).where(
    of_dealer(imports), imports.c.revision >= bindparam("first_revision")
)

_page = bindparam("page", type_=BigInteger)

# The databases may order ids differently. So each part and the union are sorted by the same database, never by Python.
_new = [
    select(table.c.vehicle_id).where(of_dealer(table), table.c.vehicle_id > _after, table.c.revision > _since)
    for table in (current, unit_changes)
]
_replaced = (
    select(recorded_units.c.vehicle_id)
    .where(
        of_dealer(recorded_units),
        recorded_units.c.until > bindparam("replaced_since"),
        recorded_units.c.vehicle_id > _after,
    )
    .distinct()
)
_also = select(current.c.vehicle_id).where(
    of_dealer(current), current.c.vehicle_id.in_(bindparam("also", expanding=True)), current.c.vehicle_id > _after
)
LIST_IDS = (
    union(
        *(
            select(part.order_by("vehicle_id").limit(_page).subquery().c.vehicle_id)
            for part in (*_new, _replaced, _also)
        )
    )
    .order_by("vehicle_id")
    .limit(_page)
)


def _is_named(table: Table) -> ColumnElement[bool]:
    return or_(
        table.c.vehicle_id == bindparam("name"),
        table.c.vin == bindparam("upper"),
        func.lower(table.c.stock) == bindparam("folded", type_=String),
    )


FIND_RECORDED = union(
    *(
        select(table.c.vehicle_id).where(of_dealer(table), _is_named(table))
        for table in (current, unit_changes, recorded_units)
    )
)


def record_start(tx: Transaction) -> int:
    """The first revision that the record has in full: 0 for the whole history."""
    return int(tx.execute(READ_START).scalar() or 0)


def record_begins(tx: Transaction) -> datetime | None:
    """The time at which the record begins; None without any import."""
    at: datetime | None = tx.execute(READ_FIRST_TIME, {"first_revision": record_start(tx)}).scalar()
    return at


def revision_at(tx: Transaction, at: datetime) -> int:
    """The revision that was the current one at a time: 0 before the first import."""
    return int(tx.execute(FIND_REVISION, {"moment": at}).scalar() or 0)


def stock_times(tx: Transaction, revision: int) -> StockTimes | None:
    """The times of the stock at a revision; None if the stock never had this revision."""
    if revision == 0:
        return StockTimes(StockMark(0, None), (), {})
    row = tx.execute(READ_IMPORT_TIMES, {"of_revision": revision}).one_or_none()
    if row is None:
        return None
    good = {} if row.good_since is None else _good_since.decode(row.good_since)
    good_since = {vehicle_id: at for vehicle_id, stored in good.items() if (at := time_of(stored)) is not None}
    return StockTimes(StockMark(revision, row.at), read_confirmations(tx, revision), good_since)


def recorded_stock(tx: Transaction, revision: int, remember_days: int, at: datetime) -> Stock:
    """The stock at a revision of the record: what `read_stock` returned at the time `at`, when it was the current one.

    The units that were sold earlier than `remember_days` before `at` are left out.
    """
    times = stock_times(tx, revision)
    assert times is not None, "the record has the revision"
    sold_since = at - timedelta(days=remember_days)
    sold = tx.execute(READ_VERSIONS_SOLD, {"at_revision": revision, "sold_since": sold_since})
    return Stock(
        mark=times.mark,
        gone=[GoneUnit(row.vehicle_id, row.vin, row.stock, row.updated_at) for row in sold],
        live=_live_units(tx, revision),
        confirmations=list(times.confirmations),
        good_since=times.good_since,
    )


def _live_units(tx: Transaction, revision: int) -> Iterator[LiveUnit]:
    for row in tx.execute(READ_VERSIONS_LIVE, {"at_revision": revision}):
        if (live := Version(*row).live) is not None:
            yield live


def versions_at(tx: Transaction, revision: int, vehicle_ids: Collection[str]) -> dict[str, Version]:
    """The versions of some units at a revision, by vehicle id."""
    values = {"at_revision": revision, "in_vehicles": list(vehicle_ids)}
    return {row.vehicle_id: Version(*row) for row in tx.execute(READ_SOME_VERSIONS, values)}


def history_of(tx: Transaction, vehicle_id: str) -> list[Version]:
    """All versions of a unit that the record has, the oldest first."""
    return [Version(*row) for row in tx.execute(READ_HISTORY, {"of_vehicle": vehicle_id})]


def made_by(tx: Transaction, revisions: Collection[int]) -> dict[int, MadeBy]:
    """What made each of these revisions."""
    rows = tx.execute(READ_MADE_BY, {"of_revisions": list(revisions)})
    return {row.revision: MadeBy(*row) for row in rows}


def find_recorded(tx: Transaction, name: str) -> list[str]:
    """The vehicle ids of the units that have, or had, this id, VIN or stock number."""
    values = {"name": name, "upper": name.upper(), "folded": name.casefold()}
    return sorted(tx.execute(FIND_RECORDED, values).scalars())


def next_changed_ids(
    tx: Transaction, after: str, page: int, *, since: int, replaced_since: int, also: Collection[str] = ()
) -> list[str]:
    """The next `page` vehicle ids after `after` that may have changed, in the order of the database: for change pages.

    They are those whose row is newer than the revision `since`, those that were replaced after `replaced_since`, and
    those of `also`.
    """
    values = {"after": after, "page": page, "since_revision": since, "replaced_since": replaced_since}
    return list(tx.execute(LIST_IDS, {**values, "also": list(also)}).scalars())
