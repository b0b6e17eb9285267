"""One vehicle listing, as search results and details carry it (contract, part 6). Pure types.

An absent member is unknown, never null. Money is whole US dollars, mileage is miles.
"""

from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

VehicleType = Literal["car", "motorcycle", "trailer", "rv", "other"]
SaleCondition = Literal["new", "used", "cpo"]
ListingStatus = Literal["available", "intransit", "pending"]

Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""An integer from zero to what 64 bits hold."""

Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its offset; it is sent in UTC."""

Scalar = str | int | float | bool


class Fee(Struct, frozen=True, omit_defaults=True):
    """A mandatory dealer charge, in whole US dollars."""

    name: str
    amount: Natural


class VehicleMembers(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a vehicle is, whoever speaks of it: a listing, a feed's unit, a buyer's wish or trade-in."""

    vin: str | UnsetType = UNSET
    stock: str | UnsetType = UNSET
    vehicle_type: VehicleType | UnsetType = UNSET
    year: Natural | UnsetType = UNSET
    make: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    trim: str | UnsetType = UNSET
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


class Vehicle(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """A listing. `vehicle_id`, `status`, `rooftop` and `updated_at` are always there.

    `price` is the advertised price with every mandatory dealer charge in it; `fees` are already inside it.
    """

    vehicle_id: str
    status: ListingStatus
    rooftop: str
    updated_at: Moment
    changed_at: Moment | UnsetType = UNSET
    dealer_id: str | UnsetType = UNSET
    condition: SaleCondition | UnsetType = UNSET
    price: Natural | UnsetType = UNSET
