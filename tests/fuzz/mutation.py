"""A structure-aware mutator: JSON documents, tables and settings files with something changed in them. Pure.

Every choice comes from the `Random` that is given, so the same source makes the same input. Hypothesis makes better
shrunk examples and is used beside this; it takes a millisecond and more for one document, and this takes 50 µs.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final, Literal

from tests.fuzz.hostile import BROKEN_VALUES

LARGEST: Final = 256 * 1024
"""Bytes of the largest body that a service accepts by default."""

_MARK: Final = "\x00 a broken value \x00"
_MARK_TEXT: Final = json.dumps(_MARK).encode()

TEXTS: Final = (
    *("", " ", "A", "é", "ß", "İ", "\u200b", "\ufdfa", "\U0001f697", "a\u0301", "\x00", "\ud800", "'", '"', "\\", "%"),
    *("F-150", "f150", "Honda", "honda ", "used", "new", "AWD", "4wd", "gas", "hybrid", "white", "suv", "A1", "37201"),
    *("1HGCY2F57RA000001", "S0000007", "2026-11-20T15:00:00Z", "2026-11-20", "America/Chicago", "+12025550123"),
    *(
        "a@example.com",
        "https://www.example.com/a?b=c#d",
        "09:00-17:00",
        "closed",
        "1e9",
        "-1",
        "0",
        "null",
        "{}",
        "[]",
    ),
    *("<b>x</b>", "&amp;", "=1+1", "a,b", "a\tb", "a\nb", "a;b|c", "../x", "$(x)", "{0}", "%s", "*", "a b c d e f g h"),
)
NUMBERS: Final = (
    *(0, 1, -1, 2, 15, 100, 1000, 1001, 1899, 1900, 2020, 2100, 2101, 20_000, 99_999, 2**31, 2**63 - 1, 2**63, 2**64),
    *(-(2**63), 10**30, 0.0, -0.0, 0.5, 2020.0, 2020.5, 1e300, 1e-300),
)
WRONG: Final[tuple[Any, ...]] = (None, True, False, [], {}, [None], {"": None}, [[]], *TEXTS, *NUMBERS)
NAMES: Final = ("", "type", "kind", "x", "data", "filters", "metadata", "taskId", "price_maximum", "a/b~c", "é", "\x00")
TOKENS: Final = (
    *(
        b"",
        b" ",
        b'"',
        b"'",
        b",",
        b":",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\\",
        b"\n",
        b"\r\n",
        b"\t",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(
        b"null",
        b"NaN",
        b"1e999",
        b"-",
        b"0",
        b"9" * 40,
        b"\\ud800",
        b"=",
        b"#",
        b"<",
        b'"""',
        b"[[",
        b"]]",
        b"\xed\xa0\x80",
    ),
)


