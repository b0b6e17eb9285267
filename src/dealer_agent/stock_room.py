"""Where stock comes in and goes on show: a feed into the store, the store into a catalogue (contract, part 6)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from msgspec import UNSET

from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.catalogue import Catalogue, Gone, Listing
from dealer_agent.inventory.feeds import Feed
from dealer_agent.inventory.listing import (
    ListingPolicy,
    RooftopRule,
    UnitRecord,
    list_unit,
    listing_digest,
    match_rooftop,
    vehicle_id_for,
)
from dealer_agent.inventory.unit import Unit
from dealer_agent.storage.matching import ImportRow
from dealer_agent.storage.stock import ImportOutcome, Stock
from dealer_agent.storage.store import Store

UNKNOWN_ROOFTOPS_TOLD = 5


def listing_policy(profile: Profile) -> ListingPolicy:
    """What the profile says about listings."""
    rooftops = tuple(
        RooftopRule(rooftop.name, frozenset(rooftop.feed_ids), None if rooftop.fees is UNSET else rooftop.fees)
        for rooftop in profile.rooftops
    )
    return ListingPolicy(profile.id, profile.feed_price, rooftops)


class OnShow(NamedTuple):
    """The stock ready to be searched, its revision, and when a feed last confirmed any of it."""

    catalogue: Catalogue
    revision: int
    at: datetime | None


def load_stock(store: Store, profile: Profile, now: datetime) -> OnShow:
    """The stock as it stands. Raises StorageError."""
    stock = store.load_stock(profile.id, remember_days=profile.policies.remember_sold_days, now=now)
    gone = [Gone(unit.vehicle_id, unit.vin or UNSET, unit.stock or UNSET) for unit in stock.gone]
    catalogue = Catalogue.build(_listings(stock, listing_policy(profile)), gone)
    return OnShow(catalogue, stock.revision, max((live.updated_at for live in stock.live), default=None))


def _listings(stock: Stock, policy: ListingPolicy) -> Iterator[Listing]:
    for live in stock.live:
        record = UnitRecord(live.vehicle_id, confirmed_at=live.updated_at, changed_at=live.changed_at)
        yield Listing.of(list_unit(live.unit, record, policy), live.unit.extras)


@dataclass(frozen=True, slots=True)
class Imported:
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
) -> Imported:
    """Makes the stock what a full feed says, in one transaction.

    Raises StockShrinks when more than the dealer's share would go, unless `allow_shrink`; StorageError.
    """
    policy = listing_policy(profile)
    rows: list[ImportRow] = []
    without_rooftop = 0
    unknown: dict[str, None] = {}
    for number, row in enumerate(feed.units, 1):
        if not match_rooftop(row.unit.rooftop_hints, policy)[1]:
            without_rooftop += 1
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
    return Imported(outcome, without_rooftop, tuple(unknown)[:UNKNOWN_ROOFTOPS_TOLD])


def _import_row(unit: Unit, policy: ListingPolicy, at: datetime) -> ImportRow:
    vehicle_id = vehicle_id_for(unit)
    listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=at, changed_at=at), policy)
    return ImportRow(unit=unit, vehicle_id=vehicle_id, digest=listing_digest(listing, unit.extras))
