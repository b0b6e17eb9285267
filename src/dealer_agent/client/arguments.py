"""The types of arguments. Written by `make docs` from the types of the protocol. Do not edit.

A member that is None is not sent. A time is a `datetime` with a time zone, or a text of RFC 3339.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Literal, NotRequired, TypedDict

SortOrder = Literal[
    "updated_at",
    "-updated_at",
    "price",
    "-price",
    "stock",
    "-stock",
    "year",
    "-year",
    "make",
    "-make",
    "model",
    "-model",
    "list_price",
    "-list_price",
    "msrp",
    "-msrp",
    "mileage",
    "-mileage",
]
"""A field, with a minus for descending order."""


class Filters(TypedDict):
    """Absent members and empty arrays mean no constraint. Texts match whole values without regard to case, accents,
    spacing and punctuation, and through well-known synonyms. Ranges include their ends; a listing without the value
    does not match a range on it."""

    make: NotRequired[list[str] | tuple[str, ...] | None]
    model: NotRequired[list[str] | tuple[str, ...] | None]
    trim: NotRequired[list[str] | tuple[str, ...] | None]
    condition: NotRequired[list[Literal["new", "used", "cpo"]] | tuple[Literal["new", "used", "cpo"], ...] | None]
    """Sale conditions to include."""
    vehicle_type: NotRequired[
        list[Literal["car", "motorcycle", "trailer", "rv", "other"]]
        | tuple[Literal["car", "motorcycle", "trailer", "rv", "other"], ...]
        | None
    ]
    """Types to include. A listing without a type counts as `car`."""
    transmission: NotRequired[list[str] | tuple[str, ...] | None]
    """automatic, manual, cvt, dct, single_speed. `automatic` finds neither cvt nor dct."""
    fuel: NotRequired[list[str] | tuple[str, ...] | None]
    """gas, diesel, hybrid, phev, bev, flex, hydrogen. `hybrid` does not find phev."""
    electric_range_mi_min: NotRequired[int | None]
    """Miles."""
    electric_range_mi_max: NotRequired[int | None]
    """Miles."""
    dc_fast_charge: NotRequired[bool | None]
    """When true, only vehicles that charge with direct current. False is not a constraint."""
    charge_port: NotRequired[list[str] | tuple[str, ...] | None]
    """nacs, ccs, j1772, chademo."""
    driveline: NotRequired[list[str] | tuple[str, ...] | None]
    """fwd, rwd, awd, 4wd, 2wd (axle unknown). `2wd` finds fwd, rwd and 2wd."""
    body: NotRequired[list[str] | tuple[str, ...] | None]
    """Body styles or segments. sedan, suv, truck, coupe, hatchback, wagon, convertible, minivan, van; motorcycles:
    cruiser, sport, touring, adventure, standard, scooter."""
    displacement_cc_min: NotRequired[int | None]
    """Cubic centimetres."""
    displacement_cc_max: NotRequired[int | None]
    """Cubic centimetres."""
    exterior_color: NotRequired[list[str] | tuple[str, ...] | None]
    """All words must be in the listing's colour; paint names count as their basic colour too."""
    interior_color: NotRequired[list[str] | tuple[str, ...] | None]
    """As for `exterior_color`."""
    rooftops: NotRequired[list[str] | tuple[str, ...] | None]
    """Names from dealer.information."""
    year_min: NotRequired[int | None]
    """Model year."""
    year_max: NotRequired[int | None]
    """Model year."""
    price_min: NotRequired[int | None]
    """Whole US dollars, of the advertised price."""
    price_max: NotRequired[int | None]
    """Whole US dollars, of the advertised price. Vehicles without a price do not match."""
    mileage_max: NotRequired[int | None]
    """Miles."""
    vin: NotRequired[str | None]
    """The exact VIN."""
    stock: NotRequired[str | None]
    """The stock number, without regard to case."""
    query: NotRequired[str | None]
    """Every word must be found, as a word or the start of one, in what the listing says. Without `sort`, the best
    match comes first."""


class Address(TypedDict):
    """A postal address; every member is a string."""

    address_line_1: NotRequired[str | None]
    address_line_2: NotRequired[str | None]
    city: NotRequired[str | None]
    state: NotRequired[str | None]
    zip: NotRequired[str | None]
    country: NotRequired[str | None]


