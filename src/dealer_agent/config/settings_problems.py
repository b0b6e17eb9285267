"""Lists all problems of a settings file. Pure.

msgspec stops at the first problem and knows no lines. So this module first compares the data with the same types.
"""

import tomllib
from collections.abc import Iterator
from datetime import date, datetime, time
from functools import cache
from types import UnionType
from typing import Any

from msgspec import inspect as types

from dealer_agent.correctable import CorrectableError
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Path, Problem


class SettingsError(CorrectableError):
    """The settings cannot be used. The message has a line for each problem: `dealer.toml, line 3: KEY: MESSAGE`."""


def error_with_lines(file: str, text: str | None, problems: list[Problem]) -> SettingsError:
    """The error that reports the problems of a TOML file with this text, from top to bottom.

    Without the text, the message has no lines.
    """
    if text is None:
        return SettingsError("\n".join(f"{file}: {_key_name(one.path)}: {one.message}" for one in problems))
    lines = key_lines(text)
    found = sorted(((nearest_line(lines, one.path), one) for one in problems), key=lambda pair: pair[0])
    return SettingsError("\n".join(f"{file}, line {line}: {_key_name(one.path)}: {one.message}" for line, one in found))


def _key_name(path: Path) -> str:
    """`('rooftops', 2, 'timezone')` as `rooftops[2].timezone`. Indexes start at 0."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def header_name(path: Path) -> str:
    """The path of a table as TOML writes it in a header: `('rooftops', 2, 'address')` as `rooftops.address`."""
    return ".".join(part for part in path if isinstance(part, str))


def find_problems(kind: Any, data: dict[str, Any]) -> list[Problem]:
    """The problems of TOML data that should have the type `kind`. Without a problem, msgspec converts it."""
    root, sections = _described(kind)
    return list(_problems_of_value(root, data, (), sections))


_Sections = dict[str, list[str]]
"""The headers of the sections that have a setting of this name, by name. The top of the file has the header `""`."""


@cache
def _described(kind: Any) -> tuple[types.Type, _Sections]:
    """The type as msgspec describes it, once: it takes longer than to read a file, and an installation has many."""
    root = types.type_info(kind)
    return root, _sections_by_key(root, ())


def _sections_by_key(kind: types.Type, path: Path) -> _Sections:
    """The sections in which each key may be, to suggest the right one for an unknown key."""
    sections: _Sections = {}
    match kind:
        case types.Metadata(type=inner):
            return _sections_by_key(inner, path)
        case types.VarTupleType(item_type=types.StructType() as inner):
            header = f"[[{header_name(path)}]]"
        case types.StructType() as inner:
            header = f"[{header_name(path)}]" if path else ""
        case _:
            return sections
    for field in inner.fields:
        sections.setdefault(field.encode_name, []).append(header)
        for key, headers in _sections_by_key(field.type, (*path, field.encode_name)).items():
            sections.setdefault(key, []).extend(headers)
    return sections


def _problems_of_value(kind: types.Type, value: object, path: Path, sections: _Sections) -> Iterator[Problem]:
    """All problems of a value, by the type that it must have. Unlike msgspec, it does not stop at the first."""
    match kind:
        case types.Metadata(type=inner, extra=extra):
            shape = list(_problems_of_value(inner, value, path, sections))
            yield from shape
            for name, rule in (extra or {}).items():
                if name == "reader" and not shape:
                    try:
                        rule(value)
                    except ValueError as error:
                        yield Problem(path, str(error))
                elif name == "agreement" and all(found.path != path for found in shape):
                    yield from (found.below(*path) for found in rule(value))
        case types.StructType():
            yield from _walk_table(kind, value, path, sections)
        case types.DictType(value_type=inner):
            if not isinstance(value, dict):
                yield Problem(path, f"must be a section: [{header_name(path)}]")
                return
            for key, member in value.items():
                yield from _problems_of_value(inner, member, (*path, key), sections)
        case types.VarTupleType():
            yield from _walk_list(kind, value, path, sections)
        case _:
            message = _scalar(kind, value)
            if message:
                yield Problem(path, message)


def _walk_table(kind: types.StructType, value: object, path: Path, sections: _Sections) -> Iterator[Problem]:
    """The problems of a section and its members. `path` leads to the section."""
    if not isinstance(value, dict):
        yield Problem(path, f"must be a section: [{header_name(path)}]")
        return
    fields = {field.encode_name: field for field in kind.fields}
    for key, member in value.items():
        if key in fields:
            yield from _problems_of_value(fields[key].type, member, (*path, key), sections)
        else:
            yield Problem((*path, key), "unknown key" + _right_place(key, list(fields), sections))
    for key, field in fields.items():
        if field.required and key not in value:
            yield Problem((*path, key), "is missing; " + _what_to_write(field.type, key, path))


def _walk_list(kind: types.VarTupleType, value: object, path: Path, sections: _Sections) -> Iterator[Problem]:
    """The problems of a list and its entries."""
    inner, least, most = kind.item_type, kind.min_length or 0, kind.max_length
    if not isinstance(value, list):
        if isinstance(inner, types.StructType):
            yield Problem(path, f"must be a list of sections, each headed [[{header_name(path)}]] with two brackets")
        else:
            yield Problem(path, 'must be a list: ["...", "..."]')
        return
    if len(value) < least:
        yield Problem(path, f"needs at least {least} entry" if least == 1 else f"needs at least {least} entries")
    if most is not None and len(value) > most:
        yield Problem(path, f"has {len(value)} entries; write at most {most}")
    for index, item in enumerate(value):
        yield from _problems_of_value(inner, item, (*path, index), sections)


def _right_place(key: str, known: list[str], sections: _Sections) -> str:
    """A hint for an unknown setting: the section that has it, or a similar setting of this section."""
    places = [
        f"under {header}" if header else "at the top of the file, above the first [section]"
        for header in sections.get(key, ())
    ]
    # Users may write options of the command `serve` into the file by mistake.
    options = [f"on the command line: dealer-agent serve --{key}"] if key in ("host", "port", "workers") else []
    if not places and not options:
        return did_you_mean(key, known)
    return f"; it belongs {', or '.join((*places, *options))}"


def _what_to_write(kind: types.Type, key: str, path: Path) -> str:
    """What a person writes for a key that is missing."""
    match kind:
        case types.Metadata(type=inner):
            return _what_to_write(inner, key, path)
        case types.VarTupleType(item_type=types.StructType()):
            return f"write at least one [[{header_name((*path, key))}]] section"
        case types.LiteralType(values=words):
            return "write " + " or ".join(f'{key} = "{word}"' for word in words)
        case types.StrType():
            return f'write {key} = "..."'
        case _:
            return f"write {key} = ..."


_SCALARS: dict[type[types.Type], tuple[type | UnionType, str]] = {
    types.StrType: (str, "text in quotes"),
    types.DecimalType: (str, 'a number in quotes, such as "85.50"'),
    types.BoolType: (bool, "true or false, without quotes"),
    types.IntType: (int, "a whole number, without quotes"),
    types.FloatType: (int | float, "a number, without quotes"),
}


def _scalar(kind: types.Type, value: object) -> str | None:
    """What is wrong with a text, a number or a boolean; None if nothing is."""
    if isinstance(kind, types.LiteralType):
        if value in kind.values:
            return None
        known = [str(word) for word in kind.values]
        guess = did_you_mean(value, known) if isinstance(value, str) else ""
        return f"{_shown(value)} must be one of {', '.join(map(_shown, kind.values))}{guess}"
    expected, words = _SCALARS[type(kind)]
    # A boolean of Python is also an integer.
    if not isinstance(value, expected) or isinstance(value, bool) != (expected is bool):
        return f"{_shown(value)} must be {words}"
    if isinstance(kind, types.IntType | types.FloatType) and isinstance(value, int | float):
        return _bounds(kind, value)
    return None


def _bounds(kind: types.IntType | types.FloatType, value: float) -> str | None:
    """What is wrong with a number that is out of its bounds. None if it is within them."""
    low, high = kind.ge, kind.le
    # With `not`, because TOML allows `nan`, which compares false with every bound.
    if low is not None and not value >= low:
        return f"{value} is too small; the least is {low}"
    if high is not None and not value <= high:
        return f"{value} is too large; write at most {high}"
    return None


def _shown(value: object) -> str:
    """A value of the settings as messages show it."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
        case list():
            return "a list"
        case dict():
            return "a section"
        case datetime() | date() | time():
            return f"the date or time {value}"
        case _:
            return str(value)


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table header, key and list element of a valid TOML text, by its path.

    A table with several headers has the line of the first one. The path `()` has line 1. The elements of a list within
    a list may have the line of the inner list.

    `tomllib` does not return positions. But every statement of a TOML text, such as a header or a key with its value,
    is also a TOML text. So this parses one statement after another.
    """
    lines: dict[Path, int] = {(): 1}
    tables_of: dict[Path, int] = {}
    table: Path = ()
    statement, begin = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        statement += line + "\n"
        if (data := _parsed(statement)) is not None:
            if statement.lstrip().startswith("["):
                table = _table(data, tables_of)
                data = {}
            _add(lines, table, data, begin)
            statement, begin = "", number + 1
        # A list may continue on the next line. Closed here, it has the elements up to this line.
        elif (data := _parsed(statement + "]")) is not None:
            _add(lines, table, data, begin)
            begin = number + 1
    return lines


def nearest_line(lines: dict[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest path above it that is in the text."""
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _parsed(statement: str) -> dict[str, Any] | None:
    """The values of some lines of TOML. None while the lines are incomplete or wrong."""
    try:
        return tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return None


def _table(header: dict[str, Any], tables_of: dict[Path, int]) -> Path:
    """The path of `[a.b]`, or of `[[a.b]]`, which begins the next element of the list `a.b`."""
    path: Path = ()
    value: Any = header
    while value:
        ((key, value),) = value.items()
        path = (*path, key)
        if isinstance(value, list):
            tables_of[path] = tables_of.get(path, 0) + 1
            value = {}
        if path in tables_of:
            path = (*path, tables_of[path] - 1)
    return path


def _add(lines: dict[Path, int], path: Path, value: Any, line: int) -> None:
    """Adds the path with all paths above and below it. A path that has a line keeps it."""
    for end in range(len(path) + 1):
        lines.setdefault(path[:end], line)
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        _add(lines, (*path, key), member, line)
