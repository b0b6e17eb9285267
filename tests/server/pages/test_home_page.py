"""The page at `/` tells a person who the dealer is, what is in stock and what an agent can ask."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.server.pages.conftest import Page, read_page, written
from tests.server.pages.samples import (
    BARE,
    FRIDAY_NOON,
    LONG,
    MAKES,
    MANY_MAKES,
    POTOMAC,
    SALES,
    STOCK,
    TOTAL,
    UPDATED,
    card_facts,
    counts,
    facts_of,
    profile,
)

from dealer_agent.dealers.opening import SpecialDay, WeekHours
from dealer_agent.dealers.profile import DealerRooftop, Profile
from dealer_agent.protocol.responses import Facets, IntRange, TextCount
from dealer_agent.protocol.skill import SKILLS
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.site import label_of

pytestmark = pytest.mark.outside_protocol("the HTML pages")


def shown(
    dealer: Profile = POTOMAC,
    facets: Facets = STOCK,
    total: int = TOTAL,
    *,
    updated_at: datetime | None = UPDATED,
    now: datetime = FRIDAY_NOON,
    **more: Any,
) -> Page:
    return read_page(home_page(dealer, facets, total, card_facts(**more), updated_at=updated_at, now=now))


def with_rooftop(timezone: str = "UTC", **members: Any) -> Profile:
    return profile("Plain Cars", DealerRooftop(name="Plain Cars", timezone=timezone, **members))


PAGE = shown()


def test_it_names_the_dealer_and_welcomes() -> None:
    """See docs/protocol.md#dealer-information."""
    assert PAGE.texts("//h1") == ["Potomac Motor Group"]
    assert PAGE.texts("//title") == ["Potomac Motor Group"]
    assert PAGE.texts("//p[@class='welcome']") == [POTOMAC.welcome_message]


def test_a_guessed_time_zone_is_not_shown() -> None:
    for dealer, zone in ((replace(BARE, guesses=("timezone",)), "UTC"), (BARE, "EST")):
        (updated,) = shown(dealer).texts("//time")
        assert updated.endswith(zone)


def test_it_sums_up_the_stock() -> None:
    figures = dict(zip(PAGE.texts("//dl[@class='figures']//dt"), PAGE.texts("//dl[@class='figures']//dd"), strict=True))
    assert figures == {
        "vehicles in stock": "317",
        "advertised prices": "$4,995 \u2013 $96,480",
        "model years": "2009 \u2013 2027",
        "locations": "2",
    }


def test_every_make_has_its_count_and_the_first_twelve_are_visible() -> None:
    """In the order of the facet (docs/protocol.md#inventory-facets)."""
    at_once = "//section[@id='stock']//h3[text()='By make']/following-sibling::ul[1]/li"
    folded = "//section[@id='stock']//details//li"
    rows = PAGE.texts(at_once) + PAGE.texts(folded)
    assert rows == [f"{make} {count}" for make, count in MAKES]
    assert len(PAGE.texts(at_once)) == 12
    assert PAGE.texts("//section[@id='stock']//summary") == ["3 more makes"]


def test_a_bar_is_as_long_as_its_share_of_the_greatest_count() -> None:
    page = shown(facets=Facets(makes=counts(("Honda", 40), ("Ford", 10))), total=50)
    assert [bar.get("width") for bar in page.all("//*[local-name()='svg'][@class='bar']/*")] == ["100.0", "25.0"]


def test_the_conditions_share_one_bar_and_what_is_unknown_is_not_hidden() -> None:
    page = shown(facets=Facets(conditions=counts(("used", 50), ("new", 30), ("cpo", 10))), total=100)
    parts = page.all("//*[local-name()='svg'][@class='split']/*")
    assert [(part.get("class"), part.get("x"), part.get("width")) for part in parts] == [
        ("fill-used", "0.0", "50.0"),
        ("fill-new", "50.0", "30.0"),
        ("fill-cpo", "80.0", "10.0"),
        ("fill-unstated", "90.0", "10.0"),
    ]
    assert page.texts("//ul[@class='legend']/li") == ["Used 50", "New 30", "Certified pre-owned 10", "Not stated 10"]


