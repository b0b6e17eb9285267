"""Makes listings of the units of a stock. Needs no snapshot, so commands that only list start fast."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from dealer_agent.dealers.profile import Profile
from dealer_agent.inventory.listing import (
    ListingPolicy,
    RooftopRule,
    Unit,
    UnitRecord,
    list_unit,
    listing_digest,
    listing_json,
)
from dealer_agent.protocol.vehicle import Vehicle
from dealer_agent.storage.stock.reading import Confirmation, LiveUnit, Stock, confirmed_at


def listing_policy(profile: Profile) -> ListingPolicy:
    """The policy that turns a dealer's units into listings."""
    rooftops = tuple(
        RooftopRule(rooftop.name, frozenset(rooftop.feed_ids), None if rooftop.fees is UNSET else rooftop.fees)
        for rooftop in profile.rooftops
    )
    return ListingPolicy(profile.id, profile.feed_price, rooftops)


def digest_of(profile: Profile, at: datetime) -> Callable[[str, Unit], str]:
    """A function of a vehicle id and its unit: the digest of the listing that buyers see.

    Imports store it, to notice which listings change. `at` is the time of the import.
    """
    policy = listing_policy(profile)

    def digest(vehicle_id: str, unit: Unit) -> str:
        listing = list_unit(unit, UnitRecord(vehicle_id, confirmed_at=at, changed_at=at), policy)
        return listing_digest(listing, unit.extras)

    return digest


class Lister:
    """Makes listings of the units of a stock, from the dealer's policy and the times of confirmations.

    `confirmed` has the newest import of the whole stock of each rooftop, by name.
    """

    def __init__(
        self, policy: ListingPolicy, confirmations: Sequence[Confirmation], good_since: Mapping[str, datetime]
    ) -> None:
        self._policy = policy
        self._good_since = good_since
        self.confirmed = {rooftop.name: confirmed_at(confirmations, rooftop.name) for rooftop in policy.rooftops}

    def confirmed_at(self, live: LiveUnit) -> datetime:
        """The newest import that had all units of the rooftop, else the last one with this unit.

        A newer import says something implausible about a unit that keeps its last good facts.
        """
        rooftop = self._policy.rule_of(live.unit).name
        return self._good_since.get(live.vehicle_id) or self.confirmed[rooftop] or live.updated_at

    def vehicle(self, live: LiveUnit, confirmed_at: datetime) -> Vehicle:
        """The unit as a listing."""
        record = UnitRecord(live.vehicle_id, confirmed_at=confirmed_at, changed_at=live.changed_at)
        return list_unit(live.unit, record, self._policy)

    def json(self, live: LiveUnit) -> bytes:
        """The listing as responses contain it."""
        return listing_json(self.vehicle(live, self.confirmed_at(live)), live.unit.extras)


class StockListings:
    """Makes listings one by one. `confirmed_at` is complete after the last one."""

    def __init__(self, stock: Stock, policy: ListingPolicy) -> None:
        self.confirmed_at: datetime | None = None
        self._units = stock.live
        self._lister = Lister(policy, stock.confirmations, stock.good_since)

    def units(self) -> Iterator[tuple[Vehicle, Unit]]:
        """Each unit as a listing, with the unit itself. `confirmed_at` becomes the newest confirmation."""
        for live in self._units:
            confirmed_at = self._lister.confirmed_at(live)
            if self.confirmed_at is None or confirmed_at > self.confirmed_at:
                self.confirmed_at = confirmed_at
            yield self._lister.vehicle(live, confirmed_at), live.unit


def listed_units(stock: Stock, policy: ListingPolicy) -> Iterator[tuple[Vehicle, Unit]]:
    """Each unit for sale as buyers see it, and as the feed gave it."""
    return StockListings(stock, policy).units()
