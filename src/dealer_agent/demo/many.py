"""Invents many dealers from the vehicles of the demo dealer. The same number gives the same dealers. Pure."""

import csv
import io
import random
import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from dealer_agent.demo import demo_inventory

MOST_DEALERS = 200

_FIRST = ("Amber", "Birch", "Cedar", "Clover", "Copper", "Fern", "Hazel", "Maple", "Sage", "Willow")
_SECOND = ("Bend", "Creek", "Crossing", "Falls", "Field", "Grove", "Hill", "Lake", "Ridge", "Valley")
_KINDS = ("Motors", "Auto Group")

_CITIES = (
    ("Boise", "ID", "83702", "America/Boise"),
    ("Omaha", "NE", "68102", "America/Chicago"),
    ("Tulsa", "OK", "74103", "America/Chicago"),
    ("Tucson", "AZ", "85701", "America/Phoenix"),
    ("Albany", "NY", "12207", "America/New_York"),
    ("Madison", "WI", "53703", "America/Chicago"),
    ("Spokane", "WA", "99201", "America/Los_Angeles"),
    ("Savannah", "GA", "31401", "America/New_York"),
    ("Dayton", "OH", "45402", "America/New_York"),
    ("Fresno", "CA", "93721", "America/Los_Angeles"),
)
_CITIES_OF_THE_DEMO = re.compile("Nashville|Knoxville")

_DEALER_TOML = """\
# An invented dealer. Nobody here is real.
id = "{id}"
name = "{name}"
welcome_message = "Welcome to {name} in {city}. The price you see includes all our fees."
feed_price = "advertised"

[[rooftops]]
name = "{name}"
timezone = "{zone}"
website = "https://www.example.com/{id}"
capabilities = ["sales", "service", "financing", "trade_in"]
fees = []

[rooftops.address]
address_line_1 = "{street} Example Street"
city = "{city}"
state = "{state}"
zip = "{zip}"

[rooftops.phones]
sales = "+1 202 555 01{phone:02}"

[rooftops.hours.sales]
monday = "09:00-19:00"
tuesday = "09:00-19:00"
wednesday = "09:00-19:00"
thursday = "09:00-19:00"
friday = "09:00-19:00"
saturday = "09:00-17:00"

[rooftops.visits.test_drive]
duration_minutes = 45

[[rooftops.deliver.directory]]
name = "folder"
path = "leads"

[service]
open = true
"""

_VIN_VALUES = dict(zip("0123456789ABCDEFGHJKLMNPRSTUVWXYZ", map(int, "012345678912345678123457923456789"), strict=True))
_VIN_WEIGHTS = (8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2)


class InventedDealer(NamedTuple):
    """A dealer: its id, its `dealer.toml`, and its inventory as a CSV file in UTF-8."""

    dealer_id: str
    dealer_toml: str
    inventory: bytes


def invented_dealers(count: int) -> Iterator[InventedDealer]:
    """The first `count` dealers, at most MOST_DEALERS, each with 40 to 160 vehicles."""
    reader = csv.DictReader(io.StringIO(demo_inventory().decode()))
    rows, columns = list(reader), list(reader.fieldnames or ())
    names = [" ".join(words) for words in product(_FIRST, _SECOND, _KINDS)]
    chance = random.Random(2026)  # noqa: S311 - the dealers must be the same each time.
    chance.shuffle(names)
    for number, name in enumerate(names[: min(count, MOST_DEALERS)]):
        city, state, code, zone = _CITIES[number % len(_CITIES)]
        dealer_id = name.lower().replace(" ", "-")
        place = {"city": city, "state": state, "zip": code, "zone": zone}
        text = _DEALER_TOML.format(id=dealer_id, name=name, street=100 + number, phone=number % 100, **place)
        chosen = chance.sample(rows, chance.randint(40, 160))
        file = io.StringIO(newline="")
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(_vehicle(row, number + 1, name, city) for row in chosen)
        yield InventedDealer(dealer_id, text, file.getvalue().encode())


def _vehicle(row: dict[str, str], number: int, dealer: str, city: str) -> dict[str, str]:
    """A vehicle of the demo dealer, with the VIN, stock number, rooftop and city of another dealer."""
    vin, stock = row["vin"], row["stock"]
    new_vin, new_stock = vin and _other_vin(vin, number), f"{stock}-{number}"
    found = {
        column: _CITIES_OF_THE_DEMO.sub(city, value.replace(vin, new_vin) if vin else value)
        for column, value in row.items()
    }
    found["vdp_url"] = row["vdp_url"].replace(stock.lower(), new_stock.lower())
    return found | {"stock": new_stock, "rooftop": dealer, "dealer_id": ""}


def _other_vin(vin: str, number: int) -> str:
    """The VIN with another serial number, and its check digit."""
    vin = f"{vin[:11]}{(int(vin[11:]) + 1013 * number) % 1_000_000:06}"
    rest = sum(_VIN_VALUES[sign] * weight for sign, weight in zip(vin, _VIN_WEIGHTS, strict=True)) % 11
    return f"{vin[:8]}{'X' if rest == 10 else rest}{vin[9:]}"