class Documents:
    """A corpus of JSON documents, and for each member name all its values in the corpus."""

    def __init__(self, documents: Iterable[Any]) -> None:
        self._texts = [json.dumps(document) for document in documents]
        self._values: defaultdict[str, list[Any]] = defaultdict(list)
        for text in self._texts:
            for name, value in _members(json.loads(text)):
                if value not in self._values[name]:
                    self._values[name].append(value)

    def picked(self, source: Random) -> Any:
        """A copy of one of the documents."""
        return json.loads(source.choice(self._texts))

    def text(self, source: Random, document: Any) -> bytes:
        """The document, often changed, as at most `LARGEST` bytes. About half of the results are still valid."""
        text = self._changed(source, document)
        return text if len(text) <= LARGEST else self.text(source, self.picked(source))

    def _changed(self, source: Random, document: Any) -> bytes:
        gentle = source.random() < 0.55
        broken = 0
        for _ in range(source.choice((0, 1, 1, 2, 3))):
            if gentle:
                self._alter(source, document)
            else:
                broken += self._break(source, document)
        text = _written(source, document)
        while broken and _MARK_TEXT in text:
            text = text.replace(_MARK_TEXT, source.choice(BROKEN_VALUES), 1)
        return text if gentle or source.random() < 0.7 else damaged(source, text)

    def _alter(self, source: Random, document: Any) -> None:
        """Replaces a value by another value of this member or by a similar one, or removes a member."""
        node, key = _place(source, document)
        if node is None:
            return
        value = node[key]
        choice = source.random()
        known = self._values.get(key, ()) if isinstance(key, str) else ()
        if known and choice < 0.5:
            node[key] = _copy(source.choice(known))
        elif isinstance(value, str):
            node[key] = source.choice((source.choice(TEXTS), value.upper(), value + " ", value[: len(value) // 2]))
        elif isinstance(value, bool):
            node[key] = not value
        elif isinstance(value, int):
            node[key] = source.choice((value + 1, max(0, value - 1), float(value), source.randrange(3000)))
        elif isinstance(value, list) and value:
            value.append(_copy(source.choice(value)))
        elif isinstance(value, dict) and value and choice < 0.7:
            del value[source.choice(list(value))]

    def _break(self, source: Random, document: Any) -> bool:
        """Changes one place in a way that no schema allows. Returns whether it left a mark for broken JSON text."""
        node, key = _place(source, document)
        if node is None:
            return False
        choice = source.random()
        if choice < 0.3:
            node[key] = _copy(source.choice(WRONG))
        elif choice < 0.45:
            del node[key]
        elif choice < 0.6 and isinstance(node, dict):
            names = list(self._values)
            node[source.choice(NAMES) if source.random() < 0.5 else source.choice(names)] = _copy(source.choice(WRONG))
        elif choice < 0.7:
            other = source.choice(list(self._values))
            node[key] = _copy(source.choice(self._values[other]))
        elif choice < 0.72:
            node[key] = _grown(source, node[key])
        elif choice < 0.8:
            to, at = _place(source, document)
            if to is not None and to is not node:
                to[at] = _copy(node[key])
        elif choice < 0.9 and isinstance(node, list):
            node.append(_copy(node[key]))
        else:
            node[key] = _MARK
            return True
        return False


def _grown(source: Random, value: Any) -> Any:
    """A value that nearly fills a body."""
    many = source.choice((20, 101, 1000, 5000))
    if isinstance(value, str):
        return (value or source.choice(TEXTS) or "x") * many
    if isinstance(value, list):
        return [_copy(source.choice(value or WRONG)) for _ in range(many)]
    if isinstance(value, dict):
        return {f"m{number}": source.choice(WRONG) for number in range(many)}
    return [_copy(value)] * many


def _written(source: Random, document: Any) -> bytes:
    way = source.randrange(12)
    if way == 0:
        text = json.dumps(document, indent=source.randrange(4))
    elif way == 1:
        text = json.dumps(document, sort_keys=True)
    elif way < 6:
        text = json.dumps(document, ensure_ascii=False)
    else:
        text = json.dumps(document, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def damaged(source: Random, text: bytes) -> bytes:
    """The bytes with a few of them removed, replaced, repeated or inserted."""
    spoilt = bytearray(text)
    for _ in range(source.choice((1, 1, 2, 4))):
        at = source.randrange(len(spoilt) + 1)
        until = min(len(spoilt), at + source.choice((0, 0, 1, 2, 8, 64)))
        choice = source.random()
        if choice < 0.6:
            spoilt[at:until] = source.choice(TOKENS)
        elif choice < 0.75:
            spoilt[at:until] = source.randbytes(source.randrange(4))
        elif choice < 0.9:
            spoilt[at:at] = spoilt[at:until]
        else:
            del spoilt[at:]
    return bytes(spoilt)


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


def _members(node: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(node, dict):
        yield from node.items()
        for child in node.values():
            yield from _members(child)
    elif isinstance(node, list):
        for child in node:
            yield from _members(child)


def _place(source: Random, document: Any) -> tuple[Any, Any]:
    """A container in the document and one of its keys, with equal probability. (None, None) for an empty document."""
    places: list[tuple[Any, Any]] = []
    level = [document]
    for node in level:
        keys = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                level.append(node[key])
    return source.choice(places) if places else (None, None)


_DELIMITERS = (",", ",", ",", "\t", ";", "|")
_ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1")


def table(source: Random, rows: Sequence[Sequence[str]]) -> bytes:
    """A delimited file of rows, header first, with columns, rows, cells or the form of writing changed."""
    lines = [list(row) for row in rows]
    cells = [cell for row in lines for cell in row]
    for _ in range(source.choice((0, 1, 1, 2, 4))):
        choice = source.random()
        row = source.choice(lines) if lines else []
        column = source.randrange(max(map(len, lines), default=0) or 1)
        if choice < 0.45 and row:
            row[source.randrange(len(row))] = source.choice(TEXTS) if source.random() < 0.6 else source.choice(cells)
        elif choice < 0.55:
            for line in lines:
                del line[column : column + 1]
        elif choice < 0.65:
            other = source.randrange(column + 1)
            for line in lines:
                if column < len(line):
                    line[column], line[other] = line[other], line[column]
        elif choice < 0.75 and row:
            lines.insert(source.randrange(len(lines) + 1), list(row))
        elif choice < 0.85 and row:
            row.insert(column, source.choice(cells))
        elif choice < 0.9 and len(lines) > 1:
            lines.remove(row)
        elif choice < 0.91 and row:
            row[source.randrange(len(row))] = (source.choice(TEXTS) or "x") * source.choice((100, 1000))
    out = io.StringIO()
    end = source.choice(("\r\n", "\n", "\n", "\r"))
    quoting: Literal[0, 1] = csv.QUOTE_ALL if source.random() < 0.3 else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=source.choice(_DELIMITERS), quoting=quoting, lineterminator=end).writerows(lines)
    text = out.getvalue().encode(source.choice(_ENCODINGS), "replace")
    return damaged(source, text) if source.random() < 0.25 else text


def settings_file(source: Random, texts: Sequence[str], literals: Sequence[str]) -> bytes:
    """A settings file with lines left out, repeated, moved or given another value; about half have one change."""
    lines = source.choice(texts).splitlines()
    for _ in range(source.choice((0, 1, 1, 1, 2, 4))):
        at = source.randrange(len(lines)) if lines else 0
        choice = source.random()
        if not lines:
            break
        name, equals, _ = lines[at].partition(" = ")
        if choice < 0.55 and equals:
            lines[at] = f"{name} = {source.choice(literals)}"
        elif choice < 0.65:
            del lines[at]
        elif choice < 0.72:
            lines.insert(at, lines[at])
        elif choice < 0.8:
            lines.insert(at, source.choice(source.choice(texts).splitlines()))
        elif choice < 0.88 and name:
            spot = source.randrange(len(name))
            lines[at] = name[:spot] + source.choice("abxyz_.-[]") + name[spot + 1 :] + lines[at][len(name) :]
        elif choice < 0.89 and equals:
            lines[at] = f'{name} = "{"x" * source.choice((300, 5000))}"'
    text = "\n".join(lines).encode("utf-8", "replace")
    return damaged(source, text) if source.random() < 0.15 else text
