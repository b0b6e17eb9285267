"""Reads the records of a JSON file: arrays, JSON lines, JSON-LD, and JSON-LD in a web page. Pure functions."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import fields as struct_fields

from dealer_agent.feeds.files.feed import (
    DEEPEST,
    MOST_JSON_VALUES,
    MOST_OBJECTS,
    MOST_REPORTED,
    MOST_ROWS,
    MOST_VALUES,
    FeedError,
)
from dealer_agent.feeds.files.layouts import CANONICAL, LAYOUTS, is_withheld
from dealer_agent.feeds.files.values import dollars, line, prose
from dealer_agent.inventory.canonical_words.text import fold
from dealer_agent.inventory.listing import Unit
from dealer_agent.protocol.vehicle import Fee, Scalar, Vehicle

_LISTS = (
    *("vehicles", "inventory", "units", "listings", "vehicle", "results", "items", "data"),
    *("@graph", "itemListElement"),
)
_SCRIPT = re.compile(r"<script\b([^<>]{0,1000})>", re.IGNORECASE)
_SCRIPT_END = re.compile("</script", re.IGNORECASE)
_LD_JSON = "application/ld+json"
_HEAD = 4_096
"""An HTML tag in this many characters at the start shows that a text is a web page."""
_NOT_AN_OBJECT = "The line is not a JSON object."
_IDENTITY = frozenset(
    name
    for layout in LAYOUTS.values()
    for field in ("vin", "stock")
    for name in layout.folded.get(field, ())
    if name != "id"
)
"""Folded names of members that identify a unit. `id` is too common to be one."""


class Record(NamedTuple):
    """The number of a record, from 1, or its line in JSON lines; and its members, or why it cannot be read."""

    number: int
    members: dict[str, Any]
    error: str | None = None


def _load(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=lambda _: None)


def read_records(text: str) -> list[Record]:
    """The vehicles of a JSON text, or of the JSON-LD in a web page. Raises FeedError, with the line of invalid JSON."""
    if text.lstrip().startswith("<"):
        return _from_html(text)
    _Counts().add(text)
    try:
        document = _load(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            return _from_lines(text)
        raise FeedError(
            f"The JSON is broken at line {error.lineno}, column {error.colno}: {error.msg}. Export the file again."
        ) from error
    except (ValueError, RecursionError) as error:
        raise FeedError(
            "The JSON is nested too deeply, or has a number that is too long. Export an array of vehicles."
        ) from error
    return _numbered(_vehicles(document))


def ends_early(text: str, records: Sequence[Record]) -> bool:
    """Whether a text was cut off: a web page without `</html>`, or JSON lines whose last line is not whole.

    `records` are what was read from it. A single JSON document that was cut off cannot be read at all.
    """
    if text.lstrip().startswith("<"):
        return "<html" in text[:_HEAD].lower() and "</html" not in text[-_HEAD:].lower()
    last_line = text.rstrip().rpartition("\n")[2].lstrip()
    is_broken = bool(records) and records[-1].error == _NOT_AN_OBJECT
    # A line that was cut off inside an object can still end with a bracket: that of an inner object.
    return not last_line.endswith(("}", "]")) or (is_broken and last_line.startswith("{"))


class _Counts:
    """What takes memory in the texts of a file. Brackets and commas inside texts count too."""

    objects = values = 0

    def add(self, text: str) -> None:
        """Counts a text before it is parsed. Raises FeedError for too many objects or values in all texts."""
        self.objects += text.count("{") + text.count("[")
        self.values += text.count(",")
        for count, most, what in (
            (self.objects, MOST_OBJECTS, "objects and arrays"),
            (self.values, MOST_JSON_VALUES, "values"),
        ):
            if count > most:
                raise FeedError(
                    f"A JSON file may have at most {most:,} {what}. Export the units for sale only, as CSV."
                )


def _check_count(records: int) -> None:
    if records > MOST_ROWS:
        raise FeedError(f"A file may have at most {MOST_ROWS:,} records. Export the units for sale only.")


def _numbered(items: list[Any]) -> list[Record]:
    _check_count(len(items))
    return [
        Record(number, item) if isinstance(item, dict) else Record(number, {}, "The record is not a JSON object.")
        for number, item in enumerate(items, 1)
    ]


def _from_lines(text: str) -> list[Record]:
    """Records of a file with one JSON object a line. A line that cannot be read is a record with an error."""
    records: list[Record] = []
    for number, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        _check_count(len(records) + 1)
        members = None
        if written.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):
                members = _load(written)
        if isinstance(members, dict):
            records.append(Record(number, members))
        else:
            records.append(Record(number, {}, _NOT_AN_OBJECT))
    if all(record.error for record in records):
        raise FeedError(
            "The JSON is broken at line 1: neither one document nor one object on each line. Export the file again."
        )
    return records


def _from_html(text: str) -> list[Record]:
    """Records in the JSON scripts of an HTML page, such as JSON-LD."""
    vehicles: list[Any] = []
    counts = _Counts()
    for block in _scripts(text):
        counts.add(block)
        try:
            vehicles.extend(_vehicles_in(_load(block), 0))
        except (ValueError, RecursionError):
            continue
    if not vehicles:
        raise FeedError(_without_vehicles(text))
    return _numbered(vehicles)


def _without_vehicles(page: str) -> str:
    """The message about a web page or XML without vehicles."""
    if re.search(r"<!doctype\s+html|<html\b", page[:_HEAD], re.IGNORECASE):
        return (
            "The file is a web page without schema.org vehicles in it, perhaps a login or an error page. Download the"
            " export itself, as CSV, TAB-separated text or JSON."
        )
    return (
        "The file is XML or HTML without schema.org vehicles in it. Export the inventory as CSV, TAB-separated text or"
        " JSON."
    )


def _scripts(page: str) -> Iterator[str]:
    """The JSON-LD blocks of an HTML page. It takes linear time, even if many blocks are not closed."""
    at = 0
    while (start := _SCRIPT.search(page, at)) is not None:
        at = start.end()
        if _LD_JSON in start[1].lower():
            end = _SCRIPT_END.search(page, at)
            if end is None:
                return
            yield page[at : end.start()]
            at = end.end()


def _vehicles(document: Any) -> list[Any]:
    """The vehicles of a JSON document, wherever they are in it.

    Raises FeedError if there are none, except in an empty list.
    """
    vehicles = _vehicles_in(document, 0)
    is_empty = document == [] or (isinstance(document, dict) and any(document.get(name) == [] for name in _LISTS))
    if not vehicles and not is_empty:
        raise FeedError(
            "The JSON holds no vehicle with a VIN or a stock number. Give an array of vehicles, or an object with one"
            ' under "vehicles".'
        )
    return vehicles


def _names_unit(item: object) -> bool:
    return isinstance(item, dict) and any(fold(name) in _IDENTITY for name in item)


def _vehicles_in(node: Any, depth: int) -> list[Any]:
    """The objects that name a unit, wherever they are in the document. Well-known list names are tried first."""
    if depth > DEEPEST:
        return []
    if isinstance(node, list):
        if any(map(_names_unit, node)):
            # A JSON-LD graph also contains the dealer, breadcrumbs and other objects.
            is_graph = any(isinstance(item, dict) and "@type" in item for item in node)
            return [item for item in node if _names_unit(item)] if is_graph else node
        return [vehicle for item in node for vehicle in _vehicles_in(item, depth + 1)]
    if not isinstance(node, dict):
        return []
    if _names_unit(node):
        return [node]
    for name in _LISTS:
        if name in node and (vehicles := _vehicles_in(node[name], depth + 1)):
            return vehicles
    return [vehicle for value in node.values() for vehicle in _vehicles_in(value, depth + 1)]


path_is_withheld = lru_cache(maxsize=8_192)(is_withheld)


def scalar_text(value: Any) -> str | None:
    """A scalar as the text of a cell."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return None


