"""What is stored with a lead; duplicates and repeated keys (docs/protocol.md#duplicates). On both databases."""

from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import at_time, list_leads, of_dealer, read
from tests.storage.samples import DEALER, MONDAY, TUESDAY, WEDNESDAY, consent, first_answer, lead, storing

from dealer_agent.leads.consent_events import ConsentEvent
from dealer_agent.leads.records import StoredLead
from dealer_agent.storage.errors import AlreadyStored
from dealer_agent.storage.leads.idempotency import find_idempotent
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.persons import find_duplicate, find_leads_of
from dealer_agent.storage.leads.stored_leads import (
    append_to_lead,
    get_lead,
    record_contacts,
    record_lead,
    record_refusal,
)
from dealer_agent.storage.privacy.consents import record_consent, verify_chain
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import Transaction

MOMENT = timedelta(microseconds=1)


def stored(writer: LeadWriter, *jobs: Any) -> list[Any]:
    return [writer.submit(DEALER, job).result(60) for job in jobs]


def kept(store: Store, lead_id: str) -> StoredLead:
    found = read(store, DEALER, get_lead, lead_id)
    assert found is not None
    return found


@sqlite_first()
def test_a_lead_is_read_as_it_was_stored_with_its_consent(store: Store, writer: LeadWriter) -> None:
    full = lead("L1", source_agent="Agent \N{AUTOMOBILE}", vehicle=b'{"vin":"V"}', vehicle_id="v", vin="V", stock="S")
    agreed = consent(source_agent="Example Agent", expires_at=TUESDAY, customer=b'{"first_name":"Sam"}')

    def job(tx: Transaction) -> None:
        record_lead(tx, full, agreed, contacts=["sam@example.com"], vehicle_key="V")

    stored(writer, job)
    found = kept(store, "L1")
    assert (found.lead, found.events) == (full, ())
    assert found.consents == (
        ConsentEvent(
            number=1,
            kind="granted",
            at=MONDAY,
            lead_id="L1",
            granted_at=agreed.granted_at,
            expires_at=TUESDAY,
            channels=("email", "sms"),
            scope=("lead_submission",),
            purpose="contact about a vehicle",
            agent="Example Agent",
            consent_text=agreed.consent_text,
            request_hash=agreed.request_hash,
            customer=b'{"first_name":"Sam"}',
            by=None,
            reason=None,
        ),
    )
    assert read(store, DEALER, get_lead, "L2") is None
    assert read(store, "lakeside", get_lead, "L1") is None


@sqlite_first()
def test_a_lead_without_its_optional_parts_is_read_as_it_was_stored(store: Store, writer: LeadWriter) -> None:
    stored(writer, storing("L1"))
    assert kept(store, "L1").lead == lead("L1")


@sqlite_first()
def test_a_new_lead_was_last_used_when_it_came(store: Store, writer: LeadWriter) -> None:
    def job(tx: Transaction) -> None:
        record_lead(tx, lead("L1", used_at=None), consent(), contacts=[], vehicle_key=None)

    stored(writer, job)
    assert kept(store, "L1").lead.used_at == MONDAY


@sqlite_first()
def test_the_consent_of_a_lead_says_whose_it_is(store: Store, writer: LeadWriter) -> None:
    """The law wants the person kept with the consent, when the rest of the lead is disposed of (16 CFR 310.5)."""
    stored(writer, storing("L1"))
    assert kept(store, "L1").consents[0].customer == lead("L1").customer


@sqlite_first()
def test_text_that_one_database_cannot_keep_is_replaced_on_both(store: Store, writer: LeadWriter) -> None:
    def job(tx: Transaction) -> None:
        odd = lead("L1", source_agent="a\0b", vin="V\0")
        agreed = consent(source_agent="agent\0", purpose="to\0day")
        record_lead(tx, odd, agreed, contacts=["\0"], vehicle_key="\0" * 9000)
        first_answer("k\0" * 64, scope="\0" * 9000)(tx)

    stored(writer, job)
    found = kept(store, "L1")
    assert (found.lead.source_agent, found.lead.vin) == ("a\0b", "V\ufffd")
    assert (found.consents[0].agent, found.consents[0].purpose) == ("agent\0", "to\ufffdday")
    assert read(store, DEALER, verify_chain).problem is None


@sqlite_first()
def test_leads_are_listed_newest_first_and_page_by_page(store: Store, writer: LeadWriter) -> None:
    times = {"L1": MONDAY, "L4": MONDAY + MOMENT, "L2": TUESDAY, "L3": TUESDAY}
    stored(writer, *(storing(lead_id, at) for lead_id, at in times.items()))
    assert [each.lead_id for each in read(store, DEALER, list_leads, 10)] == ["L3", "L2", "L4", "L1"]
    assert [each.lead_id for each in read(store, DEALER, list_leads, 2)] == ["L3", "L2"]
    assert [each.lead_id for each in read(store, DEALER, list_leads, 2, before="L2")] == ["L4", "L1"]
    assert [each.lead_id for each in read(store, DEALER, list_leads, 2, before="L3")] == ["L2", "L4"]
    assert read(store, DEALER, list_leads, 2, before="L1") == []
    assert read(store, "lakeside", list_leads, 2) == []


