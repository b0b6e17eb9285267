"""Dictionaries and strings of structured fields (RFC 9651), read and written. Pure.

It knows the types that signatures use: strings, integers, byte sequences, tokens, booleans and inner lists. Decimals,
dates and display strings are refused. `http_sf`, the library for it, takes more processor time than the signature
itself; tests compare the two.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any


class Token(str):
    """A token: text without quotes."""

    __slots__ = ()


_NAME = r"[a-z*][a-z0-9_\-.*]*"
_ITEM = (
    r'(?:"(?P<text>(?:[ !#-\[\]-~]|\\["\\])*)"'
    r"|:(?P<data>(?:[A-Za-z0-9+/]+={0,2})?):"
    r"|(?P<number>-?[0-9]{1,15})(?![0-9.])"
    r"|\?(?P<flag>[01])"
    r"|(?P<token>[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*))"
)
_KEY = re.compile(_NAME)
_BARE = re.compile(_ITEM)
_PARAMETER = re.compile(rf";[ ]*(?P<name>{_NAME})(?:={_ITEM}|(?!=))")
_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")
_ESCAPED = re.compile(r"\\(.)")


def read_dictionary(text: str) -> dict[str, Any]:
    """The members of a dictionary: each is `(value, parameters)`, and the value of an inner list is a list of these.

    Raises ValueError, also for a name that is there twice: the standard takes the last one, and a reader of logs may
    take the first.
    """
    members: dict[str, Any] = {}
    text = text.strip(" ")
    if not text:
        return members
    text, at = text.rstrip(" \t"), 0
    while True:
        name = _KEY.match(text, at)
        if name is None or name[0] in members:
            raise ValueError("the name of a member is missing or there twice")
        at = name.end()
        member: Any = True
        if text.startswith("=(", at):
            member, at = _read_inner_list(text, at + 2)
        elif text.startswith("=", at):
            member, at = _read_bare(text, at + 1)
        parameters, at = _read_parameters(text, at)
        members[name[0]] = (member, parameters)
        if at == len(text):
            return members
        separator = _SEPARATOR.match(text, at)
        if separator is None:
            raise ValueError("no comma after a member")
        at = separator.end()


def read_text(text: str) -> str:
    """The string that an item is. Raises ValueError."""
    text = text.strip(" ")
    value, at = _read_bare(text, 0)
    _, at = _read_parameters(text, at)
    if at != len(text) or type(value) is not str:
        raise ValueError("not a string")
    return value


def write_member(member: Any) -> str:
    """A member of a dictionary, without its name."""
    value, parameters = member
    if isinstance(value, list):
        return f"({' '.join(map(write_member, value))}){write_parameters(parameters)}"
    return _write_bare(value) + write_parameters(parameters)


def write_parameters(parameters: Mapping[str, Any]) -> str:
    """Parameters in their order."""
    if not parameters:
        return ""
    return "".join(
        [f";{name}" if value is True else f";{name}={_write_bare(value)}" for name, value in parameters.items()]
    )


def _read_inner_list(text: str, at: int) -> tuple[list[Any], int]:
    """The items of an inner list, each with its parameters, and the position after it. Raises ValueError."""
    items: list[Any] = []
    while True:
        while text.startswith(" ", at):
            at += 1
        if text.startswith(")", at):
            return items, at + 1
        value, at = _read_bare(text, at)
        parameters, at = _read_parameters(text, at)
        items.append((value, parameters))
        if not text.startswith((" ", ")"), at):
            raise ValueError("no space after an item")


def _read_parameters(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The parameters from a position on, and the position after them. Raises ValueError."""
    parameters: dict[str, Any] = {}
    while text.startswith(";", at) and (match := _PARAMETER.match(text, at)):
        name = match["name"]
        if name in parameters:
            raise ValueError("a parameter twice")
        parameters[name] = True if match.lastgroup == "name" else _value(match)
        at = match.end()
    return parameters, at


def _read_bare(text: str, at: int) -> tuple[Any, int]:
    """The value at a position, and the position after it. Raises ValueError."""
    match = _BARE.match(text, at)
    if match is None:
        raise ValueError("no value")
    return _value(match), match.end()


def _value(match: re.Match[str]) -> Any:
    """The Python value of a matched item."""
    kind = match.lastgroup
    value = match[kind]  # type: ignore[index]
    if kind == "text":
        return _ESCAPED.sub(r"\1", value) if "\\" in value else value
    if kind == "number":
        return int(value)
    if kind == "data":
        unpadded = value.rstrip("=")
        return b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    return Token(value) if kind == "token" else value == "1"


def _write_bare(value: Any) -> str:
    if type(value) is str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if type(value) is bytes:
        return f":{b64encode(value).decode()}:"
    return f"?{value:d}" if isinstance(value, bool) else str(value)
