"""Finds the line of each key in a TOML text. Pure.

`tomllib` does not return positions. This module reads the same text again, only for positions. It expects a text that
`tomllib` has accepted.
"""

import re
import tomllib

from dealer_agent.protocol.problems import Path

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?!")|\'\'\'.*?\'\'\'(?!\')|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_SPACE = re.compile(r"[ \t]*")
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_PLAIN_VALUE = re.compile(r"[^,\]}#\n]*")


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table header, key and list element of a valid TOML text, by its path.

    A table with several headers has the line of the first one. The path `()` has line 1.
    """
    return _Reader(text).read()


def nearest_line(lines: dict[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest path above it that is in the text."""
    while path not in lines:
        path = path[:-1]
    return lines[path]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {(): 1}
        self.tables_of: dict[Path, int] = {}

    def read(self) -> dict[Path, int]:
        table: Path = ()
        self.skip(_GAP)
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.key_and_value(table)
            self.skip(_GAP)
        return self.lines

    def header(self) -> Path:
        """Reads `[a.b]`, or `[[a.b]]`, which begins the next element of the list `a.b`."""
        line = self.line()
        repeated = self.text.startswith("[[", self.at)
        self.at += 2 if repeated else 1
        keys = self.keys()
        self.at += 2 if repeated else 1
        path: Path = ()
        for place, key in enumerate(keys, 1):
            path = (*path, key)
            self.lines.setdefault(path, line)
            if repeated and place == len(keys):
                self.tables_of[path] = self.tables_of.get(path, 0) + 1
            if path in self.tables_of:
                path = (*path, self.tables_of[path] - 1)
        self.lines.setdefault(path, line)
        return path

    def key_and_value(self, table: Path) -> None:
        line = self.line()
        path = table
        for key in self.keys():
            path = (*path, key)
            self.lines.setdefault(path, line)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self.value(path)

    def keys(self) -> list[str]:
        """Reads a dotted key, up to the character after it."""
        found = []
        while True:
            self.skip(_SPACE)
            if self.text[self.at] in "\"'":
                quoted = self.take(_STRING)
                found.append(tomllib.loads(f"key = {quoted}")["key"])
            else:
                found.append(self.take(_BARE_KEY))
            self.skip(_SPACE)
            if self.text[self.at] != ".":
                return found
            self.at += 1

    def value(self, path: Path) -> None:
        first = self.text[self.at]
        if first == "[":
            self.elements(path)
        elif first == "{":
            self.members(path)
        elif first in "\"'":
            self.skip(_STRING)
        else:
            self.skip(_PLAIN_VALUE)

    def elements(self, path: Path) -> None:
        self.at += 1
        self.skip(_GAP)
        index = 0
        while self.text[self.at] != "]":
            self.lines[(*path, index)] = self.line()
            self.value((*path, index))
            self.skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_GAP)
            index += 1
        self.at += 1

    def members(self, path: Path) -> None:
        self.at += 1
        self.skip(_GAP)
        while self.text[self.at] != "}":
            self.key_and_value(path)
            self.skip(_GAP)
            if self.text[self.at] == ",":
                self.at += 1
                self.skip(_GAP)
        self.at += 1

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        self.take(pattern)

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise AssertionError(f"no valid TOML at {self.at}")
        self.at = found.end()
        return found.group()
