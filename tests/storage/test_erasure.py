"""Forgetting a customer, on demand and by age: nothing of the person is left, and the rest still holds together."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import at_time, lock_at, read, read_at, write_at
from tests.storage.contents import everything, sealed_values, values
from tests.storage.samples import DEALER, MONDAY, NO_NOTICES, TUESDAY, WEDNESDAY, consent, first_answer, lead

from dealer_agent.dealers.routing import NewDelivery
from dealer_agent.leads.records import StoredLead, VisitRecord
from dealer_agent.storage.clock import clock_problem, confirm_clock
from dealer_agent.storage.columns import is_sealed
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.deliveries.outbox import claim, enqueue, list_deliveries, reschedule, retry_deliveries
from dealer_agent.storage.deliveries.sent_deliveries import StoredDocument, renew
from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.notes import add_note, notes_of
from dealer_agent.storage.leads.persons import find_duplicate, find_leads_of
from dealer_agent.storage.leads.stored_leads import append_to_lead, get_lead, record_lead
from dealer_agent.storage.leads.visits import busy_quarters, occupy_places, record_visit, visits_of
from dealer_agent.storage.privacy.accesses import list_accesses, log_access
from dealer_agent.storage.privacy.consents import record_consent, record_withdrawal_event, verify_chain
from dealer_agent.storage.privacy.erasure import MOST_LEADS, DisposalCounts, dispose, erase_lead
from dealer_agent.storage.schema import consent_proofs, metadata
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

HOUR = timedelta(hours=1)
SAID = {
    "Sam": ("Samantha", "sam.sample@example.com", "+12025550101", "wheelchair ramp", "my sister calls", "9 pm, please"),
    "Pat": ("Patricia", "pat.sample@example.com", "+12025550102", "two child seats", "by e-mail only", "at noon"),
}
"""What is stored of two people: name, e-mail, phone, message, consent's text, wish for the visit."""


VEHICLES = {"Sam": "vin:1hgcm82633a004352", "Pat": "vin:5j6rw2h89ll000001"}


def known(person: str, lead_id: str, at: datetime = MONDAY) -> Callable[[Transaction], None]:
    """A job that stores a lead of a person with all that can belong to one."""
    name, email, phone, message, agreed_text, wish = SAID[person]
    customer = f'{{"first_name":"{name}","last_name":"Sample","email":"{email}","phone":"{phone}"}}'.encode()
    contacts = [f"email:{email}", f"phone:{phone}"]

    def visit(status: Any, starts_at: datetime | None) -> VisitRecord:
        return VisitRecord(
            appointment_id=f"{lead_id}-{status}-{starts_at:%d}" if starts_at else f"{lead_id}-{status}",
            lead_id=lead_id,
            rooftop="Ridgeline North",
            kind="sales",
            status=status,
            created_at=at,
            starts_at=starts_at,
            ends_at=None if starts_at is None else starts_at + HOUR,
            request=f'{{"notes":"{wish}"}}'.encode(),
            reply=b'{"status":"told"}',
        )

    def job(tx: Transaction) -> None:
        first = lead(lead_id, at, customer=customer, payload=f'{{"message":"{message}"}}'.encode())
        agreed = consent(at, consent_text=agreed_text)
        record_lead(tx, first, agreed, contacts=contacts, vehicle_key=VEHICLES[person])
        append_to_lead(at_time(tx, at), lead_id, f'{{"message":"and {message}"}}'.encode())
        add_note(at_time(tx, at), lead_id, f"{name} wants {message}", by="alex@example.com")
        record_consent(tx, lead_id, consent(at, consent_text=agreed_text, customer=customer))
        record_withdrawal_event(at_time(tx, at), lead_id, ["sms"], by="Alex", reason=f"{name} called")
        reply = first_answer(lead_id, at, reply=f"Thank you, {name}".encode())
        reply(tx, lead_id)
        for each in (
            visit("confirmed", at + HOUR),
            visit("confirmed", at + timedelta(days=2)),
            visit("requested", None),
        ):
            record_visit(tx, each)
            if each.starts_at is not None:
                occupy_places(tx, each, [each.starts_at], 5)
        enqueue(at_time(tx, at), lead_id, [NewDelivery("lead", "Ridgeline North", "crm")])
        (delivery,) = [
            each for each in claim(at_time(tx, at), HOUR, ("Ridgeline North", "crm"), 9) if each.lead_id == lead_id
        ]
        renew(tx, delivery, timedelta(minutes=5), StoredDocument(f"{name} {phone}".encode()))
        reschedule(tx, delivery, at, "answered 503")

    return job


