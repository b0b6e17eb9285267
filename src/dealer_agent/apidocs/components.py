"""The components of the OpenAPI document: payloads, envelopes, errors and cards. Pure.

The payloads are the schemas under `/schemas/`, with their definitions moved to `components`.
"""

import json
from importlib.resources import files
from typing import Any

from dealer_agent.apidocs.glossary import FIELD_MEANINGS
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.envelope_problems import ID_LENGTH, MEDIA_TYPE_LENGTH, MODES_LIMIT, PARTS_LIMIT
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.json_rpc import CALL_ID_LENGTH
from dealer_agent.protocol.replies import A2A_DOMAIN
from dealer_agent.protocol.schemas import Schema, request_schema, response_schema
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import JSON_MODES, Wire

Json = dict[str, Any]

PARTS: Json = json.loads(files(__package__).joinpath("openapi_parts.json").read_bytes())
"""The parts of the OpenAPI document that are the same for all services: tags, parameters, headers and schemas."""


def payload_component(skill: Skill) -> str:
    """The name of the component with a skill's request payload."""
    return skill.payload.__name__


def reply_component(skill: Skill) -> str:
    """The name of the component with a skill's response payload."""
    return payload_component(skill).removesuffix("Request") + "Response"


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def components(facts: CardFacts, wire: Wire) -> dict[str, Json]:
    """Component name to schema, sorted by name, for the enabled skills."""
    found: dict[str, Json] = _envelopes(facts, wire)
    for skill in facts.skills:
        found |= _lifted(payload_component(skill), request_schema(skill))
        found |= _lifted(reply_component(skill), response_schema(skill))
    for name, meanings in FIELD_MEANINGS.items():
        for member, meaning in meanings.items() if name in found else ():
            found[name]["properties"][member]["description"] = meaning
    return dict(sorted(found.items()))


def _lifted(name: str, schema: Schema) -> dict[str, Json]:
    """A published schema and its definitions as components. The `data` of a response becomes a component."""
    root = {member: value for member, value in schema.items() if member not in ("$schema", "$defs")}
    components = {definition: _moved(value) for definition, value in schema.get("$defs", {}).items()}
    root = _moved(root)
    data = root["properties"].get("data")
    if data is not None:
        components[data["title"]] = data
        root["properties"]["data"] = ref(data["title"])
        root["properties"]["message"]["description"] = "A sentence for the reader."
    return components | {name: root | {"title": name}}