def test_the_time_of_the_last_update_is_in_the_zone_of_the_dealer() -> None:
    (moment,) = PAGE.all("//section[@id='stock']//time")
    assert (moment.text, moment.get("datetime")) == ("November 20, 2026, 11:37 AM EST", "2026-11-20T11:37-05:00")


@pytest.mark.parametrize(
    ("found", "words"),
    [(IntRange(9000, 9000), ["$9,000"]), (IntRange(1, 2_000_000), ["$1 \u2013 $2,000,000"]), (UNSET, [])],
)
def test_prices_are_a_range_one_price_or_left_out(found: Any, words: list[str]) -> None:
    page = shown(facets=Facets(makes=counts(("Honda", 1)), price_range=found))
    assert page.texts("//dl[@class='figures']//dt[text()='advertised prices']/../dd") == words


def test_an_empty_stock_says_so() -> None:
    page = shown(facets=Facets(), total=0, updated_at=None)
    assert page.texts("//section[@id='stock']/p")[0].startswith("No vehicles are listed right now.")
    assert not page.all("//section[@id='stock']//ul | //section[@id='stock']//time")


def test_a_rooftop_has_its_address_phones_hours_capabilities_and_fees() -> None:
    """See docs/protocol.md#dealer-information."""
    (first, second) = PAGE.all("//article")
    text = " ".join(written(first, " ").split())
    for piece in (
        "Potomac Honda of Alexandria",
        "Potomac Automotive LLC",
        "Open today 9 AM \u2013 8 PM",
        "2100 Example Avenue",
        "Alexandria, VA 22301",
        "Sales (202) 555-0110",
        "Service (202) 555-0111",
        "sales@alexandria.example.com",
        "Sales hours Mon \u2013 Fri (today) 9 AM \u2013 8 PM Saturday 9 AM \u2013 6 PM Sunday 11 AM \u2013 5:30 PM",
        "Service hours Mon \u2013 Fri (today) 7:30 AM \u2013 6 PM Saturday 8 AM \u2013 4 PM Sunday Closed",
        "Trade in",
        "Processing fee $799",
        "Free shuttle from King Street station.",
        "286 in stock here",
    ):
        assert piece in text
    assert "Mandatory fees None." in " ".join(written(second, " ").split())
    assert {"tel:+12025550110", "https://alexandria.example.com"} <= set(PAGE.values("href"))


@pytest.mark.parametrize(
    ("now", "zone", "today"),
    [
        ("2026-11-20T17:00", "America/New_York", ["Open today 9 AM \u2013 8 PM"]),
        ("2026-11-22T17:00", "America/New_York", ["Open today 11 AM \u2013 5:30 PM"]),
        # Still Saturday in New York, already Sunday in Greenwich and Berlin.
        ("2026-11-22T02:00", "America/New_York", ["Open today 9 AM \u2013 6 PM"]),
        ("2026-11-22T02:00", "Europe/Berlin", ["Open today 11 AM \u2013 5:30 PM"]),
    ],
)
def test_today_is_the_day_at_the_rooftop(now: str, zone: str, today: list[str]) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    page = shown(with_rooftop(zone, hours={"sales": SALES}), now=moment)
    assert page.texts("//p[starts-with(@class, 'today')]") == today


