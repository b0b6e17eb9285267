"""The MCP tools: one for each skill but `inventory.changes`, with its texts, hints and schemas. Pure.

A tool has the id of its skill with `_` in place of the dot, as the settings of `[rate_limits]` have: some hosts refuse
a dot. The schemas are those under `/schemas/` without references, because many hosts do not follow references.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Final

from dealer_agent.protocol.requests import FILTER_MEANINGS
from dealer_agent.protocol.schemas import Schema, request_schema, response_schema
from dealer_agent.protocol.skill import (
    DEALER_INFORMATION,
    INVENTORY_FACETS,
    INVENTORY_SEARCH,
    INVENTORY_VEHICLE,
    LEAD_STATUS,
    LEAD_SUBMIT,
    OFFER_HOLD,
    OFFER_QUOTE,
    OFFER_RELEASE,
    OFFER_STATUS,
    VISIT_CANCEL,
    VISIT_MOVE,
    Skill,
)

KEY: Final = "idempotency_key"
"""The member that makes a repeated call one call. The server makes it."""
FILLED_IN_BY_THE_SERVER: Final = ("consent", KEY, "source_agent", "submitted_at")
"""Members of a lead that a model cannot send. They come from the person's answer, or are made for the call."""

_NO_USE = ("$defs", "$schema", "format", "maxItems", "maxLength", "maxProperties", "minItems", "minLength",
           "propertyNames", "title")  # fmt: skip
"""Keywords that tell a model nothing. The service checks them all the same."""
_LARGEST_INTEGER = 2**63 - 1

DETAILS: Final = "details"
"""The argument of inventory_search that asks for every member of each vehicle. It is not sent to the skill."""

LISTED: Final = (
    "vehicle_id", "year", "make", "model", "trim", "condition", "price", "mileage", "fuel", "driveline",
    "rooftop", "status",
)  # fmt: skip
"""The members of a vehicle in a page of results. With all members, 20 vehicles have 45 KB."""

_SHORTER: Final[Mapping[str, tuple[str, ...]]] = {
    "vehicle_of_interest": ("vehicle_id", "vin", "stock", "year", "make", "model", "trim", "rooftop"),
    "trade_in": (
        "vin", "year", "make", "model", "trim", "mileage", "exterior_color", "condition", "description",
    ),
}  # fmt: skip
"""The members that a model is shown of the vehicles in a lead. The service accepts the others too."""

_MEANINGS: Final[Mapping[str, str]] = {
    "appointment": (
        "A visit. Write the time as a clock at the dealer shows it, without an offset, and the time zone of the "
        'rooftop: {"appointment_type": "test_drive", "requested_windows": [{"start": "2026-11-28T10:00:00"}], '
        '"timezone": "America/Chicago"}. dealer_information has the hours, the zone and the local time.'
    ),
    "requested_windows": "Times that suit, the best first. `end` is optional. Not together with appointment_at.",
    "appointment_at": "Another form of one time, with an offset: 2026-11-28T10:00:00-06:00.",
    "vehicle_of_interest": "`vehicle_id` is enough.",
    "trade_in": "The shopper's own vehicle. `condition` is excellent, good, fair or poor: ask the shopper.",
    "phone": "With the country code: +12025550123.",
    "price_max": "Whole US dollars. Mandatory dealer fees are inside `price`, taxes are not. Vehicles without "
    "a price do not match.",
    "query": "One to three words of a listing, such as `sunroof` or `third row`. Not a sentence: every word must be "
    "found. Makes, prices and years belong into their own filters.",
}
"""Descriptions of members for models. They replace those of the schema."""


_OF_VISITS: Final = (VISIT_MOVE, VISIT_CANCEL)


@dataclass(frozen=True)
class Tool:
    """A tool. `advice` says when a model uses it; the description of its skill comes first."""

    skill: Skill
    advice: str

    @property
    def name(self) -> str:
        """The name, such as `inventory_search`."""
        return self.skill.rate_setting

    @property
    def description(self) -> str:
        """What the tool does, and when a model uses it."""
        return f"{self.skill.description} {self.advice}"

    @property
    def annotations(self) -> Mapping[str, bool | str]:
        """The hints of MCP. A lead reaches people, and two leads are two leads. A quote changes nothing."""
        changes = self.skill in (LEAD_SUBMIT, OFFER_HOLD, OFFER_RELEASE, *_OF_VISITS)
        return {
            "title": self.skill.name,
            "readOnlyHint": not changes,
            "destructiveHint": self.skill in _OF_VISITS,
            "idempotentHint": self.skill not in (LEAD_SUBMIT, OFFER_QUOTE),
            "openWorldHint": self.skill is LEAD_SUBMIT or self.skill in _OF_VISITS,
        }

    @cached_property
    def input_schema(self) -> Schema:
        """The schema of the arguments: the request payload without `type` and without what the server makes.

        It has no `allOf` or `anyOf` at its top, which some models' interfaces refuse. The description says the same.
        """
        published = request_schema(self.skill)
        schema = _inlined(published, published.get("$defs", {}))
        for keyword in ("allOf", "description"):
            # The description of the tool says the same.
            schema.pop(keyword, None)
        left_out = {"type", *(FILLED_IN_BY_THE_SERVER if self.skill.is_lead else (KEY,))}
        schema["properties"] = {
            name: member for name, member in schema.get("properties", {}).items() if name not in left_out
        }
        required = [name for name in schema.pop("required", ()) if name not in left_out]
        for name, members in _SHORTER.items():
            if vehicle := schema["properties"].get(name):
                vehicle["properties"] = {member: vehicle["properties"][member] for member in members}
        _describe(schema)
        if self.skill is INVENTORY_SEARCH:
            schema["properties"][DETAILS] = {
                "type": "boolean",
                "description": "Every member of each vehicle, about 2 KB each. inventory_vehicle has all of one.",
            }
        return schema | ({"required": required} if required else {})

    @cached_property
    def output_schema(self) -> Schema:
        """The schema of the structured result: the `data` of the response. For a lead, it has the `message` too."""
        published = response_schema(self.skill)
        members = _inlined(published, published.get("$defs", {}))["properties"]
        schema: Schema = members["data"]
        if self.skill.is_lead:
            schema["properties"] = schema["properties"] | {"message": members["message"]}
        if self.skill is INVENTORY_SEARCH:
            vehicle = schema["properties"]["vehicles"]["items"]
            vehicle["required"] = [name for name in vehicle["required"] if name in LISTED]
        return schema


