"""The demo's stock: large and mixed enough to try every filter, and believable unit by unit."""

import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from typing import Any

import msgspec
import pytest
import vininfo

from dealer_agent.config.loading import read_dealer_file
from dealer_agent.demo import demo_dealer_toml, demo_inventory
from dealer_agent.demo.cars import CARS
from dealer_agent.demo.electric import ELECTRIC
from dealer_agent.demo.inventory import FEED_TIME
from dealer_agent.demo.lines import Line
from dealer_agent.demo.motorcycles import MOTORCYCLES
from dealer_agent.demo.trucks import SUVS, TRUCKS
from dealer_agent.demo.vins import check_digit
from dealer_agent.inventory.feeds import read_feed
from dealer_agent.protocol.vehicle import Vehicle

UNITS: list[dict[str, Any]] = json.loads(demo_inventory())
LINES = CARS + SUVS + TRUCKS + ELECTRIC + MOTORCYCLES


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
        ({"price": None}, 10),
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


def test_a_vin_says_its_maker_and_model_year() -> None:
    makers = {(line.wmi, line.make) for line in LINES}
    assert all((unit["vin"][:3], unit["make"]) in makers for unit in UNITS)
    assert all(unit["year"] in vininfo.Vin(unit["vin"]).years for unit in UNITS if unit["year"] < 2026)


def test_the_published_example_of_the_check_digit_is_right() -> None:
    """49 CFR 565.15's own method, on the example that every description of it gives."""
    assert check_digit("1M8GDM9AXKP042788") == "X"
    assert check_digit("11111111111111111") == "1"


def test_stock_numbers_are_unique() -> None:
    assert max(Counter(unit["stock"] for unit in UNITS).values()) == 1


def test_the_bytes_are_the_same_in_every_process() -> None:
    program = "import sys; from dealer_agent.demo import demo_inventory; sys.stdout.buffer.write(demo_inventory())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == demo_inventory()


def test_it_is_read_without_a_refused_row_a_warning_or_a_column_that_is_not_understood() -> None:
    feed = read_feed(demo_inventory())
    assert feed.layout == "canonical"
    assert (feed.refused, feed.sold, feed.warnings, feed.repeated_vins) == ((), (), (), ())
    assert (feed.columns_not_understood, feed.columns_withheld) == ((), ())
    assert len(feed.units) == feed.rows == len(UNITS)


def test_every_value_is_read_as_it_stands() -> None:
    """Its words are the canonical ones already, so reading changes none of them (docs/protocol.md#canonical-words)."""
    members = {"price": "selling_price", "updated_at": "feed_updated_at"}
    for row, unit in zip(read_feed(demo_inventory()).units, UNITS, strict=True):
        read = json.loads(msgspec.json.encode(row.unit))
        assert read.pop("rooftop_hints") == [unit["rooftop"], unit["dealer_id"]]
        told = {members.get(name, name): value for name, value in unit.items() if name not in ("rooftop", "dealer_id")}
        assert {"status": "available"} | read == told


def test_every_unit_is_a_listing_by_its_types() -> None:
    """See docs/protocol.md#canonical-words."""
    for unit in UNITS:
        msgspec.convert(unit | {"vehicle_id": "vin-" + unit["vin"]}, Vehicle)


def test_every_rooftop_is_one_of_the_demo_dealers() -> None:
    rooftops = {rooftop.name: rooftop for rooftop in read_dealer_file(demo_dealer_toml()).rooftops}
    for unit in UNITS:
        assert unit["dealer_id"] in rooftops[unit["rooftop"]].feed_ids


def test_motorcycles_stand_at_the_rooftop_that_sells_them() -> None:
    sells = {
        rooftop.name
        for rooftop in read_dealer_file(demo_dealer_toml()).rooftops
        if "motorcycle_sales" in rooftop.capabilities
    }
    assert {unit["rooftop"] for unit in _having(vehicle_type="motorcycle")} == sells


def test_makes_trims_engines_and_drivelines_belong_together() -> None:
    def fits(unit: dict[str, Any], line: Line) -> bool:
        return (
            (unit["make"], unit["model"], unit["body"]) == (line.make, line.model, line.body)
            and line.first_year <= unit["year"] <= line.last_year
            and unit["trim"] in dict(line.trims)
            and any(
                (unit["engine"], unit["fuel"], unit["transmission"]) == (power.engine, power.fuel, power.transmission)
                and unit.get("driveline") in (power.drivelines or (None,))
                for power in line.powers
            )
        )

    assert [unit for unit in UNITS if not any(fits(unit, line) for line in LINES)] == []


def test_only_what_has_a_plug_has_a_range() -> None:
    for unit in UNITS:
        plugged = unit["fuel"] in ("bev", "phev")
        assert ("electric_range_mi" in unit, "charge_port" in unit, "battery_kwh" in unit) == (plugged,) * 3
        assert ("displacement_cc" in unit) == (unit["fuel"] != "bev")


def test_prices_are_such_as_are_asked() -> None:
    for unit in _having(condition="new"):
        assert "price" not in unit or 0.9 * unit["msrp"] < unit["price"] < 1.2 * unit["msrp"]
    for unit in UNITS:
        assert unit.get("price", 20_000) >= 1_500
        assert unit.get("list_price", 10**6) > unit.get("price", 0)


def test_what_is_new_has_hardly_been_driven_and_what_is_used_has() -> None:
    for unit in UNITS:
        assert (unit["mileage"] < 100) == (unit["condition"] == "new")
        assert unit["mileage"] <= 200_000
        assert unit["condition"] != "cpo" or (unit["mileage"] < 60_000 and unit["year"] >= 2021)
        assert (unit["year"] >= 2026) == (unit["condition"] == "new")


def test_older_cars_of_a_line_are_cheaper_on_the_whole() -> None:
    def median(years: range) -> float:
        prices: list[int] = [
            unit["price"]
            for unit in _having(condition="used", vehicle_type="car")
            if unit["year"] in years and "price" in unit
        ]
        return statistics.median(prices)

    assert median(range(2017, 2021)) < median(range(2021, 2024)) < median(range(2024, 2026))


def test_only_new_units_are_on_their_way_and_they_have_no_day_on_the_lot() -> None:
    for unit in UNITS:
        assert unit["status"] != "intransit" or unit["condition"] == "new"
        assert ("inventory_date" in unit) == (unit["status"] != "intransit")


def test_descriptions_are_two_to_four_sentences_and_vary() -> None:
    told = [unit["description"] for unit in UNITS]
    assert all(2 <= len(re.findall(r"[.]( |$)", text)) <= 5 for text in told)
    assert len(set(told)) > 0.9 * len(told)
    assert not any("{" in text or "None" in text for text in told)


def test_links_lead_nowhere_real_and_every_unit_has_its_own_page() -> None:
    pages = [unit["vdp_url"] for unit in UNITS]
    assert len(set(pages)) == len(pages)
    assert all(page.startswith("https://www.example.com/") for page in pages)
    photos = [photo for unit in UNITS for photo in unit.get("photos", [])]
    assert photos
    assert all(photo.startswith("https://images.example.com/") for photo in photos)


def test_nothing_is_later_than_the_export() -> None:
    assert all(unit["updated_at"] <= FEED_TIME.isoformat().replace("+00:00", "Z") for unit in UNITS)
    assert all(unit.get("inventory_date", "2026-01-01") <= FEED_TIME.date().isoformat() for unit in UNITS)
