"""The four reading skills through the real application, over both bindings (docs/protocol.md)."""

from typing import Any

import pytest
from tests.skills.sample_dealers import ACCORD, BINDINGS, SOLD, TACOMA, UNKNOWN, SampleDealer


def ask(sample_dealer: SampleDealer, thing: str, binding: str = "http", **members: Any) -> dict[str, Any]:
    answer = sample_dealer.send({"type": f"{thing}.request", **members}, binding)
    assert answer.data is not None, answer.error
    assert f'"type":"{thing}.response"'.encode() in answer.raw
    return answer.data


@pytest.mark.requirement("types-dealer-information", "dealer-name", "dealer-rooftops")
@pytest.mark.parametrize("binding", BINDINGS)
def test_dealer_information_lists_the_rooftops(sqlite_dealer: SampleDealer, binding: str) -> None:
    about = ask(sqlite_dealer, "dealer.information", binding)
    assert about["name"] == "Ridgeline Motors"
    assert [rooftop["name"] for rooftop in about["rooftops"]] == ["Ridgeline North", "Ridgeline South"]


@pytest.mark.requirement("types-inventory-search")
@pytest.mark.parametrize("binding", BINDINGS)
def test_search_finds_what_is_on_the_lot_and_nothing_that_is_sold(sqlite_dealer: SampleDealer, binding: str) -> None:
    page = ask(sqlite_dealer, "inventory.search", binding, sort={"field": "year", "order": "asc"})
    assert (page["total"], page["skip"], page["limit"]) == (3, 0, 20)
    assert [vehicle["year"] for vehicle in page["vehicles"]] == [2020, 2024, 2027]
    assert SOLD not in str(page)


@pytest.mark.requirement("types-inventory-search")
@pytest.mark.parametrize(
    ("pagination", "echo", "found"),
    [
        ({}, (0, 20), 3),
        ({"skip": 1}, (1, 20), 2),
        ({"limit": 1}, (0, 1), 1),
        ({"skip": 2, "limit": 2}, (2, 2), 1),
        ({"limit": 100}, (0, 100), 3),
        ({"limit": 101}, (0, 100), 3),
        ({"limit": 1000.0}, (0, 100), 3),
        ({"skip": 3}, (3, 20), 0),
        ({"skip": 2**63 - 1}, (2**63 - 1, 20), 0),
    ],
)
def test_a_page_echoes_what_was_applied(
    sqlite_dealer: SampleDealer, pagination: dict[str, Any], echo: tuple[int, int], found: int
) -> None:
    """Default page 0/20, the cap is 100, and `total` is true on every page."""
    page = ask(sqlite_dealer, "inventory.search", pagination=pagination)
    assert (page["skip"], page["limit"]) == echo
    assert (page["total"], len(page["vehicles"])) == (3, found)


@pytest.mark.requirement("types-inventory-facets")
@pytest.mark.parametrize("binding", BINDINGS)
def test_facets_count_the_matching_set(sqlite_dealer: SampleDealer, binding: str) -> None:
    facets = ask(sqlite_dealer, "inventory.facets", binding, filters={"condition": ["used"]})
    assert facets["makes"] == [{"value": "Big Tex", "count": 1}, {"value": "Honda", "count": 1}]
    assert facets["price_range"] == {"min": 3100, "max": 28500}


@pytest.mark.requirement(
    "vehicle-members",
    "types-inventory-vehicle",
    "vin-compared",
    "first-match-decides",
    "vehicle-reply-listing",
)
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize(
    ("identifiers", "found"),
    [
        ({"vin": ACCORD}, f"vin-{ACCORD}"),
        ({"vin": ACCORD.lower()}, f"vin-{ACCORD}"),
        ({"stock": "t-1"}, "stock-t-1"),
        ({"vehicle_id": f"vin-{TACOMA}"}, f"vin-{TACOMA}"),
        ({"vin": ACCORD, "stock": "T-1"}, f"vin-{ACCORD}"),
        ({"vin": UNKNOWN, "stock": "T-1", "vehicle_id": f"vin-{ACCORD}"}, "stock-t-1"),
        ({"vin": "?", "stock": "?", "vehicle_id": f"vin-{ACCORD}"}, f"vin-{ACCORD}"),
    ],
)
def test_a_vehicle_is_found_by_the_first_identifier_that_matches(
    sqlite_dealer: SampleDealer, binding: str, identifiers: dict[str, str], found: str
) -> None:
    vehicle = ask(sqlite_dealer, "inventory.vehicle", binding, **identifiers)
    assert vehicle["vehicle_id"] == found
    listed = ask(sqlite_dealer, "inventory.search", binding)["vehicles"]
    assert vehicle in listed


