"""The filters of inventory.search (docs/protocol.md#inventory-search)."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from dealer_agent.protocol.requests import Filters

LOT: dict[str, dict[str, Any]] = {
    "a": {
        "vin": "1HGCM82633A004352",
        "stock": "Ab-1",
        "make": "Honda",
        "model": "CR-V",
        "trim": "EX-L",
        "condition": "used",
        "year": 2019,
        "price": 21_000,
        "mileage": 40_000,
        "body": "suv",
        "driveline": "awd",
        "transmission": "cvt",
        "fuel": "gas",
        "exterior_color": "Glacier White",
        "interior_color": "Black",
        "rooftop": "North",
    },
    "b": {
        "vin": "1FTFW1E50KFA00001",
        "stock": "B2",
        "make": "Ford",
        "model": "F-150",
        "condition": "new",
        "year": 2026,
        "mileage": 5,
        "body": "truck",
        "driveline": "4wd",
        "transmission": "automatic",
        "fuel": "hybrid",
        "exterior_color": "Gun Metallic",
        "rooftop": "South Side",
        "vehicle_type": "car",
    },
    "c": {
        "stock": "AB-1",
        "make": "Volkswagen",
        "model": "ID.4",
        "condition": "cpo",
        "year": 2023,
        "price": 30_000,
        "mileage": 12_000,
        "driveline": "rwd",
        "transmission": "single_speed",
        "fuel": "bev",
        "electric_range_mi": 275.5,
        "dc_fast_charge": True,
        "charge_port": "ccs",
        "exterior_color": "Blue / Grey Roof",
    },
    "d": {
        "make": "Mercedes-Benz",
        "model": "Citroën Special",
        "fuel": "phev",
        "electric_range_mi": 30.0,
        "dc_fast_charge": False,
        "charge_port": "j1772",
        "driveline": "fwd",
        "transmission": "manual",
        "body": "Shooting Brake",
        "price": 0,
    },
    "e": {
        "make": "Ducati",
        "model": "Multistrada V4",
        "vehicle_type": "motorcycle",
        "displacement_cc": 1158,
        "body": "adventure",
        "driveline": "2wd",
        "price": 2**63 - 1,
    },
}


@pytest.mark.requirement(
    "search-filters-optional",
    "filter-make",
    "filter-model",
    "filter-trim",
    "filter-condition",
    "filter-vehicle-type",
    "filter-vehicle-type-absent",
    "filter-transmission",
    "filter-fuel",
    "filter-electric-range-mi-min",
    "filter-electric-range-mi-max",
    "filter-dc-fast-charge",
    "filter-charge-port",
    "filter-driveline",
    "filter-body",
    "filter-displacement-cc-min",
    "filter-displacement-cc-max",
    "filter-exterior-color",
    "filter-interior-color",
    "filter-rooftops",
    "filter-year-min",
    "filter-year-max",
    "filter-price-min",
    "filter-price-max",
    "filter-mileage-max",
    "filter-vin",
    "filter-stock",
    "minimum-above-maximum",
    "whole-values",
    "without-case-accents-punctuation",
    "synonyms",
    "synonyms-2wd",
    "hybrid-not-phev",
    "colour-words",
    "ranges-inclusive",
    "range-without-value",
    "empty-is-no-constraint",
    "dc-fast-charge-false",
    "stock-case",
)
@pytest.mark.parametrize(
    ("filters", "found"),
    [
        # No constraint.
        ({}, "a b c d e"),
        ({"make": []}, "a b c d e"),
        ({"exterior_color": [], "condition": [], "query": ""}, "a b c d e"),
        ({"query": "the with a"}, "a b c d e"),
        ({"dc_fast_charge": False}, "a b c d e"),
        # Whole values without regard to case, accents, spacing and punctuation.
        ({"make": ["HONDA"]}, "a"),
        ({"model": ["F150"]}, "b"),
        ({"model": ["f 150"]}, "b"),
        ({"model": ["crv", "id4"]}, "a c"),
        ({"model": ["citroen special"]}, "d"),
        ({"model": ["CR"]}, ""),
        ({"model": [""]}, ""),
        ({"model": ["-"]}, ""),
        ({"trim": ["ex l"]}, "a"),
        ({"trim": ["EX"]}, ""),
        ({"rooftops": ["south-side"]}, "b"),
        ({"rooftops": ["North"]}, "a c d e"),
        ({"rooftops": ["Sou"]}, ""),
        ({"make": ["Nobody"]}, ""),
        ({"make": ["honda", "Nobody", "FORD"]}, "a b"),
        # Well-known synonyms.
        ({"make": ["VW"]}, "c"),
        ({"make": ["Mercedes"]}, "d"),
        ({"driveline": ["All-Wheel Drive"]}, "a"),
        ({"driveline": ["4x4"]}, "b"),
        ({"driveline": ["2wd"]}, "c d e"),
        ({"driveline": ["fwd"]}, "d"),
        ({"fuel": ["Gasoline Fuel"]}, "a"),
        ({"fuel": ["hybrid"]}, "b"),
        ({"fuel": ["Plug-In Hybrid"]}, "d"),
        ({"fuel": ["Electric"]}, "c"),
        ({"body": ["Sport Utility"]}, "a"),
        ({"body": ["shooting brake"]}, "d"),
        ({"transmission": ["8-speed automatic"]}, "b"),
        ({"transmission": ["automatic"]}, "b"),
        ({"transmission": ["CVT"]}, "a"),
        ({"charge_port": ["CCS1"]}, "c"),
        # A colour matches when all its words stand in the listing's, paint names counting as their basic colour.
        ({"exterior_color": ["white"]}, "a"),
        ({"exterior_color": ["glacier"]}, "a"),
        ({"exterior_color": ["Glacier-White"]}, "a"),
        ({"exterior_color": ["white pearl"]}, ""),
        ({"exterior_color": ["gray"]}, "b c"),
        ({"exterior_color": ["grey"]}, "b c"),
        ({"exterior_color": ["grey blue"]}, "c"),
        ({"exterior_color": ["white", "gun"]}, "a b"),
        ({"exterior_color": [""]}, ""),
        ({"interior_color": ["black"]}, "a"),
        # Enumerations; a listing without a type is a car.
        ({"condition": ["used", "cpo"]}, "a c"),
        ({"condition": ["new"]}, "b"),
        ({"vehicle_type": ["car"]}, "a b c d"),
        ({"vehicle_type": ["motorcycle", "rv"]}, "e"),
        ({"vehicle_type": ["trailer"]}, ""),
        # Ranges include their ends; a listing without the value does not match.
        ({"year_min": 2019}, "a b c"),
        ({"year_min": 2020}, "b c"),
        ({"year_max": 2019}, "a"),
        ({"year_max": 2018}, ""),
        ({"year_min": 2019, "year_max": 2023}, "a c"),
        ({"year_min": 1900, "year_max": 2100}, "a b c"),
        ({"price_min": 0}, "a c d e"),
        ({"price_max": 0}, "d"),
        ({"price_min": 21_000, "price_max": 30_000}, "a c"),
        ({"price_min": 21_001, "price_max": 29_999}, ""),
        ({"price_min": 30_001}, "e"),
        ({"mileage_max": 12_000}, "b c"),
        ({"mileage_max": 11_999}, "b"),
        ({"electric_range_mi_min": 275}, "c"),
        ({"electric_range_mi_min": 276}, ""),
        ({"electric_range_mi_max": 30}, "d"),
        ({"electric_range_mi_min": 0, "electric_range_mi_max": 300}, "c d"),
        ({"displacement_cc_min": 1158}, "e"),
        ({"displacement_cc_max": 1158}, "e"),
        ({"displacement_cc_min": 1159}, ""),
        # Minimum above maximum is valid and finds nothing.
        ({"price_min": 30_000, "price_max": 21_000}, ""),
        ({"year_min": 2026, "year_max": 2019}, ""),
        ({"electric_range_mi_min": 100, "electric_range_mi_max": 99}, ""),
        # Numbers as large as the wire allows.
        ({"price_min": 2**63 - 1}, "e"),
        ({"price_max": 2**63 - 1}, "a c d e"),
        ({"mileage_max": 2**63 - 1}, "a b c"),
        ({"displacement_cc_min": 2**63 - 1}, ""),
        ({"electric_range_mi_max": 2**63 - 1}, "c d"),
        # Yes or no; identifiers.
        ({"dc_fast_charge": True}, "c"),
        ({"vin": "1HGCM82633A004352"}, "a"),
        ({"vin": "1HGCM82633A004353"}, ""),
        ({"stock": "ab-1"}, "a c"),
        ({"stock": "ab1"}, ""),
        ({"stock": ""}, ""),
        # All filters must be met.
        ({"make": ["Honda"], "year_min": 2019, "price_max": 21_000, "exterior_color": ["white"]}, "a"),
        ({"make": ["Honda"], "condition": ["new"]}, ""),
        ({"stock": "ab-1", "fuel": ["bev"]}, "c"),
        ({"vehicle_type": ["car"], "query": "awd"}, "a"),
    ],
)
def test_a_filter_finds_exactly_the_units_that_match(
    lot: Callable[..., Any], filters: dict[str, Any], found: str
) -> None:
    assert lot(**LOT).finds(**filters) == found


@pytest.mark.parametrize("filters", [{}, {"make": ["Honda"]}, {"price_max": 10}, {"query": "honda"}, {"stock": "x"}])
def test_a_search_in_an_empty_stock_finds_nothing_and_does_not_fail(
    lot: Callable[..., Any], filters: dict[str, Any]
) -> None:
    assert lot().finds(**filters) == ""
    assert lot().catalogue.search(UNSET, 0, 20).total == 0


def test_more_than_256_values_stay_distinct(lot: Callable[..., Any]) -> None:
    stock = lot(**{f"v{n:05}": {"price": n, "model": f"Model {n}", "mileage": n % 300} for n in range(70_000 // 100)})
    assert stock.finds(price_min=255, price_max=257) == "v00255 v00256 v00257"
    assert stock.finds(model=["model 699"]) == "v00699"
    many = range(250, 265)
    assert stock.finds(model=[f"model {n}" for n in many]) == " ".join(f"v{n:05}" for n in many)
    assert stock.finds(mileage_max=0) == "v00000 v00300 v00600"


@pytest.mark.parametrize("make", ["Chevy", "chevrolet", "CHEVROLET"])
def test_a_listing_is_found_by_any_spelling_of_its_value(lot: Callable[..., Any], make: str) -> None:
    """Whole values, folded, and known spellings (docs/protocol.md#inventory-search)."""
    assert lot(a={"make": "Chevy"}, b={"make": "Chevrolet"}, c={"make": "Ford"}).finds(make=[make]) == "a b"


def test_a_value_of_punctuation_is_found_by_that_value(lot: Callable[..., Any]) -> None:
    stock = lot(a={"model": "!", "exterior_color": "/"}, b={"model": "3", "exterior_color": "Red"})
    assert [stock.finds(model=[text]) for text in ("", "-", "!", " ! ", "3")] == ["", "", "a", "a", "b"]
    assert [stock.finds(exterior_color=[text]) for text in ("", "/", "red")] == ["", "", "b"]


@pytest.mark.parametrize("count", [1, 254, 255, 256, 257])
def test_ranges_are_correct_for_codes_of_any_size(lot: Callable[..., Any], count: int) -> None:
    stock = lot(none={}, **{f"v{n:03}": {"price": n} for n in range(count)})
    every = [f"v{n:03}" for n in range(count)]
    for low in {0, 1, count // 2, count - 1, count}:
        assert stock.finds(price_min=low).split() == every[low:]
        assert stock.finds(price_max=low).split() == every[: low + 1]
        assert stock.finds(price_min=low, price_max=count - 1).split() == every[low:]
        assert stock.finds(price_min=low + 1, price_max=low) == ""


def test_a_search_changes_nothing(lot: Callable[..., Any]) -> None:
    stock = lot(**LOT)
    filters = Filters(make=["Honda", "Ford"], year_min=2000, dc_fast_charge=False, query="used")
    first = stock.catalogue.search(filters, 0, 20)
    stock.catalogue.facets(filters)
    assert stock.catalogue.search(filters, 0, 20) == first
    assert stock.finds() == "a b c d e"
