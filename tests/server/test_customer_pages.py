"""The pages behind the links in a customer's mail, over HTTP (docs/how-to/customer-links.md)."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import pytest
from tests.server.conftest import OpenDealership
from tests.server.dealership import DATABASE, NO_LIMITS, Dealership, error_of, message
from tests.server.pages.conftest import Page, read_page
from tests.skills.sample_dealers import everything_stored, table_away
from tests.storage.calls import lock_at

from dealer_agent.leads.customer_links import LONGEST_TOKEN, CustomerLinks, LinkPurpose
from dealer_agent.server.customer_routes import FORM_LIMIT_BYTES, MOST_FIELDS
from dealer_agent.server.service import Service
from dealer_agent.storage.privacy.erasure import erase_lead

EAST = "".join(
    [
        '[[rooftops]]\nname = "Test Motors East"\ntimezone = "America/Chicago"\n',
        '[rooftops.phones]\nsales = "+1 202 555 0142"\n[rooftops.hours.sales]\n',
        *(f'{day} = "09:00-18:00"\n' for day in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday")),
        'sunday = "09:00-18:00"\n[rooftops.visits.test_drive]\n',
    ]
)
PHONE = "+1 202-555-0142"
NOON = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT12:00:00-06:00")
LATER = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT15:00:00-06:00")
FORM = {"content-type": "application/x-www-form-urlencoded"}
ROBIN = {
    "first_name": "Robin",
    "last_name": "Zyxwvut",
    "email": "zyxwvut@example.com",
    "phone": "+1 202 555 0187",
}
SECRETS = ("Robin", "Zyxwvut", "zyxwvut@", "5550187", "Zyxwnotes", "Zyxwmessage", "Zyxwconsent")


class Booked(NamedTuple):
    """A running dealer with one confirmed visit."""

    on: Dealership
    lead_id: str
    appointment_id: str

    @property
    def service(self) -> Service:
        return self.on.service

    def path(self, purpose: LinkPurpose = "visit", ends_in: timedelta = timedelta(days=2), **more: Any) -> str:
        links = replace(self.service.links, **more)
        return links.path(purpose, self.lead_id, self.appointment_id, datetime.now(UTC) + ends_in)

    def get(self, path: str | None = None) -> httpx.Response:
        return self.on.request("GET", path or self.path())

    def post(self, path: str | None = None, **fields: str | list[str]) -> httpx.Response:
        body = urlencode(fields, doseq=True).encode()
        return self.on.request("POST", path or self.path(), content=body, headers=FORM)

    def stored(self) -> str:
        return everything_stored(f"sqlite:///{self.on.folder / DATABASE}")


@pytest.fixture
def book(open_dealership: OpenDealership) -> Callable[..., Booked]:
    def open_one(extra: str = NO_LIMITS, below: str = "") -> Booked:
        opened = open_dealership(extra + EAST)
        sent = message(
            "lead.submit",
            customer=ROBIN,
            appointment={"appointment_type": "test_drive", "appointment_at": NOON, "notes": "Zyxwnotes"},
            message="Zyxwmessage",
        )
        sent["message"]["parts"][0]["data"]["consent"] |= {
            "allowed_channels": ["email", "phone"],
            "consent_text": "Zyxwconsent",
        }
        answered = opened.post(sent, f"{below}/message:send").json()["message"]["parts"][0]["data"]["data"]
        assert answered["appointment"]["status"] == "confirmed"
        return Booked(opened, answered["lead_id"], answered["appointment"]["appointment_id"])

    return open_one


@pytest.fixture
def booked(book: Callable[..., Booked]) -> Booked:
    return book()


def page_of(answer: httpx.Response, status: int) -> Page:
    """A customer's page. Also checks what all these pages have in common."""
    assert answer.status_code == status
    headers = answer.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-robots-tag"] == "noindex, nofollow"
    assert headers["x-content-type-options"] == "nosniff"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "set-cookie" not in headers
    assert "access-control-allow-origin" not in headers
    for secret in SECRETS:
        assert secret.lower() not in answer.text.lower()
    return read_page(answer.text)


def chosen(page: Page) -> str:
    """The last free time that the page offers."""
    return str(page.all("//select[@name='start']//option[@value!='']")[-1].get("value"))


