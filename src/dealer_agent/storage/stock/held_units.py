"""Stores the units that are held back because their facts are implausible, and what people decided about units.

A decision also holds for later files. A release is for what was implausible (`Implausibility.is_covered`). A unit that
a person hid stays hidden until a person releases it, whatever the feed says.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, String, Table, bindparam, delete, func, or_, select, union

from dealer_agent.feeds.files.plausibility import Implausibility
from dealer_agent.storage.schema import held_units as table
from dealer_agent.storage.schema import unit_changes, units
from dealer_agent.storage.statements import of_dealer, upsert
from dealer_agent.storage.transaction import Transaction

Decision = Literal["none", "released", "hidden"]
"""`none`: a person has to decide. `released`: the unit is published as the feed gives it. `hidden`: it is not."""

HELD = "held"
"""The kind of the job that removes units whose day has ended."""

GRACE = timedelta(days=1)
"""How long a unit for sale keeps its last good facts when the feed says something implausible."""


class HeldUnit(NamedTuple):
    """A unit that is held back, or about which a person decided.

    `doubts` say what is implausible; a unit that was hidden by hand may have none. `since`: held back since this time.
    `good_at` is the last import that confirmed the facts that buyers see, and `leaves_at` the time at which the unit
    leaves; both are None for a unit that buyers do not see. `source` is the name of the file. `released` are the doubts
    that a person released. `unit` is the document of the feed (JSON).
    """

    vehicle_id: str
    vin: str | None
    stock: str | None
    rooftop: str
    source: str
    doubts: tuple[Implausibility, ...]
    since: datetime
    good_at: datetime | None = None
    leaves_at: datetime | None = None
    decision: Decision = "none"
    decided_by: str | None = None
    decided_at: datetime | None = None
    released: tuple[Implausibility, ...] = ()
    unit: bytes | None = None

    @property
    def reason(self) -> str:
        """The id of the first reason (`feeds.files.plausibility.REASONS`); `hidden` without one."""
        return self.doubts[0].reason if self.doubts else "hidden"

    @property
    def sentence(self) -> str:
        """Why the unit is held back."""
        return " ".join(doubt.sentence for doubt in self.doubts) or "A person hid the unit."

    @property
    def advice(self) -> str:
        """What to do."""
        return self.doubts[0].advice if self.doubts else "Release the unit to publish it again."

    @property
    def as_released(self) -> "HeldUnit":
        """The row after what was released before is all that counts again."""
        return self._replace(decision="released", doubts=(), unit=None, leaves_at=None, good_at=None)

    @property
    def name(self) -> str:
        """How a person names the unit: its stock number, else its VIN."""
        return self.stock or self.vin or self.vehicle_id


class HeldRows(NamedTuple):
    """What an import changes: rows that are stored, and the vehicle ids of rows that are removed."""

    held: tuple[HeldUnit, ...] = ()
    removed: tuple[str, ...] = ()


_all = (
    select(*(table.c[name] for name in HeldUnit._fields))
    .where(of_dealer(table))
    .order_by(table.c.since, table.c.vehicle_id)
)

READ_DECISIONS = _all

READ_HELD = _all.where(table.c.decision != "released")

COUNT_HELD = select(func.count()).select_from(table).where(of_dealer(table), table.c.decision != "released")


READ_GOOD_SINCE = select(table.c.vehicle_id, table.c.good_at).where(of_dealer(table), table.c.good_at.is_not(None))

FIND_HELD = _all.where(table.c.vehicle_id == bindparam("of_vehicle"))

READ_DUE = _all.where(table.c.leaves_at <= bindparam("until"))


def _is_named(units: Table) -> ColumnElement[bool]:
    """The condition that a unit has this id, VIN or stock number."""
    return or_(
        units.c.vehicle_id == bindparam("name"),
        units.c.vin == bindparam("upper"),
        func.lower(units.c.stock) == bindparam("folded", type_=String),
    )


FIND_NAMED = union(
    select(table.c.vehicle_id).where(of_dealer(table), _is_named(table)),
    *(
        select(each.c.vehicle_id).where(of_dealer(each), each.c.sold_at.is_(None), _is_named(each))
        for each in (units, unit_changes)
    ),
)

_replaced = ", ".join(f"{name} = excluded.{name}" for name in HeldUnit._fields if name != "vehicle_id")
PUT_HELD = upsert(table, f"UPDATE SET {_replaced}")

DELETE_HELD = delete(table).where(of_dealer(table), table.c.vehicle_id.in_(bindparam("in_vehicles", expanding=True)))

_doubts = msgspec.json.Decoder(tuple[Implausibility, ...])


def held_units(tx: Transaction) -> list[HeldUnit]:
    """The units that are held back or hidden, the oldest first."""
    return [_held_unit(row) for row in tx.execute(READ_HELD)]


def find_held(tx: Transaction, vehicle_id: str) -> HeldUnit | None:
    """The row of a unit, also if a person released it."""
    row = tx.execute(FIND_HELD, {"of_vehicle": vehicle_id}).one_or_none()
    return None if row is None else _held_unit(row)


def count_held(tx: Transaction) -> int:
    """How many units are held back or hidden."""
    return int(tx.execute(COUNT_HELD).scalar_one())


def good_since(tx: Transaction) -> dict[str, datetime]:
    """The last confirmation of the facts of each unit for sale whose new facts are held back, by vehicle id."""
    return {row.vehicle_id: row.good_at for row in tx.execute(READ_GOOD_SINCE)}


def decisions(tx: Transaction) -> dict[str, HeldUnit]:
    """All rows by vehicle id, with those that a person released."""
    return {row.vehicle_id: _held_unit(row) for row in tx.execute(READ_DECISIONS)}


def due_units(tx: Transaction, now: datetime) -> list[HeldUnit]:
    """The units that keep their last good facts no longer."""
    return [_held_unit(row) for row in tx.execute(READ_DUE, {"until": now})]


def find_named(tx: Transaction, name: str) -> list[str]:
    """The vehicle ids of the units with this id, VIN or stock number: those for sale, and those of this table."""
    wanted = {"name": name, "folded": name.casefold(), "upper": name.upper()}
    return list(tx.execute(FIND_NAMED, wanted).scalars())


def put_held(tx: Transaction, held: Sequence[HeldUnit], removed: Collection[str] = ()) -> None:
    """Stores rows, and removes those of other vehicle ids."""
    if removed:
        tx.execute(DELETE_HELD, {"in_vehicles": list(removed)})
    if held:
        tx.execute_each(PUT_HELD, [_row(each) for each in held])


def _held_unit(row: Any) -> HeldUnit:
    return HeldUnit(*row)._replace(doubts=_doubts.decode(row.doubts), released=_doubts.decode(row.released))


def _row(held: HeldUnit) -> dict[str, Any]:
    return held._asdict() | {"doubts": msgspec.json.encode(held.doubts), "released": msgspec.json.encode(held.released)}
