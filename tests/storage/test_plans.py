"""What is asked for one lead reads the rows of that lead, however many others the dealer has."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import BindParameter, Delete, Select, Update, event
from sqlalchemy.sql.visitors import iterate
from tests.storage.current import make_current
from tests.storage.samples import MONDAY

from dealer_agent.storage.deliveries import outbox, sent_deliveries
from dealer_agent.storage.leads import lead_search, lead_summaries, notes, outcomes, persons, quarantine, visits
from dealer_agent.storage.leads import stored_leads as leads
from dealer_agent.storage.privacy import consents, erasure, withdrawals
from dealer_agent.storage.store import Store

KNOWN: dict[str, Any] = {
    "dealer": "ridgeline",
    "lead_id": "L1",
    "of_lead": "L1",
    "appointment_id": "A1",
    "appointment": "A1",
    "appointment_ids": ["A1"],
    "lead_ids": ["L1", "L2"],
    "kind": "test_drive",
    "now": MONDAY,
    "until": MONDAY,
    "latest": MONDAY,
    "hashes": [b"one", b"two"],
    "contact_hash": b"one",
    "one_hash": b"one",
    "other_hash": b"two",
    "most": 9,
    "granted_at": MONDAY,
    "caller": "token:T1",
    "since": MONDAY,
    "delivery_id": "D1",
    "rooftop": "North",
    "channel": "crm",
    "limit": 4,
    "skip": 0,
    "state": "waiting",
    "how": "replaced",
    "at": MONDAY,
    "month": MONDAY,
    "year": MONDAY,
    **{f"key_{number}": "L1" for number in range(4)},
    "least": 10,
    "percent": 30,
    "after_time": MONDAY,
    "after_id": "L1",
}


def parameters_of(statement: Select[Any] | Update | Delete) -> set[str]:
    """The names of what a statement wants to know; of an update not those of its columns."""
    return {
        element.key for element in iterate(statement) if isinstance(element, BindParameter) and element.key in KNOWN
    }


@pytest.mark.parametrize(
    ("statement", "found_by"),
    [
        pytest.param(consents.READ_EVENTS.statement, "lead_id=?", id="the consents of a lead"),
        pytest.param(consents.READ_CHANNELS, "lead_id=?", id="the channels that may be used"),
        pytest.param(leads.READ_EVENTS.statement, "lead_id=?", id="what was added to a lead"),
        pytest.param(visits.READ_VISITS.statement, "lead_id=?", id="the visits of a lead"),
        *(
            pytest.param(read.statement, "lead_id=?", id=f"what is delivered of several leads, {number}")
            for number, (read, _) in enumerate(
                (
                    *leads.reads_of_leads(["L1", "L2"]),
                    sent_deliveries.read_of_histories(["L1", "L2"]),
                    visits.read_of_visits(["L1", "L2"]),
                )
            )
        ),
        pytest.param(lead_summaries.READ_STATUSES, "lead_id=?", id="the visits of a page of leads"),
        pytest.param(lead_summaries.COUNT_DELIVERIES, "lead_id=?", id="the deliveries of a page of leads"),
        pytest.param(notes.READ_NOTES, "lead_id=?", id="the notes about a lead"),
        pytest.param(leads.READ_FACTS.statement, "lead_id=?", id="who may work on a lead"),
        pytest.param(
            lead_search.FIND_QUARANTINED, "ix_leads_dealer_id_quarantined_at", id="which leads wait in quarantine"
        ),
        pytest.param(lead_search.FIND_IN_STATE, "state=?", id="the leads with a delivery in a state"),
        pytest.param(visits.LIST_TIMED, "starts_at>? AND starts_at<?", id="the visits of a day"),
        pytest.param(visits.LIST_WAITING, "ix_appointments_dealer_id_created_at", id="the visits without a time"),
        pytest.param(visits.READ_SHARING, "shares=?", id="what is part of a visit"),
        pytest.param(visits.READ_VISIT, "appointment_id=?", id="one visit"),
        pytest.param(visits.STOP_SHARING, "appointment_id=?", id="a visit that goes on alone"),
        pytest.param(visits.END_VISITS, "appointment_id=?", id="the end of a visit"),
        pytest.param(visits.END_SHARING, "shares=?", id="the end of what is part of it"),
        pytest.param(visits.DELETE_PLACES, "appointment_id=?", id="its places"),
        pytest.param(visits.FIND_BOOKED, "lead_id=?", id="the visits that a customer has"),
        pytest.param(persons.FIND_LEADS_OF, "contact_hash=?", id="the leads of a person"),
        pytest.param(erasure.UNLINK, "may_be_same_person_as=?", id="what others say of a lead"),
        pytest.param(sent_deliveries.COUNT_MAILS_BEFORE, "outbox_dealer_id_lead_id_state", id="mails to an address"),
        pytest.param(withdrawals.FIND_WITHDRAWN.statement, "contact_hash=?", id="what a person withdrew"),
        pytest.param(withdrawals.FIND_EVENTS.statement, "lead_id=?", id="what a person withdrew, by the chain"),
        pytest.param(withdrawals.READ_WITHDRAWALS, "ix_consent_events_withdrawals", id="all withdrawals"),
        pytest.param(persons.FIND_NEWEST.statement, "contact_hash=?", id="the newest leads of a person"),
        pytest.param(consents.READ_EVENTS_WITH_PROOFS, "lead_id=?", id="the proof of an erased lead"),
        pytest.param(
            outcomes.COUNT_OUTCOMES, "COVERING INDEX ix_leads_dealer_id_received_at", id="what became of leads"
        ),
        pytest.param(
            outcomes.FIND_DOUBTFUL, "COVERING INDEX ix_leads_dealer_id_received_at", id="the agents whose leads are bad"
        ),
        pytest.param(outcomes.COUNT_OUTCOMES, "ix_consent_events_withdrawals", id="the leads with a withdrawal"),
        *(
            pytest.param(statement, "ix_leads_dealer_id_quarantined_at", id=f"what waits in quarantine, {number}")
            for number, statement in enumerate(
                (
                    quarantine.LIST_WAITING,
                    quarantine.LIST_WAITING_OF,
                    quarantine.FIND_WAITING_OF,
                    quarantine.COUNT_WAITING,
                    quarantine.COUNT_WAITING_OF,
                )
            )
        ),
        pytest.param(outbox.READ_WAITING, "lead_id=?", id="what of a lead still waits"),
        pytest.param(outbox.FIND_DUE.statement, "channel=?", id="what is due at a channel"),
    ],
)
def test_no_lead_makes_the_database_read_those_of_others(
    tmp_path: Path, statement: Select[Any] | Update | Delete, found_by: str
) -> None:
    """Deliveries and duplicates ask this each time, duplicates while every other lead waits."""
    url = f"sqlite:///{tmp_path}/dealer.db"
    make_current(url)
    plan: list[str] = []
    with Store.open(url) as store, store.write("ridgeline") as tx:

        @event.listens_for(tx.connection, "before_cursor_execute")
        def explain(_: Any, cursor: Any, sql: str, values: Any, *__: Any) -> None:
            plan.extend(step[3] for step in cursor.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall())

        tx.connection.execute(statement, {name: KNOWN[name] for name in parameters_of(statement)})
    assert any(found_by in step for step in plan), plan
