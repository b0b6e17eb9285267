"""Defines the parts of request payloads; `protocol.skill` has the payloads. Pure types.

They decode and validate requests, and the schemas under `/schemas/` are generated from them, with their docstrings.
An optional member is `UNSET` if it is absent. Null is always a wrong type.

Every string, array and object has a bound (docs/protocol.md#bounds). The decoder enforces the bounds of reading skills
(`Meta(max_length=...)`). The bounds of a lead are only in its schema (`bounded(...)`), so a stored lead decodes even if
the bounds were wider when it came.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct

from dealer_agent.protocol.vehicle import FIELDS, SaleCondition, VehicleMembers
from dealer_agent.protocol.vehicle_field import AnyOf, Exact, IsTrue, Natural, Range, VehicleField, Word

Query = Annotated[str, Meta(max_length=200)]


def bounded(**keywords: int | str) -> Meta:
    """An annotation with JSON Schema keywords that the decoder does not enforce."""
    return Meta(extra_json_schema=keywords)


STRING_LENGTH: Final = 2_000
"""The most characters of a string in a lead, if its type has no other bound."""

EXTRA_MEMBERS: Final = 200
"""The most members of an object in a lead that allows unknown members."""
EXTRA_NAME_LENGTH: Final = 200
"""The most characters of the name of a member in a lead."""

LEAD_VEHICLE_BOUNDS: Final[Mapping[str, Mapping[str, int]]] = {
    name: row.field.lead_bounds for name, row in FIELDS.items() if row.field.lead_bounds is not None
}
"""Bounds of the vehicles in a lead. A dealer's own listings do not have them."""


def filter_members(row: VehicleField) -> Mapping[str, tuple[Any, str]]:
    """The type and description of each filter of a field, by the name of the filter."""
    match row.filter:
        case AnyOf() as any_of:
            value = row.value_type if get_origin(row.value_type) is Literal else Word
            values = Annotated[list[value], Meta(max_length=100)]  # type: ignore[valid-type]
            return {any_of.name or row.name: (values, any_of.description)}
        case Range() as bounds:
            least = {f"{row.name}_min": (bounds.bound, bounds.description)} if bounds.minimum else {}
            return least | {f"{row.name}_max": (bounds.bound, bounds.max_description or bounds.description)}
        case IsTrue(description=description):
            return {row.name: (bool, description)}
        case Exact(description=description, value=value):
            return {row.name: (value, description)}
        case None:
            return {}


FILTERED: Final = sorted((row for row in FIELDS.values() if row.filter), key=attrgetter("filter.position"))
"""The fields that have a filter, in the published order."""

_FILTERS: dict[str, tuple[Any, str]] = {
    **{name: member for row in FILTERED for name, member in filter_members(row).items()},
    "query": (
        Query,
        "Every word must be found, as a word or the start of one, in what the listing says. Without `sort`, the best "
        "match comes first.",
    ),
}

FILTER_MEANINGS: Final = {name: description for name, (_, description) in _FILTERS.items() if description}
"""The description of each filter."""

_FilterMembers: Any = defstruct(
    "_FilterMembers",
    [(name, kind | UnsetType, UNSET) for name, (kind, _) in _FILTERS.items()],
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
)


class Filters(_FilterMembers):  # type: ignore[misc]  # Members derive from FIELDS; mypy treats each as Any.
    """Absent members and empty arrays mean no constraint. Texts match whole values without regard to case, accents,
    spacing and punctuation, and through well-known synonyms. Ranges include their ends; a listing without the value
    does not match a range on it.
    """


class RequestPayload(Struct, tag_field="type", frozen=True, forbid_unknown_fields=True):
    """The payload of a request. Its tag is its `type`."""


