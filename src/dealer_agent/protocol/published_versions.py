"""Describes the published versions of the public protocol in one table (docs/protocol.md#published-versions). Pure.

A row says how a version differs from what the service speaks at the root of a dealer. `protocol.version_payloads` and
`protocol.version_errors` apply the rows. docs/reference/published-versions.md shows the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import AUTOAGENT, Vocabularies
from dealer_agent.protocol.well_known import CARD_PATH

VersionName = Literal["1.0", "1.1", "1.2", "1.3", "next"]

VOCABULARIES: Final = Vocabularies(AUTOAGENT)
"""The vocabulary of all published versions."""

ERROR_TYPE_URL: Final = "https://autoagentprotocol.org/extensions/aap/error"
"""The `@type` of the error payload where `error.data` is an array."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class PublishedVersion:
    """How one version differs from docs/protocol.md.

    `left_out` are members of a listing that the version does not define: responses leave them out. `unsearchable` are
    fields without filters and facets. `price` says what the version calls `price`. Without `lists_all_problems`, the
    version allows an error with only the first problem.

    - `has_http_json`: beside JSON-RPC there is HTTP+JSON.
    - `has_area_prices`: `zip` and `offered_price`, and the sort by `offered_price`.
    - `agent_is_text`: `source_agent` of a lead is a string, and `consent.source_agent` is required. Otherwise it is a
      closed object, and `consent.source_agent` is forbidden.
    - `has_a2a_errors`: errors have the form and the numbers of A2A. Otherwise `error.data` is the error payload.
    - `needs_headers`: a request sends `A2A-Version`, and names the extension in `A2A-Extensions`. The card says that
      the extension is required.
    """

    name: VersionName
    extension_uri: str
    schemas: str
    price: str
    left_out: frozenset[str]
    unsearchable: frozenset[str] = frozenset()
    has_http_json: bool = False
    has_area_prices: bool = False
    agent_is_text: bool = False
    lists_all_problems: bool = True
    has_a2a_errors: bool = False
    needs_headers: bool = False

    @property
    def path(self) -> str:
        """The path of its addresses, below the root of a dealer."""
        return f"/aap/{self.name}"

    @property
    def card_path(self) -> str:
        """The path of its card."""
        return self.path + CARD_PATH

    def schema_url(self, skill: Skill, kind: Literal["request", "response"]) -> str:
        """The URL of the published schema of a payload."""
        return f"{self.schemas}{skill.stem}-{kind}.schema.json"


_NEVER_DEFINED = frozenset({"changed_at"})
"""Members that no published version defines."""
_WITHOUT_FEES = _NEVER_DEFINED | {"fees"}
_CARS_ONLY = _WITHOUT_FEES | {
    "vehicle_type",
    "displacement_cc",
    "battery_kwh",
    "motor_power_hp",
    "dc_fast_charge",
    "charge_port",
    "other_attributes",
}
# The listing has `electric_range_mi` in every version. Only its filters and its facet came later.
_NOT_SEARCHABLE = frozenset({"vehicle_type", "displacement_cc", "dc_fast_charge", "charge_port", "electric_range_mi"})

_FINAL_PRICE = "the final price: all incentives, fees and add-ons included"
_ADVERTISED_PRICE = "the advertised price: mandatory dealer charges included; tax, title and registration not"
_EXTENSIONS = "https://autoagentprotocol.org/extensions"
_SCHEMAS = "https://autoagentprotocol.org/v{}/schemas/"

