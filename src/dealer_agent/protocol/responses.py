"""The five response payloads' `data` (specification, part 2.5; contract, parts 5 to 10). Pure types."""

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from dealer_agent.protocol.vehicle import Fee


class Named(Struct, frozen=True):
    """A labelled e-mail address or phone number."""

    name: str
    value: str


class GeoPoint(Struct, frozen=True):
    """WGS 84 degrees."""

    latitude: float
    longitude: float


class PostalAddress(Struct, frozen=True):
    """A rooftop's address."""

    address_line_1: str
    city: str
    state: str
    zip: str
    address_line_2: str | UnsetType = UNSET
    country: str = "US"


class OpenHours(Struct, frozen=True):
    """`HH:MM`, rooftop time. A `close` that is not later than `open` is on the next day."""

    open: str
    close: str


class Week(Struct, frozen=True):
    """Hours of each day; null when closed."""

    monday: OpenHours | None = None
    tuesday: OpenHours | None = None
    wednesday: OpenHours | None = None
    thursday: OpenHours | None = None
    friday: OpenHours | None = None
    saturday: OpenHours | None = None
    sunday: OpenHours | None = None


class Schedule(Struct, frozen=True):
    """The hours of one department (sales, service, ...)."""

    name: str
    value: Week


class Rooftop(Struct, frozen=True, kw_only=True):
    """A sales location."""

    name: str
    legal_name: str | UnsetType = UNSET
    website: str | UnsetType = UNSET
    geo: GeoPoint | UnsetType = UNSET
    emails: tuple[Named, ...] | UnsetType = UNSET
    phones: tuple[Named, ...] | UnsetType = UNSET
    address: PostalAddress | UnsetType = UNSET
    schedules: tuple[Schedule, ...] | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    notes: str | UnsetType = UNSET
    capabilities: tuple[str, ...] | UnsetType = UNSET
    fees: tuple[Fee, ...] | UnsetType = UNSET


class TextCount(Struct, frozen=True):
    """How many listings of the matching set have this value."""

    value: str
    count: int


class YearCount(Struct, frozen=True):
    """How many listings of the matching set have this model year."""

    value: int
    count: int


class IntRange(Struct, frozen=True):
    """Least and greatest value in the matching set."""

    min: int
    max: int


class FloatRange(Struct, frozen=True):
    """Least and greatest value in the matching set."""

    min: float
    max: float


class Facets(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """inventory.facets (contract, part 8). Highest count first, then by value; a facet without a value is left out."""

    makes: list[TextCount] | UnsetType = UNSET
    models: list[TextCount] | UnsetType = UNSET
    trims: list[TextCount] | UnsetType = UNSET
    years: list[YearCount] | UnsetType = UNSET
    conditions: list[TextCount] | UnsetType = UNSET
    vehicle_types: list[TextCount] | UnsetType = UNSET
    transmissions: list[TextCount] | UnsetType = UNSET
    fuels: list[TextCount] | UnsetType = UNSET
    dc_fast_charge: list[TextCount] | UnsetType = UNSET
    charge_ports: list[TextCount] | UnsetType = UNSET
    drivelines: list[TextCount] | UnsetType = UNSET
    bodies: list[TextCount] | UnsetType = UNSET
    exterior_colors: list[TextCount] | UnsetType = UNSET
    interior_colors: list[TextCount] | UnsetType = UNSET
    rooftops: list[TextCount] | UnsetType = UNSET
    statuses: list[TextCount] | UnsetType = UNSET
    price_range: IntRange | UnsetType = UNSET
    mileage_range: IntRange | UnsetType = UNSET
    year_range: IntRange | UnsetType = UNSET
    displacement_cc_range: IntRange | UnsetType = UNSET
    electric_range_mi_range: FloatRange | UnsetType = UNSET


class TimeSlot(Struct, frozen=True):
    """RFC 3339 with the rooftop's offset."""

    start: str
    end: str


class AppointmentReply(Struct, frozen=True, kw_only=True):
    """What became of the visit asked for (contract, part 10)."""

    appointment_id: str
    status: Literal["requested", "proposed", "confirmed", "rejected"]
    confirmed_at: str | UnsetType = UNSET
    proposed_times: list[str] | UnsetType = UNSET
    confirmed_window: TimeSlot | UnsetType = UNSET
    proposed_slots: list[TimeSlot] | UnsetType = UNSET


class DealerContact(Struct, frozen=True):
    """Whom the customer may call."""

    name: str
    phone: str | UnsetType = UNSET


MESSAGE_LENGTH: Final = 2_000
"""The most characters of the `message` beside a lead's receipt."""