@pytest.mark.requirement(
    "error-vehicle-not-found", "error-vehicle-unavailable", "vehicle-identifier-required", "vin-compared"
)
@pytest.mark.parametrize(
    ("identifiers", "code", "status"),
    [
        ({"vin": UNKNOWN}, "VEHICLE_NOT_FOUND", 404),
        ({"vin": ""}, "VEHICLE_NOT_FOUND", 404),
        ({"stock": "?"}, "VEHICLE_NOT_FOUND", 404),
        ({"vehicle_id": "?"}, "VEHICLE_NOT_FOUND", 404),
        ({"vin": SOLD}, "VEHICLE_UNAVAILABLE", 409),
        ({"stock": "n-1"}, "VEHICLE_UNAVAILABLE", 409),
        ({"vehicle_id": f"vin-{SOLD}"}, "VEHICLE_UNAVAILABLE", 409),
        ({}, "MISSING_REQUIRED_FIELD", 422),
        ({"zip": "37203"}, "MISSING_REQUIRED_FIELD", 422),
    ],
)
def test_a_vehicle_that_is_not_there_says_why(
    sqlite_dealer: SampleDealer, identifiers: dict[str, str], code: str, status: int
) -> None:
    refused = sqlite_dealer.send({"type": "inventory.vehicle.request", **identifiers})
    assert (refused.code, refused.status) == (code, status)


@pytest.mark.requirement("zip-length", "zip-repeated", "offered-price", "area-offers")
@pytest.mark.parametrize(
    ("vin", "zip_code", "offered"),
    [(ACCORD, "37203", 28000), (ACCORD, "90210", None), (TACOMA, "37203", None), (ACCORD, "3", None)],
)
def test_with_a_zip_the_reply_repeats_it_and_carries_the_areas_offer(
    sqlite_dealer: SampleDealer, vin: str, zip_code: str, offered: int | None
) -> None:
    vehicle = ask(sqlite_dealer, "inventory.vehicle", vin=vin, zip=zip_code)
    assert (vehicle["zip"], vehicle.get("offered_price")) == (zip_code, offered)
    plain = ask(sqlite_dealer, "inventory.vehicle", vin=vin)
    assert vehicle == plain | {"zip": zip_code} | ({"offered_price": offered} if offered else {})


@pytest.mark.requirement("zip-length", "vehicle-unknown-refused", "vehicle-members")
@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"zip": ""}, "/zip"),
        ({"zip": "1" * 17}, "/zip"),
        ({"zip": 37203}, "/zip"),
        ({"vin": 7}, "/vin"),
        ({"stock": None}, "/stock"),
        ({"vehicle_id": []}, "/vehicle_id"),
        ({"color": "red"}, "/color"),
    ],
)
def test_a_malformed_vehicle_request_is_refused(
    sqlite_dealer: SampleDealer, members: dict[str, Any], pointer: str
) -> None:
    refused = sqlite_dealer.send({"type": "inventory.vehicle.request", "vin": ACCORD, **members})
    assert (refused.status, refused.code, refused.pointer) == (422, "SCHEMA_VALIDATION_FAILED", pointer)


def test_a_dealers_own_member_never_takes_the_place_of_one_that_the_reply_adds(sqlite_dealer: SampleDealer) -> None:
    """`zip` and `offered_price` are the response's own."""
    answer = sqlite_dealer.send({"type": "inventory.vehicle.request", "vin": ACCORD, "zip": "37203"})
    assert answer.raw.count(b'"zip":') == 1
    plain = ask(sqlite_dealer, "inventory.vehicle", vin=ACCORD)
    assert plain["lot_row"] == "B"
    assert "zip" not in plain
