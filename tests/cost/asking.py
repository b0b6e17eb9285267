"""Requests of every kind, made from a few numbers that a search can change.

A request is made anew for every measurement, with other words of the same shape: what a cache holds costs nothing.
"""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import strategies as st
from tests.protocol.bodies import body, call, payload

READING_BYTES, LEAD_BYTES = 32 * 1024, 256 * 1024
JSON_HEADERS = ((b"content-type", b"application/json"), (b"a2a-version", b"1.0"))

Genes = dict[str, Any]


class Sent(NamedTuple):
    """One request."""

    body: bytes
    path: str = "/message:send"
    headers: tuple[tuple[bytes, bytes], ...] = JSON_HEADERS
    query: bytes = b""
    method: str = "POST"


class Kind(NamedTuple):
    """A kind of request: the numbers that describe it, and the function that makes it from them."""

    genes: st.SearchStrategy[Genes]
    make: Callable[[Genes, random.Random], Sent]


ALPHABETS = {
    "letters": "abcdefghijklmnopqrstuvwxyz",
    "common": "shtrmcbfpdlveg12",
    "expanding": "\ufdfa\u3300\u33ff",
    "accents": "e\u0301\u0323\u00e9",
    "escaped": "\u0001\u001f",
    "wide": "\U0001d54f漢",
    "joined": "a-b.c'd",
    "upper": "ABCXYZ\u0130ß",
}
REAL_WORDS = (
    *("suv", "awd", "2wd", "4wd", "hybrid", "electric", "automatic", "white", "black", "seats", "honda", "used"),
    *("new", "cpo", "truck", "gas", "s", "m", "c", "t"),
)

_text = st.fixed_dictionaries(
    {
        "alphabet": st.sampled_from([*ALPHABETS, "real"]),
        "word": st.sampled_from([1, 2, 3, 6, 12, 25, 60, 119, 199]),
        "length": st.sampled_from([1, 2, 4, 12, 25, 60, 119, 120, 199, 200, 201]),
        "escapes": st.booleans(),
    }
)


