"""Leads at the console of a running dealership, with texts of strangers in every field."""

from typing import Any

from tests.console.browsers import ROOT, Browser
from tests.server.dealership import Dealership

NORTH, SOUTH = "Test Motors North", "Test Motors South"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
FORMULA = '=HYPERLINK("https://evil.example","click")'


def send_lead(
    console: Dealership, *, rooftop: str = NORTH, first_name: str = "Jordan", last_name: str = "Sample", **members: Any
) -> str:
    """Sends a lead as a buyer agent does. Returns its id."""
    customer = {
        "first_name": first_name,
        "last_name": last_name,
        "email": f"{first_name}@example.com",
        "phone": "+12025550123",
    }
    vehicle = {"vehicle_type": "car", "make": "Honda", "rooftop": rooftop}
    sent = {"customer": customer, "vehicle_of_interest": vehicle, **members}
    return str(console.ask("lead.submit", **sent)["lead_id"])


def page(browser: Browser, *parts: str, query: str = "") -> str:
    """The HTML of a page of the dealer."""
    answer = browser.get("/".join([ROOT, *parts]) + query)
    assert answer.status_code == 200, (parts, answer.status_code, answer.text)
    return answer.text
