"""The all-in price once more, in fractions, straight from the tables of `dealer.toml` and the documentation.

It shares no code with the package: not the types of the settings, not the table of ZIP codes, not the rounding.
"""

import math
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

PLACES = {
    "84115": "UT", "84101": "UT", "84601": "UT", "89101": "NV", "89501": "NV", "37203": "TN", "06390": "NY",
    "06320": "CT", "83414": "WY", "83401": "ID", "96799": "AS", "96701": "HI", "00501": "NY", "97201": "OR",
}  # fmt: skip
"""ZIP codes with their states, written by hand."""
ROOFTOPS = {"North": "84115", "South": "89101", "East": "37203", "Nowhere": None}
KINDS = ("doc", "addon", "transport", "discount", "rebate", "title", "registration", "tax")
PAYEES = ("dealer", "government", "manufacturer", "third_party")


class Expected(NamedTuple):
    """Each line as label, kind, payee, cents and firm, and the total in cents."""

    lines: list[tuple[str, str, str, int, bool]]
    total: int
    missing: list[str]
    state: str | None


def cents(amount: Fraction) -> int:
    """Half a cent or more is a cent. The sign does not matter."""
    whole = math.floor(abs(amount) * 100 + Fraction(1, 2))
    return -whole if amount < 0 else whole


def expected(table: dict[str, Any], vehicle: dict[str, Any], zip_code: str | None) -> Expected:
    """What the price must be."""
    price, fees = vehicle["price"], vehicle["fees"] or []
    if sum(amount for _, amount in fees) >= price:
        fees = []
    rest = price - sum(amount for _, amount in fees)
    lines = [("Vehicle price", "vehicle_price", "dealer", rest * 100, True)]
    lines += [(name, "doc" if "Doc" in name else "addon", "dealer", amount * 100, True) for name, amount in fees]

    code = zip_code if zip_code is not None else ROOFTOPS[vehicle["rooftop"]]
    state = None if code is None else PLACES[code]
    held = []
    for rule in table["lines"]:
        states, zips = rule.get("states", []), rule.get("zips", [])
        here = not states and not zips
        here |= state is not None and state in states
        here |= code is not None and any(code.startswith(start) for start in zips)
        if here and (not rule.get("rooftops") or vehicle["rooftop"] in rule["rooftops"]):
            held.append(rule)

    def signed(rule: dict[str, Any], base: Fraction) -> int:
        size = Fraction(rule["amount"]) if "amount" in rule else Fraction(rule["rate"]) * base
        return cents(-size if rule["kind"] in ("discount", "rebate") else size)

    bases = {"price": Fraction(price), "vehicle_price": Fraction(rest), None: Fraction(0)}
    first = {id(rule): signed(rule, bases[rule.get("base")]) for rule in held if rule.get("base") != "taxable"}
    taxable = price * 100 + sum(first[id(rule)] for rule in held if rule.get("taxable"))
    bases["taxable"] = Fraction(max(0, taxable), 100)
    for rule in held:
        amount = first[id(rule)] if id(rule) in first else signed(rule, bases["taxable"])
        lines.append((rule["label"], rule["kind"], rule["payee"], amount, rule.get("firm", False)))
    kinds = {rule["kind"] for rule in held}
    missing = [kind for kind in ("tax", "title", "registration") if kind not in kinds]
    return Expected(lines, sum(line[3] for line in lines), missing, state)


def any_table(random: Random) -> dict[str, Any]:
    """A section `[pricing]`. Many of its amounts end exactly between two cents."""
    return {"lines": [_any_line(random, number) for number in range(random.choice((0, 1, 5, 12, 30)))]}


def _any_line(random: Random, number: int) -> dict[str, Any]:
    line: dict[str, Any] = {"label": f"Line {number}", "kind": random.choice(KINDS), "payee": random.choice(PAYEES)}
    if random.random() < 0.4:
        line["amount"] = random.choice(("0", "85", "85.5", "0.01", f"{random.randrange(10**7) / 100:.2f}"))
    else:
        digits = random.randrange(1, 9)
        ties = ("0.005", "0.015", "0.0725", "0.00005", "0.125", "0", "1")
        anything = f"0.{random.randrange(10**digits):0{digits}}"
        line["rate"] = random.choice(ties) if random.random() < 0.5 else anything
        line["base"] = random.choice(("vehicle_price", "price", "taxable"))
    if line.get("base") != "taxable" and random.random() < 0.5:
        line["taxable"] = True
    if random.random() < 0.3:
        line["firm"] = True
    if random.random() < 0.2:
        line["rooftops"] = random.sample(sorted(ROOFTOPS), random.randrange(1, 3))
    if random.random() < 0.3:
        line["states"] = random.sample(sorted(set(PLACES.values())), random.randrange(1, 4))
    if random.random() < 0.3:
        line["zips"] = [code[: random.choice((3, 5))] for code in random.sample(sorted(PLACES), random.randrange(1, 4))]
    return line


def any_vehicle(random: Random) -> dict[str, Any]:
    """The members of a vehicle that its price needs."""
    price = random.choice((0, 1, 99, 399, 28_001, random.randrange(200_000), 100_000_000))
    fees = [(random.choice(("Doc fee", "Tint")), random.randrange(700)) for _ in range(random.randrange(4))]
    rooftop = random.choice(sorted(ROOFTOPS))
    return {"price": price, "fees": random.choice((None, fees)), "rooftop": rooftop}


def any_zip(random: Random) -> str | None:
    """The ZIP code of a buyer, or none."""
    return random.choice((None, *PLACES))
