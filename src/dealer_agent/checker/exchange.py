"""A request and its response as bytes, and the JSON in them. Pure."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

Headers = Sequence[tuple[str, str]]

TOO_MANY_REQUESTS = 429


@dataclass(frozen=True)
class Exchange:
    """One request and its response, as they were on the wire. `seconds`: until the whole response arrived."""

    method: str
    url: str
    request_headers: Headers
    request_body: bytes
    status: int
    headers: Headers
    body: bytes = field(repr=False)
    seconds: float

    def header(self, name: str) -> str | None:
        """The value of a response header, the first if it occurs twice. None if it is absent."""
        return next(iter(self.all_headers(name)), None)

    def all_headers(self, name: str) -> list[str]:
        """All values of a response header. Case does not matter."""
        return [value for each, value in self.headers if each.lower() == name.lower()]

    @property
    def media_type(self) -> str:
        """The media type of the response: without parameters, in lower case. Empty if absent."""
        return (self.header("content-type") or "").partition(";")[0].strip().lower()

    @cached_property
    def _read(self) -> tuple[Any, list[str]]:
        return read_json(self.body)

    @cached_property
    def sent(self) -> frozenset[tuple[str, str]]:
        """The headers of the request, their names in lower case."""
        return frozenset((name.lower(), value) for name, value in self.request_headers)

    @cached_property
    def request_json(self) -> Any:
        """The JSON of the request body, read leniently; None if it is not JSON at all."""
        return read_json(self.request_body)[0]

    @property
    def json(self) -> Any:
        """The JSON of the response body, read leniently; None if it is not JSON at all."""
        return self._read[0]

    @property
    def is_refusal(self) -> bool:
        """Whether the request got an error of any kind."""
        return self.status >= 400 or at(self.json, "error") is not None

    @property
    def is_refused_for_its_rate(self) -> bool:
        """Whether the same request may be answered later: 429, or its error code in a call of JSON-RPC."""
        return self.status == TOO_MANY_REQUESTS or (b"RATE_LIMITED" in self.body and at(self.json, "error") is not None)

    @property
    def json_defects(self) -> list[str]:
        """What is wrong with the JSON of the response: each a sentence. A strict reader would refuse such a body."""
        return self._read[1]


def read_json(body: bytes) -> tuple[Any, list[str]]:
    """The value of a body, and its defects as sentences.

    Python's reader accepts a byte order mark, duplicate keys, NaN and lone surrogates. Other readers do not.
    """
    defects: list[str] = []
    if body.startswith(b"\xef\xbb\xbf"):
        defects.append("The body begins with a byte order mark.")
        body = body[3:]
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        defects.append("The body is not UTF-8.")
        text = body.decode("utf-8", "replace")

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        node = dict(pairs)
        if len(node) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            defects.append(f"An object has the member {twice!r} twice.")
        return node

    def constant(name: str) -> None:
        defects.append(f"The body has {name}, which JSON does not know.")

    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=constant)
    except (ValueError, RecursionError):
        return None, [*defects, "The body is not JSON."]
    if "\\u" in text:
        try:
            written = json.dumps(value, ensure_ascii=False)
            if written != (mended := written.encode("utf-8", "replace").decode("utf-8")):
                defects.append("A string has half of a surrogate pair.")
                value = json.loads(mended)
        except RecursionError:
            return None, [*defects, "The body has too many levels."]
    return value, defects


def date_of(exchange: Exchange, name: str = "date") -> datetime | None:
    """The time in a header of a response, by default `Date`: the agent's own clock. None if it has none."""
    try:
        said = parsedate_to_datetime(exchange.header(name) or "")
    except ValueError:
        return None
    return said if said.tzinfo else None


def dicts(node: object) -> list[dict[str, Any]]:
    """The objects of an array. Empty if it is not an array."""
    return [each for each in node if isinstance(each, dict)] if isinstance(node, list) else []


def at(node: Any, path: str) -> Any:
    """The value at a path of members, such as `message.parts`. None if a member is absent or is not in an object."""
    for name in path.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node
