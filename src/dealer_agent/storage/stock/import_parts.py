"""Writes the changes of an import to the stock in short transactions, which are its parts."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, insert, select

from dealer_agent.storage.leads.prepared_statements import Prepared
from dealer_agent.storage.schema import unit_changes, unit_documents, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.stock.reading import read_revision
from dealer_agent.storage.stock.recorded_units import record_replaced
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

_Item = TypeVar("_Item")

_PART_SECONDS = {"sqlite": 0.02, "postgresql": 0.2}
"""How long the statements of a part may take. In SQLite, a lead waits for one part at most; in PostgreSQL for none."""

_LEAST_ROWS = 50
_MOST_ROWS = 2_000
_MOST_LISTED = 20_000

ADD_CHANGE = Prepared(insert(unit_changes))

_above = (of_dealer(unit_changes), unit_changes.c.revision > bindparam("above"))
_id = unit_changes.c.vehicle_id
LIST_CHANGES = (
    select(_id, unit_changes.c.action)
    .where(*_above, _id > bindparam("after_vehicle"))
    .order_by(_id)
    .limit(_MOST_LISTED)
)
# A range, not a list of ids: SQLAlchemy would write a parameter for each of them into every statement.
_some_changes = (*_above, _id.between(bindparam("first_vehicle"), bindparam("last_vehicle")))

_unit_columns = [column.name for column in units.c]
_set_units = ", ".join(f"{column.name} = excluded.{column.name}" for column in units.c if not column.primary_key)
MOVE_UNITS = upsert(units, f"UPDATE SET {_set_units}").from_select(
    _unit_columns, select(*(unit_changes.c[name] for name in _unit_columns)).where(*_some_changes)
)

MOVE_DOCUMENTS = upsert(unit_documents, "UPDATE SET unit = excluded.unit, before = unit_documents.unit").from_select(
    ["dealer_id", "vehicle_id", "unit"],
    select(unit_changes.c.dealer_id, unit_changes.c.vehicle_id, unit_changes.c.unit).where(
        *_some_changes, unit_changes.c.unit.is_not(None)
    ),
)

DELETE_CHANGES = delete(unit_changes).where(*_some_changes)


class Parts:
    """Writes in short transactions. The size of a part follows the time that the last one took.

    `at` is the time of the change, and `begun` that time on the monotonic clock.
    """

    def __init__(self, store: Store, dealer_id: str, at: datetime, begun: float | None = None) -> None:
        self.store = store
        self.dealer_id = dealer_id
        self.at = at
        self._begun = time.monotonic() if begun is None else begun
        self._rows = _LEAST_ROWS

    @property
    def now(self) -> datetime:
        """The current time: a large import takes minutes."""
        return self.at + timedelta(seconds=time.monotonic() - self._begun)

    def run(
        self,
        items: Sequence[_Item],
        write: Callable[[Transaction, list[Any]], object],
        row_of: Callable[[_Item], Any] = lambda item: item,
    ) -> None:
        """Calls `write` with the rows of some items in each transaction."""
        done = 0
        while done < len(items):
            # Made before the transaction begins: SQLite has one writer, and leads wait for it.
            part = [row_of(item) for item in items[done : done + self._rows]]
            with self.store.write(self.dealer_id, self.at) as tx:
                begun = time.monotonic()
                write(tx, part)
                taken = time.monotonic() - begun
                longest = _PART_SECONDS[tx.connection.dialect.name]
            done += len(part)
            if taken > longest:
                self._rows = max(_LEAST_ROWS, self._rows // 2)
            elif taken < longest / 2:
                self._rows = min(_MOST_ROWS, self._rows * 2)


def add_changes(tx: Transaction, rows: list[dict[str, Any]]) -> None:
    """Writes rows of `unit_changes`."""
    ADD_CHANGE.write_each(tx, rows)


def clean_up(parts: Parts) -> int:
    """Finishes or undoes the work of an import that was killed. Returns the revision of the stock."""
    with parts.store.read(parts.dealer_id) as tx:
        revision = read_revision(tx).stock
    _run_through(parts, revision, lambda tx, _, some: tx.execute(DELETE_CHANGES, some))
    move_changes(parts)
    return revision


def move_changes(parts: Parts) -> None:
    """Moves the changes of the current revision into the tables of units, and the replaced rows into the record."""

    def move(tx: Transaction, part: list[Any], some: Mapping[str, Any]) -> None:
        # A new unit replaces no row.
        if replacing := [change.vehicle_id for change in part if change.action != "added"]:
            record_replaced(tx, replacing)
        for statement in (MOVE_UNITS, MOVE_DOCUMENTS, DELETE_CHANGES):
            tx.execute(statement, some)

    _run_through(parts, 0, move)


def _run_through(
    parts: Parts, above: int, write: Callable[[Transaction, list[Any], Mapping[str, Any]], object]
) -> None:
    """Calls `write` with the changes above a revision, and the parameters of `_some_changes`."""

    def write_part(tx: Transaction, part: list[Any]) -> None:
        write(tx, part, {"above": above, "first_vehicle": part[0].vehicle_id, "last_vehicle": part[-1].vehicle_id})

    after = ""
    while True:
        with parts.store.read(parts.dealer_id) as tx:
            changes = tx.execute(LIST_CHANGES, {"above": above, "after_vehicle": after}).all()
        if not changes:
            return
        parts.run(changes, write_part)
        after = changes[-1].vehicle_id
