"""Filters together, orders and identifiers that several units share (docs/protocol.md#inventory-search)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.inventory.catalogue.conftest import Lot, made

from dealer_agent.inventory.catalogue import Catalogue, Listing, sort_orders
from dealer_agent.protocol.requests import Filters, Sort

pytestmark = pytest.mark.requirement("total-order", "query-every-word")

MakeLot = Callable[..., Lot]
VIN = "1HGCM82633A004352"

ALIKE: dict[str, Any] = {
    "vin": VIN,
    "stock": "S1",
    "model": "Focus",
    "price": 9_000,
    "mileage": 500,
    "electric_range_mi": 250.0,
    "displacement_cc": 1_400,
    "dc_fast_charge": True,
    "year": 2020,
    "description": "zorvex",
}


@pytest.mark.parametrize(
    "filters",
    [
        {"price_min": 8_000, "price_max": 9_000},
        {"mileage_max": 500},
        {"electric_range_mi_min": 200},
        {"displacement_cc_min": 1_400},
        {"dc_fast_charge": True},
        {"vin": VIN},
        {"stock": "s1"},
        {"year_min": 2020, "year_max": 2020},
        {"model": ["focus"]},
        {"query": "zorvex"},
    ],
)
def test_filters_narrow_each_other(lot: MakeLot, filters: dict[str, Any]) -> None:
    stock = lot(
        wanted={"make": "Ford", "condition": "used", **ALIKE},
        other_make={"make": "Kia", "condition": "used", **ALIKE},
        other_condition={"make": "Ford", "condition": "new", **ALIKE},
        neither={"make": "Kia", "condition": "new"},
    )
    assert stock.finds(make=["Ford"], **filters) == "other_condition wanted"
    assert stock.finds(make=["Ford"], condition=["used"], **filters) == "wanted"
    assert stock.finds(make=["Kia"], condition=["new"], **filters) == ""


@pytest.mark.parametrize("asked", [{"vin": VIN}, {"stock": "s1"}])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_units_found_by_identifier_can_be_sorted(lot: MakeLot, asked: dict[str, Any], order: Any) -> None:
    stock = lot(
        a={"vin": VIN, "stock": "S1", "price": 2},
        b={"vin": VIN, "stock": "S1", "price": 1},
        c={"vin": VIN.lower(), "stock": "s1", "price": 3},
        d={"stock": "S2", "price": 0},
    )
    assert stock.page(sort=Sort("price", order), **asked) == (["b", "a", "c"] if order == "asc" else ["c", "a", "b"])


def test_equal_prices_are_sorted_by_vehicle_id(lot: MakeLot) -> None:
    stock = lot(
        a={"price": 1, "changed": 1}, c={"price": 1, "changed": 3}, b={"price": 1, "changed": 2}, d={"price": 0}
    )
    assert stock.page(sort=Sort("price", "asc")) == ["d", "a", "b", "c"]
    assert stock.page(sort=Sort("price", "desc")) == ["a", "b", "c", "d"]


def test_changes_a_microsecond_apart_are_not_ties() -> None:
    first = made("a", changed=1)
    assert not isinstance(first.changed_at, msgspec.UnsetType)
    moment = first.changed_at
    second = msgspec.structs.replace(first, vehicle_id="b", changed_at=moment + timedelta(microseconds=1))
    page = Catalogue.build([Listing.of(first), Listing.of(second)]).search(Filters(), 0, 2, msgspec.UNSET)
    assert [msgspec.json.decode(listing)["vehicle_id"] for listing in page.listings] == ["b", "a"]


def test_a_listing_without_prose_has_no_words_of_prose(lot: MakeLot) -> None:
    stock = lot(bare={"make": "Ford"}, told={"make": "Ford", "description": "xxxx"})
    assert stock.finds(query="xxxx") == "told"


PAGES = [(0, 1), (0, 3), (0, 5), (3, 4), (7, 1), (10, 20), (30, 15), (40, 10), (0, 100), (19, 3), (55, 10), (90, 5)]


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"make": ["Ford"]},
        {"make": ["Ford", "Kia"], "price_max": 40},
        {"price_min": 7, "price_max": 7},
        {"mileage_max": 3},
        {"query": "zorvex"},
        {"query": "zorvex", "make": ["Kia"]},
        {"query": "quillan zor"},
        # Few at the beginning of the default order, the rest at its end.
        {"body": ["van"]},
    ],
)
@pytest.mark.parametrize("sort", [msgspec.UNSET, Sort("price", "asc"), Sort("make", "desc"), Sort("mileage", "asc")])
def test_a_large_stock_answers_like_a_small_one(
    lot: MakeLot, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any], sort: Any
) -> None:
    """With pieces of 3 units, a stock of 90 uses the code for stocks above 16,384 units."""
    stock = lot(
        **{
            f"u{number:02}": {
                "make": ("Ford", "Kia", "Audi")[number % 3],
                "model": "Zorvex" if number % 7 == 0 else "Focus",
                "description": ("zorvex", "zorvexia quillan", "quillan zorvex zorvexia", "")[number % 4],
                "changed": 30 - number // 3,
                **({"body": "van"} if number in (0, 30) or number > 81 else {}),
                **({"price": number * 11 % 50} if number % 5 else {}),
                **({"mileage": number % 20} if number % 11 else {}),
            }
            for number in range(90)
        }
    )
    plain = [stock.page(skip, limit, sort, **filters) for skip, limit in PAGES]
    whole = stock.page(sort=sort, **filters)
    assert plain == [whole[skip : skip + limit] for skip, limit in PAGES]
    monkeypatch.setattr(sort_orders, "_PIECE", 3)
    assert [stock.page(skip, limit, sort, **filters) for skip, limit in PAGES] == plain


@pytest.mark.parametrize("member", ["description", "engine", "model"])
def test_a_whole_word_scores_more_than_a_prefix(lot: MakeLot, member: str) -> None:
    stock = lot(whole={member: "zorvex", "changed": 1}, begun={member: "zorvexia", "changed": 2})
    assert stock.page(query="zorvex") == ["whole", "begun"]
