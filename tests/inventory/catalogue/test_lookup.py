"""Finding one unit, in stock or removed (docs/protocol.md#inventory-vehicle, docs/protocol.md#listings)."""

from typing import Any

import msgspec
import pytest
from tests.inventory.catalogue.conftest import MakeLot, made

from dealer_agent.inventory.catalogue import Catalogue, Listing, RemovedUnit

LOT: dict[str, dict[str, Any]] = {
    "vin-A": {"vin": "1HGCM82633A004352", "stock": "S1", "changed": 1},
    "vin-B": {"vin": "1ftfw1e50kfa00001", "stock": "S2", "changed": 2},
    "old": {"stock": "twin", "changed": 3},
    "newer": {"stock": "TWIN", "changed": 4},
    "same-vin-old": {"vin": "X1", "changed": 1},
    "same-vin-new": {"vin": "X1", "changed": 2},
    "back": {"vin": "RETURNED", "stock": "S9"},
    "blank": {"vin": "", "stock": ""},
}
GONE = (
    RemovedUnit("gone-1", vin="SOLD1", stock="G1"),
    RemovedUnit("gone-2", stock="s1"),
    RemovedUnit("gone-3", vin="returned", stock="G3"),
    RemovedUnit("back", vin="RETURNED"),
)


@pytest.mark.requirement("vin-compared", "first-match-decides", "newer-of-two")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        # VINs are compared upper-cased, whoever wrote them small.
        ({"vin": "1HGCM82633A004352"}, "vin-A"),
        ({"vin": " 1hgcm82633a004352 "}, "vin-A"),
        ({"vin": "1FTFW1E50KFA00001"}, "vin-B"),
        ({"vin": "1HGCM82633A00435"}, None),
        ({"vin": "not a vin"}, None),
        # Stock numbers without regard to case; of two units with one, the newer.
        ({"stock": "s2"}, "vin-B"),
        ({"stock": "twin"}, "newer"),
        ({"vin": "x1"}, "same-vin-new"),
        ({"vehicle_id": "old"}, "old"),
        ({"vehicle_id": "OLD"}, None),
        # VIN before stock before vehicle_id; the first that matches decides.
        ({"vin": "1HGCM82633A004352", "stock": "s2", "vehicle_id": "old"}, "vin-A"),
        ({"vin": "nobody's", "stock": "s2", "vehicle_id": "old"}, "vin-B"),
        ({"vin": "nobody's", "stock": "none", "vehicle_id": "old"}, "old"),
        ({"stock": "s2", "vehicle_id": "old"}, "vin-B"),
        ({"vin": "nobody's", "stock": "none", "vehicle_id": "none"}, None),
        # Nothing, or nothing written, finds nothing.
        ({}, None),
        ({"vin": "", "stock": "", "vehicle_id": ""}, None),
        ({"vin": " "}, None),
        # Units gone are remembered, and give way to one on the lot with the same identifier.
        ({"vin": "sold1"}, "gone gone-1"),
        ({"stock": "g1"}, "gone gone-1"),
        ({"vehicle_id": "gone-2"}, "gone gone-2"),
        ({"stock": "S1"}, "vin-A"),
        ({"vin": "returned"}, "back"),
        ({"stock": "G3"}, "gone gone-3"),
        ({"vehicle_id": "back"}, "back"),
        ({"vin": "SOLD1", "stock": "S2"}, "gone gone-1"),
    ],
)
def test_a_unit_is_found_by_vin_stock_number_or_id_also_after_it_left_the_stock(
    lot: MakeLot, asked: dict[str, str], found: str | None
) -> None:
    answer = lot(gone=GONE, **LOT).catalogue.find(**asked)
    match answer:
        case RemovedUnit():
            assert f"gone {answer.vehicle_id}" == found
        case Listing():
            assert answer.vehicle.vehicle_id == found
        case None:
            assert found is None


@pytest.mark.requirement("sold-not-shown")
def test_removed_units_are_never_in_search_or_facets(lot: MakeLot) -> None:
    stock = lot(gone=GONE, a={"make": "Ford"})
    assert stock.finds() == "a"
    assert stock.finds(vin="SOLD1") == ""
    assert len(stock.catalogue) == 1
    assert [make.count for make in stock.catalogue.facets().makes or []] == [1]


def test_a_found_listing_equals_the_one_that_was_built() -> None:
    vehicle = made("a", vin="V1", electric_range_mi=310.0, features=("Tow",), other_attributes={"doors": 4})
    listing = Listing.of(vehicle, {"lot": "B7"})
    found = Catalogue.build([listing]).find(vin="v1")
    assert isinstance(found, Listing)
    assert found.json == listing.json
    assert msgspec.json.decode(found.json)["lot"] == "B7"
    assert found.vehicle == vehicle
