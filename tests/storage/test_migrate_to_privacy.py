"""From 0002, where customer data stood in the clear, to 0003: all is carried over, and nothing is left behind."""

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from tests.storage.contents import everything
from tests.storage.samples import DEALER, MONDAY, TUESDAY, VAULT, WEDNESDAY

from dealer_agent.storage import (
    DatabaseBusy,
    KeyMissing,
    Store,
    find_duplicate,
    find_idempotent,
    migrate,
)
from dealer_agent.storage.connections import database_url as parse
from dealer_agent.storage.connections import writer_engine
from dealer_agent.storage.schema import SCHEMA_REVISION, microseconds

NAMES = (
    b"Samantha",
    b"sam.sample@example.com",
    b"+12025550101",
    b"wheelchair",
    b"my sister",
    b"after nine",
    b"Patricia",
)
"""What somebody would look for in an old file: of the people below, and of one whose row was deleted long ago."""

CUSTOMER = b'{"first_name":"Samantha","email":"sam.sample@example.com","phone":"+12025550101"}'
PAYLOAD = b'{"type":"lead.submit.request","message":"a wheelchair ramp"}'
VISIT = (
    '{{"request":{{"appointment_type":"{}","notes":"after nine"}},'
    '"reply":{{"appointment_id":"{}","status":"requested"}}}}'
)
ANSWER = b'{"data":{"lead_id":"L1","status":"received"},"message":"Thank you, Samantha"}'
TEXT = "my sister calls \N{AUTOMOBILE} \0"


def fill_0002(connection: Connection, dealers: tuple[str, ...] = (DEALER,)) -> None:
    """Two leads of one customer: with visits, a duplicate's addition, three consents, an answer to a key."""

    def add(table: str, **row: Any) -> None:
        names = ", ".join(f":{name}" for name in row)
        connection.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({names})"), row)

    for dealer_id in dealers:
        add("dealers", dealer_id=dealer_id)
        for lead_id, at, visit in (
            ("L1", MONDAY, VISIT.format("showroom_visit", f"A1{dealer_id}")),
            ("L2", TUESDAY, None),
        ):
            add(
                "leads",
                dealer_id=dealer_id,
                lead_id=lead_id,
                received_at=microseconds(at),
                source_agent="Example Agent",
                status="received",
                vehicle_id="v",
                vin="V",
                stock=None,
                customer=CUSTOMER,
                payload=PAYLOAD,
                appointment=None if visit is None else visit.encode(),
            )
            for contact in ("email:sam.sample@example.com", "phone:+12025550101"):
                key = sha256(lead_id.encode()).hexdigest()
                add(
                    "lead_contacts",
                    dealer_id=dealer_id,
                    contact=contact,
                    vehicle_key=key,
                    received_at=microseconds(at),
                    lead_id=lead_id,
                )
        changes = f'{{"message":"and a wheelchair","appointment":{VISIT.format("test_drive", f"A2{dealer_id}")}}}'
        add(
            "lead_events",
            dealer_id=dealer_id,
            event_id="E1",
            lead_id="L1",
            at=microseconds(WEDNESDAY),
            changes=changes.encode(),
        )
        for number, (lead_id, at) in enumerate((("L1", MONDAY), ("L2", TUESDAY), ("L1", WEDNESDAY))):
            add(
                "consents",
                dealer_id=dealer_id,
                consent_id=f"C{9 - number}",
                lead_id=lead_id,
                received_at=microseconds(at),
                granted_at=microseconds(at) - 1,
                expires_at=microseconds(at) + 1 if number else None,
                channels=b'["email","sms"]',
                scope=b'["lead_submission"]',
                consent_text=TEXT.encode(),
                source_agent="Example Agent" if number else None,
                request_hash=sha256(lead_id.encode()).digest(),
            )
        add(
            "idempotency",
            dealer_id=dealer_id,
            fingerprint=sha256(b'["token","k"]').digest(),
            at=microseconds(MONDAY),
            payload_hash=sha256(b"payload").digest(),
            reply=ANSWER,
        )
    connection.execute(text("INSERT INTO tokens VALUES ('ridgeline', 'T1', 'desk', :hash, 7, NULL)"), {"hash": b"h"})


