"""The requests of buyer agents: all different, in the shares of a realistic mix. Pure; the same in every run.

The requests name vehicles of the stock, so most of them find something. They have every filter that the stock has
values for, every sort field, pages, free text, identifiers of each kind, unknown vehicles, and invalid requests.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from dealer_agent.apidocs.examples import example_body
from dealer_agent.protocol.requests import SortField
from dealer_agent.protocol.skill import SKILL_BY_ID
from dealer_agent.protocol.vocabulary import proto

Unit = Mapping[str, Any]
"""A listing of the stock, as JSON."""

REQUESTS = 10_000


class Ask(NamedTuple):
    """One request: its kind, its skill, its body, and the expected HTTP status."""

    kind: str
    skill: str
    body: bytes
    status: int = 200


Maker = Callable[[random.Random, Sequence[Unit], int], Ask]
"""Makes the request of this number. No other request is equal."""


def asks(shares: Mapping[str, int], units: Sequence[Unit], count: int = REQUESTS) -> list[Ask]:
    """So many different requests. Each hundred has the share of each kind, in random order."""
    dice = random.Random(20_261_121)
    hundred = [kind for kind, share in shares.items() for _ in range(share)]
    if len(hundred) != 100:
        raise ValueError(f"the shares are of a hundred, not of {len(hundred)}")
    made: list[Ask] = []
    while len(made) < count:
        dice.shuffle(hundred)
        made += [KINDS[kind](dice, units, len(made) + place) for place, kind in enumerate(hundred)]
    return made[:count]


def post(body: bytes) -> bytes:
    """A whole HTTP/1.1 request of the HTTP+JSON binding."""
    head = (
        "POST /message:send HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: buyer/1.0\r\nAccept: */*\r\n"
        "Content-Type: application/json\r\nA2A-Version: 1.0\r\n"
    )
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _ask(kind: str, skill: str, number: int, payload: Mapping[str, Any], status: int = 200) -> Ask:
    body = example_body(SKILL_BY_ID[skill], proto())
    body["message"]["messageId"] = f"01KE7{number:021d}"
    body["message"]["parts"][0]["data"] = {"type": f"{skill}.request", **payload}
    return Ask(kind, skill, json.dumps(body, separators=(",", ":")).encode(), status)


def _filters(dice: random.Random, units: Sequence[Unit]) -> dict[str, Any]:
    """A filter block that at least one vehicle meets: the one from which it was made."""
    unit = dice.choice(units)
    price = unit.get("price", 30_000)
    mileage = unit.get("mileage", 30_000)
    colour = unit["exterior_color"].split()[-1]
    blocks: list[dict[str, Any]] = [
        {"make": [unit["make"]]},
        {"make": [unit["make"].lower()], "model": [unit["model"]], "year_min": unit["year"] - dice.randrange(4)},
        {"price_min": price - dice.randrange(1, 4_000), "price_max": price + dice.randrange(9_000)},
        {"condition": ["used", "cpo"], "price_max": price + dice.randrange(9_000)},
        {
            "body": [unit["body"], dice.choice(units)["body"]],
            "driveline": [unit["driveline"].upper()],
            "mileage_max": mileage + dice.randrange(20_000),
        },
        {"fuel": [unit["fuel"]], "exterior_color": [colour], "year_min": unit["year"] - 3, "year_max": unit["year"]},
        {"transmission": [unit["transmission"]], "trim": [unit["trim"]], "price_max": price + 20_000},
        {"rooftops": [unit["rooftop"]], "interior_color": [unit["interior_color"]], "make": [unit["make"]]},
        {"electric_range_mi_min": dice.randrange(150, 300), "dc_fast_charge": True},
        {"vin": unit["vin"]},
        {"stock": unit["stock"]},
    ]
    weights = (12, 16, 14, 14, 10, 10, 8, 6, 6, 2, 2)
    return dice.choices(blocks, weights)[0]


def _sort(dice: random.Random) -> dict[str, Any]:
    """Two thirds of the buyers ask for an order, most of them by price."""
    if dice.random() < 1 / 3:
        return {}
    field = dice.choice(("price", "price", "mileage", "year", *get_args(SortField)))
    return {"sort": {"field": field, "order": dice.choice(("asc", "desc"))}}


def _search(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    page = {"pagination": {"skip": dice.choice((0, 0, 0, 20, 40)), "limit": 20}}
    privacy = {"privacy": {"anonymous": True}} if dice.random() < 0.5 else {}
    payload = {"filters": _filters(dice, units), **page, **_sort(dice), **privacy}
    return _ask("search", "inventory.search", number, payload)


def _browse(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    page = {"pagination": {"skip": dice.randrange(len(units)), "limit": 20}}
    return _ask("browse", "inventory.search", number, {**page, **_sort(dice)})


def _long_page(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    payload = {"filters": {"make": [dice.choice(units)["make"]]}, "pagination": {"limit": dice.randrange(50, 101)}}
    return _ask("long page", "inventory.search", number, {**payload, **_sort(dice)})


def _text(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    unit = dice.choice(units)
    query = dice.choice(
        (
            f"{unit['make']} {unit['model']}",
            f"{unit['condition']} {unit['driveline']} {unit['body']}",
            f"{unit['exterior_color']} {unit['make']}",
            f"{unit['year']} {unit['model']} {dice.choice(unit['features'])}",
        )
    )
    payload = {"filters": {"query": query}, "pagination": {"limit": 20}}
    return _ask("free text", "inventory.search", number, payload)


def _nothing(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    filters = {"make": [dice.choice(units)["make"]], "price_max": dice.randrange(1_000)}
    return _ask("nothing found", "inventory.search", number, {"filters": filters})


def _vehicle(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    member = dice.choices(("vin", "stock", "vehicle_id"), (16, 5, 4))[0]
    area = {"zip": f"{dice.randrange(10_000, 99_999)}"} if dice.random() < 0.5 else {}
    return _ask("vehicle", "inventory.vehicle", number, {member: dice.choice(units)[member], **area})


def _miss(dice: random.Random, _: Sequence[Unit], number: int) -> Ask:
    return _ask("miss", "inventory.vehicle", number, {"vin": f"5YJ3E1EA0PF{dice.randrange(10**6):06d}"}, 404)


def _facets(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    return _ask("facets", "inventory.facets", number, {"filters": _filters(dice, units)})


def _all_facets(_: random.Random, __: Sequence[Unit], number: int) -> Ask:
    return _ask("all facets", "inventory.facets", number, {})


def _information(_: random.Random, __: Sequence[Unit], number: int) -> Ask:
    return _ask("information", "dealer.information", number, {})


def _invalid(dice: random.Random, units: Sequence[Unit], number: int) -> Ask:
    skill = "inventory.search"
    payloads: list[dict[str, Any]] = [
        {"filters": {"colour": [dice.choice(units)["exterior_color"]]}},
        {"filters": {"price_max": "under 20000"}},
        {"filters": {"condition": ["old"]}},
        {"sort": {"field": "beauty", "order": "asc"}},
        {"pagination": {"limit": 0}},
    ]
    case = dice.randrange(len(payloads) + 2)
    if case < len(payloads):
        return _ask("invalid", skill, number, payloads[case], 422)
    good = _ask("invalid", skill, number, {"filters": _filters(dice, units)}).body
    if case == len(payloads):
        return Ask("invalid", skill, good[:-1], 422)
    return Ask("invalid", skill, good.replace(b'"ROLE_USER"', b'"user"'), 422)


KINDS: Mapping[str, Maker] = {
    "search": _search,
    "browse": _browse,
    "long page": _long_page,
    "free text": _text,
    "nothing found": _nothing,
    "vehicle": _vehicle,
    "miss": _miss,
    "facets": _facets,
    "all facets": _all_facets,
    "information": _information,
    "invalid": _invalid,
}

MIX = {
    "search": 34,
    "browse": 3,
    "long page": 3,
    "free text": 10,
    "nothing found": 2,
    "vehicle": 25,
    "miss": 4,
    "facets": 8,
    "all facets": 4,
    "information": 4,
    "invalid": 3,
}
"""The share of each kind, of a hundred requests."""

LOADS: Mapping[str, Mapping[str, int]] = {
    "mix": MIX,
    "inventory.search": {"search": 80, "free text": 20},
    "inventory.vehicle": {"vehicle": 100},
    "inventory.facets": {"facets": 100},
    "facets over everything": {"all facets": 100},
    "dealer.information": {"information": 100},
}
"""The loads by name: the mix, and each reading skill. lead.submit has its own benchmark."""
