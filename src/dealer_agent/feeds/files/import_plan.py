"""Matches the units of a file with the units of the stock, and plans the import. Pure.

A unit is known by its VIN, else by its stock number (docs/protocol.md#listings). A `vehicle_id` is made when a unit is
first seen and never changes, also if a unit that was known by its stock number gets its VIN later.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple


class FileUnit(NamedTuple):
    """One unit of a file. It gets `vehicle_id` if it is new.

    `digest` changes when buyers see a change, and `document_hash` with every change of its JSON.
    """

    vin: str | None
    stock: str | None
    vehicle_id: str
    digest: str
    document_hash: bytes


class KnownUnit(NamedTuple):
    """A unit of the stock, for sale or sold. `document_hash` is that of its stored JSON."""

    vehicle_id: str
    vin: str | None
    stock: str | None
    digest: str
    document_hash: bytes
    first_seen: datetime
    changed_at: datetime
    sold_at: datetime | None


class PlannedRow(NamedTuple):
    """A row of the file with its vehicle id in the stock. `position` counts the rows of the file from 0.

    `known` is the unit as the stock has it: None for a new one.
    """

    vehicle_id: str
    position: int
    known: KnownUnit | None = None


@dataclass(slots=True)
class Plan:
    """What an import does. `refreshed` are those of `unchanged` whose JSON changed in parts that buyers do not see.

    `before` and `after` are the numbers of units for sale in the scope of the import. `known_at` is the known unit at
    each position of the file. `ids` are those of all units of the stock and of the file, also of sold ones.
    """

    added: list[PlannedRow] = field(default_factory=list)
    changed: list[PlannedRow] = field(default_factory=list)
    back: list[PlannedRow] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refreshed: list[PlannedRow] = field(default_factory=list)
    sold: list[KnownUnit] = field(default_factory=list)
    known_at: Mapping[int, KnownUnit] = field(default_factory=dict)
    ids: Collection[str] = ()
    repeated: int = 0
    before: int = 0
    after: int = 0

    def leave_out(self, positions: Collection[int], sold: Collection[str] = frozenset()) -> None:
        """Ignores the rows at these positions. May be called several times, with other positions.

        A unit of such a row that is for sale stays for sale as it is, or becomes sold if its vehicle id is in `sold`. A
        unit that is not for sale stays so.
        """
        known = [self.known_at[position] for position in positions if position in self.known_at]
        for_sale = [unit for unit in known if unit.sold_at is None]
        stay = [unit for unit in for_sale if unit.vehicle_id not in sold]
        self.sold += [unit for unit in for_sale if unit.vehicle_id in sold]
        for name in ("added", "changed", "back", "refreshed"):
            setattr(self, name, [row for row in getattr(self, name) if row.position not in positions])
        ids = {unit.vehicle_id for unit in known}
        self.unchanged = [vehicle_id for vehicle_id in self.unchanged if vehicle_id not in ids]
        # `after` counted each of these rows. Of their units, only those that stay are for sale.
        self.after -= len(positions) - len(stay)


def plan_import(known: Sequence[KnownUnit], rows: Sequence[FileUnit], outside: Collection[str] = frozenset()) -> Plan:
    """Plans the import of `rows` into the `known` units.

    If several rows name one unit, the last one counts. Units for sale that no row names become sold. `outside` are the
    vehicle ids of units outside the scope of the import: they do not become sold, and only a VIN names them.
    """
    last = {_identity(row): position for position, row in enumerate(rows)}
    positions = array("q", sorted(last.values()))
    del last
    plan = Plan(repeated=len(rows) - len(positions))
    matches = _match(known, rows, positions, outside)
    taken = {unit.vehicle_id for unit in known}
    for position in positions:
        row = rows[position]
        unit = matches.get(position)
        if unit is None:
            vehicle_id = _free_id(row.vehicle_id, taken)
            taken.add(vehicle_id)
            plan.added.append(PlannedRow(vehicle_id, position))
        elif unit.sold_at is not None:
            plan.back.append(PlannedRow(unit.vehicle_id, position, unit))
        elif unit.digest != row.digest:
            plan.changed.append(PlannedRow(unit.vehicle_id, position, unit))
        else:
            plan.unchanged.append(unit.vehicle_id)
            if unit.document_hash != row.document_hash:
                plan.refreshed.append(PlannedRow(unit.vehicle_id, position, unit))
    named = {unit.vehicle_id for unit in matches.values()}
    in_scope = [unit for unit in known if unit.sold_at is None and unit.vehicle_id not in outside]
    plan.sold = [unit for unit in in_scope if unit.vehicle_id not in named]
    plan.known_at = matches
    plan.ids = taken
    plan.before = len(in_scope)
    plan.after = len(positions)
    return plan


def _identity(row: FileUnit) -> str:
    # No VIN begins with a NUL.
    return row.vin or f"\0{_stock(row)}"


def _stock(row: FileUnit) -> str:
    return (row.stock or "").casefold()


def _match(
    known: Iterable[KnownUnit], rows: Sequence[FileUnit], positions: Sequence[int], outside: Collection[str]
) -> dict[int, KnownUnit]:
    """The known unit of each row: by VIN, else by stock number. A unit belongs to at most one row."""
    by_vin: dict[str, KnownUnit] = {}
    # By stock number: units without a VIN, those for sale before sold ones, and units for sale with a VIN.
    without_vin: dict[str, KnownUnit] = {}
    with_vin: dict[str, KnownUnit] = {}
    for unit in known:
        if unit.vin is not None:
            by_vin[unit.vin] = unit
        if unit.stock is None or unit.vehicle_id in outside:
            continue
        stock = unit.stock.casefold()
        if unit.vin is None and (unit.sold_at is None or stock not in without_vin):
            without_vin[stock] = unit
        elif unit.vin is not None and unit.sold_at is None:
            with_vin[stock] = unit
    matches: dict[int, KnownUnit] = {}
    claimed: set[str] = set()

    def claim(position: int, unit: KnownUnit | None) -> None:
        if unit is not None and unit.vehicle_id not in claimed:
            claimed.add(unit.vehicle_id)
            matches[position] = unit

    # The best matches first, so that a weaker match never takes a unit from a better one.
    for position in positions:
        if (vin := rows[position].vin) is not None:
            claim(position, by_vin.get(vin))
    for position in positions:
        if rows[position].vin is None:
            claim(position, without_vin.get(_stock(rows[position])))
    for position in positions:
        if position not in matches:
            # The VIN came later, or the feed lost it. Not for sold units: stock numbers are used again.
            row = rows[position]
            same_stock = (with_vin if row.vin is None else without_vin).get(_stock(row))
            claim(position, None if same_stock is None or same_stock.sold_at else same_stock)
    return matches


def _free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted-2` and so on if another unit has it."""
    candidate, number = wanted, 2
    while candidate in taken:
        candidate, number = f"{wanted}-{number}", number + 1
    return candidate
