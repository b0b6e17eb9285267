"""The slow road: everything that is wrong with a request, listed (contract, part 3). Pure.

Only a request that failed to decode comes here. The problems are found with the schemas that are published, and told in
plain words; what a customer wrote about themselves is never repeated.
"""

from datetime import datetime
from functools import cache
from typing import Any

import jsonschema_rs

from dealer_agent.protocol.errors import Problem
from dealer_agent.protocol.formats import FORMATS, parse_timestamp
from dealer_agent.protocol.schemas import Schema, checking_schema
from dealer_agent.protocol.skill import Skill

_PERSONAL = ("customer", "consent", "message", "notes")
"""Members whose values, at any depth below them, are never echoed."""

LOOKED_AT = 1000
"""More than are ever listed. Each error costs some 40 µs, and a body of 256 KiB has room for 120,000 of them: listing
them all would keep everybody else waiting for seconds."""

_FORMAT_WORDS = {
    "email": "must be an e-mail address",
    "phone": "must be a phone number in international form, such as +12025550123",
    "date-time": "must be an ISO 8601 date and time with an offset, such as 2026-11-20T15:00:00Z",
    "date-time-local": "must be an ISO 8601 date and time, such as 2026-11-20T15:00:00-05:00",
    "timezone": "must be an IANA time zone, such as America/New_York",
    "date": "must be an ISO 8601 date, such as 2026-11-20",
}

_TYPE_WORDS = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


def compile_schema(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """A validator that asserts our formats too."""
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, formats=FORMATS)


@cache
def _checker(skill: Skill) -> jsonschema_rs.Draft202012Validator:
    return compile_schema(checking_schema(skill))


def payload_problems(skill: Skill, payload: dict[str, Any]) -> list[Problem]:
    """What is wrong with a payload; empty when nothing is. Pointers start at the payload."""
    problems = list_problems(_checker(skill), payload)
    if skill.id == "lead.submit":
        problems += _appointment_problems(payload.get("appointment"))
    return problems


def list_problems(checker: jsonschema_rs.Draft202012Validator, instance: object) -> list[Problem]:
    """One problem for each thing wrong; a missing or unknown member is named itself, one entry each.

    Of a long array, or of very many unknown members, the first `LOOKED_AT` are looked at, and more only when nothing is
    wrong with these.
    """
    if checker.is_valid(instance):
        return []
    errors = list(checker.iter_errors(_shortened(instance))) or [_first_error(checker, instance)]
    problems: dict[tuple[str, str], Problem] = {}
    for error in errors:
        for problem in _translated(error):
            problems.setdefault((problem.pointer, problem.keyword), problem)
    return list(problems.values())


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value[:LOOKED_AT]]
    return value


def _first_error(checker: jsonschema_rs.Draft202012Validator, instance: object) -> jsonschema_rs.ValidationError:
    try:
        checker.validate(instance)
    except jsonschema_rs.ValidationError as error:
        return error
    raise AssertionError("an instance that is not valid has an error")


def pointer_of(path: list[str | int]) -> str:
    """An RFC 6901 JSON pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def problem_at(path: list[str | int], keyword: str, message: str, received: object) -> Problem:
    """A problem with a received value, which is left out where it is personal."""
    personal = any(step in _PERSONAL for step in path)
    return Problem(pointer_of(path), keyword, message, None if personal else (received,))


def _translated(error: jsonschema_rs.ValidationError) -> list[Problem]:
    path = list(error.instance_path)
    kind: Any = error.kind
    instance: Any = error.instance
    match kind.name:
        case "required":
            return [Problem(pointer_of([*path, kind.property]), "required", "is required")]
        case "additionalProperties":
            return [
                problem_at([*path, name], kind.name, "is not known here; remove it", instance[name])
                for name in kind.unexpected[:LOOKED_AT]
            ]
        case "anyOf":
            # The only unions left in our schemas ask for one member of several.
            names = [branch[0].kind.property for branch in kind.context]
            first = Problem(pointer_of([*path, names[0]]), "required", f"one of {', '.join(names)} is required")
            return [first]
        case "not":
            names = kind.schema["required"]
            return [problem_at([*path, names[-1]], "not", f"cannot stand beside {names[0]}", instance[names[-1]])]
    return [problem_at(path, kind.name, _words(kind), instance)]


def _words(kind: Any) -> str:
    match kind.name:
        case "type":
            return "must be " + " or ".join(_TYPE_WORDS[name] for name in kind.types)
        case "enum":
            return "must be one of " + ", ".join(str(option) for option in kind.options)
        case "const":
            return f"must be {kind.expected_value}"
        case "minimum":
            return f"must be at least {kind.limit}"
        case "maximum":
            return f"must be at most {kind.limit}"
        case "minLength":
            return "must not be empty" if kind.limit == 1 else f"must have at least {kind.limit} characters"
        case "maxLength":
            return f"must have at most {kind.limit} characters"
        case "minItems":
            return "must not be empty" if kind.limit == 1 else f"must have at least {kind.limit} entries"
        case "pattern":
            return f"must match {kind.pattern}"
        case "format":
            return _FORMAT_WORDS[kind.format]
    raise LookupError(f"no words for the keyword {kind.name}")


def _appointment_problems(appointment: object) -> list[Problem]:
    """What no schema can say of an appointment: offsets, and windows that end before they start (contract, part 10)."""
    if not isinstance(appointment, dict):
        return []
    windows = appointment.get("requested_windows")
    zoned = isinstance(appointment.get("timezone"), str)
    problems: list[Problem] = []
    for index, window in enumerate(windows if isinstance(windows, list) else ()):
        if not isinstance(window, dict):
            continue
        path: list[str | int] = ["appointment", "requested_windows", index]
        moments = {}
        for name in ("start", "end"):
            text = window.get(name)
            moment = parse_timestamp(text) if isinstance(text, str) else None
            if moment and moment.tzinfo is None and not zoned:
                words = "needs an offset, such as Z or -05:00, or a timezone beside requested_windows"
                problems.append(problem_at([*path, name], "format", words, text))
            moments[name] = moment
        start, end = moments["start"], moments["end"]
        if start and end and _ends_too_early(start, end):
            problems.append(problem_at([*path, "end"], "formatMinimum", "must be later than start", window["end"]))
    return problems


def _ends_too_early(start: datetime, end: datetime) -> bool:
    if (start.tzinfo is None) != (end.tzinfo is None):
        # One clock time and one instant: which is later depends on the zone; a whole day apart settles it anyway.
        return end.replace(tzinfo=None) <= start.replace(tzinfo=None)
    return end <= start
