"""What became of the leads of each agent is counted by marks, withdrawals and refused mails. On both databases."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update
from tests.soak import sqlite_first
from tests.storage.calls import lock_at, read_at
from tests.storage.samples import DEALER, MONDAY, consent, lead

from dealer_agent.config.settings import DeliverySettings
from dealer_agent.dealers.routing import Kind, NewDelivery
from dealer_agent.delivery.attempt import NotDelivered, end_of_failure
from dealer_agent.leads.statuses import Mark
from dealer_agent.storage.deliveries.outbox import claim, enqueue
from dealer_agent.storage.leads.outcomes import (
    AgentOutcomes,
    Outcomes,
    doubtful_agents,
    note_bounce,
    outcomes_of_agents,
    set_mark,
)
from dealer_agent.storage.leads.stored_leads import record_lead
from dealer_agent.storage.privacy.consents import record_withdrawal_event
from dealer_agent.storage.schema import leads
from dealer_agent.storage.statements import of_lead
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

pytestmark = pytest.mark.outside_protocol("what became of leads")

AGENT = "https://agent.example"
LAST_WEEK, LAST_SPRING, LONG_AGO = (MONDAY - timedelta(days=days) for days in (7, 300, 400))


def add(
    store: Store,
    lead_id: str,
    caller: str | None = AGENT,
    at: datetime = LAST_WEEK,
    *,
    mark: Mark | None = None,
    bounced: bool = False,
    withdrawn: bool = False,
) -> None:
    """Stores a lead, and what became of it."""

    def job(tx: Transaction) -> None:
        record_lead(tx, lead(lead_id, at, caller=caller), consent(at), contacts=[f"{lead_id}@x"], vehicle_key=None)
        if mark is not None:
            assert set_mark(tx, lead_id, mark, by="kim")
        if bounced:
            note_bounce(tx, lead_id)
        if withdrawn:
            record_withdrawal_event(tx, lead_id, ["email"], by="kim", reason=None)

    lock_at(at, store, DEALER, job)


def test_the_leads_of_each_agent_are_counted_over_a_month_and_a_year(store: Store) -> None:
    add(store, "L1", mark="reached")
    add(store, "L2", mark="sold", withdrawn=True)
    add(store, "L3", mark="spam", bounced=True)
    add(store, "L4", at=LAST_SPRING, mark="wrong")
    add(store, "L5", at=LONG_AGO, mark="wrong")
    add(store, "L6", caller=None)
    add(store, "L7", caller="token:T1", bounced=True)
    month = Outcomes(leads=3, reached=1, spam=1, sold=1, withdrawn=1, bounced=1)
    assert read_at(MONDAY, store, DEALER, outcomes_of_agents) == {
        AGENT: AgentOutcomes(month, month._replace(leads=4, wrong=1)),
        None: AgentOutcomes(Outcomes(leads=1), Outcomes(leads=1)),
        "token:T1": AgentOutcomes(Outcomes(leads=1, bounced=1), Outcomes(leads=1, bounced=1)),
    }


@sqlite_first()
def test_another_mark_replaces_the_first_and_no_mark_is_set_on_an_unknown_lead(store: Store) -> None:
    add(store, "L1", mark="spam")
    assert lock_at(MONDAY, store, DEALER, set_mark, "L1", "sold", by="lee")
    assert not lock_at(MONDAY, store, DEALER, set_mark, "L2", "sold", by="lee")
    found = read_at(MONDAY, store, DEALER, outcomes_of_agents)[AGENT].month
    assert (found.spam, found.sold) == (0, 1)


@pytest.mark.parametrize(
    ("bad", "good", "percent", "is_doubtful"),
    [(3, 7, 30, True), (3, 8, 30, False), (3, 6, 30, False), (10, 0, 100, True), (9, 1, 100, False), (0, 10, 1, False)],
)
def test_an_agent_is_doubtful_from_ten_leads_and_the_percentage_on(
    store: Store, bad: int, good: int, percent: int, is_doubtful: bool
) -> None:
    for number in range(bad + good):
        add(store, f"L{number}")
        add(store, f"A{number}", caller=None)
        add(store, f"O{number}", at=LAST_SPRING)

    def make_bad(tx: Transaction) -> None:
        """A lead that is bad in two ways is one bad lead."""
        for number in range(bad):
            ways: list[dict[str, Any]] = [{"mark": "spam"}, {"mark": "wrong"}, {"bounced_at": tx.now}]
            marked = ways[number % 3]
            for lead_id in (f"L{number}", f"A{number}", f"O{number}"):
                tx.execute(update(leads).where(of_lead(leads)).values(marked), {"of_lead": lead_id})
        if bad:
            tx.execute(update(leads).where(of_lead(leads)).values(mark="spam", bounced_at=tx.now), {"of_lead": "L0"})

    lock_at(MONDAY, store, DEALER, make_bad)
    assert read_at(MONDAY, store, DEALER, doubtful_agents, 10, percent).keys() == ({AGENT} if is_doubtful else set())


@sqlite_first()
@pytest.mark.parametrize(
    ("failure", "kind", "bounced"),
    [
        (NotDelivered("refused (550)", channel_failed=False, permanent=True), "confirm", 1),
        (NotDelivered("refused (550)", channel_failed=False, permanent=True), "lead", 0),
        (NotDelivered("the mail server refused from_address (550)", permanent=True), "confirm", 0),
        (NotDelivered("busy (450)", channel_failed=False), "confirm", 0),
    ],
)
def test_a_mail_to_the_customer_that_is_refused_for_good_counts_against_the_sender(
    store: Store, failure: NotDelivered, kind: Kind, bounced: int
) -> None:
    add(store, "L1")
    lock_at(MONDAY, store, DEALER, enqueue, "L1", [NewDelivery(kind, "North", "customer")])
    (delivery,) = lock_at(MONDAY, store, DEALER, claim, timedelta(minutes=5), ("North", "customer"), 1)
    end = end_of_failure(delivery, DeliverySettings(give_up_after_hours=720), failure)
    lock_at(MONDAY, store, DEALER, lambda tx: end.store(tx, delivery))
    assert read_at(MONDAY, store, DEALER, outcomes_of_agents)[AGENT].month.bounced == bounced
