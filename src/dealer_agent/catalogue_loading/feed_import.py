"""Imports a feed into the database (docs/protocol.md#listings)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from dealer_agent.catalogue_loading.snapshots import listing_policy
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.feeds.feed import MOST_REPORTED, Feed, Remark
from dealer_agent.inventory.listing import ListingPolicy, Unit, UnitRecord, list_unit, listing_digest, vehicle_id_for
from dealer_agent.storage.stock_import import ImportOutcome, ImportRow, Scope, apply_import
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOST_UNKNOWN_ROOFTOPS = 5
_PROGRESS_ROWS = 200


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import. `without_rooftop` units named no rooftop of the dealer and went to `default_rooftop`.

    `unknown_rooftops` are the first ids and names that those units gave. `outside` units are at rooftops outside the
    scope of the import, so they were not imported. `outside_remarks` has the first of them.
    """

    outcome: ImportOutcome
    default_rooftop: str
    without_rooftop: int
    unknown_rooftops: tuple[str, ...]
    outside: int
    outside_remarks: tuple[Remark, ...]


def import_feed(
    store: Store,
    profile: Profile,
    feed: Feed,
    *,
    source: str,
    at: datetime,
    rooftops: Sequence[str] = (),
    allow_shrink: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
    max_shrink: float | UnsetType = UNSET,
    feed_name: str | None = None,
    on_commit: Callable[[Transaction, int], object] = lambda _tx, _revision: None,
) -> ImportResult:
    """Replaces the stock with a full feed. With `rooftops`, which are names, replaces the stock of these rooftops.

    Raises StorageError, and StockShrinks if more than the share `max_shrink` would be removed, by default the dealer's
    limit, unless `allow_shrink`. `on_commit` is that of `apply_import`.
    """
    rows = _Rows(feed, listing_policy(profile), tuple(dict.fromkeys(rooftops)), at, on_progress)
    outcome = apply_import(
        store,
        profile.id,
        rows.read(),
        rows.unit_at,
        at=at,
        source=source,
        layout=feed.layout,
        max_shrink=None if allow_shrink else profile.policies.max_shrink if max_shrink is UNSET else max_shrink,
        dry_run=dry_run,
        remember_days=profile.policies.remember_sold_days,
        scope=Scope(rows.rooftops, rows.covers) if rooftops else None,
        feed=feed_name,
        on_commit=on_commit,
    )
    return ImportResult(
        outcome,
        rows.default_rooftop,
        rows.without_rooftop,
        tuple(rows.unknown)[:MOST_UNKNOWN_ROOFTOPS],
        rows.outside,
        tuple(rows.outside_remarks),
    )


@dataclass
class _Rows:
    """The rows of a feed that are in the scope of an import."""

    feed: Feed
    policy: ListingPolicy
    rooftops: tuple[str, ...]
    at: datetime
    on_progress: Callable[[int, int], None] | None
    without_rooftop: int = 0
    outside: int = 0
    outside_remarks: list[Remark] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    _numbers: list[int] = field(default_factory=list)

    @property
    def default_rooftop(self) -> str:
        """The rooftop of units that name no rooftop of the dealer."""
        return self.rooftops[0] if self.rooftops else self.policy.rooftops[0].name

    def covers(self, hints: Sequence[str]) -> bool:
        """Whether a unit with these rooftop hints is at a rooftop of the scope."""
        return (self.policy.rooftop_of(hints) or self.policy.rooftops[0]).name in self.rooftops

    def read(self) -> Iterator[ImportRow]:
        """The rows in the scope. Counts the others."""
        for number, (line, unit) in enumerate(self.feed.units):
            if self.on_progress is not None and number % _PROGRESS_ROWS == 0:
                self.on_progress(number, len(self.feed.units))
            rooftop = self.policy.rooftop_of(unit.rooftop_hints)
            if rooftop is None:
                self.without_rooftop += 1
                if len(self.unknown) < MOST_UNKNOWN_ROOFTOPS:
                    self.unknown.update(dict.fromkeys(unit.rooftop_hints))
            elif self.rooftops and rooftop.name not in self.rooftops:
                self.outside += 1
                if self.outside <= MOST_REPORTED:
                    identifier = unit.vin or unit.stock or None
                    self.outside_remarks.append(Remark(line, identifier, f"The unit is at {rooftop.name}."))
                continue
            self._numbers.append(number)
            placed = self._placed(unit)
            vehicle_id = vehicle_id_for(placed)
            listing = list_unit(placed, UnitRecord(vehicle_id, confirmed_at=self.at, changed_at=self.at), self.policy)
            yield ImportRow(placed, vehicle_id, listing_digest(listing, placed.extras))

    def unit_at(self, position: int) -> Unit:
        """The unit of a row in the scope."""
        return self._placed(self.feed.units[self._numbers[position]].unit)

    def _placed(self, unit: Unit) -> Unit:
        """The unit, with the scope's rooftop as its last hint if it names no rooftop of the dealer."""
        if not self.rooftops or self.policy.rooftop_of(unit.rooftop_hints) is not None:
            return unit
        return replace(unit, rooftop_hints=(*unit.rooftop_hints, self.default_rooftop))
