"""inventory.facets over the catalogue (docs/protocol.md#inventory-facets)."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.inventory.catalogue.conftest import MakeLot

from dealer_agent.protocol.requests import Filters
from dealer_agent.protocol.responses import Facets

LOT: dict[str, dict[str, Any]] = {
    "a": {
        "make": "Honda",
        "model": "CR-V",
        "trim": "EX",
        "condition": "used",
        "year": 2019,
        "price": 21_000,
        "mileage": 40_000,
        "fuel": "gas",
        "rooftop": "South",
        "transmission": "cvt",
        "exterior_color": "White",
        "interior_color": "Black",
    },
    "b": {
        "make": "Ford",
        "model": "F-150",
        "condition": "new",
        "year": 2026,
        "mileage": 5,
        "fuel": "gas",
        "status": "pending",
        "driveline": "4wd",
        "body": "truck",
        "vehicle_type": "car",
    },
    "c": {
        "make": "Ford",
        "model": "Mach-E",
        "condition": "new",
        "year": 2026,
        "price": 50_000,
        "fuel": "bev",
        "dc_fast_charge": True,
        "charge_port": "ccs",
        "electric_range_mi": 310.0,
    },
    "d": {
        "make": "BMW",
        "year": 2020,
        "dc_fast_charge": False,
        "electric_range_mi": 30.5,
        "vehicle_type": "motorcycle",
        "displacement_cc": 1250,
    },
}

WHOLE = {
    "makes": [("Ford", 2), ("BMW", 1), ("Honda", 1)],
    "models": [("CR-V", 1), ("F-150", 1), ("Mach-E", 1)],
    "trims": [("EX", 1)],
    "years": [(2026, 2), (2019, 1), (2020, 1)],
    "conditions": [("new", 2), ("used", 1)],
    "vehicle_types": [("car", 3), ("motorcycle", 1)],
    "transmissions": [("cvt", 1)],
    "fuels": [("gas", 2), ("bev", 1)],
    "dc_fast_charge": [("false", 1), ("true", 1)],
    "charge_ports": [("ccs", 1)],
    "drivelines": [("4wd", 1)],
    "bodies": [("truck", 1)],
    "exterior_colors": [("White", 1)],
    "interior_colors": [("Black", 1)],
    "rooftops": [("North", 3), ("South", 1)],
    "statuses": [("available", 3), ("pending", 1)],
    "price_range": (21_000, 50_000),
    "mileage_range": (5, 40_000),
    "year_range": (2019, 2026),
    "displacement_cc_range": (1250, 1250),
    "electric_range_mi_range": (30.5, 310),
}


def plain(facets: Facets) -> dict[str, Any]:
    """Facets as in JSON, in pairs."""
    sent = msgspec.json.decode(msgspec.json.encode(facets))
    return {
        name: [tuple(entry.values()) for entry in found] if isinstance(found, list) else tuple(found.values())
        for name, found in sent.items()
    }


@pytest.mark.requirement(
    "facet-counts",
    "facet-ranges",
    "facet-vehicle-type-absent",
    "facet-dc-fast-charge",
)
def test_all_facets_of_the_whole_stock(lot: MakeLot) -> None:
    stock = lot(**LOT)
    assert set(WHOLE) == set(Facets.__struct_fields__)
    assert plain(stock.catalogue.facets()) == WHOLE
    assert plain(stock.catalogue.facets(Filters())) == WHOLE
    assert plain(stock.catalogue.facets(Filters(price_min=0, make=[]))) != WHOLE


@pytest.mark.requirement("facets-matching-set", "facet-left-out")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (
            {"vehicle_type": ["motorcycle"]},
            {
                "makes": [("BMW", 1)],
                "years": [(2020, 1)],
                "vehicle_types": [("motorcycle", 1)],
                "dc_fast_charge": [("false", 1)],
                "rooftops": [("North", 1)],
                "statuses": [("available", 1)],
                "year_range": (2020, 2020),
                "displacement_cc_range": (1250, 1250),
                "electric_range_mi_range": (30.5, 30.5),
            },
        ),
        ({"make": ["Nobody"]}, {}),
        ({"price_min": 2, "price_max": 1}, {}),
    ],
)
def test_counts_and_ranges_cover_the_matching_set_without_absent_values(
    lot: MakeLot, filters: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert plain(lot(**LOT).catalogue.facets(Filters(**filters))) == expected


def test_a_query_and_filters_narrow_the_facets(lot: MakeLot) -> None:
    facets = plain(lot(**LOT).catalogue.facets(Filters(query="ford", fuel=["gas"])))
    assert facets["models"] == [("F-150", 1)]
    assert "price_range" not in facets


def test_a_filter_that_matches_all_listings_changes_nothing(lot: MakeLot) -> None:
    assert plain(lot(**LOT).catalogue.facets(Filters(year_min=1900))) == WHOLE


@pytest.mark.requirement("facet-order")
def test_the_highest_count_comes_first_then_the_value_without_case(lot: MakeLot) -> None:
    stock = lot(a={"model": "b"}, b={"model": "A"}, c={"model": "c"}, d={"model": "c"}, e={"model": "a"})
    assert plain(stock.catalogue.facets())["models"] == [("c", 2), ("A", 1), ("a", 1), ("b", 1)]


@pytest.mark.requirement("facet-years")
def test_years_and_ranges_are_integers_in_json(lot: MakeLot) -> None:
    """The service sends integers without a fraction."""
    sent = msgspec.json.encode(lot(**LOT).catalogue.facets(Filters(make=["Ford"])))
    assert b'"electric_range_mi_range":{"min":310,"max":310}' in sent
    assert b'{"value":2026,"count":2}' in sent


def test_an_empty_stock_has_no_facets(lot: MakeLot) -> None:
    assert plain(lot().catalogue.facets()) == {}


def test_facets_of_numbers_too_large_for_a_column_of_their_own(lot: MakeLot) -> None:
    stock = lot(a={"price": 2**63 - 1, "mileage": 0}, b={"price": 0})
    assert plain(stock.catalogue.facets(Filters(price_min=0)))["price_range"] == (0, 2**63 - 1)
    assert stock.catalogue.facets().mileage_range != UNSET
