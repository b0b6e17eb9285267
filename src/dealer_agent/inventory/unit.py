"""One unit of stock as a feed tells it: in our words, before the dealer's policy. Pure types.

A feed reader yields units; storage keeps them; `inventory.listing` applies the dealer's policy (rooftops, fees, what
the feed's price means) and makes the `Vehicle` that buyers see. So a change of policy never needs the feed again.
"""

from datetime import datetime

from msgspec import UNSET, UnsetType, field

from dealer_agent.protocol.vehicle import ListingStatus, SaleCondition, Scalar, VehicleMembers
from dealer_agent.protocol.vehicle_field import Natural


class Unit(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """At least one of `vin` and `stock` is there. Money is whole US dollars, mileage is miles.

    `selling_price` is the feed's own price, whatever it includes; `rooftop_hints` are the feed's dealer ids and names,
    best first; `feed_updated_at` is the feed's own time for the unit; `extras` are passed through.
    """

    vehicle_id: str | UnsetType = UNSET
    rooftop_hints: tuple[str, ...] = ()
    status: ListingStatus = "available"
    condition: SaleCondition | UnsetType = UNSET
    selling_price: Natural | UnsetType = UNSET
    feed_updated_at: datetime | UnsetType = UNSET
    extras: dict[str, Scalar] = field(default_factory=dict)
