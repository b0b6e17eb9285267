"""Decodes a request: envelope and payload (docs/protocol.md#envelope). Pure.

There are two decoders. The fast decoder accepts plain requests: valid requests of a reading skill, without a task, a
tenant, a push-notification configuration or the legacy `kind`. It is one msgspec decode and a few comparisons. The full
check decodes leads and all other bodies. It converts numbers with a zero fraction, and lists every problem. A property
test shows that both agree. There is one exception: in members that it skips, the fast decoder accepts any number.
"""

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dealer_agent.protocol.envelope_problems import (
    SendMessage,
    data_part,
    envelope_problems,
    media_type_problems,
    undeclared_media_types,
)
from dealer_agent.protocol.errors import (
    ContentTypeNotSupported,
    ProtocolError,
    PushNotificationNotSupported,
    TaskNotFound,
    UnsupportedSkill,
)
from dealer_agent.protocol.json_body import NOT_DECODED, is_sound, read_json
from dealer_agent.protocol.problems import RECEIVED_LIMIT, Problem, message_and_details, validation_error
from dealer_agent.protocol.published_versions import PublishedVersion
from dealer_agent.protocol.request_problems import payload_problems
from dealer_agent.protocol.skill import (
    LEAD_SUBMIT,
    SKILL_BY_PAYLOAD,
    SKILL_BY_REQUEST_TYPE,
    SKILLS,
    InventoryVehicleRequest,
    Payload,
    Skill,
)
from dealer_agent.protocol.version_payloads import root_payload, version_problems
from dealer_agent.protocol.vocabulary import Vocabularies, Vocabulary

MEDIA_TYPES_SHOWN = 3
"""The most media types that an error repeats."""

LEAD = LEAD_SUBMIT.id.encode()
"""The body of a lead contains these bytes, unless its client has escaped them."""


class Request(Struct, frozen=True, gc=False):
    """A request whose skill is known. It has a `payload`, or `problems` that say why not.

    `plain` is the payload of a lead as JSON values, unknown members included. It is what the store keeps. `tenant` is
    A2A's name of the receiver, as sent. For a request to a published `version`, the payload and
    `plain` are translated to the service's own protocol.
    """

    skill: Skill
    vocabulary: Vocabulary
    context_id: str | None = None
    payload: Payload | None = None
    problems: tuple[Problem, ...] = ()
    plain: dict[str, Any] | None = None
    tenant: Any = None
    version: PublishedVersion | None = None


_decoder = msgspec.json.Decoder(SendMessage)


class _TypeOfData(Struct, frozen=True):
    type: str | UnsetType = UNSET


class _TypeOfPart(Struct, frozen=True):
    data: _TypeOfData | UnsetType = UNSET


class _TypeOfMessage(Struct, frozen=True):
    parts: list[_TypeOfPart]


class RequestTypes(Struct, frozen=True):
    """The members of a request that name its skill. The decoder skips the others, which is cheap."""

    message: _TypeOfMessage

    @property
    def is_lead(self) -> bool:
        """Whether a data part is a lead."""
        lead = LEAD_SUBMIT.request_type
        return any(part.data is not UNSET and part.data.type == lead for part in self.message.parts)


_types_decoder = msgspec.json.Decoder(RequestTypes)


def names_a_lead(body: bytes) -> bool:
    """Whether the body is a lead. This costs much less than to decode it."""
    try:
        return _types_decoder.decode(body).is_lead
    except NOT_DECODED:
        return False


def decode_request(
    body: bytes, vocabularies: Vocabularies, lenient: bool = False, version: PublishedVersion | None = None
) -> Request:
    """The request in an HTTP+JSON body. Raises ProtocolError for an invalid envelope or an unknown skill.

    A request with an invalid payload has `problems`. `lenient` allows an absent configuration. `version` is None
    for a request to the service's own addresses, which follow docs/protocol.md.
    """
    request = decode_plain_request(body, vocabularies) if version is None else None
    if request is not None:
        return request
    plain = read_json(body)
    if isinstance(plain, dict) and "jsonrpc" in plain and "message" not in plain:
        words = "is a JSON-RPC call; send it to /rpc, or send its params alone here"
        raise validation_error([Problem((), words, "additionalProperties")], "envelope")
    return check_request(plain, vocabularies, lenient=lenient, version=version)


def decode_plain_request(body: bytes, vocabularies: Vocabularies) -> Request | None:
    """The plain request in an HTTP+JSON body; None for every other body. The decoder stops at the `type` of a lead."""
    if not is_sound(body):
        return None
    try:
        return plain_request(_decoder.decode(body), vocabularies)
    except NOT_DECODED:
        return None


def plain_request(sent: SendMessage, vocabularies: Vocabularies) -> Request | None:
    """The plain request in a decoded body; None if the body needs the full check."""
    message = sent.message
    configuration = sent.configuration
    if (
        sent.tenant is not UNSET
        or message.kind is not UNSET
        or message.task_id is not UNSET
        or configuration.task_push_notification_config is not UNSET
        or configuration.push_notification_config is not UNSET
    ):
        return None
    with_data = None
    for part in message.parts:
        if part.kind is not UNSET:
            return None
        if part.data is not UNSET:
            if with_data is not None:
                return None
            with_data = part
    if with_data is None:
        return None
    payload, media_type = with_data.data, with_data.media_type
    if isinstance(payload, UnsetType) or isinstance(media_type, UnsetType):
        return None
    skill = SKILL_BY_PAYLOAD[type(payload)]
    declared = vocabularies.requests.get(media_type)
    if declared is None:
        return None
    vocabulary, skill_of_type = declared
    if skill_of_type is not skill or not vocabularies.accepts(configuration.accepted_output_modes, skill):
        return None
    if type(payload) is InventoryVehicleRequest and payload.vin is payload.stock is payload.vehicle_id:
        # All three are UNSET: nothing identifies the vehicle.
        return None
    return Request(skill, vocabulary, message.context_id or None, payload)


