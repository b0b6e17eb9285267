"""The proof of consent of erased customers: kept separately, found by contact point, and checked in a file."""

from base64 import b64decode, b64encode
from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import lock_at, read, read_at, reencrypt_all
from tests.storage.contents import everything, sealed_values
from tests.storage.samples import DEALER, KEYRING, MONDAY, TUESDAY, WEDNESDAY, storing
from tests.storage.test_erasure import SAID, disposed, known

from dealer_agent.encryption import Cipher, Keyring
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.leads.persons import find_leads_of
from dealer_agent.storage.leads.stored_leads import get_lead
from dealer_agent.storage.privacy.consent_evidence import BadEvidence, check_evidence, evidence_of
from dealer_agent.storage.privacy.consents import verify_chain
from dealer_agent.storage.privacy.erasure import disposable, erase_lead, newest_proof, proven_events, proven_leads
from dealer_agent.storage.privacy.event_chain import Head, commitment, heads, row_hash
from dealer_agent.storage.privacy.reencryption import values_by_key
from dealer_agent.storage.store import Store

_, EMAIL, PHONE, _, TEXT, _ = SAID["Sam"]
SAM = (f"email:{EMAIL}", f"phone:{PHONE}")
FIVE_YEARS = timedelta(days=1826)


@pytest.fixture
def erased(store: Store, writer: LeadWriter) -> Store:
    """Two customers, of whom the first is erased."""
    for person, lead_id in (("Sam", "L1"), ("Pat", "L2")):
        writer.submit(DEALER, known(person, lead_id)).result(60)
    assert lock_at(TUESDAY, store, DEALER, erase_lead, "L1")
    return store


@sqlite_first()
@pytest.mark.requirement("proof-kept")
def test_the_proof_of_an_erased_customer_is_found_by_each_contact_point(erased: Store) -> None:
    for contact in SAM:
        assert read(erased, DEALER, proven_leads, contact) == ["L1"]
    assert read(erased, DEALER, proven_leads, "email:pat.sample@example.com") == []
    assert read(erased, "lakeside", proven_leads, SAM[0]) == []
    granted, again, revoked, kept = read(erased, DEALER, proven_events, ["L1"])
    assert (granted.kind, granted.channels, granted.consent_text) == ("granted", ("email", "sms"), TEXT)
    assert again.customer is not None
    assert EMAIL in again.customer.decode()
    assert (revoked.by, revoked.reason) == ("Alex", "Samantha called")
    assert (kept.kind, kept.at, kept.consent_text) == ("kept as proof", TUESDAY, None)


@sqlite_first()
def test_nothing_but_the_proof_is_left_and_nothing_else_shows_it(erased: Store) -> None:
    stored = read(erased, DEALER, get_lead, "L1")
    assert stored is not None
    assert {(event.consent_text, event.customer, event.by) for event in stored.consents} == {(None, None, None)}
    assert read(erased, DEALER, find_leads_of, SAM) == []
    held = everything(erased)
    assert not [words for words in SAID["Sam"] if words.encode() in held]
    assert read(erased, DEALER, verify_chain) == (7, 3, None, None)


@pytest.mark.requirement("proof-kept")
def test_the_proof_is_erased_with_the_lead_or_later_on_request(erased: Store) -> None:
    before = sealed_values(erased)
    assert read(erased, DEALER, newest_proof, ["L1", "L2"]) == MONDAY
    assert lock_at(WEDNESDAY, erased, DEALER, erase_lead, "L1", consent_too=True)
    assert lock_at(WEDNESDAY, erased, DEALER, erase_lead, "L2", consent_too=True)
    assert not lock_at(WEDNESDAY, erased, DEALER, erase_lead, "L1", consent_too=True)
    assert sealed_values(erased) == set()
    assert not [value for value in before if value in everything(erased)]
    assert read(erased, DEALER, newest_proof, ["L1", "L2"]) is None
    assert read(erased, DEALER, proven_leads, SAM[0]) == []
    assert [event.kind for event in read(erased, DEALER, proven_events, ["L1"])][-2:] == ["kept as proof", "erased"]
    assert [event.kind for event in read(erased, DEALER, proven_events, ["L2"])][-1] == "erased"
    assert read(erased, DEALER, verify_chain) == (9, 6, None, None)