def test_a_day_without_hours_is_closed() -> None:
    """Null when closed (docs/protocol.md#dealer-information)."""
    page = shown(with_rooftop(hours={"sales": WeekHours(monday="09:00-17:00")}))
    assert page.texts("//p[starts-with(@class, 'today')]") == ["Closed today"]
    assert page.texts("//table//tr") == ["Monday9 AM \u2013 5 PM", "Tue \u2013 Sun (today)Closed"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("00:00-23:59", "12 AM \u2013 11:59 PM"),
        ("12:00-12:30", "12 PM \u2013 12:30 PM"),
        ("09:00-12:00, 13:00-18:00", "9 AM \u2013 12 PM, 1 PM \u2013 6 PM"),
        ("18:00-02:00", "6 PM \u2013 2 AM"),
        ("18:00-24:00", "6 PM \u2013 12 AM"),
        ("00:00-24:00", "24 hours"),
    ],
)
def test_hours_are_written_as_americans_do(given: str, said: str) -> None:
    page = shown(with_rooftop(hours={"sales": WeekHours(monday=given)}))
    assert page.texts("//table//tr[1]/td") == [said]


@pytest.mark.parametrize(
    ("hours", "today"), [("closed", "Closed today"), ("10:00-14:00", "Open today 10 AM \u2013 2 PM")]
)
def test_a_special_day_has_its_own_hours_and_no_row_of_the_week_is_today(hours: str, today: str) -> None:
    special_days = (SpecialDay(date="2026-11-20", hours=hours),)
    page = shown(with_rooftop("America/New_York", hours={"sales": SALES}, special_days=special_days))
    assert page.texts("//p[starts-with(@class, 'today')]") == [today]
    assert not page.all("//tr[@class='is-today']")


@pytest.mark.parametrize(
    ("word", "written_out"),
    [
        ("trade_in", "Trade in"),
        ("ev_charging", "EV charging"),
        ("suv", "SUV"),
        ("bev", "Electric"),
        ("x", "X"),
        ("", ""),
    ],
)
def test_words_of_the_wire_are_written_as_people_write_them(word: str, written_out: str) -> None:
    assert label_of(word) == written_out


def test_unknown_fees_are_not_said_to_be_none() -> None:
    """Absent fees are not known; an empty list says that there are none (docs/protocol.md#rooftop)."""
    assert "Mandatory fees" not in shown(with_rooftop()).html
    assert "Mandatory fees" in shown(with_rooftop(fees=())).html


def test_a_dealer_of_whom_only_the_name_is_known_has_a_whole_page() -> None:
    page = shown(BARE, Facets(), 0, updated_at=None)
    assert page.texts("//article") == ["Plain Cars"]
    assert page.texts("//h2") == ["In stock", "Where to find us", "What your AI agent can ask us", "For developers"]
    assert not page.all("//article//*[not(node())]"), "no empty element is left where data is missing"


def test_sixty_makes_and_endless_names_are_all_there() -> None:
    page = shown(facets=MANY_MAKES, total=5000)
    assert len(page.all("//h3[text()='By make']/..//li")) == 60
    assert any(LONG in text for text in page.texts("//span[@class='bar-label']"))


def test_every_skill_has_plain_words() -> None:
    assert PAGE.texts("//section[@id='agents']//code") == [skill.id for skill in SKILLS]
    assert len([text for text in PAGE.texts("//section[@id='agents']//blockquote") if text]) == len(SKILLS)


def test_only_enabled_skills_are_offered_and_those_that_ask_for_a_token_say_so() -> None:
    """See docs/protocol.md#message-send, docs/protocol.md#http."""
    facts = facts_of((SKILLS[0], SKILLS[4]), bearer=frozenset({"lead.submit"}))
    page = read_page(home_page(POTOMAC, STOCK, TOTAL, facts, updated_at=UPDATED, now=FRIDAY_NOON))
    assert page.texts("//p[@class='skill-id']") == ["dealer.information", "lead.submit asks for a token"]


def test_one_vehicle_at_one_location_is_said_in_the_singular() -> None:
    page = shown(replace(POTOMAC, rooftops=POTOMAC.rooftops[:1]), Facets(makes=[TextCount("Honda", 1)]), 1)
    assert page.texts("//dl[@class='figures']//dt") == ["vehicle in stock", "location"]