def at_0002(url: str, fill: Callable[[Connection], None] = fill_0002) -> None:
    """A database as the program before this one left it."""
    migrate(url, to="0002")
    engine = writer_engine(parse(url))
    if engine.dialect.name == "sqlite":
        # What this version's writer would have done with it, its predecessor did not.
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA secure_delete=OFF")
    with engine.begin() as connection:
        deleted = {"customer": b"Patricia " * 100_000}
        connection.execute(
            text(
                "INSERT INTO leads (dealer_id, lead_id, received_at, source_agent, status, customer, payload) "
                "VALUES ('gone', 'gone', 0, '', '', :customer, :customer)"
            ),
            deleted,
        )
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM leads"))
        fill(connection)
    engine.dispose()


@pytest.fixture
def carried(database_url: str) -> Any:
    at_0002(database_url)
    assert migrate(database_url, VAULT) == "0002"
    with Store.open(database_url, VAULT) as store:
        yield store


def test_leads_are_carried_over_with_all_that_belongs_to_them(carried: Store) -> None:
    assert [lead.lead_id for lead in carried.list_leads(DEALER, 9)] == ["L2", "L1"]
    found = carried.get_lead(DEALER, "L1")
    assert found is not None
    assert (found.lead.customer, found.lead.payload) == (CUSTOMER, PAYLOAD)
    assert (found.lead.received_at, found.lead.used_at, found.lead.erased_at) == (MONDAY, WEDNESDAY, None)
    assert (found.lead.vehicle_id, found.lead.vin, found.lead.stock, found.lead.rooftop) == ("v", "V", None, "")
    (added,) = found.events
    assert (added.event_id, added.at) == ("E1", WEDNESDAY)
    assert b"and a wheelchair" in (added.changes or b"")


def test_consents_become_a_chain_in_the_order_in_which_they_came(carried: Store) -> None:
    assert carried.verify_chain(DEALER) == (3, 0, None, None)
    found = carried.get_lead(DEALER, "L1")
    assert found is not None
    first, last = found.consents
    assert [(event.number, event.kind, event.at) for event in (first, last)] == [
        (1, "granted", MONDAY),
        (3, "granted", WEDNESDAY),
    ]
    assert (first.consent_text, first.request_hash, first.customer) == (TEXT, sha256(b"L1").digest(), CUSTOMER)
    assert (first.channels, first.scope, first.agent) == (("email", "sms"), ("lead_submission",), None)
    assert (last.agent, last.purpose, first.expires_at) == ("Example Agent", "", None)
    assert carried.allowed_channels(DEALER, "L1", WEDNESDAY) == {"email", "sms"}


def test_visits_that_were_asked_for_become_appointments(carried: Store) -> None:
    found = carried.appointments_of(DEALER, "L1")
    assert [(visit.appointment_id, visit.kind, visit.status, visit.created_at) for visit in found] == [
        ("A1ridgeline", "sales", "requested", MONDAY),
        ("A2ridgeline", "test_drive", "requested", WEDNESDAY),
    ]
    assert found[0].request == b'{"appointment_type":"showroom_visit","notes":"after nine"}'
    assert found[0].reply == b'{"appointment_id":"A1ridgeline","status":"requested"}'
    assert carried.appointments_of(DEALER, "L2") == []


def test_repeats_of_old_leads_are_found(carried: Store) -> None:
    contact = ["phone:+12025550101"]
    assert carried.find_leads_of(DEALER, contact) == ["L1", "L2"]
    with carried._writing() as connection:
        assert find_duplicate(connection, VAULT, DEALER, contact, "L2", MONDAY) == "L2"
        first = find_idempotent(connection, VAULT, DEALER, "token", "k", TUESDAY)
    assert first == (sha256(b"payload").digest(), ANSWER, MONDAY)


def test_an_old_lead_can_be_erased_with_its_answer(carried: Store) -> None:
    for name in ("L1", "L2"):
        assert carried.erase_lead(DEALER, name, WEDNESDAY)
    assert carried.verify_chain(DEALER) == (5, 3, None, None)
    with carried._writing() as connection:
        assert find_idempotent(connection, VAULT, DEALER, "token", "k", TUESDAY) is None


