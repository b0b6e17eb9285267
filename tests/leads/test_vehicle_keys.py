"""The key by which two leads speak of one vehicle: it is stored with a lead, so it may never come out otherwise."""

from typing import Any

import pytest

from dealer_agent.leads.received_lead import vehicle_key
from dealer_agent.protocol.requests import VehicleOfInterest

pytestmark = pytest.mark.requirement("duplicate-window")

KIND = {"year": 2020, "make": " Ford", "model": "FOCUS", "trim": "St "}


@pytest.mark.parametrize(
    ("interest", "key"),
    [
        ({"vin": " 1HGCY2F57RA000001 ", "stock": "A1", "vehicle_id": "x"}, "vin:1hgcy2f57ra000001"),
        ({"vin": " ", "stock": "Ab-1", "vehicle_id": "x"}, "stock:ab-1"),
        ({"vehicle_id": "vin-X", **KIND}, "id:vin-x"),
        (KIND, 'kind:{"year":"2020","make":"ford","model":"focus","trim":"st"}'),
        ({"make": "Ford", "model": " "}, 'kind:{"make":"ford"}'),
        ({"model": " "}, None),
        ({}, None),
    ],
)
def test_the_key_of_a_wish_is_the_same_in_every_version(interest: dict[str, Any], key: str | None) -> None:
    assert vehicle_key(VehicleOfInterest(**interest), None) == key
