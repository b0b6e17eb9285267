"""One unit of stock as a feed tells it: in our words, before the dealer's policy. Pure types.

A feed reader yields units; storage keeps them; `inventory.listing` applies the dealer's policy (rooftops, fees, what the
feed's price means) and makes the `Vehicle` that buyers see. So a change of policy never needs the feed again.
"""

from datetime import date, datetime

from msgspec import UNSET, Struct, UnsetType

from dealer_agent.protocol.vehicle import Fee, ListingStatus, Natural, SaleCondition, Scalar, VehicleType


class Unit(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """At least one of `vin` and `stock` is there. Money is whole US dollars, mileage is miles.

    `selling_price` is the feed's own price, whatever it includes; `rooftop_hints` are the feed's dealer ids and names, best
    first; `feed_updated_at` is the feed's own time for the unit; `extras` are members of the dealer's to pass through.
    """

    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET
    vehicle_id: str | UnsetType = UNSET
    rooftop_hints: tuple[str, ...] = ()
    status: ListingStatus = "available"
    vehicle_type: VehicleType | UnsetType = UNSET
    year: int | UnsetType = UNSET
    make: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    trim: str | UnsetType = UNSET
    condition: SaleCondition | UnsetType = UNSET
    selling_price: Natural | UnsetType = UNSET
    list_price: Natural | UnsetType = UNSET
    msrp: Natural | UnsetType = UNSET
    fees: tuple[Fee, ...] | UnsetType = UNSET
    mileage: Natural | UnsetType = UNSET
    body: str | UnsetType = UNSET
    transmission: str | UnsetType = UNSET
    driveline: str | UnsetType = UNSET
    engine: str | UnsetType = UNSET
    displacement_cc: Natural | UnsetType = UNSET
    fuel: str | UnsetType = UNSET
    city_mpg: Natural | UnsetType = UNSET
    highway_mpg: Natural | UnsetType = UNSET
    electric_range_mi: float | UnsetType = UNSET
    battery_kwh: float | UnsetType = UNSET
    motor_power_hp: float | UnsetType = UNSET
    dc_fast_charge: bool | UnsetType = UNSET
    charge_port: str | UnsetType = UNSET
    exterior_color: str | UnsetType = UNSET
    interior_color: str | UnsetType = UNSET
    features: tuple[str, ...] | UnsetType = UNSET
    photos: tuple[str, ...] | UnsetType = UNSET
    vdp_url: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    notes: str | UnsetType = UNSET
    other_attributes: dict[str, Scalar] | UnsetType = UNSET
    inventory_date: date | UnsetType = UNSET
    feed_updated_at: datetime | UnsetType = UNSET
    extras: dict[str, Scalar] = {}