def test_old_tokens_open_the_skills(carried: Store) -> None:
    with carried._reading() as connection:
        assert connection.execute(text("SELECT token_id, purpose FROM tokens")).all() == [("T1", "skills")]


def test_nothing_is_left_in_the_clear(carried: Store) -> None:
    """Neither in a table nor, on SQLite, in free space or WAL, where rows that are long deleted stand too."""
    held = everything(carried)
    assert b"A1ridgeline" in held, "this is where it would be found"
    assert not [name for name in NAMES if name in held]
    if carried._writer.dialect.name == "postgresql":
        with carried._reading() as connection:
            tables = connection.execute(text("SELECT relname FROM pg_class WHERE relname LIKE 'old%'")).all()
        assert tables == []


def test_the_old_file_did_hold_it_in_the_clear(sqlite_url: str, tmp_path: Path) -> None:
    """So the search above finds what is there to be found."""
    at_0002(sqlite_url)
    held = b"".join(part.read_bytes() for part in tmp_path.glob("dealer.db*"))
    assert [name for name in NAMES if name not in held] == []


def test_every_dealers_leads_come_under_the_key_and_into_a_chain_of_their_own(database_url: str) -> None:
    at_0002(database_url, lambda connection: fill_0002(connection, (DEALER, "lakeside")))
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        for dealer_id in (DEALER, "lakeside"):
            assert store.check_keys(dealer_id) is VAULT
            assert store.verify_chain(dealer_id) == (3, 0, None, None)
            assert len(store.list_leads(dealer_id, 9)) == 2


def test_many_leads_are_carried_over_whole(database_url: str) -> None:
    """More than are read at a time."""

    def many(connection: Connection) -> None:
        fill_0002(connection)
        for number in range(450):
            connection.execute(
                text(
                    "INSERT INTO leads (dealer_id, lead_id, received_at, source_agent, status, customer, payload) "
                    "SELECT dealer_id, :lead_id, received_at, source_agent, status, customer, payload "
                    "FROM leads WHERE lead_id = 'L1'"
                ),
                {"lead_id": f"M{number:03}"},
            )
            connection.execute(
                text(
                    "INSERT INTO consents (dealer_id, consent_id, lead_id, received_at, granted_at, channels, scope, "
                    "consent_text, request_hash) SELECT dealer_id, :lead_id, :lead_id, received_at, granted_at, "
                    "channels, scope, consent_text, request_hash FROM consents WHERE consent_id = 'C9'"
                ),
                {"lead_id": f"M{number:03}"},
            )

    at_0002(database_url, many)
    migrate(database_url, VAULT)
    with Store.open(database_url, VAULT) as store:
        assert len(store.list_leads(DEALER, 1000)) == 452
        assert store.verify_chain(DEALER) == (453, 0, None, None)


def test_customer_data_is_not_sealed_without_a_key_and_stays_as_it_is(database_url: str) -> None:
    at_0002(database_url)
    with pytest.raises(KeyMissing, match="dealer-agent keys create"):
        migrate(database_url)
    assert migrate(database_url, VAULT) == "0002"
    with Store.open(database_url, VAULT) as store:
        assert len(store.list_leads(DEALER, 9)) == 2


def test_a_database_without_leads_needs_no_key(database_url: str) -> None:
    at_0002(database_url, lambda _: None)
    assert migrate(database_url) == "0002"


def test_a_cleaning_that_was_interrupted_is_done_at_the_next_start(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are sealed in one transaction; the file is cleaned after it, as often as it takes."""
    monkeypatch.setattr(import_module("dealer_agent.storage.migrate"), "BUSY_SECONDS", 0.05)
    at_0002(sqlite_url)
    reader = sqlite3.connect(tmp_path / "dealer.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM leads").fetchone()
    with pytest.raises(DatabaseBusy):
        migrate(sqlite_url, VAULT)
    reader.execute("ROLLBACK")
    reader.close()
    assert migrate(sqlite_url, VAULT) == SCHEMA_REVISION
    with Store.open(sqlite_url, VAULT) as store:
        assert store.verify_chain(DEALER).events == 3
        held = everything(store)
        assert not [name for name in NAMES if name in held]
