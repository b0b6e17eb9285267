"""Where stock comes in: a feed into the store (contract, part 6)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dealer_agent.catalogue_loading.listing_policy import listing_policy
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.feeds import Feed
from dealer_agent.inventory.listing import (
    ListingPolicy,
    UnitRecord,
    list_unit,
    listing_digest,
    vehicle_id_for,
)
from dealer_agent.inventory.unit import Unit
from dealer_agent.storage.matching import ImportRow
from dealer_agent.storage.stock import ImportOutcome
from dealer_agent.storage.store import Store

UNKNOWN_ROOFTOPS_TOLD = 5


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did; `without_rooftop` units named no rooftop of the dealer's and went to the first.

    `unknown_rooftops` are the ids and names that those units gave, the first few of them.
    """

    outcome: ImportOutcome
    without_rooftop: int
    unknown_rooftops: tuple[str, ...]


def import_feed(
    store: Store,
    profile: Profile,
    feed: Feed,
    *,
    source: str,
    at: datetime,
    allow_shrink: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> ImportResult:
    """Makes the stock what a full feed says, in one transaction.

    Raises StockShrinks when more than the dealer's share would go, unless `allow_shrink`; StorageError.
    """
    policy = listing_policy(profile)
    rows: list[ImportRow] = []
    without_rooftop = 0
    unknown: dict[str, None] = {}
    for number, row in enumerate(feed.units, 1):
        if policy.rooftop_of(row.unit.rooftop_hints) is None:
            without_rooftop += 1
            if len(unknown) < UNKNOWN_ROOFTOPS_TOLD:
                unknown.update(dict.fromkeys(row.unit.rooftop_hints))
        rows.append(_import_row(row.unit, policy, at))
        if on_progress is not None and number % 200 == 0:
            on_progress(number, len(feed.units))
    outcome = store.apply_import(
        profile.id,
        rows,
        at=at,
        source=source,
        layout=feed.layout,
        max_shrink=None if allow_shrink else profile.policies.max_shrink,
        dry_run=dry_run,
        remember_days=profile.policies.remember_sold_days,
    )
    return ImportResult(outcome, without_rooftop, tuple(unknown)[:UNKNOWN_ROOFTOPS_TOLD])


def _import_row(unit: Unit, policy: ListingPolicy, at: datetime) -> ImportRow:
    vehicle_id = vehicle_id_for(unit)
    listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=at, changed_at=at), policy)
    return ImportRow(unit=unit, vehicle_id=vehicle_id, digest=listing_digest(listing, unit.extras))
