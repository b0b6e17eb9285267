"""Defines what a row of the table of vehicle fields can contain. Pure types.

`protocol.vehicle` is the table. A field's row is the annotation of its member: the wire type, then a `Field`, and as
many of `AnyOf`, `Range`, `IsTrue`, `Exact` (filters), `Counts`, `MinMax` (facets), `LeadFact` and `Feed` as apply:

    seats: Annotated[Natural | UnsetType, Field("Seats"), Range(), MinMax(), Feed("whole", "Seats | Seating")] = UNSET

A `position` is the place in the published schemas and in texts. A row without one comes last.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""An integer from zero to the largest of 64 bits."""

Year = Annotated[int, Meta(ge=1900, le=2100)]
# `\Z`, not `$`: a `$` lets a trailing newline through.
Vin = Annotated[str, Meta(pattern=r"^[A-HJ-NPR-Z0-9]{17}\Z")]
Moment = Annotated[datetime, Meta(tz=True)]
"""A time with its offset. Responses have it in UTC."""
Word = Annotated[str, Meta(max_length=200)]

LAST: Final = 1_000
"""The position of a row that names none."""

WordListName = Literal[
    "body", "charge_port", "colour", "condition", "driveline", "fuel", "make", "status", "transmission", "vehicle_type"
]  # fmt: skip
"""The vocabularies of `inventory.canonical_words`. Each has the name of its field, but two fields share `colour`."""

SearchWeight = Literal["name", "fact", "identifier", "prose"]
"""The score of a free-text hit in the field: `name` the highest, then `fact` and `identifier`, then `prose`.

Identifiers and prose rarely repeat, so the catalogue has no column for them.
"""

CellParser = Literal[
    "address", "amount", "condition", "cubic_centimetres", "day", "dollars", "features", "line", "miles", "moment",
    "names", "photos", "prose", "status", "stock", "truth", "vehicle_type", "vin", "whole", "word", "year",
]  # fmt: skip
"""The parsers of feed cells, which are in `feeds.files.units`."""


class Field(Struct, frozen=True):
    """What every field of a vehicle has.

    `description` is published if the name and the schema do not say enough. `absent_means` is the value that filters
    and facets use for a listing without the field. `lead_bounds` are JSON Schema keywords for the field in a lead's
    vehicles. The dealer's own listings do not have these bounds.
    """

    label: str
    description: str = ""
    vocabulary: WordListName | None = None
    search: SearchWeight | None = None
    sort: bool = False
    absent_means: str | None = None
    lead_bounds: Mapping[str, int] | None = None


class AnyOf(Struct, frozen=True):
    """A filter that lists values. A listing with one of them matches. `name` is by default the field's."""

    position: int = LAST
    description: str = ""
    name: str = ""


class Range(Struct, frozen=True):
    """The filters `FIELD_min` and `FIELD_max`, ends included. Without `minimum` there is only `FIELD_max`."""

    position: int = LAST
    description: str = ""
    max_description: str = ""
    bound: Any = Natural
    minimum: bool = True


class IsTrue(Struct, frozen=True):
    """A filter that selects the listings where the field is true. False does not constrain."""

    position: int = LAST
    description: str = ""


class Exact(Struct, frozen=True):
    """A filter for an identifier. It has one value, not a list."""

    position: int = LAST
    description: str = ""
    value: Any = Word


class Counts(Struct, frozen=True):
    """A facet that counts the listings of each value."""

    name: str
    position: int = LAST


class MinMax(Struct, frozen=True):
    """The facet `FIELD_range`: the least and the greatest value."""

    position: int = LAST


class LeadFact(Struct, frozen=True):
    """A line `LABEL: VALUE UNIT` about a lead's vehicle. `claim_only`: only if the buyer describes the vehicle."""

    position: int = LAST
    unit: str = ""
    claim_only: bool = False


class Feed(Struct, frozen=True):
    """How an inventory feed gives the field.

    `columns` are its names in files of unknown origin, best first, separated by ` | `. `own_columns` are its names in
    the service's own layout, by default the member's. `member` is that of `inventory.listing.Unit`, by default the
    field's name. `limit` is the most characters. `more_columns` are further columns that the parser needs, by the
    name that the parser uses.
    """

    reader: CellParser
    columns: str = ""
    own_columns: str = ""
    member: str = ""
    limit: int = 0
    more_columns: Mapping[str, str] | None = None


class VehicleField(Struct, frozen=True):
    """One row of the table. `value_type` is the member's type without `Annotated` and `UnsetType`."""

    name: str
    value_type: Any
    field: Field
    filter: AnyOf | Range | IsTrue | Exact | None = None
    counts: Counts | None = None
    minmax: MinMax | None = None
    lead_fact: LeadFact | None = None
    feed: Feed | None = None