def flattened(members: dict[str, Any], withheld: dict[str, None]) -> dict[str, list[str]]:
    """The scalars of a record by their path. An array of scalars is one text with a line for each.

    Withheld members are left out, and the first of them are added to `withheld`. At most `MOST_VALUES` texts are read.
    """
    texts: dict[str, list[str]] = {}
    for path, text in islice(_walk("", members, 0, withheld), MOST_VALUES):
        texts.setdefault(path, []).append(text)
    return texts


def _walk(path: str, node: Any, depth: int, withheld: dict[str, None]) -> Iterator[tuple[str, str]]:
    """The path and text of each value in a record. Personal data is left out, and its paths go to `withheld`."""
    if path and path_is_withheld(path):
        if len(withheld) < MOST_REPORTED:
            withheld[path] = None
    elif isinstance(node, dict) and depth <= DEEPEST:
        for name, value in node.items():
            yield from _walk(f"{path}.{name[:100]}" if path else name[:100], value, depth + 1, withheld)
    elif isinstance(node, list) and depth <= DEEPEST:
        texts = [text for item in islice(node, MOST_VALUES) if (text := scalar_text(item)) is not None]
        if texts:
            yield path, "".join(text.replace("\n", " ") + "\n" for text in texts)
        for item in node:
            if isinstance(item, dict | list):
                yield from _walk(path, item, depth + 1, withheld)
    elif (text := scalar_text(node)) is not None:
        yield path, text


