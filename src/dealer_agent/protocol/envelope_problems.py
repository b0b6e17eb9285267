"""Defines the envelope of a request, and lists all that is wrong with one (docs/protocol.md#envelope). Pure."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from dealer_agent.protocol.problems import Path, Problem
from dealer_agent.protocol.request_problems import Checker, list_problems
from dealer_agent.protocol.schemas import envelope_schema
from dealer_agent.protocol.skill import INVENTORY_SEARCH, ReadingPayload, Skill
from dealer_agent.protocol.vocabulary import Vocabularies, Vocabulary, bare_media_type

ID_LENGTH = 200
"""The most characters of `messageId`, `contextId` and `taskId`."""
MEDIA_TYPE_LENGTH = 200
"""The most characters of a media type."""
MODES_LIMIT = 100
"""The most entries of `acceptedOutputModes`."""
PARTS_LIMIT = 100
"""The most entries of `parts`."""

_Id = Annotated[str, Meta(max_length=ID_LENGTH)]
_MediaType = Annotated[str, Meta(max_length=MEDIA_TYPE_LENGTH)]


class Part(Struct, frozen=True, rename="camel"):
    """A part of a message. `kind` is legacy."""

    data: ReadingPayload | UnsetType = UNSET
    media_type: _MediaType | UnsetType = UNSET
    kind: Any = UNSET


class Message(Struct, frozen=True, rename="camel"):
    """The message. `kind` is legacy."""

    message_id: Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]
    role: Literal["ROLE_USER"]
    parts: Annotated[list[Part], Meta(max_length=PARTS_LIMIT)]
    context_id: _Id | UnsetType = UNSET
    task_id: _Id | UnsetType = UNSET
    kind: Any = UNSET


class Configuration(Struct, frozen=True, rename="camel"):
    """What the buyer accepts."""

    accepted_output_modes: Annotated[list[_MediaType], Meta(min_length=1, max_length=MODES_LIMIT)]
    task_push_notification_config: Any = UNSET
    push_notification_config: Any = UNSET


class SendMessage(Struct, frozen=True):
    """A2A's SendMessageRequest with a payload of a reading skill. Unknown members are allowed."""

    message: Message
    configuration: Configuration
    tenant: Any = UNSET


def _envelope_checker(*, lenient: bool) -> Checker:
    """Checks an envelope without its payload. With `lenient`, `configuration` may be absent."""
    schema = envelope_schema(SendMessage)
    # `payload_problems` checks the payload.
    schema["$defs"]["Part"]["properties"]["data"] = {"type": "object"}
    if lenient:
        configuration = schema["$defs"]["Configuration"]
        schema["required"].remove("configuration")
        del configuration["required"], configuration["properties"]["acceptedOutputModes"]["minItems"]
    return Checker(schema, names=False)


_strict, _lenient = _envelope_checker(lenient=False), _envelope_checker(lenient=True)


def data_part(body: Any) -> tuple[int, dict[str, Any] | None]:
    """The index of the first data part, and the part; 0 and None if the body has none."""
    for index, part in enumerate(_parts(body) or ()):
        if isinstance(part, dict) and "data" in part:
            return index, part
    return 0, None


def envelope_problems(body: Any, vocabulary: Vocabulary, *, lenient: bool) -> list[Problem]:
    """What is wrong with the envelope, except for its media types. `lenient` allows an absent configuration."""
    problems = []
    without_message = isinstance(body, dict) and "message" not in body
    for problem in list_problems(_lenient if lenient else _strict, body):
        if without_message and problem.path == ("configuration",) and problem.keyword == "required":
            # The problem about the absent message has an example with both members (`_form_of_a_request`).
            continue
        received = _received(body, problem)
        words = problem.message
        if problem.path == ("message",) and problem.keyword == "required":
            words += _form_of_a_request(body, vocabulary)
        elif problem.path == ("message", "role") and received and received[0] in ("user", "agent"):
            words = "must be ROLE_USER: this is the legacy v0.3 form; send the v1.0 form"
        elif problem.path[:1] == ("configuration",) and problem.keyword in ("required", "minItems"):
            words += ': send "configuration": {"acceptedOutputModes": ["application/json"]}'
        problems.append(replace(problem, message=words, received=received))
    return problems + _part_problems(body, vocabulary)