def kept(store: Store, lead_id: str) -> StoredLead:
    found = read(store, DEALER, get_lead, lead_id)
    assert found is not None
    return found


@pytest.fixture
def two(store: Store, writer: LeadWriter) -> Store:
    for person, lead_id in (("Sam", "L1"), ("Pat", "L2")):
        writer.submit(DEALER, known(person, lead_id)).result(60)
    return store


@pytest.mark.parametrize("person", SAID)
def test_what_is_stored_of_a_person_stands_nowhere_in_the_clear(two: Store, person: str) -> None:
    held = everything(two)
    assert b"L1-confirmed" in held, "this is where it would be found"
    for words in SAID[person]:
        assert words.encode() not in held


@sqlite_first()
@pytest.mark.requirement("sealed-at-rest")
@pytest.mark.parametrize("person", SAID)
def test_the_agent_is_not_in_the_clear_and_no_hash_can_be_guessed(two: Store, person: str) -> None:
    held = everything(two)
    assert b"Example Agent" not in held
    for guessed in (VEHICLES[person], '["token","L1"]', *(f"email:{words}" for words in SAID[person])):
        assert sha256(guessed.encode()).digest() not in held
        assert sha256(guessed.encode()).hexdigest().encode() not in held


def test_an_erased_customer_is_gone_to_the_last_byte(two: Store, writer: LeadWriter) -> None:
    """Not even what was sealed is left: in no row, and on SQLite neither in the file's free space nor in its WAL."""
    before = sealed_values(two)
    names = {words.encode() for words in SAID["Sam"]}
    assert lock_at(TUESDAY, two, DEALER, erase_lead, "L1", consent_too=True)
    gone = before - sealed_values(two)
    # Customer, payload, agent, addition, response, delivery, two contacts, one vehicle for both, events, visits.
    assert len(gone) == 16
    held = everything(two)
    assert not [value for value in gone if value in held]
    assert not [name for name in names if name in held]
    found = kept(two, "L1")
    assert (found.lead.customer, found.lead.payload, found.lead.erased_at) == (None, None, TUESDAY)
    assert [event.changes for event in found.events] == [None]
    assert [note.text for note in read(two, DEALER, notes_of, "L1")] == [None]
    told = {
        (event.consent_text, event.request_hash, event.customer, event.by, event.reason) for event in found.consents
    }
    assert told == {(None,) * 5}
    assert [visit.request for visit in read(two, DEALER, visits_of, "L1")] == [None] * 3


def test_every_sealed_column_of_an_erased_lead_is_empty_and_no_row_of_its_contacts_is_left(two: Store) -> None:
    """Whatever columns there are: the schema says which are sealed."""
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1", consent_too=True)
    with two.read(DEALER) as tx:
        for table in metadata.sorted_tables:
            for column in (each for each in table.columns if is_sealed(each)):
                left = text(f"SELECT count({column.name}) FROM {table.name} WHERE lead_id = :lead_id")
                assert tx.connection.execute(left, {"lead_id": "L1"}).scalar() == 0, column
                kept = tx.connection.execute(left, {"lead_id": "L2"}).scalar()
                assert (kept == 0) == (table is consent_proofs), column


@sqlite_first()
def test_erasing_one_customer_leaves_the_other_as_they_were(two: Store) -> None:
    before = kept(two, "L2")
    visits = read(two, DEALER, visits_of, "L2")
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    assert kept(two, "L2") == before
    assert read(two, DEALER, visits_of, "L2") == visits
    assert read(two, DEALER, find_leads_of, ["email:pat.sample@example.com"]) == ["L2"]