_MOST = 100
_LONGEST = 2_000
_KNOWN = frozenset(
    {fold(member.name) for struct in (Unit, Vehicle) for member in struct_fields(struct)}
    | {name for names in CANONICAL.folded.values() for name in names}
)


def _scalar(value: object) -> Scalar | None:
    """A value that can be stored as an extra member. None for others."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return prose(value, _LONGEST)
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return None


def _scalars(members: dict[str, Any]) -> dict[str, Scalar]:
    """The unknown members that are passed through to buyers: text, numbers and flags, at most _MOST."""
    scalars: dict[str, Scalar] = {}
    for name, value in members.items():
        tidy = line(name, 64)
        scalar = _scalar(value)
        if tidy and scalar is not None and not path_is_withheld(name) and len(scalars) < _MOST:
            scalars[tidy] = scalar
    return scalars


def structured_members(members: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The members of a unit that no column gives (`fees`, `other_attributes`, `extras`), and problems of their values.

    `extras` are the scalar members whose names the protocol does not define.
    """
    structured: dict[str, Any] = {}
    row_problems: list[str] = []
    others = members.get("other_attributes")
    if isinstance(others, dict) and (scalars := _scalars(others)):
        structured["other_attributes"] = scalars
    unknown = {name: value for name, value in members.items() if fold(name) and fold(name) not in _KNOWN}
    if extras := _scalars(unknown):
        structured["extras"] = extras
    if "fees" in members and members["fees"] is not None:
        fees = _fees(members["fees"])
        if fees is None:
            row_problems.append("fees: not understood; give a list of {name, amount} in whole dollars.")
        else:
            structured["fees"] = fees
    return structured, row_problems


def _fees(value: object) -> tuple[Fee, ...] | None:
    """All fees or None, because a price with only some of its fees would be wrong."""
    if not isinstance(value, list):
        return None
    fees: list[Fee] = []
    for item in value[:_MOST]:
        name = item.get("name") if isinstance(item, dict) else None
        amount = item.get("amount") if isinstance(item, dict) else None
        whole = dollars(str(amount))
        if not isinstance(name, str) or not (tidy := line(name, 100)) or whole is None:
            return None
        fees.append(Fee(name=tidy, amount=whole))
    return tuple(fees)