@sqlite_first()
@pytest.mark.parametrize(
    ("contacts", "vehicle_key", "since", "found"),
    [
        pytest.param(["sam@example.com"], "V1", MONDAY, "FIRST", id="same e-mail, same vehicle"),
        pytest.param(["+12025550101"], "V1", MONDAY, "FIRST", id="same phone, same vehicle"),
        pytest.param(["new@example.com", "+12025550101"], "V1", MONDAY, "FIRST", id="one of two contacts is enough"),
        pytest.param(["new@example.com"], "V1", MONDAY, None, id="another customer"),
        pytest.param(["sam@example.com"], "V2", MONDAY, None, id="another vehicle"),
        pytest.param(["sam@example.com"], None, MONDAY, None, id="a vehicle in one of the two only"),
        pytest.param(["pat@example.com"], None, MONDAY, "GENERAL", id="no vehicle in both"),
        pytest.param(["pat@example.com"], "", MONDAY, None, id="an empty vehicle key is a key"),
        pytest.param(["sam@example.com"], "V1", MONDAY + MOMENT, None, id="the window ended"),
        pytest.param([], "V1", MONDAY, None, id="no contact"),
    ],
)
@pytest.mark.requirement("duplicate-same-token")
def test_a_duplicate_is_the_same_customer_and_the_same_vehicle_in_the_window(
    writer: LeadWriter, contacts: list[str], vehicle_key: str | None, since: Any, found: str | None
) -> None:
    stored(
        writer,
        storing("FIRST", MONDAY, ["sam@example.com", "+12025550101"], "V1"),
        storing("GENERAL", MONDAY, ["pat@example.com"], None),
    )
    assert stored(writer, lambda tx: find_duplicate(tx, contacts, vehicle_key, since)) == [found]
    assert stored(writer, lambda tx: find_duplicate(of_dealer(tx, "lakeside"), contacts, vehicle_key, since)) == [None]


@sqlite_first()
def test_a_contact_that_a_duplicate_brought_finds_the_first_lead_in_the_first_ones_window(writer: LeadWriter) -> None:
    brought = ["sam@example.com", "+12025550101"]
    stored(
        writer,
        storing("FIRST", MONDAY, ["sam@example.com"], "V1"),
        lambda tx: record_contacts(tx, lead("FIRST", MONDAY), brought, "V1"),
    )
    assert stored(writer, lambda tx: find_duplicate(tx, ["+12025550101"], "V1", MONDAY)) == ["FIRST"]
    assert stored(writer, lambda tx: find_duplicate(tx, ["+12025550101"], "V1", MONDAY + MOMENT)) == [None]


@sqlite_first()
def test_the_earliest_of_several_leads_is_the_one_that_is_repeated(writer: LeadWriter) -> None:
    stored(
        writer,
        storing("LATER", TUESDAY, ["sam@example.com"], "V1"),
        storing("EARLIER", MONDAY, ["+12025550101"], "V1"),
    )
    both = ["sam@example.com", "+12025550101"]
    assert stored(writer, lambda tx: find_duplicate(tx, both, "V1", MONDAY)) == ["EARLIER"]
    assert stored(writer, lambda tx: find_duplicate(tx, both, "V1", MONDAY + MOMENT)) == ["LATER"]


@sqlite_first()
@pytest.mark.requirement("duplicate-adds")
def test_what_a_duplicate_adds_stands_with_the_first_lead_in_order(store: Store, writer: LeadWriter) -> None:
    stored(
        writer,
        storing("L1"),
        lambda tx: append_to_lead(at_time(tx, TUESDAY), "L1", b'{"message":"second"}'),
        lambda tx: append_to_lead(at_time(tx, MONDAY), "L1", b'{"message":"first"}'),
        lambda tx: record_consent(tx, "L1", consent(TUESDAY)),
    )
    found = kept(store, "L1")
    assert [(added.at, added.changes) for added in found.events] == [
        (MONDAY, b'{"message":"first"}'),
        (TUESDAY, b'{"message":"second"}'),
    ]
    assert [agreed.at for agreed in found.consents] == [MONDAY, TUESDAY]
    assert found.lead.used_at == TUESDAY


@sqlite_first()
def test_an_addition_is_found_by_the_id_that_it_was_given(store: Store, writer: LeadWriter) -> None:
    _, event_id = stored(writer, storing("L1"), lambda tx: append_to_lead(at_time(tx, TUESDAY), "L1", b"{}"))
    assert [added.event_id for added in kept(store, "L1").events] == [event_id]
    assert kept(store, "L1").lead.used_at == TUESDAY


