"""The types of responses. Written by `make docs` from the types of the protocol. Do not edit.

A member that a response does not have is None. A word that is not in the protocol is kept as it is.
"""

from datetime import date
from typing import Any

from dealer_agent.client.result import Result, SkippedListing
from dealer_agent.protocol.vehicle_field import Moment


class GeoPoint(Result, frozen=True, kw_only=True):
    """WGS 84 degrees."""

    latitude: float
    longitude: float


class Named(Result, frozen=True, kw_only=True):
    """A labelled e-mail address or phone number."""

    name: str | None = None
    value: str


class PostalAddress(Result, frozen=True, kw_only=True):
    """A rooftop's postal address."""

    address_line_1: str | None = None
    city: str | None = None
    state: str | None = None
    zip: str | None = None
    address_line_2: str | None = None
    country: str | None = None


class OpenHours(Result, frozen=True, kw_only=True):
    """`HH:MM`, rooftop time. A `close` that is not later than `open` is on the next day."""

    open: str
    close: str


class Week(Result, frozen=True, kw_only=True):
    """Hours of each day; null when closed."""

    monday: OpenHours | None = None
    tuesday: OpenHours | None = None
    wednesday: OpenHours | None = None
    thursday: OpenHours | None = None
    friday: OpenHours | None = None
    saturday: OpenHours | None = None
    sunday: OpenHours | None = None


class Schedule(Result, frozen=True, kw_only=True):
    """The hours of one department (sales, service, ...)."""

    name: str | None = None
    value: Week


class Fee(Result, frozen=True, kw_only=True):
    """A mandatory dealer charge, in whole US dollars."""

    name: str
    amount: int


class Rooftop(Result, frozen=True, kw_only=True):
    """A sales location."""

    name: str
    legal_name: str | None = None
    website: str | None = None
    geo: GeoPoint | None = None
    emails: tuple[Named, ...] | None = None
    phones: tuple[Named, ...] | None = None
    address: PostalAddress | None = None
    schedules: tuple[Schedule, ...] | None = None
    timezone: str | None = None
    notes: str | None = None
    capabilities: tuple[str, ...] | None = None
    fees: tuple[Fee, ...] | None = None


class DealerInformation(Result, frozen=True, kw_only=True):
    """Who the dealer is. At least one rooftop."""

    name: str
    rooftops: tuple[Rooftop, ...]
    welcome_message: str | None = None


class TextCount(Result, frozen=True, kw_only=True):
    """How many listings of the matching set have this value."""

    value: str | int | float | bool
    count: int


class YearCount(Result, frozen=True, kw_only=True):
    """How many listings of the matching set have this model year."""

    value: str | int
    count: int


class IntRange(Result, frozen=True, kw_only=True):
    """Least and greatest value in the matching set."""

    min: int | float
    max: int | float


class FloatRange(Result, frozen=True, kw_only=True):
    """Least and greatest value in the matching set."""

    min: int | float
    max: int | float


class Facets(Result, frozen=True, kw_only=True):
    """Highest count first, then by value. A facet without a value in the matching set is left out."""

    makes: list[TextCount] | None = None
    models: list[TextCount] | None = None
    trims: list[TextCount] | None = None
    years: list[YearCount] | None = None
    conditions: list[TextCount] | None = None
    vehicle_types: list[TextCount] | None = None
    transmissions: list[TextCount] | None = None
    fuels: list[TextCount] | None = None
    dc_fast_charge: list[TextCount] | None = None
    charge_ports: list[TextCount] | None = None
    drivelines: list[TextCount] | None = None
    bodies: list[TextCount] | None = None
    exterior_colors: list[TextCount] | None = None
    interior_colors: list[TextCount] | None = None
    rooftops: list[TextCount] | None = None
    statuses: list[TextCount] | None = None
    price_range: IntRange | None = None
    mileage_range: IntRange | None = None
    year_range: IntRange | None = None
    displacement_cc_range: IntRange | None = None
    electric_range_mi_range: FloatRange | None = None


