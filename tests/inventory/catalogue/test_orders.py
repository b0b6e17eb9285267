"""Orders and pages of inventory.search (docs/protocol.md#inventory-search)."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from tests.inventory.catalogue.conftest import Lot, made
from tests.soak import examples

from dealer_agent.inventory.catalogue import Catalogue, Listing
from dealer_agent.protocol.requests import Filters, Sort, SortField
from dealer_agent.protocol.vehicle import Vehicle

FIELDS = get_args(SortField)
MakeLot = Callable[..., Lot]


@pytest.mark.requirement("default-order")
def test_the_default_order_is_the_newest_change_first_then_vehicle_id(lot: MakeLot) -> None:
    stock = lot(old={"changed": 1}, b={"changed": 3}, a={"changed": 3}, never={"changed": None}, mid={"changed": 2})
    assert stock.page() == ["a", "b", "mid", "old", "never"]
    assert stock.page(price_max=1) == []


@pytest.mark.requirement(
    "sort-price",
    "sort-list-price",
    "sort-msrp",
    "sort-mileage",
    "sort-year",
    "sort-make",
    "sort-model",
    "sort-stock",
    "sort-updated-at",
    "sort-unpriced-last",
    "absent-sorts-last",
)
@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("price", 9, 10),
        ("list_price", 0, 2**40),
        ("msrp", 70_000, 70_001),
        ("mileage", 5, 500),
        ("year", 1999, 2026),
        ("make", "acura", "Audi"),
        ("model", "a1", "B1"),
        ("stock", "10", "9"),
        ("updated_at", 1, 2),
    ],
)
def test_every_field_sorts_both_ways_with_ties_by_ascending_id_and_absent_last(
    lot: MakeLot, field: str, low: Any, high: Any
) -> None:
    member = "updated" if field == "updated_at" else field
    with_value = {"c": {member: high}, "b": {member: low}, "z": {member: low}, "a": {member: high}}
    without: dict[str, Any] = {} if field == "updated_at" else {"y": {}, "d": {}}
    stock = lot(**without, **with_value)
    assert stock.page(sort=Sort(field, "asc")) == ["b", "z", "a", "c", *sorted(without)]
    assert stock.page(sort=Sort(field, "desc")) == ["a", "c", "b", "z", *sorted(without)]


@pytest.mark.requirement("sort-strings")
def test_texts_sort_without_case_and_tie_if_only_case_differs(lot: MakeLot) -> None:
    stock = lot(d={"make": "honda"}, c={"make": "Honda"}, b={"make": "HONDA"}, a={"make": "ford"}, e={"make": "Kia"})
    assert stock.page(sort=Sort("make", "asc")) == ["a", "b", "c", "d", "e"]
    assert stock.page(sort=Sort("make", "desc")) == ["e", "b", "c", "d", "a"]


@pytest.mark.requirement("sort-updated-at")
def test_updated_at_sorts_by_the_freshness_of_the_listing(lot: MakeLot) -> None:
    stock = lot(a={"updated": 1, "changed": 3}, b={"updated": 2, "changed": 1})
    assert stock.page(sort=Sort("updated_at", "desc")) == ["b", "a"]
    assert stock.page() == ["a", "b"]


@pytest.mark.requirement(
    "pagination-skip",
    "pagination-limit",
    "search-total",
    "search-vehicles",
    "skip-past-end",
)
@pytest.mark.parametrize(
    ("skip", "limit", "page"),
    [
        (0, 2, ["a", "b"]),
        (1, 2, ["b", "c"]),
        (3, 2, ["d"]),
        (4, 2, []),
        (2**63 - 1, 1000, []),
        (0, 1000, ["a", "b", "c", "d"]),
    ],
)
@pytest.mark.parametrize("sort", [UNSET, Sort("price", "asc")])
@pytest.mark.parametrize("filters", [{}, {"price_min": 1}, {"query": "ford"}])
def test_a_page_has_the_total_of_the_whole_set(
    lot: MakeLot, filters: dict[str, Any], sort: Any, skip: int, limit: int, page: list[str]
) -> None:
    stock = lot(**{name: {"price": n, "make": "Ford"} for n, name in enumerate("abcd", start=1)})
    assert stock.page(skip, limit, sort, **filters) == page
    assert stock.catalogue.search(Filters(**filters), skip, limit, sort).total == 4


def test_a_page_has_the_json_and_the_rows_of_its_listings() -> None:
    """The JSON is made once per snapshot."""
    listing = Listing.of(made("a", price=5), {"lot": "B7"})
    catalogue = Catalogue.build([listing, Listing.of(made("b"))])
    page = catalogue.search(Filters(price_min=5), 0, 20)
    assert (page.total, page.rows) == (1, [0])
    assert page.listings[0] == listing.json
    assert page.listings[0] is catalogue.search(Filters(), 0, 20).listings[0]
    assert b'"lot":"B7"' in listing.json
    assert len(catalogue) == 2


# Large enough that a page is walked to, or ranked, instead of cut out of the whole.
MANY = 40_000


@pytest.fixture(scope="module")
def many() -> tuple[Catalogue, list[Vehicle]]:
    """A catalogue, and its vehicles in the order of their ids."""
    vehicles = [
        made(f"v{n:05}", price=n * 7919 % 1_000, year=2000 + n % 20, make="Ford" if n % 4 else "Kia", changed=n % 9)
        for n in range(MANY)
    ]
    return Catalogue.build(map(Listing.of, vehicles)), vehicles


@pytest.mark.parametrize("sort", [None, Sort("price", "asc"), Sort("price", "desc"), Sort("make", "desc")])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"price_min": 1},
        {"price_max": 499},
        {"price_max": 3},
        {"make": ["Kia"], "year_max": 2004},
        {"price_max": 0, "year_min": 2019},
        {"query": "ford"},
    ],
)
def test_pages_of_a_large_stock_are_those_of_the_plain_rule(
    many: tuple[Catalogue, list[Vehicle]], filters: dict[str, Any], sort: Any
) -> None:
    catalogue, vehicles = many
    asked = Filters(**filters)
    wanted: list[tuple[int, Any]] = [
        (n, vehicle)
        for n, vehicle in enumerate(vehicles)
        if filters.get("price_min", 0) <= vehicle.price <= filters.get("price_max", 1_000)
        and filters.get("year_min", 0) <= vehicle.year <= filters.get("year_max", 3_000)
        and (("make" not in filters) or n % 4 == 0)
        and (("query" not in filters) or n % 4)
    ]
    keys: dict[Any, Callable[[Any], Any]] = {
        None: lambda pair: (-(pair[0] % 9), pair[0]),
        Sort("price", "asc"): lambda pair: (pair[1].price, pair[0]),
        Sort("price", "desc"): lambda pair: (-pair[1].price, pair[0]),
        Sort("make", "desc"): lambda pair: (pair[0] % 4 != 0, pair[0]),
    }
    expected = [f"v{n:05}".encode() for n, _ in sorted(wanted, key=keys[sort])]
    for skip, limit in (
        (0, 20),
        (5, 100),
        (len(expected) // 2, 50),
        (max(0, len(expected) - 3), 20),
        (len(expected), 1),
    ):
        page = catalogue.search(asked, skip, limit, UNSET if sort is None else sort)
        assert page.total == len(expected)
        found = [listing.split(b'"vehicle_id":"')[1][:6] for listing in page.listings]
        assert found == expected[skip : skip + limit]


UNIT = st.fixed_dictionaries(
    {"changed": st.none() | st.integers(0, 2)},
    optional={
        "price": st.integers(0, 3),
        "list_price": st.integers(0, 3),
        "msrp": st.integers(0, 3),
        "mileage": st.integers(0, 3),
        "year": st.integers(2000, 2002),
        "make": st.sampled_from(["Ford", "FORD", "Kia"]),
        "model": st.sampled_from(["a", "A", "b"]),
        "stock": st.sampled_from(["s1", "S1", "s2"]),
        "updated": st.integers(0, 2),
        "description": st.sampled_from(["ford", "kia ford", "fordson"]),
    },
)


@pytest.mark.requirement("total-order")
@given(
    units=st.lists(UNIT, max_size=30),
    filters=st.sampled_from([{}, {"price_min": 1}, {"query": "ford"}, {"make": ["ford"]}]),
    sort=st.just(UNSET) | st.builds(Sort, st.sampled_from(FIELDS), st.sampled_from(["asc", "desc"])),
    size=st.integers(1, 7),
)
@settings(max_examples=examples(200), deadline=None)
def test_pages_neither_repeat_nor_drop_a_unit(units: list[Any], filters: dict[str, Any], sort: Any, size: int) -> None:
    stock = Lot({f"v{n:02}": unit for n, unit in enumerate(units)})
    whole = stock.page(sort=sort, **filters)
    total = stock.catalogue.search(Filters(**filters), 0, 1).total
    assert len(whole) == len(set(whole)) == total
    pages = [stock.page(skip, size, sort, **filters) for skip in range(0, total + size, size)]
    assert [name for page in pages for name in page] == whole


@pytest.mark.requirement("total-order")
@given(units=st.lists(UNIT, max_size=20), seed=st.randoms(use_true_random=False), data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_an_order_does_not_depend_on_the_order_of_the_listings(units: list[Any], seed: Any, data: Any) -> None:
    """Every order is total."""
    named = {f"v{n:02}": unit for n, unit in enumerate(units)}
    names = list(named)
    seed.shuffle(names)
    sort = data.draw(st.just(UNSET) | st.builds(Sort, st.sampled_from(FIELDS), st.sampled_from(["asc", "desc"])))
    query = data.draw(st.sampled_from(["", "ford"]))
    assert Lot(named).page(sort=sort, query=query) == Lot({name: named[name] for name in names}).page(
        sort=sort, query=query
    )
