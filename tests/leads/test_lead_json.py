"""A lead as JSON: the table of docs/reference/delivery.md, "JSON"."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec import UNSET
from tests.leads.lead_views import NASTY, TRADE_IN, VIN, a_view, a_visit, views

from dealer_agent.leads.lead_json import render_json
from dealer_agent.leads.lead_view import LeadView, RooftopView
from dealer_agent.protocol.requests import Appointment, Customer, SourceAgent, VehicleOfInterest

pytestmark = pytest.mark.outside_protocol("JSON deliveries")

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "delivery.md"


def document(**changes: Any) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(render_json(a_view(**changes)))
    return decoded


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("type", "lead"),
        ("version", 1),
        ("lead_id", "01KE7AQ2N0V5X3J8R6T4Y9W1ZB"),
        ("status", "new"),
        ("received_at", "2026-03-02T21:05:07.123456Z"),
        ("dealer", {"id": "example-motors", "name": "Example Motors Group"}),
        ("source_agent", {"name": "Example Shopping Agent", "url": "https://agent.example.com"}),
        ("allowed_channels", ["email", "sms"]),
        ("vehicle_of_interest", {"vin": VIN, "wanted": [{"by": "spring"}]}),
        (
            "trade_in",
            {
                "year": 2016,
                "make": "Ford",
                "model": "Focus",
                "mileage": 91000,
                "condition": "good",
                "notes": "A small dent",
            },
        ),
        ("messages", ["Is it still there?"]),
        (
            "appointments",
            [
                {
                    "appointment_id": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
                    "appointment_type": "test_drive",
                    "status": "confirmed",
                    "rooftop": "Example Motors Nashville",
                    "timezone": "America/Chicago",
                    "times": [{"start": "2026-03-03T10:00:00-06:00", "end": "2026-03-03T11:00:00-06:00"}],
                    "request": {"appointment_type": "test_drive", "appointment_at": "2026-03-03T16:00:00Z"},
                    "changed_at": "2026-03-02T21:05:07.123456Z",
                }
            ],
        ),
    ],
)
def test_each_member_holds_its_part_of_the_lead(member: str, value: Any) -> None:
    lead = document(interest_extras={"wanted": [{"by": "spring"}]}, trade_in=TRADE_IN, visits=(a_visit(),))
    assert lead[member] == value


def test_customer_listing_and_rooftop_are_in_the_protocols_own_shapes() -> None:
    lead = document()
    assert lead["customer"]["phone"] == "+12025550123"
    assert lead["customer"]["address"]["zip"] == "37064"
    assert (lead["vehicle"]["vehicle_id"], lead["vehicle"]["price"]) == (f"vin-{VIN}", 27999)
    assert lead["rooftop"]["timezone"] == "America/Chicago"
    assert lead["rooftop"]["address"]["city"] == "Nashville"


def test_what_is_unknown_is_absent_and_never_null() -> None:
    lead = render_json(
        a_view(
            vehicle=None,
            interest=UNSET,
            messages=(),
            agent=SourceAgent("Example Shopping Agent"),
            rooftop=RooftopView(name="Example", zone="America/Chicago"),
            visits=(a_visit("unavailable", appointment_id=None, request=Appointment("sales")),),
            customer=Customer("Jordan", "Example", phone="+12025550123"),
        )
    )
    assert b"null" not in lead
    decoded = json.loads(lead)
    assert {"vehicle", "vehicle_of_interest", "trade_in", "submitted_at"}.isdisjoint(decoded)
    assert set(decoded["rooftop"]) == {"name", "timezone"}
    assert "appointment_id" not in decoded["appointments"][0]


@given(view=views())
def test_any_lead_is_json_with_the_words_as_they_came(view: LeadView) -> None:
    lead = json.loads(render_json(view))
    assert lead["customer"]["first_name"] == view.customer.first_name
    assert lead["messages"] == list(view.messages)
    assert lead["status"] == ("resend" if view.resend else "new")
    if view.interest is not UNSET:
        assert view.interest_extras.items() <= lead["vehicle_of_interest"].items()
    if view.trade_in is not UNSET:
        assert view.trade_in_extras.items() <= lead["trade_in"].items()


@pytest.mark.parametrize("text", NASTY)
def test_lone_surrogates_which_utf_8_cannot_hold_are_replaced(text: str) -> None:
    lead = document(
        messages=(text,),
        interest=VehicleOfInterest(notes=text),
        interest_extras={f"x{text}": [text]},
        agent=SourceAgent(text),
    )
    replaced = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    assert lead["messages"] == [replaced]
    assert lead["vehicle_of_interest"] == {"notes": replaced, f"x{replaced}": [replaced]}


def test_every_member_is_documented() -> None:
    table = DOCS.read_text().partition("## JSON")[2].partition("\n## ")[0]
    named = {line.split("|")[1].strip().strip("`") for line in table.splitlines() if line.startswith("| `")}
    lead = document(
        trade_in=TRADE_IN,
        visits=(a_visit(),),
        submitted_at=a_view().received_at,
        may_be_same_person_as="01KE7AQ2N0",
        caller="https://agent.example",
    )
    expected = set(lead) | {
        f"{member}.{inner}" for member in ("dealer", "rooftop", "source_agent", "caller") for inner in lead[member]
    }
    expected |= {f"appointments[].{inner}" for inner in lead["appointments"][0]}
    assert named == expected