class Vehicle(Result, frozen=True, kw_only=True):
    """A listing. An absent member is unknown. A dealer can add members of its own."""

    vin: str | None = None
    stock: str | None = None
    vehicle_type: str | None = None
    """Absent means `car`."""
    year: int | None = None
    make: str | None = None
    model: str | None = None
    trim: str | None = None
    list_price: int | None = None
    """Whole US dollars."""
    msrp: int | None = None
    """Whole US dollars."""
    fees: tuple[Fee, ...] | None = None
    """Mandatory dealer charges, already inside `price`."""
    mileage: int | None = None
    """Miles."""
    body: str | None = None
    """sedan, suv, truck, coupe, hatchback, wagon, convertible, minivan, van; motorcycles: cruiser, sport, touring,
    adventure, standard, scooter. Other words of the dealer are kept."""
    transmission: str | None = None
    """automatic, manual, cvt, dct, single_speed. Other words of the dealer are kept."""
    driveline: str | None = None
    """fwd, rwd, awd, 4wd, 2wd (axle unknown). Other words of the dealer are kept."""
    engine: str | None = None
    displacement_cc: int | None = None
    """Cubic centimetres."""
    fuel: str | None = None
    """gas, diesel, hybrid, phev, bev, flex, hydrogen. Other words of the dealer are kept."""
    city_mpg: int | None = None
    """Miles per gallon."""
    highway_mpg: int | None = None
    """Miles per gallon."""
    electric_range_mi: float | None = None
    """Miles."""
    battery_kwh: float | None = None
    """Kilowatt-hours."""
    motor_power_hp: float | None = None
    """Horsepower."""
    dc_fast_charge: bool | None = None
    charge_port: str | None = None
    """nacs, ccs, j1772, chademo. Other words of the dealer are kept."""
    exterior_color: str | None = None
    interior_color: str | None = None
    features: tuple[str, ...] | None = None
    photos: tuple[str, ...] | None = None
    """URLs."""
    vdp_url: str | None = None
    """The vehicle's page on the dealer's website."""
    description: str | None = None
    notes: str | None = None
    other_attributes: dict[str, Any] | None = None
    """Facts of the dealer that have no member of their own."""
    inventory_date: date | None = None
    """When the unit came into stock."""
    vehicle_id: str | None = None
    """The dealer agent's own id of the unit; it never changes."""
    status: str
    rooftop: str | None = None
    """One of the names of dealer.information."""
    updated_at: Moment | None = None
    """RFC 3339. The feed's time for this unit, else the last import that confirmed it."""
    changed_at: Moment | None = None
    """RFC 3339. When price, status or content last changed."""
    dealer_id: str | None = None
    """The dealer's own id in the feed."""
    condition: str | None = None
    price: int | None = None
    """The advertised price in whole US dollars: with every mandatory dealer charge, without government charges."""


class SearchPage(Result, frozen=True, kw_only=True):
    """One page; `skip` and `limit` as they were applied."""

    total: int
    skip: int | None = None
    limit: int | None = None
    vehicles: list[Vehicle]
    skipped: tuple[SkippedListing, ...] = ()
    """The listings of the page that cannot be read. They are not in `vehicles`."""


class VehicleDetail(Vehicle, frozen=True, kw_only=True):
    """The listing, and what the buyer's ZIP code adds. `held_until`: an agent holds the vehicle until then. Only for a
    request that names the offers extension."""

    zip: str | None = None
    offered_price: int | None = None
    held_until: str | None = None


class TimeSlot(Result, frozen=True, kw_only=True):
    """RFC 3339 with the rooftop's offset."""

    start: str
    end: str | None = None


class AppointmentReply(Result, frozen=True, kw_only=True):
    """The result of the requested visit. Times have the UTC offset of the rooftop."""

    appointment_id: str
    status: str
    confirmed_at: str | None = None
    proposed_times: list[str] | None = None
    confirmed_window: TimeSlot | None = None
    proposed_slots: list[TimeSlot] | None = None


