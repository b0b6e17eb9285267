"""The MCP tools: one for each skill, with its texts, hints and schemas. Pure.

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
    LEAD_SUBMIT,
    Skill,
)

FILLED_IN_BY_THE_SERVER: Final = ("consent", "idempotency_key", "source_agent", "submitted_at")
"""Members of a lead that a model cannot send. They come from the person's answer, or are made for the call."""

_NO_USE = ("$defs", "$schema", "maxProperties", "propertyNames", "title")
"""Keywords that tell a model nothing. The service checks them all the same."""
_LARGEST_INTEGER = 2**63 - 1


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
        """The hints of MCP. A lead reaches people, and two leads are two leads."""
        reads = not self.skill.is_lead
        return {
            "title": self.skill.name,
            "readOnlyHint": reads,
            "destructiveHint": False,
            "idempotentHint": reads,
            "openWorldHint": not reads,
        }

    @cached_property
    def input_schema(self) -> Schema:
        """The schema of the arguments: the request payload without `type` and without what the server makes.

        It has no `allOf` or `anyOf` at its top, which some models' interfaces refuse. The description says the same.
        """
        published = request_schema(self.skill)
        schema = _inlined(published, published.get("$defs", {}))
        schema.pop("allOf", None)
        left_out = {"type", *(FILLED_IN_BY_THE_SERVER if self.skill.is_lead else ())}
        schema["properties"] = {
            name: member for name, member in schema.get("properties", {}).items() if name not in left_out
        }
        required = [name for name in schema.pop("required", ()) if name not in left_out]
        for name, filter_schema in schema["properties"].get("filters", {}).get("properties", {}).items():
            if name in FILTER_MEANINGS:
                filter_schema["description"] = FILTER_MEANINGS[name]
        return schema | ({"required": required} if required else {})

    @cached_property
    def output_schema(self) -> Schema:
        """The schema of the structured result: the `data` of the response. For a lead, it has the `message` too."""
        published = response_schema(self.skill)
        members = _inlined(published, published.get("$defs", {}))["properties"]
        schema: Schema = members["data"]
        if self.skill.is_lead:
            schema["properties"] = schema["properties"] | {"message": members["message"]}
        return schema


def _inlined(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A schema with the content of its references. No schema of the protocol contains itself."""
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
    Tool(DEALER_INFORMATION, "Use it for addresses, opening hours, phone numbers, and what the prices include."),
    Tool(
        INVENTORY_FACETS,
        "Use it first, and before you widen or narrow a search: it shows which words and ranges find something. It "
        "takes the same filters as inventory_search.",
    ),
    Tool(
        INVENTORY_SEARCH,
        "Use words that inventory_facets has shown. `pagination` reads further pages: add the number of vehicles that "
        "you have to `skip`. Ask for few vehicles at a time.",
    ),
    Tool(
        INVENTORY_VEHICLE,
        "Use it again before you recommend a vehicle: prices change, and vehicles are sold. The other tools name "
        "`vehicle_id`.",
    ),
    Tool(
        LEAD_SUBMIT,
        "Use it only when the person wants the dealer to get in touch, or wants a visit. The person is shown the "
        "dealer's consent text and everything that would be sent, and decides. You cannot consent for the person. Call "
        "it once for each request of the person.",
    ),
)
TOOL_BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in TOOLS}


def instructions(dealer: str) -> str:
    """What a model should know before it uses the tools of a dealer."""
    return _INSTRUCTIONS.replace("DEALER", dealer)


_INSTRUCTIONS = files(__package__).joinpath("instructions.txt").read_text("utf-8").rstrip()
