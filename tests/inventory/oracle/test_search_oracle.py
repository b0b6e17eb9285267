"""The catalogue against the oracle: equal for random stocks, filters, sorts and pages (docs/protocol.md).

A case is one stock, filter block, sort and page, for which the page, the total and the facets are compared.
`SOAK_CASES` in the environment asks for more than the 300 of every run.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.inventory.oracle import worlds
from tests.inventory.oracle.oracle import (
    FilterBlock,
    Listing,
    in_default_order,
    must_precede,
    oracle_facets,
    oracle_find,
    oracle_search,
    split_words,
)
from tests.soak import examples, soak_count

from dealer_agent.inventory.catalogue import Catalogue, RemovedUnit, sort_orders
from dealer_agent.inventory.catalogue import Listing as CatalogueListing
from dealer_agent.inventory.catalogue import filters as filters_module
from dealer_agent.protocol.requests import Filters, Sort
from dealer_agent.protocol.vehicle import Vehicle

pytestmark = pytest.mark.requirement("whole-values", "ranges-inclusive", "total-order", "facets-matching-set")

CASES = max(300, soak_count("SOAK_CASES", 0))
CASES_A_STOCK = 20

# Stocks are large on purpose, and an example is many cases.
_LARGE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def _catalogue(listings: Sequence[Listing], gone: Sequence[Listing] = ()) -> Catalogue:
    return Catalogue.build(
        [CatalogueListing.of(Vehicle(**listing)) for listing in listings], [RemovedUnit(**unit) for unit in gone]
    )


def _search(
    catalogue: Catalogue, filters: FilterBlock, skip: int, limit: int, sort: tuple[str, str] | None
) -> tuple[int, list[str]]:
    page = catalogue.search(
        msgspec.convert(filters, Filters),
        skip,
        limit,
        UNSET if sort is None else msgspec.convert({"field": sort[0], "order": sort[1]}, Sort),
    )
    return page.total, [msgspec.json.decode(listing)["vehicle_id"] for listing in page.listings]


def _check_best_first(listings: Sequence[Listing], ids: Sequence[str], query: str) -> None:
    """Without `sort`, the best match of a query comes first."""
    by_id = {listing["vehicle_id"]: listing for listing in listings}
    for place, first in enumerate(ids):
        for second in ids[place + 1 :]:
            assert not must_precede(by_id[second], by_id[first], query), (second, first, query)


def _compare(
    catalogue: Catalogue,
    listings: Sequence[Listing],
    filters: FilterBlock,
    sort: tuple[str, str] | None,
    skip: int,
    limit: int,
) -> int:
    """Checks page, total and facets of one case against the oracle. Returns the total."""
    total, expected = oracle_search(listings, filters, skip, limit, sort)
    if sort is None and filters.get("query"):
        whole_total, whole = _search(catalogue, filters, 0, len(listings) + 1, None)
        assert whole_total == total
        assert sorted(whole) == sorted(oracle_search(listings, filters, 0, total, None)[1])
        _check_best_first(listings, whole, filters["query"])
        expected = whole[skip : skip + limit]
    assert _search(catalogue, filters, skip, limit, sort) == (total, expected)
    facets = msgspec.to_builtins(catalogue.facets(msgspec.convert(filters, Filters)))
    assert facets == oracle_facets(listings, filters)
    return total


EACH = worlds.one_of_each()


@pytest.fixture(scope="module")
def catalogue_of_each() -> Catalogue:
    return _catalogue(EACH)


@pytest.mark.parametrize("member", worlds.FILTERS)
def test_each_filter_finds_what_the_oracle_finds(catalogue_of_each: Catalogue, member: str) -> None:
    """Each row of the table of filters (docs/protocol.md#filters)."""
    wanted = [[value] for value in worlds.WANTED_WORDS.get(member, [])] or worlds.WANTED_VALUES[member]
    totals = {_compare(catalogue_of_each, EACH, {member: value}, None, 0, len(EACH)) for value in wanted}
    assert any(0 < total < len(EACH) for total in totals)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("field", worlds.SORT_FIELDS)
def test_each_sort_has_the_order_of_the_oracle(catalogue_of_each: Catalogue, field: str, order: str) -> None:
    """Each field of docs/protocol.md#sort-fields."""
    blocks: list[FilterBlock] = [{}, {"condition": []}, {"query": "zorvex"}, {"vehicle_type": ["car"]}]
    for filters in blocks:
        _compare(catalogue_of_each, EACH, filters, (field, order), 0, len(EACH))


def test_search_and_facets_answer_as_the_oracle_does() -> None:
    """All filters, sorts and pages."""
    _compare_random_cases(CASES)


def test_a_stock_that_is_read_in_pieces_answers_as_the_oracle_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces of 3 units, a stock of 40 uses the code for stocks above 16,384 units."""
    monkeypatch.setattr(sort_orders, "_PIECE", 3)
    _compare_random_cases(CASES // 4)


@pytest.mark.parametrize("few", [0, 2, 24])
def test_a_search_by_index_answers_as_the_oracle_does(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """With 0, the index is always used, else only if it finds less than a half or a few."""
    monkeypatch.setattr(sort_orders, "_PIECE", 3)
    monkeypatch.setattr(filters_module, "_MANY_ROWS", 3)
    monkeypatch.setattr(filters_module, "_FEW", few)
    _compare_random_cases(CASES // 4)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_the_pages_of_a_query_in_a_large_stock_follow_one_another(
    catalogue_of_each: Catalogue, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Pages neither repeat nor drop a unit if many matches have the same score."""
    for query in worlds.WORDS:
        total, whole = _search(catalogue_of_each, {"query": query}, 0, len(EACH), None)
        monkeypatch.setattr(sort_orders, "_PIECE", 3)
        walked = [_search(catalogue_of_each, {"query": query}, skip, limit, None)[1] for skip in range(0, total, limit)]
        monkeypatch.undo()
        assert [one for page in walked for one in page] == whole


def _compare_random_cases(cases: int) -> None:
    compared = parted = 0

    @settings(max_examples=-(-cases // CASES_A_STOCK), deadline=None, suppress_health_check=_LARGE)
    @given(worlds.stocks(), worlds.gone_units(), worlds.questions(CASES_A_STOCK))
    def compare(
        listings: list[Listing],
        gone: list[Listing],
        asked: list[tuple[FilterBlock, tuple[str, str] | None, tuple[int, int]]],
    ) -> None:
        nonlocal compared, parted
        catalogue = _catalogue(listings, gone)
        for filters, sort, (skip, limit) in asked:
            total = _compare(catalogue, listings, filters, sort, skip, limit)
            compared += 1
            parted += 0 < total < len(listings)

    # What finds nothing or everything shows little: so it goes on until enough cases have parted the stock.
    for _ in range(10):
        compare()
        if parted >= cases // 10:
            break
    assert compared >= cases
    assert parted >= cases // 10


@settings(max_examples=examples(60), deadline=None, suppress_health_check=_LARGE)
@given(worlds.stocks(most=25), worlds.filter_blocks(), worlds.sorts(), st.integers(1, 7))
def test_the_pages_together_are_the_matching_set_without_repeats(
    listings: list[Listing], filters: FilterBlock, sort: tuple[str, str] | None, limit: int
) -> None:
    """Every order is total, so pages neither repeat nor drop a unit."""
    catalogue = _catalogue(listings)
    total, matching = oracle_search(listings, filters, 0, len(listings), sort)
    walked: list[str] = []
    for skip in range(0, total + limit, limit):
        walked += _search(catalogue, filters, skip, limit, sort)[1]
    assert sorted(walked) == sorted(matching)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=_LARGE)
@given(worlds.stocks(most=25), worlds.filter_blocks(), worlds.sorts(), st.randoms())
def test_the_order_of_a_feed_changes_no_answer(
    listings: list[Listing], filters: FilterBlock, sort: tuple[str, str] | None, random: Any
) -> None:
    """Every order is total."""
    shuffled = random.sample(listings, len(listings))
    assert _search(_catalogue(listings), filters, 0, 100, sort) == _search(_catalogue(shuffled), filters, 0, 100, sort)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=_LARGE)
@given(worlds.stocks(most=12), worlds.gone_units(), st.data())
def test_a_unit_is_found_by_the_first_identifier_that_matches(
    listings: list[Listing], gone: list[Listing], data: st.DataObject
) -> None:
    """Removed units are remembered, and never in search or facets."""
    catalogue = _catalogue(listings, gone)
    ids = [unit["vehicle_id"] for unit in [*listings, *gone]]
    for _ in range(5):
        identifiers = data.draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "vin": st.sampled_from([*worlds.VINS, "1ftew1ep0lfa00009", ""]),
                    "stock": st.sampled_from([*worlds.STOCKS, "P10", ""]),
                    "vehicle_id": st.sampled_from([*ids, "vin-none", ""]),
                },
            )
        )
        found = catalogue.find(**identifiers)
        state, expected = oracle_find(listings, gone, identifiers)
        if found is None:
            assert state == "unknown"
        elif isinstance(found, RemovedUnit):
            assert state == "gone"
            assert found.vehicle_id in expected
        else:
            assert state == "listed"
            assert {found.vehicle.vehicle_id} == expected


