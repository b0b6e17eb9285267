"""Where the all-in price is shown: the vehicle's page, its JSON-LD, and the text of the MCP tool."""

import json
import re
from typing import Any

import pytest
from tests.server.conftest import OpenDealership
from tests.server.conftest import open_dealership as open_dealership
from tests.server.conftest import stocked as stocked
from tests.server.dealership import ACCORD, NO_LIMITS, Dealership
from tests.server.mcp_calls import use
from tests.server.pages.conftest import Page, read_page

pytestmark = pytest.mark.outside_protocol("the all-in price")

LINES = """
[pricing]
[[pricing.lines]]
label = "Sales <tax>"
kind = "tax"
payee = "government"
rate = "0.0775"
base = "taxable"
[[pricing.lines]]
label = "Title"
kind = "title"
payee = "government"
amount = "6.50"
firm = true
legal_basis = "Title Act"
[[pricing.lines]]
label = "Registration"
kind = "registration"
payee = "government"
amount = "44"
states = ["TN"]
"""


def address_of(opened: Dealership, **named: str) -> str:
    return f"/vehicles/{opened.ask('inventory.vehicle', **named)['vehicle_id']}"


def page_of(opened: Dealership, path: str = "") -> Page:
    return read_page(opened.get(path or address_of(opened, vin=ACCORD)).text)


def data_of(page: Page) -> Any:
    found = re.search(r'<script type="application/ld\+json">(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def text_of(opened: Dealership, **arguments: str) -> str:
    result = use(opened, "inventory_vehicle", arguments)
    text: str = result["content"][0]["text"]
    return text


def test_page_data_and_tool_show_the_same_lines(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS + LINES)
    page = page_of(opened)
    labels, amounts = page.texts("//dl[@class='fees']//dt"), page.texts("//dl[@class='fees']//dd")
    shown = dict(zip(labels, amounts, strict=True))
    assert shown == {
        "Advertised price": "$28,500",
        "Vehicle price": "$28,101.00",
        "Documentation fee": "$399.00",
        "Sales <tax> (estimate)": "$2,208.75",
        "Title": "$6.50",
        "Total without registration": "$30,715.25",
    }
    assert "Not stated for this place, so not in the total: registration." in page.html

    offer = data_of(page)["offers"]
    assert (offer["price"], offer["priceCurrency"]) == (28500, "USD")
    specification = offer["priceSpecification"]
    assert (specification["name"], specification["price"]) == ("Total without registration", 30715.25)
    parts = [(each["name"], each["price"], each["description"]) for each in specification["priceComponent"]]
    assert parts == [
        ("Vehicle price", 28101, "firm"),
        ("Documentation fee", 399, "firm"),
        ("Sales <tax>", 2208.75, "estimate"),
        ("Title", 6.5, "firm"),
    ]

    assert text_of(opened, vin=ACCORD).split("\n")[-7:] == [
        "Price in lines, for a buyer at the rooftop:",
        "- Vehicle price: $28,101.00 (firm, dealer)",
        "- Documentation fee: $399.00 (firm, dealer)",
        "- Sales <tax>: $2,208.75 (estimate, government)",
        "- Title: $6.50 (firm, government, Title Act)",
        "- Total without registration: $30,715.25",
        "- Not stated for this place, so not in the total: registration.",
    ]
    there = text_of(opened, vin=ACCORD, zip="37203").split("\n")
    assert "Price in lines, for a buyer in TN 37203:" in there
    assert there[-2:] == ["- Registration: $44.00 (estimate, government)", "- All-in price: $30,759.25"]
    assert text_of(opened, vin=ACCORD, zip="2").endswith(
        "No price in lines: '2' is not a ZIP code of the United States; write five digits, such as '84115'"
    )


def test_a_vehicle_without_a_price_has_no_lines(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS + LINES)
    page = page_of(opened, "/vehicles/stock-t-003")
    assert page.texts("//dl[@class='fees']//dt") == ["Advertised price"]
    assert "priceSpecification" not in data_of(page)["offers"]
    assert "Price in lines" not in text_of(opened, vehicle_id="stock-t-003")


def test_only_price_lines_change_the_page_of_a_vehicle_and_nothing_changes_the_skills(
    open_dealership: OpenDealership,
) -> None:
    usual, empty, full = (open_dealership(NO_LIMITS + more) for more in ("", '[pricing]\ncurrency = "EUR"\n', LINES))
    path = address_of(usual, vin=ACCORD)
    assert usual.get(path).text == empty.get(path).text != full.get(path).text
    assert text_of(usual, vin=ACCORD) == text_of(empty, vin=ACCORD) != text_of(full, vin=ACCORD)
    answers = [opened.ask("inventory.vehicle", vin=ACCORD, zip="37203") for opened in (usual, empty, full)]
    assert answers[0] == answers[1] == answers[2], "the skills answer as before"


def test_another_currency_is_that_of_all_amounts(open_dealership: OpenDealership) -> None:
    opened = open_dealership(NO_LIMITS + LINES.replace("[pricing]", '[pricing]\ncurrency = "CAD"'))
    page = page_of(opened)
    offer = data_of(page)["offers"]
    assert offer["priceCurrency"] == offer["priceSpecification"]["priceCurrency"] == "CAD"
    assert "CAD 30,715.25" in page.html
