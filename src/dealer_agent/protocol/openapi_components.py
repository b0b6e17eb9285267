"""The components of the OpenAPI document: payloads, envelopes, errors and cards (specification, part 2; contract,
parts 2 and 3). Pure.

Payload schemas are those under `/schemas/`, their definitions moved to `components`; what stands around them is written
here.
"""

import re
from typing import Any

from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.errors import A2A_DOMAIN, ERROR_INFO_TYPE, ERRORS
from dealer_agent.protocol.glossary import FIELD_MEANINGS, SCHEMA_MEANINGS
from dealer_agent.protocol.schemas import Schema, request_schema, response_schema
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.vocabulary import Wire

Json = dict[str, Any]


def payload_component(skill: Skill) -> str:
    """The component that is the skill's request payload."""
    return skill.payload.__name__


def reply_component(skill: Skill) -> str:
    """The component that is the skill's response payload."""
    return payload_component(skill).removesuffix("Request") + "Response"


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def components(facts: CardFacts, wire: Wire) -> dict[str, Json]:
    """Component name to schema, sorted by name: payloads of the enabled skills, envelopes, errors, cards."""
    found: dict[str, Json] = _envelopes(facts, wire)
    for skill in facts.skills:
        found |= _lifted(payload_component(skill), request_schema(skill))
        found |= _lifted(reply_component(skill), response_schema(skill))
    for name, words in SCHEMA_MEANINGS.items():
        if name in found:
            found[name]["description"] = words
    for name, meanings in FIELD_MEANINGS.items():
        for member, words in meanings.items() if name in found else ():
            found[name]["properties"][member]["description"] = words
    return dict(sorted(found.items()))


def _lifted(name: str, schema: Schema) -> dict[str, Json]:
    """A published schema and its definitions as components; a response's `data` becomes one of its own."""
    root = {member: value for member, value in schema.items() if member not in ("$schema", "$defs")}
    components = {definition: _moved(value) for definition, value in schema.get("$defs", {}).items()}
    root = _moved(root)
    data = root["properties"].get("data")
    if data is not None:
        components[data["title"]] = data
        root["properties"]["data"] = ref(data["title"])
        root["properties"]["message"]["description"] = "A sentence for the reader."
    return components | {name: root | {"title": name}}


_INTERNAL_REFERENCE = re.compile(r"\s*\((?:\d|contract|specification)[^)]*\)")