@sqlite_first()
def test_erasing_leaves_the_chain_verifiable_and_stands_in_it(two: Store) -> None:
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    assert read(two, DEALER, verify_chain) == (7, 3, None, None)
    *_, last = kept(two, "L1").consents
    assert (last.kind, last.number, last.at) == ("kept as proof", 7, TUESDAY)


@sqlite_first()
def test_a_customer_is_erased_once(two: Store) -> None:
    assert lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    assert not lock_at(WEDNESDAY, two, DEALER, erase_lead, "L1")
    assert not lock_at(WEDNESDAY, two, DEALER, erase_lead, "NONE")
    assert not lock_at(WEDNESDAY, two, "lakeside", erase_lead, "L2")
    assert kept(two, "L1").lead.erased_at == TUESDAY
    assert read(two, DEALER, verify_chain).rows == 7


@sqlite_first()
def test_an_erased_customer_is_found_by_nothing(two: Store, writer: LeadWriter) -> None:
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    contacts = ["email:sam.sample@example.com", "phone:+12025550101"]
    assert read(two, DEALER, find_leads_of, contacts) == []

    def look(tx: Transaction) -> tuple[Any, Any]:
        again = find_idempotent(at_time(tx, TUESDAY), "token", "L1")
        return find_duplicate(tx, contacts, VEHICLES["Sam"], MONDAY), again

    assert writer.submit(DEALER, look).result(60) == (None, None)


@sqlite_first()
def test_future_visits_are_cancelled_and_their_places_are_free_again(two: Store, writer: LeadWriter) -> None:
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    ended = {visit.appointment_id: visit.status for visit in read(two, DEALER, visits_of, "L1")}
    assert ended == {"L1-confirmed-02": "confirmed", "L1-confirmed-04": "cancelled", "L1-requested": "cancelled"}

    def busy(tx: Transaction) -> dict[datetime, int]:
        return busy_quarters(tx, "Ridgeline North", "sales", MONDAY, MONDAY + timedelta(days=9))

    # Left are the past visit of this lead (with one of another lead in the same quarter), and one of another lead.
    assert writer.submit(DEALER, busy).result(60) == {MONDAY + HOUR: 2, MONDAY + timedelta(days=2): 1}


@sqlite_first()
def test_nothing_of_an_erased_customer_is_sent_any_more(two: Store) -> None:
    lock_at(TUESDAY, two, DEALER, erase_lead, "L1")
    states = {
        delivery.lead_id: (delivery.state, delivery.settled_at) for delivery in read(two, DEALER, list_deliveries, 9)
    }
    assert states == {"L1": ("dropped", TUESDAY), "L2": ("waiting", None)}
    assert lock_at(WEDNESDAY, two, DEALER, retry_deliveries) == 1


DAY = timedelta(days=1)


def sent(store: Store) -> None:
    with store.write(DEALER) as tx:
        tx.connection.execute(text("UPDATE outbox SET state = 'sent'"))


def disposed(store: Store, leads_unused_since: datetime, consents_before: datetime, now: datetime) -> DisposalCounts:
    if read_at(now, store, DEALER, clock_problem):
        write_at(now, store, DEALER, confirm_clock)
    return dispose(store, DEALER, leads_unused_since=leads_unused_since, consents_before=consents_before, now=now)


YEARS = MONDAY + timedelta(days=731)
MORE_YEARS = MONDAY + timedelta(days=1827)


