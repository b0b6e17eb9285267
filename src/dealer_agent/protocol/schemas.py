"""Generates JSON Schemas from the wire types (docs/protocol.md#schemas). Pure.

The service publishes each schema under `/schemas/`, and lists the problems of an invalid request with it. The output of
msgspec is changed, so that people can read the schemas and problems are clear: a union of plain types becomes one
`type` list, an enum with one value becomes a `const`, and Python's `\\Z` becomes the `$` of ECMA 262. In a published
schema, a union that names another schema stays a union, because code generators name types after schemas. In a checked
schema it becomes one schema, so that a problem names the member and not the union.
"""

import inspect
import re
from functools import cache
from typing import Any

import msgspec

from dealer_agent.protocol.requests import EXTRA_MEMBERS, EXTRA_NAME_LENGTH, LEAD_VEHICLE_BOUNDS, STRING_LENGTH, Consent
from dealer_agent.protocol.responses import MESSAGE_LENGTH
from dealer_agent.protocol.skill import ALL_SKILLS, Skill

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_VEHICLE_NAMES = ("vin", "stock", "vehicle_id")
_AT_LEAST_ONE_OF = {
    "InventoryVehicleRequest": _VEHICLE_NAMES,
    "OfferQuoteRequest": _VEHICLE_NAMES,
    "Customer": ("email", "phone"),
    "LeadOffer": ("quote_id", "hold_id"),
}
"""Type name to members of which at least one is required."""


def request_schema(skill: Skill) -> Schema:
    """The published schema of a request payload."""
    root, definitions = _request(skill)
    if skill.is_lead:
        consent, more = _bounded(*_generated(Consent))
        definitions |= more | {"Consent": consent}
        root["properties"]["consent"] = {"$ref": "#/$defs/Consent"}
        root["required"] = sorted({*root["required"], "consent"})
    return _document(skill.request_type, root, definitions)


def checking_schema(skill: Skill) -> Schema:
    """The schema that a request payload is checked with. It is the published one, except that the `consent` of a lead
    can be any value: its defects have their own codes (docs/protocol.md#consent)."""
    return _document(skill.request_type, *_request(skill, checked=True))


def response_schema(skill: Skill) -> Schema:
    """The published schema of a response payload."""
    data, definitions = _generated(skill.data)
    message = {"type": "string"} | ({"maxLength": MESSAGE_LENGTH} if skill.is_lead else {})
    root = {
        "type": "object",
        "properties": {"type": {"const": skill.response_type}, "data": data, "message": message},
        "required": ["type", "data"],
    }
    return _document(skill.response_type, root, definitions)


def consent_schema() -> Schema:
    """The schema of a consent grant."""
    return _document("consent", *_bounded(*_generated(Consent)))


def envelope_schema(envelope: Any) -> Schema:
    """The schema that an envelope is checked with, from its type. Unknown members are allowed."""
    return _document("envelope", *_generated(envelope, checked=True))


@cache
def published_schemas() -> dict[str, Schema]:
    """The schemas that are served under `/schemas/`, by file name. Made once: nobody changes them."""
    files: dict[str, Schema] = {}
    for skill in ALL_SKILLS:
        files[f"{skill.request_type}.json"] = request_schema(skill)
        files[f"{skill.response_type}.json"] = response_schema(skill)
    return files


def _document(title: str, root: Schema, definitions: dict[str, Schema]) -> Schema:
    document = {"$schema": DIALECT, **root, "title": title}
    return document | {"$defs": definitions} if definitions else document


def _request(skill: Skill, *, checked: bool = False) -> tuple[Schema, dict[str, Schema]]:
    generated = _generated(skill.payload, checked=checked)
    return _bounded(*generated) if skill.is_lead else generated


_EXTRA_NAMES = {"maxLength": EXTRA_NAME_LENGTH}
_EXTRA = {
    "maxLength": STRING_LENGTH,
    "maxItems": EXTRA_MEMBERS,
    "maxProperties": EXTRA_MEMBERS,
    "propertyNames": _EXTRA_NAMES,
}


def _bounded(root: Schema, definitions: dict[str, Schema]) -> tuple[Schema, dict[str, Schema]]:
    """A schema and its definitions, with the bounds that the types of a lead do not have (docs/protocol.md#bounds)."""
    for name in {"VehicleOfInterest", "TradeIn"} & definitions.keys():
        members = definitions[name]["properties"]
        for member, bounds in LEAD_VEHICLE_BOUNDS.items():
            members[member] |= bounds
        members["fees"]["items"] = {"$ref": "#/$defs/LeadFee"}
    if "Fee" in definitions:
        # A different name: the fee of a dealer's listing has no bounds.
        definitions["LeadFee"] = definitions.pop("Fee") | {"title": "LeadFee"}
    return with_bounds(root), {name: with_bounds(schema) for name, schema in definitions.items()}


def with_bounds(schema: Schema) -> Schema:
    """A schema of a lead, with a bound for each string and object in it that has none."""
    made = dict(schema)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            made[name] = with_bounds(schema[name])
    if "properties" in schema:
        made["properties"] = {name: with_bounds(member) for name, member in schema["properties"].items()}
    types = schema.get("type", ())
    if "string" in types:
        made.setdefault("maxLength", STRING_LENGTH)
    if "object" in types and schema.get("additionalProperties") is not False:
        made.setdefault("additionalProperties", _EXTRA)
        made |= {"maxProperties": EXTRA_MEMBERS, "propertyNames": _EXTRA_NAMES}
    return made


def _generated(wire_type: Any, *, checked: bool = False) -> tuple[Schema, dict[str, Schema]]:
    """The schema of a type, and the definitions that it refers to."""
    (root,), definitions = msgspec.json.schema_components([wire_type], ref_template="#/$defs/{name}")
    definitions = {name: _readable(schema, definitions, checked=checked) for name, schema in definitions.items()}
    for name in _AT_LEAST_ONE_OF.keys() & definitions.keys():
        # In allOf: code generators read an anyOf next to properties as a union of types.
        definitions[name]["allOf"] = [{"anyOf": [{"required": [member]} for member in _AT_LEAST_ONE_OF[name]]}]
    return definitions.pop(root["$ref"].rpartition("/")[2]), definitions


def _readable(node: Any, definitions: dict[str, Schema], *, checked: bool) -> Any:
    """A generated schema as we publish it: one line a paragraph, ECMA patterns, `const`."""
    if isinstance(node, list):
        return [_readable(item, definitions, checked=checked) for item in node]
    if not isinstance(node, dict):
        return node
    schema = {name: _readable(value, definitions, checked=checked) for name, value in node.items()}
    if isinstance(schema.get("description"), str):
        # One line for each paragraph.
        schema["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(schema["description"]))
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
    if len(schema.get("enum", ())) == 1:
        schema["const"] = schema.pop("enum")[0]
    if schema.get("required") == []:
        del schema["required"]
    return _without_union(schema, definitions if checked else {})


def _without_union(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """A union whose branches have different JSON types, as one schema: a keyword applies to one type only.
    References are resolved in the definitions."""
    branches = schema.get("anyOf", [])
    branches = [definitions.get(b["$ref"].rpartition("/")[2], b) if "$ref" in b else b for b in branches]
    if not branches or not all(isinstance(branch.get("type"), str) for branch in branches):
        return schema
    merged: Schema = {name: value for name, value in schema.items() if name != "anyOf"}
    for branch in branches:
        merged |= {name: value for name, value in branch.items() if name not in ("type", "title", "description")}
    return merged | {"type": [branch["type"] for branch in branches]}