def text(genes: Genes, dice: random.Random, length: int | None = None) -> str:
    """A text of words with the same length."""
    wanted = genes["length"] if length is None else length
    if genes["alphabet"] == "real":
        made = " ".join(dice.choices(REAL_WORDS, k=wanted // 2 + 1))
    else:
        letters = "".join(dice.choices(ALPHABETS[genes["alphabet"]], k=wanted))
        word = genes["word"]
        made = " ".join(letters[at : at + word] for at in range(0, wanted, word))
    return made[:wanted]


WORD_FILTERS = (
    *("make", "model", "trim", "transmission", "fuel", "charge_port", "driveline", "body"),
    *("exterior_color", "interior_color", "rooftops"),
)
RANGES = {
    "year_min": 1900,
    "price_min": 0,
    "mileage_max": 2**60,
    "electric_range_mi_min": 0,
    "displacement_cc_max": 9**9,
}


def _raw(document: object, *, escapes: bool) -> bytes:
    return json.dumps(document, ensure_ascii=escapes, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _shrunk(make: Callable[[float], Any], most: int, *, escapes: bool) -> bytes:
    """The largest document that fits. `make` makes a document from a share between 0 and 1."""
    share = 1.0
    while len(raw := _raw(make(share), escapes=escapes)) > most and share > 0.01:
        share *= min(0.9, most / len(raw))
    return raw


_reading = st.fixed_dictionaries(
    {
        "skill": st.sampled_from(["inventory.search", "inventory.facets"]),
        "arrays": st.integers(0, len(WORD_FILTERS)),
        "items": st.sampled_from([0, 1, 5, 24, 60, 100]),
        "text": _text,
        "query": st.none() | _text,
        "ranges": st.integers(0, len(RANGES)),
        "skip": st.sampled_from([0, 100, 500, 900, 50_000, 99_000]),
        "sort": st.none() | st.sampled_from(["price", "model", "updated_at", "mileage"]),
    }
)


def make_reading(genes: Genes, dice: random.Random) -> Sent:
    """A valid search or facets request."""

    def document(share: float) -> Any:
        items = int(genes["items"] * share)
        length = min(genes["text"]["length"], 200)
        filters: dict[str, Any] = {
            name: [text(genes["text"], dice, length) for _ in range(items)] for name in WORD_FILTERS[: genes["arrays"]]
        }
        filters |= dict(list(RANGES.items())[: genes["ranges"]])
        if genes["query"]:
            filters["query"] = text(genes["query"], dice, min(genes["query"]["length"], 200))
        members: dict[str, Any] = {"filters": filters}
        if genes["skill"] == "inventory.search":
            members["pagination"] = {"skip": genes["skip"], "limit": 1000}
            if genes["sort"]:
                members["sort"] = {"field": genes["sort"], "order": "desc"}
        return body(genes["skill"], **members)

    return Sent(_shrunk(document, READING_BYTES, escapes=genes["text"]["escapes"]))


def make_vehicle(genes: Genes, dice: random.Random) -> Sent:
    """A valid request for one vehicle."""
    length = min(genes["length"], 200)
    members = {name: text(genes, dice, length) for name in ("vin", "stock", "vehicle_id")}
    return Sent(_raw(body("inventory.vehicle", **members, zip="37201"), escapes=genes["escapes"]))


WRONG = ("[]", "{}", "0", "null", '"x"', "1e400", "0.5", '""', "[[]]", '{"a":[]}', "9" * 4_000, "2020.0")
PLACES = ("payload", "filters", "array", "arrays", "text", "names", "long names", "known names", "type", "deep")

_wrong = st.fixed_dictionaries(
    {
        "place": st.sampled_from(PLACES),
        "value": st.sampled_from(WRONG),
        "count": st.sampled_from([1, 10, 90, 100, 101, 380, 500, 1_000, 4_900, 2_900, 87_000]),
        "text": _text,
        "arrays": st.integers(1, len(WORD_FILTERS)),
    }
)


def _many(genes: Genes, dice: random.Random, most: int) -> str:
    """The JSON text of a very large value, or of very many members."""
    value: str = genes["value"]
    place: str = genes["place"]
    count = max(1, min(genes["count"], most // (len(value) + 1)))
    match place:
        case "names" | "known names":
            count = max(1, min(count, most // (len(value) + 14)))
            stem: str = "price_max" if place == "known names" else "u"
            return "{" + ",".join(f'"{stem}{dice.randrange(10_000)}":{value}' for _ in range(count)) + "}"
        case "long names":
            length = most // min(count, 100) - len(value) - 8
            return "{" + ",".join(f'"{"n" * max(1, length)}{at}":{value}' for at in range(min(count, 100))) + "}"
        case "text":
            return _raw(text(genes["text"], dice, most // 7), escapes=True).decode()
        case "deep":
            return "[" * int(min(count, most // 2)) + "]" * int(min(count, most // 2))
    return "[" + ",".join([value] * count) + "]"


def _in_filters(genes: Genes, dice: random.Random) -> str:
    most = READING_BYTES - 600
    if genes["place"] == "arrays":
        names = WORD_FILTERS[: genes["arrays"]]
        return "{" + ",".join(f'"{name}":{_many(genes, dice, most // len(names) - 20)}' for name in names) + "}"
    if genes["place"] in ("array", "text", "deep"):
        return '{"make":' + _many(genes, dice, most) + "}"
    return _many(genes, dice, most)


def make_invalid(genes: Genes, dice: random.Random) -> Sent:
    """A reading request with very many defects in its payload."""
    if genes["place"] == "type":
        document, filled = body("inventory.search", type="@"), _many(genes, dice, READING_BYTES - 600)
    elif genes["place"] == "payload":
        document, filled = body("inventory.search", sort="@", privacy=[]), _many(genes, dice, READING_BYTES - 600)
    else:
        document, filled = body("inventory.search", filters="@"), _in_filters(genes, dice)
    return Sent(_raw(document, escapes=True).replace(b'"@"', filled.encode("utf-8", "surrogatepass")))


ENVELOPE = ("messageId", "contextId", "taskId", "metadata", "role", "parts", "kind", "extensions")
_envelope = st.fixed_dictionaries(
    {
        "wrong": _wrong,
        "member": st.sampled_from([*ENVELOPE, "acceptedOutputModes", "mediaType", "whole", "twice", "call", "id"]),
        "part": st.sampled_from(['{"text":"x"}', '{"data":{}}', "{}", '{"kind":"data"}', '{"data":[],"kind":1}', "0"]),
        "rpc": st.booleans(),
    }
)


def make_envelope(genes: Genes, dice: random.Random) -> Sent:
    """A request with a very large envelope, over either binding."""
    most = READING_BYTES - 700
    filled = _many(genes["wrong"], dice, most)
    document: Any = body("inventory.search")
    message, configuration = document["message"], document["configuration"]
    match genes["member"]:
        case "acceptedOutputModes":
            configuration["acceptedOutputModes"] = "@"
        case "mediaType":
            message["parts"][0]["mediaType"] = "@"
        case "whole":
            document = "@"
        case "parts":
            message["parts"] = "@"
            count = min(genes["wrong"]["count"], most // (len(genes["part"]) + 1))
            filled = "[" + ",".join([genes["part"]] * count) + "]"
        case "twice":
            message["@@"] = 1
        case "call" | "id":
            pass
        case member:
            message[member] = "@"
    if genes["rpc"] or genes["member"] in ("call", "id"):
        document = "@" if genes["member"] == "call" else call(document, id="@" if genes["member"] == "id" else 1)
    raw = _raw(document, escapes=True).replace(b'"@"', filled.encode("utf-8", "surrogatepass"))
    raw = raw.replace(b'"@@":1', b",".join([b'"a":[]'] * (most // 7)))
    return Sent(raw, "/rpc" if genes["rpc"] else "/message:send")


_headers = st.fixed_dictionaries(
    {
        "name": st.sampled_from(
            ["x-forwarded-for", "a2a-extensions", "authorization", "a2a-version", "content-type", "x-many", "query"]
        ),
        "value": st.sampled_from(
            [
                *("127.0.0.1,", "10.0.0.1, ", "::1,", "[::1]:80,", "9,", "a:b,", ",", ", ", "Bearer ", "dat_x_", "%41"),
                *("&a=b", "&A2A-Version=1.0", "&", "1.0", ";", "https://autoagentprotocol.org/extensions/a2a-x,"),
            ]
        ),
        "lines": st.sampled_from([1, 10, 1_000, 4_000]),
        "valid": st.booleans(),
    }
)
HEAD_BYTES = 60 * 1024


def make_headers(genes: Genes, dice: random.Random) -> Sent:
    """A small request with a very large head."""
    raw = _raw(body("inventory.search", **({} if genes["valid"] else {"x": dice.random()})), escapes=True)
    value = genes["value"].encode()
    if genes["name"] == "query":
        return Sent(raw, query=value * (HEAD_BYTES // len(value)), headers=JSON_HEADERS[:1])
    lines = min(genes["lines"], HEAD_BYTES // (len(genes["name"]) + len(value) + 4))
    line = value * max(1, (HEAD_BYTES // lines - len(genes["name"]) - 4) // len(value))
    return Sent(raw, headers=(*JSON_HEADERS, *[(genes["name"].encode(), line)] * lines))


_lead = st.fixed_dictionaries(
    {
        "vehicles": st.integers(0, 2),
        "features": st.sampled_from([0, 1, 100, 500]),
        "photos": st.sampled_from([0, 200]),
        "attributes": st.sampled_from([0, 200]),
        "extras": st.sampled_from([0, 10, 160]),
        "fees": st.sampled_from([0, 50]),
        "prose": st.sampled_from([0, 1_000, 20_000]),
        "windows": st.sampled_from([0, 1, 10, 20]),
        "visit": st.sampled_from(["test_drive", "sales", "phone_call"]),
        "scopes": st.sampled_from([1, 20]),
        "consent": st.sampled_from([10, 10_000]),
        "text": _text,
        "key": st.booleans(),
    }
)


def _lead_document(genes: Genes, dice: random.Random, share: float = 1.0) -> dict[str, Any]:
    def some(name: str) -> int:
        return int(genes[name] * share)

    def word(most: int = 200) -> str:
        return text(genes["text"], dice, min(genes["text"]["length"], most)) or "x"

    vehicle = {
        "make": word(),
        "model": word(),
        "features": [word() for _ in range(some("features"))],
        "photos": [f"https://example.com/{word(60)}.jpg" for _ in range(some("photos"))],
        "other_attributes": {f"a{at}": word(60) for at in range(some("attributes"))},
        "fees": [{"name": word(60), "amount": at} for at in range(some("fees"))],
        "description": text(genes["text"], dice, some("prose")),
        "notes": text(genes["text"], dice, some("prose")),
        **{f"extra{at}": word(60) for at in range(some("extras"))},
    }
    now = datetime.now(UTC)
    members: dict[str, Any] = {"message": text(genes["text"], dice, min(4_000, some("prose")))}
    members |= dict.fromkeys(("vehicle_of_interest", "trade_in")[: genes["vehicles"]], vehicle)
    if genes["windows"]:
        starts = [now + timedelta(days=2, hours=dice.randrange(600)) for _ in range(genes["windows"])]
        windows = [{"start": at.isoformat(), "end": (at + timedelta(hours=1)).isoformat()} for at in starts]
        members["appointment"] = {"appointment_type": genes["visit"], "requested_windows": windows}
    if genes["key"]:
        members["idempotency_key"] = f"key-{dice.random()}"
    lead = payload("lead.submit", **members)
    lead["customer"]["email"] = f"j{dice.randrange(10**12)}@example.com"
    lead["customer"]["phone"] = "+12025550123"
    lead["consent"] |= {
        "granted_at": (now - timedelta(minutes=1)).isoformat(),
        "consent_text": "c" + text(genes["text"], dice, some("consent"))[:9_999],
        "scope": ["lead_submission", *(word() for _ in range(genes["scopes"] - 1))],
        "allowed_channels": ["email", "phone"] * (genes["scopes"] // 2 or 1),
    }
    return lead


def make_lead(genes: Genes, dice: random.Random) -> Sent:
    """A valid lead of any size."""
    return Sent(
        _shrunk(
            lambda share: body("lead.submit") | _enveloped(_lead_document(genes, dice, share)),
            LEAD_BYTES,
            escapes=genes["text"]["escapes"],
        )
    )


def _enveloped(lead: object) -> dict[str, Any]:
    document = body("lead.submit")
    document["message"]["parts"][0]["data"] = lead
    return document


LEAD_PLACES = (
    *("/customer", "/customer/email", "/customer/phone", "/customer/address", "/customer/first_name", "/source_agent"),
    *("/vehicle_of_interest", "/trade_in", "/vehicle_of_interest/features", "/vehicle_of_interest/other_attributes"),
    *("/trade_in/fees", "/vehicle_of_interest/description", "/appointment", "/appointment/requested_windows"),
    *("/appointment/timezone", "/submitted_at", "/message", "/idempotency_key", "/unknown", "/trade_in/unknown"),
)
CONSENT_PLACES = ("", "/granted_at", "/expires_at", "/allowed_channels", "/scope", "/consent_text", "/unknown")


def _spoiled(places: tuple[str, ...]) -> st.SearchStrategy[Genes]:
    return st.fixed_dictionaries(
        {
            "lead": _lead,
            "wrong": _wrong,
            "places": st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True),
        }
    )


def make_spoiled_lead(genes: Genes, dice: random.Random, below: str = "") -> Sent:
    """A lead with very many defects."""
    lead = _lead_document(genes["lead"], dice, 0.2)
    raw_size = LEAD_BYTES - 60_000
    fillings: list[bytes] = []
    for place in genes["places"]:
        *path, last = (below + place).split("/")[1:]
        node: Any = lead
        for step in path:
            node = node.setdefault(step, {}) if isinstance(node, dict) else {}
        if isinstance(node, dict):
            node[last] = f"@{len(fillings)}@"
            fillings.append(
                _many(genes["wrong"], dice, raw_size // len(genes["places"])).encode("utf-8", "surrogatepass")
            )
    raw = _raw(_enveloped(lead), escapes=True)
    for at, filled in enumerate(fillings):
        raw = raw.replace(b'"@%d@"' % at, filled)
    return Sent(raw[:LEAD_BYTES])


KINDS: dict[str, Kind] = {
    "reading, valid": Kind(_reading, make_reading),
    "vehicle, valid": Kind(_text, make_vehicle),
    "reading, invalid": Kind(_wrong, make_invalid),
    "envelope and JSON-RPC": Kind(_envelope, make_envelope),
    "headers and query": Kind(_headers, make_headers),
    "lead, valid": Kind(_lead, make_lead),
    "lead, invalid": Kind(_spoiled(LEAD_PLACES), make_spoiled_lead),
    "consent, invalid": Kind(
        _spoiled(CONSENT_PLACES), lambda genes, dice: make_spoiled_lead(genes, dice, below="/consent")
    ),
}
"""Every kind of request that the two bindings take."""
