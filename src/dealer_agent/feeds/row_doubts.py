"""Decides which rows of an import are left out: units of other dealers, and implausible units, which are held back.

`ImplausibleRows.add` gets each row while the file is read. When the import is planned, `leave_out_foreign` and
`hold_back` change the plan. The reasons are in `feeds.files.plausibility`, the decisions of people in
`storage.stock.held_units`.
"""

from array import array
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from dealer_agent.feeds.files.checks import CheckRun
from dealer_agent.feeds.files.counts import MOST_DEALERS
from dealer_agent.feeds.files.import_plan import Plan
from dealer_agent.feeds.files.plausibility import Bounds, Implausibility, SimilarPrices, implausibility
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.inventory.listing import ListingPolicy, Unit, document_of
from dealer_agent.storage.stock.held_units import GRACE, HeldRows, HeldUnit
from dealer_agent.storage.stock.stock_import import StockBefore

_NAMED = 3
_ROWS = 10


class Foreign(NamedTuple):
    """The positions of the units of other dealers that are left out, and the folded names of these dealers."""

    positions: Collection[int] = ()
    dealers: Collection[str] = ()


class ImplausibleRows:
    """The doubts about the rows of one import. `unit_at` has the unit at each position.

    `prices` are those of the rows, 0 for none.
    """

    def __init__(
        self, policy: ListingPolicy, bounds: Bounds, unit_at: Callable[[int], Unit], *, at: datetime, source: str
    ) -> None:
        self._policy = policy
        self._bounds = bounds
        self._unit_at = unit_at
        self._at = at
        self._source = source
        self._rows = 0
        self.prices = array("q")
        # By the position of a row.
        self._doubts: dict[int, tuple[Implausibility, ...]] = {}
        self._similar_prices = SimilarPrices(self._bounds)
        # By the name of another dealer, the positions of its rows.
        self._rows_of_dealer: dict[str, array[int]] = {}
        # The names in the rows of this dealer, in the order of the rows.
        self._own_dealers: dict[str, None] = {}

    def add(self, position: int, unit: Unit, noted: tuple[Implausibility, ...] | None, *, is_ours: bool) -> None:
        """Remembers what later steps need of a row: its price, the doubts about it, and the dealer that it names.

        `noted` are the doubts that the reader has already. `is_ours`: the row names a rooftop of this dealer. Otherwise
        the name counts as that of another dealer, and `leave_out_foreign` decides about it.
        """
        self._rows += 1
        self.prices.append(unit.selling_price or 0)
        found = self._bounds.doubt_of(unit, self._at.year)
        if noted or found is not None:
            self._doubts[position] = (*(noted or ()), *(() if found is None else (found,)))
        self._similar_prices.add(position, unit)
        if unit.rooftop_hints:
            name = unit.rooftop_hints[0]
            if is_ours:
                self._own_dealers.setdefault(name)
            else:
                self._rows_of_dealer.setdefault(name, array("q")).append(position)

    @property
    def dealers(self) -> list[str]:
        """The dealers that the rows name, folded."""
        return list(dict.fromkeys(map(fold, (*self._own_dealers, *self._rows_of_dealer))))

    def leave_out_foreign(self, check_run: CheckRun, plan: Plan, stock: StockBefore) -> Foreign:
        """Leaves out new units of other dealers.

        A dealer is another one if neither the settings nor an earlier file name it. If the stock has most of its units,
        it is the same dealer under another name. Nothing is left out of a first file, because no earlier one says whose
        units these are, nor of a file with more than MOST_DEALERS names: its column has places on the lot.
        """
        earlier = set(() if stock.last_shape is None else stock.last_shape.dealers)
        strange = {name: rows for name, rows in self._rows_of_dealer.items() if fold(name) not in earlier}
        if not strange or len(self._rows_of_dealer) > MOST_DEALERS:
            return Foreign()
        if not earlier:
            # If no row names one of several rooftops, the check `rooftops_unknown` says so.
            is_judged = len(self._policy.rooftops) == 1 or self._own_dealers
            if is_judged and len(self._rows_of_dealer) + bool(self._own_dealers) > 1:
                check_run.add("dealers_mixed", named=_first_names(self._own_dealers | self._rows_of_dealer))
            return Foreign()
        foreign: dict[str, set[int]] = {}
        for name, rows in strange.items():
            new = {row for row in rows if (unit := plan.known_at.get(row)) is None or unit.sold_at is not None}
            if len(new) * 2 > len(rows):
                foreign[name] = new
        positions: set[int] = set().union(*foreign.values())
        named = _first_names(f"{name} ({len(rows):,})" for name, rows in foreign.items())
        check_run.share("dealers_foreign", len(positions), self._rows, named=named)
        if not positions or any(map(check_run.is_accepted, ("dealers_foreign", "rows_foreign"))):
            return Foreign()
        check_run.add("rows_foreign", self._names(positions), count=f"{len(positions):,}", named=named)
        plan.leave_out(positions)
        return Foreign(positions, frozenset(map(fold, foreign)))

    def compare(self, position: int, old: int, new: int) -> Implausibility | None:
        """The doubt about the price of a unit for sale, compared with its last one. 0 is not a price."""
        if old and self._has("price_zero", position):
            return implausibility("price_zero", other=old)
        return self._bounds.jump_of(old, new)

    def _has(self, reason: str, position: int) -> bool:
        return any(each.reason == reason for each in self._doubts.get(position, ()))

    def hold_back(
        self,
        check_run: CheckRun,
        plan: Plan,
        stock: StockBefore,
        jumps: dict[int, Implausibility],
        scope: tuple[str, ...],
        remember: timedelta,
    ) -> tuple[HeldRows, Collection[int]]:
        """Leaves implausible units out of the plan, and those that a person hid. Adds the findings about them.

        Returns the rows of all held units, and the positions that are left out.

        `jumps` are the doubts of `compare` by position. `scope` are the rooftops of the import, empty for all. If a
        released unit is no longer in the file, its release is forgotten after the time `remember`.
        """
        decisions = stock.decisions
        doubts = self._find_implausible(jumps)
        if not doubts and not decisions:
            return HeldRows(), ()
        held: dict[int, HeldUnit] = {}
        rows = chain(
            ((row.position, row.vehicle_id) for row in plan.added),
            ((position, unit.vehicle_id) for position, unit in plan.known_at.items()),
        )
        # Units with a decision are looked at too: they may be hidden, or were doubted before.
        ids = {row: vehicle_id for row, vehicle_id in rows if row in doubts or vehicle_id in decisions}
        for position in sorted(ids):
            decided = decisions.get(ids[position])
            unit = self._unit_at(position)
            unreleased = self._unreleased(doubts.get(position, ()), decided, unit, position)
            if unreleased or (decided is not None and decided.decision == "hidden"):
                in_stock = plan.known_at.get(position)
                is_for_sale = in_stock is not None and in_stock.sold_at is None
                held[position] = self._held_record(
                    ids[position], unit, unreleased, decided, stock, is_for_sale=is_for_sale
                )
        # A held unit has a time of leaving while buyers see its last good facts. The others are not for sale now.
        without_good_facts = {each.vehicle_id for each in held.values() if each.leaves_at is None}
        plan.leave_out(held.keys(), without_good_facts)
        self._report(check_run, held)
        return self._changes_of_table(held.values(), decisions, plan.ids, scope, remember), held.keys()

    def _find_implausible(self, jumps: dict[int, Implausibility]) -> dict[int, tuple[Implausibility, ...]]:
        """The doubts about each unit, by its position: its own, those of similar prices, and jumps of prices."""
        # A price of 0 does not count as a price, unless the unit had one.
        doubts = {row: tuple(d for d in found if d.reason != "price_zero") for row, found in self._doubts.items()}
        for position, found in (*self._similar_prices.doubts(), *jumps.items()):
            doubts[position] = (*doubts.get(position, ()), found)
        return {position: found for position, found in doubts.items() if found}

    def _unreleased(
        self, doubts: tuple[Implausibility, ...], decided: HeldUnit | None, unit: Unit, position: int
    ) -> tuple[Implausibility, ...]:
        """The doubts that nobody released. A unit that has left the stock has no last price: its doubt stays."""
        if decided is None:
            return doubts
        for old in decided.doubts:
            if old.reason == "price_zero":
                stays = self._has("price_zero", position)
            else:
                price = unit.selling_price if isinstance(unit.selling_price, int) else 0
                stays = old.reason == "price_jump" and implausibility("price_jump", amount=price).is_covered((old,))
            if stays and all(each.reason != old.reason for each in doubts):
                doubts = (*doubts, old)
        return tuple(each for each in doubts if not each.is_covered(decided.released))

    def _held_record(
        self,
        vehicle_id: str,
        unit: Unit,
        doubts: tuple[Implausibility, ...],
        decided: HeldUnit | None,
        stock: StockBefore,
        *,
        is_for_sale: bool,
    ) -> HeldUnit:
        """The record of a unit with doubts.

        It keeps what a person has `decided`, except a release: that was for older facts.
        """
        if decided is not None and decided.decision == "released":
            decided = decided._replace(decision="none", since=self._at, decided_by=None, decided_at=None, good_at=None)
        now = HeldUnit(
            vehicle_id,
            unit.vin or None,
            unit.stock or None,
            self._policy.rule_of(unit).name,
            self._source,
            doubts,
            self._at,
            unit=document_of(unit),
        )
        if decided is not None:
            now = now._replace(
                since=decided.since,
                good_at=decided.good_at,
                released=decided.released,
                decision=decided.decision,
                decided_by=decided.decided_by,
                decided_at=decided.decided_at,
            )
        ends = now.since + GRACE
        if not is_for_sale or now.decision == "hidden" or ends <= self._at:
            return now._replace(good_at=None)
        return now._replace(good_at=now.good_at or stock.confirmed_at(now.rooftop), leaves_at=ends)

    def _report(self, check_run: CheckRun, held: dict[int, HeldUnit]) -> None:
        """Hands the held units to two checks: one refuses a file with too many of them, one lists the new ones."""
        undecided = [each for each in held.values() if each.decision == "none"]
        new = [each for each in undecided if each.since == self._at]
        # A file may still list sold units. They are held back, and are no sign that the file is wrong.
        implausible = [each for each in undecided if each.reason != "sold_words"]
        for check, units in (("units_implausible", implausible), ("units_held", new)):
            rows = [f"{each.name}: {each.sentence}" for each in units[:_ROWS]]
            named = " ".join(rows[:_NAMED]).rstrip(".")
            check_run.share(check, len(units), self._rows, named=named, rows=rows)

    def _changes_of_table(
        self,
        held: Iterable[HeldUnit],
        stored: dict[str, HeldUnit],
        ids: Collection[str],
        scope: tuple[str, ...],
        remember: timedelta,
    ) -> HeldRows:
        """What the import changes in the table of held units.

        A stored row that it neither writes nor removes stays: one of another rooftop, or a decision that still holds.
        """
        rows = {each.vehicle_id: each for each in held}
        removed: list[str] = []
        for vehicle_id, row in stored.items():
            if vehicle_id in rows or (scope and row.rooftop not in scope):
                continue
            if row.decision == "none" and row.released:
                # Its new doubts are gone, and what a person has released before is still released.
                rows[vehicle_id] = row.as_released
            elif row.decision == "none" or self._is_forgotten(row, ids, remember):
                removed.append(vehicle_id)
        return HeldRows(tuple(rows.values()), tuple(removed))

    def _is_forgotten(self, row: HeldUnit, ids: Collection[str], remember: timedelta) -> bool:
        is_old = row.decided_at is not None and row.decided_at < self._at - remember
        # A hidden unit that returns after months must not be published.
        return is_old and row.decision == "released" and row.vehicle_id not in ids

    def _names(self, positions: Iterable[int]) -> list[str]:
        units = [self._unit_at(position) for position in sorted(positions)[:_ROWS]]
        return [f"{unit.stock or unit.vin}: {unit.rooftop_hints[0]}" for unit in units]


def _first_names(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
