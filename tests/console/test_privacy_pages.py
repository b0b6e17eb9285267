"""The page of privacy: find a customer, prove and export the consent, withdraw, erase; and the access log."""

import pytest
from tests.console.browsers import DEALER, ROOT
from tests.console.conftest import SignedIn
from tests.console.filled import page, send_lead
from tests.server.dealership import Dealership
from tests.storage.calls import read

from dealer_agent.console.pages import privacy
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.accesses import list_accesses
from dealer_agent.storage.privacy.consent_evidence import check_evidence

pytestmark = pytest.mark.outside_protocol("console")

JORDAN = {"contact": "Jordan@Example.com"}


def actions(console: Dealership) -> list[str]:
    """The access log, oldest first."""
    with console.store() as store:
        return [each.action for each in reversed(read(store, DEALER, list_accesses, 100))]


def test_a_customer_is_found_by_an_address_or_a_number(console: Dealership, signed_in: SignedIn) -> None:
    manager, lead_id = signed_in("manager"), send_lead(console)
    for contact in ("Jordan@Example.com", "(202) 555-0123"):
        found = manager.post(f"{ROOT}/privacy/find", {"contact": contact})
        assert f"{ROOT}/leads/{lead_id}" in found.text
    assert "No lead has this" in manager.post(f"{ROOT}/privacy/find", {"contact": "else@example.com"}).text
    assert manager.post(f"{ROOT}/privacy/find", {"contact": "Jordan"}).status_code == 422
    assert actions(console) == ["console: search of a person"] * 3


def test_the_consent_is_proved_and_its_record_exported(console: Dealership, signed_in: SignedIn) -> None:
    manager, lead_id = signed_in("manager"), send_lead(console)
    proof = manager.post(f"{ROOT}/privacy/proof", JORDAN).text
    assert "Share my name and e-mail address with this dealer." in proof
    assert "Jordan Sample" in proof
    exported = manager.post(f"{ROOT}/privacy/export", JORDAN)
    checked = check_evidence(exported.content.splitlines())
    assert {event.lead_id for event in checked.events} == {lead_id}
    assert manager.post(f"{ROOT}/privacy/export", {"contact": "else@example.com"}).status_code == 422
    assert actions(console) == ["console: proof of consent", "console: export of a consent record"]


def test_a_withdrawal_is_recorded_for_the_customer(console: Dealership, signed_in: SignedIn) -> None:
    manager, lead_id = signed_in("manager"), send_lead(console)
    assert manager.post(f"{ROOT}/privacy/withdraw", JORDAN).status_code == 422, "no channel was chosen"
    withdrawn = manager.post(f"{ROOT}/privacy/withdraw", {**JORDAN, "channel": ["email"], "reason": "Called us"})
    assert withdrawn.headers["location"] == f"{ROOT}/privacy?said=withdrawn"
    shown = page(manager, "leads", lead_id)
    assert "May be contacted now by: <strong>no channel</strong>" in shown
    assert "Consent withdrawn by manager@example.com: email" in shown
    assert "Called us" in shown


def test_a_person_is_erased_with_all_leads(console: Dealership, signed_in: SignedIn) -> None:
    manager = signed_in("manager")
    jordan = [send_lead(console, source_agent=name) for name in ("One", "Two")]
    pat = send_lead(console, first_name="Pat")
    asked = manager.post(f"{ROOT}/privacy/erase", JORDAN).text
    assert all(each in asked for each in jordan)
    assert f"{ROOT}/leads/{pat}/erase" in asked, "the phone number is the same"
    assert manager.post(f"{ROOT}/privacy/erase/confirmed", JORDAN).status_code == 422
    erased = manager.post(f"{ROOT}/privacy/erase/confirmed", {**JORDAN, "sure": "yes", "consent_too": "yes"})
    assert "The customer is erased" in erased.text
    with console.store() as store:
        left = {each: read(store, DEALER, get_lead, each) for each in (*jordan, pat)}
    assert {each for each, lead in left.items() if lead and lead.lead.customer} == {pat}
    assert "No lead has this" in manager.post(f"{ROOT}/privacy/find", JORDAN).text


def test_the_owner_reads_the_access_log(
    console: Dealership, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(privacy, "ON_A_PAGE", 2)
    owner, manager, lead_id = signed_in(), signed_in("manager"), send_lead(console)
    page(manager, "leads", lead_id)
    for _ in range(2):
        manager.post(f"{ROOT}/privacy/find", JORDAN)
    newest = page(owner, "privacy", "log")
    assert newest.count("console: search of a person") == 2
    assert "lead opened" not in newest
    older = newest.partition("log?before=")[2].partition('"')[0]
    assert "console: lead opened" in page(owner, "privacy", "log", query=f"?before={older}")
    assert manager.get(f"{ROOT}/privacy/log").status_code == 403
