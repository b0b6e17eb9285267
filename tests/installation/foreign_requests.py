"""Random requests to one dealer with identifiers of another one, as bytes on a connection."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.acceptance.asking import body
from tests.installation.marked_dealers import AGENTS_HOST, SHARED_VIN, MarkedDealer, marked_lead

LEADS_PER_THOUSAND = 20


class ForeignRequest(NamedTuple):
    """A request to `target`, and the statuses that it may get. Its answer holds no data of another dealer."""

    kind: str
    target: MarkedDealer
    data: bytes
    statuses: frozenset[int]


class Parts(NamedTuple):
    """A request below a dealer's root."""

    method: str
    path: str
    content: bytes
    headers: tuple[str, ...]
    statuses: frozenset[int]


Maker = Callable[[random.Random, MarkedDealer, MarkedDealer], Parts]

OK, NOT_FOUND, UNAUTHORIZED, INVALID = (frozenset({status}) for status in (200, 404, 401, 422))


def make_request(seed: int, number: int, dealers: Sequence[MarkedDealer]) -> ForeignRequest:
    """The request with this number. The same seed makes the same request."""
    dice = random.Random(seed * 10_000_019 + number)
    target, other = dice.sample(dealers, 2)
    kind = (
        "lead" if dice.randrange(1000) < LEADS_PER_THOUSAND else dice.choice([kind for kind in KINDS if kind != "lead"])
    )
    parts = KINDS[kind](dice, target, other)
    host, path, statuses = _address(dice, target, other, parts)
    head = [f"{parts.method} {path} HTTP/1.1", f"Host: {host}", *parts.headers, *_misleading(dice, other)]
    if parts.content:
        head.append(f"Content-Length: {len(parts.content)}")
    data = "\r\n".join((*head, "", "")).encode() + parts.content
    return ForeignRequest(kind, target, data, statuses)


def _address(
    dice: random.Random, target: MarkedDealer, other: MarkedDealer, parts: Parts
) -> tuple[str, str, frozenset[int]]:
    below = f"/d/{target.dealer_id}{parts.path}"
    way = dice.randrange(12)
    if way < 5:
        return AGENTS_HOST, below, parts.statuses
    if way < 8:
        host = dice.choice((target.host, target.host.upper(), f"{target.host}:443", f"{target.host}."))
        return host, parts.path or "/", parts.statuses
    if way == 8:
        return "unknown.example", below, parts.statuses
    nothing = NOT_FOUND | {405}
    if way == 9:
        # A host of a dealer never leads to another dealer.
        return target.host, f"/d/{other.dealer_id}{parts.path}", nothing
    if way == 10:
        between = dice.choice(("/../", "//d/", "%2f..%2f", "/%2e%2e/", "/d/", "/./../"))
        return AGENTS_HOST, f"/d/{target.dealer_id}{between}{other.dealer_id}{parts.path}", nothing
    wrong = dice.choice(
        (f"/D/{other.dealer_id}", f"/d/{other.dealer_id.upper()}", f"/d/{other.dealer_id}%20", "/d/nosuch")
    )
    return AGENTS_HOST, f"{wrong}{parts.path}", nothing


def _misleading(dice: random.Random, other: MarkedDealer) -> list[str]:
    if dice.random() < 0.7:
        return []
    return [
        dice.choice(
            (
                f"X-Forwarded-Host: {other.host}",
                f"Forwarded: host={other.host}",
                f"X-Original-URL: /d/{other.dealer_id}/docs",
                f"X-Forwarded-Prefix: /d/{other.dealer_id}",
                f"X-Tenant: {other.dealer_id}",
                f"X-Dealer: {other.dealer_id}",
                f"Referer: https://{other.host}/",
                f"Cookie: dealer={other.dealer_id}",
            )
        )
    ]


def _get(path: str, statuses: frozenset[int], *headers: str) -> Parts:
    return Parts("GET", path, b"", headers, statuses)


def _post(
    dice: random.Random, sent: dict[str, Any], target: MarkedDealer, statuses: frozenset[int], token: str | None = None
) -> Parts:
    """A request of a skill, over either binding. By default with the token that the dealer needs."""
    if token is None and target.needs_token:
        token = target.token
    headers = ["Content-Type: application/json", *([f"Authorization: Bearer {token}"] if token else [])]
    path = "/message:send"
    if dice.random() < 0.3:
        path = "/rpc"
        sent = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": sent}
        statuses = statuses | OK
    return Parts("POST", path, json.dumps(sent).encode(), tuple(headers), statuses)