def _describe(schema: Schema) -> None:
    """Gives the members their meanings for a model."""
    for name, member in schema.get("properties", {}).items():
        if meaning := _MEANINGS.get(name) or FILTER_MEANINGS.get(name):
            member["description"] = meaning
        if "properties" in member:
            _describe(member)


def compact_page(data: Mapping[str, Any]) -> dict[str, Any]:
    """A page of vehicles with their LISTED members."""
    vehicles = [{name: each[name] for name in LISTED if name in each} for each in data["vehicles"]]
    return {**data, "vehicles": vehicles}


def _inlined(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """Returns the schema of a tool's arguments for a model: each `$ref` is replaced by the schema that it names.

    Keywords that tell a model nothing are left out: those of _NO_USE, and a maximum that every integer has. It ends,
    because no schema of the protocol contains itself.
    """
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]] | _without(schema, "$ref"), definitions)
    made: Schema = {}
    for keyword, value in _without(schema, *_NO_USE).items():
        if keyword == "properties":
            made[keyword] = {name: _inlined(member, definitions) for name, member in value.items()}
        elif keyword == "maximum" and value == _LARGEST_INTEGER:
            continue
        elif isinstance(value, dict):
            made[keyword] = _inlined(value, definitions)
        elif keyword in ("allOf", "anyOf"):
            made[keyword] = [_inlined(branch, definitions) for branch in value]
        else:
            made[keyword] = value
    return made


def _without(schema: Schema, *keywords: str) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


TOOLS: Final = (
    Tool(DEALER_INFORMATION, "It also has the time zone and the local time of each rooftop, and special hours."),
    Tool(
        INVENTORY_FACETS,
        "It shows which words and ranges find something: use it first, and when a search finds nothing. It takes the "
        "filters of inventory_search.",
    ),
    Tool(
        INVENTORY_SEARCH,
        "A short list: inventory_vehicle has photos, fees, features and the rest. Every limit belongs into `filters`, "
        'with the words of inventory_facets: {"filters": {"fuel": ["hybrid"], "price_max": 30000}, "sort": {"field": '
        '"price", "order": "asc"}, "pagination": {"limit": 5}}.',
    ),
    Tool(
        INVENTORY_VEHICLE,
        "Use it before you recommend a vehicle or name its price, and to see whether it is still there: `status` is "
        "available, pending or intransit. `price` includes the `fees`: do not add them.",
    ),
    Tool(
        LEAD_SUBMIT,
        "Use it only when the person wants the dealer to get in touch, or wants a visit, and once for each request. "
        "The person is shown the dealer's consent text and everything that would be sent, and decides. You cannot "
        "consent for the person.",
    ),
)
OFFER_TOOLS: Final = (
    Tool(
        OFFER_QUOTE,
        "Use it when the person asks what a vehicle costs in all. `price` is firm until `valid_until`; lines that are "
        "not `firm` are estimates; `missing` names what is not in `total`. Add the person's ZIP code: taxes are by "
        "place.",
    ),
    Tool(
        OFFER_HOLD,
        "Use it only when the person wants this vehicle kept. It is not a contract. An agent has few holds a day, and "
        "cannot hold a vehicle again on the same day.",
    ),
    Tool(OFFER_RELEASE, "Use it as soon as the person no longer wants the vehicle."),
    Tool(OFFER_STATUS, "Use it before you say that a vehicle is still held."),
    Tool(
        LEAD_STATUS,
        "`secret` is the `lead_secret` of the result of lead_submit, if it had one. To get in touch, use lead_submit.",
    ),
    Tool(
        VISIT_MOVE,
        "Use it only when the person asks for another time. `appointment_at` has an offset: 2026-11-28T10:00:00-06:00. "
        "`secret` as for lead_status.",
    ),
    Tool(
        VISIT_CANCEL,
        "Use it only when the person wants to cancel the visit. `reason` is what the person says. `secret` as for "
        "lead_status.",
    ),
)
"""The tools of a dealer with the offers extension. `inventory.changes` is for programs that copy a whole stock."""
ALL_TOOLS: Final = TOOLS + OFFER_TOOLS
TOOL_BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in ALL_TOOLS}


def instructions(dealer: str, skills: frozenset[str]) -> str:
    """What a model should know before it uses the tools of a dealer with these skills."""
    more = f"\n{_OF_OFFERS}" if OFFER_QUOTE.id in skills else ""
    return _INSTRUCTIONS.replace("DEALER", dealer) + more


_OF_OFFERS: Final = (
    "offer_quote has the price with taxes and charges, line by line: say which lines are estimates, and what is "
    "missing. A lead about a quote or a hold names it: `offer` of lead_submit."
)
_INSTRUCTIONS = files(__package__).joinpath("instructions.txt").read_text("utf-8").rstrip()