INVENTED = ["zorvex", "zorvexia", "quillan", "Quíllan", "brambolt", "bram", "tazzle", "ostrava"]
TEXT_SEARCHED = (
    "make", "model", "trim", "body", "fuel", "driveline", "transmission", "engine", "exterior_color", "interior_color",
    "description", "stock", "vin",
)  # fmt: skip
NOT_SEARCHED = ("notes", "vdp_url", "charge_port", "dealer_id")


@st.composite
def _invented_stock(draw: st.DrawFn) -> list[Listing]:
    """Units with unknown words in searched members and in other members."""
    words = st.sampled_from(INVENTED)
    between = st.sampled_from([" ", ", ", "/", " - "])
    text = words | st.builds("{}{}{}".format, words, between, words)
    units: list[Listing] = []
    for number in range(draw(st.integers(1, 8))):
        members: dict[str, Any] = draw(
            st.dictionaries(st.sampled_from([*TEXT_SEARCHED, *NOT_SEARCHED]), text, max_size=4)
        )
        if draw(st.booleans()):
            members["features"] = tuple(draw(st.lists(text, max_size=2)))
        units.append(
            {
                "vehicle_id": f"vin-{number}",
                "status": "available",
                "rooftop": "zorvex",
                "updated_at": worlds.MOMENTS[0],
                "changed_at": draw(st.sampled_from(worlds.MOMENTS)),
                **members,
            }
        )
    return units