def _moved(node: Any) -> Any:
    """A copy with references to components, and without references to the papers that the types are written from."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {name: _moved(value) for name, value in node.items()}
    if isinstance(moved.get("$ref"), str):
        moved["$ref"] = moved["$ref"].replace("#/$defs/", "#/components/schemas/")
    if isinstance(moved.get("description"), str):
        moved["description"] = _INTERNAL_REFERENCE.sub("", moved["description"])
    return moved


def _envelopes(facts: CardFacts, wire: Wire) -> dict[str, Json]:
    """Everything around the payloads: messages, calls, errors, cards."""
    asked: dict[str, Json] = {}
    answered: dict[str, Json] = {}
    for skill in facts.skills:
        name = payload_component(skill).removesuffix("Request")
        asked[f"Send{name}"] = _request_envelope(skill, wire)
        answered[f"{name}Reply"] = _reply_envelope(skill, wire)
    return {
        **asked,
        **answered,
        "SendMessageRequest": {
            "title": "SendMessageRequest",
            "description": "The body of a request: one of the skills.",
            "oneOf": [ref(name) for name in asked],
        },
        "SendMessageReply": {
            "title": "SendMessageReply",
            "description": "The answer of the skill that was asked.",
            "oneOf": [ref(name) for name in answered],
        },
        "OtherPart": {
            "description": "A part that is no data part, such as a text part. It is ignored.",
            "type": "object",
            "properties": {"text": {"type": "string"}, "mediaType": {"type": "string"}, "data": False, "kind": False},
        },
        **_error_components(wire),
        **_json_rpc_components(),
        **_card_components(),
        "Health": {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]},
    }


def _request_envelope(skill: Skill, wire: Wire) -> Json:
    both = (wire.default, wire.other)
    data_part = {
        "type": "object",
        "properties": {
            "data": ref(payload_component(skill)),
            "mediaType": {"enum": [words.request_media_type(skill) for words in both]},
            "kind": False,
        },
        "required": ["data", "mediaType"],
    }
    message = {
        "type": "object",
        "properties": {
            "messageId": {"type": "string", "minLength": 1, "description": "The sender's own, unique; a ULID or so."},
            "role": {"const": "ROLE_USER"},
            "parts": {
                "type": "array",
                "description": "Exactly one data part. Text parts beside it are ignored.",
                "items": {"anyOf": [data_part, ref("OtherPart")]},
                "contains": data_part,
                "minContains": 1,
                "maxContains": 1,
            },
            "contextId": {"type": "string", "description": "The reply repeats it."},
            "taskId": {"type": "string", "maxLength": 0, "description": "There are no tasks here."},
            "kind": False,
        },
        "required": ["messageId", "role", "parts"],
    }
    modes = {
        "type": "array",
        "description": "Media types that the buyer takes; one of them covers the reply.",
        "items": {"type": "string"},
        "minItems": 1,
        "contains": {"enum": [words.response_media_type(skill) for words in both] + _COVERING},
    }
    configuration = {
        "type": "object",
        "properties": {
            "acceptedOutputModes": modes,
            "taskPushNotificationConfig": False,
            "pushNotificationConfig": False,
        },
        "required": ["acceptedOutputModes"],
    }
    return {
        "title": skill.name,
        "description": skill.description,
        "type": "object",
        "properties": {"message": message, "configuration": configuration},
        "required": ["message", "configuration"],
    }


_COVERING = ["application/json", "application/*", "*/*"]


def _reply_envelope(skill: Skill, wire: Wire) -> Json:
    media_types = [words.response_media_type(skill) for words in (wire.default, wire.other)]
    part = {
        "type": "object",
        "properties": {"data": ref(reply_component(skill)), "mediaType": {"enum": media_types}},
        "required": ["data", "mediaType"],
        "additionalProperties": False,
    }
    message = {
        "type": "object",
        "properties": {
            "messageId": {"type": "string", "minLength": 1, "description": "A fresh ULID."},
            "contextId": {"type": "string", "description": "The request's, when it had one."},
            "role": {"const": "ROLE_AGENT"},
            "parts": {"type": "array", "items": part, "minItems": 1, "maxItems": 1},
        },
        "required": ["messageId", "role", "parts"],
        "additionalProperties": False,
    }
    return {
        "title": f"{skill.name}, answered",
        "type": "object",
        "properties": {"message": message},
        "required": ["message"],
        "additionalProperties": False,
    }


def _error_components(wire: Wire) -> dict[str, Json]:
    both = (wire.default, wire.other)
    payload = {
        "@type": {"enum": [words.error_type_url for words in both]},
        "type": {"enum": [words.error_type for words in both]},
        "error_id": {"type": "string", "description": "Names this one error; the dealer finds it in the log."},
        "code": {"enum": list(ERRORS)},
        "message": {"type": "string"},
        "retryable": {"type": "boolean", "description": "Whether the same request may be sent again."},
        "details": {
            "type": "object",
            "properties": {
                "in": {"enum": ["payload", "envelope"], "description": "Where `instancePath` starts."},
                "instancePath": {"type": "string", "description": "JSON pointer to the first problem."},
                "received": {"description": "What stood there. Never sent for personal data."},
                "expected": {"type": "string"},
                "errors": {"type": "array", "items": ref("Problem")},
                "retry_after_seconds": {"type": "integer", "minimum": 0},
                "lead_id": {"type": "string"},
            },
        },
        "created_at": {"type": "string", "format": "date-time"},
    }
    info = {
        "@type": {"const": ERROR_INFO_TYPE},
        "reason": {"enum": list(ERRORS), "description": "The protocol's error code."},
        "domain": {"enum": [words.domain for words in both] + [A2A_DOMAIN]},
        "metadata": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("error_id", "instancePath", "received")},
            "required": ["error_id"],
            "additionalProperties": {"type": "string"},
        },
    }
    pair: Json = {
        "type": "array",
        "prefixItems": [ref("ErrorInfo"), ref("ErrorPayload")],
        "minItems": 2,
        "maxItems": 2,
    }
    error = {"code": {"type": "integer", "description": "The HTTP status."}, "message": {"type": "string"}}
    problem = {
        "instancePath": {"type": "string"},
        "keyword": {"type": "string", "description": "The JSON Schema keyword that failed."},
        "message": {"type": "string"},
        "received": {},
    }
    return {
        "Error": _closed({"error": _closed({**error, "details": pair})}) | {"description": "What every refusal says."},
        "ErrorInfo": _closed(info) | {"description": "google.rpc.ErrorInfo."},
        "ErrorPayload": _closed(payload) | {"description": "The protocol's own error."},
        "Problem": {
            "type": "object",
            "properties": problem,
            "required": ["instancePath", "keyword", "message"],
            "additionalProperties": False,
        },
    }


def _closed(properties: Json) -> Json:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _json_rpc_components() -> dict[str, Json]:
    rpc_id = {"type": ["string", "number", "null"], "description": "Repeated in the answer as it came."}
    version = {"const": "2.0"}
    bare: Json = {"properties": {name: {} for name in ("type", "code")}, "type": "object", "required": ["type", "code"]}
    data = {
        "description": "`proto`: the two entries of `error.details`. `autoagent`: the error payload without `@type`.",
        "anyOf": [{"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "object"}}, bare],
    }
    error = _closed({"code": {"type": "integer"}, "message": {"type": "string"}, "data": data})
    return {
        "JsonRpcCall": {
            "type": "object",
            "properties": {
                "jsonrpc": version,
                "id": rpc_id,
                "method": {"const": "SendMessage"},
                "params": ref("SendMessageRequest"),
            },
            "required": ["jsonrpc", "id", "method", "params"],
        },
        "JsonRpcResult": _closed({"jsonrpc": version, "id": rpc_id, "result": ref("SendMessageReply")}),
        "JsonRpcError": _closed({"jsonrpc": version, "id": rpc_id, "error": error}),
    }


def _card_components() -> dict[str, Json]:
    def card(required: str, words: str) -> Json:
        return {"type": "object", "required": required.split(), "description": words}

    common = "name description version provider capabilities skills"
    return {
        "AgentCard": card(
            f"{common} supportedInterfaces defaultInputModes defaultOutputModes", "A2A v1.0's agent card."
        ),
        "LegacyAgentCard": card(
            f"{common} supported_interfaces default_input_modes default_output_modes auth_type",
            "The agent card of revision 0.1.0.",
        ),
    }