@sqlite_first()
def test_a_lead_is_disposed_of_after_its_last_use_and_its_consent_later(two: Store, writer: LeadWriter) -> None:
    """16 CFR 314.4(c)(6): two years after its last use; 16 CFR 310.5: five years for the consent."""
    sent(two)
    writer.submit(DEALER, lambda tx: append_to_lead(at_time(tx, TUESDAY), "L2", b"{}")).result(60)
    assert disposed(two, MONDAY, MONDAY, YEARS) == (0, 0), "used at that moment, not before it"
    assert disposed(two, TUESDAY, MONDAY, YEARS) == (1, 0)
    found = kept(two, "L1")
    assert (found.lead.customer, found.lead.payload, found.lead.erased_at) == (None, None, YEARS)
    assert [event.changes for event in found.events] == []
    assert [visit.request for visit in read(two, DEALER, visits_of, "L1")] == [None] * 3
    assert [event.consent_text for event in found.consents] == ["my sister calls", "my sister calls", None]
    assert all(event.customer is not None for event in found.consents[:2])
    assert kept(two, "L2").lead.customer is not None
    assert disposed(two, TUESDAY, MONDAY, MORE_YEARS) == (0, 0)
    assert disposed(two, TUESDAY, TUESDAY, MORE_YEARS) == (0, 1)
    assert [event.consent_text for event in kept(two, "L1").consents] == [None] * 4
    assert kept(two, "L1").consents[-1].kind == "disposed"
    assert read(two, DEALER, verify_chain) == (7, 3, None, None)


@sqlite_first()
def test_disposal_leaves_no_byte_behind(two: Store) -> None:
    sent(two)
    before = sealed_values(two)
    assert disposed(two, TUESDAY, TUESDAY, YEARS) == (2, 2)
    assert sealed_values(two) == set()
    held = everything(two)
    assert not [value for value in before if value in held]


@sqlite_first()
def test_a_person_finds_the_consent_of_a_lead_that_is_disposed_of_and_may_have_it_erased(
    two: Store, writer: LeadWriter
) -> None:
    sent(two)
    contacts = ["email:sam.sample@example.com"]
    disposed(two, TUESDAY, MONDAY, YEARS)
    assert read(two, DEALER, find_leads_of, contacts) == ["L1"]
    for vehicle in (VEHICLES["Sam"], None):
        found = writer.submit(
            DEALER,
            partial(find_duplicate, contacts=contacts, vehicle_key=vehicle, since=MONDAY),
        ).result(60)
        assert found is None, "a new request of theirs is a new lead"
    assert lock_at(YEARS + DAY, two, DEALER, erase_lead, "L1")
    assert read(two, DEALER, find_leads_of, contacts) == []
    assert kept(two, "L1").lead.erased_at == YEARS
    assert kept(two, "L1").consents[-1].kind == "kept as proof"
    assert not lock_at(YEARS + DAY, two, DEALER, erase_lead, "L1")


def test_disposal_keeps_what_the_law_requires_and_deletes_rows_that_only_served_the_leads_use(two: Store) -> None:
    """The agent and the vehicle are forgotten; additions, settled deliveries and places of past visits are deleted."""
    sent(two)
    disposed(two, TUESDAY, MONDAY, YEARS)
    assert kept(two, "L1").lead.source_agent is None
    tables = ("lead_events", "outbox", "places", "idempotency")
    with two.read(DEALER) as tx:
        assert [tx.connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() for table in tables] == [0] * 4
        vehicles = tx.connection.execute(text("SELECT vehicle_key, vehicle, contact FROM lead_contacts")).all()
    assert {(bytes(key), vehicle) for key, vehicle, _ in vehicles} == {(b"", None)}
    assert len(vehicles) == 4
    assert all(contact for _, _, contact in vehicles)


@sqlite_first()
def test_a_consent_is_kept_for_as_long_as_its_lead(two: Store) -> None:
    assert disposed(two, MONDAY, MORE_YEARS, MORE_YEARS) == (0, 0)
    assert kept(two, "L1").consents[0].consent_text == "my sister calls"


@sqlite_first()
def test_a_consent_is_as_young_as_the_last_of_its_events(two: Store) -> None:
    sent(two)
    lock_at(WEDNESDAY, two, DEALER, withdraw, "L1", ["email"], by="Alex", reason=None, profile=NO_NOTICES)
    assert disposed(two, WEDNESDAY + DAY, WEDNESDAY, YEARS) == (2, 1)
    assert disposed(two, WEDNESDAY + DAY, WEDNESDAY + DAY, YEARS) == (0, 1)


