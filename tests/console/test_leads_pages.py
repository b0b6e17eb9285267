"""The pages of leads: the list and the search, a lead and its time line, what people do with it, export and erasure."""

import csv
import io
import re

import msgspec
import pytest
from tests.console.browsers import DEALER, ROOT
from tests.console.conftest import SignedIn
from tests.console.filled import FORMULA, HOSTILE, NORTH, SOUTH, page, send_lead
from tests.server.dealership import Dealership
from tests.storage.calls import read

from dealer_agent.console.pages import leads as leads_page
from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.leads.records import Addition, AgentChange
from dealer_agent.storage.deliveries.outbox import DeliveryRecord, enqueue, list_deliveries
from dealer_agent.storage.leads.notes import notes_of
from dealer_agent.storage.leads.quarantine import quarantine_lead, read_review
from dealer_agent.storage.leads.stored_leads import append_to_lead
from dealer_agent.storage.privacy.accesses import Access, list_accesses

pytestmark = pytest.mark.outside_protocol("console")


def accesses(console: Dealership) -> list[Access]:
    """The access log, newest first."""
    with console.store() as store:
        return read(store, DEALER, list_accesses, 100)


def deliveries(console: Dealership, lead_id: str) -> list[DeliveryRecord]:
    with console.store() as store, store.read(DEALER) as tx:
        return list_deliveries(tx, 100, lead_id=lead_id)


def listed(text: str) -> list[str]:
    """The ids of the leads in a list, in its order."""
    return list(dict.fromkeys(re.findall(rf'{ROOT}/leads/(\w{{26}})"', text)))


def test_a_name_is_masked_until_the_lead_is_opened_and_the_opening_is_recorded(
    console: Dealership, signed_in: SignedIn
) -> None:
    sam, lead_id = signed_in("sales", email="sam@example.com"), send_lead(console)
    shown = page(sam, "leads")
    assert "J. S." in shown
    assert "Jordan" not in shown
    assert accesses(console) == []
    opened = page(sam, "leads", lead_id)
    assert "Jordan" in opened
    assert "+12025550123 (no consent to use it)" in opened, "the customer allowed e-mail only"
    assert "<title>Lead " in opened, "no title has personal data"
    (entry,) = accesses(console)
    assert (entry.actor, entry.action, entry.lead_id) == ("sam@example.com", "console: lead opened", lead_id)


def test_a_viewer_sees_the_list_and_opens_nothing(console: Dealership, signed_in: SignedIn) -> None:
    viewer, lead_id = signed_in("viewer"), send_lead(console)
    shown = page(viewer, "leads")
    assert "J. S." in shown
    assert lead_id not in shown
    assert viewer.get(f"{ROOT}/leads/{lead_id}").status_code == 403
    assert viewer.post(f"{ROOT}/leads/search", {"text": "Jordan"}).status_code == 403


def test_what_strangers_write_never_becomes_markup_or_a_link(console: Dealership, signed_in: SignedIn) -> None:
    link = "https://evil.example javascript:alert(3)"
    lead_id = send_lead(
        console,
        customer={"first_name": HOSTILE, "last_name": HOSTILE, "email": "x@example.com"},
        source_agent=f"{HOSTILE} verified",
        message=f"{HOSTILE} {link}",
        vehicle_of_interest={"make": HOSTILE, "model": link, "stock": HOSTILE, HOSTILE: HOSTILE},
        trade_in={"make": HOSTILE, "model": HOSTILE},
        appointment={"appointment_type": "sales", "notes": HOSTILE},
    )
    owner = signed_in()
    owner.post(f"{ROOT}/leads/{lead_id}/note", {"text": HOSTILE})
    pages = [
        page(owner),
        page(owner, "leads"),
        page(owner, "leads", lead_id),
        page(owner, "leads", lead_id, "erase"),
        page(owner, "visits"),
        owner.post(f"{ROOT}/leads/search", {"text": HOSTILE}).text,
        owner.post(f"{ROOT}/privacy/find", {"contact": "x@example.com"}).text,
        owner.post(f"{ROOT}/privacy/proof", {"contact": "x@example.com"}).text,
    ]
    for text in pages:
        assert "<img" not in text
        assert "<script>" not in text
        assert not re.search(r'(href|action|src)="[^"]*(evil|javascript)', text)
        assert len(text) < 100_000
    assert "&lt;script&gt;alert(1)" in pages[2]
    assert "says so itself and is not verified" in pages[2]


def test_a_salesperson_sees_the_leads_of_their_rooftops_only(console: Dealership, signed_in: SignedIn) -> None:
    sam = signed_in("sales", rooftops=(SOUTH,))
    north, south = send_lead(console), send_lead(console, rooftop=SOUTH, first_name="Pat")
    assert listed(page(sam, "leads")) == [south]
    assert listed(page(sam)) == [south]
    assert sam.get(f"{ROOT}/leads/{south}").status_code == 200
    assert listed(sam.post(f"{ROOT}/leads/search", {"text": "Sample"}).text) == [south]
    assert sam.get(f"{ROOT}/leads/{north}").status_code == 404
    acts = {"mark": {"mark": "spam"}, "note": {"text": "Hello"}, "send-again": {}, "retry": {}}
    acts["visit"] = {"kind": "sales", "at": "2027-01-04T10:00"}
    for act, form in acts.items():
        assert sam.post(f"{ROOT}/leads/{north}/{act}", form).status_code == 404, act


