"""The cost of a lead does not grow with the leads of the same contact: a stranger can send thousands of them.

Costs are counted, not timed: steps of SQLite's machine, and rows that PostgreSQL reads.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy import text
from tests.skills.intake_setup import EMPTY_LOT, TOKEN, IntakeSetup, caller_with
from tests.skills.sample_dealers import CIPHER, a_lead, customer
from tests.skills.visiting import NOW, PROFILE, visit
from tests.storage.calls import read

from dealer_agent.callers import token_caller
from dealer_agent.leads.received_lead import PreparedLead, contact_points, sender_keys
from dealer_agent.leads.records import MOST_ADDITIONS
from dealer_agent.protocol.skill import LeadSubmitRequest
from dealer_agent.storage.columns import microseconds
from dealer_agent.storage.deliveries.outbox import list_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import count_mails_before
from dealer_agent.storage.leads.lead_write import WriteFunction
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.event_chain import ChainReport
from dealer_agent.storage.schema import metadata
from dealer_agent.storage.transaction import Transaction

OpenIntake = Callable[..., IntakeSetup]
MANY = 20_000
WHO = {"email": "sam@example.com", "phone": "+12025550123"}
SOON = NOW + timedelta(minutes=5)

NUMBERS = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
TEXT = {"sqlite": "printf('%s%026d', {0}, i)", "postgresql": "{0} || lpad(i::text, 26, '0')"}


def cost(tx: Transaction, work: Callable[[Transaction], object]) -> int:
    """What the database does for `work`; a refusal is a response, too."""
    if tx.connection.dialect.name == "sqlite":
        steps = [0]
        raw: Any = tx.connection.connection.driver_connection

        def count() -> int:
            steps[0] += 10
            return 0

        raw.set_progress_handler(count, 10)
        try:
            work(tx)
        finally:
            raw.set_progress_handler(None, 0)
        return steps[0]
    read = text(
        "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables "
        "WHERE schemaname = current_schema()"
    )
    before = tx.connection.execute(read).scalar_one()
    work(tx)
    return int(tx.connection.execute(read).scalar_one() - before)


def job_of(at: IntakeSetup, lead: dict[str, Any], token: str | None) -> WriteFunction[Any]:
    plain = lead | {"consent": lead["consent"] | {"granted_at": "2026-03-01T00:00:00Z"}}
    typed = msgspec.convert(plain, LeadSubmitRequest)
    return at.intake.write_of_lead(PreparedLead.of(typed, plain, caller_with(token), b""), EMPTY_LOT, SOON)


def fill(at: IntakeSetup, found_by: list[str], token: str | None) -> None:
    """Leads that have all of `found_by` in common, each with a consent, a withdrawal, a visit and a mail."""
    hashes = {
        f"hash_{number}": CIPHER.hash(each, "lead_contacts", "contact_hash", "ridgeline")
        for number, each in enumerate(found_by)
    }
    values = {"at": microseconds(NOW), "caller": token and token_caller(token).identity, "words": b"[]", **hashes}
    with at.store.write("ridgeline") as tx:
        word = TEXT[tx.connection.dialect.name].format
        lead_id, visit_id, delivery_id = word("'L'"), word("'A'"), word("'D'")
        statements = [
            f"INSERT INTO leads (dealer_id, lead_id, received_at, used_at, status, rooftop, caller) {NUMBERS} "
            f"SELECT 'ridgeline', {lead_id}, :at + i, :at + i, 'received', '', :caller FROM n",
            *(
                "INSERT INTO lead_contacts (dealer_id, contact_hash, vehicle_key, received_at, lead_id, contact) "
                f"{NUMBERS} SELECT 'ridgeline', :{name}, :nothing, :at + i, {lead_id}, :words FROM n"
                for name in hashes
            ),
            "INSERT INTO consent_events (dealer_id, number, lead_id, kind, at, channels, purpose, commitment, hash) "
            f"{NUMBERS} SELECT 'ridgeline', 1000 + i, {lead_id}, 'revoked', :at + i, :words, '', :words, :words FROM n",
            "INSERT INTO appointments (dealer_id, appointment_id, lead_id, rooftop, kind, status, created_at, "
            f"starts_at, ends_at, reply) {NUMBERS} SELECT 'ridgeline', {visit_id}, {lead_id}, '', 'sales', "
            "'confirmed', :at, :at + i, :at + i, :words FROM n",
            "INSERT INTO outbox (dealer_id, delivery_id, lead_id, kind, rooftop, channel, state, created_at, due_at, "
            f"attempts) {NUMBERS} SELECT 'ridgeline', {delivery_id}, {lead_id}, 'confirm', '', 'customer', 'sent', "
            ":at + i, :at + i, 1 FROM n",
        ]
        for statement in statements:
            tx.connection.execute(text(statement), values | {"nothing": b""})
        # Of all tables, ANALYZE would lock those of other tests as well.
        for table in metadata.tables:
            tx.connection.execute(text(f"ANALYZE {table}"))


@pytest.mark.both_databases
@pytest.mark.requirement("repeated-leads-bounded")
@pytest.mark.parametrize(
    ("token", "appointment"),
    [
        pytest.param(None, None, id="of strangers"),
        pytest.param(TOKEN, None, id="of one sender with a token"),
        pytest.param(TOKEN, "trade_in", id="of one sender with a token, who asks for an appraisal"),
    ],
)
def test_the_next_lead_costs_the_same_after_20_000_leads_of_the_same_contact(
    new_intake: OpenIntake, token: str | None, appointment: str | None
) -> None:
    at = new_intake(PROFILE)
    lead = a_lead(customer=customer(**WHO))
    if appointment:
        lead["appointment"] = visit(appointment_type=appointment)
    typed = msgspec.convert(lead, LeadSubmitRequest)
    known = contact_points(typed.customer)
    # Strangers have one phone number and different e-mail addresses.
    shared = known[1:] if token is None else (*known, *sender_keys(caller_with(token), typed, known))
    at.take(a_lead(customer=customer(**WHO)), NOW - timedelta(hours=20), token=token)
    costs = []
    for _ in range(2):
        # The first one has statements that are not prepared yet.
        for _ in range(2):
            work = partial(cost, work=job_of(at, lead, token))
            costs.append(at.writer.submit("ridgeline", work).result(60))
        if len(costs) == 2:
            fill(at, list(shared), token)
    assert min(costs[2:]) < 2 * max(costs[:2]) + 500, costs


@pytest.mark.both_databases
def test_the_mails_to_an_address_are_counted_at_the_same_cost(new_intake: OpenIntake) -> None:
    at = new_intake(PROFILE, confirms_by_mail=True)
    lead = a_lead(customer=customer(email=WHO["email"]))
    typed = msgspec.convert(lead, LeadSubmitRequest)
    at.take(lead, NOW, token=None)
    fill(at, [*contact_points(typed.customer)], None)
    (due, *_) = read(at.store, "ridgeline", list_deliveries, 1, channel="customer")

    def work(tx: Transaction) -> None:
        delivery: Any = due._asdict()
        asked = type("Due", (), delivery | {"tried_since": due.created_at})()
        assert count_mails_before(tx, asked, WHO["email"], None, timedelta(hours=24)) >= 5

    with at.store.read("ridgeline") as tx:
        assert cost(tx, work) < 20_000, "one step a lead would be as many"


def test_the_same_consent_is_recorded_once(new_intake: OpenIntake) -> None:
    at = new_intake(PROFILE)
    lead = a_lead(customer=customer(**WHO))
    first = at.take(lead, NOW, token=None)["lead_id"]
    for minute in range(1, 4):
        assert at.take(lead, NOW + timedelta(minutes=minute), token=None)["lead_id"] == first
    assert read(at.store, "ridgeline", verify_chain) == ChainReport(rows=1, erased=0, first_broken=None, problem=None)
    stored = read(at.store, "ridgeline", get_lead, first)
    assert stored is not None
    assert stored.lead.used_at == NOW + timedelta(minutes=3)


@pytest.mark.requirement("repeated-leads-bounded")
def test_a_lead_collects_a_bounded_number_of_consents(new_intake: OpenIntake) -> None:
    """Each later request of the sender is a new lead."""
    at = new_intake(PROFILE)
    ids = []
    for number in range(MOST_ADDITIONS + 2):
        lead = a_lead(customer=customer(**WHO))
        lead["consent"] |= {"consent_text": f"I agree, number {number}."}
        with suppress(KeyError):
            ids.append(at.take(lead, NOW, token=None)["lead_id"])
    assert ids.count(ids[0]) == MOST_ADDITIONS
    assert len(set(ids)) == 3
