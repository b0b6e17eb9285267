"""The pages behind the links in a customer's mail are valid HTML, and every control has a label."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.leads.lead_views import ROOFTOP, TEN_IN_NASHVILLE
from tests.server.pages.conftest import Page, read_page
from tests.server.pages.samples import HOSTILE_TEXT, card_facts

from dealer_agent.leads.lead_view import RooftopView, VisitTime
from dealer_agent.leads.visit_times import Slot
from dealer_agent.server.pages.customer import contact_page, notice_page, visit_page
from dealer_agent.visits.customer_actions import CustomerVisit

pytestmark = pytest.mark.requirement("customer-links-accessible")

HOUR = timedelta(hours=1)
VISIT = CustomerVisit(
    rooftop=ROOFTOP,
    ended=None,
    kind="test_drive",
    time=VisitTime(TEN_IN_NASHVILLE, TEN_IN_NASHVILLE + HOUR),
    vehicle="2024 Honda Accord EX (stock P1234)",
    free=tuple(Slot(TEN_IN_NASHVILLE + n * 20 * HOUR, TEN_IN_NASHVILLE + n * 20 * HOUR + HOUR) for n in range(1, 4)),
    channels=frozenset({"email", "sms"}),
)
BARE = RooftopView(name=HOSTILE_TEXT, zone="Pacific/Honolulu")
HOSTILE = replace(VISIT, rooftop=BARE, vehicle=HOSTILE_TEXT, free=(), kind="video_call", channels=frozenset())
FACTS = card_facts()
PAGES = {
    "visit": visit_page(FACTS, "Example Motors", VISIT),
    "visit, problem": visit_page(FACTS, "Example Motors", VISIT, "Please choose a time."),
    "visit, hostile": visit_page(FACTS, HOSTILE_TEXT, HOSTILE, HOSTILE_TEXT),
    "contact": contact_page(FACTS, "Example Motors", VISIT, "Please choose at least one channel."),
    "contact, hostile": contact_page(FACTS, HOSTILE_TEXT, HOSTILE),
    "notice": notice_page(FACTS, "Example Motors", ROOFTOP, "This visit is cancelled", "One.", "Two."),
    "notice, hostile": notice_page(FACTS, HOSTILE_TEXT, BARE, HOSTILE_TEXT, HOSTILE_TEXT),
}
every_page = pytest.mark.parametrize("page", [pytest.param(read_page(html), id=name) for name, html in PAGES.items()])


@every_page
def test_a_page_has_one_of_each_landmark_and_a_title(page: Page) -> None:
    """WCAG 2.4.1, 2.4.2, 3.1.1."""
    assert page.all("/html[@lang='en']/head/meta[@name='viewport']")
    assert page.texts("//title") == page.texts("//h1")
    for name in ("header", "main[@id='content']", "footer"):
        assert len(page.all(f"//body//{name}")) == 1
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(page.values("aria-labelledby")) | set(page.values("for")) <= set(ids)


@every_page
def test_every_control_has_a_label(page: Page) -> None:
    """WCAG 1.3.1, 3.3.2, 4.1.2."""
    labelled = set(page.values("for"))
    assert {str(control.get("id")) for control in page.all("//select | //input")} <= labelled
    assert all(page.texts("//button"))
    assert all(page.texts("//label | //legend | //summary"))
    assert all(form.get("method") == "post" and form.get("action") is None for form in page.all("//form"))


@every_page
def test_a_page_needs_nothing_that_its_policy_forbids(page: Page) -> None:
    assert not page.all("//script | //style | //iframe | //object | //embed | //img | //base")
    attributes = {str(name) for element in page.all("//*") for name in element.attrib}
    assert not {name for name in attributes if name in ("style", "src", "action") or name.startswith("on")}
    assert not [
        address for address in page.values("href") if not address.startswith(("/", "#", "data:", "tel:+1", "mailto:"))
    ]


def test_the_free_times_are_grouped_by_day_on_the_rooftops_clock() -> None:
    page = read_page(PAGES["visit"])
    days = [str(group.get("label")) for group in page.all("//optgroup")]
    assert days == ["Wednesday, March 4, 2026", "Thursday, March 5, 2026"]
    times = page.texts("//optgroup/option")
    assert times[0] == "Wednesday, March 4, 2026, 6:00 AM CST"
    assert page.texts("//dl/div")[2] == "Vehicle2024 Honda Accord EX (stock P1234)"
    assert "No free time" in read_page(PAGES["visit, hostile"]).texts("//main")[0]


def test_only_channels_that_are_allowed_can_be_withdrawn() -> None:
    page = read_page(PAGES["contact"])
    assert [box.get("value") for box in page.all("//input")] == ["email", "sms"]
    assert "We do not contact you by: Phone calls." in page.texts("//main")[0]
    assert not read_page(PAGES["contact, hostile"]).all("//form")
