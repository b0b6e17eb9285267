"""The all-in price is that of a second calculation, which uses fractions (docs/how-to/all-in-price.md)."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from msgspec.structs import replace
from tests.offers import oracle
from tests.offers.schedules import rooftop, vehicle
from tests.soak import soak_count, soak_seed

from dealer_agent.dealers.profile import RooftopAddress
from dealer_agent.offers.pricing import all_in_price, price_document
from dealer_agent.offers.pricing_settings import PricingSettings

pytestmark = pytest.mark.outside_protocol("the all-in price")


def differences(cases: int, seed: int) -> tuple[list[str], int]:
    """The differences to the oracle, and how many lines were compared."""
    random, found, lines = Random(seed), [], 0
    for case in range(cases):
        table, described, zip_code = oracle.any_table(random), oracle.any_vehicle(random), oracle.any_zip(random)
        expected = oracle.expected(table, described, zip_code)
        code = oracle.ROOFTOPS[described["rooftop"]]
        address = None if code is None else RooftopAddress("1 Example Way", "A", oracle.PLACES[code], code)
        one = replace(vehicle(described["price"], described["fees"]), rooftop=described["rooftop"])
        settings = msgspec.convert(table, PricingSettings)
        price = all_in_price(one, rooftop(described["rooftop"], address), zip_code, settings)
        got = oracle.Expected(
            [(each.label, each.kind, each.payee, int(each.amount * 100), each.firm) for each in price.lines],
            int(price.total * 100),
            list(price.missing),
            price.jurisdiction.state,
        )
        lines += len(got.lines)
        exact = all(each.amount.as_tuple().exponent == -2 for each in price.lines)
        document = price_document(price)
        written = [round(each["amount"] * 100) for each in document["lines"]]
        sums = sum(written) == round(document["total"] * 100) == sum(each[3] for each in got.lines)
        if got != expected or not exact or not sums or price.complete == bool(price.missing):
            found.append(f"case {case} of seed {seed}: {got} instead of {expected}")
    return found, lines


def test_random_prices_are_those_of_fractions(record_property: Callable[[str, object], None]) -> None:
    cases, seed = soak_count("SOAK_PRICES", 2_000), soak_seed()
    found, lines = differences(cases, seed)
    assert found == []
    record_property(
        "figure", f"all-in prices: {cases:,} random prices with {lines:,} lines, no difference to fractions"
    )


@pytest.mark.soak
def test_100_000_random_prices_are_those_of_fractions(record_property: Callable[[str, object], None]) -> None:
    found, lines = differences(100_000, soak_seed() + 1)
    assert found == []
    record_property("figure", f"all-in prices: 100,000 random prices with {lines:,} lines, no difference to fractions")
