"""Both chains with a recorded head: each change in the tables shows, also when the dealer's row is put back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text
from tests.soak import sqlite_first
from tests.storage.calls import at_time, lock_at, read, read_at, write_at
from tests.storage.samples import CIPHER, DEALER, MONDAY, NO_NOTICES, TUESDAY, WEDNESDAY, consent, storing

from dealer_agent.storage.clock import confirm_clock
from dealer_agent.storage.deliveries.notices import withdraw
from dealer_agent.storage.leads.lead_writer import LeadWriter
from dealer_agent.storage.privacy.accesses import list_accesses, log_access, verify_accesses
from dealer_agent.storage.privacy.consents import record_consent, record_withdrawal_event, verify_chain
from dealer_agent.storage.privacy.erasure import purge
from dealer_agent.storage.privacy.event_chain import CHAINS, Head, by_chain, heads
from dealer_agent.storage.store import Store
from dealer_agent.storage.transaction import OneCipher, Transaction

LATER = WEDNESDAY + timedelta(days=1)


class Broken(NamedTuple):
    """What a check found."""

    first: int | None
    problem: str | None


def check(store: Store, chain: str, heads: list[Head]) -> Broken:
    recorded = by_chain(heads, DEALER)[chain]
    if chain == "consents":
        found = read(store, DEALER, verify_chain, recorded)
        return Broken(found.first_broken, found.problem)
    log = read(store, DEALER, verify_accesses, recorded)
    return Broken(log.first_broken, log.problem)


@pytest.fixture
def filled(store: Store, writer: LeadWriter) -> Store:
    """Five rows in each chain."""

    def job(tx: Transaction) -> None:
        storing("L1", contacts=["email:sam@example.com"])(tx)
        storing("L2", contacts=["email:pat@example.com"])(tx)
        record_withdrawal_event(at_time(tx, TUESDAY), "L1", ("sms",), by="Alex", reason="called us")
        record_consent(tx, "L2", consent(TUESDAY, expires_at=WEDNESDAY, source_agent="Agent"))
        record_consent(tx, "L1", consent(TUESDAY))

    writer.submit(DEALER, job).result(60)
    for number in range(5):
        at = MONDAY + timedelta(hours=number)
        lock_at(at, store, DEALER, log_access, "Alex\0", f"leads show {number}", lead_id=f"L{number}", leads=1)
    return store


def execute(store: Store, *statements: str, **values: Any) -> None:
    with store.write(DEALER) as tx:
        for statement in statements:
            tx.connection.execute(text(statement), values)


CHANGES = {
    "consents": {
        "lead_id": "CASE lead_id WHEN 'L1' THEN 'L2' ELSE 'L1' END",
        "kind": "kind || '.'",
        "at": "at + 1",
        "granted_at": "coalesce(granted_at, 0) + 1",
        "expires_at": "coalesce(expires_at, 0) + 1",
        "channels": ":bytes",
        "purpose": "purpose || '.'",
        "commitment": ":bytes",
        "hash": ":bytes",
        "body": ":bytes",
    },
    "accesses": {
        "access_id": "access_id || '.'",
        "at": "at + 1",
        "actor": "actor || '.'",
        "action": "action || '.'",
        "lead_id": "lead_id || '.'",
        "leads": "leads + 1",
        "deleted": "0",
        "deleted_head": ":bytes",
        "hash": ":bytes",
    },
}
TABLES = {"consents": "consent_events", "accesses": "accesses"}
END = {
    "consents": ("consent_events", "consent_head", "consent_seal"),
    "accesses": ("accesses", "access_head", "access_seal"),
}
chains = pytest.mark.parametrize("chain", CHAINS)


@sqlite_first()
@chains
def test_a_chain_that_nobody_touched_is_whole_and_goes_on_from_each_head(filled: Store, chain: str) -> None:
    before = read_at(LATER, filled, DEALER, heads)
    lock_at(LATER, filled, DEALER, log_access, "Kim", "leads list", leads=2)
    lock_at(LATER, filled, DEALER, withdraw, "L1", ["email"], by="Kim", reason=None, profile=NO_NOTICES)
    assert check(filled, chain, before + read_at(LATER, filled, DEALER, heads)) == (None, None)


def tampered(store: Store, chain: str, *statements: str, **values: Any) -> Broken:
    """What a check with the recorded heads finds after these statements, which are then rolled back."""
    recorded = by_chain(read_at(LATER, store, DEALER, heads), DEALER)[chain]
    verify: Callable[..., Any] = {"consents": verify_chain, "accesses": verify_accesses}[chain]
    with store._writer.connect() as connection:
        for statement in statements:
            connection.execute(text(statement), values)
        found = verify(Transaction(connection, DEALER, LATER, OneCipher(CIPHER)), recorded)
        connection.rollback()
    return Broken(found.first_broken, found.problem)


@chains
def test_each_change_of_each_column_of_each_row_shows_at_the_row(filled: Store, chain: str) -> None:
    for column, value in CHANGES[chain].items():
        for number in range(1, 6):
            change = f"UPDATE {TABLES[chain]} SET {column} = {value} WHERE number = {number}"
            found = tampered(filled, chain, change, bytes=b"x" * 32)
            assert found.problem
            # A deletion that never was moves the beginning of the log.
            assert found.first == number or column == "deleted", (column, number)
    assert check(filled, chain, read_at(LATER, filled, DEALER, heads)) == (None, None)


@chains
def test_every_column_is_covered(chain: str) -> None:
    columns = {column.name for column in CHAINS[chain].rows.columns}
    assert columns == {*CHANGES[chain], "dealer_id", "number"}


@chains
def test_each_removed_swapped_or_added_row_shows(filled: Store, chain: str) -> None:
    table = TABLES[chain]
    for number in range(1, 6):
        assert tampered(filled, chain, f"DELETE FROM {table} WHERE number = {number}").first == number
    for number in range(1, 5):
        moves = ((99, number), (number, number + 1), (number + 1, 99))
        swap = [f"UPDATE {table} SET number = {to} WHERE number = {each}" for to, each in moves]
        assert tampered(filled, chain, *swap).first == number
    names = [column.name for column in CHAINS[chain].rows.columns]
    given = ", ".join({"number": "6", "access_id": "'X'"}.get(name, name) for name in names)
    add = f"INSERT INTO {table} ({', '.join(names)}) SELECT {given} FROM {table} WHERE number = 5"
    assert tampered(filled, chain, add).first == 6


def dealers_row(store: Store, chain: str) -> dict[str, Any]:
    with store.read(DEALER) as tx:
        row = tx.connection.execute(text(f"SELECT {', '.join(END[chain])} FROM dealers")).one()
    return dict(row._mapping)


def put_back(store: Store, chain: str, row: dict[str, Any]) -> None:
    execute(store, f"UPDATE dealers SET {', '.join(f'{name} = :{name}' for name in row)}", **row)


def add_rows(store: Store, count: int) -> None:
    for _ in range(count):
        lock_at(LATER, store, DEALER, log_access, "Kim", "leads list", leads=2)
        lock_at(LATER, store, DEALER, withdraw, "L1", ["email"], by="Kim", reason=None, profile=NO_NOTICES)


@pytest.mark.requirement("recorded-head")
@chains
def test_a_truncated_chain_whose_end_was_put_back_shows_against_the_recorded_head_only(
    filled: Store, chain: str
) -> None:
    old = dealers_row(filled, chain)
    add_rows(filled, 2)
    before = read_at(LATER, filled, DEALER, heads)
    execute(filled, f"DELETE FROM {TABLES[chain]} WHERE number > 5")
    put_back(filled, chain, old)
    for first_broken in (6, 7, 7):
        assert check(filled, chain, []) == (None, None), "nothing in the database shows it"
        found = check(filled, chain, before)
        assert found.problem is not None
        assert "recorded" in found.problem
        assert found.first == first_broken
        add_rows(filled, 1)


@sqlite_first()
@pytest.mark.requirement("recorded-head")
def test_old_entries_of_the_access_log_are_deleted_and_the_rest_is_still_a_chain(filled: Store) -> None:
    early = read_at(LATER, filled, DEALER, heads)
    write_at(LATER, filled, DEALER, confirm_clock)
    before = MONDAY + timedelta(hours=3)
    purge(filled, DEALER, refusals_before=MONDAY, accesses_before=before, counts_before=before, now=LATER)
    newest, *_ = read(filled, DEALER, list_accesses, 9)
    assert (newest.actor, newest.action) == (
        "dealer-agent",
        "delete 3 entries from before 2026-03-02 out of this log, up to number 3",
    )
    assert read(filled, DEALER, verify_accesses) == (6, 3, None, None)
    assert check(filled, "accesses", [*early, *read_at(LATER, filled, DEALER, heads)]) == (None, None)


def test_entries_that_somebody_deleted_by_hand_are_no_deletion_by_age(filled: Store) -> None:
    """Though they add an entry that says so: they have no key for the end."""
    execute(
        filled,
        "UPDATE accesses SET deleted = 2, deleted_head = (SELECT hash FROM accesses WHERE number = 2) WHERE number = 5",
        "DELETE FROM accesses WHERE number <= 2",
    )
    assert read(filled, DEALER, verify_accesses).first_broken == 5


def test_an_access_log_without_its_seal_shows(filled: Store) -> None:
    execute(filled, "UPDATE dealers SET access_seal = NULL")
    assert read(filled, DEALER, verify_accesses).first_broken == 6
    add_rows(filled, 1)
    assert read(filled, DEALER, verify_accesses).first_broken == 7, "a later entry does not hide it"


@sqlite_first()
def test_a_head_is_one_line_of_text(filled: Store) -> None:
    for head in read_at(LATER, filled, DEALER, heads):
        assert Head.parse(f"{head}\n") == head._replace(at=LATER.replace(microsecond=0))
    empty, _ = read_at(LATER, filled, "lakeside", heads)
    assert str(empty).startswith("lakeside consents 0 - ")
    assert Head.parse(str(empty)).hash == b""


@pytest.mark.parametrize("line", ["", "ridgeline", "ridgeline consents 5 abc 2026-03-02T09:30:00Z", "x" * 1000])
def test_a_text_that_is_not_a_head_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not a head"):
        Head.parse(line)


def test_two_heads_that_contradict_each_other_show_that_the_record_was_written_anew() -> None:
    heads = [Head(DEALER, "consents", 5, each * 32, LATER) for each in (b"a", b"b")]
    with pytest.raises(ValueError, match="somebody rewrote the record"):
        by_chain(heads, DEALER)
