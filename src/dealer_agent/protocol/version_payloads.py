"""Translates payloads of published versions to those at the root of a dealer's URL, and back. Pure.

Requests and responses at the root have the payloads of `protocol.skill`. Published versions of the public protocol are
at paths below the root. The schemas of a version are those of the root, changed by its row of
`protocol.published_versions`. A valid request becomes a payload of the root, so everything behind the decoder is the
same for all versions. The `data` of a response becomes that of the version.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from dealer_agent.protocol.errors import ProtocolError, SchemaValidationFailed
from dealer_agent.protocol.problems import Path, Problem, message_and_details, validation_error
from dealer_agent.protocol.published_versions import (
    APPOINTMENT_MEMBERS,
    APPOINTMENT_REPLY_MEMBERS,
    AREA_RULES,
    CONDITIONS,
    FEE_RULES,
    LEAD_VEHICLE_RULES,
    LISTING_RULES,
    PHONE_PATTERN,
    SCOPE,
    VIN_PATTERN,
    VISIT_KINDS,
    PublishedVersion,
)
from dealer_agent.protocol.request_problems import Checker, list_problems
from dealer_agent.protocol.requests import filter_members
from dealer_agent.protocol.responses import COUNT_FACETS, RANGE_FACETS
from dealer_agent.protocol.schemas import Schema, checking_schema, consent_schema, response_schema, with_bounds
from dealer_agent.protocol.skill import INVENTORY_SEARCH, INVENTORY_VEHICLE, Skill
from dealer_agent.protocol.vehicle import FIELDS

_OFFERED_PRICE = "offered_price"
_VEHICLE = "vehicle_of_interest"
_LEAD_VEHICLES = (_VEHICLE, "trade_in")
_MOST_ROUNDS = 5
"""How often a response is checked again: after a wrong member is removed, its object can have another problem."""


class InvalidCondition(SchemaValidationFailed):
    """The condition of a vehicle is a word of the wrong list."""

    code = "INVALID_CONDITION"


def version_problems(version: PublishedVersion, skill: Skill, payload: dict[str, Any]) -> list[Problem]:
    """What is wrong with a payload in a version. Pointers start at the payload."""
    problems = list_problems(_request_checker(version, skill), payload)
    match payload:
        case {"appointment": {"appointment_type": "test_drive"}} if skill.is_lead and _VEHICLE not in payload:
            problems.append(Problem((_VEHICLE,), "is required for a test drive", "required"))
    return problems


def version_error(problems: list[Problem]) -> ProtocolError:
    """The error that reports all problems of a payload in a published version."""
    if all(map(_is_wrong_condition, problems)):
        return InvalidCondition(*message_and_details(problems, "payload"))
    return validation_error(problems, "payload")


def _is_wrong_condition(problem: Problem) -> bool:
    is_condition = len(problem.path) == 2 and problem.path[0] in _LEAD_VEHICLES and problem.path[1] == "condition"
    return is_condition and problem.received is not None and problem.received[0] in CONDITIONS


def root_payload(version: PublishedVersion, skill: Skill, payload: dict[str, Any]) -> dict[str, Any]:
    """A payload without problems, as the same request at the root.

    A search by `offered_price` sorts by `price`: without an area, both are the same. In the vehicles of a lead, `null`
    is left out, and an array in `other_attributes` becomes a text.
    """
    if skill.is_lead:
        changed = {name: _lead_vehicle(payload[name]) for name in _LEAD_VEHICLES if name in payload}
        return payload | changed
    if skill is INVENTORY_SEARCH and version.has_area_prices and payload.get("sort", {}).get("field") == _OFFERED_PRICE:
        return payload | {"sort": {**payload["sort"], "field": "price"}}
    return payload


def _lead_vehicle(vehicle: dict[str, Any]) -> dict[str, Any]:
    """A vehicle of a lead as `root_payload` describes it: these values are errors at the root."""
    kept = {name: value for name, value in vehicle.items() if value is not None or name not in LEAD_VEHICLE_RULES}
    if isinstance(kept.get("other_attributes"), dict):
        kept["other_attributes"] = {
            name: ", ".join(map(str, value)) if isinstance(value, list) else value
            for name, value in kept["other_attributes"].items()
        }
    return kept


@cache
def consent_checker(version: PublishedVersion) -> Checker:
    """What finds the defects of a consent in a version."""
    schema = consent_schema()
    members = schema["properties"]
    members["allowed_channels"] |= {"uniqueItems": True}
    members["scope"] = {"type": "array", "minItems": 1, "maxItems": 1, "items": {"const": SCOPE}}
    if version.agent_is_text:
        members["source_agent"] |= {"minLength": 1}
        schema["required"] = [*schema["required"], "source_agent"]
    else:
        del members["source_agent"]
    return Checker(schema)


@cache
def _request_checker(version: PublishedVersion, skill: Skill) -> Checker:
    return Checker(version_request_schema(version, skill))


def version_request_schema(version: PublishedVersion, skill: Skill) -> Schema:
    """The schema that a request payload to a version is checked with. The `consent` of a lead can be any value."""
    schema = checking_schema(skill)
    definitions = schema.get("$defs", {})
    if "Filters" in definitions:
        for name in filters_of(version.unsearchable):
            del definitions["Filters"]["properties"][name]
    if "Sort" in definitions and version.has_area_prices:
        definitions["Sort"]["properties"]["field"]["enum"].append(_OFFERED_PRICE)
    if skill.is_lead:
        del schema["properties"]["offer"], definitions["LeadOffer"]
    if skill is INVENTORY_VEHICLE:
        schema["properties"]["vin"]["pattern"] = VIN_PATTERN
        if not version.has_area_prices:
            del schema["properties"]["zip"]
    if skill.is_lead:
        _limit_lead(version, schema, definitions)
    return schema


def _limit_lead(version: PublishedVersion, schema: Schema, definitions: dict[str, Schema]) -> None:
    """Adds the rules of a published version to the schema of a lead, and closes what the version closes."""
    _close(definitions["Address"])
    definitions["Customer"]["properties"]["phone"]["pattern"] = PHONE_PATTERN
    agent = definitions["SourceAgent"]
    for name in ("url", "agent_card_url"):
        agent["properties"][name]["format"] = "uri"
    _close(agent)
    text = {"type": "string", "minLength": 1, "maxLength": agent["properties"]["name"]["maxLength"]}
    schema["properties"]["source_agent"] = text if version.agent_is_text else agent
    appointment = definitions["Appointment"]["properties"]
    definitions["Appointment"]["properties"] = {name: appointment[name] for name in APPOINTMENT_MEMBERS}
    appointment["appointment_type"]["enum"] = list(VISIT_KINDS)
    # This `not` forbids two forms of an appointment together. A published version has one form.
    del schema["properties"]["appointment"]["not"]
    rules = {**LEAD_VEHICLE_RULES, **(AREA_RULES if version.has_area_prices else {})}
    for name in ("VehicleOfInterest", "TradeIn"):
        _add_rules(definitions[name], rules)
        definitions[name] = with_bounds(definitions[name])
    if "fees" not in version.left_out:
        _add_rules(definitions["LeadFee"], FEE_RULES)
        _close(definitions["LeadFee"])


def _close(schema: Schema) -> None:
    schema["additionalProperties"] = False
    schema.pop("propertyNames", None)


def _add_rules(schema: Schema, rules: Mapping[str, Mapping[str, Any]]) -> None:
    for name, rule in rules.items():
        schema["properties"][name] = {**schema["properties"].get(name, {}), **rule}


def filters_of(names: Iterable[str]) -> list[str]:
    """The filters of fields."""
    return [name for field in names for name in filter_members(FIELDS[field])]


def response_data(version: PublishedVersion, skill: Skill, data: bytes) -> bytes:
    """Turns the JSON of `data`, as this service responds at its root, into that of a published version: removes members
    that the version does not define, and members whose values it does not allow.
    """
    value = msgspec.json.decode(data)
    for listing in value["vehicles"] if skill is INVENTORY_SEARCH else [value] if skill is INVENTORY_VEHICLE else ():
        for name in version.left_out:
            listing.pop(name, None)
        if not version.has_area_prices:
            for name in AREA_RULES:
                listing.pop(name, None)
    validator = _reply_validator(version, skill)
    for _ in range(_MOST_ROUNDS):
        if validator.is_valid(value):
            break
        paths = {path for error in validator.iter_errors(value) for path in _defects(error)}
        # Backwards, so that a path is still right when its value is removed.
        for path in sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path], reverse=True):
            _remove(value, path)
    return msgspec.json.encode(value)


@cache
def _reply_validator(version: PublishedVersion, skill: Skill) -> jsonschema_rs.Validator:
    """Finds the values that a published version does not allow in a response. Its schema is stricter than ours."""
    published = response_schema(skill)
    schema, definitions = published["properties"]["data"], published.get("$defs", {})
    definitions = {name: _reply_rules(version, name, one) for name, one in definitions.items()}
    if skill is INVENTORY_VEHICLE:
        schema = _reply_rules(version, "Vehicle", schema)
    else:
        schema["additionalProperties"] = False
    # The offers extension is not part of any version.
    schema["properties"].pop("lead_secret", None)
    for facet in (*COUNT_FACETS, *RANGE_FACETS):
        if facet.field.name in version.unsearchable and facet.name in schema["properties"]:
            del schema["properties"][facet.name]
    return jsonschema_rs.Draft202012Validator(schema | {"$defs": definitions}, validate_formats=True)


def _reply_rules(version: PublishedVersion, name: str, schema: Schema) -> Schema:
    """One definition of a response schema, with the rules of the published version added to it."""
    members = schema["properties"]
    match name:
        case "Vehicle":
            _add_rules(schema, {**LISTING_RULES, **(AREA_RULES if version.has_area_prices else {})})
            return schema
        case "Rooftop":
            _add_rules(schema, {"website": {"format": "uri"}, "fees": {"uniqueItems": True}})
            if "fees" in version.left_out:
                del members["fees"]
        case "GeoPoint":
            _add_rules(schema, {"latitude": {"minimum": -90, "maximum": 90}})
            _add_rules(schema, {"longitude": {"minimum": -180, "maximum": 180}})
        case "Fee":
            _add_rules(schema, FEE_RULES)
        case "DealerContact":
            _add_rules(schema, {"phone": {"pattern": PHONE_PATTERN}})
        case "AppointmentReply":
            schema["properties"] = {member: members[member] for member in APPOINTMENT_REPLY_MEMBERS}
            _add_rules(schema, {"confirmed_at": {"format": "date-time"}, "proposed_times": {"minItems": 1}})
    schema["additionalProperties"] = False
    return schema


def _defects(error: jsonschema_rs.ValidationError) -> list[Path]:
    """The paths of the values to remove for one error.

    A list is removed as a whole: an incomplete list of fees would be wrong. Photos are removed one by one.
    """
    path = tuple(error.instance_path)
    kind: Any = error.kind
    if kind.name == "additionalProperties":
        return [(*path, name) for name in kind.unexpected]
    start = 2 if path[:1] in (("vehicles",), ("rooftops",)) else 0
    for depth in range(start, len(path)):
        if isinstance(path[depth], int):
            return [path[: depth + 1] if path[depth - 1] == "photos" else path[:depth]]
    return [path]


def _remove(value: Any, path: Path) -> None:
    """Removes the value at a path."""
    *steps, last = path
    for step in steps:
        value = value[step]
    del value[last]
