"""Makes the demo's stock: the same units on every machine and every day. Pure.

The units are in the canonical JSON layout. New ones are of the makes that their rooftop holds a franchise for,
certified ones too, since a maker certifies only its own.
"""

import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from dealer_agent.demo import words
from dealer_agent.demo.cars import CARS
from dealer_agent.demo.electric import ELECTRIC
from dealer_agent.demo.lines import Line, Power
from dealer_agent.demo.motorcycles import MOTORCYCLES
from dealer_agent.demo.trucks import SUVS, TRUCKS
from dealer_agent.demo.vins import made_up_vin

FEED_TIME = datetime(2026, 11, 16, 11, 0, tzinfo=UTC)
"""When the demo's export was made; nothing in it is later."""

_FOUR_WHEELS = CARS + SUVS + TRUCKS + ELECTRIC
_NEWEST = 2027
_OLDEST_NEW = 2026


class _Lot(NamedTuple):
    """So many units of one kind at one rooftop."""

    rooftop: str
    dealer_id: str
    city: str
    condition: str
    size: int
    lines: tuple[Line, ...]
    fees: int


def _lots() -> tuple[_Lot, ...]:
    nashville = ("Juniper Hollow Nashville", "JH-NASH", "Nashville")
    knoxville = ("Juniper Hollow Knoxville & Cycles", "JH-KNOX", "Knoxville")
    west = tuple(line for line in _FOUR_WHEELS if line.make in ("Toyota", "Ford", "Hyundai"))
    east = tuple(line for line in _FOUR_WHEELS if line.make in ("Chevrolet", "Subaru"))
    cycles = tuple(line for line in MOTORCYCLES if line.make in ("Honda", "Yamaha", "Kawasaki"))
    return (
        _Lot(*nashville, "new", 88, west, 599),
        _Lot(*nashville, "cpo", 26, west, 599),
        _Lot(*nashville, "used", 72, _FOUR_WHEELS, 599),
        _Lot(*knoxville, "new", 56, east, 648),
        _Lot(*knoxville, "cpo", 18, east, 648),
        _Lot(*knoxville, "used", 50, _FOUR_WHEELS, 648),
        _Lot(*knoxville, "new", 26, cycles, 648),
        _Lot(*knoxville, "used", 18, MOTORCYCLES, 648),
    )


def demo_inventory() -> bytes:
    """354 units as a JSON array of listings in canonical members; the bytes never differ."""
    # Not for secrets: the same seed must make the same stock.
    dice = random.Random("juniper hollow")  # noqa: S311
    units: list[dict[str, Any]] = []
    for lot in _lots():
        years = {line: _years(line, lot.condition) for line in lot.lines}
        lines = [line for line in lot.lines if years[line]]
        order = dice.sample(lines, len(lines))
        for place in range(lot.size):
            line = order[place % len(order)]
            units.append(_unit(lot, line, dice.choice(years[line]), len(units) + 1, dice))
    dice.shuffle(units)
    return b"[\n" + b",\n".join(map(msgspec.json.encode, units)) + b"\n]\n"


def _years(line: Line, condition: str) -> list[int]:
    """The model years in which the line can stand on the lot in that condition."""
    first, last = {
        "new": (_OLDEST_NEW, _NEWEST),
        "cpo": (_NEWEST - 6, _OLDEST_NEW - 1),
        "used": (2017, _OLDEST_NEW - 1),
    }[condition]
    return list(range(max(first, line.first_year), min(last, line.last_year) + 1))


def _unit(lot: _Lot, line: Line, year: int, number: int, dice: random.Random) -> dict[str, Any]:
    trim, msrp_today = dice.choice(line.trims)
    power = dice.choice(line.powers)
    kind = "motorcycle" if line in MOTORCYCLES else "car"
    status = dice.choices(("available", "intransit", "pending"), (82, 13 if lot.condition == "new" else 0, 5))[0]
    vin = made_up_vin(line.wmi, year, 100_000 + number * 37 + dice.randrange(37), dice)
    stock = (
        {"new": "N", "cpo": "C", "used": "U"}[lot.condition]
        + ("M" if kind == "motorcycle" else "")
        + f"{26000 + number}"
    )
    mileage = _mileage(lot.condition, kind, status, year, dice)
    exterior = dice.choice(words.PAINTS.get(line.make, words.PLAIN_PAINTS))
    features = _features(line, power, kind, msrp_today, dice)
    unit: dict[str, Any] = {
        "vin": vin,
        "stock": stock,
        "rooftop": lot.rooftop,
        "dealer_id": lot.dealer_id,
        "status": status,
        "vehicle_type": kind,
        "year": year,
        "make": line.make,
        "model": line.model,
        "trim": trim,
        "condition": lot.condition,
        **_prices(lot, msrp_today, year, mileage, kind, power, dice),
        "mileage": mileage,
        "body": line.body,
        **_powertrain(power, dice),
        "exterior_color": exterior,
        "interior_color": None if kind == "motorcycle" else dice.choice(words.INTERIORS),
        "features": features,
        "photos": _photos(vin, lot.condition, status, dice),
        "vdp_url": _vdp_url(lot.condition, year, line, stock),
        **_dates(lot.condition, status, dice),
    }
    unit["description"] = _description(unit, lot.city, dice)
    if status == "pending":
        unit["notes"] = "A buyer has left a deposit; ask us to call you if the sale falls through."
    return {member: value for member, value in unit.items() if value is not None}


