"""Damage that was invented without knowledge of the checks: what a first import and a later one do with each."""

from functools import cache

import pytest
from tests.feeds.invented_damage import EXPECTED, all_results, good_file
from tests.feeds.mutation_results import Result, result_of, stock_of

pytestmark = pytest.mark.outside_protocol("feeds")


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