_ROWS: Final = (
    PublishedVersion(
        name="1.0",
        extension_uri=f"{_EXTENSIONS}/a2a-automotive-retail/v1.0",
        schemas=_SCHEMAS.format("1.0"),
        price=_FINAL_PRICE,
        left_out=_CARS_ONLY,
        unsearchable=_NOT_SEARCHABLE,
        has_http_json=True,
        has_area_prices=True,
        agent_is_text=True,
        lists_all_problems=False,
    ),
    PublishedVersion(
        name="1.1",
        extension_uri=f"{_EXTENSIONS}/aap/v1.1",
        schemas=_SCHEMAS.format("1.1"),
        price=_FINAL_PRICE,
        left_out=_CARS_ONLY,
        unsearchable=_NOT_SEARCHABLE,
    ),
    PublishedVersion(
        name="1.2",
        extension_uri=f"{_EXTENSIONS}/aap/v1.2",
        schemas=_SCHEMAS.format("1.2"),
        price=_ADVERTISED_PRICE,
        left_out=_WITHOUT_FEES,
    ),
    PublishedVersion(
        name="1.3",
        extension_uri=f"{_EXTENSIONS}/aap/v1.3",
        schemas=_SCHEMAS.format("1.3"),
        price=_ADVERTISED_PRICE,
        left_out=_NEVER_DEFINED,
    ),
    PublishedVersion(
        name="next",
        # The draft's own placeholder. No domain ends with .invalid, so no released version can have this URI.
        extension_uri="https://draft.autoagentprotocol.invalid/extensions/aap/latest",
        # The draft changes no schema of a request or a response.
        schemas=_SCHEMAS.format("1.3"),
        price=_ADVERTISED_PRICE,
        left_out=_NEVER_DEFINED,
        has_a2a_errors=True,
        needs_headers=True,
    ),
)

PUBLISHED_VERSIONS: Final[Mapping[VersionName, PublishedVersion]] = {row.name: row for row in _ROWS}
"""Each version by its name, the oldest first."""

VIN_PATTERN: Final = "^[A-HJ-NPR-Z0-9]{17}$"
PHONE_PATTERN: Final = "^\\+[1-9][0-9]{1,14}$"

OTHER_ATTRIBUTE_ITEMS: Final = 100
"""The most entries of an array in `other_attributes` of a vehicle in a lead."""

LISTING_RULES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "vin": {"pattern": VIN_PATTERN},
        "year": {"minimum": 1900, "maximum": 2100},
        "electric_range_mi": {"minimum": 0},
        "battery_kwh": {"minimum": 0},
        "motor_power_hp": {"minimum": 0},
        "photos": {"items": {"type": "string", "maxLength": 2_000, "format": "uri"}},
        "vdp_url": {"format": "uri"},
        "fees": {"uniqueItems": True},
    }
)
"""What every version demands of members of a vehicle, in listings and in leads, and docs/protocol.md does not."""

LEAD_VEHICLE_RULES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        **LISTING_RULES,
        "status": {"enum": ["available", "intransit", "pending"]},
        "dealer_id": {"type": "string"},
        "vehicle_id": {"type": "string"},
        "price": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
        "updated_at": {"type": "string", "format": "date-time"},
        "rooftop": {"type": ["string", "null"]},
        "charge_port": {"type": ["string", "null"]},
        "other_attributes": {
            "additionalProperties": {
                "type": ["string", "number", "boolean", "array"],
                "items": {"type": ["string", "number"]},
                "maxItems": OTHER_ATTRIBUTE_ITEMS,
                # All entries have one type. Each problem has the pointer of its entry, which anyOf would not give.
                "if": {"type": "array", "contains": {"type": "string"}},
                "then": {"items": {"type": "string"}},
            }
        },
    }
)
"""The same for the vehicles of a lead. `null` stands for an absent member where a version allows it."""

AREA_RULES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "zip": {"type": "string", "pattern": "^[0-9]{5}(-[0-9]{4})?$"},
        "offered_price": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    }
)
"""The members of a vehicle that only versions with area prices define."""

FEE_RULES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {"name": {"type": "string", "minLength": 1, "maxLength": 120, "pattern": "\\S"}}
)
"""What versions with fees demand of a fee."""

VISIT_KINDS: Final = ("sales", "service", "test_drive", "trade_in")
APPOINTMENT_MEMBERS: Final = ("appointment_type", "appointment_at", "duration_minutes", "notes")
APPOINTMENT_REPLY_MEMBERS: Final = ("appointment_id", "status", "confirmed_at", "proposed_times")
SCOPE: Final = "lead_submission"
"""The only entry of `consent.scope`."""

CONDITIONS: Final = ("new", "used", "cpo", "excellent", "good", "fair", "poor")
"""The sale conditions and the grades. A word of the wrong list is INVALID_CONDITION."""