class Pagination(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the matching set to return."""

    skip: Natural | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


SORT_FIELDS: Final = tuple(name for name, row in FIELDS.items() if row.field.sort)
if TYPE_CHECKING:
    SortField = str
else:
    SortField = Literal[SORT_FIELDS]


class Sort(Struct, frozen=True, forbid_unknown_fields=True):
    """An order; both members are required. A listing without a value comes last in both directions."""

    field: SortField
    order: Literal["asc", "desc"]


class Privacy(Struct, frozen=True, forbid_unknown_fields=True):
    """Search anonymously. Send the customer's data only with a lead."""

    anonymous: bool | UnsetType = UNSET


Name = Annotated[str, bounded(maxLength=200)]
NonEmptyName = Annotated[str, Meta(min_length=1, extra_json_schema={"maxLength": 200})]
Url = Annotated[str, bounded(maxLength=2_000)]


class Address(Struct, frozen=True):
    """A postal address; every member is a string."""

    address_line_1: Name | UnsetType = UNSET
    address_line_2: Name | UnsetType = UNSET
    city: Name | UnsetType = UNSET
    state: Name | UnsetType = UNSET
    zip: Name | UnsetType = UNSET
    country: Name | UnsetType = UNSET


Channel = Literal["email", "phone", "sms"]
LONGEST: Final = {"email": 254, "phone": 64, "date-time": 64, "date-time-local": 64, "timezone": 64}
"""The most characters of a text of each format."""

# `protocol.formats` checks the formats. It rejects longer texts without parsing them.
Email = Annotated[str, bounded(format="email", maxLength=LONGEST["email"])]
Phone = Annotated[str, bounded(format="phone", maxLength=LONGEST["phone"], description="With a leading +")]
Timestamp = Annotated[str, bounded(format="date-time", maxLength=LONGEST["date-time"])]
LocalTimestamp = Annotated[str, bounded(format="date-time-local", maxLength=LONGEST["date-time-local"])]
ZoneName = Annotated[str, bounded(format="timezone", maxLength=LONGEST["timezone"], description="IANA zone name")]


class Customer(Struct, frozen=True, forbid_unknown_fields=True):
    """A name, and an e-mail address or a phone number."""

    first_name: NonEmptyName
    last_name: NonEmptyName
    email: Email | UnsetType = UNSET
    phone: Phone | UnsetType = UNSET
    preferred_contact: Literal["email", "phone", "sms", "any"] | UnsetType = UNSET
    address: Address | UnsetType = UNSET


class Consent(Struct, frozen=True, forbid_unknown_fields=True):
    """What the customer agreed to, when, and through which channels."""

    granted_at: Timestamp
    allowed_channels: Annotated[list[Channel], Meta(min_length=1, extra_json_schema={"maxItems": 20})]
    consent_text: Annotated[str, Meta(min_length=1, extra_json_schema={"maxLength": 10_000})]
    scope: Annotated[list[Name], Meta(min_length=1, extra_json_schema={"maxItems": 20})]
    source_agent: Name | UnsetType = UNSET
    expires_at: Timestamp | UnsetType = UNSET


class SourceAgent(Struct, frozen=True):
    """The submitting buyer agent, in the long form."""

    name: NonEmptyName
    url: Url | UnsetType = UNSET
    agent_card_url: Url | UnsetType = UNSET


VisitKind = Literal["sales", "service", "test_drive", "trade_in", "handover", "phone_call", "video_call"]
"""A kind of visit in the settings of a dealer."""

AppointmentType = Literal[VisitKind, "showroom_visit", "trade_in_appraisal"]

VISIT_KIND_OF: Final[Mapping[AppointmentType, VisitKind]] = {
    **{kind: kind for kind in get_args(VisitKind)},
    "showroom_visit": "sales",
    "trade_in_appraisal": "trade_in",
}
"""The kind of visit for each `appointment_type` of both revisions."""


class RequestedWindow(Struct, frozen=True):
    """A period in which the buyer can visit."""

    start: LocalTimestamp
    end: LocalTimestamp | UnsetType = UNSET


class Appointment(Struct, frozen=True, forbid_unknown_fields=True):
    """A requested visit: with windows or with one time, never both. Both protocol revisions accept both forms."""

    appointment_type: AppointmentType
    requested_windows: (
        Annotated[list[RequestedWindow], Meta(min_length=1, extra_json_schema={"maxItems": 20})] | UnsetType
    ) = UNSET
    appointment_at: Timestamp | UnsetType = UNSET
    timezone: ZoneName | UnsetType = UNSET
    duration_minutes: Annotated[int, Meta(ge=15, le=2**63 - 1)] | UnsetType = UNSET
    notes: Annotated[str, Meta(max_length=2000)] | UnsetType = UNSET


class VehicleOfInterest(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """The vehicle that the buyer asks about. All members are optional."""

    vehicle_id: str | UnsetType = UNSET
    condition: SaleCondition | UnsetType = UNSET
    price: Natural | UnsetType = UNSET
    rooftop: str | UnsetType = UNSET


class TradeIn(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """The vehicle that the buyer would trade in. All members are optional. `condition` is a grade."""

    condition: Literal["excellent", "good", "fair", "poor"] | UnsetType = UNSET
