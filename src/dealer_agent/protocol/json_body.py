"""Decodes the JSON of a request body, within bounds (docs/protocol.md#bounds). Pure."""

import sys
from typing import Any

import msgspec

from dealer_agent.protocol.errors import SchemaValidationFailed
from dealer_agent.protocol.problems import Problem

NESTING_LIMIT = 100
"""The most levels of objects and arrays in a body. Every valid request has fewer."""

VALUES_LIMIT = 3_000
"""The most values in a body, and the most opening brackets in its text. One value takes about 5 µs to check. The
largest valid lead has about 2,700 values."""

LARGEST_NUMBER = int(sys.float_info.max)
"""The largest integer. A larger one has hundreds of digits, and Python's arithmetic with it takes quadratic time."""

INTEGER_LIMIT = 2.0**63
"""A number with a zero fraction becomes an integer only below this."""

PARSE_ERROR = -32700
"""The number of JSON-RPC for a body that is not JSON."""

NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a body that it cannot decode. A ValidationError is a DecodeError."""


def is_sound(body: bytes) -> bool:
    """Whether a body is UTF-8 and certainly not nested too deeply. This costs less than a parse.

    msgspec does not check the bytes of what it skips or copies: unknown members, the id of a call.
    """
    try:
        if not body.isascii():
            body.decode()
    except UnicodeDecodeError:
        return False
    return body.count(b"{") + body.count(b"[") <= NESTING_LIMIT


def read_json(body: bytes) -> Any:
    """A body as plain JSON values. A number with a zero fraction becomes an integer. Raises SchemaValidationFailed."""
    # Before the parse: each bracket can cost the parser and the garbage collector 0.1 µs.
    if body.count(b"{") + body.count(b"[") > VALUES_LIMIT:
        raise _unreadable(f"has more than {VALUES_LIMIT} opening brackets, those in texts included")
    try:
        value = msgspec.json.decode(body)
    except NOT_DECODED as problem:
        deep = isinstance(problem, RecursionError)
        raise _unreadable("is nested too deeply" if deep else "is not JSON in UTF-8") from None
    return _with_whole_numbers(value)


def _unreadable(words: str) -> SchemaValidationFailed:
    problem = Problem((), words, "contentMediaType")
    details = {"in": "envelope", "instancePath": "", "errors": [problem.as_details()]}
    return SchemaValidationFailed(f"The body {words}.", details, json_rpc=PARSE_ERROR)


def _with_whole_numbers(value: Any) -> Any:
    """The value, changed in place: SDKs that carry payloads through protobuf send 2020.0 for 2020."""
    top = [value]
    level: list[Any] = [top]
    values = 1
    for _ in range(NESTING_LIMIT + 1):
        below: list[Any] = []
        for node in level:
            for step, item in node.items() if isinstance(node, dict) else enumerate(node):
                if isinstance(item, float):
                    if item.is_integer() and abs(item) < INTEGER_LIMIT:
                        node[step] = int(item)
                elif isinstance(item, int):
                    if abs(item) > LARGEST_NUMBER:
                        raise _unreadable("has a number that no double can hold")
                elif isinstance(item, dict | list):
                    below.append(item)
                    values += len(item)
        if not below:
            return top[0]
        if values > VALUES_LIMIT:
            raise _unreadable(f"has more than {VALUES_LIMIT} values")
        level = below
    raise _unreadable(f"is nested more than {NESTING_LIMIT} levels deep")
