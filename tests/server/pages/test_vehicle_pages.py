"""The pages about vehicles of the running service: the list, a vehicle, and what is at no address."""

import json
import re
from html import unescape

import pytest
from tests.server.conftest import OpenDealership
from tests.server.dealership import ACCORD, SOLD, Dealership
from tests.server.pages.conftest import Page, read_page

from dealer_agent.inventory.listing import RemovedUnit
from dealer_agent.server.pages.vehicles import VEHICLES_ON_A_PAGE, Query

pytestmark = pytest.mark.outside_protocol("the HTML pages")

HOSTILE = '<script>alert(1)</script>"onload="'


def page_at(opened: Dealership, path: str) -> Page:
    answer = opened.get(path)
    assert answer.status_code == 200, answer.text
    return read_page(answer.text)


def cars(page: Page) -> list[str]:
    return page.texts("//li[contains(@class, 'car')]//h3")


def address_of_accord(opened: Dealership) -> str:
    vehicle_id = opened.ask("inventory.vehicle", vin=ACCORD)["vehicle_id"]
    return f"/vehicles/{vehicle_id}"


def test_the_list_shows_all_vehicles_in_pages_that_link_to_each_other(dealership: Dealership) -> None:
    total = dealership.ask("inventory.search")["total"]
    seen: list[str] = []
    path: str | None = "/vehicles"
    while path is not None:
        page = page_at(dealership, path)
        assert len(cars(page)) <= VEHICLES_ON_A_PAGE
        seen += page.values("href")
        path = next((unescape(str(link.get("href"))) for link in page.all("//a[@rel='next']")), None)
    assert len({address for address in seen if address.startswith("/vehicles/")}) == total
    assert dealership.get("/vehicles?page=99").status_code == 404


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("make=Honda", ["2024 Honda Accord"]),
        ("q=leaf", ["2019 Nissan Leaf"]),
        ("condition=cpo&fuel=bev", ["2019 Nissan Leaf"]),
        ("rooftop=Test+Motors+North&price_max=30000", ["2024 Honda Accord"]),
        ("price_max=nothing&make=Honda", ["2024 Honda Accord"]),
        ("make=Nobody", []),
    ],
)
def test_filters_choose_vehicles_and_stay_chosen_in_the_form(
    dealership: Dealership, query: str, found: list[str]
) -> None:
    page = page_at(dealership, f"/vehicles?{query}")
    assert cars(page) == found
    chosen = [str(option.get("value")) for option in page.all("//option[@selected]") if option.get("value")]
    assert all(value in query.replace("+", " ") for value in chosen)
    assert "noindex" in page.html


def test_the_orders_are_those_of_the_search(dealership: Dealership) -> None:
    prices = page_at(dealership, "/vehicles?sort=price-down&price_max=90000").texts("//p[@class='price']")
    amounts = [int(price.strip("$").replace(",", "")) for price in prices]
    assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "page=1234567", "q=" + "a" * 3000, "&".join("q=1" for _ in range(40))]
)
def test_a_query_that_no_link_has_is_not_answered(dealership: Dealership, query: str) -> None:
    assert dealership.get(f"/vehicles?{query}").status_code == 404


def test_what_a_person_types_is_shown_as_text(dealership: Dealership) -> None:
    answer = dealership.request("GET", "/vehicles?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E%22onload%3D%22")
    assert "<script>alert" not in answer.text
    assert read_page(answer.text).all("//input[@id='q']")[0].get("value") == HOSTILE


def test_a_vehicle_has_its_photos_its_price_in_lines_and_where_it_is(dealership: Dealership) -> None:
    page = page_at(dealership, address_of_accord(dealership))
    assert page.texts("//h1") == ["2024 Honda Accord"]
    (photo,) = page.all("//img")
    assert (photo.get("src"), photo.get("referrerpolicy")) == ("https://example.com/a.jpg", "no-referrer")
    assert page.texts("//div[@class='total']/dd") == ["$28,500"]
    assert "Includes Documentation fee $399." in page.texts("//p[@class='quiet']")[0]
    facts = dict(zip(page.texts("//dl[@class='facts']//dt"), page.texts("//dl[@class='facts']//dd"), strict=True))
    assert (facts["Mileage"], facts["VIN"], facts["Condition"]) == ("9,000 miles", ACCORD, "Used")
    assert page.all("//a[@href='tel:+12025550140']")


def test_a_vehicle_is_a_car_with_an_offer_for_search_engines(dealership: Dealership) -> None:
    page = page_at(dealership, address_of_accord(dealership))
    found = re.search(r'<script type="application/ld\+json">(.*?)</script>', page.html, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert (data["@type"], data["vehicleIdentificationNumber"], data["brand"]["name"]) == ("Car", ACCORD, "Honda")
    assert data["mileageFromOdometer"] == {"@type": "QuantitativeValue", "value": 9000, "unitCode": "SMI"}
    offer = data["offers"]
    assert (offer["@type"], offer["price"], offer["priceCurrency"]) == ("Offer", 28500, "USD")
    assert offer["availability"] == "https://schema.org/InStock"
    assert offer["seller"]["name"] == "Test Motors North"
    assert data["url"].endswith(address_of_accord(dealership))


def test_pages_load_photos_over_https_and_nothing_else_from_elsewhere(dealership: Dealership) -> None:
    for path in ("/vehicles", address_of_accord(dealership)):
        answer = dealership.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "img-src 'self' data: https:;" in policy
        assert "script-src" not in policy
        assert dealership.get(path, if_none_match=answer.headers["etag"]).status_code == 304
    assert "https:" not in dealership.get("/").headers["content-security-policy"]


def test_people_get_a_page_where_nothing_is_and_programs_an_error(dealership: Dealership) -> None:
    for path, status in (("/nowhere", 404), ("/vehicles/nobody", 404), (sold_address(dealership), 410)):
        answer = dealership.get(path, accept="text/html,*/*")
        assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
        assert "/vehicles" in read_page(answer.text).values("href")
        assert dealership.get(path).headers["content-type"] == "application/json"
    assert dealership.request("POST", "/nowhere", headers={"accept": "text/html"}).headers["content-type"] == (
        "application/json"
    )


def sold_address(opened: Dealership) -> str:
    found = opened.service.dealer.catalogue.find(vin=SOLD)
    assert isinstance(found, RemovedUnit)
    return f"/vehicles/{found.vehicle_id}"


def test_a_dealer_whose_agents_need_tokens_shows_people_no_vehicles(open_dealership: OpenDealership) -> None:
    opened = open_dealership('[auth]\nmode = "bearer"\n')
    assert opened.get("/vehicles").status_code == 404
    assert "/vehicles" not in opened.get("/").text
    assert "/vehicles" not in opened.get("/nowhere", accept="text/html").text


def test_a_query_has_only_what_the_form_asks() -> None:
    query = Query.of({"make": " Honda ", "other": "x", "sort": "nothing", "price_max": "-1"})
    assert (dict(query.chosen), query.page) == ({"make": "Honda"}, 1)
    assert query.at(3) == "make=Honda&page=3"