def check_request(
    body: Any, vocabularies: Vocabularies, *, lenient: bool = False, version: PublishedVersion | None = None
) -> Request:
    """The request in plain JSON values, by the full check. Raises ProtocolError as `decode_request`."""
    part = data_part(body)[1]
    vocabulary = vocabularies.of_media_type(part.get("mediaType")) if part else vocabularies.default
    try:
        skill, payload = _check_envelope(body, vocabularies, vocabulary, lenient=lenient, version=version)
    except ProtocolError as error:
        error.vocabulary = vocabulary
        raise
    context_id, tenant = body["message"].get("contextId") or None, body.get("tenant")
    problems = payload_problems(skill, payload) if version is None else version_problems(version, skill, payload)
    if not problems:
        payload = payload if version is None else root_payload(version, skill, payload)
        try:
            typed: Payload = msgspec.convert(payload, skill.payload)
        except msgspec.ValidationError:
            problems = [Problem((), "does not have the shape that the schema asks for", "type")]
        else:
            plain = payload if skill.is_lead else None
            return Request(skill, vocabulary, context_id, typed, plain=plain, tenant=tenant, version=version)
    if skill.is_lead:
        # The name of an unknown member is enough: its value may be personal.
        problems = [replace(p, received=None) if p.keyword == "additionalProperties" else p for p in problems]
    return Request(skill, vocabulary, context_id, problems=tuple(problems), tenant=tenant, version=version)


def _check_envelope(
    body: Any, vocabularies: Vocabularies, vocabulary: Vocabulary, *, lenient: bool, version: PublishedVersion | None
) -> tuple[Skill, dict[str, Any]]:
    """The full check. Returns the skill and its payload, or raises one error that lists all problems.

    A2A has an error of its own for media types. A request to a published version with A2A errors gets it if it has no
    other problem. `lenient`: see `decode_request`.
    """
    _refuse_tasks(body)
    _refuse_other_media_types(body, vocabularies)
    problems = envelope_problems(body, vocabulary, lenient=lenient)
    part = data_part(body)[1]
    payload = part.get("data") if part else None
    named = payload.get("type") if isinstance(payload, dict) else None
    skill = SKILL_BY_REQUEST_TYPE.get(named) if not problems and isinstance(named, str) else None
    if version is not None and skill is not None and skill.is_extension:
        skill = None
    type_problems = media_type_problems(body, skill, vocabularies, lenient=lenient)
    if type_problems and not problems and version is not None and version.has_a2a_errors:
        raise ContentTypeNotSupported(*message_and_details(type_problems, "envelope"))
    problems += type_problems
    if problems:
        raise validation_error(problems, "envelope")
    _refuse_pushes(body)
    assert isinstance(payload, dict)
    if skill is None:
        raise _no_skill(payload)
    return skill, payload


def _no_skill(payload: dict[str, Any]) -> ProtocolError:
    """The error for a payload whose `type` is absent, malformed, or not a skill."""
    if "type" not in payload:
        return validation_error([Problem(("type",), "is required: it names the skill request", "required")], "payload")
    named = payload["type"]
    if not isinstance(named, str):
        received = None if isinstance(named, dict | list) else (named,)
        return validation_error([Problem(("type",), "must be a string", "type", received)], "payload")
    known = ", ".join(skill.request_type for skill in SKILLS)
    named = named[:RECEIVED_LIMIT]
    details = {"in": "payload", "instancePath": "/type", "received": named}
    return UnsupportedSkill(f"No skill here answers {named!r}. Known: {known}.", details)


def _refuse_tasks(body: Any) -> None:
    """A2A answers the id of an unknown task first, whatever else is wrong with the message."""
    match body:
        case {"message": {"taskId": str(task_id)}} if task_id:
            details = {"in": "envelope", "instancePath": "/message/taskId"}
            raise TaskNotFound("This agent keeps no tasks: send the message without a taskId.", details)


def _refuse_other_media_types(body: Any, vocabularies: Vocabularies) -> None:
    """Refuses a message without data whose parts all have media types that the card does not declare."""
    types = undeclared_media_types(body, vocabularies)
    if types:
        shown = [media_type[:RECEIVED_LIMIT] for media_type in types[:MEDIA_TYPES_SHOWN]]
        details = {"in": "envelope", "instancePath": "/message/parts", "received": shown}
        raise ContentTypeNotSupported(f"This agent reads none of these media types: {', '.join(shown)}.", details)


def _refuse_pushes(body: dict[str, Any]) -> None:
    configuration = body.get("configuration", {})
    if "taskPushNotificationConfig" in configuration or "pushNotificationConfig" in configuration:
        raise PushNotificationNotSupported("This agent pushes no notifications.", {"in": "envelope"})
