"""Writes the record of the stock: the rows of units that a change replaces, and their end by age.

`units` has the current row of a unit, and `recorded_units` its earlier ones, each from its revision until the one that
replaced it. So a first import and an unchanged one add nothing to the record.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, bindparam, delete, func, insert, literal_column, or_, select

from dealer_agent.storage.clock import clock_problem
from dealer_agent.storage.columns import UtcTime
from dealer_agent.storage.schema import imports, unit_changes, unit_documents, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.stock.packing import pack
from dealer_agent.storage.stock.record_tables import record_starts, recorded_units
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

COPIED = ("vehicle_id", "vin", "stock", "revision", "action", "first_seen", "changed_at", "updated_at")
"""The columns of `units` that the record has too."""

MOST_DELETED = 500
"""The most rows that one transaction deletes: in SQLite, leads wait for it."""

_in_vehicles: Any = bindparam("in_vehicles", expanding=True)

# Three statements, not a join: with old statistics, PostgreSQL would compare every unit of the dealer with the list.
READ_ROWS = select(*(units.c[name] for name in COPIED), units.c.sold_at).where(
    of_dealer(units), units.c.vehicle_id.in_(_in_vehicles)
)

READ_UNTIL = select(unit_changes.c.vehicle_id, unit_changes.c.revision).where(
    of_dealer(unit_changes), unit_changes.c.vehicle_id.in_(_in_vehicles)
)

READ_DOCUMENTS = select(unit_documents.c.vehicle_id, unit_documents.c.unit).where(
    of_dealer(unit_documents), unit_documents.c.vehicle_id.in_(_in_vehicles)
)

ADD_RECORDED = insert(recorded_units)

RECORD_FORGOTTEN = upsert(recorded_units, "NOTHING").from_select(
    ["dealer_id", *COPIED, "until"],
    select(units.c.dealer_id, *(units.c[name] for name in COPIED), bindparam("until_revision", type_=BigInteger)).where(
        of_dealer(units), units.c.vehicle_id.in_(_in_vehicles)
    ),
)


def record_replaced(tx: Transaction, vehicle_ids: Sequence[str]) -> None:
    """Adds the rows that the changes of these units replace. The caller replaces them in the same transaction."""
    replaced = {"in_vehicles": vehicle_ids}
    rows = tx.execute(READ_ROWS, replaced).all()
    until = dict(map(tuple, tx.execute(READ_UNTIL, replaced)))
    # A sold unit has a document too, which nobody sees.
    for_sale = {"in_vehicles": [row.vehicle_id for row in rows if row.sold_at is None]}
    documents = dict(map(tuple, tx.execute(READ_DOCUMENTS, for_sale)))
    added = []
    for row in rows:
        document = documents.get(row.vehicle_id)
        own = {"until": until[row.vehicle_id], "document": None if document is None else pack(document)}
        added.append({name: getattr(row, name) for name in COPIED} | own)
    if added:
        tx.execute_each(ADD_RECORDED, added)


def record_forgotten(tx: Transaction, vehicle_ids: Sequence[str], until: int) -> None:
    """Adds the rows of sold units that the caller deletes in the same transaction. They end before `until`."""
    tx.execute(RECORD_FORGOTTEN, {"in_vehicles": vehicle_ids, "until_revision": until})


became_current = func.coalesce(imports.c.current_at, imports.c.at)
"""When a revision became the current one."""

FIND_REVISION = select(func.max(imports.c.revision)).where(
    of_dealer(imports), became_current <= bindparam("moment", type_=UtcTime)
)

BEGIN_RECORD = upsert(
    record_starts, "UPDATE SET revision = excluded.revision WHERE record_starts.revision < excluded.revision"
)

# A row is deleted when the first revision of the record does not need it, nor a later one. A sold unit is remembered.
LIST_EXPIRED = (
    select(recorded_units.c.vehicle_id, recorded_units.c.revision)
    .where(
        of_dealer(recorded_units),
        recorded_units.c.until <= bindparam("first_revision"),
        or_(
            recorded_units.c.action != literal_column("'sold'"),
            recorded_units.c.updated_at < bindparam("sold_before", type_=UtcTime),
        ),
    )
    .limit(MOST_DELETED)
)

DELETE_RECORDED = delete(recorded_units).where(
    of_dealer(recorded_units),
    recorded_units.c.vehicle_id == bindparam("of_vehicle"),
    recorded_units.c.revision == bindparam("of_revision"),
)


def prune_record(store: Store, dealer_id: str, *, now: datetime, keep_days: int, remember_days: int) -> int:
    """Deletes what the snapshots of the last `keep_days` do not need, in short transactions. Returns how many rows.

    Does nothing while the clock is implausible. Raises StorageError.
    """
    before = now - timedelta(days=keep_days)
    values: dict[str, Any] = {"sold_before": before - timedelta(days=remember_days)}
    with store.write(dealer_id, now) as tx:
        first: int | None = tx.execute(FIND_REVISION, {"moment": before}).scalar()
        if first is None or clock_problem(tx) is not None:
            return 0
        # The start moves first: no reader relies on rows that are about to be deleted.
        tx.execute(BEGIN_RECORD, {"revision": first})
    total = 0
    while True:
        with store.write(dealer_id, now) as tx:
            rows = tx.execute(LIST_EXPIRED, {**values, "first_revision": first}).all()
            if rows:
                keys = [{"of_vehicle": row.vehicle_id, "of_revision": row.revision} for row in rows]
                tx.execute_each(DELETE_RECORDED, keys)
        total += len(rows)
        if len(rows) < MOST_DELETED:
            return total
