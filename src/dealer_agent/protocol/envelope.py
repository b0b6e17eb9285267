"""Decoding a request: envelope and payload, once, typed (specification, part 2.1; contract, part 2). Pure.

The fast road is one msgspec decode and a few comparisons; it takes good requests of the reading skills. Every lead, and
every request with anything unusual in it, takes the slow road, which knows all rules, repairs numbers with a zero
fraction and lists every problem. A property test holds both roads to one verdict. There is one difference: the fast
road does not see a number beyond a double in a member that it skips.
"""

import sys
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.errors import (
    ProtocolError,
    PushNotificationNotSupported,
    SchemaValidationFailed,
    TaskNotFound,
    UnsupportedSkill,
)
from dealer_agent.protocol.problems import Problem, validation_error
from dealer_agent.protocol.request_problems import Checker, compile_schema, list_problems, payload_problems
from dealer_agent.protocol.skill import (
    SKILL_BY_PAYLOAD,
    SKILL_BY_REQUEST_TYPE,
    DealerInformationRequest,
    InventoryFacetsRequest,
    InventorySearchRequest,
    InventoryVehicleRequest,
    LeadSubmitRequest,
    Payload,
    Skill,
)
from dealer_agent.protocol.vocabulary import Vocabulary, Wire, bare_media_type

NESTING_LIMIT = 100
"""Levels of objects and arrays in a body. Deeper than any valid request, shallower than any recursion limit."""

VALUES_LIMIT = 3_000
"""Values in a body, and opening brackets in its text. Checking a value takes some 5 µs. The largest lead that the
schemas allow has about 2,700."""

LARGEST_NUMBER = int(sys.float_info.max)
"""An integer beyond a double has hundreds of digits. Python takes quadratic time for it."""

ID_LENGTH = 200
MEDIA_TYPE_LENGTH = 200
MODES_LIMIT = 100
PARTS_LIMIT = 100
"""Characters of `messageId`, `contextId` and `taskId`, characters of a media type, entries of `acceptedOutputModes`,
and entries of `parts`."""

_MediaType = Annotated[str, Meta(max_length=MEDIA_TYPE_LENGTH)]

INTEGER_LIMIT = 2.0**63


class Request(Struct, frozen=True, gc=False):
    """A request whose skill is known. Either `payload` is there, or `problems` says why not.

    `plain` is a lead's payload as JSON values: what is stored, extras included.
    """

    skill: Skill
    vocabulary: Vocabulary
    context_id: str | None = None
    payload: Payload | None = None
    problems: tuple[Problem, ...] = ()
    plain: dict[str, Any] | None = None


class _Part(Struct, frozen=True, rename="camel"):
    data: (
        DealerInformationRequest | InventoryFacetsRequest | InventorySearchRequest | InventoryVehicleRequest | UnsetType
    ) = UNSET
    media_type: _MediaType | UnsetType = UNSET
    kind: Any = UNSET


class _Message(Struct, frozen=True, rename="camel"):
    message_id: Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]
    role: Literal["ROLE_USER"]
    parts: Annotated[list[_Part], Meta(max_length=PARTS_LIMIT)]
    context_id: Annotated[str, Meta(max_length=ID_LENGTH)] | UnsetType = UNSET
    task_id: Any = UNSET
    kind: Any = UNSET


class _Configuration(Struct, frozen=True, rename="camel"):
    accepted_output_modes: Annotated[list[_MediaType], Meta(min_length=1, max_length=MODES_LIMIT)]
    task_push_notification_config: Any = UNSET
    push_notification_config: Any = UNSET


class SendMessage(Struct, frozen=True):
    """A2A's SendMessageRequest, as far as this service reads it on the fast road."""

    message: _Message
    configuration: _Configuration


_decoder = msgspec.json.Decoder(SendMessage)

_MODES: dict[str, Any] = {
    "type": "array",
    "maxItems": MODES_LIMIT,
    "items": {"type": "string", "maxLength": MEDIA_TYPE_LENGTH},
}