def _mileage(condition: str, kind: str, status: str, year: int, dice: random.Random) -> int:
    if condition == "new":
        return dice.randint(0, 5) if status == "intransit" else dice.randint(2, 60)
    years = _OLDEST_NEW + 0.9 - year
    yearly = dice.randint(1_200, 4_200) if kind == "motorcycle" else dice.randint(6_500, 14_500)
    driven = int(years * yearly) + dice.randint(0, 900)
    # Makers do not certify a car beyond this.
    return min(driven, dice.randint(45_000, 59_900)) if condition == "cpo" else driven


def _prices(
    lot: _Lot, msrp_today: int, year: int, mileage: int, kind: str, power: Power, dice: random.Random
) -> dict[str, int | None]:
    """`price` holds the rooftop's fees. Some units say no price: the dealer wants a call."""
    options = dice.randrange(0, 2_400 if kind == "car" else 600, 5)
    if lot.condition == "new":
        msrp = msrp_today + options
        price = round(msrp * dice.uniform(0.93, 1.0)) + lot.fees
        asked = None
    else:
        age = _OLDEST_NEW + 0.9 - year
        worth = 0.92 * (0.86 if power.fuel == "bev" else 0.92) ** age
        hard_driven = mileage - age * (2_700 if kind == "motorcycle" else 10_500)
        value = msrp_today * worth - 0.05 * hard_driven
        price = max(1_995, round(value / 100) * 100 - 5) + (800 if lot.condition == "cpo" else 0) + lot.fees
        msrp = None
        asked = price + dice.randrange(300, 1_800, 100) if dice.random() < 0.4 else None
    if dice.random() < 0.05:
        return {"price": None, "list_price": None, "msrp": msrp}
    return {"price": price, "list_price": asked, "msrp": msrp}


def _powertrain(power: Power, dice: random.Random) -> dict[str, Any]:
    members = power._asdict()
    drivelines = members.pop("drivelines")
    return members | {"driveline": dice.choice(drivelines) if drivelines else None}


def _features(line: Line, power: Power, kind: str, msrp_today: int, dice: random.Random) -> list[str]:
    if kind == "motorcycle":
        known = words.SCOOTER_FEATURES if line.body == "scooter" else words.CYCLE_FEATURES
        return sorted(dice.sample(known, dice.randint(4, 7)))
    chosen = dice.sample(words.CAR_FEATURES, dice.randint(8, 13))
    if msrp_today > 38_000 and line.body != "van":
        chosen += dice.sample(words.LUXURY_FEATURES, dice.randint(3, 7))
    if line.body == "truck":
        chosen += dice.sample(words.TRUCK_FEATURES, dice.randint(3, 6))
    if line.seats > 5:
        chosen += dice.sample(words.FAMILY_FEATURES, dice.randint(1, 3))
    if power.fuel == "bev":
        chosen += dice.sample(words.ELECTRIC_FEATURES, dice.randint(2, 4))
    return sorted(chosen)


def _photos(vin: str, condition: str, status: str, dice: random.Random) -> list[str] | None:
    if status == "intransit":
        return None
    count = dice.randint(6, 16) if condition == "new" else dice.randint(12, 28)
    return [f"https://images.example.com/{vin}/{place:02}.jpg" for place in range(1, count + 1)]


def _vdp_url(condition: str, year: int, line: Line, stock: str) -> str:
    words_of_path = f"{condition} {year} {line.make} {line.model} {stock}".lower()
    slug = "-".join("".join(letter if letter.isalnum() else " " for letter in words_of_path).split())
    return f"https://www.example.com/inventory/{slug}"


def _dates(condition: str, status: str, dice: random.Random) -> dict[str, str | None]:
    """What is still on its way has no day on the lot."""
    days = dice.randint(1, 110 if condition == "new" else 75)
    told = FEED_TIME - timedelta(minutes=dice.randint(0, min(days, 12) * 1440))
    arrived = None if status == "intransit" else (FEED_TIME - timedelta(days=days)).date().isoformat()
    return {"inventory_date": arrived, "updated_at": told.isoformat().replace("+00:00", "Z")}


def _description(unit: dict[str, Any], city: str, dice: random.Random) -> str:
    """Two to four sentences."""
    first, second = dice.sample(unit["features"], 2)
    told = {
        "year": unit["year"],
        "make": unit["make"],
        "model": unit["model"],
        "trim": unit["trim"],
        "color": unit["exterior_color"],
        "mileage": f"{unit['mileage']:,}",
        "engine": unit["engine"],
        "range": unit["electric_range_mi"],
        "battery": unit["battery_kwh"],
        "mpg": unit["city_mpg"],
        "city": city,
        "first": first,
        "second": second,
    }
    sentences = [dice.choice(words.OPENINGS[unit["condition"]]), dice.choice(words.POWER_SENTENCES[unit["fuel"]])]
    if dice.random() < 0.7:
        sentences.append(dice.choice(words.FEATURE_SENTENCES))
    if unit["status"] == "intransit":
        sentences.append(dice.choice(words.TRANSIT_SENTENCES))
    elif dice.random() < 0.7:
        sentences.append(dice.choice(words.CLOSINGS if unit["condition"] == "new" else words.USED_CLOSINGS))
    return " ".join(sentence.format(**told) for sentence in sentences)