@sqlite_first()
@pytest.mark.requirement("proof-kept")
def test_the_proof_is_deleted_by_age(erased: Store) -> None:
    now = MONDAY + FIVE_YEARS
    with erased.read(DEALER, now) as tx:
        assert disposable(tx, leads_unused_since=MONDAY, consents_before=MONDAY).consents == 0
        assert disposable(tx, leads_unused_since=MONDAY, consents_before=TUESDAY).consents == 1
    assert disposed(erased, MONDAY, MONDAY, now).consents == 0
    assert disposed(erased, MONDAY, TUESDAY, now).consents == 1
    assert disposed(erased, MONDAY, TUESDAY, now).consents == 0
    assert read(erased, DEALER, proven_leads, SAM[0]) == []
    assert read(erased, DEALER, proven_events, ["L1"])[-1].kind == "disposed"
    assert read(erased, DEALER, verify_chain).problem is None


@sqlite_first()
def test_the_proof_outlives_a_change_of_keys(database_url: str, erased: Store) -> None:
    newer = Cipher(Keyring((("k-second", bytes(range(1, 33))), *KEYRING.keys), KEYRING.permanent))
    with Store.open(database_url, newer) as store:
        store.check_keys(DEALER)
        reencrypt_all(store, DEALER, 100)
        assert set(read(store, DEALER, values_by_key)) == {"k-second"}
    with Store.open(database_url, Cipher(Keyring(newer.keyring.keys[:1], KEYRING.permanent))) as store:
        assert read(store, DEALER, proven_leads, SAM[1]) == ["L1"]
        assert read(store, DEALER, proven_events, ["L1"])[0].consent_text == TEXT
        assert read(store, DEALER, verify_chain).problem is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM consent_proofs WHERE number = 2", "text is missing"),
        (
            "UPDATE consent_proofs SET body = (SELECT body FROM consent_events WHERE number = 4) WHERE number = 2",
            "changed",
        ),
    ],
)
def test_a_proof_that_was_changed_or_removed_in_the_database_shows(erased: Store, change: str, words: str) -> None:
    with erased.write(DEALER) as tx:
        tx.connection.execute(text(change))
    found = read(erased, DEALER, verify_chain)
    assert found.first_broken == 2
    assert found.problem is not None
    assert words in found.problem


def test_a_lead_whose_consent_was_changed_in_the_database_is_erased_without_proof(
    store: Store, writer: LeadWriter
) -> None:
    writer.submit(DEALER, known("Sam", "L1")).result(60)
    with store.write(DEALER) as tx:
        tx.connection.execute(text("UPDATE consent_events SET body = :bytes WHERE number = 1"), {"bytes": b"x" * 40})
    assert lock_at(TUESDAY, store, DEALER, erase_lead, "L1")
    assert read(store, DEALER, proven_leads, SAM[0]) == []
    assert read(store, DEALER, proven_events, ["L1"])[-1].kind == "erased"
    assert sealed_values(store) == set()


# --- A record in a file ---


def exported(store: Store, *lead_ids: str) -> list[bytes]:
    with store.read(DEALER, WEDNESDAY) as tx:
        return list(evidence_of(tx, lead_ids).lines)


@pytest.fixture
def record(erased: Store, writer: LeadWriter) -> list[bytes]:
    """The record of the erased customer; the events of another one come in between and after."""
    writer.submit(DEALER, storing("L3", WEDNESDAY, contacts=["email:kim@example.com"])).result(60)
    return exported(erased, "L1")


@sqlite_first()
@pytest.mark.requirement("consent-export")
def test_a_record_is_checked_without_the_database(erased: Store, record: list[bytes]) -> None:
    head, _ = read_at(WEDNESDAY, erased, DEALER, heads)
    found = check_evidence(record)
    assert found.events == read(erased, DEALER, proven_events, ["L1"])
    assert (found.head, found.compared) == (head._replace(at=found.head.at), 0)
    assert check_evidence(record, [head, Head(DEALER, "accesses", 3, bytes(32), WEDNESDAY)]).compared == 1


@sqlite_first()
def test_a_record_names_nobody_else(erased: Store) -> None:
    lines = exported(erased, "L2")
    told = b"\n".join(lines)
    assert SAID["Pat"][1].encode() in told
    assert not [words for words in SAID["Sam"] if words.encode() in told]
    assert [event.number for event in check_evidence(lines).events] == [4, 5, 6]


def changed(lines: list[bytes], place: int, **members: object) -> list[bytes]:
    line = msgspec.json.decode(lines[place])
    return [*lines[:place], msgspec.json.encode(line | members), *lines[place + 1 :]]


