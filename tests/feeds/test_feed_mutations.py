"""Damaged feeds are refused, or a person is warned (docs/reference/feeds.md#checks-of-a-feed)."""

from functools import cache

import pytest
from msgspec.structs import replace
from tests.feeds.feed_files import DELIMITED, JSON, feed_file, json_file, real_file
from tests.feeds.feed_mutations import DELIMITED_MUTATIONS, FIRST_MUTATIONS, JSON_MUTATIONS, Mutation, usual_next_day
from tests.feeds.implausible_feeds import EXPECTED
from tests.feeds.mutation_results import DEALER, PAGES, Result, Row, all_results, page, result_of, stock_of
from tests.published_files import VAUTO_EXPORT, needs
from tests.soak import SOAK

pytestmark = pytest.mark.outside_protocol("feeds")

NAMES = (
    [*EXPECTED]
    + [each.name for each in (*DELIMITED_MUTATIONS, *FIRST_MUTATIONS)]
    + [each.name for each in JSON_MUTATIONS]
)


@cache
def results() -> dict[str, Row]:
    """Each damage, in two of the delimited layouts and in those of JSON; in the long form in every layout."""
    return {row.name: row for row in all_results(every_layout=SOAK)}


def is_as(expected: str, result: Result) -> bool:
    """Harmless is only a damage that changes no unit of the same stock."""
    if expected == "told":
        return result.outcome in ("refused", "held", "warned")
    return result.outcome == expected and (expected != "harmless" or result.changes == 0)


def unexpected(row: Row) -> dict[str, Result]:
    """The results that are not those that the row expects."""
    return {layout: result for layout, result in row.results.items() if not is_as(row.expected, result)}


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_feed_is_refused_or_warned_about_or_imported_as_it_was_meant(name: str) -> None:
    assert unexpected(results()[name]) == {}


def test_more_than_fifty_ways_to_damage_a_feed_are_tried_in_all_layouts() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 70
    assert {layout for row in results().values() for layout in row.results} == {*DELIMITED, *JSON}


def test_the_documented_results_are_those_of_these_tests() -> None:
    reference, explanation = (path.read_text("utf-8") for path in PAGES)
    assert [page(text, None) for text in (reference, explanation)] == [reference, explanation]
    table = explanation.partition("<!-- mutations -->")[2].partition("<!-- end of mutations -->")[0]
    documented = dict(line[2:-2].split(" | ", 1) for line in table.strip().splitlines()[2:])
    assert documented.keys() == results().keys()
    for row in results().values():
        _, expected, outcomes, checks = documented[row.name].split(" | ")
        assert row.expected == expected, row.name
        assert {*row.outcomes} <= {*outcomes.split(" or ")}, row.name
        assert {*row.checks} <= {*checks.split(", ")}, row.name


@pytest.mark.soak
def test_every_layout_has_the_expected_and_documented_results() -> None:
    rows = list(all_results())
    assert {row.name: unexpected(row) for row in rows if unexpected(row)} == {}
    for path in PAGES:
        text = path.read_text("utf-8")
        assert page(text, rows) == text, "run .venv/bin/python -m tests.feeds.mutation_results"


@pytest.mark.parametrize("layout", DELIMITED)
def test_an_original_feed_and_a_usual_next_day_pass_without_a_warning(layout: str) -> None:
    file = feed_file(layout)
    with stock_of(file.data()) as store:
        assert result_of(store, file.data()) == Result("harmless", ())
        next_day = result_of(store, usual_next_day(file))
    # Two units are sold, two are new, and one price is another.
    assert next_day == Result("harmless", (), 5)


@pytest.mark.parametrize("layout", JSON)
def test_an_original_feed_of_json_passes_without_a_warning(layout: str) -> None:
    with stock_of(json_file(layout)) as store:
        assert result_of(store, json_file(layout)) == Result("harmless", ())


ONE_ROOFTOP = replace(DEALER, rooftops=DEALER.rooftops[:1])
NOT_OF_THIS_FILE = ("rooftop", "addresses of photos", "one byte of Windows-1252")
"""The real file has one rooftop, other addresses and no word with an accent."""
STEP = 1 if SOAK else 3
"""The real file has many rows: in a short run, it gets every third damage."""


@needs(VAUTO_EXPORT)
def test_a_real_feed_passes_and_is_refused_or_warned_about_when_it_is_damaged() -> None:
    original = VAUTO_EXPORT.read_bytes()
    file = real_file(original)

    def damaged(mutations: tuple[Mutation, ...]) -> list[Mutation]:
        return [each for each in mutations if not any(words in each.name for words in NOT_OF_THIS_FILE)]

    with stock_of(original, ONE_ROOFTOP) as store:
        assert result_of(store, original, ONE_ROOFTOP) == Result("harmless", ())
        few = damaged(DELIMITED_MUTATIONS)[::STEP]
        found = [(each, result_of(store, each.damage(file), ONE_ROOFTOP)) for each in few]
    with stock_of(None) as store:
        found += [(each, result_of(store, each.damage(file), ONE_ROOFTOP)) for each in damaged(FIRST_MUTATIONS)]
    assert [(each.name, result) for each, result in found if not is_as(each.expected, result)] == []
    assert len(found) > 70 / STEP
