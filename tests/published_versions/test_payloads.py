"""The checks of a version's payloads, without a service (docs/protocol.md#version-replies)."""

import json
from typing import Any

import pytest
from tests.cost.test_published_bounds import DOCUMENT, unbounded

from dealer_agent.protocol.published_versions import OTHER_ATTRIBUTE_ITEMS, PUBLISHED_VERSIONS
from dealer_agent.protocol.skill import DEALER_INFORMATION, INVENTORY_VEHICLE, LEAD_SUBMIT, SKILLS
from dealer_agent.protocol.version_payloads import response_data, version_request_schema

VERSIONS = PUBLISHED_VERSIONS.values()
LISTING = {"vehicle_id": "v", "status": "available", "rooftop": "North", "updated_at": "2026-11-20T15:00:00Z"}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.id)
@pytest.mark.requirement("request-bounds", "version-requests")
def test_everything_in_a_request_of_a_version_has_a_bound(version: Any, skill: Any) -> None:
    schema = version_request_schema(version, skill)
    # A consent has a schema of its own.
    schema["properties"].pop("consent", None)
    assert list(unbounded(schema, skill.id)) == []


@pytest.mark.requirement("request-bounds")
def test_the_page_of_bounds_has_the_bound_of_arrays_in_other_attributes() -> None:
    assert f"{OTHER_ATTRIBUTE_ITEMS} entries" in DOCUMENT


def replied(skill: Any, found: Any, name: str = "1.3") -> Any:
    """The `data` of a response at the root, as a version has it."""
    return json.loads(response_data(PUBLISHED_VERSIONS[name], skill, json.dumps(found).encode()))  # type: ignore[index]


FEE = {"name": "Documentation fee", "amount": 399}


@pytest.mark.parametrize(
    ("member", "value", "kept"),
    [
        ("fees", [FEE], [FEE]),
        ("fees", [], []),
        ("fees", [FEE, FEE], None),
        ("fees", [FEE, {"name": " ", "amount": 1}], None),
        ("fees", [{"name": "x" * 121, "amount": 1}], None),
        ("fees", [{**FEE, "each": "sale"}], [FEE]),
        ("year", 1899, None),
        ("year", 2101, None),
        ("vin", "1HGCY2F57RA000001", "1HGCY2F57RA000001"),
        ("vin", "1hgcy2f57ra000001", None),
        ("vdp_url", "/used/1", None),
        ("photos", ["a b", "https://example.com/1", "", "https://example.com/2"], ["https://example.com/1", "https://example.com/2"]),
        ("electric_range_mi", -1.5, None),
        ("battery_kwh", 10.5, 10.5),
        ("other_attributes", {"abs": True}, {"abs": True}),
        ("zip", "37203", None),
        ("offered_price", 5, None),
        ("changed_at", "2026-11-20T15:00:00Z", None),
        ("lot_row", {"own": [1, None]}, {"own": [1, None]}),
    ],
)  # fmt: skip
@pytest.mark.requirement("version-replies")
def test_a_member_of_a_listing_is_left_out_unless_the_version_allows_it(member: str, value: Any, kept: Any) -> None:
    expected = LISTING if kept is None else {**LISTING, member: kept}
    assert replied(INVENTORY_VEHICLE, {**LISTING, member: value}) == expected


@pytest.mark.parametrize(
    ("member", "value", "kept"),
    [
        ("website", "https://north.example", "https://north.example"),
        ("website", "north.example", None),
        ("geo", {"latitude": 36.1, "longitude": -86.7}, {"latitude": 36.1, "longitude": -86.7}),
        ("geo", {"latitude": 136.1, "longitude": -86.7}, None),
        ("fees", [FEE], [FEE]),
        ("fees", [FEE, FEE], None),
    ],
)
@pytest.mark.requirement("version-replies")
def test_a_member_of_a_rooftop_is_left_out_unless_the_version_allows_it(member: str, value: Any, kept: Any) -> None:
    sent = {"name": "Test", "rooftops": [{"name": "South"}, {"name": "North", member: value}]}
    north = {"name": "North"} if kept is None else {"name": "North", member: kept}
    assert replied(DEALER_INFORMATION, sent)["rooftops"] == [{"name": "South"}, north]


@pytest.mark.requirement("version-replies", "version-appointments")
def test_the_reply_to_a_lead_has_no_windows_and_no_odd_phone_number() -> None:
    window = {"start": "2030-01-01T10:00:00-06:00", "end": "2030-01-01T11:00:00-06:00"}
    visit = {"appointment_id": "a", "status": "confirmed"}
    sent = {"lead_id": "l", "status": "duplicate", "appointment": {**visit, "confirmed_window": window}}
    dealer = {"name": "North", "phone": "+1 202 555 0140"}
    expected = {"lead_id": "l", "status": "duplicate", "appointment": visit, "dealer": {"name": "North"}}
    assert replied(LEAD_SUBMIT, {**sent, "dealer": dealer}) == expected