class DealerContact(Result, frozen=True, kw_only=True):
    """Whom the customer may call."""

    name: str | None = None
    phone: str | None = None


class LeadReceipt(Result, frozen=True, kw_only=True):
    """What became of the lead. `lead_secret` is for an anonymous sender that names the offers extension."""

    lead_id: str
    status: str
    appointment: AppointmentReply | None = None
    dealer: DealerContact | None = None
    lead_secret: str | None = None


class StockChange(Result, frozen=True, kw_only=True):
    """A listing that was added, changed or removed. `vehicle` is the listing as it is now; absent if it was
    removed."""

    vehicle_id: str
    change: str
    vehicle: Vehicle | None = None


class StockChanges(Result, frozen=True, kw_only=True):
    """A page of changes, in the order in which to apply them. With `more`, ask at once with this `cursor`. Without
    `more`, all changes together give what a search over everything answers. Ask again later."""

    changes: tuple[StockChange, ...]
    cursor: str
    more: bool


class QuotedVehicle(Result, frozen=True, kw_only=True):
    """The vehicle of a quote, as it was when the quote was made."""

    vehicle_id: str
    vin: str | None = None
    stock: str | None = None
    year: int | None = None
    make: str | None = None
    model: str | None = None
    trim: str | None = None
    condition: str | None = None
    mileage: int | None = None


class PriceLine(Result, frozen=True, kw_only=True):
    """A part of the all-in price. A firm line does not change while the quote is valid; others are estimates."""

    label: str
    kind: str
    payee: str
    amount: int | float
    firm: bool
    legal_basis: str | None = None


class Jurisdiction(Result, frozen=True, kw_only=True):
    """The place whose taxes and charges the lines are: that of the buyer's ZIP code, else that of the rooftop."""

    of: str
    state: str | None = None
    zip: str | None = None


class Quote(Result, frozen=True, kw_only=True):
    """The all-in price of a vehicle. The dealer keeps `price` until `valid_until`, unless the vehicle is gone. `total`
    is the sum of the lines. If it is not `complete`, `missing` names what is not in it. `stock_at` is when the feed
    last confirmed the vehicle. `signature` is a JWS (RFC 7515) of all other members."""

    quote_id: str
    vehicle: QuotedVehicle
    price: int | float
    lines: tuple[PriceLine, ...]
    total: int | float
    complete: bool
    missing: tuple[str, ...]
    jurisdiction: Jurisdiction
    currency: str
    created_at: str
    valid_until: str
    terms: str
    stock_at: str | None = None
    buyer_ref: str | None = None
    signature: str | None = None


class Hold(Result, frozen=True, kw_only=True):
    """A hold of a vehicle. It holds until `expires_at` while `status` is `active` or `became_lead`."""

    hold_id: str
    quote_id: str
    vehicle_id: str
    price: int | float
    currency: str
    created_at: str
    expires_at: str
    status: str
    terms: str


class VisitPlace(Result, frozen=True, kw_only=True):
    """The rooftop of a visit."""

    name: str
    address: PostalAddress | None = None


class LeadVisit(Result, frozen=True, kw_only=True):
    """A visit as it is now. `at` has the UTC offset of the rooftop; a visit without a time has none. `alternatives`
    are free times, if the visit needs another one."""

    appointment_id: str
    appointment_type: str
    status: str
    place: VisitPlace
    at: str | None = None
    duration_minutes: int | None = None
    alternatives: tuple[str, ...] | None = None


class LeadState(Result, frozen=True, kw_only=True):
    """What became of a lead. `visit` is its newest visit that can still be changed, else its newest one, or the one
    that was just moved or cancelled. `other_visits` are the others that can still be changed."""

    lead_id: str
    status: str
    received_at: str
    visit: LeadVisit | None = None
    other_visits: tuple[LeadVisit, ...] | None = None
