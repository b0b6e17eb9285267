"""Leads as rows of a spreadsheet: every lead has the same columns, and no cell of a buyer's becomes a formula."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from dealer_agent.leads.lead_view import LeadView, RooftopView, VisitTime, VisitView
from dealer_agent.leads.spreadsheet import COLUMNS, cells, without_formula
from dealer_agent.protocol.requests import Address, Appointment, Customer, SourceAgent, TradeIn, VehicleOfInterest
from dealer_agent.protocol.vehicle import Vehicle

pytestmark = pytest.mark.outside_protocol("exports")

AT = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
ROOFTOP = RooftopView(name="Example Motors North", zone="America/Chicago")


def view(**more: Any) -> LeadView:
    values: dict[str, Any] = {
        "lead_id": "01KE7AQ2N0V5X3J8R6T4Y9W1ZA",
        "dealer_id": "example",
        "dealer_name": "Example Motors",
        "rooftop": ROOFTOP,
        "received_at": AT,
        "agent": SourceAgent("Example Agent"),
        "customer": Customer("Robin", "Example", phone="+12025550123"),
        "channels": ("phone",),
    }
    return LeadView(**(values | more))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+12025550123", "'+12025550123"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", "'\t=1+1"),
        ("\rx", "'\rx"),
        ("\nx", "'\nx"),
        ("  =1+1", "'  =1+1"),
        ("\u00a0=1+1", "'\u00a0=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\x1b]0;owned\x07=1+1", "]0;owned=1+1"),
        ("\x00=1+1", "'=1+1"),
        ("\u202e=1+1", "'=1+1"),
        ("a = b", "a = b"),
        ("robin@example.com", "robin@example.com"),
        ("Łukasz 🚗 O'Example", "Łukasz 🚗 O'Example"),
        ("", ""),
    ],
)
def test_a_cell_that_looks_like_a_formula_becomes_text(cell: str, expected: str) -> None:
    assert without_formula(cell) == expected


@given(st.text(st.characters(codec="utf-8")))
def test_no_cell_begins_as_a_formula_does_and_none_loses_what_people_read(text: str) -> None:
    row = without_formula(text)
    assert not row.lstrip().startswith(("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"))
    assert not row.startswith(("\t", "\r", "\n"))
    assert [letter for letter in row.removeprefix("'") if letter.isalnum()] == [
        letter for letter in text.removeprefix("'") if letter.isalnum()
    ]


def test_a_phone_number_stays_readable() -> None:
    assert cells(view())["phone"] == "'+12025550123"


def test_every_lead_has_the_same_columns_in_the_same_order() -> None:
    bare = view()
    visit = VisitView(
        appointment_id="01KE7AQ2N0V5X3J8R6T4Y9W1ZB",
        status="confirmed",
        rooftop=ROOFTOP,
        request=Appointment("test_drive", notes="=cmd|'/c calc'!A1"),
        changed_at=AT,
        times=(VisitTime(AT, AT.replace(hour=10)),),
    )
    full = view(
        customer=Customer(
            "Robin", "Example", email="robin@example.com", address=Address(city="Springfield", zip="01101")
        ),
        messages=("=HYPERLINK()", "second"),
        vehicle=Vehicle(
            vehicle_id="v1", status="available", rooftop="North", updated_at=AT, year=2024, make="Honda",
            model="Accord", vin="1HGCY2F57RA000001", price=28500, condition="used",
        ),
        trade_in=TradeIn(year=2017, make="Mazda", condition="good", mileage=80000),
        visits=(visit,),
    )  # fmt: skip
    assert list(cells(bare)) == list(cells(full)) == list(COLUMNS)
    row = cells(full)
    assert (row["vehicle"], row["vehicle_vin"], row["vehicle_price"]) == (
        "2024 Honda Accord",
        "1HGCY2F57RA000001",
        "28500",
    )
    assert (row["trade_in"], row["trade_in_condition"], row["trade_in_mileage"]) == ("2017 Mazda", "good", "80000")
    assert (row["city"], row["zip"], row["address_line_1"]) == ("Springfield", "01101", "")
    assert row["message"] == "'=HYPERLINK()\n\nsecond"
    assert (row["visit"], row["visit_status"], row["visit_starts_at"], row["visit_ends_at"]) == (
        "test_drive",
        "confirmed",
        "2026-03-02 09:30:00",
        "2026-03-02 10:30:00",
    )
    assert row["visit_notes"] == "'=cmd|'/c calc'!A1"


@pytest.mark.parametrize("status", ["requested", "proposed", "unavailable"])
def test_a_visit_that_has_no_time_yet_shows_none(status: Any) -> None:
    visit = VisitView(
        appointment_id="a",
        status=status,
        rooftop=ROOFTOP,
        request=Appointment("sales"),
        changed_at=AT,
        times=() if status == "requested" else (VisitTime(AT), VisitTime(AT.replace(hour=12))),
    )
    row = cells(view(visits=(visit,)))
    assert (row["visit_status"], row["visit_starts_at"], row["visit_ends_at"]) == (status, "", "")


def test_a_wish_is_shown_for_a_vehicle_that_is_not_in_stock() -> None:
    row = cells(view(interest=VehicleOfInterest(make="Kia", stock="-1", condition="cpo")))
    assert (row["vehicle"], row["vehicle_stock"], row["vehicle_condition"]) == ("Kia", "'-1", "cpo")
    assert cells(view(interest=UNSET))["vehicle"] == ""
