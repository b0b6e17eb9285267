"""The stock of the conforming dealer: some vehicles of the demo dealer. Pure."""

import csv
import io
from functools import cache

from dealer_agent.demo import demo_inventory

STOCK_SIZE = 60
VARIED = ("vehicle_type", "body", "fuel", "condition", "transmission", "driveline", "charge_port", "rooftop", "status")


@cache
def small_stock() -> bytes:
    """A feed with some vehicles of the demo dealer: all values of the members in VARIED, two without a price, and two
    without mileage and type. It takes a few pages instead of many.
    """
    rows = list(csv.DictReader(io.StringIO(demo_inventory().decode())))
    chosen: dict[str, dict[str, str]] = {}
    seen: set[tuple[str, str]] = set()
    for row in rows:
        fresh = {(name, row[name]) for name in VARIED} - seen
        if fresh:
            chosen[row["stock"]] = row
            seen |= fresh
    for row in rows:
        if len(chosen) < STOCK_SIZE:
            chosen.setdefault(row["stock"], row)
    for row in list(chosen.values())[:2]:
        row["price"] = row["list_price"] = ""
    for row in list(chosen.values())[2:4]:
        row["mileage"] = row["vehicle_type"] = ""
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows(chosen.values())
    return text.getvalue().encode()
