"""The five request payloads (specification, parts 2.2 to 2.7; contract, parts 5 to 10). Pure types.

These types decode, validate and publish: the JSON Schemas under `/schemas/` are generated from them.
An optional member is `UNSET` when absent; null is a wrong type everywhere.

Every string, array and object has a bound (contract, part 10). The decoder enforces the bounds of reading skills
(`Meta(max_length=...)`). The bounds of a lead are only in its schema (`bounded(...)`), against which every lead is
checked. So a stored lead with wider bounds still decodes.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.formats import LONGEST
from dealer_agent.protocol.vehicle import Natural, SaleCondition, VehicleMembers, VehicleType

Year = Annotated[int, Meta(ge=1900, le=2100)]
# `\Z`, not `$`: a `$` lets a trailing newline through.
Vin = Annotated[str, Meta(pattern=r"^[A-HJ-NPR-Z0-9]{17}\Z")]
Query = Annotated[str, Meta(max_length=200)]
Word = Annotated[str, Meta(max_length=200)]
Words = Annotated[list[Word], Meta(max_length=100)]


def bounded(**keywords: int | str) -> Meta:
    """Annotation: JSON Schema keywords that are checked and published, but not enforced by the decoder."""
    return Meta(extra_json_schema=keywords)


STRING_LENGTH: Final = 2_000
"""The most characters of a string in a lead, when its type has no other bound."""

EXTRA_MEMBERS: Final = 200
EXTRA_NAME_LENGTH: Final = 200
"""The most members of an object in a lead that allows unknown ones, and the most characters of a member's name."""

LEAD_VEHICLE_BOUNDS: Final[Mapping[str, Mapping[str, int]]] = {
    "description": {"maxLength": 20_000},
    "notes": {"maxLength": 20_000},
    "features": {"maxItems": 500},
    "photos": {"maxItems": 200},
    "fees": {"maxItems": 50},
    "other_attributes": {"maxProperties": EXTRA_MEMBERS},
}
"""Bounds of the members of a lead's vehicles, which a dealer's own listings do not have."""


