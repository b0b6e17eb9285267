"""Random requests to a published version: valid ones, almost valid ones, and hostile ones."""

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from tests.published_versions.conftest import ODD
from tests.published_versions.talking import ACTIVATION, body
from tests.server.dealership import ACCORD, GONE, LEAF, LOT

UNITS = [*LOT[:12], *ODD]
VINS = [*(unit["vin"] for unit in UNITS if "vin" in unit), GONE["vin"], "1HGCY2F57RA999999"]
STOCK = [*(unit["stock"] for unit in UNITS), GONE["stock"], "T-119", "none"]
WORDS = ["Honda", "honda", "Big Tex", "70TV", "Leaf", "", "acme", "electric", "Benz", "é", "x" * 200]

STRANGE: list[Any] = [
    None, True, False, 0, -1, 1.5, 2020.0, 1e300, 2**63, 2**80, "", " ", "new", "good", "a" * 2001, "\u0000", "\ud7ff",
    "2020", "null", [], [None], [[]], ["x", "x"], {}, {"a": {"b": [1]}}, {"$ref": "#"}, "https://example.com/a b",
    "not a URL", "+1 202 555 0123", "2026-13-45T99:00:00Z", "1HGCY2F57RA000001",
]  # fmt: skip
UNKNOWN = ["x", "facets", "kind", "zip", "offered_price", "fees", "vehicle_type", "source_agent", "a/b~c", "", "Type"]


class Made(NamedTuple):
    """A request: the last step of its path, its headers and its body. `payload` is None if the body has none."""

    interface: str
    headers: dict[str, str]
    content: bytes
    payload: Any


def make(rng: Random, version: str) -> Made:
    """The next request to a version."""
    interface = "message:send" if version == "1.0" and rng.random() < 0.3 else "rpc"
    skill = rng.choices(list(_MAKERS), (40, 15, 20, 6, 6))[0]
    payload = {"type": f"{skill}.request", **_MAKERS[skill](rng, version)}
    envelope = body(payload)
    part = envelope["message"]["parts"][0]
    if rng.random() < 0.45:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            part["data"] = _changed(rng, part["data"])
    if rng.random() < 0.2:
        envelope["configuration"]["acceptedOutputModes"] = rng.choice((["application/json"], ["*/*"], ["text/html"]))
    if rng.random() < 0.08:
        envelope = _changed(rng, envelope)
    document: Any = envelope
    if interface == "rpc":
        ids: tuple[Any, ...] = (1, "a", None, -3.5, "b" * 200, "b" * 201, {}, [])
        call_id = rng.choices(ids, (50, 50, 5, 5, 5, 1, 1, 1))[0]
        method = rng.choices(("SendMessage", "GetTask", "ListTasks", "message/send", 5), (100, 1, 1, 1, 1))[0]
        document = {"jsonrpc": "2.0", "id": call_id, "method": method, "params": envelope}
        if rng.random() < 0.04:
            document = _changed(rng, document)
    content = json.dumps(document).encode()
    if rng.random() < 0.03:
        content = _damaged(rng, content)
    return Made(interface, _headers(rng, version), content, _payload_in(content, interface))


def _payload_in(content: bytes, interface: str) -> Any:
    try:
        document = json.loads(content)
        parts = (document["params"] if interface == "rpc" else document)["message"]["parts"]
        return next(part["data"] for part in parts if "data" in part)
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError):
        return None


def _headers(rng: Random, version: str) -> dict[str, str]:
    headers = {"content-type": "application/json", **(ACTIVATION if version == "next" else {})}
    if rng.random() < 0.06:
        change = rng.choice(("content-type", "a2a-version", "a2a-extensions", "authorization"))
        value = rng.choice(
            ("", "text/plain", "application/a2a+json", "0.3", "1.0", "Bearer nobody", "https://a.example")
        )
        headers[change] = value
    elif rng.random() < 0.02:
        headers.pop(rng.choice(list(headers)))
    return headers