def _page(dice: random.Random, _: MarkedDealer, __: MarkedDealer) -> Parts:
    pages = (
        "",
        "/",
        "/docs",
        "/openapi.json",
        "/cards/1.0.0.json",
        "/cards/0.1.0.json",
        "/.well-known/agent-card.json",
    )
    return _get(dice.choice((*pages, "/healthz", "/readyz", "/schemas")), OK | NOT_FOUND)


def _search(dice: random.Random, target: MarkedDealer, _: MarkedDealer) -> Parts:
    filters = dice.choice(({}, {"make": ["Honda"]}, {"year_min": 2018}, {"query": "Civic"}, {"vin": SHARED_VIN}))
    skill = dice.choice(("inventory.search", "inventory.facets"))
    return _post(dice, body(skill, **({"filters": filters} if filters else {})), target, OK)


def _foreign_search(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    filters = dice.choice(({"vin": dice.choice(other.vins)}, {"stock": dice.choice(other.stocks)}))
    return _post(dice, body("inventory.search", filters=filters), target, OK)


def _information(dice: random.Random, target: MarkedDealer, _: MarkedDealer) -> Parts:
    return _post(dice, body("dealer.information"), target, OK)


def _shared_vehicle(dice: random.Random, target: MarkedDealer, _: MarkedDealer) -> Parts:
    return _post(dice, body("inventory.vehicle", vin=SHARED_VIN), target, OK)


def _foreign_vehicle(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    member, values = dice.choice((("vin", other.vins), ("stock", other.stocks), ("vehicle_id", other.vehicle_ids)))
    return _post(dice, body("inventory.vehicle", **{member: dice.choice(values)}), target, NOT_FOUND)


def _token(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    return _post(dice, body("inventory.search"), target, UNAUTHORIZED, token=other.token)


def _tenant(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    return _post(dice, body("inventory.search") | {"tenant": other.dealer_id}, target, INVALID)


def _envelope(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    sent = body(dice.choice(("inventory.search", "dealer.information")))
    sent["message"][dice.choice(("taskId", "contextId", "messageId"))] = dice.choice(other.lead_ids)
    return _post(dice, sent, target, OK | NOT_FOUND | INVALID | {400})


def _link(dice: random.Random, _: MarkedDealer, other: MarkedDealer) -> Parts:
    path = dice.choice(other.links)
    if dice.random() < 0.5:
        return _get(path, NOT_FOUND)
    form = dice.choice((b"action=cancel", b"channel=email", b"action=move&at=2030-01-01T10%3A00", b"x=1"))
    return Parts("POST", path, form, ("Content-Type: application/x-www-form-urlencoded",), NOT_FOUND)


def _calendar(dice: random.Random, _: MarkedDealer, other: MarkedDealer) -> Parts:
    secret = dice.choice((other.calendar, other.token, other.token.rpartition("_")[2]))
    return _get(f"/calendar/{secret}.ics", NOT_FOUND)


def _task(dice: random.Random, _: MarkedDealer, other: MarkedDealer) -> Parts:
    found = quote(dice.choice((*other.lead_ids, *other.appointment_ids)))
    path = dice.choice((f"/tasks/{found}", f"/leads/{found}", f"/visit/{found}", f"/contact/{found}"))
    return _get(path, NOT_FOUND | {400, 405, 501})


def _lead(dice: random.Random, target: MarkedDealer, other: MarkedDealer) -> Parts:
    """A new lead, or one with an idempotency key that another dealer knows: it is new here."""
    fresh = f"{target.host}-{dice.randrange(10**12)}"
    key, vehicle = dice.choice((fresh, dice.choice(other.keys))), {}
    if dice.random() < 0.5:
        vehicle = {"vehicle_of_interest": {"vin": dice.choice((SHARED_VIN, dice.choice(other.vins)))}}
    sent = body("lead.submit", **marked_lead(target, dice.randrange(10**6), key, **vehicle))
    return _post(dice, sent, target, OK | NOT_FOUND | INVALID | {409})


KINDS: dict[str, Maker] = {
    "page": _page,
    "search": _search,
    "foreign search": _foreign_search,
    "information": _information,
    "shared vehicle": _shared_vehicle,
    "foreign vehicle": _foreign_vehicle,
    "token": _token,
    "tenant": _tenant,
    "envelope": _envelope,
    "link": _link,
    "calendar": _calendar,
    "task": _task,
    "lead": _lead,
}
_CHEAP = [kind for kind in KINDS if kind != "lead"]
