# ruff: noqa: RUF001 - the tests send confusable digits.
"""Hypothesis strategies of hostile bodies: valid requests with something broken in them.

A broken value is JSON text, or similar text, as bytes. It replaces a placeholder.
"""

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis.strategies as st
from tests.protocol.bodies import STEMS, body, call
from tests.soak import SOAK

_PLACEHOLDER = "\x00 a broken value \x00"
_PLACEHOLDER_TEXT = json.dumps(_PLACEHOLDER).encode()

RICH: dict[str, dict[str, Any]] = {
    "dealer.information": {},
    "inventory.facets": {"filters": {"condition": ["used"], "make": ["Toyota"]}},
    "inventory.search": {
        "filters": {
            "make": ["Toyota", "Ford"],
            "condition": ["new", "used"],
            "vehicle_type": ["car"],
            "fuel": ["hybrid"],
            "dc_fast_charge": True,
            "electric_range_mi_min": 1,
            "displacement_cc_max": 5000,
            "exterior_color": ["white"],
            "rooftops": ["Juniper Hollow Nashville"],
            "year_min": 2018,
            "year_max": 2027,
            "price_min": 1000,
            "price_max": 90000,
            "mileage_max": 100000,
            "vin": "1HGCY2F57RA000001",
            "stock": "A1",
            "query": "used awd hybrid suv",
        },
        "pagination": {"skip": 0, "limit": 3},
        "sort": {"field": "price", "order": "asc"},
        "privacy": {"anonymous": True},
    },
    "inventory.vehicle": {"vin": "1HGCY2F57RA000001", "stock": "A1", "vehicle_id": "v1", "zip": "37201"},
}
"""Payloads with a value at every path."""


def _rich_lead() -> dict[str, Any]:
    granted = (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "customer": {
            "first_name": "Jordan",
            "last_name": "Example",
            "email": "jordan@example.com",
            "phone": "+12025550123",
            "preferred_contact": "email",
            "address": {"address_line_1": "1 Example Way", "city": "Nashville", "state": "TN", "zip": "37201"},
        },
        "consent": {
            "granted_at": granted,
            "expires_at": "2999-01-01T00:00:00Z",
            "allowed_channels": ["email", "phone"],
            "consent_text": "Share my details with this dealer.",
            "scope": ["lead_submission"],
            "source_agent": "Example Agent",
        },
        "vehicle_of_interest": {"vin": "1HGCY2F57RA000001", "year": 2024, "make": "Honda", "condition": "used"},
        "trade_in": {"year": 2015, "make": "Ford", "condition": "fair", "mileage": 90000, "extra": {"a": [1]}},
        "appointment": {
            "appointment_type": "sales",
            "requested_windows": [{"start": "2027-01-05T15:00:00", "end": "2027-01-05T16:00:00"}],
            "timezone": "America/Chicago",
            "duration_minutes": 30,
            "notes": "By the door.",
        },
        "message": "Is it still there?",
        "source_agent": {"name": "Example Agent", "url": "https://agent.example.com"},
        "submitted_at": "2026-11-20T15:00:00Z",
    }


TARGETS = ("/message:send", "/rpc")


def _document(skill: str, vendor: str, target: str, key: int, *, bare_lead: bool) -> dict[str, Any]:
    rich = _rich_lead() if skill == "lead.submit" else copy.deepcopy(RICH[skill])
    if skill == "lead.submit":
        rich["idempotency_key"] = f"key-{key}"
    if bare_lead and skill == "lead.submit":
        del rich["appointment"], rich["trade_in"], rich["vehicle_of_interest"], rich["idempotency_key"]
    document = body(skill, vendor, **rich)
    return call(document) if target == "/rpc" else document


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _deep(levels: int, form: str) -> bytes:
    opening, closing = {"array": (b"[", b"]"), "object": (b'{"a":', b"}"), "mixed": (b'[{"a":', b"}]")}[form]
    return opening * levels + b"1" + closing * levels


_NUMBERS = [
    *b"0 -0 -0.0 1e400 -1e400 1e-400 1E308 1e3 2020.0 2020.5 9.3e18 1e18 01 +1 .5 1. 0x10 1_000 1e".split(),
    *b"9223372036854775807 9223372036854775808 18446744073709551616 -9223372036854775809 1e99999999999".split(),
    *b"NaN -NaN nan Infinity -Infinity inf true false null undefined None".split(),
    *(b"1" + b"0" * 400, b"-" + b"9" * 5000, b"0." + b"0" * 3000 + b"1"),
]

