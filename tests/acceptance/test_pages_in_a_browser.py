"""Both pages of the running service in a real browser, Debian's Chromium, that `js/look.js` drives."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urlsplit

import httpx
import pytest
from tests.acceptance.asking import asked
from tests.acceptance.dealers import stock_of_three, stocked_dealer
from tests.acceptance.running import serving
from tests.acceptance.test_javascript_client import JS, installed

pytestmark = [pytest.mark.outside_protocol("the HTML pages"), pytest.mark.soak]

MAKES = [f"Make {letter}" for letter in "ABCDEFGHIJKLMN"]
LONG_NAME = "Acceptance Motors of Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"
ROOFTOP = f"""
[[rooftops]]
name = "{LONG_NAME}"
timezone = "America/Denver"
feed_ids = ["WEST"]
website = "https://www.example.com"
capabilities = ["sales", "service"]
fees = [{{ name = "Documentation fee", amount = 85 }}]

[rooftops.phones]
sales = "+1 202 555 0123"

[rooftops.emails]
sales = "the-department-that-sells-vehicles-of-every-kind@example.com"
"""
"""A rooftop with links to elsewhere, and with words that are wider than a telephone."""
Look = dict[str, Any]
"""What the browser saw of one address on one screen, in one colour scheme; with or without scripts."""

PAGES = ("/", "/docs")
TEXT_CONTRAST, RING_CONTRAST = 4.5, 3.0
"""WCAG 2.2, 1.4.3 and 1.4.11."""


class Seen(NamedTuple):
    """The service's address and what the browser saw there."""

    url: str
    looks: list[Look]

    def of(self, page: str, **wanted: object) -> list[Look]:
        found = [
            look
            for look in self.looks
            if look["address"] == self.url + page and all(look[name] == value for name, value in wanted.items())
        ]
        assert found
        return found


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("GAP: no Chromium here, so the pages were not tried in a browser")
    node = installed()
    unit = {"condition": "used", "year": 2020, "model": "Plain", "price": 20_000, "dealer_id": "WEST", "body": "suv"}
    more = [unit | {"vin": f"1HGCY2F5XRA{n:06}", "stock": f"M{n}", "make": make} for n, make in enumerate(MAKES)]
    with serving(stocked_dealer(tmp_path_factory.mktemp("browser"), ROOFTOP, stock_of_three() + more)) as running:
        done = subprocess.run(
            [node, "look.js", *(running.url + page for page in PAGES)],
            cwd=JS,
            env=os.environ | {"CHROMIUM": chromium},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield Seen(running.url, json.loads(done.stdout))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_without_an_error_a_policy_violation_or_a_failed_request(seen: Seen, page: str) -> None:
    assert [trouble for look in seen.of(page) for trouble in look["troubles"]] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fetches_itself_and_its_stylesheet_and_nothing_from_another_host(seen: Seen, page: str) -> None:
    for look in seen.of(page):
        fetched = [address.partition("?")[0] for address in look["fetched"]]
        assert fetched == [seen.url + page, f"{seen.url}/static/style.css"]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("screen", ["desk", "phone"])
def test_nothing_scrolls_sideways_at_1280_and_at_390_pixels(seen: Seen, page: str, screen: str) -> None:
    assert {look["beyond"] for look in seen.of(page, screen=screen)} == {0}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_on_this_host_leads_somewhere(seen: Seen, page: str) -> None:
    here = {link for link in seen.of(page)[0]["links"] if urlsplit(link).netloc == urlsplit(seen.url).netloc}
    addresses = {urldefrag(link)[0] for link in here}
    assert len(addresses) > 5
    answers = {address: httpx.get(address, timeout=120, verify=False) for address in addresses}
    assert {address: answer.status_code for address, answer in answers.items()} == dict.fromkeys(addresses, 200)
    for address, anchor in (urldefrag(link) for link in here):
        assert not anchor or f'id="{anchor}"' in answers[address].text, anchor


def test_the_stock_counts_shown_are_those_of_the_facets(seen: Seen) -> None:
    facets = asked(seen.url, "inventory.facets")

    def counted(name: str, **spelled: str) -> dict[str, int]:
        return {spelled.get(entry["value"], entry["value"]): entry["count"] for entry in facets[name]}

    for look in seen.of("/"):
        assert look["counts"] == {
            "By make": counted("makes"),
            "Condition": counted("conditions", new="New", used="Used", cpo="Certified pre-owned"),
            "Body styles": counted("bodies", suv="SUV"),
            "Fuel": counted("fuels", hybrid="Hybrid", bev="Electric"),
        }
        for rooftop in facets["rooftops"]:
            assert f"{rooftop['count']} in stock here" in look["text"].partition(rooftop["value"])[2]


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_and_link_has_enough_contrast(seen: Seen, page: str, scheme: str) -> None:
    for look in seen.of(page, colorScheme=scheme, javaScriptEnabled=True):
        assert {text["link"] for text in look["texts"]} == {True, False}
        assert [text for text in look["texts"] if text["ratio"] < TEXT_CONTRAST] == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tab_key_reaches_every_link_and_fold_in_order_and_shows_a_ring(seen: Seen, page: str, scheme: str) -> None:
    (look,) = seen.of(page, colorScheme=scheme, screen="desk", javaScriptEnabled=True)
    assert [stop["stop"] for stop in look["reached"]] == list(range(len(look["stops"])))
    dim = [stop["ring"] < 2 or stop["contrast"] < RING_CONTRAST or not stop["seen"] for stop in look["reached"]]
    assert [name for name, bad in zip(look["stops"], dim, strict=True) if bad] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_the_same_with_scripts_switched_off(seen: Seen, page: str) -> None:
    having = seen.of(page, javaScriptEnabled=True)[0]
    (without,) = seen.of(page, javaScriptEnabled=False)
    for name in ("text", "counts", "links", "beyond"):
        assert without[name] == having[name]