def without(lines: list[bytes], place: int, *names: str) -> list[bytes]:
    line = msgspec.json.decode(lines[place])
    return [*lines[:place], msgspec.json.encode({name: line[name] for name in line if name not in names})]


@sqlite_first()
@pytest.mark.requirement("consent-export")
def test_each_change_of_a_record_shows(record: list[bytes]) -> None:
    others: list[tuple[str, object]] = [
        ("dealer_id", "lakeside"),
        ("lead_ids", ["L2"]),
        ("lead_ids", ["L1", "L9"]),
        ("lead_ids", []),
        ("form", "another"),
    ]
    for name, value in others:
        with pytest.raises(BadEvidence):
            check_evidence(changed(record, 0, **{name: value}))
    for number in range(1, len(record)):
        line = msgspec.json.decode(record[number])
        for name, value in line.items():
            other: object = value + 1 if isinstance(value, int) else {"text": "I agree to everything."}
            if isinstance(value, str):
                other = ("B" if value.startswith("A") else "A") + value[1:]
            with pytest.raises(BadEvidence):
                check_evidence(changed(record, number, **{name: other}))
            with pytest.raises(BadEvidence):
                check_evidence([*without(record, number, name), *record[number + 1 :]])
        for fewer in ([*record[:number], *record[number + 1 :]], record[:number], [record[0], *record[number + 1 :]]):
            with pytest.raises(BadEvidence):
                check_evidence(fewer)
    for number in range(1, len(record) - 1):
        with pytest.raises(BadEvidence):
            check_evidence([*record[:number], record[number + 1], record[number], *record[number + 2 :]])
    for number in (1, 2, 3):
        with pytest.raises(BadEvidence, match=rf"event {number}: its text is missing"):
            check_evidence([*without(record, number, "body", "said"), *record[number + 1 :]])
    for broken in ([], [b"{}"], [*record, record[-1]], [record[0].replace(b"consents", b"accesses")]):
        with pytest.raises(BadEvidence):
            check_evidence(broken)


def forged(lines: list[bytes], **members: object) -> list[bytes]:
    """A record whose first event says something else, with hashes that fit: this needs no key."""
    first = msgspec.json.decode(lines[1]) | members
    if "body" in members:
        first["commitment"] = b64encode(commitment(b64decode(first["body"]))).decode()
    end, made = b"", []
    for line in (first, *map(msgspec.json.decode, lines[2:])):
        row = line | {"dealer_id": DEALER, "channels": msgspec.json.encode(line["channels"])}
        end = row_hash(row | {"commitment": b64decode(line["commitment"])}, end)
        made.append(msgspec.json.encode(line | {"hash": b64encode(end).decode()}))
    return [lines[0].replace(msgspec.json.decode(lines[0])["head"].split()[3].encode(), end.hex().encode()), *made]


FORGED: list[dict[str, object]] = [
    {"at": 10**18},
    {"granted_at": -(10**18)},
    {"expires_at": 10**30},
    {"kind": "\x1b[2J"},
    {"channels": {"email": True}},
    {"body": b64encode(b"\x91" * 100_000).decode()},
    {
        "body": b64encode(msgspec.msgpack.encode({"salt": b"1", "customer": b'{"first_name":7}'})).decode(),
        "said": {
            "at": MONDAY.isoformat(),
            "granted_at": (MONDAY - timedelta(minutes=2)).isoformat(),
            "customer": {"first_name": 7},
        },
    },
]
LINES = [b"x" * 2_000_000, b'{"said":' + b"[" * 400_000 + b"]" * 400_000 + b"}", b"\xff", b"[]"]


@sqlite_first()
def test_a_forged_record_and_a_file_of_anything_are_no_fault_of_the_program(record: list[bytes]) -> None:
    assert check_evidence(forged(record)).events
    for members in FORGED:
        with pytest.raises(BadEvidence):
            check_evidence(forged(record, **members))
    for line in LINES:
        for lines in ([line], [record[0], line]):
            with pytest.raises(BadEvidence, match=rf"line {len(lines)} "):
                check_evidence(lines)


@sqlite_first()
@pytest.mark.requirement("consent-export")
def test_a_record_that_was_written_anew_as_a_whole_shows_against_a_recorded_head(
    erased: Store, record: list[bytes]
) -> None:
    head, _ = read_at(WEDNESDAY, erased, DEALER, heads)
    with pytest.raises(BadEvidence, match="recorded as a head"):
        check_evidence(record, [head._replace(hash=bytes(32))])