_STRINGS = [
    b'""',
    b'" "',
    rb'"\u0000"',
    rb'"\ud800"',
    rb'"\udc00\ud800"',
    rb'"a\udfff"',
    rb'"\ud83d\ude00"',
    rb'"\uD83"',
    rb'"\x41"',
    b'"\xed\xa0\x80"',
    b'"\xff\xfe"',
    b'"\xc0\xaf"',
    b'"\xf5\x80\x80\x80"',
    b'"\x00"',
    b'"\x1f\n"',
    b'"unfinished',
    b"'single'",
    b'"' + b"A" * 100_000 + b'"',
    b'"' + "e\u0301".encode() * 10_000 + b'"',
    '"\u202e\u200b\ufeff\ufffe\U000e0001\u0130\u00df\u1e9e\ufdfa"'.encode(),
    b'"' + b"{" * 200 + b'"',
    b'"\' OR 1=1; --"',
    b'"%s%n{0}${7*7}"',
    b'"<script>alert(1)</script>"',
    b'"/../../../../etc/passwd"',
    b'"file:///etc/hosts"',
]

_WORDS = [
    _text(word)
    for word in (
        *(
            "9999-12-31T23:59:59-23:59",
            "0001-01-01T00:00:00+23:59",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999Z",
        ),
        *("0000-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T23:59:60Z", "2026-W47-5"),
        *("2026-11-20T15:00:00+99:99", "2026-11-20T15:00:00", "20261120T150000Z", "2026-11-20 15:00:00z", "1e9"),
        *("2026-11-20T15:00:00.1234567890123Z", "２０２６-11-20T15:00:00Z", "+292278994-08-17T07:12:55Z"),
        *("../../etc/passwd", "/etc/localtime", "America/New_York\0", "posix/UTC", "localtime", "America", "", "UTC0"),
        *("+" + "1" * 300, "+0", "+", "++1", "+1 202 555 0123;ext=9", "tel:+12025550123", "+１２０２５５５０１２３"),
        *("a@b", "@", "a@[127.0.0.1]", '"a b"@example.com', "ü@exämple.com", "a" * 300 + "@example.com", "a@xn--a.com"),
        *("1HGCY2F57RA000001\n", "１HGCY2F57RA000001", "IOQ", "ß" * 17, "%00", "*", "\\", "2026-11-20"),
        *(
            "any",
            "email",
            "cpo",
            "lead_submission",
            "ROLE_AGENT",
            "user",
            "application/json",
            "*/*",
            "application/*;q=0",
        ),
        *(
            "inventory.search.request",
            "lead.submit.request",
            "inventory.search",
            "GetTask",
            "ListTasks",
            "message/send",
        ),
        *("http://[::1", "http://a b", "javascript:alert(1)", "http://[v1.x]/", "https://example.com:99999999/"),
    )
]

_CONTAINERS = [
    b"[]",
    b"{}",
    b"[[]]",
    b"[null]",
    b"[1,]",
    b"{,}",
    b"{1:2}",
    b'{"a":1,"a":{"a":[]}}',
    b'{"type":"inventory.search.request","type":5}',
    b'{"":{"":{"":1}}}',
    b"[" + b"0," * 20_000 + b"0]",
    b"{" + b",".join(b'"m%d":%d' % (n, n) for n in range(5_000)) + b"}",
    b'{"__proto__":1,"constructor":2,"a/b~c":3,"\\u0000":4}',
    b"/* comment */ 1",
    b"1 2",
]

BROKEN_VALUES = (*_NUMBERS, *_STRINGS, *_WORDS, *_CONTAINERS)
"""JSON texts of values that are wrong at almost every path, and texts that are nearly JSON."""

_json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
).map(_text)

_depths = st.sampled_from([10, 60, 99, 100, 101, 500, 1_000, 10_000, 100_000])

broken_values: st.SearchStrategy[bytes] = st.one_of(
    st.sampled_from(_NUMBERS),
    st.sampled_from(_STRINGS),
    st.sampled_from(_WORDS),
    st.sampled_from(_CONTAINERS),
    st.builds(_deep, _depths, st.sampled_from(["array", "object", "mixed"])),
    _json_values,
    st.binary(max_size=12),
)