class Filters(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The flat filter block (2.4). Absent members and empty arrays mean no constraint; ranges include their ends."""

    make: Words | UnsetType = UNSET
    model: Words | UnsetType = UNSET
    trim: Words | UnsetType = UNSET
    condition: Annotated[list[SaleCondition], Meta(max_length=100)] | UnsetType = UNSET
    vehicle_type: Annotated[list[VehicleType], Meta(max_length=100)] | UnsetType = UNSET
    transmission: Words | UnsetType = UNSET
    fuel: Words | UnsetType = UNSET
    electric_range_mi_min: Natural | UnsetType = UNSET
    electric_range_mi_max: Natural | UnsetType = UNSET
    dc_fast_charge: bool | UnsetType = UNSET
    charge_port: Words | UnsetType = UNSET
    driveline: Words | UnsetType = UNSET
    body: Words | UnsetType = UNSET
    displacement_cc_min: Natural | UnsetType = UNSET
    displacement_cc_max: Natural | UnsetType = UNSET
    exterior_color: Words | UnsetType = UNSET
    interior_color: Words | UnsetType = UNSET
    rooftops: Words | UnsetType = UNSET
    year_min: Year | UnsetType = UNSET
    year_max: Year | UnsetType = UNSET
    price_min: Natural | UnsetType = UNSET
    price_max: Natural | UnsetType = UNSET
    mileage_max: Natural | UnsetType = UNSET
    vin: Vin | UnsetType = UNSET
    stock: Word | UnsetType = UNSET
    query: Query | UnsetType = UNSET


class Pagination(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the matching set (2.4): results to skip, and the most to return (1 to 1000)."""

    skip: Natural | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


SortField = Literal["price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at"]


class Sort(Struct, frozen=True, forbid_unknown_fields=True):
    """An order (2.4); both members are required."""

    field: SortField
    order: Literal["asc", "desc"]


class Privacy(Struct, frozen=True, forbid_unknown_fields=True):
    """`anonymous` is true when no user-identifying information accompanies the request (2.4)."""

    anonymous: bool | UnsetType = UNSET


Name = Annotated[str, bounded(maxLength=200)]
NonEmptyName = Annotated[str, Meta(min_length=1, extra_json_schema={"maxLength": 200})]
Url = Annotated[str, bounded(maxLength=2_000)]


class Address(Struct, frozen=True):
    """A postal address; every member is a string (2.7)."""

    address_line_1: Name | UnsetType = UNSET
    address_line_2: Name | UnsetType = UNSET
    city: Name | UnsetType = UNSET
    state: Name | UnsetType = UNSET
    zip: Name | UnsetType = UNSET
    country: Name | UnsetType = UNSET


Channel = Literal["email", "phone", "sms"]
# Formats are checked by `protocol.formats`, on the same schema that is published. It rejects longer texts unread.
Email = Annotated[str, bounded(format="email", maxLength=LONGEST["email"])]
Phone = Annotated[str, bounded(format="phone", maxLength=LONGEST["phone"], description="With a leading +")]
Timestamp = Annotated[str, bounded(format="date-time", maxLength=LONGEST["date-time"])]
LocalTimestamp = Annotated[str, bounded(format="date-time-local", maxLength=LONGEST["date-time-local"])]
ZoneName = Annotated[str, bounded(format="timezone", maxLength=LONGEST["timezone"], description="IANA zone name")]


class Customer(Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks: a name, and an e-mail address or a phone number in international form (2.7; contract, part 10)."""

    first_name: NonEmptyName
    last_name: NonEmptyName
    email: Email | UnsetType = UNSET
    phone: Phone | UnsetType = UNSET
    preferred_contact: Literal["email", "phone", "sms", "any"] | UnsetType = UNSET
    address: Address | UnsetType = UNSET


class Consent(Struct, frozen=True, forbid_unknown_fields=True):
    """What the customer agreed to, when, and through which channels (2.7; contract, part 10)."""

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


AppointmentType = Literal[
    "sales",
    "service",
    "test_drive",
    "trade_in",
    "showroom_visit",
    "handover",
    "phone_call",
    "video_call",
    "trade_in_appraisal",
]

VisitKind = Literal["sales", "service", "test_drive", "trade_in", "handover", "phone_call", "video_call"]
"""A kind of visit as dealers configure it."""

VISIT_KIND_OF: Final[Mapping[AppointmentType, VisitKind]] = {
    **{kind: kind for kind in get_args(VisitKind)},
    "showroom_visit": "sales",
    "trade_in_appraisal": "trade_in",
}
"""What the `appointment_type`s of both revisions ask for."""


class RequestedWindow(Struct, frozen=True):
    """A stretch of time that suits the buyer; ISO 8601, with an offset unless the appointment names a zone."""

    start: LocalTimestamp
    end: LocalTimestamp | UnsetType = UNSET


class Appointment(Struct, frozen=True, forbid_unknown_fields=True):
    """A visit asked for: by windows (revision 0.1.0) or by one time (1.0.0), never both (2.7; contract, part 10)."""

    appointment_type: AppointmentType
    requested_windows: (
        Annotated[list[RequestedWindow], Meta(min_length=1, extra_json_schema={"maxItems": 20})] | UnsetType
    ) = UNSET
    appointment_at: Timestamp | UnsetType = UNSET
    timezone: ZoneName | UnsetType = UNSET
    duration_minutes: Annotated[int, Meta(ge=15, le=2**63 - 1)] | UnsetType = UNSET
    notes: Annotated[str, Meta(max_length=2000)] | UnsetType = UNSET


class VehicleOfInterest(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """The vehicle a buyer asks about: any member of a listing and extras, none required (contract, part 10)."""

    vehicle_id: str | UnsetType = UNSET
    condition: SaleCondition | UnsetType = UNSET
    price: Natural | UnsetType = UNSET
    rooftop: str | UnsetType = UNSET


class TradeIn(VehicleMembers, frozen=True, omit_defaults=True, kw_only=True):
    """The vehicle a buyer would trade in; its condition is a quality grade (contract, part 10)."""

    condition: Literal["excellent", "good", "fair", "poor"] | UnsetType = UNSET
