"""What a lead is compared by, and what is said of it (docs/protocol.md#lead-submit)."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from tests.leads.json_values import as_body, json_values

from dealer_agent.inventory.catalogue import RemovedUnit
from dealer_agent.leads.received_lead import (
    FoundVehicle,
    contact_points,
    names_a_vehicle,
    payload_hash,
    source_agent,
    vehicle_key,
    with_normal_phone,
)
from dealer_agent.leads.wording import vehicle_name
from dealer_agent.protocol.json_body import read_json
from dealer_agent.protocol.requests import Customer, VehicleOfInterest
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.protocol.vehicle import Vehicle

VIN = "1HGCY2F57RA000001"


def interest(**members: Any) -> VehicleOfInterest:
    return msgspec.convert(members, VehicleOfInterest)


def in_stock(**members: Any) -> Vehicle:
    always = {
        "vehicle_id": f"vin-{VIN}",
        "status": "available",
        "rooftop": "North",
        "updated_at": datetime(2026, 3, 2, tzinfo=UTC),
    }
    return msgspec.convert(always | members, Vehicle)


def customer(**members: Any) -> Customer:
    return Customer("Jordan", "Example", **members)


@pytest.mark.requirement("duplicate-same-token")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (customer(email="jordan@example.com"), customer(email="JORDAN@Example.COM")),
        (customer(phone="+1 (202) 555-0123"), customer(phone="+12025550123")),
    ],
)
def test_contacts_are_compared_normalised(one: Customer, other: Customer) -> None:
    assert contact_points(one) == contact_points(other) != ()


@pytest.mark.requirement("duplicate-same-token")
def test_email_and_phone_each_make_a_contact() -> None:
    both = contact_points(customer(email="jordan@example.com", phone="+12025550123"))
    assert set(both) == {
        *contact_points(customer(email="jordan@example.com")),
        *contact_points(customer(phone="+12025550123")),
    }
    assert ["jordan@example.com" in both[0], "+12025550123" in both[1]] == [True, True]
    assert len(both) == 2
    assert contact_points(customer(email="jordan@example.com")) != contact_points(customer(email="sam@example.com"))


@pytest.mark.requirement("phone")
def test_the_phone_number_is_kept_as_e164_and_the_rest_as_it_came() -> None:
    given = customer(phone="+1 (202) 555-0123", email="Jordan@Example.com")
    kept = with_normal_phone(given, contact_points(given))
    assert kept == customer(phone="+12025550123", email="Jordan@Example.com")
    assert with_normal_phone(customer(email="jordan@example.com"), ["email:jordan@example.com"]) == customer(
        email="jordan@example.com"
    )


SAME: list[tuple[tuple[VehicleOfInterest, FoundVehicle], tuple[VehicleOfInterest, FoundVehicle]]] = [
    ((interest(vin=VIN), None), (interest(vin=f" {VIN.lower()} "), None)),
    ((interest(stock="P100"), None), (interest(stock="p100"), None)),
    ((interest(vin=VIN), in_stock(vin=VIN)), (interest(stock="P100"), in_stock(vin=VIN, stock="P100"))),
    ((interest(vin=VIN), None), (interest(vin=VIN), in_stock(vin=VIN))),
    ((interest(vin=VIN), in_stock(vin=VIN)), (interest(vin=VIN), RemovedUnit(f"vin-{VIN}", VIN))),
    (
        (interest(stock="P100"), in_stock(stock="P100")),
        (interest(vehicle_id="stock-p100"), RemovedUnit("stock-p100", stock="P100")),
    ),
    ((interest(year=2020, make="Honda"), None), (interest(year=2020, make="HONDA"), None)),
    ((interest(make="Honda", vin=""), None), (interest(make=" Honda", model=" ", stock=" "), None)),
]


@pytest.mark.requirement("duplicate-same-token")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_wishes_are_for_the_same_vehicle(one: Any, other: Any) -> None:
    assert vehicle_key(*one) == vehicle_key(*other) is not None


OTHER: list[tuple[tuple[Any, FoundVehicle], tuple[Any, FoundVehicle]]] = [
    ((interest(vin=VIN), None), (interest(vin=VIN[:-1] + "2"), None)),
    ((interest(stock="P100"), None), (interest(vin="P100"), None)),
    ((interest(make="P100"), None), (interest(vin="P100"), None)),
    ((interest(make="Land", model="Rover"), None), (interest(make="Land|model Rover"), None)),
    ((interest(make="Honda"), None), (UNSET, None)),
    ((interest(make="Honda"), None), (interest(model="Honda"), None)),
    ((interest(year=2020, make="Honda"), None), (interest(year=2021, make="Honda"), None)),
    ((interest(vin="", make="Honda"), None), (interest(vin="", make="Ford"), None)),
    ((interest(vin=VIN), None), (interest(), None)),
]


@pytest.mark.requirement("duplicate-same-token")
@pytest.mark.parametrize(("one", "other"), OTHER)
def test_two_wishes_are_for_different_vehicles(one: Any, other: Any) -> None:
    assert vehicle_key(*one) != vehicle_key(*other)


@pytest.mark.requirement("duplicate-same-token")
@pytest.mark.parametrize("nothing", [UNSET, interest(), interest(condition="used"), interest(vin="", make=" ")])
def test_an_empty_wish_counts_as_no_vehicle(nothing: Any) -> None:
    assert vehicle_key(nothing, None) is None


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (interest(vin="A", stock="A", vehicle_id="A"), True),
        (interest(vin="A"), True),
        (interest(stock="A"), True),
        (interest(vehicle_id="A"), True),
        (interest(vin="", stock=" ", vehicle_id=""), False),
        (interest(year=2020, make="Honda", model="Accord"), False),
        (interest(), False),
        (UNSET, False),
    ],
)
def test_an_identifier_names_a_vehicle_and_a_description_does_not(wanted: Any, named: bool) -> None:
    assert names_a_vehicle(wanted) is named


PAYLOAD: dict[str, Any] = {
    "type": "lead.submit.request",
    "vehicle_of_interest": {"year": 2020, "vin": VIN, "packages": [{"name": "tow", "price": 500}]},
    "submitted_at": "2026-03-02T14:58:00Z",
}


@pytest.mark.requirement("idempotency-submitted-at")
@pytest.mark.parametrize(
    "again",
    [
        PAYLOAD,
        dict(reversed(PAYLOAD.items())),
        PAYLOAD | {"submitted_at": "2026-03-02T14:59:00Z"},
        {name: value for name, value in PAYLOAD.items() if name != "submitted_at"},
        PAYLOAD | {"vehicle_of_interest": {**PAYLOAD["vehicle_of_interest"], "year": 2020.0}},
    ],
)
def test_the_same_payload_is_the_same_whatever_its_order_its_time_and_its_kind_of_number(again: Any) -> None:
    """2020.0 is the integer 2020."""
    assert payload_hash(read_json(as_body(again))) == payload_hash(PAYLOAD)


@pytest.mark.requirement("idempotency-submitted-at")
@pytest.mark.parametrize(
    "changed",
    [
        PAYLOAD | {"message": ""},
        PAYLOAD | {"vehicle_of_interest": {**PAYLOAD["vehicle_of_interest"], "year": 2021}},
        PAYLOAD | {"vehicle_of_interest": {**PAYLOAD["vehicle_of_interest"], "submitted_at": "2026"}},
        PAYLOAD | {"vehicle_of_interest": {**PAYLOAD["vehicle_of_interest"], "packages": []}},
    ],
)
def test_a_changed_payload_has_another_hash(changed: dict[str, Any]) -> None:
    assert payload_hash(changed) != payload_hash(PAYLOAD)


@given(value=json_values)
def test_the_same_json_always_has_the_same_hash(value: Any) -> None:
    assert payload_hash(read_json(as_body({"extra": value}))) == payload_hash(read_json(as_body({"extra": value})))


@pytest.mark.requirement("source-agent", "lead-source-agent-string")
@pytest.mark.parametrize("source", ["Example Agent", {"name": "Example Agent", "url": "https://agent.example.com"}])
def test_an_agent_is_called_by_its_name_in_either_form(source: Any) -> None:
    payload = {"type": "lead.submit.request", "customer": {"first_name": "J", "last_name": "E"}, "source_agent": source}
    assert source_agent(msgspec.convert(payload, LeadSubmitRequest)).name == "Example Agent"


@pytest.mark.parametrize(
    ("vehicle", "name"),
    [(in_stock(year=2024, model="Accord"), "2024 Accord"), (in_stock(), "vehicle"), (in_stock(make="Honda"), "Honda")],
)
def test_a_vehicle_is_called_by_what_is_known_of_it(vehicle: Vehicle, name: str) -> None:
    assert vehicle_name(vehicle) == name


@given(value=st.dictionaries(st.sampled_from(["vin", "stock", "vehicle_id", "make", "model", "trim"]), st.text()))
def test_a_wish_has_a_key_unless_it_is_empty(value: dict[str, str]) -> None:
    assert (vehicle_key(interest(**value), None) is None) == (not any(text.strip() for text in value.values()))
