"""Defines the parts of response payloads. Published schemas have the docstrings as descriptions. Pure types."""

from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from msgspec import UNSET, Struct, UnsetType, defstruct

from dealer_agent.protocol.vehicle import FIELDS, Fee
from dealer_agent.protocol.vehicle_field import VehicleField


class Named(Struct, frozen=True):
    """A labelled e-mail address or phone number."""

    name: str
    value: str


class GeoPoint(Struct, frozen=True):
    """WGS 84 degrees."""

    latitude: float
    longitude: float


class PostalAddress(Struct, frozen=True):
    """A rooftop's postal address."""

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


class Facet(NamedTuple):
    """A member of `Facets`, and the field whose values it counts."""

    name: str
    field: VehicleField
    wire_type: Any


_COUNTS: Final = {int: list[YearCount]}
_RANGES: Final = {int: IntRange, float: FloatRange}

COUNT_FACETS: Final = sorted(
    (
        Facet(row.counts.name, row, _COUNTS.get(row.value_type, list[TextCount]))
        for row in FIELDS.values()
        if row.counts
    ),
    key=attrgetter("field.counts.position"),
)
RANGE_FACETS: Final = sorted(
    (Facet(f"{row.name}_range", row, _RANGES[row.value_type]) for row in FIELDS.values() if row.minmax),
    key=attrgetter("field.minmax.position"),
)
"""The facets in the published order: first those that count values, then the ranges."""

_FacetMembers: Any = defstruct(
    "_FacetMembers",
    [(facet.name, facet.wire_type | UnsetType, UNSET) for facet in (*COUNT_FACETS, *RANGE_FACETS)],
    frozen=True,
    kw_only=True,
    omit_defaults=True,
)


class Facets(_FacetMembers):  # type: ignore[misc]  # Members derive from FIELDS; mypy treats each as Any.
    """Highest count first, then by value. A facet without a value in the matching set is left out."""


class TimeSlot(Struct, frozen=True):
    """RFC 3339 with the rooftop's offset."""

    start: str
    end: str


class AppointmentReply(Struct, frozen=True, kw_only=True):
    """The result of the requested visit. Times have the UTC offset of the rooftop."""

    appointment_id: str
    status: Literal["requested", "proposed", "confirmed", "rejected"]
    confirmed_at: str | UnsetType = UNSET
    proposed_times: list[str] | UnsetType = UNSET
    confirmed_window: TimeSlot | UnsetType = UNSET
    proposed_slots: list[TimeSlot] | UnsetType = UNSET


LeadStatus = Literal["received", "duplicate"]
"""The statuses of a stored lead."""


class DealerContact(Struct, frozen=True):
    """Whom the customer may call."""

    name: str
    phone: str | UnsetType = UNSET


MESSAGE_LENGTH: Final = 2_000
"""The most characters of the `message` beside a lead's receipt."""
