"""The demo's stock: large and mixed enough to try every filter, and believable unit by unit."""

import json
import re
import statistics
from collections import Counter
from typing import Any

import msgspec
import pytest
import vininfo

from dealer_agent.config.loading import read_dealer_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.feeds.files.reader import read_feed

FEED = read_feed(demo_inventory())
UNITS: list[dict[str, Any]] = [
    {"status": "available"} | json.loads(msgspec.json.encode(row.unit)) for row in FEED.units
]
EXPORTED = "2026-11-16T11:00:00Z"
"""When the demo's export was made."""


def _having(**members: Any) -> list[dict[str, Any]]:
    return [unit for unit in UNITS if all(unit.get(name) == value for name, value in members.items())]


def test_there_are_at_least_320_units() -> None:
    assert len(UNITS) >= 320


@pytest.mark.parametrize(
    ("members", "least"),
    [
        ({"condition": "new"}, 100),
        ({"condition": "used"}, 100),
        ({"condition": "cpo"}, 30),
        ({"body": "sedan"}, 20),
        ({"body": "truck"}, 30),
        ({"body": "suv"}, 60),
        ({"vehicle_type": "motorcycle"}, 30),
        ({"vehicle_type": "motorcycle", "condition": "used"}, 10),
        ({"fuel": "bev"}, 30),
        ({"fuel": "phev"}, 5),
        ({"fuel": "hybrid"}, 20),
        ({"fuel": "diesel"}, 2),
        ({"charge_port": "nacs"}, 5),
        ({"charge_port": "ccs"}, 10),
        ({"dc_fast_charge": True}, 20),
        ({"status": "intransit"}, 10),
        ({"status": "pending"}, 8),
        ({"selling_price": None}, 10),
        ({"transmission": "manual"}, 10),
        ({"driveline": "awd"}, 40),
        ({"driveline": "4wd"}, 20),
    ],
)
def test_there_are_enough_units_of_every_kind(members: dict[str, Any], least: int) -> None:
    assert len(_having(**members)) >= least


def test_vins_are_unique_and_pass_their_check() -> None:
    vins = [unit["vin"] for unit in UNITS]
    assert len(set(vins)) == len(vins)
    assert all(re.fullmatch(r"[A-HJ-NPR-Z0-9]{17}", vin) for vin in vins)
    assert [vin for vin in vins if not vininfo.Vin(vin).verify_checksum(check_year=False)] == []


def test_a_vin_says_the_model_year() -> None:
    assert all(unit["year"] in vininfo.Vin(unit["vin"]).years for unit in UNITS if unit["year"] < 2026)


def test_stock_numbers_are_unique() -> None:
    assert max(Counter(unit["stock"] for unit in UNITS).values()) == 1


def test_the_file_is_read_whole_in_the_canonical_layout_without_a_problem() -> None:
    assert FEED.layout == "canonical"
    assert (FEED.refused, FEED.sold, FEED.warnings, FEED.repeated_vins) == ((), (), (), ())
    assert (FEED.columns_not_understood, FEED.columns_withheld) == ((), ())
    assert len(FEED.units) == FEED.rows == len(UNITS)


def test_every_rooftop_is_one_of_the_demo_dealers() -> None:
    rooftops = {rooftop.name: rooftop for rooftop in read_dealer_file(demo_dealer_toml()).rooftops}
    for unit in UNITS:
        name, feed_id = unit["rooftop_hints"]
        assert feed_id in rooftops[name].feed_ids


def test_motorcycles_are_at_the_rooftop_that_sells_them() -> None:
    sells = {
        rooftop.name
        for rooftop in read_dealer_file(demo_dealer_toml()).rooftops
        if "motorcycle_sales" in rooftop.capabilities
    }
    assert {unit["rooftop_hints"][0] for unit in _having(vehicle_type="motorcycle")} == sells


def test_only_vehicles_with_a_plug_have_a_range() -> None:
    for unit in UNITS:
        plugged = unit["fuel"] in ("bev", "phev")
        assert ("electric_range_mi" in unit, "charge_port" in unit, "battery_kwh" in unit) == (plugged,) * 3
        assert ("displacement_cc" in unit) == (unit["fuel"] != "bev")


def test_prices_are_plausible() -> None:
    for unit in _having(condition="new"):
        assert "selling_price" not in unit or 0.9 * unit["msrp"] < unit["selling_price"] < 1.2 * unit["msrp"]
    for unit in UNITS:
        assert unit.get("selling_price", 20_000) >= 1_500
        assert unit.get("list_price", 10**6) > unit.get("selling_price", 0)


def test_new_vehicles_have_low_mileage_and_used_ones_do_not() -> None:
    for unit in UNITS:
        assert (unit["mileage"] < 100) == (unit["condition"] == "new")
        assert unit["mileage"] <= 200_000
        assert unit["condition"] != "cpo" or (unit["mileage"] < 60_000 and unit["year"] >= 2021)
        assert (unit["year"] >= 2026) == (unit["condition"] == "new")


def test_older_cars_are_cheaper_on_average() -> None:
    def median(years: range) -> float:
        prices: list[int] = [
            unit["selling_price"]
            for unit in _having(condition="used", vehicle_type="car")
            if unit["year"] in years and "selling_price" in unit
        ]
        return statistics.median(prices)

    assert median(range(2017, 2021)) < median(range(2021, 2024)) < median(range(2024, 2026))


def test_only_new_units_are_in_transit_and_these_have_no_inventory_date() -> None:
    for unit in UNITS:
        assert unit["status"] != "intransit" or unit["condition"] == "new"
        assert ("inventory_date" in unit) == (unit["status"] != "intransit")


def test_descriptions_are_two_to_four_sentences_and_vary() -> None:
    told = [unit["description"] for unit in UNITS]
    assert all(2 <= len(re.findall(r"[.]( |$)", text)) <= 5 for text in told)
    assert len(set(told)) > 0.9 * len(told)
    assert not any("{" in text or "None" in text for text in told)


def test_links_are_examples_and_every_unit_has_its_own_page() -> None:
    pages = [unit["vdp_url"] for unit in UNITS]
    assert len(set(pages)) == len(pages)
    assert all(page.startswith("https://www.example.com/") for page in pages)
    photos = [photo for unit in UNITS for photo in unit.get("photos", [])]
    assert photos
    assert all(photo.startswith("https://images.example.com/") for photo in photos)


def test_nothing_is_later_than_the_export() -> None:
    assert all(unit["feed_updated_at"] <= EXPORTED for unit in UNITS)
    assert all(unit.get("inventory_date", "2026-01-01") <= EXPORTED[:10] for unit in UNITS)
