"""The price offered in a buyer's area (docs/protocol.md#offered-price)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from dealer_agent.dealers.offered_price import offered_price
from dealer_agent.dealers.profile import AreaOffer
from dealer_agent.protocol.vehicle import Vehicle


def _vehicle(**members: Any) -> Vehicle:
    described: dict[str, Any] = {"make": "Mercedes-Benz", "condition": "new", "price": 30_000}
    return Vehicle(
        vehicle_id="vin-1",
        status="available",
        rooftop="Acme North",
        updated_at=datetime(2026, 11, 1, tzinfo=UTC),
        **(described | members),
    )


def _offer(amount_off: int = 500, **members: Any) -> AreaOffer:
    described: dict[str, Any] = {"zip_prefixes": ("372", "37010"), "amount_off": amount_off}
    return AreaOffer(**(described | members))


@pytest.mark.requirement("area-offers", "offered-price")
@pytest.mark.parametrize(
    ("zip_code", "expected"),
    [
        ("37203", 29_500),
        ("37203-1234", 29_500),
        (" 37203", 29_500),
        ("37010", 29_500),
        ("37011", None),
        ("03720", None),
        ("37", None),
    ],
)
def test_an_offer_is_for_zip_codes_that_begin_with_its_prefixes(zip_code: str, expected: int | None) -> None:
    assert offered_price(_vehicle(), zip_code, [_offer()]) == expected


@pytest.mark.requirement("area-offers", "offered-price")
@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, 29_500),
        ({"conditions": ("new",)}, 29_500),
        ({"conditions": ("used", "cpo")}, None),
        ({"makes": ("MERCEDES BENZ",)}, 29_500),
        ({"makes": ("Ford", "mercedes-benz")}, 29_500),
        ({"makes": ("Ford",)}, None),
        ({"conditions": ("new",), "makes": ("Ford",)}, None),
        ({"conditions": ("used",), "makes": ("Mercedes-Benz",)}, None),
    ],
)
def test_an_offer_is_for_its_conditions_and_makes_alone(limits: dict[str, Any], expected: int | None) -> None:
    assert offered_price(_vehicle(), "37203", [_offer(**limits)]) == expected


def test_an_offer_for_some_conditions_or_makes_is_not_for_a_vehicle_that_tells_none() -> None:
    assert offered_price(_vehicle(make=UNSET), "37203", [_offer(makes=("unset",))]) is None
    assert offered_price(_vehicle(condition=UNSET), "37203", [_offer(conditions=("new",))]) is None


def test_the_best_offer_that_applies_counts_and_offers_do_not_add_up() -> None:
    offers = [_offer(500), _offer(900), _offer(700), _offer(5_000, zip_prefixes=("9",))]
    assert offered_price(_vehicle(), "37203", offers) == 29_100


def test_a_vehicle_without_a_price_has_no_offered_price() -> None:
    assert offered_price(_vehicle(price=UNSET), "37203", [_offer()]) is None


def test_without_offers_there_is_no_offered_price() -> None:
    assert offered_price(_vehicle(), "37203", []) is None


@given(price=st.integers(0, 2_000), amounts=st.lists(st.integers(1, 3_000), min_size=1, max_size=4))
def test_an_offered_price_is_never_below_zero_nor_above_the_price(price: int, amounts: list[int]) -> None:
    offered = offered_price(_vehicle(price=price), "37203", [_offer(amount) for amount in amounts])
    assert offered is not None
    assert 0 <= offered <= price
    assert offered == 0 or offered == price - max(amounts)