def _damaged(rng: Random, content: bytes) -> bytes:
    at = rng.randrange(len(content))
    match rng.randrange(5):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
        case 2:
            return content[:at] + b"[" * rng.choice((1, 50, 4000)) + content[at:]
        case 3:
            return rng.choice((b"", b"null", b"[]", b"5", b'"a"', b"{}", b"\xff\xfe"))
        case _:
            return content + b" " * rng.choice((10, 40_000)) + content


def _changed(rng: Random, document: Any) -> Any:
    """A copy with one value removed, replaced or added."""
    document = copy.deepcopy(document)
    nodes: list[Any] = [document]
    for node in nodes:
        for item in node.values() if isinstance(node, dict) else node:
            nodes += [item] if isinstance(item, dict | list) else []
    node = rng.choice(nodes)
    strange = copy.deepcopy(rng.choice(STRANGE))
    if isinstance(node, list):
        if node and rng.random() < 0.7:
            node[rng.randrange(len(node))] = strange
        else:
            node += [strange] * rng.choice((1, 2, 150))
        return document
    action = rng.randrange(3) if node else 2
    if action == 0:
        del node[rng.choice(list(node))]
    elif action == 1:
        node[rng.choice(list(node))] = strange
    else:
        node[rng.choice(UNKNOWN)] = strange
    return document


def _some(rng: Random, document: dict[str, Callable[[], Any]], most: int = 4) -> dict[str, Any]:
    """At most so many of the members."""
    return {name: document[name]() for name in rng.sample(list(document), min(len(document), rng.randrange(most + 1)))}


def _filters(rng: Random, version: str) -> dict[str, Any]:
    def words() -> list[str]:
        return rng.sample(WORDS, rng.randrange(4))

    known: dict[str, Callable[[], Any]] = {
        **dict.fromkeys(
            ("make", "model", "trim", "transmission", "fuel", "driveline", "body", "exterior_color", "rooftops"), words
        ),
        "condition": lambda: rng.sample(["new", "used", "cpo"], rng.randrange(4)),
        "year_min": lambda: rng.randrange(1900, 2101),
        "year_max": lambda: rng.choice((2024, 2024.0)),
        "price_min": lambda: rng.randrange(40000),
        "price_max": lambda: rng.randrange(40000),
        "mileage_max": lambda: rng.randrange(40000),
        "vin": lambda: rng.choice(VINS),
        "stock": lambda: rng.choice(STOCK),
        "query": lambda: rng.choice(WORDS),
    }
    later: dict[str, Callable[[], Any]] = {
        "vehicle_type": lambda: rng.sample(["car", "motorcycle", "trailer", "rv", "other"], 2),
        "electric_range_mi_min": lambda: rng.randrange(300),
        "electric_range_mi_max": lambda: rng.randrange(300),
        "displacement_cc_min": lambda: rng.randrange(2000),
        "displacement_cc_max": lambda: rng.randrange(2000),
        "dc_fast_charge": lambda: rng.random() < 0.5,
        "charge_port": words,
    }
    if version not in ("1.0", "1.1") or rng.random() < 0.05:
        known |= later
    return _some(rng, known)


def _search(rng: Random, version: str) -> dict[str, Any]:
    fields = ["price", "list_price", "msrp", "mileage", "year", "make", "model", "stock", "updated_at"]
    if version == "1.0" or rng.random() < 0.05:
        fields.append("offered_price")
    return _some(
        rng,
        {
            "filters": lambda: _filters(rng, version),
            "pagination": lambda: {"skip": rng.choice((0, 1, 500)), "limit": rng.choice((1, 2, 5, 5, 5, 1000))},
            "sort": lambda: {"field": rng.choice(fields), "order": rng.choice(("asc", "desc"))},
            "privacy": lambda: {"anonymous": rng.random() < 0.5},
        },
    ) or {"pagination": {"limit": 3}}


