"""Damage that was invented without knowledge of the checks: what a first import and a later one do with each.

A damage that is `unseen` is published, and nobody is told: docs/explanation/feed-checks.md lists those. One that is
`as meant` does no harm: the reader understands it.
"""

from functools import cache
from typing import Literal

import pytest
from tests.feeds.invented_damage import all_results, good_file
from tests.feeds.mutation_results import Result, result_of, stock_of

pytestmark = pytest.mark.outside_protocol("feeds")

Seen = Literal["refused", "held", "warned", "as meant", "unseen"]

EXPECTED: dict[str, tuple[Seen, Seen]] = {
    "a tenth of the prices in cents": ("held", "refused"),
    "payments per month as prices of new units": ("refused", "refused"),
    "payments per month of two units": ("held", "refused"),
    "lease texts as prices": ("refused", "refused"),
    "lease totals as prices": ("held", "refused"),
    "99999 where a price is to be asked": ("held", "held"),
    "1 where a price is to be asked": ("held", "refused"),
    "MSRP as the price of new units": ("unseen", "unseen"),
    "wholesale prices of used units": ("unseen", "warned"),
    "wholesale prices of three units": ("unseen", "unseen"),
    "Canadian dollars without a sign": ("unseen", "warned"),
    "Canadian dollars with CAD": ("refused", "refused"),
    "euros": ("refused", "refused"),
    "points as marks of thousands": ("as meant", "as meant"),
    "points as marks of thousands, two units": ("as meant", "as meant"),
    "all rebates taken off new units": ("unseen", "warned"),
    "down payments as prices": ("held", "refused"),
    "the last digit of a price lost": ("held", "refused"),
    "the first digit of a price lost": ("held", "refused"),
    "the price column sorted alone": ("held", "held"),
    "the price column one row lower": ("held", "refused"),
    "a price filled down": ("unseen", "warned"),
    "a price filled down as a series": ("warned", "warned"),
    "two prices in a cell": ("refused", "refused"),
    "two digits of one price swapped": ("unseen", "held"),
    "negative prices": ("held", "refused"),
    "the model year as price": ("held", "refused"),
    "the mileage as price": ("held", "held"),
    "kilometres in all rows": ("unseen", "warned"),
    "kilometres of three units": ("unseen", "warned"),
    "thousands of miles": ("refused", "refused"),
    "thousands of miles, three units": ("held", "held"),
    "no mileage entered yet: 1": ("held", "held"),
    "123456 miles in every new row": ("held", "held"),
    "tenths of miles": ("held", "held"),
    "price and mileage swapped": ("unseen", "refused"),
    "mileage and stock date one row lower": ("refused", "refused"),
    "a mileage filled down": ("held", "held"),
    "a code for sold that is new: SLD": ("as meant", "as meant"),
    "wholesale and auction units": ("as meant", "as meant"),
    "sold in French": ("held", "held"),
    "sold in the stock number": ("held", "held"),
    "sold in the model": ("held", "refused"),
    "sold in the description": ("held", "held"),
    "loaner units": ("held", "held"),
    "an employee's units": ("held", "held"),
    "a digit of a VIN wrong": ("unseen", "unseen"),
    "the last 8 of the VINs": ("refused", "refused"),
    "letters O and I in VINs": ("refused", "refused"),
    "placeholder VINs": ("held", "held"),
    "the VIN column one row lower": ("warned", "refused"),
    "VIN and stock number one row lower": ("warned", "refused"),
    "a row copied for another car": ("held", "held"),
    "one car at both rooftops": ("held", "held"),
    "a trade-in with a wrong year": ("unseen", "refused"),
    "make and model swapped": ("warned", "refused"),
    "the year of the stock date": ("held", "refused"),
    "a test unit": ("held", "held"),
    "the condition of all rows is new": ("refused", "refused"),
    "three used units as new": ("held", "refused"),
    "all used units certified": ("unseen", "warned"),
    "rows of a dealer of another group": ("warned", "warned"),
    "the file of another dealer": ("warned", "refused"),
    "all units at one rooftop": ("warned", "refused"),
    "the rooftops swapped": ("unseen", "warned"),
    "a file of three weeks ago": ("unseen", "unseen"),
    "only the rows that changed": ("unseen", "refused"),
    "only new units": ("unseen", "refused"),
    "yesterday's export below today's": ("refused", "refused"),
    "commas without quotes": ("refused", "refused"),
    "French words": ("refused", "refused"),
    "a placeholder photo": ("unseen", "refused"),
    "the first car's photos for all": ("warned", "warned"),
    "the logo as first photo": ("warned", "warned"),
    "photos one row lower": ("warned", "refused"),
    "photos on the vendor's own network": ("warned", "refused"),
    "descriptions one row lower": ("warned", "refused"),
    "a template with its marks": ("warned", "warned"),
    "UTF-8 read as Windows-1252 and written again": ("warned", "warned"),
    "escaped HTML": ("as meant", "as meant"),
    "a note for the staff": ("refused", "refused"),
    "another price in descriptions": ("unseen", "unseen"),
    "doors as trim": ("unseen", "warned"),
    "trims one row lower": ("unseen", "warned"),
    "litres per 100 km as MPG": ("warned", "warned"),
    "links to the home page": ("warned", "warned"),
    "links one row lower": ("warned", "refused"),
    "links of the vendor's test site": ("warned", "warned"),
    "colours swapped": ("unseen", "warned"),
    "stock dates of 1900": ("warned", "warned"),
    "stock dates of the export": ("unseen", "warned"),
    "all fuels are gas": ("unseen", "warned"),
}
"""The result of the first import, and of an import over the good stock."""


@cache
def results() -> dict[str, tuple[Result, Result]]:
    return {damage.name: (first, later) for damage, first, later in all_results()}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_invented_damage_has_the_result_that_is_known(name: str) -> None:
    found = [result.outcome for result in results()[name]]
    published = ("as meant", "unseen")
    assert found == ["harmless" if expected in published else expected for expected in EXPECTED[name]]


def test_at_least_sixty_kinds_of_damage_are_invented() -> None:
    assert results().keys() == EXPECTED.keys()
    assert len(EXPECTED) >= 60


def test_the_good_stock_passes_without_a_warning() -> None:
    with stock_of(good_file().data()) as store:
        assert result_of(store, good_file().data()) == Result("harmless", ())
