"""A real vAuto export, through the command line and out through the service (docs/protocol.md#listings)."""

import csv
from collections import Counter
from typing import Any

import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import write_dealer
from tests.acceptance.running import serving, succeed_here
from tests.published_files import VAUTO_EXPORT, needs

pytestmark = [
    needs(VAUTO_EXPORT),
    pytest.mark.requirement("listing-member-types", "word-body", "word-driveline", "price-advertised"),
]

CANONICAL = {
    "body": {"sedan", "suv", "truck", "coupe", "hatchback", "wagon", "convertible", "minivan", "van"},
    "fuel": {"gas", "diesel", "hybrid", "phev", "bev", "flex", "hydrogen"},
    "driveline": {"fwd", "rwd", "awd", "4wd", "2wd"},
    "transmission": {"automatic", "manual", "cvt", "dct", "single_speed"},
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, Any]]]:
    """What the import said, and all listings that the service then has, by VIN."""
    folder = write_dealer(tmp_path_factory.mktemp("vauto"))
    said = succeed_here("inventory", "import", VAUTO_EXPORT, "--dir", folder)
    with serving(folder) as running:
        page = asked(running.url, "inventory.search", pagination={"skip": 0, "limit": 100})
    assert page["total"] == len(page["vehicles"])
    return said, {vehicle["vin"]: vehicle for vehicle in page["vehicles"]}


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, str]]:
    with VAUTO_EXPORT.open(encoding="utf-8", newline="") as file:
        return {row["VIN"]: row for row in csv.DictReader(file)}


def test_every_row_becomes_a_unit_and_the_import_says_so(
    imported: tuple[str, dict[str, dict[str, Any]]], rows: dict[str, dict[str, str]]
) -> None:
    said, vehicles = imported
    assert vehicles.keys() == rows.keys()
    assert len(vehicles) == 45
    counts = {line.split()[0]: line.split()[-1] for line in said.splitlines() if line.split()}
    assert counts["Added"] == "45"
    assert counts["Refused"] == "0"
    assert "vauto" in said
    assert 'feed_price = "advertised"' in said


def test_conditions_prices_and_photos_are_the_files(
    imported: tuple[str, dict[str, dict[str, Any]]], rows: dict[str, dict[str, str]]
) -> None:
    _, vehicles = imported
    for vin, row in rows.items():
        vehicle = vehicles[vin]
        used = "cpo" if row["Certified"] == "Yes" else "used"
        assert vehicle["condition"] == ("new" if row["New/Used"] == "N" else used)
        assert vehicle["price"] == int(row["Price"])
        assert vehicle["year"] == int(row["Year"])
        assert vehicle["stock"] == row["Stock #"]
        assert vehicle.get("photos", []) == [photo for photo in row["Photos"].split("|") if photo]
        assert vehicle.get("mileage") == (int(row["Odometer"]) if row["Odometer"] else None)
    assert Counter(vehicle["condition"] for vehicle in vehicles.values()) == {"new": 37, "used": 4, "cpo": 4}
    assert any(len(vehicle.get("features", [])) > 5 for vehicle in vehicles.values())


@pytest.mark.parametrize("member", CANONICAL)
def test_all_values_of_the_export_become_canonical_words(
    imported: tuple[str, dict[str, dict[str, Any]]], member: str
) -> None:
    _, vehicles = imported
    given = [vehicle[member] for vehicle in vehicles.values() if member in vehicle]
    assert len(given) >= 44
    assert set(given) <= CANONICAL[member]


def test_cells_are_brought_to_the_right_word(
    imported: tuple[str, dict[str, dict[str, Any]]], rows: dict[str, dict[str, str]]
) -> None:
    _, vehicles = imported
    bodies = {
        "4D Sport Utility": "suv",
        "2D Sport Utility": "suv",
        "4D Crew Cab": "truck",
        "4D Sedan": "sedan",
        "2D Convertible": "convertible",
        "2D Coupe": "coupe",
        "4D Cargo Van": "van",
    }
    for vin, row in rows.items():
        assert vehicles[vin]["body"] == bodies[row["Body"]]
        assert vehicles[vin].get("driveline") == row["Drivetrain Desc"].lower()
        assert vehicles[vin].get("transmission") == "automatic"
        assert vehicles[vin].get("fuel") == {"Gasoline": "gas", "Diesel": "diesel", "": None}[row["Fuel"]]
