"""The all-in price of a vehicle: its advertised price in lines, then taxes and charges (docs/how-to/all-in-price.md).

Pure. Money is decimal: each line is rounded half up to two decimals, and a total is exactly the sum of its lines.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from typing import Any, Literal

from msgspec import UNSET, Struct

from dealer_agent.correctable import CorrectableError
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.offers.pricing_settings import LONGEST_LABEL, SUBTRACTED, Base, LineRule, PricingSettings, RuleKind
from dealer_agent.offers.us_places import UsLocation, place_of, place_of_address
from dealer_agent.protocol.offers import LineKind, Payee
from dealer_agent.protocol.vehicle import Vehicle

MOST_PRICE = 100_000_000
"""The most of a price that is shown in lines. So every total is less than 2**53 cents."""
GOVERNMENT_KINDS: tuple[RuleKind, ...] = ("tax", "title", "registration")
"""The kinds without which a total is not complete."""

_EXACT = Context(prec=40, rounding=ROUND_HALF_UP)
"""More digits than any amount times a rate. The context of the thread, which other code may change, is not used."""
_CENT = Decimal("0.01")
_ZERO = Decimal("0.00")
_VEHICLE = "Vehicle price"
_FEE_KINDS: tuple[tuple[str, RuleKind], ...] = (
    (r"\bdoc", "doc"),
    (r"\b(transport|freight|destination|deliver|shipping)", "transport"),
)


class NoPriceError(CorrectableError):
    """A vehicle has no advertised price, so it has no all-in price either."""


class WrongZipError(CorrectableError):
    """A ZIP code is not one of the United States."""


class ExactLine(Struct, frozen=True):
    """A line of a price. `amount` has two decimals, and is negative if it is subtracted.

    The dealer keeps a `firm` amount. The others are estimates.
    """

    label: str
    kind: LineKind
    payee: Payee
    amount: Decimal
    firm: bool = False
    legal_basis: str | None = None


class LineJurisdiction(Struct, frozen=True):
    """The place whose lines apply: that of the buyer's ZIP code, else that of the rooftop. None means unknown."""

    of: Literal["buyer", "rooftop"]
    state: str | None = None
    zip_code: str | None = None


class AllInPrice(Struct, frozen=True):
    """What a buyer pays in all. `price` is the firm, advertised price, and `total` the sum of all lines.

    `complete`: the total has tax, title and registration. `missing` names those that it does not have.
    """

    lines: tuple[ExactLine, ...]
    price: Decimal
    total: Decimal
    complete: bool
    missing: tuple[RuleKind, ...]
    jurisdiction: LineJurisdiction
    currency: str


def all_in_price(
    vehicle: Vehicle, rooftop: DealerRooftop, zip_code: str | None, pricing: PricingSettings
) -> AllInPrice:
    """The all-in price of a vehicle at its rooftop, for a buyer with a ZIP code, else at the rooftop's place.

    Raises NoPriceError for a vehicle without a price, and WrongZipError.
    """
    price, advertised = _advertised(vehicle)
    vehicle_line = advertised[0]
    jurisdiction = _jurisdiction(rooftop, zip_code)
    rules = pricing.lines_at(rooftop.name, UsLocation(jurisdiction.state, jurisdiction.zip_code))
    added = _added(rules, vehicle_line.amount, price)
    missing = tuple(kind for kind in GOVERNMENT_KINDS if all(rule.kind != kind for rule in rules))
    return AllInPrice(
        lines=(*advertised, *added),
        price=price,
        total=reduce(_EXACT.add, (line.amount for line in added), price),
        complete=not missing,
        missing=missing,
        jurisdiction=jurisdiction,
        currency=pricing.currency,
    )


def price_to_show(
    profile: Profile, pricing: PricingSettings, vehicle: Vehicle, zip_code: str | None = None
) -> AllInPrice | None:
    """The all-in price that pages and tools show. None if the dealer has no lines, or the vehicle no price.

    Raises WrongZipError.
    """
    if not pricing.lines:
        return None
    try:
        return all_in_price(vehicle, rooftop_of(profile, vehicle), zip_code, pricing)
    except NoPriceError:
        return None


def rooftop_of(profile: Profile, vehicle: Vehicle) -> DealerRooftop:
    """The rooftop of a listing. Without a known one, it is the first, as in `inventory.listing`."""
    return next((each for each in profile.rooftops if each.name == vehicle.rooftop), profile.rooftops[0])


