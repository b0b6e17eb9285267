"""The skills of the dealer's own agent in the console, with the wire beside them."""

import pytest
from tests.console.browsers import ROOT
from tests.console.conftest import SignedIn
from tests.console.test_stock_pages import HOSTILE, UNCLOSED, Tags
from tests.server.dealership import ACCORD, Dealership

from dealer_agent.protocol.skill import SKILLS
from dealer_agent.storage.seen_agents import ANONYMOUS_IDENTITY, seen_agents

pytestmark = pytest.mark.outside_protocol("console")

ASK = f"{ROOT}/ask"


@pytest.mark.parametrize("skill", [skill for skill in SKILLS if not skill.is_lead], ids=lambda skill: skill.id)
def test_the_own_service_answers_each_reading_skill(signed_in_there: SignedIn, skill: object) -> None:
    viewer = signed_in_there("viewer")
    skill_id = skill.id  # type: ignore[attr-defined]
    assert viewer.get(f"{ASK}?skill={skill_id}").status_code == 200
    page = viewer.post(ASK, {"skill": skill_id, "vin": ACCORD}).text
    assert "POST /message:send" in page
    assert f"{skill_id}.request" in page
    assert "HTTP 200" in page
    assert f"{skill_id}.response" in page


def test_filters_and_sort_are_sent_as_an_agent_sends_them(signed_in_there: SignedIn) -> None:
    form = {"skill": "inventory.search", "make": "Honda, Nissan", "price_max": "20000", "sort": "-price", "limit": "3"}
    page = signed_in_there("viewer").post(ASK, form).text
    assert "&#34;total&#34;: 1," in page
    assert "S-9" in page
    assert "N-7" not in page
    assert "&#34;order&#34;: &#34;desc&#34;" in page


def test_a_wrong_value_shows_the_refusal_that_an_agent_gets(signed_in_there: SignedIn) -> None:
    page = signed_in_there("viewer").post(ASK, {"skill": "inventory.search", "price_max": "cheap"}).text
    assert "HTTP 422" in page or "HTTP 400" in page
    assert "SCHEMA_VALIDATION_FAILED" in page


def test_a_lead_is_never_sent(console: Dealership, signed_in: SignedIn) -> None:
    viewer = signed_in("viewer")
    form = viewer.get(f"{ASK}?skill=lead.submit").text
    assert "Only a test: the lead is never sent." in form
    lead = {"skill": "lead.submit", "first_name": "Ada", "last_name": "Test", "email": "ada@example.com", "vin": ACCORD}
    assert "The form of the lead is right. It was not sent." in viewer.post(ASK, lead).text
    wrong = viewer.post(ASK, {**lead, "email": "nowhere"}).text
    assert "The service would refuse it" in wrong
    assert "SCHEMA_VALIDATION_FAILED" in wrong
    with console.store() as store, store.read("test-motors") as tx:
        assert seen_agents(tx)[ANONYMOUS_IDENTITY].leads == 0


def test_what_is_asked_here_is_not_counted_as_demand(console: Dealership, signed_in: SignedIn) -> None:
    signed_in("viewer").post(ASK, {"skill": "inventory.search", "make": "Honda"})
    assert not console.portal.call(console.service.counts.take).requests


def test_a_closed_skill_is_asked_with_a_token_that_the_page_does_not_repeat(
    console: Dealership, signed_in: SignedIn
) -> None:
    viewer = signed_in("viewer")
    wrong = viewer.post(ASK, {"skill": "inventory.search", "token": "dat_wrong"}).text
    assert "HTTP 401" in wrong
    assert "dat_wrong" not in wrong


@pytest.mark.parametrize("payload", [HOSTILE, UNCLOSED])
def test_what_a_person_or_a_feed_wrote_never_becomes_markup(signed_in_there: SignedIn, payload: str) -> None:
    page = signed_in_there("viewer").post(ASK, {"skill": "inventory.search", "query": payload, "make": payload}).text
    tags = Tags()
    tags.feed(page)
    assert (tags.scripts, tags.unsafe) == (2, [])


def test_an_unknown_skill_has_no_page(signed_in_there: SignedIn) -> None:
    assert signed_in_there("viewer").get(f"{ASK}?skill=lead.delete").status_code == 404