@sqlite_first()
def test_a_lead_was_last_used_at_the_latest_of_its_uses(store: Store, writer: LeadWriter) -> None:
    stored(writer, storing("L1", TUESDAY), storing("L2", TUESDAY))
    for at, latest in ((MONDAY, TUESDAY), (WEDNESDAY, WEDNESDAY), (TUESDAY, WEDNESDAY)):
        stored(writer, lambda tx, at=at: append_to_lead(at_time(tx, at), "L1", b"{}"))
        assert kept(store, "L1").lead.used_at == latest
    assert kept(store, "L2").lead.used_at == TUESDAY


@sqlite_first()
def test_all_leads_of_a_person_are_found_oldest_first(store: Store, writer: LeadWriter) -> None:
    stored(
        writer,
        storing("L3", WEDNESDAY, ["sam@example.com"], "V1"),
        storing("L1", MONDAY, ["sam@example.com", "+12025550101"], "V1"),
        storing("L2", TUESDAY, ["+12025550101"], None),
        storing("L4", TUESDAY, ["pat@example.com"], "V1"),
        lambda tx: record_contacts(tx, lead("L4", TUESDAY), ["+12025550102"], "V1"),
    )
    assert read(store, DEALER, find_leads_of, ["sam@example.com"]) == ["L1", "L3"]
    assert read(store, DEALER, find_leads_of, ["sam@example.com", "+12025550101"]) == ["L1", "L2", "L3"]
    assert read(store, DEALER, find_leads_of, ["+12025550102"]) == ["L4"]
    assert read(store, DEALER, find_leads_of, ["nobody@example.com"]) == []
    assert read(store, DEALER, find_leads_of, []) == []
    assert read(store, "lakeside", find_leads_of, ["sam@example.com"]) == []


@sqlite_first()
def test_nothing_is_added_to_a_lead_that_does_not_exist(store: Store, writer: LeadWriter) -> None:
    with pytest.raises(Exception, match="refused a statement"):
        stored(writer, lambda tx: append_to_lead(at_time(tx, MONDAY), "NONE", b"{}"))


@sqlite_first()
@pytest.mark.requirement("idempotency-30-days")
def test_the_first_answer_to_a_key_is_found_byte_for_byte_for_30_days(writer: LeadWriter) -> None:
    reply = bytes(range(256))
    stored(writer, storing("L1", idempotency=first_answer("k", MONDAY, reply=reply)))

    def look(now: Any, dealer: str = DEALER, scope: str = "token", key: str = "k") -> Any:
        return stored(writer, lambda tx: find_idempotent(at_time(of_dealer(tx, dealer), now), scope, key))[0]

    found = look(MONDAY)
    assert (found.payload_hash, found.reply) == (sha256(b"payload").digest(), reply)
    assert look(MONDAY + timedelta(days=30)) is not None
    assert look(MONDAY + timedelta(days=30) + MOMENT) is None
    assert look(MONDAY, scope="other token") is None
    assert look(MONDAY, key="K") is None
    assert look(MONDAY, dealer="lakeside") is None
    assert look(MONDAY, scope="toke", key="nk") is None


@sqlite_first()
@pytest.mark.requirement("idempotency-30-days")
def test_a_key_is_answered_once_in_30_days(store: Store, writer: LeadWriter) -> None:
    stored(writer, first_answer("k", MONDAY, reply=b"first"))
    with pytest.raises(AlreadyStored):
        stored(writer, storing("L1", idempotency=first_answer("k", MONDAY + timedelta(days=30))))
    assert read(store, DEALER, get_lead, "L1") is None
    later = MONDAY + timedelta(days=30) + MOMENT
    stored(writer, storing("L1", idempotency=first_answer("k", later, reply=b"again")))
    (answer,) = stored(writer, lambda tx: find_idempotent(at_time(tx, later), "token", "k"))
    assert answer.reply == b"again"


@pytest.mark.requirement("refused-not-stored")
def test_a_refused_lead_leaves_its_code_and_time_and_nothing_else(store: Store, writer: LeadWriter) -> None:
    stored(writer, lambda tx: record_refusal(at_time(tx, MONDAY), "INVALID_CONSENT"))
    rows = stored(writer, lambda c: c.execute(text("SELECT * FROM refusals")).mappings().all())[0]
    (row,) = [dict(each) for each in rows]
    refusal_id = row.pop("refusal_id")
    assert len(refusal_id) == 26
    assert row == {"dealer_id": DEALER, "code": "INVALID_CONSENT", "at": int(MONDAY.timestamp()) * 10**6 + 123456}
    assert read(store, DEALER, list_leads, 10) == []


def test_a_person_with_more_contacts_than_a_statement_can_take_is_found(store: Store, writer: LeadWriter) -> None:
    """Whoever was impersonated a thousand times can be erased all the same."""
    contacts = [f"email:sam{number}@example.com" for number in range(1_200)]
    stored(writer, storing("L2", TUESDAY, contacts[-1:]), storing("L1", MONDAY, contacts[:1]))
    assert read(store, DEALER, find_leads_of, contacts * 30) == ["L1", "L2"]
