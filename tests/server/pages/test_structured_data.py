"""The JSON-LD of the page at `/` (docs/protocol.md#discovery-json-ld)."""

import json
from datetime import date, datetime
from typing import Any

import pytest
from msgspec import UNSET, UnsetType
from tests.server.pages.conftest import Page, read_page
from tests.server.pages.samples import (
    BARE,
    FRIDAY_NOON,
    HOSTILE,
    HOSTILE_TEXT,
    MANY_MAKES,
    POTOMAC,
    STOCK,
    TOTAL,
    card_facts,
    profile,
)

from dealer_agent.dealers.opening import Holidays, SpecialDay, WeekHours
from dealer_agent.dealers.profile import DealerRooftop, Geo, Profile
from dealer_agent.protocol.responses import Facets
from dealer_agent.server.pages.home import home_page
from dealer_agent.server.pages.structured_data import MOST_MAKES, MOST_ROOFTOPS

pytestmark = pytest.mark.requirement("discovery-json-ld")

Node = dict[str, Any]

PLACE = {"name", "address", "geo", "telephone", "email", "url", "openingHoursSpecification", "department", "legalName",
         "parentOrganization", "hasOfferCatalog"}  # fmt: skip
PROPERTIES = {
    "AutoDealer": PLACE,
    "AutoRepair": PLACE,
    "AutoPartsStore": PLACE,
    "AutoBodyShop": PLACE,
    "LocalBusiness": PLACE,
    "Organization": {"name"},
    "PostalAddress": {"streetAddress", "addressLocality", "addressRegion", "postalCode", "addressCountry"},
    "GeoCoordinates": {"latitude", "longitude"},
    "OpeningHoursSpecification": {"opens", "closes", "dayOfWeek", "validFrom", "validThrough"},
    "OfferCatalog": {"name", "numberOfItems", "itemListElement"},
}
"""The types, each with those of its properties in schema.org (version 29) that the page may use."""


def check(node: Any) -> None:
    """Every object has a type and only properties of this type. No value is empty."""
    if isinstance(node, list):
        for item in node:
            check(item)
    elif isinstance(node, dict):
        names = set(node) - {"@type", "@id"}
        assert names <= PROPERTIES[node["@type"]], node
        for name in names:
            assert node[name] not in ("", None, {}), name
            check(node[name])


def data_of(page: Page) -> list[Node]:
    (script,) = page.all("//head/script[@type='application/ld+json']")
    data = json.loads(script.text or "")
    assert set(data) == {"@context", "@graph"}
    assert data["@context"] == "https://schema.org"
    check(data["@graph"])
    found: list[Node] = data["@graph"]
    return found


def data(dealer: Profile, facets: Facets = STOCK, total: int = TOTAL, now: datetime = FRIDAY_NOON) -> list[Node]:
    return data_of(read_page(home_page(dealer, facets, total, card_facts(), updated_at=None, now=now)))


def opening(**members: Any) -> list[Node]:
    rooftop = DealerRooftop(name="Plain Cars", timezone="America/New_York", **members)
    found: list[Node] = data(profile("Plain Cars", rooftop))[0]["openingHoursSpecification"]
    return found


def test_each_rooftop_is_an_auto_dealer() -> None:
    first, second = data(POTOMAC)
    assert [first["@type"], second["@type"]] == ["AutoDealer", "AutoDealer"]
    assert [first["@id"], second["@id"]] == ["#location-1", "#location-2"]
    assert second["name"] == "Potomac Powersports"
    assert second["parentOrganization"] == {"@type": "Organization", "name": "Potomac Motor Group"}
    assert second["url"] == "https://powersports.example.com"
    assert second["telephone"] == "+12025550120"
    assert second["address"] == {
        "@type": "PostalAddress",
        "streetAddress": "41 Sample Road, Unit 3",
        "addressLocality": "Fairfax",
        "addressRegion": "VA",
        "postalCode": "22030",
        "addressCountry": "US",
    }
    (service,) = first["department"]
    assert (service["@type"], service["name"]) == ("AutoRepair", f"{first['name']}: service")
    assert service["openingHoursSpecification"]


def test_a_location_is_there_only_if_it_is_known() -> None:
    places: tuple[Geo | UnsetType, ...] = (Geo(38.8, -77.1), UNSET)
    both = profile(
        "Plain Cars",
        *(DealerRooftop(name=f"Cars {n}", timezone="UTC", geo=geo) for n, geo in enumerate(places)),
    )
    known, unknown = data(both)
    assert known["geo"] == {"@type": "GeoCoordinates", "latitude": 38.8, "longitude": -77.1}
    assert "geo" not in unknown