@pytest.mark.requirement("customer-links-get", "customer-links-private")
def test_a_link_shows_the_visit_without_customer_data_and_changes_nothing(booked: Booked) -> None:
    before = booked.stored()
    page = page_of(booked.get(), 200)
    assert page.texts("//h1") == ["Your test drive is confirmed"]
    facts = page.texts("//dl/div")
    assert "12:00 PM to 1:00 PM" in facts[0]
    assert facts[1] == "WhereTest Motors East"
    assert [button.get("value") for button in page.all("//form[@method='post']//button")] == ["move", "cancel"]
    contact = page_of(booked.get(booked.path("contact")), 200)
    assert contact.texts("//fieldset//label") == ["E-mail", "Phone calls"]
    for method in ("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for purpose in ("visit", "contact"):
            booked.on.request(method, f"{booked.path(purpose)}?do=cancel&channel=email", content=b"do=cancel")
    assert booked.stored() == before


@pytest.mark.requirement("customer-links-move")
def test_a_form_moves_the_visit_and_redirects_to_its_new_page(booked: Booked) -> None:
    start = chosen(page_of(booked.get(), 200))
    moved = booked.post(do="move", start=start)
    assert moved.status_code == 303
    assert (moved.headers["cache-control"], moved.content) == ("no-store", b"")
    page = page_of(booked.get(moved.headers["location"]), 200)
    shown = f"{datetime.fromisoformat(start):%I:%M %p}".lstrip("0")
    assert f", {shown} to " in page.texts("//dl/div")[0]
    gone = page_of(booked.get(), 410)
    assert gone.texts("//h1") == ["This visit was moved"]
    assert PHONE in gone.texts("//main")[0]
    assert page_of(booked.post(do="cancel"), 410).texts("//h1") == ["This visit was moved"]


@pytest.mark.requirement("customer-links-move")
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"do": "move", "start": LATER.replace("15:00:00", "03:00:00")}, 409),
        ({"do": "move", "start": "0002-01-01T00:00:00+00:00"}, 409),
        ({"do": "move", "start": "9998-12-31T23:59:59+00:00"}, 409),
        ({"do": "move", "start": LATER[:19]}, 400),
        ({"do": "move", "start": ""}, 400),
        ({"do": "move"}, 400),
        ({"do": "erase"}, 400),
        ({"do": ["cancel", "move"]}, 400),
        ({}, 400),
    ],
)
def test_an_invalid_form_changes_nothing_and_the_page_says_so(
    booked: Booked, fields: dict[str, Any], status: int
) -> None:
    before = booked.stored()
    page = page_of(booked.post(**fields), status)
    assert len(page.texts("//p[@role='alert']")) == 1
    assert page.all("//select[@name='start']")
    assert booked.stored() == before


@pytest.mark.requirement("customer-links-cancel")
def test_a_form_cancels_the_visit_once(booked: Booked) -> None:
    page = page_of(booked.post(do="cancel"), 200)
    assert page.texts("//h1") == ["Your test drive is cancelled"]
    for answer in (booked.get(), booked.post(do="cancel"), booked.post(do="move", start=LATER)):
        page = page_of(answer, 410)
        assert page.texts("//h1") == ["This visit is cancelled"]
        assert PHONE in page.texts("//main")[0]


@pytest.mark.requirement("customer-links-withdraw")
def test_a_form_withdraws_consent_for_the_channels_that_are_ticked(booked: Booked) -> None:
    path = booked.path("contact")
    offered = [str(box.get("value")) for box in page_of(booked.get(path), 200).all("//input[@name='channel']")]
    assert offered[0] == "email"
    assert page_of(booked.post(path), 400).texts("//p[@role='alert']")
    done = page_of(booked.post(path, channel=["email", "fax"]), 200)
    assert "We do not contact you by: E-mail" in done.texts("//main")[0]
    left = [box.get("value") for box in page_of(booked.get(path), 200).all("//input[@name='channel']")]
    assert left == offered[1:]
    page_of(booked.get(), 200)
    page_of(booked.post(path, channel=offered[1:]), 200)
    assert not page_of(booked.get(path), 200).all("//form")


@pytest.mark.requirement("customer-links-signed")
def test_a_link_that_this_dealer_did_not_sign_for_this_page_is_unknown(booked: Booked) -> None:
    path = booked.path()
    lead_id, appointment_id, until, signature = path.rpartition("/")[2].split(".")
    forged = [
        path[:-2],
        path[:-1] + ("A" if path[-2] != "A" else "Q") + path[-1],
        path.replace(until, str(int(until) + 1)),
        path.replace(lead_id, appointment_id),
        path.replace("/visit/", "/contact/"),
        f"/visit/{lead_id}.{appointment_id}.{until}",
        f"/visit/{lead_id}.{appointment_id}.{until}.",
        f"/visit/{signature}",
        "/visit/%FF%00",
        "/visit/" + "A" * (LONGEST_TOKEN + 1),
        booked.path(key=bytes(32)),
        booked.path(dealer_id="other-motors"),
        booked.path("contact").replace("/contact/", "/visit/"),
    ]
    before = booked.stored()
    for each in forged:
        for answer in (booked.get(each), booked.post(each, do="cancel", channel="email")):
            page = page_of(answer, 404)
            assert page.texts("//h1") == ["This link does not work"]
            assert "+1 202-555-0140" in page.texts("//main")[0], "the first rooftop's number"
    assert booked.stored() == before