@pytest.mark.parametrize("state", ["sent", "undeliverable", "dropped"])
def test_a_lead_that_is_still_to_be_delivered_is_in_use(two: Store, state: str) -> None:
    assert disposed(two, TUESDAY, MONDAY, YEARS) == (0, 0)
    with two.write(DEALER) as tx:
        tx.connection.execute(text("UPDATE outbox SET state = :state"), {"state": state})
    assert disposed(two, TUESDAY, MONDAY, YEARS) == (2, 0)


@sqlite_first()
def test_a_lead_whose_customer_is_still_to_come_is_in_use(two: Store) -> None:
    sent(two)
    at_the_visit = MONDAY + timedelta(days=2)
    assert disposed(two, TUESDAY, MONDAY, at_the_visit) == (0, 0)
    assert disposed(two, TUESDAY, MONDAY, at_the_visit + HOUR) == (2, 0)


@sqlite_first()
def test_many_leads_are_disposed_of_a_few_at_a_time(store: Store, writer: LeadWriter) -> None:
    count = 2 * MOST_LEADS + 1

    def job(tx: Transaction) -> None:
        for number in range(count):
            first = lead(f"L{number}")
            record_lead(tx, first, consent(), contacts=["email:sam@example.com"], vehicle_key=None)

    writer.submit(DEALER, job).result(60)
    assert disposed(store, TUESDAY, TUESDAY, YEARS) == (count, count)
    assert disposed(store, TUESDAY, TUESDAY, YEARS) == (0, 0)
    assert read(store, DEALER, verify_chain) == (2 * count, count, None, None)
    assert sealed_values(store) == set()


@sqlite_first()
def test_who_finds_nothing_to_dispose_of_waits_for_no_writer_and_holds_none_up(two: Store) -> None:
    """Every worker looks once an hour, through all of a dealer's consents."""
    with two.lock(DEALER):
        assert disposed(two, MONDAY, MONDAY, MONDAY) == (0, 0)


@sqlite_first()
def test_disposal_by_age_affects_only_the_dealer_that_runs_it(two: Store) -> None:
    sent(two)
    assert dispose(two, "lakeside", leads_unused_since=YEARS, consents_before=YEARS, now=YEARS) == (0, 0)
    assert kept(two, "L1").lead.customer is not None


@sqlite_first()
def test_who_looked_stays_on_record_when_the_customer_is_erased(two: Store) -> None:
    lock_at(MONDAY, two, DEALER, log_access, "alex", "leads list", leads=2)
    lock_at(TUESDAY, two, DEALER, log_access, "alex", "leads show", lead_id="L1", leads=1)
    lock_at(TUESDAY, two, "lakeside", log_access, "kim", "leads list", leads=7)
    lock_at(WEDNESDAY, two, DEALER, erase_lead, "L1")
    looks = [
        (look.at, look.actor, look.action, look.lead_id, look.leads) for look in read(two, DEALER, list_accesses, 9)
    ]
    assert looks == [
        (TUESDAY, "alex", "leads show", "L1", 1),
        (MONDAY, "alex", "leads list", None, 2),
    ]
    assert [look.action for look in read(two, DEALER, list_accesses, 1)] == ["leads show"]


def test_a_nul_in_the_name_of_who_looked_is_stored_as_the_replacement_character(two: Store) -> None:
    lock_at(MONDAY, two, DEALER, log_access, "alex\0", "leads list", leads=2)
    (look,) = read(two, DEALER, list_accesses, 9)
    assert look.actor == "alex\ufffd"


@sqlite_first()
def test_nothing_but_the_sealed_columns_holds_the_customer(two: Store) -> None:
    """The same words again, by value: a text in another encoding would escape a search of the file."""
    told = " ".join(str(value) for value in values(two))
    for words in (*SAID["Sam"], *SAID["Pat"]):
        assert words not in told
