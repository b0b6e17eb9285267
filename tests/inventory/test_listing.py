"""From a unit to the listing that buyers see (docs/protocol.md#listings)."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from dealer_agent.inventory.listing import (
    ListingPolicy,
    RooftopRule,
    Unit,
    UnitRecord,
    list_unit,
    listing_digest,
    listing_json,
    vehicle_id_for,
)
from dealer_agent.protocol.vehicle import Fee, FeedPrice, Scalar, Vehicle

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
RECORD = UnitRecord(vehicle_id="vin-1", confirmed_at=NOON, changed_at=NOON - timedelta(days=3))
DOC_FEE = Fee("Documentation", 499)
PREP = Fee("Preparation", 200)


def policy(feed_price: FeedPrice = "advertised", fees: tuple[Fee, ...] | None = None) -> ListingPolicy:
    return ListingPolicy("d1", feed_price, (RooftopRule("North", frozenset({"n1"}), fees),))


@pytest.mark.requirement("price-advertised", "price-before-fees", "fees-inside-price")
@pytest.mark.parametrize(
    ("feed_price", "rooftop_fees", "unit", "price", "list_price", "fees"),
    [
        # The feed's price is the advertised one: it is the price, and nothing is added to it.
        ("advertised", None, {"selling_price": 20_000}, 20_000, UNSET, UNSET),
        ("advertised", (DOC_FEE,), {"selling_price": 20_000, "list_price": 21_000}, 20_000, 21_000, (DOC_FEE,)),
        ("advertised", (DOC_FEE,), {"selling_price": 20_000, "fees": (PREP,)}, 20_000, UNSET, (PREP,)),
        ("advertised", (DOC_FEE,), {"list_price": 21_000}, UNSET, 21_000, UNSET),
        ("advertised", None, {"list_price": 21_000, "msrp": 22_000}, UNSET, 21_000, UNSET),
        # The feed's price is before fees: it is the list price, and the price is it plus the complete fees.
        ("before_fees", (DOC_FEE, PREP), {"selling_price": 20_000}, 20_699, 20_000, (DOC_FEE, PREP)),
        ("before_fees", (), {"selling_price": 20_000}, 20_000, 20_000, ()),
        ("before_fees", (DOC_FEE,), {"selling_price": 20_000, "list_price": 21_000}, 20_499, 20_000, (DOC_FEE,)),
        ("before_fees", (DOC_FEE,), {"list_price": 21_000}, UNSET, 21_000, UNSET),
        # Fees that are not given are never guessed.
        ("before_fees", None, {"selling_price": 20_000}, UNSET, 20_000, UNSET),
        ("before_fees", None, {"selling_price": 20_000, "fees": (PREP,)}, UNSET, 20_000, UNSET),
    ],
)
def test_the_price_includes_every_mandatory_charge(
    feed_price: Any, rooftop_fees: Any, unit: Any, price: Any, list_price: Any, fees: Any
) -> None:
    vehicle = list_unit(Unit(stock="A1", **unit), RECORD, policy(feed_price, rooftop_fees))
    assert (vehicle.price, vehicle.list_price, vehicle.fees) == (price, list_price, fees)


TWO_ROOFTOPS = ListingPolicy(
    "d1",
    "before_fees",
    (
        RooftopRule("North", frozenset({"n1", "northmotors"}), None),
        RooftopRule("South Side", frozenset({"s1", "n1", "-"}), (DOC_FEE,)),
    ),
)


@pytest.mark.requirement("rooftop-mapping", "listing-rooftop")
@pytest.mark.parametrize(
    ("hints", "name", "matched"),
    [
        (("n1",), "North", True),
        (("S-1",), "South Side", True),
        (("NORTH MOTORS",), "North", True),
        (("south side",), "South Side", True),
        (("unknown", "s1"), "South Side", True),
        (("s1", "n1"), "South Side", True),
        (("unknown",), "North", False),
        (("--", ""), "North", False),
        ((), "North", False),
    ],
)
def test_feed_ids_and_names_give_the_rooftop_and_unknown_ones_the_first(hints: Any, name: Any, matched: Any) -> None:
    assert (TWO_ROOFTOPS.rooftop_of(hints) is not None) is matched
    assert list_unit(Unit(stock="A", rooftop_hints=hints), RECORD, TWO_ROOFTOPS).rooftop == name


def test_the_fees_are_those_of_the_units_rooftop() -> None:
    north = list_unit(Unit(stock="A", selling_price=1000, rooftop_hints=("n1",)), RECORD, TWO_ROOFTOPS)
    south = list_unit(Unit(stock="A", selling_price=1000, rooftop_hints=("s1",)), RECORD, TWO_ROOFTOPS)
    assert (north.rooftop, north.price) == ("North", UNSET)
    assert (south.rooftop, south.price) == ("South Side", 1499)


@pytest.mark.requirement("updated-at")
@pytest.mark.parametrize(
    ("feed_time", "expected"),
    [
        (UNSET, NOON),
        (datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)),
        (datetime(2026, 5, 1, 1, tzinfo=timezone(timedelta(hours=-6))), datetime(2026, 5, 1, 7, tzinfo=UTC)),
        (datetime(2026, 5, 1, 1), datetime(2026, 5, 1, 1, tzinfo=UTC)),  # noqa: DTZ001
    ],
)
def test_updated_at_is_the_time_in_the_feed_else_of_the_last_import(feed_time: Any, expected: Any) -> None:
    vehicle = list_unit(Unit(stock="A", feed_updated_at=feed_time), RECORD, policy())
    assert vehicle.updated_at == expected
    assert vehicle.updated_at.utcoffset() == timedelta(0)
    assert vehicle.changed_at == RECORD.changed_at


@pytest.mark.requirement("listing-status", "listing-fields")
def test_a_listing_has_all_members_of_its_unit() -> None:
    members: dict[str, Any] = {
        "vin": "1HGCM82633A004352",
        "stock": "A1",
        "status": "pending",
        "condition": "cpo",
        "vehicle_type": "car",
        "year": 2020,
        "make": "Honda",
        "model": "Civic",
        "trim": "EX",
        "list_price": 21_000,
        "msrp": 22_000,
        "mileage": 5,
        "body": "sedan",
        "transmission": "cvt",
        "driveline": "fwd",
        "fuel": "phev",
        "electric_range_mi": 30.5,
        "dc_fast_charge": False,
        "charge_port": "j1772",
        "displacement_cc": 1998,
        "exterior_color": "Red",
        "interior_color": "Black",
        "features": ("Sunroof",),
        "other_attributes": {"doors": 4},
        "inventory_date": date(2026, 4, 1),
    }
    vehicle = list_unit(Unit(selling_price=20_000, **members), RECORD, policy())
    assert (vehicle.vehicle_id, vehicle.dealer_id, vehicle.rooftop, vehicle.price) == ("vin-1", "d1", "North", 20_000)
    assert {name: getattr(vehicle, name) for name in members} == members


@pytest.mark.requirement("vehicle-id")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"vin": "1hgcm82633a004352 ", "stock": "A1"}, {"vin": "1HGCM82633A004352", "stock": "B2"}, True),
        ({"stock": "a1"}, {"stock": "A1 "}, True),
        ({"vin": " ", "stock": "A1"}, {"stock": "A1"}, True),
        ({"vin": "A1"}, {"stock": "A1"}, False),
        ({"stock": "A1"}, {"stock": "A2"}, False),
        # The feed's own id is not what ours is made from.
        ({"vin": "X1", "vehicle_id": "77"}, {"vin": "X1"}, True),
    ],
)
def test_a_vehicle_id_is_made_from_the_vin_else_the_stock_number(one: Any, other: Any, same: Any) -> None:
    assert (vehicle_id_for(Unit(**one)) == vehicle_id_for(Unit(**other))) is same


@pytest.mark.parametrize("unit", [Unit(), Unit(vin="", stock=" ")])
def test_a_unit_without_vin_and_stock_number_has_no_id(unit: Any) -> None:
    with pytest.raises(ValueError, match="VIN"):
        vehicle_id_for(unit)


def listing(**members: Any) -> Vehicle:
    return Vehicle(vehicle_id="v", status="available", rooftop="North", updated_at=NOON, **members)


@pytest.mark.requirement("absent-is-unknown", "updated-at-present")
def test_json_leaves_out_absent_members_and_has_times_in_utc() -> None:
    assert msgspec.json.decode(listing_json(listing(changed_at=NOON, price=0))) == {
        "vehicle_id": "v",
        "status": "available",
        "rooftop": "North",
        "updated_at": "2026-05-04T12:00:00Z",
        "changed_at": "2026-05-04T12:00:00Z",
        "price": 0,
    }


@pytest.mark.requirement("integers-sent-plain", "listing-member-types")
@pytest.mark.parametrize("member", ["electric_range_mi", "battery_kwh", "motor_power_hp"])
def test_numbers_without_a_fraction_are_sent_as_integers(member: Any) -> None:
    """The service sends integers without a fraction."""
    assert f'"{member}":310,'.encode() in listing_json(listing(**{member: 310.0}))
    assert f'"{member}":310.5'.encode() in listing_json(listing(**{member: 310.5}))


@pytest.mark.requirement("extras-passed-through")
def test_extra_members_are_passed_through_and_never_replace_a_known_one() -> None:
    extras: dict[str, Scalar] = {"lot": "B-7", "price": 1, "vehicle_id": "x", "odd": 2.5, "ok": True}
    sent = msgspec.json.decode(listing_json(listing(), extras))
    assert {name: sent.get(name) for name in ("lot", "odd", "ok")} == {"lot": "B-7", "odd": 2.5, "ok": True}
    assert "price" not in sent
    assert sent["vehicle_id"] == "v"
    assert listing_json(listing(), {"price": 1}) == listing_json(listing())


@pytest.mark.parametrize(
    ("changes", "extras", "same"),
    [
        ({"updated_at": NOON + timedelta(days=1)}, {"a": 1, "b": 2}, True),
        ({"changed_at": NOON}, {"b": 2, "a": 1}, True),
        ({"other_attributes": {"y": 2, "x": 1}, "electric_range_mi": 310}, {"a": 1, "b": 2}, True),
        ({"price": 2}, {"a": 1, "b": 2}, False),
        ({"price": UNSET}, {"a": 1, "b": 2}, False),
        ({"status": "pending"}, {"a": 1, "b": 2}, False),
        ({"description": "New tires"}, {"a": 1, "b": 2}, False),
        ({}, {"a": 1}, False),
        ({}, {"a": 1, "b": 3}, False),
    ],
)
def test_the_digest_changes_with_price_status_and_content_and_not_with_times(
    changes: Any, extras: Any, same: Any
) -> None:
    first = listing(price=1, other_attributes={"x": 1, "y": 2}, electric_range_mi=310.0)
    second = msgspec.structs.replace(first, **changes)
    assert (listing_digest(first, {"a": 1, "b": 2}) == listing_digest(second, extras)) is same


def test_the_digest_is_the_same_in_another_process() -> None:
    script = (
        "from datetime import UTC, datetime\n"
        "from dealer_agent.inventory.listing import listing_digest\n"
        "from dealer_agent.protocol.vehicle import Vehicle\n"
        "noon = datetime(2026, 5, 4, tzinfo=UTC)\n"
        "v = Vehicle(vehicle_id='v', status='available', rooftop='North', updated_at=noon)\n"
        "print(listing_digest(v, {'b': 1, 'a': 'x'}), end='')\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == listing_digest(listing(), {"a": "x", "b": 1})
