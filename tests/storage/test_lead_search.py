"""Which leads a search finds. On both databases."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from typing import Any

import pytest
from tests.storage.calls import read
from tests.storage.current import make_current
from tests.storage.samples import CIPHER, DEALER, MONDAY, TUESDAY, WEDNESDAY, consent, lead
from tests.storage.service_role import prepared_schema

from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.storage.deliveries.outbox import enqueue
from dealer_agent.storage.leads import lead_search
from dealer_agent.storage.leads.lead_search import FoundLeads, LeadFilter, find_leads
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.stored_leads import append_to_lead, record_lead
from dealer_agent.storage.privacy.erasure import erase_lead
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("the search of leads")

FIRST, SECOND, THIRD = (f"01KE7AQ2N0V5X3J8R6T4Y9W1Z{letter}" for letter in "ABC")


def stored(writer: LeadWriter, lead_id: str, at: datetime, customer: dict[str, Any], **more: Any) -> None:
    encoded = json.dumps({"first_name": "Robin", "last_name": "Example", **customer}).encode()

    def job(tx: Transaction) -> None:
        record = lead(lead_id, at, customer=encoded, **more)
        contacts = [f"email:{customer['email']}"] if "email" in customer else [f"phone:{customer['phone']}"]
        record_lead(tx, record, consent(at), contacts=contacts, vehicle_key=None)

    writer.submit(DEALER, job).result(60)


def store_three(writer: LeadWriter) -> None:
    """Stores three leads of different customers, a day apart."""
    claimed = b'{"type":"lead.submit.request","vehicle_of_interest":{"vin":"5YJ3E1EA8PF000003"}}'
    stored(writer, FIRST, MONDAY, {"last_name": "Müller-Lüdenscheidt", "email": "first@example.com"}, stock="H-77")
    stored(writer, SECOND, TUESDAY, {"phone": "+12025550123"}, source_agent="Other Agent", payload=claimed)
    stored(writer, THIRD, WEDNESDAY, {"email": "third@example.com"}, vin="1HGCY2F57RA000001")
    change = json.dumps({"customer": {"first_name": "Alexandra", "last_name": "Sample"}}).encode()
    writer.submit(DEALER, lambda tx: append_to_lead(tx, THIRD, change)).result(60)
    writer.submit(DEALER, lambda tx: enqueue(tx, SECOND, [NewDelivery("lead", "Ridgeline North", "crm")])).result(60)


@pytest.fixture
def three(store: Store, writer: LeadWriter) -> Store:
    """Three leads."""
    store_three(writer)
    return store


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three leads, for tests that only read."""
    with ExitStack() as closing_all:
        if request.param == "postgresql":
            schemas = prepared_schema(request.getfixturevalue("postgresql_server"))
            _, url = closing_all.enter_context(schemas)
        else:
            url = f"sqlite:///{tmp_path_factory.mktemp('searched')}/dealer.db"
            make_current(url)
        store = closing_all.enter_context(Store.open(url, CIPHER))
        with closing(store.lead_writer()) as writer:
            store_three(writer)
        yield store


def found_by(store: Store, limit: int = 10, **sought: Any) -> FoundLeads:
    return read(store, DEALER, find_leads, LeadFilter(**sought), limit)


@pytest.mark.parametrize(
    ("sought", "expected"),
    [
        ({}, [THIRD, SECOND, FIRST]),
        ({"text": "müller-lüden"}, [FIRST]),
        ({"text": "ROBIN"}, [THIRD, SECOND, FIRST]),
        ({"text": "robin müller"}, [FIRST]),
        ({"text": "alexandra"}, [THIRD]),
        ({"text": "third@ex"}, [THIRD]),
        ({"text": "third@example.com", "contact": "email:third@example.com"}, [THIRD]),
        ({"text": "(202) 555-0123", "contact": "phone:+12025550123"}, [SECOND]),
        ({"text": "202.555.01"}, [SECOND]),
        ({"text": "h-77"}, [FIRST]),
        ({"text": "2f57ra0"}, [THIRD]),
        ({"text": "5yj3e1"}, [SECOND]),
        ({"text": "other agent"}, [SECOND]),
        ({"text": SECOND.lower()}, [SECOND]),
        ({"text": "nobody"}, []),
        ({"text": "555"}, []),
        ({"since": TUESDAY}, [THIRD, SECOND]),
        ({"until": TUESDAY}, [FIRST]),
        ({"since": TUESDAY, "until": WEDNESDAY, "text": "robin"}, [SECOND]),
        ({"before": SECOND}, [FIRST]),
        ({"before": THIRD, "text": "example"}, [SECOND, FIRST]),
        ({"state": "waiting"}, [SECOND]),
        ({"state": "waiting", "text": "robin"}, [SECOND]),
        ({"state": "sent"}, []),
        ({"state": "erased"}, []),
    ],
    ids=str,
)
def test_a_search_finds_exactly_the_leads_that_match(
    searched: Store, sought: dict[str, Any], expected: list[str]
) -> None:
    assert [each.lead_id for each in found_by(searched, **sought).leads] == expected


def test_an_erased_lead_is_found_by_its_state_and_its_id_and_not_by_a_name(three: Store) -> None:
    with three.lock(DEALER) as tx:
        erase_lead(tx, FIRST, consent_too=True)
    assert [each.lead_id for each in found_by(three, state="erased").leads] == [FIRST]
    assert [each.lead_id for each in found_by(three, text=FIRST).leads] == [FIRST]
    assert found_by(three, text="müller").leads == []


def test_a_contact_point_is_found_by_its_hash_and_opens_no_other_lead(three: Store) -> None:
    found = found_by(three, text="third@example.com", contact="email:third@example.com")
    assert (found.opened, found.incomplete) == (1, False)
    assert found_by(three, text="alexandra").opened == 3


def test_a_search_is_bounded_and_says_so(three: Store, writer: LeadWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead_search, "PAGE", 2)
    assert [each.lead_id for each in found_by(three, text="müller").leads] == [FIRST], "it reads page after page"
    sought = LeadFilter(text="müller")
    assert read(three, DEALER, find_leads, sought, 10, most=2) == FoundLeads([], 2, incomplete=True, last=SECOND)
    assert found_by(three, text="alexandra", limit=1).incomplete is False


def test_the_leads_of_another_dealer_are_not_found(three: Store) -> None:
    three.check_keys("valley")
    with three.read("valley") as tx:
        for sought in (LeadFilter(), LeadFilter(text="robin"), LeadFilter(text=FIRST)):
            assert find_leads(tx, sought, 10).leads == []
