"""The components of the OpenAPI document: payloads, envelopes, errors and cards (specification, part 2; contract,
parts 2 and 3). Pure.

Payload schemas are those under `/schemas/`, their definitions moved to `components`; what stands around them is written
here.
"""

import re
from typing import Any

from dealer_agent.apidocs.glossary import FIELD_MEANINGS, SCHEMA_MEANINGS
from dealer_agent.protocol.card import CardFacts
from dealer_agent.protocol.envelope import ID_LENGTH, MEDIA_TYPE_LENGTH, MODES_LIMIT, PARTS_LIMIT
from dealer_agent.protocol.errors import ERRORS
from dealer_agent.protocol.json_rpc import CALL_ID_LENGTH
from dealer_agent.protocol.replies import A2A_DOMAIN, ERROR_INFO_TYPE
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
    """Everything around the payloads: messages, calls, errors, cards.

    Each object and each list of words has its own component, because code generators name types after components.
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
        **_card_components(),
        "Health": _open(status={"type": "string"}),
        "SchemaNames": _open(schemas={"type": "array", "items": {"type": "string"}}),
    }


def _any_of_members(*names: str) -> Json:
    """For `not`: a refused member. Code generators fail on a property whose schema is `false`."""
    return {"anyOf": [{"required": [name]} for name in names]}


def _request_envelope(name: str, skill: Skill, wire: Wire) -> dict[str, Json]:
    both = (wire.default, wire.other)
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
        "contains": {"enum": [words.response_media_type(skill) for words in both] + _COVERING},
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
        media_type: _words(*(words.request_media_type(skill) for words in both)),
    }


_COVERING = ["application/json", "application/*", "*/*"]


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
        media_type: _words(*(words.response_media_type(skill) for words in (wire.default, wire.other))),
    }


def _error_components(wire: Wire) -> dict[str, Json]:
    both = (wire.default, wire.other)
    details = {
        "in": {"type": "string", "enum": ["payload", "envelope"], "description": "Where `instancePath` starts."},
        "instancePath": {"type": "string", "description": "JSON pointer to the first problem."},
        "received": {"description": "The value that was received. Never sent for personal data."},
        "expected": {"type": "string"},
        "errors": {"type": "array", "items": ref("Problem")},
        "retry_after_seconds": {"type": "integer", "minimum": 0},
        "lead_id": {"type": "string"},
    }
    bare: Json = {
        "type": ref("ErrorType"),
        "error_id": {"type": "string", "description": "Names this one error; the dealer finds it in the log."},
        "code": ref("ErrorCode"),
        "message": {"type": "string"},
        "retryable": {"type": "boolean", "description": "Whether the same request may be sent again."},
        "details": ref("ErrorPayloadDetails"),
        "created_at": {"type": "string", "format": "date-time"},
    }
    info = {
        "@type": {"type": "string", "const": ERROR_INFO_TYPE},
        "reason": ref("ErrorCode"),
        "domain": ref("ErrorDomain"),
        "metadata": ref("ErrorMetadata"),
    }
    body = {
        "code": {"type": "integer", "description": "The HTTP status."},
        "message": {"type": "string"},
        "details": ref("ErrorDetails"),
    }
    problem = {
        "instancePath": {"type": "string"},
        "keyword": {"type": "string", "description": "The JSON Schema keyword that failed."},
        "message": {"type": "string"},
    }
    return {
        "Error": _closed({"error": ref("ErrorBody")}) | {"description": "What every refusal says."},
        "ErrorBody": _closed(body),
        "ErrorDetails": {
            "type": "array",
            "prefixItems": [ref("ErrorInfo"), ref("ErrorPayload")],
            "minItems": 2,
            "maxItems": 2,
        },
        "ErrorInfo": _closed(info) | {"description": "google.rpc.ErrorInfo."},
        "ErrorMetadata": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("error_id", "instancePath", "received")},
            "required": ["error_id"],
            "additionalProperties": {"type": "string"},
        },
        "ErrorPayload": {
            "description": "The protocol's own error. Its `@type` is the `type` as an address.",
            **_open(**bare),
            # Not among the properties: openapi-python-client makes one name of `type` and `@type` and drops the object.
            # Nor is the object closed: the models of datamodel-code-generator would refuse `@type`.
            "dependentSchemas": {"type": _open(**{"@type": _words(*(words.error_type_url for words in both))})},
            "propertyNames": {"enum": ["@type", *bare]},
        },
        "BareErrorPayload": _closed(bare) | {"description": "The protocol's own error, without `@type`."},
        "ErrorPayloadDetails": {"type": "object", "properties": details},
        "ErrorCode": _words(*ERRORS) | {"description": "The protocol's error code."},
        "ErrorDomain": _words(*(words.domain for words in both), A2A_DOMAIN),
        "ErrorType": _words(*(words.error_type for words in both)),
        "Problem": _closed(problem, received={"description": "The value that was received."}),
    }


def _words(*words: str) -> Json:
    return {"type": "string", "enum": list(words)}


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
    data = {
        "description": "`proto`: the two entries of `error.details`. `autoagent`: the error payload without `@type`.",
        "anyOf": [ref("ErrorDetails"), ref("BareErrorPayload")],
    }
    body = _closed({"code": {"type": "integer"}, "message": {"type": "string"}, "data": data})
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
        "JsonRpcErrorBody": body,
    }


def _card_components() -> dict[str, Json]:
    """Both cards, as far as an agent needs them; further members are allowed."""
    text: Json = {"type": "string"}
    texts: Json = {"type": "array", "items": text}
    shared = {"name": text, "description": text, "version": text, "provider": ref("AgentProvider")}
    skill = {"id": text, "name": text, "description": text, "tags": texts}
    return {
        "AgentCard": _open(
            **shared,
            capabilities=ref("AgentCapabilities"),
            skills=_list_of("AgentSkill"),
            supportedInterfaces=_list_of("AgentInterface"),
            defaultInputModes=texts,
            defaultOutputModes=texts,
        )
        | {"description": "A2A v1.0's agent card."},
        "AgentProvider": _open(organization=text, url=text),
        "AgentCapabilities": _open(
            streaming={"type": "boolean"}, pushNotifications={"type": "boolean"}, extensions=_list_of("AgentExtension")
        ),
        "AgentExtension": _open(uri=text, description=text, required={"type": "boolean"}, params={"type": "object"}),
        "AgentInterface": _open(url=text, protocolBinding=text, protocolVersion=text),
        "AgentSkill": _open(**skill, inputModes=texts, outputModes=texts),
        "LegacyAgentCard": _open(
            **shared,
            capabilities=ref("LegacyAgentCapabilities"),
            skills=_list_of("LegacyAgentSkill"),
            supported_interfaces=_list_of("LegacyAgentInterface"),
            default_input_modes=texts,
            default_output_modes=texts,
            auth_type=_words("none", "bearer"),
        )
        | {"description": "The agent card of revision 0.1.0."},
        "LegacyAgentCapabilities": _open(
            streaming={"type": "boolean"}, push_notifications={"type": "boolean"}, extensions=_list_of("AgentExtension")
        ),
        "LegacyAgentInterface": _open(url=text, protocol_binding=text, protocol_version=text),
        "LegacyAgentSkill": _open(**skill, input_modes=texts, output_modes=texts),
    }


def _open(**properties: Json) -> Json:
    """An object with at least these members."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list_of(name: str) -> Json:
    return {"type": "array", "items": ref(name)}