@settings(max_examples=examples(150), deadline=None, suppress_health_check=_LARGE)
@given(_invented_stock(), st.lists(st.sampled_from([*INVENTED, "zor", "QUIL", "rambolt", "a", "the"]), min_size=1))
def test_each_word_of_a_query_is_found_as_a_word_or_prefix_in_searched_members(
    listings: list[Listing], query: list[str]
) -> None:
    """The words are in no vocabulary, so this test does not depend on it."""
    wanted = [split_words(word)[0] for word in query if word not in ("a", "the")]
    expected = []
    for listing in listings:
        texts = [listing[member] for member in TEXT_SEARCHED if member in listing]
        there = [word for text in [*texts, *listing.get("features", ())] for word in split_words(text)]
        if all(any(word.startswith(start) for word in there) for start in wanted):
            expected.append(listing["vehicle_id"])
    assert sorted(_search(_catalogue(listings), {"query": " ".join(query)[:200]}, 0, 100, None)[1]) == expected


NAMED = ("make", "model", "trim")


@settings(max_examples=examples(100), deadline=None, suppress_health_check=_LARGE)
@given(_invented_stock(), st.sampled_from(INVENTED))
def test_a_name_ranks_above_prose(listings: list[Listing], word: str) -> None:
    """Make, model and trim weigh more than prose."""
    (wanted,) = split_words(word)

    def named(listing: Listing) -> bool:
        return any(one.startswith(wanted) for member in NAMED for one in split_words(listing.get(member, "")))

    def told(listing: Listing) -> bool:
        others = [member for member in TEXT_SEARCHED if member != "description"]
        return not any(one.startswith(wanted) for member in others for one in split_words(listing.get(member, "")))

    by_id = {listing["vehicle_id"]: listing for listing in listings}
    _, found = _search(_catalogue(listings), {"query": word}, 0, 100, None)
    last_named = max((place for place, one in enumerate(found) if named(by_id[one])), default=-1)
    first_told = min((place for place, one in enumerate(found) if told(by_id[one])), default=len(found))
    assert last_named < first_told


def test_equal_times_in_two_zones_are_ties() -> None:
    """Ties by ascending vehicle id."""
    always = {"status": "available", "rooftop": "North", "updated_at": worlds.MOMENTS[0]}
    listings = [
        {"vehicle_id": "vin-2", "changed_at": worlds.MOMENTS[0], **always},
        {"vehicle_id": "vin-1", "changed_at": worlds.MOMENTS[1], **always},
        {"vehicle_id": "vin-0", **always},
        {"vehicle_id": "vin-3", "changed_at": worlds.MOMENTS[2], **always},
    ]
    assert [listing["vehicle_id"] for listing in in_default_order(listings)] == ["vin-3", "vin-1", "vin-2", "vin-0"]
    assert _search(_catalogue(listings), {}, 0, 20, None) == (4, ["vin-3", "vin-1", "vin-2", "vin-0"])


@pytest.mark.parametrize(
    ("query", "best_first"),
    [
        ("zorvex", ["named", "begun", "fact", "told"]),
        ("zorvex quillan", ["told"]),
    ],
)
def test_the_oracle_ranks_by_the_rules(query: str, best_first: list[str]) -> None:
    """The oracle is tested without a catalogue."""
    always = {"status": "available", "rooftop": "North", "updated_at": worlds.MOMENTS[0]}
    listings: list[Listing] = [
        {"vehicle_id": "told", "description": "a zorvex, not a quillan", **always},
        {"vehicle_id": "fact", "engine": "Zorvex", **always},
        {"vehicle_id": "begun", "model": "Zorvexia", **always},
        {"vehicle_id": "named", "make": "Zorvex", **always},
        {"vehicle_id": "other", "notes": "zorvex quillan", **always},
    ]
    assert sorted(oracle_search(listings, {"query": query}, 0, 20, None)[1]) == sorted(best_first)
    by_id = {listing["vehicle_id"]: listing for listing in listings}
    for first, second in pairwise(best_first):
        assert must_precede(by_id[first], by_id[second], query)
        assert not must_precede(by_id[second], by_id[first], query)