def _moved(node: Any) -> Any:
    """A copy with references to components."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {name: _moved(value) for name, value in node.items()}
    if isinstance(moved.get("$ref"), str):
        moved["$ref"] = moved["$ref"].replace("#/$defs/", "#/components/schemas/")
    return moved


def _envelopes(facts: CardFacts, wire: Wire) -> dict[str, Json]:
    """The components around the payloads: messages, calls, errors, cards.

    Each object and each enum is a component of its own, because code generators name types after components.
    """
    asked: list[Json] = []
    answered: list[Json] = []
    found: dict[str, Json] = {}
    for skill in facts.skills:
        name = payload_component(skill).removesuffix("Request")
        found |= _request_envelope(name, skill, wire) | _reply_envelope(name, skill, wire)
        asked.append(ref(f"Send{name}"))
        answered.append(ref(f"{name}Reply"))
    return {
        **found,
        "SendMessageRequest": {"description": "The body of a request: one of the skills.", "oneOf": asked},
        "SendMessageReply": {"description": "The answer of the skill that was asked.", "oneOf": answered},
        "OtherPart": {
            "description": "A part that is no data part, such as a text part. It is ignored.",
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "mediaType": {"type": "string", "maxLength": MEDIA_TYPE_LENGTH},
            },
            "not": _any_of_members("data", "kind"),
        },
        **_error_components(wire),
        **_json_rpc_components(),
        **PARTS["schemas"],
    }


def _any_of_members(*names: str) -> Json:
    """A schema for `not`: the members are refused. Code generators fail on a property with the schema `false`."""
    return {"anyOf": [{"required": [name]} for name in names]}


def _request_envelope(name: str, skill: Skill, wire: Wire) -> dict[str, Json]:
    media_type = f"{name}RequestMediaType"
    part = {
        "description": "The data part: the payload and its media type. `kind`, of A2A v0.3, is refused.",
        "type": "object",
        "properties": {"data": ref(payload_component(skill)), "mediaType": ref(media_type)},
        "required": ["data", "mediaType"],
        "not": _any_of_members("kind"),
    }
    message = {
        "description": "A2A's message. `kind`, of A2A v0.3, is refused.",
        "type": "object",
        "properties": {
            "messageId": {
                "type": "string",
                "minLength": 1,
                "maxLength": ID_LENGTH,
                "description": "The sender's own, unique; a ULID or so.",
            },
            "role": {"type": "string", "const": "ROLE_USER"},
            "parts": {
                "type": "array",
                "maxItems": PARTS_LIMIT,
                "description": "Exactly one data part. Text parts beside it are ignored.",
                "items": {"anyOf": [ref(f"{name}Part"), ref("OtherPart")]},
                "contains": ref(f"{name}Part"),
                "minContains": 1,
                "maxContains": 1,
            },
            "contextId": {"type": "string", "maxLength": ID_LENGTH, "description": "The reply repeats it."},
            "taskId": {"type": "string", "maxLength": 0, "description": "There are no tasks here."},
        },
        "required": ["messageId", "role", "parts"],
        "not": _any_of_members("kind"),
    }
    modes = {
        "type": "array",
        "description": "Media types that the buyer takes; one of them covers the reply.",
        "items": {"type": "string", "maxLength": MEDIA_TYPE_LENGTH},
        "minItems": 1,
        "maxItems": MODES_LIMIT,
        "contains": {"enum": [*(vocabulary.response_media_type(skill) for vocabulary in wire.both), *JSON_MODES]},
    }
    configuration = {
        "description": "What the buyer accepts. Push notifications are refused.",
        "type": "object",
        "properties": {"acceptedOutputModes": modes},
        "required": ["acceptedOutputModes"],
        "not": _any_of_members("taskPushNotificationConfig", "pushNotificationConfig"),
    }
    envelope = {
        "description": skill.description,
        "type": "object",
        "properties": {"message": ref(f"{name}Message"), "configuration": ref(f"{name}Configuration")},
        "required": ["message", "configuration"],
    }
    return {
        f"Send{name}": envelope,
        f"{name}Message": message,
        f"{name}Part": part,
        f"{name}Configuration": configuration,
        media_type: _enum(*(vocabulary.request_media_type(skill) for vocabulary in wire.both)),
    }


def _reply_envelope(name: str, skill: Skill, wire: Wire) -> dict[str, Json]:
    media_type = f"{name}ResponseMediaType"
    part = _closed({"data": ref(reply_component(skill)), "mediaType": ref(media_type)})
    message = _closed(
        {
            "messageId": {"type": "string", "minLength": 1, "description": "A fresh ULID."},
            "role": {"type": "string", "const": "ROLE_AGENT"},
            "parts": {"type": "array", "items": ref(f"{name}ReplyPart"), "minItems": 1, "maxItems": 1},
        },
        contextId={"type": "string", "description": "The request's, when it had one."},
    )
    return {
        f"{name}Reply": _closed({"message": ref(f"{name}ReplyMessage")})
        | {"description": f"The answer of {skill.id}."},
        f"{name}ReplyMessage": message | {"description": "A2A's message."},
        f"{name}ReplyPart": part | {"description": "The data part: the payload and its media type."},
        media_type: _enum(*(vocabulary.response_media_type(skill) for vocabulary in wire.both)),
    }


def _error_components(wire: Wire) -> dict[str, Json]:
    bare = PARTS["schemas"]["BareErrorPayload"]
    type_url = _enum(*(vocabulary.error_type_url for vocabulary in wire.both))
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
        "ErrorDomain": _enum(*(vocabulary.domain for vocabulary in wire.both), A2A_DOMAIN),
        "ErrorType": _enum(*(vocabulary.error_type for vocabulary in wire.both)),
    }


def _enum(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


def _closed(properties: Json, **optional: Json) -> Json:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": properties | optional,
        "required": list(properties),
        "additionalProperties": False,
    }


def _json_rpc_components() -> dict[str, Json]:
    rpc_id = {
        "type": ["string", "number", "null"],
        "maxLength": CALL_ID_LENGTH,
        "description": "Repeated in the answer as it came.",
    }
    version = {"type": "string", "const": "2.0"}
    return {
        "JsonRpcCall": {
            "type": "object",
            "properties": {
                "jsonrpc": version,
                "id": rpc_id,
                "method": {"type": "string", "const": "SendMessage"},
                "params": ref("SendMessageRequest"),
            },
            "required": ["jsonrpc", "id", "method", "params"],
        },
        "JsonRpcResult": _closed({"jsonrpc": version, "id": rpc_id, "result": ref("SendMessageReply")}),
        "JsonRpcError": _closed({"jsonrpc": version, "id": rpc_id, "error": ref("JsonRpcErrorBody")}),
    }
