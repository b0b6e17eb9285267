"""Matches the units of a file with the units of the stock, and plans the import. Pure.

A unit is known by its VIN, else by its stock number (docs/protocol.md#listings). A `vehicle_id` is made when a unit is
first seen and never changes, also if a unit that was known by its stock number gets its VIN later.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import UNSET, UnsetType

from dealer_agent.inventory.listing import Unit


class ImportRow(NamedTuple):
    """One unit of a file. It gets `vehicle_id` if it is new. `digest` changes when buyers see a change."""

    unit: Unit
    vehicle_id: str
    digest: str


class KnownUnit(NamedTuple):
    """A unit of the stock, for sale or sold. `document_hash` is that of its stored JSON."""

    vehicle_id: str
    vin: str | None
    stock: str | None
    digest: str
    document_hash: bytes
    sold: bool


class Placed(NamedTuple):
    """A row with its vehicle id in the stock; `position` is the row's position in the file, from 0."""

    vehicle_id: str
    position: int


@dataclass(slots=True)
class Plan:
    """What an import does. `refreshed` are those of `unchanged` whose JSON changed in parts that buyers do not see."""

    added: list[Placed] = field(default_factory=list)
    changed: list[Placed] = field(default_factory=list)
    back: list[Placed] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    refreshed: list[Placed] = field(default_factory=list)
    sold: list[str] = field(default_factory=list)
    repeated: int = 0
    before: int = 0

    @property
    def after(self) -> int:
        """The number of units for sale after the import."""
        return self.before + len(self.added) + len(self.back) - len(self.sold)


def plan_import(known: Sequence[KnownUnit], rows: Sequence[ImportRow], hashes: Sequence[bytes], *, full: bool) -> Plan:
    """Plans the import of `rows`, with the hash of each row's JSON, into the `known` units.

    If several rows name one unit, the last one is used. With `full`, units for sale that no row names become sold.
    """
    last = {_identity(row.unit): position for position, row in enumerate(rows)}
    positions = sorted(last.values())
    plan = Plan(repeated=len(rows) - len(positions), before=sum(not unit.sold for unit in known))
    matches = _match(known, rows, positions)
    taken = {unit.vehicle_id for unit in known}
    for position in positions:
        row = rows[position]
        unit = matches.get(position)
        if unit is None:
            vehicle_id = _free_id(row.vehicle_id, taken)
            taken.add(vehicle_id)
            plan.added.append(Placed(vehicle_id, position))
        elif unit.sold:
            plan.back.append(Placed(unit.vehicle_id, position))
        elif unit.digest != row.digest:
            plan.changed.append(Placed(unit.vehicle_id, position))
        else:
            plan.unchanged.append(unit.vehicle_id)
            if unit.document_hash != hashes[position]:
                plan.refreshed.append(Placed(unit.vehicle_id, position))
    if full:
        named = {unit.vehicle_id for unit in matches.values()}
        plan.sold = [unit.vehicle_id for unit in known if not unit.sold and unit.vehicle_id not in named]
    return plan


def _identity(unit: Unit) -> tuple[str, str]:
    vin, stock = _given(unit.vin), _given(unit.stock)
    return ("vin", vin) if vin else ("stock", (stock or "").casefold())


def _match(known: Iterable[KnownUnit], rows: Sequence[ImportRow], positions: Sequence[int]) -> dict[int, KnownUnit]:
    by_vin: dict[str, KnownUnit] = {}
    without_vin: dict[str, KnownUnit] = {}
    with_vin: dict[str, KnownUnit] = {}
    for unit in known:
        if unit.vin is not None:
            by_vin[unit.vin] = unit
        if unit.stock is not None and unit.vin is None and (not unit.sold or unit.stock.casefold() not in without_vin):
            without_vin[unit.stock.casefold()] = unit
        elif unit.stock is not None and unit.vin is not None and not unit.sold:
            with_vin[unit.stock.casefold()] = unit
    matches: dict[int, KnownUnit] = {}
    claimed: set[str] = set()

    def claim(position: int, unit: KnownUnit | None) -> None:
        if unit is not None and unit.vehicle_id not in claimed:
            claimed.add(unit.vehicle_id)
            matches[position] = unit

    # The best matches first, so that a weaker match never uses the unit of a better one.
    vins = {position: _given(rows[position].unit.vin) for position in positions}
    stocks = {position: (_given(rows[position].unit.stock) or "").casefold() for position in positions}
    for position, vin in vins.items():
        if vin is not None:
            claim(position, by_vin.get(vin))
    for position, vin in vins.items():
        if vin is None:
            claim(position, without_vin.get(stocks[position]))
    for position, vin in vins.items():
        if position not in matches:
            # The VIN came later, or the feed lost it. Not for sold units: stock numbers are used again.
            namesake = (with_vin if vin is None else without_vin).get(stocks[position])
            claim(position, None if namesake is None or namesake.sold else namesake)
    return matches


def _free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, or `wanted-2` and so on if another unit has it."""
    candidate, number = wanted, 2
    while candidate in taken:
        candidate, number = f"{wanted}-{number}", number + 1
    return candidate


def _given(value: str | UnsetType) -> str | None:
    return None if value is UNSET or not value else value
