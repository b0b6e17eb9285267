"""Finds the line of each key in a TOML text. Pure.

`tomllib` does not return positions. But every statement of a TOML text, such as a header or a key with its value, is
also a TOML text. So this module parses one statement after another. It expects a text that `tomllib` has accepted.
"""

import tomllib
from typing import Any

from dealer_agent.protocol.problems import Path


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table header, key and list element of a valid TOML text, by its path.

    A table with several headers has the line of the first one. The path `()` has line 1. The elements of a list within
    a list may have the line of the inner list.
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