def undeclared_media_types(body: Any, vocabularies: Vocabularies) -> list[str]:
    """The media types of the parts, if no part has data and the card declares none of the types. Else nothing."""
    types = []
    for part in _parts(body) or ():
        media_type = part.get("mediaType") if isinstance(part, dict) and "data" not in part else None
        if not isinstance(media_type, str) or bare_media_type(media_type) in vocabularies.requests:
            return []
        types.append(media_type)
    return types


def media_type_problems(body: Any, skill: Skill | None, vocabularies: Vocabularies, *, lenient: bool) -> list[Problem]:
    """What is wrong with the media type of the data part and with the accepted output modes."""
    problems: list[Problem] = []
    index, part = data_part(body)
    media_type = part.get("mediaType") if part else None
    vocabulary = vocabularies.of_media_type(media_type)
    path = ("message", "parts", index, "mediaType")
    if part is not None and "mediaType" not in part:
        problems.append(Problem(path, "is required on a data part", "required"))
    if skill is None:
        return problems
    if isinstance(media_type, str):
        found = vocabularies.requests.get(bare_media_type(media_type))
        if found is None or found[1] is not skill:
            words = f"must be {vocabulary.request_media_type(skill)} for {skill.request_type}"
            problems.append(Problem(path, words, "const", (media_type,)))
    modes = body.get("configuration", {}).get("acceptedOutputModes", [])
    if not (vocabularies.accepts(modes, skill) or (lenient and not modes)):
        wanted = vocabulary.response_media_type(skill)
        words = f"must hold the skill's response media type, {wanted}"
        problems.append(Problem(("configuration", "acceptedOutputModes"), words, "contains", (modes,), wanted))
    return problems


def _part_problems(body: Any, vocabulary: Vocabulary) -> list[Problem]:
    """Problems of the parts together: legacy members, and a number of data parts other than one."""
    message, parts = _message(body), _parts(body)
    problems = []
    nodes: list[tuple[Path, Any]] = [((), message)]
    nodes += ((("parts", index), part) for index, part in enumerate(parts or ()))
    for path, node in nodes:
        if isinstance(node, dict) and "kind" in node:
            words = "is the legacy v0.3 form; in v1.0 a part has no kind: its member name (data, text) says what it is"
            problems.append(Problem(("message", *path, "kind"), words, "additionalProperties"))
    if parts is not None:
        count = sum(isinstance(part, dict) and "data" in part for part in parts)
        if count > 1:
            words = f"must hold exactly one data part; it holds {count}"
            problems.append(Problem(("message", "parts"), words, "maxContains"))
        if not count:
            text = "free text is not understood; " if any(isinstance(p, dict) and "text" in p for p in parts) else ""
            words = f"must hold a data part, and holds none; {text}send a part such as {_example_part(vocabulary)}"
            problems.append(Problem(("message", "parts"), words, "contains"))
    return problems


def _form_of_a_request(body: dict[str, Any], vocabulary: Vocabulary) -> str:
    bare = "the body is the payload alone; " if isinstance(body.get("type"), str) else ""
    message = f'{{"messageId": "1", "role": "ROLE_USER", "parts": [{_example_part(vocabulary)}]}}'
    configuration = '{"acceptedOutputModes": ["application/json"]}'
    return f'; {bare}send {{"message": {message}, "configuration": {configuration}}}'


def _example_part(vocabulary: Vocabulary) -> str:
    media_type = vocabulary.request_media_type(INVENTORY_SEARCH)
    return f'{{"data": {{"type": "{INVENTORY_SEARCH.request_type}"}}, "mediaType": "{media_type}"}}'


def _message(body: Any) -> Any:
    return body.get("message") if isinstance(body, dict) else None


def _parts(body: Any) -> list[Any] | None:
    message = _message(body)
    parts = message.get("parts") if isinstance(message, dict) else None
    return parts if isinstance(parts, list) else None


def _received(body: Any, problem: Problem) -> tuple[Any] | None:
    """The received value, if it is short. An object or array is not repeated, because it may contain the payload."""
    if problem.keyword == "required" or "data" in problem.path:
        return None
    for step in problem.path:
        body = body[step]
    return None if isinstance(body, dict | list) else (body,)
