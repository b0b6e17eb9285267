"""Ids and times of listings are the same on every machine (docs/protocol.md#updated-at)."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec import UNSET

from dealer_agent.inventory.listing import (
    ListingPolicy,
    RooftopRule,
    Unit,
    UnitRecord,
    list_unit,
    listing_json,
    vehicle_id_for,
)

pytestmark = pytest.mark.requirement("vehicle-id", "updated-at")

VIN = "1HGCM82633A004352"
POLICY = ListingPolicy(dealer_id="d", feed_price="advertised", rooftops=(RooftopRule("North"),))
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@pytest.fixture
def machine_in_chicago(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/Chicago")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("machine_in_chicago")
@pytest.mark.parametrize(
    "moment", [NOON, NOON.replace(tzinfo=None), datetime.fromisoformat("2026-05-04T14:00:00+02:00")]
)
def test_times_in_json_are_utc_on_every_machine(moment: datetime) -> None:
    record = UnitRecord(vehicle_id="v", confirmed_at=moment, changed_at=moment)
    listing = list_unit(Unit(stock="S1"), record, POLICY)
    assert (listing.updated_at, listing.changed_at) == (NOON, NOON)
    assert listing_json(listing).count(b"2026-05-04T12:00:00Z") == 2


@pytest.mark.parametrize(
    ("vin", "stock", "vehicle_id"),
    [
        (f" {VIN.lower()} ", "S1", f"vin-{VIN}"),
        (UNSET, " Ab-1 ", "stock-ab-1"),
        ("", "AB-1", "stock-ab-1"),
    ],
)
def test_the_id_of_a_unit_is_made_from_its_vin_else_from_its_stock_number(
    vin: str, stock: str, vehicle_id: str
) -> None:
    """The id is stored with each unit, so this rule must never change."""
    assert vehicle_id_for(Unit(vin=vin, stock=stock)) == vehicle_id


def test_a_unit_with_neither_has_no_id() -> None:
    with pytest.raises(ValueError, match="VIN or a stock number"):
        vehicle_id_for(Unit())