def test_a_dealer_of_whom_only_the_name_is_known_has_no_empty_property() -> None:
    (bare,) = data(BARE, Facets(), 0)
    assert set(bare) == {"@type", "@id", "name", "parentOrganization", "hasOfferCatalog"}
    assert bare["hasOfferCatalog"] == {
        "@type": "OfferCatalog",
        "name": "Vehicles in stock",
        "numberOfItems": 0,
        "itemListElement": [],
    }


def test_the_stock_is_a_catalog_with_the_number_of_each_make() -> None:
    first, second = data(POTOMAC)
    assert first["hasOfferCatalog"]["numberOfItems"] == TOTAL
    assert first["hasOfferCatalog"]["itemListElement"][:2] == [
        {"@type": "OfferCatalog", "name": "Honda", "numberOfItems": 118},
        {"@type": "OfferCatalog", "name": "Toyota", "numberOfItems": 41},
    ]
    assert "hasOfferCatalog" not in second


@pytest.mark.parametrize(
    ("hours", "times"),
    [
        ("09:00-20:00", [("09:00", "20:00")]),
        ("09:00-12:00, 13:00-18:00", [("09:00", "12:00"), ("13:00", "18:00")]),
        ("18:00-02:00", [("18:00", "02:00")]),
        ("00:00-24:00", [("00:00", "23:59")]),
        ("closed", []),
    ],
)
def test_hours_are_those_of_the_week(hours: str, times: list[tuple[str, str]]) -> None:
    found = opening(hours={"sales": WeekHours(monday=hours, thursday=hours)})
    assert [(each["opens"], each["closes"]) for each in found] == times
    assert all(each["dayOfWeek"] == ["Monday", "Thursday"] for each in found)


@pytest.mark.parametrize(
    ("day", "hours", "times"),
    [
        ("2026-11-20", "10:00-14:00", [("10:00", "14:00")]),
        ("2026-12-03", "closed", [("00:00", "00:00")]),
        ("2026-11-19", "closed", []),
        ("2026-12-04", "closed", []),
        ("2026-11-27", "09:00-20:00", []),
    ],
    ids=["today", "the last day", "yesterday", "too far", "as in the week"],
)
def test_the_next_14_days_have_their_special_hours(day: str, hours: str, times: list[tuple[str, str]]) -> None:
    every_day = WeekHours(*["09:00-20:00"] * 7)
    found = opening(hours={"sales": every_day}, special_days=(SpecialDay(date=day, hours=hours),))
    special = [each for each in found if "validFrom" in each]
    assert [(each["opens"], each["closes"]) for each in special] == times
    assert all(each["validFrom"] == each["validThrough"] == day for each in special)


def test_a_public_holiday_is_a_special_day() -> None:
    found = opening(
        hours={"sales": WeekHours(*["09:00-20:00"] * 7)},
        holidays=Holidays(country="US", hours="closed"),
    )
    thanksgiving = date(2026, 11, 26)
    assert [each["validFrom"] for each in found if "validFrom" in each] == [thanksgiving.isoformat()]


def test_what_the_dealer_wrote_cannot_end_the_script() -> None:
    html = home_page(HOSTILE, MANY_MAKES, 10, card_facts(), updated_at=None, now=FRIDAY_NOON)
    start = html.index('<script type="application/ld+json">') + len('<script type="application/ld+json">')
    written = html[start : html.index("</script", start)]
    assert not set("<>&") & set(written)
    (place,) = data_of(read_page(html))
    assert place["name"] == HOSTILE_TEXT
    assert place["address"]["streetAddress"] == f"{HOSTILE_TEXT}, {HOSTILE_TEXT}"


def test_every_list_and_every_text_has_a_bound() -> None:
    many = profile("x" * 9000, *(DealerRooftop(name=f"{n} " + "x" * 9000, timezone="UTC") for n in range(80)))
    places = data(many, MANY_MAKES, 10)
    assert len(places) == MOST_ROOFTOPS
    assert len(places[0]["hasOfferCatalog"]["itemListElement"]) == MOST_MAKES
    assert len(places[0]["name"]) == len(places[0]["parentOrganization"]["name"]) == 500
