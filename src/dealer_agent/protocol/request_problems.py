"""Lists everything that is wrong with a payload, by its published schema (docs/protocol.md#errors). Pure."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

import jsonschema_rs

from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.formats import FORMATS
from dealer_agent.protocol.problems import PROBLEMS_SHOWN, Path, Problem
from dealer_agent.protocol.requests import EXTRA_MEMBERS, EXTRA_NAME_LENGTH
from dealer_agent.protocol.schemas import Schema, checking_schema
from dealer_agent.protocol.skill import Skill
from dealer_agent.protocol.timestamps import parse_timestamp

_PERSONAL = ("customer", "consent", "message", "notes", "reason", "secret")
"""Members whose values are never repeated, at any depth."""

MOST_CHECKED = PROBLEMS_SHOWN + 1
"""The most problems that are described, and the most items of one array that are checked: one more than an error lists.
To describe a problem takes about 10 µs."""

_MOST_SUGGESTIONS = 10
"""The most unknown members that get the nearest known name. One search takes about 0.3 ms."""

_FORMAT_WORDS = {
    "email": "must be an e-mail address",
    "phone": "must be a phone number in international form, such as +12025550123",
    "date-time": "must be an ISO 8601 date and time with an offset, such as 2026-11-20T15:00:00Z",
    "date-time-local": "must be an ISO 8601 date and time, such as 2026-11-20T15:00:00-05:00",
    "timezone": "must be an IANA time zone, such as America/New_York",
    "date": "must be an ISO 8601 date, such as 2026-11-20",
    "uri": "must be a URI, such as https://agent.example.com",
}

_LIMIT_WORDS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} entries",
    "maxItems": "must have at most {} entries",
    "maxProperties": "must have at most {} members",
}

_TYPE_WORDS = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


class Checker:
    """The validators of one schema: of the whole schema, and of its size limits only.

    With `names`, member names are bounded. `known` has the names of all members in the schema.
    """

    def __init__(self, schema: Schema, *, names: bool = True) -> None:
        self.schema = schema
        self.whole = jsonschema_rs.Draft202012Validator(schema, validate_formats=True, formats=FORMATS)
        self.sizes = jsonschema_rs.Draft202012Validator(_sizes_of(schema))
        self.names = names
        self.known = frozenset(_members(schema))


def _sizes_of(schema: Schema) -> Schema:
    """A schema reduced to its bounds of size."""
    kept: Schema = {}
    for name, value in schema.items():
        if name in ("$ref", "maxLength", "maxItems", "maxProperties"):
            kept[name] = value
        elif name in ("items", "additionalProperties") and isinstance(value, dict):
            kept[name] = _sizes_of(value)
        elif name in ("properties", "$defs"):
            kept[name] = {member: _sizes_of(one) for member, one in value.items()}
    return kept


def _members(schema: Any) -> Iterator[str]:
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _members(one)
    if isinstance(schema, dict):
        yield from schema.get("properties", ())


@cache
def _checker(skill: Skill) -> Checker:
    return Checker(checking_schema(skill))


def payload_problems(skill: Skill, payload: dict[str, Any]) -> list[Problem]:
    """What is wrong with a payload. Pointers start at the payload."""
    problems = list_problems(_checker(skill), payload)
    if skill.is_lead:
        problems += _appointment_problems(payload.get("appointment"))
    return problems


def list_problems(checker: Checker, instance: object) -> list[Problem]:
    """All problems of an instance. Each missing or unknown member has its own problem.

    Lengths are checked first. The content of a value that is too long is not checked. In a long array, the items after
    the first `MOST_CHECKED` are checked only if nothing else is wrong. At most `MOST_CHECKED` problems are described.
    The others are counted in `left_out`.
    """
    skipped = set(_with_long_names(instance)) if checker.names else set()
    if not skipped and checker.whole.is_valid(instance):
        return []
    long_name = f"must have no member whose name has more than {EXTRA_NAME_LENGTH} characters"
    problems = [Problem(path, long_name, "propertyNames") for path in skipped]
    too_long = list(checker.sizes.iter_errors(instance))
    skipped |= {tuple(error.instance_path) for error in too_long}
    errors = [error for error in too_long if not _is_within(error.instance_path[:-1], skipped)]
    within = checker.whole.iter_errors(_shortened_copy(instance, checker.known, skipped))
    errors += (error for error in within if not skipped or not _is_within(error.instance_path, skipped))
    if not errors and not problems:
        try:
            checker.whole.validate(instance)
        except jsonschema_rs.ValidationError as first:
            errors = [first]
    left_out, suggestions = 0, _MOST_SUGGESTIONS
    for error in errors:
        found = _problems_of(error, checker, MOST_CHECKED - len(problems), suggestions)
        problems += found
        kind: Any = error.kind
        if kind.name == "additionalProperties":
            suggestions -= len(found)
            left_out += len(kind.unexpected) - len(found)
        else:
            left_out += 1 - len(found)
    if left_out:
        problems[-1] = replace(problems[-1], left_out=left_out)
    return list({(problem.path, problem.keyword): problem for problem in problems}.values())


def _with_long_names(instance: object) -> Iterator[Path]:
    """The paths of the objects that have a member with a name that is too long.

    The schema's `propertyNames` is not used: each of its errors contains the text of the whole object.
    """
    waiting: list[tuple[Any, Path]] = [(instance, ())]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, dict):
            if max(map(len, node), default=0) > EXTRA_NAME_LENGTH:
                yield path
            else:
                waiting += ((item, (*path, name)) for name, item in node.items() if isinstance(item, dict | list))
        elif isinstance(node, list):
            waiting += ((item, (*path, at)) for at, item in enumerate(node) if item and isinstance(item, dict | list))


def _shortened_copy(value: Any, known: frozenset[str], skipped: set[Path], path: Path = ()) -> Any:
    """A copy with at most `MOST_CHECKED` items of each array, and with empty values at the paths `skipped`.

    An object with too many members keeps the known ones and some others, because an error quotes the whole object.
    """
    if path in skipped:
        return type(value)()
    if isinstance(value, dict):
        if len(value) > EXTRA_MEMBERS + len(known):
            others = [name for name in value if name not in known][MOST_CHECKED:]
            value = {name: value[name] for name in value.keys() - set(others)}
        return {
            name: _shortened_copy(item, known, skipped, (*path, name))
            if skipped or isinstance(item, dict | list)
            else item
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [
            _shortened_copy(item, known, skipped, (*path, at)) if skipped or isinstance(item, dict | list) else item
            for at, item in enumerate(value[:MOST_CHECKED])
        ]
    return value


def _is_within(path: list[str | int], paths: set[Path]) -> bool:
    return any(tuple(path[:length]) in paths for length in range(len(path) + 1))


def _with_received(path: Path, message: str, keyword: str, received: object) -> Problem:
    """A problem with the received value. A personal value is left out."""
    personal = any(step in _PERSONAL for step in path)
    return Problem(path, message, keyword, None if personal else (received,))


def _problems_of(error: jsonschema_rs.ValidationError, checker: Checker, most: int, suggestions: int) -> list[Problem]:
    """At most `most` problems of one error. The first `suggestions` unknown members get the nearest known name."""
    if most <= 0:
        return []
    path = tuple(error.instance_path)
    kind: Any = error.kind
    instance: Any = error.instance
    match kind.name:
        case "required":
            return [Problem((*path, kind.property), "is required", "required")]
        case "additionalProperties":
            schema: Any = checker.schema
            for step in error.schema_path[:-1]:
                schema = schema[step]
            known = tuple(schema.get("properties", ()))
            problems = []
            for number, name in enumerate(kind.unexpected[:most]):
                advice = did_you_mean(name, known) if number < suggestions else ""
                words = "is not known here" + (advice or "; remove it")
                problems.append(_with_received((*path, name), words, kind.name, instance[name]))
            return problems
        case "anyOf":
            # The only unions in checked schemas require one of several members.
            names = [branch[0].kind.property for branch in kind.context]
            return [Problem((*path, names[0]), f"one of {', '.join(names)} is required", "required")]
        case "not":
            names = kind.schema["required"]
            return [
                _with_received((*path, names[-1]), f"cannot be combined with {names[0]}", "not", instance[names[-1]])
            ]
    return [_with_received(path, _message_of_keyword(kind), kind.name, instance)]


def _message_of_keyword(kind: Any) -> str:
    """The message for one error of the schema validator."""
    match kind.name:
        case "type":
            return "must be " + " or ".join(_TYPE_WORDS[name] for name in kind.types)
        case "enum":
            return "must be one of " + ", ".join(str(option) for option in kind.options)
        case "const":
            return f"must be {kind.expected_value}"
        case "minLength" | "minItems" if kind.limit == 1:
            return "must not be empty"
        case "pattern":
            return f"must match {kind.pattern}"
        case "format":
            return _FORMAT_WORDS[kind.format]
        case "uniqueItems":
            return "must not have an entry twice"
    return _LIMIT_WORDS[kind.name].format(kind.limit)


def _appointment_problems(appointment: object) -> list[Problem]:
    """Problems that a schema cannot find: absent offsets, and windows that end before they start
    (docs/protocol.md#appointments)."""
    if not isinstance(appointment, dict):
        return []
    windows = appointment.get("requested_windows")
    zoned = isinstance(appointment.get("timezone"), str)
    problems: list[Problem] = []
    for index, window in enumerate(windows[:MOST_CHECKED] if isinstance(windows, list) else ()):
        if not isinstance(window, dict):
            continue
        path: Path = ("appointment", "requested_windows", index)
        moments = {}
        for name in ("start", "end"):
            text = window.get(name)
            moment = parse_timestamp(text) if isinstance(text, str) else None
            if moment and moment.tzinfo is None and not zoned:
                words = "needs an offset, such as Z or -05:00, or a timezone beside requested_windows"
                problems.append(_with_received((*path, name), words, "format", text))
            moments[name] = moment
        start, end = moments["start"], moments["end"]
        if start and end and _ends_too_early(start, end):
            problems.append(_with_received((*path, "end"), "must be later than start", "formatMinimum", window["end"]))
    return problems


def _ends_too_early(start: datetime, end: datetime) -> bool:
    if (start.tzinfo is None) != (end.tzinfo is None):
        # A local time and an instant: without the zone, only their clock times can be compared.
        return end.replace(tzinfo=None) <= start.replace(tzinfo=None)
    return end <= start