_NAMES = (
    "",
    "type",
    "filters",
    "kind",
    "taskId",
    "contextId",
    "metadata",
    "a/b~c",
    "\x00",
    "é",
    "x" * 5_000,
    "received",
)


def _paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(deeper for key, child in items for deeper in _paths(child, (*path, key)))]


WRONG_EVERYWHERE = (
    *(
        b"null",
        b"true",
        b"-1",
        b"2020.5",
        b"1e400",
        b"1" + b"0" * 400,
        b"NaN",
        b'""',
        rb'"\ud800"',
        b'"\xff"',
        b"[]",
        b"{}",
    ),
    *(_deep(101, "array"), _deep(5_000, "object"), b'"' + b"x" * 5_000 + b'"'),
)
"""Most of them are wrong at any path."""


def wrong_at_every_path(skill: str, target: str) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Whole bodies with one wrong value at one path, and that path.

    Both bindings decode a payload in the same way: in a short run, a path gets all values over the first one, and a few
    over the second.
    """
    step = 1 if SOAK or target == TARGETS[0] else 4
    for number, path in enumerate(_paths(_document(skill, "proto", target, 0, bare_lead=False))[1:]):
        for value in WRONG_EVERYWHERE[number % step :: step]:
            document: Any = _document(skill, "proto", target, 0, bare_lead=False)
            node = document
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = _PLACEHOLDER
            yield path, _text(document).replace(_PLACEHOLDER_TEXT, value)


@st.composite
def _altered(draw: st.DrawFn, document: dict[str, Any]) -> bytes:
    """The document's text, with one to three members replaced, added or removed."""
    values: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        paths = _paths(document)[1:]
        if not paths:
            break
        *parents, last = draw(st.sampled_from(paths))
        node: Any = document
        for step in parents:
            node = node[step]
        match draw(st.sampled_from(["replace", "replace", "replace", "add", "remove"])):
            case "replace":
                node[last] = _PLACEHOLDER
            case "add" if isinstance(node, dict):
                node[draw(st.sampled_from(_NAMES))] = _PLACEHOLDER
            case "add":
                node.append(_PLACEHOLDER)
            case "remove":
                del node[last]
    text = _text(document)
    for _ in range(text.count(_PLACEHOLDER_TEXT)):
        values.append(draw(broken_values))
        text = text.replace(_PLACEHOLDER_TEXT, values[-1], 1)
    return text


@st.composite
def _mangled(draw: st.DrawFn, text: bytes) -> bytes:
    """A body that is changed as a whole."""
    match draw(st.sampled_from(["cut", "flip", "bom", "code", "twice", "tail", "bytes", "value", "large"])):
        case "cut":
            return text[: draw(st.integers(0, len(text) - 1))]
        case "flip":
            place = draw(st.integers(0, len(text) - 1))
            return text[:place] + draw(st.binary(min_size=1, max_size=2)) + text[place + 1 :]
        case "bom":
            return b"\xef\xbb\xbf" + text
        case "code":
            return text.decode().encode(draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-7", "cp037"])))
        case "twice":
            return text + draw(st.sampled_from([b"", b"\n", b","])) + text
        case "tail":
            return text + draw(st.binary(min_size=1, max_size=8))
        case "bytes":
            return draw(st.binary(max_size=64))
        case "value":
            return draw(broken_values)
        case _:
            return text + b" " * draw(st.sampled_from([200_000, 262_144, 300_000, 1_000_000]))


@st.composite
def hostile_requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A target and a body for it."""
    skill = draw(st.sampled_from([*STEMS, "lead.submit", "inventory.search"]))
    target = draw(st.sampled_from(TARGETS))
    document = _document(
        skill,
        draw(st.sampled_from(["proto", "autoagent"])),
        target,
        draw(st.integers(0, 10**9)),
        bare_lead=draw(st.booleans()),
    )
    if draw(st.integers(0, 4)):
        return target, draw(_altered(document))
    return target, draw(_mangled(_text(document)))


def valid_body(skill: str, target: str) -> bytes:
    """A valid request with all members. Each binding has its own idempotency key."""
    return _text(_document(skill, "proto", target, TARGETS.index(target), bare_lead=False))
