"""The page of today: what needs a person, leads that wait, and the visits of the day."""

from datetime import UTC, datetime

import pytest
from tests.console.browsers import DEALER, ROOT
from tests.console.conftest import SignedIn
from tests.console.filled import NORTH, SOUTH, page, send_lead
from tests.server.dealership import Dealership
from tests.storage.calls import lock_at

from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.storage.deliveries.outbox import enqueue, get_delivery, suspend_deliveries
from dealer_agent.storage.leads.quarantine import quarantine_lead

pytestmark = pytest.mark.outside_protocol("console")


def test_a_lead_waits_until_somebody_marks_it(console: Dealership, signed_in: SignedIn) -> None:
    sam, lead_id = signed_in("sales"), send_lead(console)
    shown = page(sam)
    assert "(1 in 7 days)" in shown
    assert "J. S." in shown
    assert "Jordan" not in shown
    marked = sam.post(f"{ROOT}/leads/{lead_id}/mark", {"mark": "reached", "back": "today"})
    assert marked.headers["location"] == f"{ROOT}?said=lead-marked"
    assert "(0 in 7 days)" in page(sam, query="?said=lead-marked")


def test_an_undeliverable_lead_is_tried_again_with_one_button(console: Dealership, signed_in: SignedIn) -> None:
    sam, lead_id = signed_in("sales"), send_lead(console)
    with console.store() as store, store.lock(DEALER) as tx:
        (delivery_id,) = enqueue(tx, lead_id, [NewDelivery("lead", NORTH, "crm")])
        suspend_deliveries(tx, "held for a test")
    shown = page(sam)
    assert "Leads that could not be delivered" in shown
    assert f'action="{ROOT}/leads/{lead_id}/retry"' in shown
    assert "Leads did not reach" in shown or "crm" in shown
    tried = sam.post(f"{ROOT}/leads/{lead_id}/retry", {"back": "today"})
    assert tried.headers["location"] == f"{ROOT}?said=tried-again"
    with console.store() as store, store.read(DEALER) as tx:
        delivery = get_delivery(tx, delivery_id)
    assert delivery is not None
    # The service may have tried it already, and has no such channel.
    assert (delivery.state, delivery.problem) != ("undeliverable", "held for a test")


def test_who_decides_sees_what_waits_in_quarantine(console: Dealership, signed_in: SignedIn) -> None:
    lead_id = send_lead(console)
    with console.store() as store:
        lock_at(datetime.now(UTC), store, DEALER, quarantine_lead, lead_id)
    assert "1 lead waits in quarantine" in page(signed_in("manager"))
    assert "in quarantine" not in page(signed_in("sales"))


def test_nobody_sees_the_leads_of_other_rooftops(console: Dealership, signed_in: SignedIn) -> None:
    lead_id = send_lead(console)
    assert lead_id in page(signed_in("manager"))
    shown = page(signed_in("sales", rooftops=(SOUTH,)))
    assert lead_id not in shown
    assert "(0 in 7 days)" in shown


def test_a_viewer_sees_no_visits_and_no_links_to_leads(console: Dealership, signed_in: SignedIn) -> None:
    lead_id = send_lead(console)
    shown = page(signed_in("viewer"))
    assert "Visits of the day" not in shown
    assert lead_id not in shown


def test_the_menu_has_no_holds_without_offers(signed_in_there: SignedIn) -> None:
    assert f"{ROOT}/holds" not in page(signed_in_there())


def test_the_page_polls_itself(signed_in_there: SignedIn) -> None:
    assert f'hx-get="{ROOT}" hx-trigger="every 30s" hx-select="#live"' in page(signed_in_there())