@pytest.mark.parametrize("text", ["jord", "Jordan@example.com", "(202) 555-0123", "555-0123"])
def test_a_search_finds_by_name_address_and_number(console: Dealership, signed_in: SignedIn, text: str) -> None:
    lead_id, owner = send_lead(console), signed_in()
    send_lead(console, customer={"first_name": "Pat", "last_name": "Else", "email": "pat@example.com"})
    found = owner.post(f"{ROOT}/leads/search", {"text": text})
    assert listed(found.text) == [lead_id]
    assert "J. S." in found.text
    (entry,) = accesses(console)
    assert entry.action.startswith("console: search of ")
    assert text not in entry.action


def test_a_search_is_bounded_and_goes_on_with_older_leads(
    console: Dealership, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dealer_agent.storage.leads.lead_search.PAGE", 1)
    monkeypatch.setattr(leads_page, "MOST_SEARCHED", 1)
    owner, wanted = signed_in(), send_lead(console)
    send_lead(console, customer={"first_name": "Pat", "last_name": "Else", "email": "pat@example.com"})
    first = owner.post(f"{ROOT}/leads/search", {"text": "jordan"}).text
    assert "No such leads among the newest 1" in first
    older = re.search(r'name="before" value="(\w{26})"', first)
    assert older is not None
    assert listed(owner.post(f"{ROOT}/leads/search", {"text": "jordan", "before": older[1]}).text) == [wanted]


def test_the_list_has_pages_and_filters(
    console: Dealership, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leads_page, "ON_A_PAGE", 2)
    owner = signed_in()
    first, second, third = [send_lead(console, first_name=name) for name in ("Ann", "Bob", "Cem")]
    shown = page(owner, "leads")
    assert listed(shown) == [third, second]
    older = re.search(r'leads\?before=(\w{26})"', shown)
    assert older is not None
    assert listed(page(owner, "leads", query=f"?before={older[1]}")) == [first]
    owner.post(f"{ROOT}/leads/{second}/mark", {"mark": "sold"})
    assert listed(page(owner, "leads", query="?mark=sold&days=7")) == [second]
    assert listed(page(owner, "leads", query="?mark=none&agent=anonymous")) == [third, first]
    assert listed(page(owner, "leads", query="?state=undeliverable")) == []
    assert listed(page(owner, "leads", query="?mark=unknown&state=unknown&days=x")) == [third, second]
    assert owner.get(f"{ROOT}/leads?agent=nobody").status_code == 422


def test_people_mark_a_lead_and_write_notes_about_it(console: Dealership, signed_in: SignedIn) -> None:
    sam, lead_id = signed_in("sales", email="sam@example.com"), send_lead(console)
    marked = sam.post(f"{ROOT}/leads/{lead_id}/mark", {"mark": "reached"})
    assert marked.headers["location"] == f"{ROOT}/leads/{lead_id}?said=lead-marked"
    assert sam.post(f"{ROOT}/leads/{lead_id}/mark", {"mark": "loved"}).status_code == 422
    assert sam.post(f"{ROOT}/leads/{lead_id}/note", {"text": "Calls back on Monday"}).status_code == 303
    assert sam.post(f"{ROOT}/leads/{lead_id}/note", {"text": " "}).status_code == 422
    shown = page(sam, "leads", lead_id)
    assert "Marked as reached by sam@example.com" in shown
    assert "Calls back on Monday" in shown


def test_a_delivery_is_sent_again_or_tried_again_only_at_its_own_lead(console: Dealership, signed_in: SignedIn) -> None:
    """The delivery waits, so it can be tried again. Nothing of the lead was sent, so the lead cannot be sent again.

    The other lead has no delivery.
    """
    sam, lead_id, other = signed_in("sales"), send_lead(console), send_lead(console, first_name="Pat")
    with console.store() as store, store.lock(DEALER) as tx:
        (delivery_id,) = enqueue(tx, lead_id, [NewDelivery("lead", NORTH, "crm")])
    refused = sam.post(f"{ROOT}/leads/{lead_id}/send-again")
    assert refused.status_code == 422
    assert "can be sent again" in refused.text
    assert "dealer-agent" not in refused.text.partition("<main")[2], "a page names no commands"
    assert sam.post(f"{ROOT}/leads/{other}/send-again", {"delivery": delivery_id}).status_code == 404
    assert sam.post(f"{ROOT}/leads/{lead_id}/send-again", {"delivery": delivery_id}).status_code == 303
    assert sam.post(f"{ROOT}/leads/{lead_id}/retry").status_code == 303
    assert sam.post(f"{ROOT}/leads/{other}/retry").status_code == 409
    assert "The lead to crm, Test Motors North" in page(sam, "leads", lead_id)


def test_only_who_decides_sees_a_lead_in_quarantine(console: Dealership, signed_in: SignedIn) -> None:
    owner, sam = signed_in(), signed_in("sales", email="sam@example.com")
    lead_id, other = send_lead(console), send_lead(console, first_name="Pat")
    with console.store() as store, store.lock(DEALER) as tx:
        quarantine_lead(tx, lead_id)
        quarantine_lead(tx, other)
    assert listed(page(sam, "leads", query="?state=quarantine")) == []
    assert sam.get(f"{ROOT}/leads/{lead_id}").status_code == 404
    assert listed(page(owner, "leads", query="?state=quarantine")) == [other, lead_id]
    assert "It waits in quarantine" in page(owner, "leads", lead_id)
    released = owner.post(f"{ROOT}/leads/{lead_id}/release")
    assert released.headers["location"].endswith("said=lead-released")
    assert owner.post(f"{ROOT}/leads/{lead_id}/release").status_code == 409
    assert owner.post(f"{ROOT}/leads/{other}/refuse", {"reason": ""}).status_code == 422
    assert owner.post(f"{ROOT}/leads/{other}/refuse", {"reason": "Not a person"}).status_code == 303
    assert sam.get(f"{ROOT}/leads/{lead_id}").status_code == 200
    with console.store() as store:
        review = read(store, DEALER, read_review, lead_id)
    assert review is not None
    assert (review.quarantine, review.decided_by) == ("released", "owner@example.com")


def test_an_export_has_no_formulas_and_is_recorded(console: Dealership, signed_in: SignedIn) -> None:
    owner = signed_in()
    lead_id = send_lead(console, last_name=FORMULA, message=FORMULA)
    send_lead(console, rooftop=SOUTH, first_name="Pat")
    whole = owner.post(f"{ROOT}/leads/export", {"format": "csv", "agent": "anonymous"})
    assert whole.headers["content-disposition"].startswith('attachment; filename="leads-')
    rows = list(csv.DictReader(io.StringIO(whole.content.decode("utf-8-sig"))))
    assert [row["first_name"] for row in rows] == ["Jordan", "Pat"]
    assert rows[0]["last_name"] == rows[0]["message"] == f"'{FORMULA}"
    one = owner.post(f"{ROOT}/leads/export", {"format": "json", "lead": lead_id}).json()
    assert len(one) == 1
    assert [(each.action, each.leads) for each in accesses(console)] == [
        ("console: export as json", 1),
        ("console: export as csv", 2),
    ]
    assert owner.post(f"{ROOT}/leads/export", {"format": "exe"}).status_code == 422
    assert owner.post(f"{ROOT}/leads/export", {"format": "csv", "state": "sent"}).status_code == 422


def test_a_customer_is_erased_after_a_page_that_says_what_is_kept(console: Dealership, signed_in: SignedIn) -> None:
    owner, lead_id = signed_in(), send_lead(console)
    owner.post(f"{ROOT}/leads/{lead_id}/note", {"text": "Calls back on Monday"})
    asked = page(owner, "leads", lead_id, "erase")
    assert "16 CFR 314.4" in asked
    assert "Jordan Sample" in asked
    assert owner.post(f"{ROOT}/leads/{lead_id}/erase").status_code == 422, "the box was not ticked"
    erased = owner.post(f"{ROOT}/leads/{lead_id}/erase", {"sure": "yes"})
    assert "The customer is erased" in erased.text
    assert "Proof of consent" in erased.text
    shown = page(owner, "leads", lead_id)
    assert "Jordan" not in shown
    assert "Calls back" not in shown
    with console.store() as store:
        assert [note.text for note in read(store, DEALER, notes_of, lead_id)] == [None]
    assert owner.post(f"{ROOT}/leads/{lead_id}/note", {"text": "More"}).status_code == 422
    assert owner.get(f"{ROOT}/leads/{lead_id}/erase").status_code == 422
    assert "console: customer erased" in {each.action for each in accesses(console)}


def test_a_lead_that_is_not_there_looks_like_one_of_another_rooftop(console: Dealership, signed_in: SignedIn) -> None:
    sam, north = signed_in("sales", rooftops=(SOUTH,)), send_lead(console)
    unknown = sam.get(f"{ROOT}/leads/01KE7AQ2N0V5X3J8R6T4Y9W1ZA")
    other = sam.get(f"{ROOT}/leads/{north}")
    assert (unknown.status_code, unknown.text) == (other.status_code, other.text)


def test_the_time_line_says_what_the_agent_did(console: Dealership, signed_in: SignedIn) -> None:
    lead_id = send_lead(console)
    done = AgentChange("cancelled", "01KE7AQ2N0V5X3J8R6T4Y9W1ZX", f"Bought another {HOSTILE}")
    with console.store() as store, store.write(DEALER) as tx:
        append_to_lead(tx, lead_id, msgspec.json.encode(Addition(by_agent=done)))
    shown = page(signed_in(), "leads", lead_id)
    assert "The agent cancelled the visit" in shown
    assert "Bought another" in shown
    assert "<script>" not in shown
