"""Imports a feed into the database (docs/protocol.md#listings)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dealer_agent.catalogue_loading.snapshots import listing_policy
from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.feeds.feed import Feed
from dealer_agent.inventory.import_plan import ImportRow
from dealer_agent.inventory.listing import UnitRecord, list_unit, listing_digest, vehicle_id_for
from dealer_agent.storage.stock import ImportOutcome, apply_import
from dealer_agent.storage.store import Store

MOST_UNKNOWN_ROOFTOPS = 5


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import. `without_rooftop` units named no rooftop of the dealer and went to the first one.

    `unknown_rooftops` are the first ids and names that those units gave.
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
    """Replaces the stock with a full feed, in one transaction.

    Raises StorageError, and StockShrinks if more than the dealer's limit would be removed, unless `allow_shrink`.
    """
    policy = listing_policy(profile)
    rows: list[ImportRow] = []
    without_rooftop = 0
    unknown: dict[str, None] = {}
    for number, row in enumerate(feed.units, 1):
        unit = row.unit
        if policy.rooftop_of(unit.rooftop_hints) is None:
            without_rooftop += 1
            if len(unknown) < MOST_UNKNOWN_ROOFTOPS:
                unknown.update(dict.fromkeys(unit.rooftop_hints))
        vehicle_id = vehicle_id_for(unit)
        listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=at, changed_at=at), policy)
        rows.append(ImportRow(unit=unit, vehicle_id=vehicle_id, digest=listing_digest(listing, unit.extras)))
        if on_progress is not None and number % 200 == 0:
            on_progress(number, len(feed.units))
    outcome = apply_import(
        store,
        profile.id,
        rows,
        at=at,
        source=source,
        layout=feed.layout,
        max_shrink=None if allow_shrink else profile.policies.max_shrink,
        dry_run=dry_run,
        remember_days=profile.policies.remember_sold_days,
    )
    return ImportResult(outcome, without_rooftop, tuple(unknown)[:MOST_UNKNOWN_ROOFTOPS])