class Customer(TypedDict):
    """A name, and an e-mail address or a phone number."""

    first_name: str
    last_name: str
    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    preferred_contact: NotRequired[Literal["email", "phone", "sms", "any"] | None]
    address: NotRequired[Address | None]


class Consent(TypedDict):
    """What the customer agreed to, when, and through which channels."""

    granted_at: str | datetime
    allowed_channels: list[Literal["email", "phone", "sms"]] | tuple[Literal["email", "phone", "sms"], ...]
    consent_text: str
    scope: list[str] | tuple[str, ...]
    source_agent: NotRequired[str | None]
    expires_at: NotRequired[str | datetime | None]


class SourceAgent(TypedDict):
    """The submitting buyer agent, in the long form."""

    name: str
    url: NotRequired[str | None]
    agent_card_url: NotRequired[str | None]


class Fee(TypedDict):
    """A mandatory dealer charge, in whole US dollars."""

    name: str
    amount: int


class VehicleMembers(TypedDict):
    """What a listing, a feed's unit, and a buyer's vehicle of interest or trade-in can all have."""

    vin: NotRequired[str | None]
    stock: NotRequired[str | None]
    vehicle_type: NotRequired[Literal["car", "motorcycle", "trailer", "rv", "other"] | None]
    year: NotRequired[int | None]
    make: NotRequired[str | None]
    model: NotRequired[str | None]
    trim: NotRequired[str | None]
    list_price: NotRequired[int | None]
    msrp: NotRequired[int | None]
    fees: NotRequired[list[Fee] | tuple[Fee, ...] | None]
    mileage: NotRequired[int | None]
    body: NotRequired[str | None]
    transmission: NotRequired[str | None]
    driveline: NotRequired[str | None]
    engine: NotRequired[str | None]
    displacement_cc: NotRequired[int | None]
    fuel: NotRequired[str | None]
    city_mpg: NotRequired[int | None]
    highway_mpg: NotRequired[int | None]
    electric_range_mi: NotRequired[float | None]
    battery_kwh: NotRequired[float | None]
    motor_power_hp: NotRequired[float | None]
    dc_fast_charge: NotRequired[bool | None]
    charge_port: NotRequired[str | None]
    exterior_color: NotRequired[str | None]
    interior_color: NotRequired[str | None]
    features: NotRequired[list[str] | tuple[str, ...] | None]
    photos: NotRequired[list[str] | tuple[str, ...] | None]
    vdp_url: NotRequired[str | None]
    description: NotRequired[str | None]
    notes: NotRequired[str | None]
    other_attributes: NotRequired[Mapping[str, str | int | float | bool] | None]
    inventory_date: NotRequired[str | date | None]


class VehicleOfInterest(VehicleMembers):
    """The vehicle that the buyer asks about. All members are optional."""

    vehicle_id: NotRequired[str | None]
    condition: NotRequired[Literal["new", "used", "cpo"] | None]
    price: NotRequired[int | None]
    rooftop: NotRequired[str | None]


class TradeIn(VehicleMembers):
    """The vehicle that the buyer would trade in. All members are optional. `condition` is a grade."""

    condition: NotRequired[Literal["excellent", "good", "fair", "poor"] | None]


class RequestedWindow(TypedDict):
    """A period in which the buyer can visit."""

    start: str | datetime
    end: NotRequired[str | datetime | None]


class Appointment(TypedDict):
    """A requested visit: with windows or with one time, never both. Both protocol revisions accept both forms."""

    appointment_type: Literal[
        "sales",
        "service",
        "test_drive",
        "trade_in",
        "handover",
        "phone_call",
        "video_call",
        "showroom_visit",
        "trade_in_appraisal",
    ]
    requested_windows: NotRequired[list[RequestedWindow] | tuple[RequestedWindow, ...] | None]
    appointment_at: NotRequired[str | datetime | None]
    timezone: NotRequired[str | None]
    duration_minutes: NotRequired[int | None]
    notes: NotRequired[str | None]


class LeadOffer(TypedDict):
    """The quote or the hold that a lead is about. Of both, the hold decides. Only for a request that names the offers
    extension. Other members are ignored."""

    quote_id: NotRequired[str | None]
    hold_id: NotRequired[str | None]