def place_of_rooftop(rooftop: DealerRooftop) -> UsLocation:
    """The place of a rooftop: unknown without an address in the United States."""
    address = rooftop.address
    return place_of_address(address.state, address.zip, address.country) if address else UsLocation()


def json_number(amount: Decimal) -> int | float:
    """An amount as JSON has it, in the unit of `price`: whole amounts without a point, as in listings.

    Every amount of an all-in price is less than 2**53 cents, so its binary fraction is written with the same digits.
    """
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def price_document(price: AllInPrice) -> dict[str, Any]:
    """The all-in price as JSON has it. A member without a value is left out."""
    place = price.jurisdiction
    return {
        "lines": [
            _present(
                label=line.label,
                kind=line.kind,
                payee=line.payee,
                amount=json_number(line.amount),
                firm=line.firm,
                legal_basis=line.legal_basis,
            )
            for line in price.lines
        ],
        "price": json_number(price.price),
        "total": json_number(price.total),
        "complete": price.complete,
        "missing": list(price.missing),
        "jurisdiction": _present(of=place.of, state=place.state, zip=place.zip_code),
        "currency": price.currency,
    }


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _jurisdiction(rooftop: DealerRooftop, zip_code: str | None) -> LineJurisdiction:
    if zip_code is None:
        return LineJurisdiction("rooftop", *place_of_rooftop(rooftop))
    try:
        return LineJurisdiction("buyer", *place_of(zip_code))
    except ValueError as error:
        raise WrongZipError(str(error)) from None


def _advertised(vehicle: Vehicle) -> tuple[Decimal, list[ExactLine]]:
    """The advertised price, and its lines: the vehicle, then the mandatory fees that are inside the price.

    The vehicle's line is the rest of the price, which is the list price if the feed has prices before fees. Fees that
    are not less than the price cannot be inside it: then the price is one line.
    """
    if vehicle.price is UNSET:
        raise NoPriceError("This vehicle has no advertised price, so it has no all-in price.")
    if vehicle.price > MOST_PRICE:
        raise NoPriceError(f"The price of this vehicle is more than {MOST_PRICE:,}, so it has no all-in price.")
    fees = vehicle.fees or ()
    rest = vehicle.price - sum(fee.amount for fee in fees)
    if rest <= 0:
        fees, rest = (), vehicle.price
    lines = [ExactLine(_VEHICLE, "vehicle_price", "dealer", _whole(rest), firm=True)]
    lines += [
        ExactLine(fee.name[:LONGEST_LABEL], _kind_of_fee(fee.name), "dealer", _whole(fee.amount), firm=True)
        for fee in fees
    ]
    return _whole(vehicle.price), lines


def _whole(amount: int) -> Decimal:
    return _EXACT.quantize(Decimal(amount), _CENT)


def _kind_of_fee(name: str) -> RuleKind:
    """The kind of a mandatory fee, which the protocol does not have, by the words of its name."""
    return next((kind for pattern, kind in _FEE_KINDS if re.search(pattern, name, re.IGNORECASE)), "addon")


def _added(rules: Sequence[LineRule], vehicle_price: Decimal, price: Decimal) -> list[ExactLine]:
    """The lines of the rules, in their order. A rate of the taxable lines needs the amounts of all others."""
    bases: dict[Base, Decimal] = {"vehicle_price": vehicle_price, "price": price}
    amounts = {number: _amount(rule, bases) for number, rule in enumerate(rules) if rule.base != "taxable"}
    taxable = reduce(_EXACT.add, (amount for number, amount in amounts.items() if rules[number].taxable), price)
    # Discounts above the price do not make taxes negative.
    bases["taxable"] = max(taxable, _ZERO)
    return list(_lines(rules, amounts, bases))


def _lines(rules: Sequence[LineRule], amounts: dict[int, Decimal], bases: dict[Base, Decimal]) -> Iterator[ExactLine]:
    for number, rule in enumerate(rules):
        amount = amounts[number] if number in amounts else _amount(rule, bases)
        yield ExactLine(rule.label, rule.kind, rule.payee, amount, rule.firm, rule.legal_basis or None)


def _amount(rule: LineRule, bases: dict[Base, Decimal]) -> Decimal:
    """The amount of a line, rounded half up to two decimals. That of a discount or rebate is negative."""
    if rule.rate is not UNSET and rule.base is not UNSET:
        exact = _EXACT.multiply(bases[rule.base], rule.rate)
    else:
        assert rule.amount is not UNSET, "the settings are checked before"
        exact = rule.amount
    rounded = _EXACT.quantize(exact, _CENT)
    return rounded.copy_negate() if rule.kind in SUBTRACTED and rounded else rounded
