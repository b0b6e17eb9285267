"""One unit of stock as the feed gave it, in canonical words, before the dealer's policy. Pure types.

The database stores units. `inventory.listing` applies the dealer's policy for rooftops, fees and prices, and makes the
`Vehicle` that buyers see. So a change of the policy does not need a new feed.
"""

from datetime import datetime

from msgspec import UNSET, UnsetType, field

from dealer_agent.protocol.vehicle import ListingStatus, SaleCondition, Scalar, VehicleMembers
from dealer_agent.protocol.vehicle_field import Natural


class Unit(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """A unit has `vin` or `stock` or both. Money is whole US dollars, mileage is miles.

    `selling_price` is the feed's price (`Profile.feed_price` says what it includes). `rooftop_hints` are the feed's
    dealer ids and names, best first. `feed_updated_at` is the feed's time for the unit. Buyers get `extras` unchanged.
    """

    vehicle_id: str | UnsetType = UNSET
    rooftop_hints: tuple[str, ...] = ()
    status: ListingStatus = "available"
    condition: SaleCondition | UnsetType = UNSET
    selling_price: Natural | UnsetType = UNSET
    feed_updated_at: datetime | UnsetType = UNSET
    extras: dict[str, Scalar] = field(default_factory=dict)
