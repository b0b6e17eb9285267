"""The tools of DMC-12 that this service offers, with the schemas of their arguments. Pure.

The schemas are those of DMC-12 0.6.0. Where DMC-12 names no bound, there is one: every input has a bound.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dealer_agent.protocol.problems import Problem
from dealer_agent.protocol.request_problems import Checker, list_problems
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_QUOTE,
    OFFER_RELEASE,
    OFFER_STATUS,
    Skill,
)

Json = dict[str, Any]

MOST_LISTED: Final = 100
"""The most vehicles of a page of list_inventory."""
MOST_OFFSET: Final = 1_000_000
MOST_DOLLARS: Final = 999_999_999
LONGEST_NOTES: Final = 500

VIN: Final[Json] = {"type": "string", "pattern": "^[A-HJ-NPR-Z0-9]{17}$", "maxLength": 17}
_YEAR: Final[Json] = {"type": "integer", "minimum": 1990, "maximum": 2030}
_CONDITION: Final[Json] = {"enum": ["new", "used", "certified", "cpo", "rental", "demo", "any"]}


def _text(most: int, least: int = 0) -> Json:
    return {"type": "string", "maxLength": most} | ({"minLength": least} if least else {})


def _number(most: int) -> Json:
    return {"type": "number", "minimum": 0, "maximum": most}


def _whole(most: int, least: int = 0) -> Json:
    return {"type": "integer", "minimum": least, "maximum": most}


def _or_null(schema: Json) -> Json:
    return schema | {"type": [schema["type"], "null"]}


def _object(properties: Json, *required: str) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **({"required": [*required]} if required else {}),
    }


_REFERENCE: Final = _or_null(_text(200)) | {"description": "The agent's own name for the buyer. No personal data."}
_TOKEN: Final = _object({"reservation_token": _text(80, 10)}, "reservation_token")
_MONEY: Final = _object(
    {"amount": _number(MOST_DOLLARS), "currency": {"type": "string", "pattern": "^[A-Z]{3}$", "maxLength": 3}},
    "amount",
    "currency",
)
_CONTACT: Final = _object(
    {
        "name": _text(120, 1),
        "phone": {"type": "string", "pattern": r"^\+[1-9][0-9]{6,14}$", "maxLength": 16},
        "email": {"type": "string", "format": "email", "maxLength": 320},
    },
    "name",
    "phone",
    "email",
)
_TRADE_IN: Final = _object(
    {
        "description": _text(500),
        "appraised_value_partner": _MONEY,
        "vin": VIN,
        "year": _whole(2100, 1900),
        "make": _text(40),
        "model": _text(80),
        "mileage": _whole(1_000_000),
        "condition": {"enum": ["excellent", "good", "fair", "poor"]},
    }
)
_CONSENT: Final = _object(
    {
        "allowed_channels": {
            "type": "array",
            "items": {"enum": ["email", "phone", "sms"]},
            "minItems": 1,
            "maxItems": 3,
            "uniqueItems": True,
        },
        "expires_at": {"type": "string", "format": "date-time", "maxLength": 64},
        "consent_text": _or_null(_text(2000)),
    },
    "allowed_channels",
    "expires_at",
)


@dataclass(frozen=True, eq=False)
class Dmc12Tool:
    """A tool. `skill` is the skill that answers it, and `scope` the scope that DMC-12 names for it."""

    name: str
    skill: Skill
    scope: str
    description: str
    arguments: Json

    @cached_property
    def _checker(self) -> Checker:
        return Checker(self.arguments)

    def problems(self, arguments: Json) -> list[Problem]:
        """What is wrong with the arguments of a call. Its name may be among them, as some published schemas have it."""
        sent = {name: value for name, value in arguments.items() if (name, value) != ("tool", self.name)}
        return list_problems(self._checker, sent)

    @property
    def listed(self) -> Json:
        """The tool as `tools/list` has it."""
        reads = self.skill in (DEALER_INFORMATION, INVENTORY_SEARCH, INVENTORY_VEHICLE, OFFER_STATUS)
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.arguments,
            "annotations": {"readOnlyHint": reads, "destructiveHint": False, "openWorldHint": self.skill.is_lead},
        }


SEARCH_INVENTORY: Final = Dmc12Tool(
    "search_inventory",
    INVENTORY_SEARCH,
    "inventory:read",
    "Available vehicles that match. Every word of `query` must be in the listing. Without `query`, by price.",
    _object(
        {
            "query": _text(500, 1),
            "min_year": _YEAR,
            "max_year": _YEAR,
            "min_price": _number(999_999),
            "max_price": _number(999_999),
            "max_mileage": _whole(500_000),
            "condition": _CONDITION,
            "sort_by": {"enum": ["relevance", "price", "mileage", "year"], "default": "relevance"},
            "sort_order": {"enum": ["asc", "desc"], "default": "asc"},
            "limit": _whole(25, 1) | {"default": 10},
        }
    ),
)
LIST_INVENTORY: Final = Dmc12Tool(
    "list_inventory",
    INVENTORY_SEARCH,
    "inventory:read",
    "A page of the available vehicles that match, by price, with the number of all of them.",
    _object(
        {
            "year": _YEAR,
            "min_year": _YEAR,
            "max_year": _YEAR,
            "make": _text(40),
            "model": _text(60),
            "trim": _text(80),
            "condition": _CONDITION,
            "min_price": _number(MOST_DOLLARS),
            "max_price": _number(MOST_DOLLARS),
            "max_mileage": _whole(MOST_DOLLARS),
            "limit": _whole(MOST_LISTED, 1) | {"default": 25},
            "offset": _whole(MOST_OFFSET) | {"default": 0},
        }
    ),
)
GET_VEHICLE: Final = Dmc12Tool(
    "get_vehicle_by_vin",
    INVENTORY_VEHICLE,
    "inventory:read",
    "One vehicle.",
    _object({"vin": VIN}, "vin"),
)
CHECK_AVAILABILITY: Final = Dmc12Tool(
    "check_availability",
    INVENTORY_VEHICLE,
    "inventory:read",
    "Whether vehicles are still there: each is available, pending, off-lot, sold or unknown.",
    _object({"vins": {"type": "array", "items": VIN, "minItems": 1, "maxItems": 50}}, "vins"),
)
LIST_STORES: Final = Dmc12Tool(
    "list_stores",
    DEALER_INFORMATION,
    "inventory:read",
    "The dealer's sales locations, by the `store_code` that each vehicle has.",
    _object({}),
)
PRICING_DISCLOSURE: Final = Dmc12Tool(
    "get_pricing_disclosure",
    INVENTORY_VEHICLE,
    "pricing:read",
    "What a vehicle costs in all: its price, the dealer's fees, and estimated taxes and charges, line by line.",
    _object({"vin": VIN}, "vin"),
)
REQUEST_QUOTE: Final = Dmc12Tool(
    "request_quote",
    OFFER_QUOTE,
    "quote:write",
    "A quote: the dealer keeps `quoted_price` until `expires_at`, unless the vehicle is sold.",
    _object({"vin": VIN, "buyer_ref": _REFERENCE}, "vin"),
)
CREATE_RESERVATION: Final = Dmc12Tool(
    "create_reservation",
    OFFER_HOLD,
    "reservation:write",
    "Holds the vehicle of a quote for a time. Only for agents that prove who they are. It is not a contract.",
    _object({"quote_id": _text(64, 10), "customer_ref": _REFERENCE}, "quote_id"),
)
RELEASE_RESERVATION: Final = Dmc12Tool(
    "release_reservation",
    OFFER_RELEASE,
    "reservation:write",
    "Ends a reservation of the same agent. To end it again changes nothing.",
    _TOKEN,
)
RESERVATION_STATUS: Final = Dmc12Tool(
    "get_reservation_status",
    OFFER_STATUS,
    "reservation:write",
    "What became of a reservation of the same agent.",
    _TOKEN,
)
DEAL_HANDOFF: Final = Dmc12Tool(
    "initiate_deal_handoff",
    LEAD_SUBMIT,
    "deal:handoff",
    "Gives the dealer's staff the customer of an active reservation. Only with the customer's own consent.",
    _object(
        {
            "reservation_token": _text(80, 10),
            "customer_contact": _CONTACT,
            "financing_preference": {"enum": ["cash", "finance", "lease", "unknown"]},
            "trade_in_disclosed": {"type": "boolean"},
            "trade_in": _TRADE_IN,
            "notes": _or_null(_text(LONGEST_NOTES)),
            "customer_consent": {"const": True},
            "consent": _CONSENT,
        },
        "reservation_token",
        "customer_contact",
        "financing_preference",
        "trade_in_disclosed",
        "customer_consent",
    ),
)

TOOLS: Final = (
    SEARCH_INVENTORY,
    LIST_INVENTORY,
    GET_VEHICLE,
    CHECK_AVAILABILITY,
    LIST_STORES,
    PRICING_DISCLOSURE,
    REQUEST_QUOTE,
    CREATE_RESERVATION,
    RELEASE_RESERVATION,
    RESERVATION_STATUS,
    DEAL_HANDOFF,
)
TOOL_BY_NAME: Final = {tool.name: tool for tool in TOOLS}


def tools_of(skills: frozenset[str]) -> list[Dmc12Tool]:
    """The tools of a dealer that offers these skills."""
    return [tool for tool in TOOLS if tool.skill.id in skills]
