"""The components of the OpenAPI document: payloads (the schemas under `/schemas/`), envelopes, errors, cards. Pure."""

import json
import re
import tomllib
from importlib.resources import files
from typing import Any

from dealer_agent.protocol import envelope_problems
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.json_rpc import CALL_ID_LENGTH
from dealer_agent.protocol.requests import FILTER_MEANINGS
from dealer_agent.protocol.response_bodies import A2A_DOMAIN
from dealer_agent.protocol.schemas import Schema, request_schema, response_schema
from dealer_agent.protocol.skill import SKILLS, Skill
from dealer_agent.protocol.vehicle import FIELDS
from dealer_agent.protocol.vocabulary import JSON_MODES, Vocabularies

Json = dict[str, Any]


SKILL_COUNT = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")[len(SKILLS)]
"""The number of skills, as a word."""


def _read_parts() -> Json:
    """The parts of the document that are written by hand, with the bounds of the protocol."""
    text = files(__package__).joinpath("openapi_parts.json").read_text("utf-8")
    for name in ("ID_LENGTH", "MEDIA_TYPE_LENGTH", "MODES_LIMIT", "PARTS_LIMIT"):
        text = text.replace(f'"{name}"', str(getattr(envelope_problems, name)))
    text = text.replace('"CALL_ID_LENGTH"', str(CALL_ID_LENGTH)).replace("SKILL_COUNT", SKILL_COUNT)
    return json.loads(text)  # type: ignore[no-any-return]


PARTS: Json = _read_parts()
"""The parts of the OpenAPI document that are the same for all services, and the schemas of a skill named SKILL.

Each object and each enum is a schema of its own, because code generators name types after schemas. A `not` refuses
members, because code generators fail on a property with the schema `false`.
"""

FIELD_MEANINGS: dict[str, dict[str, str]] = {
    **tomllib.loads(files(__package__).joinpath("glossary.toml").read_text("utf-8")),
    "Filters": FILTER_MEANINGS,
    "Vehicle": {name: row.field.description for name, row in FIELDS.items() if row.field.description},
}
"""The descriptions of members that the schema alone does not explain, by component name."""


def _name_of(skill: Skill) -> str:
    return payload_component(skill).removesuffix("Request")


def payload_component(skill: Skill) -> str:
    """The name of the component with a skill's request payload."""
    return skill.payload.__name__


def response_component(skill: Skill) -> str:
    """The name of the component with a skill's response payload."""
    return _name_of(skill) + "Response"


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def components(facts: CardFacts, vocabularies: Vocabularies) -> dict[str, Json]:
    """Component name to schema, sorted by name, for the enabled skills."""
    names = [_name_of(skill) for skill in facts.skills]
    found: dict[str, Json] = {
        "SendMessageRequest": {
            "description": "The body of a request: one of the skills.",
            "oneOf": [ref(f"Send{name}") for name in names],
        },
        "SendMessageReply": {
            "description": "The response of the skill that was asked.",
            "oneOf": [ref(f"{name}Reply") for name in names],
        },
        **PARTS["schemas"],
        **_legacy_cards(),
        **_error_components(vocabularies),
    }
    for skill in facts.skills:
        found |= _envelope_of(skill, vocabularies)
        found |= _payload_components(payload_component(skill), request_schema(skill))
        found |= _payload_components(response_component(skill), response_schema(skill))
    for name, meanings in FIELD_MEANINGS.items():
        for member, meaning in meanings.items() if name in found else ():
            found[name]["properties"][member]["description"] = meaning
    return dict(sorted(found.items()))


def _legacy_cards() -> dict[str, Json]:
    """The schemas of the card of revision 0.1.0: those of A2A's card in snake_case, and `auth_type`."""
    text = json.dumps({name: PARTS["schemas"][name] for name in _IN_TWO_FORMS})
    text = re.sub(rf"\b({'|'.join(_IN_TWO_FORMS)})\b", r"Legacy\1", text)
    text = re.sub('"[a-z]+(?:[A-Z][a-z]+)+"', lambda name: re.sub("[A-Z]", lambda m: "_" + m[0].lower(), name[0]), text)
    found: dict[str, Json] = json.loads(text)
    card = found["LegacyAgentCard"]
    card["description"] = "The agent card of revision 0.1.0."
    card["properties"]["auth_type"] = _enum("none", "bearer")
    card["required"].append("auth_type")
    return found


_IN_TWO_FORMS = ("AgentCard", "AgentCapabilities", "AgentInterface", "AgentSkill")


def _payload_components(name: str, schema: Schema) -> dict[str, Json]:
    """A published schema and its definitions as components. The `data` of a response becomes a component."""
    root = {member: value for member, value in schema.items() if member not in ("$schema", "$defs")}
    components = {definition: _copy_with_component_refs(value) for definition, value in schema.get("$defs", {}).items()}
    root = _copy_with_component_refs(root)
    data = root["properties"].get("data")
    if data is not None:
        # `root` is a copy of the published schema, so it may be changed.
        components[data["title"]] = data
        root["properties"]["data"] = ref(data["title"])
        root["properties"]["message"]["description"] = "A sentence for the buyer."
    return components | {name: root | {"title": name}}


def _copy_with_component_refs(node: Any) -> Any:
    """A copy of a schema whose references lead to the components of the OpenAPI document."""
    if isinstance(node, list):
        return [_copy_with_component_refs(item) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {name: _copy_with_component_refs(value) for name, value in node.items()}
    if isinstance(copy.get("$ref"), str):
        copy["$ref"] = copy["$ref"].replace("#/$defs/", "#/components/schemas/")
    return copy


def _envelope_of(skill: Skill, vocabularies: Vocabularies) -> dict[str, Json]:
    """The schemas of one skill's envelope: message, configuration, response and media types."""
    name = _name_of(skill)
    found: dict[str, Json] = json.loads(json.dumps(PARTS["schemas of a skill"]).replace("SKILL", name))
    response_types = vocabularies.response_types(skill)
    found[f"Send{name}"]["description"] = skill.description
    found[f"{name}Reply"]["description"] = f"The response of {skill.id}."
    found[f"{name}RequestMediaType"]["enum"] = vocabularies.request_types(skill)
    found[f"{name}ResponseMediaType"]["enum"] = response_types
    modes = found[f"{name}Configuration"]["properties"]["acceptedOutputModes"]
    modes["contains"]["enum"] = [*response_types, *JSON_MODES]
    return found


def _error_components(vocabularies: Vocabularies) -> dict[str, Json]:
    """The schemas of errors, in the words of the dealer's vocabularies."""
    bare = PARTS["schemas"]["BareErrorPayload"]
    type_url = _enum(*(vocabulary.error_type_url for vocabulary in vocabularies.both))
    return {
        "ErrorPayload": {
            "description": "The protocol's own error. Its `@type` is the `type` as an address.",
            "type": "object",
            "properties": bare["properties"],
            "required": bare["required"],
            # `@type` is not in the properties: openapi-python-client gives `type` and `@type` one name and then drops
            # the object. The object is not closed: the models of datamodel-code-generator would refuse `@type`.
            "dependentSchemas": {"type": {"type": "object", "properties": {"@type": type_url}, "required": ["@type"]}},
            "propertyNames": {"enum": ["@type", *bare["properties"]]},
        },
        "ErrorCode": _enum(*ERRORS) | {"description": "The protocol's error code."},
        "ErrorDomain": _enum(*(vocabulary.domain for vocabulary in vocabularies.both), A2A_DOMAIN),
        "ErrorType": _enum(*(vocabulary.error_type for vocabulary in vocabularies.both)),
    }


def _enum(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}