@pytest.mark.requirement("customer-links-expire")
@pytest.mark.parametrize("purpose", ["visit", "contact"])
def test_a_link_works_until_the_days_after_the_visit_are_over(booked: Booked, purpose: LinkPurpose) -> None:
    valid = booked.service.links.valid
    assert valid == timedelta(days=30)
    page_of(booked.get(booked.path(purpose, timedelta(minutes=2) - valid)), 200)
    before = booked.stored()
    expired = booked.path(purpose, -valid)
    for answer in (booked.get(expired), booked.post(expired, do="cancel", channel="email")):
        page = page_of(answer, 410)
        assert page.texts("//h1") == ["This link has expired"]
        assert PHONE in page.texts("//main")[0]
    assert booked.stored() == before


@pytest.mark.requirement("customer-links-ended")
@pytest.mark.parametrize("purpose", ["visit", "contact"])
def test_the_links_of_an_erased_customer_show_how_to_reach_the_rooftop(booked: Booked, purpose: LinkPurpose) -> None:
    path = booked.path(purpose)
    with booked.on.store() as store:
        lock_at(datetime.now(UTC), store, "test-motors", erase_lead, booked.lead_id)
    for answer in (booked.get(path), booked.post(path, do="cancel", channel="email")):
        page = page_of(answer, 410)
        assert page.texts("//h1") == ["We no longer have any data about this visit"]
        assert PHONE in page.texts("//main")[0]


def test_a_body_that_is_not_a_small_form_changes_nothing(booked: Booked) -> None:
    before = booked.stored()
    for body in (b'{"do": "cancel"}', b"\xff\xfe", b"&".join([b"a=b"] * MOST_FIELDS + [b"do=cancel"])):
        page_of(booked.on.request("POST", booked.path(), content=body, headers=FORM), 400)
    large = b"do=cancel&x=" + b"x" * FORM_LIMIT_BYTES
    refused = booked.on.request("POST", booked.path(), content=large, headers=FORM)
    assert (refused.status_code, error_of(refused)["code"]) == (413, "SCHEMA_VALIDATION_FAILED")
    assert booked.stored() == before


@pytest.mark.requirement("customer-links-signed")
def test_wrong_links_count_against_the_rate_of_wrong_tokens(book: Callable[..., Booked]) -> None:
    booked = book(NO_LIMITS.replace('bad_tokens = ""', 'bad_tokens = "3/hour"'))
    statuses = [booked.get(f"/contact/guess-{number}").status_code for number in range(5)]
    assert statuses == [404, 404, 404, 429, 429]
    assert booked.get().status_code == 200, "a link that is signed still works"


def test_without_the_database_the_page_says_when_to_try_again(booked: Booked) -> None:
    with table_away(f"sqlite:///{booked.on.folder / DATABASE}", "appointments"):
        for answer in (booked.get(), booked.post(do="cancel")):
            assert page_of(answer, 503).texts("//h1") == ["This page does not work at the moment"]
    page_of(booked.get(), 200)


def test_a_link_has_the_public_address_and_works_below_a_base_path(book: Callable[..., Booked]) -> None:
    public = '[service]\npublic_url = "https://cars.example.com/shop"\nbase_path = "/agent"\n'
    booked = book(NO_LIMITS + public, "/agent")
    links: CustomerLinks = booked.service.links
    address = links.address("visit", booked.lead_id, booked.appointment_id, datetime.now(UTC) + timedelta(days=2))
    assert re.fullmatch(r"https://cars\.example\.com/shop/agent/visit/[\w.-]+", address)
    below = address.removeprefix("https://cars.example.com/shop")
    page = page_of(booked.get(below), 200)
    assert all(path.startswith("/shop/agent/") for path in page.values("href") if path.startswith("/"))
    moved = booked.post(below, do="move", start=chosen(page))
    assert moved.headers["location"].startswith("/shop/agent/visit/")


@pytest.mark.requirement("customer-links-signed")
def test_the_text_of_the_links_never_shows_their_key(booked: Booked) -> None:
    links = booked.service.links
    assert "key" not in repr(links)
    with pytest.raises(AttributeError):
        links.key = b""  # type: ignore[misc]
