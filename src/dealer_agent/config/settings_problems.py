"""Every problem of a settings file at once, in plain words. Pure.

msgspec stops at the first error and names no line, so the data are walked here against the same types first.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from typing import Any, NamedTuple

from msgspec import inspect as types

from dealer_agent.config.toml_positions import key_lines, nearest_line
from dealer_agent.protocol.did_you_mean import did_you_mean
from dealer_agent.protocol.problems import Path, Problem

OPTIONS_OF_SERVE = ("host", "port", "workers")
"""Options of the command `serve` that people often look for in `dealer.toml`."""


class SettingsProblem(NamedTuple):
    """One thing to mend: `line` from 1 (None: nowhere in the text), `key` such as `rooftops[2].timezone`."""

    file: str
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return ": ".join(part for part in (place, self.key, self.message) if part)


class SettingsError(Exception):
    """The settings cannot be used; `problems` are all that is wrong with them, top to bottom."""

    def __init__(self, problems: list[SettingsProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def error_with_lines(file: str, text: str, problems: list[Problem]) -> SettingsError:
    """The error that reports the problems of a TOML file with this text, each with its line."""
    lines = key_lines(text)
    found = [SettingsProblem(file, nearest_line(lines, one.path), key_name(one.path), one.message) for one in problems]
    return SettingsError(sorted(found, key=lambda problem: problem.line or 0))


def key_name(path: Path) -> str:
    """`('rooftops', 2, 'timezone')` as `rooftops[2].timezone`; elements count from 0."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def header_name(path: Path) -> str:
    """The same as it stands in the brackets of a header: `rooftops.timezone`."""
    return ".".join(part for part in path if isinstance(part, str))


def find_problems(kind: type, data: dict[str, Any]) -> list[Problem]:
    """All that keeps `data` from being a `kind`; empty means that msgspec converts it."""
    root = types.type_info(kind)
    return list(_walk(root, data, (), _homes(root, ())))


_Homes = dict[str, list[str]]
"""Each key, and the sections that know it as headers; `""` is the top of the file."""


def _homes(kind: types.Type, path: Path) -> _Homes:
    homes: _Homes = {}
    match kind:
        case types.Metadata(type=inner):
            return _homes(inner, path)
        case types.VarTupleType(item_type=types.StructType() as inner):
            header = f"[[{header_name(path)}]]"
        case types.StructType() as inner:
            header = f"[{header_name(path)}]" if path else ""
        case _:
            return homes
    for field in inner.fields:
        homes.setdefault(field.encode_name, []).append(header)
        for key, headers in _homes(field.type, (*path, field.encode_name)).items():
            homes.setdefault(key, []).extend(headers)
    return homes


def _walk(kind: types.Type, value: object, path: Path, homes: _Homes) -> Iterator[Problem]:
    match kind:
        case types.Metadata(type=inner, extra=extra):
            shape = list(_walk(inner, value, path, homes))
            yield from shape
            for name, rule in (extra or {}).items():
                if name == "reader" and not shape:
                    yield from _refusal(rule, value, path)
                elif name == "agreement" and all(found.path != path for found in shape):
                    yield from (found.below(*path) for found in rule(value))
        case types.StructType():
            yield from _walk_table(kind, value, path, homes)
        case types.DictType(value_type=inner):
            if not isinstance(value, dict):
                yield Problem(path, f"must be a section: [{header_name(path)}]")
                return
            for key, member in value.items():
                yield from _walk(inner, member, (*path, key), homes)
        case types.VarTupleType():
            yield from _walk_list(kind, value, path, homes)
        case _:
            message = _scalar(kind, value)
            if message:
                yield Problem(path, message)


def _walk_table(kind: types.StructType, value: object, path: Path, homes: _Homes) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, f"must be a section: [{header_name(path)}]")
        return
    fields = {field.encode_name: field for field in kind.fields}
    for key, member in value.items():
        if key in fields:
            yield from _walk(fields[key].type, member, (*path, key), homes)
        else:
            yield Problem((*path, key), "unknown key" + _where_it_belongs(key, list(fields), homes))
    for key, field in fields.items():
        if field.required and key not in value:
            yield Problem((*path, key), "is missing; " + _what_to_write(field.type, key, path))


def _walk_list(kind: types.VarTupleType, value: object, path: Path, homes: _Homes) -> Iterator[Problem]:
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
        yield Problem(path, f"has {len(value)} entries; the most is {most}")
    for index, item in enumerate(value):
        yield from _walk(inner, item, (*path, index), homes)


def _where_it_belongs(key: str, known: list[str], homes: _Homes) -> str:
    """A hint: the section that has this key, or a key of this section that is spelled much the same."""
    places = [
        f"under {header}" if header else "at the top of the file, above the first [section]"
        for header in homes.get(key, ())
    ]
    options = [f"on the command line: dealer-agent serve --{key}"] if key in OPTIONS_OF_SERVE else []
    if not places and not options:
        return did_you_mean(key, known)
    return f"; it belongs {', or '.join((*places, *options))}"


def _what_to_write(kind: types.Type, key: str, path: Path) -> str:
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


def _refusal(reader: Callable[[object], object], value: object, path: Path) -> Iterator[Problem]:
    try:
        reader(value)
    except ValueError as error:
        yield Problem(path, str(error))


def _scalar(kind: types.Type, value: object) -> str | None:
    """What is wrong with one plain value, or None."""
    match kind:
        case types.LiteralType(values=words):
            if value not in words:
                known = [str(word) for word in words]
                guess = did_you_mean(value, known) if isinstance(value, str) else ""
                return f"{_shown(value)} must be one of {', '.join(map(_shown, words))}{guess}"
        case types.StrType():
            if not isinstance(value, str):
                return f"{_shown(value)} must be text in quotes"
        case types.BoolType():
            if not isinstance(value, bool):
                return f"{_shown(value)} must be true or false, without quotes"
        case types.IntType():
            if not isinstance(value, int) or isinstance(value, bool):
                return f"{_shown(value)} must be a whole number, without quotes"
            return _bounds(kind, value)
        case types.FloatType():
            if not isinstance(value, int | float) or isinstance(value, bool):
                return f"{_shown(value)} must be a number, without quotes"
            return _bounds(kind, value)
        case _:
            raise TypeError(f"no check for settings of type {kind}")
    return None


def _bounds(kind: types.IntType | types.FloatType, value: float) -> str | None:
    low, high = kind.ge, kind.le
    # Negated, so that `nan`, which TOML allows, is out of every bound.
    if low is not None and not value >= low:
        return f"{value} is too small; the least is {low}"
    if high is not None and not value <= high:
        return f"{value} is too large; the most is {high}"
    return None


def _shown(value: object) -> str:
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