def _vehicle(rng: Random, version: str) -> dict[str, Any]:
    known: dict[str, Callable[[], Any]] = {
        "vin": lambda: rng.choice(VINS),
        "stock": lambda: rng.choice(STOCK),
        "vehicle_id": lambda: rng.choice((f"vin-{ACCORD}", f"vin-{LEAF}", "stock-t-001", "none")),
    }
    if version == "1.0" or rng.random() < 0.05:
        known["zip"] = lambda: rng.choice(("37203", "37203-1234", "94103", "near", "0" * 16))
    return _some(rng, known)


def _lead(rng: Random, version: str) -> dict[str, Any]:
    now = datetime.now(UTC)

    def at(days: float) -> str:
        return (now + timedelta(days=days)).isoformat()

    agent: Any = "example-agent"
    consent = {
        "granted_at": at(-rng.random()),
        "allowed_channels": rng.choice((["email"], ["email", "phone", "sms"], ["phone"])),
        "consent_text": "The dealer may contact me.",
        "scope": ["lead_submission"],
    }
    if version == "1.0":
        consent["source_agent"] = agent
    else:
        agent = {
            "name": agent,
            **_some(rng, {"url": lambda: "https://a.example", "agent_card_url": lambda: "https://a.example/c"}),
        }
    number = rng.randrange(3000)
    customer = {"first_name": "Robin", "last_name": "Example"}
    customer |= rng.choice(({"email": f"robin-{number}@example.com"}, {"phone": f"+1202555{number:04}"})) | _some(
        rng,
        {
            "preferred_contact": lambda: rng.choice(("email", "phone", "sms", "any")),
            "address": lambda: {"city": "Nashville", "zip": "37203"},
        },
        2,
    )
    wanted = _some(rng, _vehicle_members(rng, ("new", "used", "cpo")), 8)
    traded = _some(rng, _vehicle_members(rng, ("excellent", "good", "fair", "poor")), 8)
    appointment = {"appointment_type": rng.choice(("sales", "service", "test_drive", "trade_in"))} | _some(
        rng,
        {
            "appointment_at": lambda: at(rng.choice((-5, 0.5, 3, 12, 400))),
            "duration_minutes": lambda: rng.choice((15, 30, 600)),
            "notes": lambda: "with a friend",
        },
    )
    extra = _some(
        rng,
        {
            "vehicle_of_interest": lambda: wanted,
            "trade_in": lambda: traded,
            "appointment": lambda: appointment,
            "message": lambda: rng.choice(("hello", "é" * 4000, "")),
            "submitted_at": lambda: at(0),
            "idempotency_key": lambda: f"key-{rng.randrange(200)}",
        },
        6,
    )
    return {"customer": customer, "consent": consent, "source_agent": agent, **extra}


def _vehicle_members(rng: Random, conditions: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    return {
        "vin": lambda: rng.choice(VINS[:2]),
        "stock": lambda: rng.choice(STOCK),
        "year": lambda: 2020,
        "make": lambda: "Honda",
        "condition": lambda: rng.choice(conditions),
        "rooftop": lambda: rng.choice((None, "Test Motors South", "Nowhere")),
        "charge_port": lambda: rng.choice((None, "nacs")),
        "vehicle_type": lambda: "car",
        "price": lambda: 20000,
        "fees": lambda: [{"name": "Documentation fee", "amount": 399}],
        "other_attributes": lambda: {"a": [1, 2], "b": ["x"], "c": True, "d": 1.5},
        "photos": lambda: ["https://example.com/1.jpg"],
        "status": lambda: "available",
        "own_words": lambda: {"deep": [1, {"x": None}]},
        "electric_range_mi": lambda: 226.5,
        "inventory_date": lambda: "2026-01-31",
    }


_MAKERS: dict[str, Callable[[Random, str], dict[str, Any]]] = {
    "inventory.search": _search,
    "inventory.facets": lambda rng, version: _some(rng, {"filters": lambda: _filters(rng, version)}, 1),
    "inventory.vehicle": _vehicle,
    "dealer.information": lambda _rng, _version: {},
    "lead.submit": _lead,
}