class _LookAtData(Struct, frozen=True):
    type: str | UnsetType = UNSET


class _LookAtPart(Struct, frozen=True):
    data: _LookAtData | UnsetType = UNSET


class _LookAtMessage(Struct, frozen=True):
    parts: list[_LookAtPart]


class Look(Struct, frozen=True):
    """The part of a request that shows which skill it is for. Skipping the rest costs little."""

    message: _LookAtMessage

    @property
    def names_a_lead(self) -> bool:
        """Whether a data part is a lead."""
        lead = SKILL_BY_PAYLOAD[LeadSubmitRequest].request_type
        return any(part.data is not UNSET and part.data.type == lead for part in self.message.parts)


_look_decoder = msgspec.json.Decoder(Look)

ENVELOPE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["message", "configuration"],
    "properties": {
        "message": {
            "type": "object",
            "required": ["messageId", "role", "parts"],
            "properties": {
                "messageId": {"type": "string", "minLength": 1, "maxLength": ID_LENGTH},
                "role": {"const": "ROLE_USER"},
                "contextId": {"type": "string", "maxLength": ID_LENGTH},
                "taskId": {"type": "string", "maxLength": ID_LENGTH},
                "parts": {
                    "type": "array",
                    "maxItems": PARTS_LIMIT,
                    "items": {
                        "type": "object",
                        "properties": {
                            "data": {"type": "object"},
                            "mediaType": {"type": "string", "maxLength": MEDIA_TYPE_LENGTH},
                        },
                    },
                },
            },
        },
        "configuration": {
            "type": "object",
            "required": ["acceptedOutputModes"],
            "properties": {"acceptedOutputModes": {**_MODES, "minItems": 1}},
        },
    },
}
"""The envelope as the slow road checks it and the OpenAPI document shows it. `kind` is checked apart; unknown members
are allowed."""

_strict = compile_schema(ENVELOPE_SCHEMA, names=False)
_lenient = compile_schema(
    {
        **ENVELOPE_SCHEMA,
        "required": ["message"],
        "properties": {
            "message": ENVELOPE_SCHEMA["properties"]["message"],
            "configuration": {
                "type": "object",
                "properties": {"acceptedOutputModes": _MODES},
            },
        },
    },
    names=False,
)


def decode_request(body: bytes, wire: Wire, *, lenient: bool = False) -> Request:
    """The request in an HTTP+JSON body. Raises ProtocolError for what is wrong up to the skill (contract, part 3).

    `lenient` lets generic A2A clients leave out the configuration.
    """
    request = decode_plain_request(body, wire)
    if request is not None:
        return request
    plain = read_json(body)
    if isinstance(plain, dict) and "jsonrpc" in plain and "message" not in plain:
        words = "is a JSON-RPC call; send it to /rpc, or send its params alone here"
        raise validation_error([Problem("", "additionalProperties", words)], "envelope")
    return examine(plain, wire, lenient=lenient)


def decode_plain_request(body: bytes, wire: Wire) -> Request | None:
    """The request in an HTTP+JSON body by the fast road alone; None where it takes the slow one."""
    if not plainly_sound(body):
        return None
    try:
        return settle(_decoder.decode(body), wire)
    except NOT_DECODED:
        return None


NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises on a body that it cannot decode: ValidationError is a DecodeError."""


def plainly_sound(body: bytes) -> bool:
    """Whether a body is UTF-8 and cannot be nested too deeply, by looks that cost less than a parse.

    msgspec does not look at the bytes of what it skips or passes through (unknown members, a call's id).
    """
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return False
    return _plainly_shallow(body)


def _plainly_shallow(body: bytes) -> bool:
    return body.count(b"{") + body.count(b"[") <= NESTING_LIMIT


def settle(sent: SendMessage, wire: Wire) -> Request | None:
    """The request in a decoded body, when nothing about it needs a second look; else None."""
    message = sent.message
    configuration = sent.configuration
    if (
        message.kind is not UNSET
        or message.task_id is not UNSET
        or configuration.task_push_notification_config is not UNSET
        or configuration.push_notification_config is not UNSET
    ):
        return None
    data_part = None
    for part in message.parts:
        if part.kind is not UNSET:
            return None
        if part.data is not UNSET:
            if data_part is not None:
                return None
            data_part = part
    if data_part is None:
        return None
    payload, media_type = data_part.data, data_part.media_type
    if isinstance(payload, UnsetType) or isinstance(media_type, UnsetType):
        return None
    skill = SKILL_BY_PAYLOAD[type(payload)]
    spoken = wire.requests.get(media_type)
    if spoken is None or spoken[1] is not skill or not wire.accepts(configuration.accepted_output_modes, skill):
        return None
    if type(payload) is InventoryVehicleRequest and payload.vin is payload.stock is payload.vehicle_id:
        # All three are the one UNSET: nothing identifies the vehicle.
        return None
    return Request(skill, spoken[0], message.context_id or None, payload)


def names_a_lead(body: bytes) -> bool:
    """Whether the data of a body is a lead, at a cost far below that of decoding it."""
    try:
        return _look_decoder.decode(body).names_a_lead
    except NOT_DECODED:
        return False


def read_json(body: bytes, *, json_rpc: int | None = None) -> Any:
    """A body as plain JSON values, whole numbers as integers. Raises SchemaValidationFailed; `json_rpc` is the number
    that JSON-RPC gives a body that is not JSON."""
    # Before the parse: an array costs the parser and the garbage collector 0.1 µs for each of its three bytes.
    if body.count(b"{") + body.count(b"[") > VALUES_LIMIT:
        raise _not_readable(f"has more than {VALUES_LIMIT} opening brackets, those in texts included", json_rpc)
    try:
        value = msgspec.json.decode(body)
    except NOT_DECODED as problem:
        deep = isinstance(problem, RecursionError)
        raise _not_readable("is nested too deeply" if deep else "is not JSON in UTF-8", json_rpc) from None
    _refuse_large(value, json_rpc)
    return _with_whole_numbers(value)


def _not_readable(words: str, json_rpc: int | None) -> SchemaValidationFailed:
    problem = Problem("", "contentMediaType", words)
    details = {"in": "envelope", "instancePath": "", "errors": [problem.as_details()]}
    return SchemaValidationFailed(f"The body {words}.", details, json_rpc=json_rpc)


def _refuse_large(value: object, json_rpc: int | None) -> None:
    level, values = [value], 1
    for _ in range(NESTING_LIMIT + 1):
        if any(isinstance(node, int) and abs(node) > LARGEST_NUMBER for node in level):
            raise _not_readable("has a number that no double can hold", json_rpc)
        containers = [node for node in level if isinstance(node, dict | list)]
        if not containers:
            return
        values += sum(map(len, containers))
        if values > VALUES_LIMIT:
            raise _not_readable(f"has more than {VALUES_LIMIT} values", json_rpc)
        level = [child for node in containers for child in (node.values() if isinstance(node, dict) else node)]
    raise _not_readable(f"is nested more than {NESTING_LIMIT} levels deep", json_rpc)


def _with_whole_numbers(value: Any) -> Any:
    """The value, changed in place. JSON has one kind of number, and SDKs that carry payloads through protobuf send
    2020.0 for 2020."""
    top = [value]
    waiting: list[Any] = [top]
    while waiting:
        node = waiting.pop()
        for step, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, float):
                if item.is_integer() and abs(item) < INTEGER_LIMIT:
                    node[step] = int(item)
            elif item and isinstance(item, dict | list):
                waiting.append(item)
    return top[0]


def examine(body: Any, wire: Wire, *, lenient: bool = False) -> Request:
    """The slow road: the request in plain JSON values, or the error that lists what is wrong with its envelope."""
    words = _vocabulary_of(body, wire)
    try:
        return _examined(body, wire, words, lenient=lenient)
    except ProtocolError as error:
        error.vocabulary = words
        raise


def _vocabulary_of(body: Any, wire: Wire) -> Vocabulary:
    part = _data_part(body)[1]
    return wire.of_media_type(part.get("mediaType")) if part else wire.default


def _examined(body: Any, wire: Wire, words: Vocabulary, *, lenient: bool) -> Request:
    problems = _envelope_problems(body, _lenient if lenient else _strict, words)
    index, part = _data_part(body)
    payload = part.get("data") if part else None
    skill = _skill_of(payload) if not problems and isinstance(payload, dict) else None
    problems += _media_problems(body, index, part, skill, wire, lenient=lenient)
    if problems:
        raise validation_error(problems, "envelope")
    _refuse_tasks_and_pushes(body)
    assert isinstance(payload, dict)
    if skill is None:
        raise _no_skill(payload)
    context_id = body["message"].get("contextId") or None
    found = payload_problems(skill, payload)
    typed: Payload | None = None
    if not found:
        try:
            typed = msgspec.convert(payload, skill.payload)
        except msgspec.ValidationError:
            found = [Problem("", "type", "does not have the shape that the schema asks for")]
    if skill.is_lead:
        # The name of an unknown member says enough: its value may well be the customer's.
        found = [replace(p, received=None) if p.keyword == "additionalProperties" else p for p in found]
    if found:
        return Request(skill, words, context_id, problems=tuple(found))
    return Request(skill, words, context_id, typed, plain=payload if skill.is_lead else None)


def _envelope_problems(body: Any, checker: Checker, spoken: Vocabulary) -> list[Problem]:
    problems = []
    without_message = isinstance(body, dict) and "message" not in body
    for problem in list_problems(checker, body):
        if without_message and problem.pointer == "/configuration" and problem.keyword == "required":
            # The problem of the missing message shows the form of both members.
            continue
        received = (_scalar_at(body, problem.pointer),) if _may_echo(body, problem) else None
        words = problem.message
        if problem.pointer == "/message" and problem.keyword == "required":
            words += _form_of_a_request(body, spoken)
        elif problem.pointer == "/message/role" and received and received[0] in ("user", "agent"):
            words = "must be ROLE_USER: this is the legacy v0.3 form; send the v1.0 form"
        elif problem.pointer.startswith("/configuration") and problem.keyword in ("required", "minItems"):
            words += ': send "configuration": {"acceptedOutputModes": ["application/json"]}'
        problems.append(replace(problem, message=words, received=received))
    message = body.get("message") if isinstance(body, dict) else None
    parts = _parts(body)
    places = [("/message", message)] + [(f"/message/parts/{index}", part) for index, part in enumerate(parts or ())]
    for pointer, node in places:
        if isinstance(node, dict) and "kind" in node:
            words = "is the legacy v0.3 form; in v1.0 a part is told by its member name (data, text) and has no kind"
            problems.append(Problem(f"{pointer}/kind", "additionalProperties", words))
    if parts is not None:
        count = sum(isinstance(part, dict) and "data" in part for part in parts)
        if count > 1:
            words = f"must hold exactly one data part; it holds {count}"
            problems.append(Problem("/message/parts", "maxContains", words))
        if not count:
            text = "free text is not understood; " if any(isinstance(p, dict) and "text" in p for p in parts) else ""
            words = f"must hold a data part, and holds none; {text}send a part such as {_example_part(spoken)}"
            problems.append(Problem("/message/parts", "contains", words))
    return problems


def _form_of_a_request(body: dict[str, Any], spoken: Vocabulary) -> str:
    """What to send instead of a body without `message`."""
    bare = "the body is the payload alone; " if isinstance(body.get("type"), str) else ""
    message = f'{{"messageId": "1", "role": "ROLE_USER", "parts": [{_example_part(spoken)}]}}'
    configuration = '{"acceptedOutputModes": ["application/json"]}'
    return f'; {bare}send {{"message": {message}, "configuration": {configuration}}}'


def _example_part(spoken: Vocabulary) -> str:
    skill = SKILL_BY_PAYLOAD[InventorySearchRequest]
    return f'{{"data": {{"type": "{skill.request_type}"}}, "mediaType": "{spoken.request_media_type(skill)}"}}'


def _parts(body: Any) -> list[Any] | None:
    """The message's parts, where there is a list of them."""
    message = body.get("message") if isinstance(body, dict) else None
    parts = message.get("parts") if isinstance(message, dict) else None
    return parts if isinstance(parts, list) else None


def _may_echo(body: Any, problem: Problem) -> bool:
    # The payload stands inside the envelope: only short plain values beside it are repeated.
    if problem.keyword == "required" or "/data" in problem.pointer:
        return False
    return not isinstance(_scalar_at(body, problem.pointer), dict | list)


def _scalar_at(body: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        body = body[int(step)] if isinstance(body, list) else body[step]
    return body


def _data_part(body: Any) -> tuple[int, dict[str, Any] | None]:
    for index, part in enumerate(_parts(body) or ()):
        if isinstance(part, dict) and "data" in part:
            return index, part
    return 0, None


def _skill_of(payload: dict[str, Any]) -> Skill | None:
    """The skill that the payload's `type` names, if it names one."""
    named = payload.get("type")
    return SKILL_BY_REQUEST_TYPE.get(named) if isinstance(named, str) else None


def _no_skill(payload: dict[str, Any]) -> ProtocolError:
    """What is wrong with a `type` that names no skill."""
    if "type" not in payload:
        return validation_error([Problem("/type", "required", "is required: it names the skill request")], "payload")
    named = payload["type"]
    if not isinstance(named, str):
        received = None if isinstance(named, dict | list) else (named,)
        return validation_error([Problem("/type", "type", "must be a string", received)], "payload")
    known = ", ".join(SKILL_BY_REQUEST_TYPE)
    details = {"in": "payload", "instancePath": "/type", "received": named[:200]}
    return UnsupportedSkill(f"No skill here answers {named[:200]!r}. Known: {known}.", details)


def _media_problems(
    body: Any, index: int, part: dict[str, Any] | None, skill: Skill | None, wire: Wire, *, lenient: bool
) -> list[Problem]:
    """What the part's media type and the accepted output modes get wrong (contract, part 2)."""
    problems: list[Problem] = []
    if part is not None:
        pointer = f"/message/parts/{index}/mediaType"
        media_type = part.get("mediaType")
        if "mediaType" not in part:
            problems.append(Problem(pointer, "required", "is required on a data part"))
        elif skill and isinstance(media_type, str):
            spoken = wire.requests.get(bare_media_type(media_type))
            if spoken is None or spoken[1] is not skill:
                wanted = wire.of_media_type(media_type).request_media_type(skill)
                problems.append(Problem(pointer, "const", f"must be {wanted} for {skill.request_type}", (media_type,)))
    if skill:
        modes = body.get("configuration", {}).get("acceptedOutputModes", [])
        if not (wire.accepts(modes, skill) or (lenient and not modes)):
            wanted = wire.of_media_type(part.get("mediaType") if part else None).response_media_type(skill)
            words = f"must hold the skill's response media type, {wanted}"
            problems.append(Problem("/configuration/acceptedOutputModes", "contains", words, (modes,), wanted))
    return problems


def _refuse_tasks_and_pushes(body: dict[str, Any]) -> None:
    configuration = body.get("configuration", {})
    for name in ("taskPushNotificationConfig", "pushNotificationConfig"):
        if name in configuration:
            raise PushNotificationNotSupported("This agent pushes no notifications.", {"in": "envelope"})
    if body["message"].get("taskId"):
        details = {"in": "envelope", "instancePath": "/message/taskId"}
        raise TaskNotFound("This agent keeps no tasks: send the message without a taskId.", details)
